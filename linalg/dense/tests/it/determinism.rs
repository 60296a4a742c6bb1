//! Bitwise identical results for any number of workers, policy and window, recorded or not.

use std::time::Duration;

use crate::common::*;
use zellige_dense::{RectTiled, Rule, SharedPolicy, SymmetricTiled, TileGrid, cholesky, solve};
use zellige_runtime::{Bindings, Emulated, Runtime, Submit};
use zellige_tests::every;

const N: usize = 160;
const M: usize = 24;

struct Case {
    a: Vec<f64>,
    b: Vec<f64>,
    grid: TileGrid,
    rows: TileGrid,
    policy: SharedPolicy,
}

impl Case {
    fn new(rule: &str) -> Case {
        Case {
            a: graded(random_spd(N, 1.0, 20), N, 1e-2),
            b: random_rect(M, N, 21),
            grid: TileGrid::from_edges([0, 7, 32, 64, 65, 100, 128, 160]).unwrap(),
            rows: TileGrid::uniform(M, 10).unwrap(),
            policy: rule.parse::<Rule>().unwrap().into(),
        }
    }

    fn matrices<S: Submit>(&self, s: &S) -> (SymmetricTiled<f32>, RectTiled<f32>) {
        (
            SymmetricTiled::new(s, self.grid.clone()),
            RectTiled::new(s, "B", self.rows.clone(), self.grid.clone()),
        )
    }

    fn submit<S: Submit>(&self, s: &S, a: &SymmetricTiled<f32>, b: &RectTiled<f32>) -> [u64; 2] {
        a.fill(s, &dense32(&self.a, N)).unwrap();
        b.fill(s, &dense32(&self.b, M)).unwrap();
        let factor = cholesky(s, a, &self.policy).unwrap();
        let solution = solve(s, a, b, &self.policy).unwrap();
        [factor.counts().total(), solution.counts().total()]
    }

    fn bits(&self, rt: &Runtime, a: &SymmetricTiled<f32>, b: &RectTiled<f32>) -> Vec<u32> {
        let mut all = a.gather(rt).unwrap();
        all.extend(b.gather(rt).unwrap());
        all.into_iter().map(f32::to_bits).collect()
    }

    fn run(&self, rt: &Runtime) -> Vec<u32> {
        let (a, b) = self.matrices(rt);
        self.submit(rt, &a, &b);
        self.bits(rt, &a, &b)
    }
}

#[test]
fn bits_do_not_depend_on_the_schedule() {
    let rules = [
        "hp1:band=2",
        "hp2",
        "hp3:band=3",
        "x3",
        "hp1:tile=1e-1",
        "hp1:operand=1e-2",
        "hp1:operand=1e-2,else=x3",
        "fp8:operand=1e-2,else=hp1,panel=x3",
        "tf32,panel=tf32",
    ];
    for (m, rule) in rules.into_iter().enumerate() {
        let case = Case::new(rule);
        let expected = case.run(&runtime(1, "eager"));
        assert_ne!(expected, Case::new("fp32").run(&runtime(1, "eager")), "{rule}");
        for (n, workers) in [1, 2, 5].into_iter().enumerate() {
            let step = every(3);
            for (policy, _) in zellige_runtime::sched::POLICIES.into_iter().skip((n + m) % step).step_by(step)
            {
                for window in [7, 8192] {
                    let rt = Runtime::builder()
                        .workers(workers)
                        .policy(policy)
                        .window(window)
                        .trace(workers == 2)
                        .build()
                        .unwrap();
                    let got = case.run(&rt);
                    assert!(got == expected, "{rule}: {workers} workers, {policy}, window {window}");
                }
            }
        }
    }
}

/// Tiles travel to devices that hold a fraction of the matrix, in whatever form a product asks for,
/// and come back.
#[test]
fn bits_do_not_depend_on_devices() {
    for rule in [
        "fp32",
        "hp1:band=2",
        "hp2",
        "hp3:band=3",
        "x3",
        "hp1:operand=1e-2,else=x3",
        "fp8:band=3,else=hp1,panel=x3",
    ] {
        let case = Case::new(rule);
        let expected = case.run(&runtime(1, "eager"));
        let (mut evictions, mut conversions) = (0, 0);
        for (n, (policy, _)) in zellige_runtime::sched::POLICIES.into_iter().enumerate() {
            // Three tiles of 36 x 36 in f32, and a little.
            let device = |seed| Emulated::new(16_000).late(seed, Duration::from_micros(40));
            let builder =
                Runtime::builder().workers(1 + n % 2).policy(policy).device(device(1)).device(device(2));
            let builder = if n % 3 == 0 { builder.peers(5e9) } else { builder };
            let rt = builder.build().unwrap();
            assert!(case.run(&rt) == expected, "{rule}: {policy}");
            for node in rt.memory() {
                evictions += node.evictions;
                conversions += node.conversions;
            }
        }
        assert!(evictions > 100, "{rule}: {evictions}");
        assert_eq!(conversions > 0, rule != "fp32", "{rule}: {conversions}");
    }
}

#[test]
fn bits_do_not_depend_on_recording() {
    for rule in ["hp1:band=2", "hp2", "hp1:operand=1e-2,else=x3", "hp1:tile=1e-1"] {
        let case = Case::new(rule);
        let expected = case.run(&runtime(1, "eager"));
        let rt = runtime(2, "lws");
        let (a, b) = case.matrices(&rt);
        let graph = rt
            .record(|g| {
                case.submit(g, &a, &b);
                Ok::<(), zellige_runtime::Error>(())
            })
            .unwrap();
        for _ in 0..3 {
            let task = rt.replay(&Bindings::recorded(&graph)).unwrap();
            rt.wait(&task).unwrap();
            assert!(case.bits(&rt, &a, &b) == expected, "{rule}");
        }
    }
}

#[test]
fn a_replay_reports_lost_definiteness_and_can_run_again() {
    let rt = runtime(2, "lws");
    let grid = TileGrid::uniform(64, 16).unwrap();
    let mut values = random_spd(64, 1.0, 22);
    let a = SymmetricTiled::<f32>::generate(&rt, grid, &dense32(&values, 64)).unwrap();
    let policy: SharedPolicy = "hp1:operand=1e-1".parse::<Rule>().unwrap().into();
    let graph = rt.record(|g| cholesky(g, &a, &policy).map(|_| ())).unwrap();
    let replay = |rt: &Runtime| {
        let task = rt.replay(&Bindings::recorded(&graph)).unwrap();
        rt.wait(&task).map_err(zellige_dense::Error::from)
    };
    replay(&rt).unwrap();
    values[40 + 40 * 64] = -1.0;
    a.fill(&rt, &dense32(&values, 64)).unwrap();
    let lost = replay(&rt).unwrap_err();
    assert_eq!(lost.not_positive_definite().unwrap().row, 40);
    values[40 + 40 * 64] = 3.0;
    a.fill(&rt, &dense32(&values, 64)).unwrap();
    replay(&rt).unwrap();
}
