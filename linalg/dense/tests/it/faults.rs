//! A factorisation while devices fail, are full, or hang on slow links: the right bits or an error
//! that names the device.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::common::*;
use zellige_dense::{Rule, SharedPolicy, SymmetricTiled, Tile, TileGrid, cholesky};
use zellige_kernels::StorageFormat;
use zellige_runtime::sched::{POLICIES, Policy, ReadyTask, SchedView, TaskQueue, Wake};
use zellige_runtime::{Emulated, Runtime, RuntimeBuilder, Submit, Trace, read};
use zellige_tests::every;

/// Bytes of the devices that are too small for the matrix of 38 KiB: four of its largest tiles.
const FEW: u64 = 10_000;

/// Returns the builder of a runtime with a time limit for hangs.
fn builder(cpus: usize, policy: &str) -> RuntimeBuilder {
    let patience = Some(Duration::from_secs(20));
    Runtime::builder().workers(cpus).policy(policy).bind(false).watchdog(patience).on_stall(|text| {
        eprintln!("stalled: {text}");
        std::process::abort();
    })
}

/// The bits of a tile and of the norm that it carries.
type Bits = (Vec<u32>, u64);

fn bits(tile: &Tile<f32>) -> Bits {
    let wide = tile.to_storage(StorageFormat::F32).expect("f16 can be widened");
    (wide.as_slice().unwrap().iter().map(|x| x.to_bits()).collect(), tile.norm().to_bits())
}

/// Outcome of each tile: its bits, or the text of the error.
type Tiles = Vec<Result<Bits, String>>;

/// Numbers of correct tiles and of lost tiles.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Fate {
    right: usize,
    lost: usize,
}

/// A matrix, the options of its factorisation, and the results without faults.
struct Case {
    name: String,
    values: Vec<f64>,
    grid: TileGrid,
    policy: SharedPolicy,
    matrix: Vec<Bits>,
    factor: Vec<Bits>,
}

impl Case {
    fn new(rule: &str, edges: &[usize]) -> Case {
        let n = *edges.last().unwrap();
        let mut case = Case {
            name: rule.into(),
            values: graded(random_spd(n, 1.0, 31), n, 1e-1),
            grid: TileGrid::from_edges(edges).unwrap(),
            policy: rule.parse::<Rule>().unwrap().into(),
            matrix: Vec::new(),
            factor: Vec::new(),
        };
        let rt = runtime(1, "eager");
        let a = case.generate(&rt);
        case.matrix = tiles(&rt, &a).into_iter().map(Result::unwrap).collect();
        case.submit_factor(&rt, &a);
        case.factor = tiles(&rt, &a).into_iter().map(Result::unwrap).collect();
        case
    }

    /// Returns a case of 6 x 6 tiles of 16 to 24.
    fn uneven(rule: &str) -> Case {
        Case::new(rule, &[0, 24, 40, 64, 84, 104, 120])
    }

    /// Returns a case of 6 x 6 tiles of 24.
    fn even(rule: &str) -> Case {
        Case::new(rule, &[0, 24, 48, 72, 96, 120, 144])
    }

    fn generate(&self, rt: &Runtime) -> SymmetricTiled<f32> {
        let a = SymmetricTiled::new(rt, self.grid.clone());
        self.fill(rt, &a);
        a
    }

    fn fill(&self, rt: &Runtime, a: &SymmetricTiled<f32>) {
        a.fill(rt, &dense32(&self.values, self.grid.len())).unwrap();
    }

    fn submit_factor(&self, rt: &Runtime, a: &SymmetricTiled<f32>) {
        cholesky(rt, a, &self.policy).unwrap();
    }

    fn run(&self, rt: &Runtime) -> (SymmetricTiled<f32>, Tiles) {
        let a = self.generate(rt);
        self.submit_factor(rt, &a);
        let tiles = tiles(rt, &a);
        (a, tiles)
    }

    /// Checks that every tile has these bits or an error that names one of the devices.
    #[track_caller]
    fn judge(&self, got: &Tiles, want: &[Bits], devices: &[&str], context: &str) -> Fate {
        let mut fate = Fate::default();
        assert_eq!(got.len(), want.len());
        for (at, (got, want)) in got.iter().zip(want).enumerate() {
            match got {
                Ok(got) => {
                    assert!(got == want, "{} {context}: tile {at} has other bits", self.name);
                    fate.right += 1;
                }
                Err(text) => {
                    let named = devices.iter().any(|name| text.contains(&format!("{name} failed")));
                    assert!(named, "{} {context}: tile {at}: {text}", self.name);
                    fate.lost += 1;
                }
            }
        }
        fate
    }

    /// Checks that no tile is lost.
    #[track_caller]
    fn is_right(&self, got: &Tiles, context: &str) {
        let fate = self.judge(got, &self.factor, &[], context);
        assert_eq!(fate.right, self.factor.len(), "{} {context}", self.name);
    }

    /// Factors the matrix once more: in the same handles, failures and all, or in others.
    fn again(&self, rt: &Runtime, a: &SymmetricTiled<f32>, same: bool) -> Tiles {
        if !same {
            return self.run(rt).1;
        }
        self.fill(rt, a);
        self.submit_factor(rt, a);
        tiles(rt, a)
    }

    /// Factors the matrix until something is lost, but at most twice, and then once more, without
    /// the device.
    #[track_caller]
    fn run_until_lost(&self, rt: &Runtime, device: &str, same: bool, context: &str) -> Vec<Fate> {
        let (a, got) = self.run(rt);
        let mut fates = vec![self.judge(&got, &self.factor, &[device], context)];
        if fates[0].lost == 0 {
            // It has not failed, or nothing was only there.
            let got = self.again(rt, &a, same);
            fates.push(self.judge(&got, &self.factor, &[device], &format!("{context}, again")));
        }
        if fates.last().is_some_and(|fate| fate.lost > 0) {
            self.is_right(&self.again(rt, &a, same), &format!("{context}, after the loss"));
        }
        fates
    }
}

fn tiles(rt: &Runtime, a: &SymmetricTiled<f32>) -> Tiles {
    a.handles()
        .iter()
        .map(|handle| rt.read(handle).map(|tile| bits(&tile)).map_err(|error| error.to_string()))
        .collect()
}

/// Operations of the device on node `node`, whose worker is `worker`: what `fails_at` counts.
fn operations(trace: &Trace, node: u32, worker: u32) -> u64 {
    let carried = |from: u32, to: u32| from == node || (from == 0 && to == node);
    let transfers = trace.transfers.iter().filter(|t| carried(t.from, t.to)).count();
    let bodies = trace.tasks.iter().filter(|task| task.worker == worker).count();
    (transfers + bodies) as u64
}

/// Runs in which something was lost, those in which nothing was, and tiles of the former.
#[derive(Debug, Default)]
struct Tally {
    runs_right: usize,
    runs_lossy: usize,
    right_beside_lost: usize,
}

impl Tally {
    fn count(&mut self, fate: Fate) {
        if fate.lost == 0 {
            self.runs_right += 1;
        } else {
            self.runs_lossy += 1;
            self.right_beside_lost += fate.right;
        }
    }
}

#[test]
fn a_device_dies_at_every_operation() {
    let mut tally = Tally::default();
    for rule in ["fp32", "hp1:band=2", "hp1:operand=1e-2,else=x3"] {
        let case = Case::uneven(rule);
        for (n, (policy, _)) in POLICIES.into_iter().enumerate() {
            let make = |seed: u64, dying: Emulated| {
                let other = Emulated::new(FEW).late(seed, Duration::from_micros(10));
                let builder = builder(1 + n % 2, policy).device(dying).device(other);
                if n % 3 == 0 { builder.peers(5e9) } else { builder }
            };
            let whole = make(0, Emulated::new(FEW)).trace(true).build().unwrap();
            case.is_right(&case.run(&whole).1, policy);
            let last = operations(&whole.take_trace().unwrap(), 1, 1 + n as u32 % 2) + 10;
            drop(whole);
            // Some of the operations for each policy, and each for one of them.
            let step = every(POLICIES.len());
            for at in (n as u64 % step as u64..last).step_by(step) {
                let context = format!("{policy}, operation {at} of {last}");
                let dying = Emulated::new(FEW).late(at, Duration::from_micros(10)).fails_at(at);
                let rt = make(at, dying).build().unwrap();
                let fates = case.run_until_lost(&rt, "emulated 0", at % 2 == 0, &context);
                fates.into_iter().for_each(|fate| tally.count(fate));
            }
        }
    }
    eprintln!("{tally:?}");
    assert!(tally.runs_right > 40 && tally.runs_lossy > 40, "{tally:?}");
    assert!(tally.right_beside_lost > tally.runs_lossy, "{tally:?}");
}

/// Runs tasks on devices alone until the last of them has failed.
fn wear_out(rt: &Runtime) {
    let turn = || {
        let task = rt.task("turn").operands(()).cpu(|()| ()).on_kinds(&["emulated"]).submit().unwrap();
        rt.wait(&task)
    };
    assert!((0..200).any(|_| turn().is_err()), "they fail at their operations");
}

#[test]
fn both_devices_die() {
    let case = Case::uneven("hp1:band=2");
    let mut tally = Tally::default();
    for (n, (policy, _)) in POLICIES.into_iter().enumerate() {
        for (first, second) in [(0, 0), (3, 11), (20, 4), (17, 33), (40, 40)] {
            let cpus = (n + first as usize) % 2;
            let context = format!("{policy}, {cpus} workers, operations {first} and {second}");
            let device = |at: u64| Emulated::new(FEW).late(at, Duration::from_micros(10)).fails_at(at);
            let rt = builder(cpus, policy).device(device(first)).device(device(second)).build().unwrap();
            let both = ["emulated 0", "emulated 1"];
            for round in 0..4 {
                let (_, got) = case.run(&rt);
                tally.count(case.judge(&got, &case.factor, &both, &format!("{context}, round {round}")));
            }
            wear_out(&rt);
            let (a, got) = case.run(&rt);
            if cpus > 0 {
                case.is_right(&got, &context);
            } else {
                let fate = case.judge(&got, &case.factor, &both, &context);
                assert_eq!(fate.right, 0, "{context}: nobody is left to run anything");
                let value = rt.register(7u32);
                assert_eq!(rt.take(value).unwrap(), 7, "{context}");
            }
            assert_eq!(tiles(&rt, &a).len(), case.factor.len());
        }
    }
    assert!(tally.runs_right > 20 && tally.runs_lossy > 20, "{tally:?}");
}

#[test]
fn a_device_dies_while_the_matrix_is_generated() {
    let case = Case::uneven("fp32");
    let mut tally = Tally::default();
    for (n, (policy, _)) in POLICIES.into_iter().enumerate() {
        let step = every(3);
        for at in (n as u64 % step as u64..24).step_by(step) {
            let context = format!("{policy}, operation {at}");
            let dying = Emulated::new(FEW).late(at, Duration::from_micros(10)).fails_at(at);
            let rt =
                builder(at as usize % 2, policy).device(dying).device(Emulated::new(FEW)).build().unwrap();
            let a = case.generate(&rt);
            let fate = case.judge(&tiles(&rt, &a), &case.matrix, &["emulated 0"], &context);
            tally.count(fate);
            // The damaged matrix: the factor lacks the tiles that depend on lost ones, and no tile
            // is wrong.
            case.submit_factor(&rt, &a);
            let factor = case.judge(&tiles(&rt, &a), &case.factor, &["emulated 0"], &context);
            assert!(factor.lost >= fate.lost, "{context}: {factor:?} from {fate:?}");
            if factor.lost > 0 {
                case.is_right(&case.again(&rt, &a, true), &format!("{context}, generated anew"));
            }
        }
    }
    assert!(tally.runs_right > 15 && tally.runs_lossy > 15, "{tally:?}");
    assert!(tally.right_beside_lost > tally.runs_lossy, "{tally:?}");
}

/// Tasks that only read run on the last worker, a device, and all others on the first, a core:
/// nothing is ever only on the device.
struct ReadersApart(Mutex<[TaskQueue; 2]>);

impl Policy for ReadersApart {
    fn name(&self) -> &str {
        "readers apart"
    }

    fn push(&self, view: &SchedView<'_>, task: ReadyTask, _from: Option<usize>) -> Wake {
        let reads = task.codelet() == "probe" && view.can_run(&task, 1);
        self.0.lock().unwrap()[usize::from(reads)].push(task);
        Wake::Worker(usize::from(reads))
    }

    fn pop(&self, _view: &SchedView<'_>, worker: usize) -> Option<ReadyTask> {
        self.0.lock().unwrap()[worker].pop()
    }
}

/// Has every tile read, to note what readers find.
fn probe(rt: &Runtime, a: &SymmetricTiled<f32>, found: &Arc<Mutex<HashMap<usize, Bits>>>) {
    for (at, tile) in a.handles().iter().enumerate() {
        let found = Arc::clone(found);
        rt.task("probe")
            .operands((read(tile),))
            .cpu(move |(tile,)| drop(found.lock().unwrap().insert(at, bits(tile))))
            .submit()
            .unwrap();
    }
}

#[test]
fn nothing_is_lost_with_a_device_that_only_reads() {
    for rule in ["fp32", "hp1:operand=1e-2,else=x3"] {
        let case = Case::uneven(rule);
        let mut came = 0;
        for at in 0..90u64 {
            let context = format!("operation {at}");
            let dying = Emulated::new(FEW).late(at, Duration::from_micros(10)).fails_at(at);
            let policy = ReadersApart(Mutex::default());
            let rt = builder(1, "eager").policy_with(policy).device(dying).build().unwrap();
            let [before, after] = [(); 2].map(|()| Arc::<Mutex<HashMap<usize, Bits>>>::default());
            let a = case.generate(&rt);
            probe(&rt, &a, &before);
            case.submit_factor(&rt, &a);
            probe(&rt, &a, &after);
            case.is_right(&tiles(&rt, &a), &context);
            rt.wait_all().unwrap();
            for (found, want) in [(before, &case.matrix), (after, &case.factor)] {
                let found = found.lock().unwrap();
                let all: Tiles =
                    (0..want.len()).map(|i| found.get(&i).cloned().ok_or(String::new())).collect();
                assert_eq!(case.judge(&all, want, &[], &context).right, want.len());
            }
            came += rt.memory()[1].bytes_in;
        }
        assert!(came > 500_000, "{rule}: {came} bytes went to the device");
    }
}

#[test]
fn a_slow_link_changes_no_bit() {
    for (n, rule) in ["fp32", "hp1:band=2", "hp3:band=2"].into_iter().enumerate() {
        let case = Case::uneven(rule);
        for (policy, _) in POLICIES.into_iter().skip(n).step_by(3) {
            let slow = Emulated::new(FEW).bandwidth(1e6).latency(Duration::from_millis(2));
            let rt = builder(1, policy).device(slow).device(Emulated::new(FEW)).build().unwrap();
            case.is_right(&case.run(&rt).1, policy);
            // Repeated runs: policies that use performance models have measured now how slow the
            // transfer of operands to this device is.
            case.is_right(&case.run(&rt).1, policy);
        }
    }
}

/// Products that a worker has run.
fn products_on(trace: &Trace, worker: u32) -> usize {
    trace.tasks.iter().filter(|task| task.worker == worker && task.name == "gemm").count()
}

/// Three tiles of 24 x 24 in f32: the operands of a product.
const PRODUCT: u64 = 3 * 24 * 24 * 4;

#[test]
fn a_node_of_one_working_set_is_enough() {
    for rule in ["fp32", "hp1:band=2"] {
        let case = Case::even(rule);
        for (n, (policy, _)) in POLICIES.into_iter().enumerate() {
            let cpus = n % 2;
            let rt = builder(cpus, policy).trace(true).device(Emulated::new(PRODUCT)).build().unwrap();
            case.is_right(&case.run(&rt).1, policy);
            assert_eq!(rt.memory()[1].capacity, Some(PRODUCT));
            assert!(rt.memory()[1].peak <= PRODUCT, "{policy}: {:?}", rt.memory());
            let products = products_on(&rt.take_trace().unwrap(), cpus as u32);
            assert!(cpus > 0 || products == 20, "{rule} {policy}: {products}");
        }
    }
}

#[test]
fn a_node_one_byte_smaller_gets_no_product() {
    let case = Case::even("fp32");
    for (policy, _) in POLICIES {
        let small = Emulated::new(PRODUCT - 1);
        let rt = builder(1, policy).trace(true).device(small.clone()).build().unwrap();
        case.is_right(&case.run(&rt).1, policy);
        let trace = rt.take_trace().unwrap();
        assert_eq!([products_on(&trace, 0), products_on(&trace, 1)], [20, 0], "{policy}");

        let rt = builder(0, policy).device(small).build().unwrap();
        let (a, got) = case.run(&rt);
        let refused = |text: &String| {
            text.contains("gemm[2, 1, 0]")
                && text.contains("its 3 operands need 6912 bytes at once")
                && text.contains("emulated 0 has 6911 bytes")
        };
        let refusals = got.iter().flat_map(|tile| tile.as_ref().err());
        assert!(refusals.clone().any(refused), "{policy}: {:?}", refusals.collect::<Vec<_>>());
        // Tiles that need no product exist: the first column, and the matrix generated anew.
        assert!(got[..6].iter().zip(&case.factor).all(|(got, want)| got.as_ref() == Ok(want)), "{policy}");
        case.fill(&rt, &a);
        let fate = case.judge(&tiles(&rt, &a), &case.matrix, &[], policy);
        assert_eq!(fate.lost, 0, "{policy}");
    }
}
