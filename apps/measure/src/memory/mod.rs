//! Traffic of a factorisation when devices, or the host, hold a fraction of its matrix, compared
//! with the compulsory traffic.

mod figures;
mod traffic;

use std::path::PathBuf;
use std::time::Instant;

use schemars::JsonSchema;
use serde::Serialize;
use zellige_dense::residual::{BackwardError, estimated};
use zellige_dense::{Error, PrecisionPolicy, Rule, SharedPolicy, SymmetricTiled, Tile, TileGrid, cholesky};
use zellige_files::observe::Observer;
use zellige_kernels::StorageFormat;
use zellige_runtime::{Canceller, Emulated, Handle, NodeUse, Runtime, Trace};

pub use figures::{MemoryBenchFigures, NodeFigures, PolicyFigures, ReferenceFigures};
pub use traffic::{Traffic, load_bound};

use crate::{Watch, check, test_matrix};
use traffic::{narrowest, traffic, width};

/// Parameters of the measurement: Cholesky factorisations of one `f32` matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryBench {
    /// Order of the matrix.
    pub n: usize,
    /// Tile size.
    pub tile: usize,
    /// Precision of the products.
    pub rule: Rule,
    /// Workers for CPU cores.
    pub workers: usize,
    /// Emulated devices; there may be none if the host is limited.
    pub devices: usize,
    /// Memory of all devices together, as a share of the bytes of the lower triangle's tiles. The
    /// rest has to be elsewhere at every moment, for every schedule.
    pub share: f64,
    /// Rate of each device's link to the host, each way (bytes per second).
    pub bandwidth: f64,
    /// Memory of the host; `None` if it is not limited.
    pub host: Option<HostLimit>,
}

/// A host that holds a fraction of the matrix, with swap files on a disk.
#[derive(Clone, Debug, PartialEq)]
pub struct HostLimit {
    /// Share of the bytes of the lower triangle's tiles.
    pub share: f64,
    /// Folder of the swap files.
    pub folder: PathBuf,
}

/// The factorisation without devices, for comparison.
pub struct Reference {
    /// The tiles of the factor, column by column.
    tiles: Vec<Vec<f32>>,
    /// Time of the factorisation (seconds).
    pub seconds: f64,
    /// Backward error of the factor, estimated with 16 random vectors.
    pub error: BackwardError,
}

/// Results of one policy.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MemoryRun {
    /// Time from the first submission to the last task, in seconds: on emulated devices, which
    /// share the CPU's cores.
    pub seconds: f64,
    /// The devices' share of the floating-point operations.
    pub device_share: f64,
    /// Bytes from the host to devices, until the factor is back on the host.
    #[serde(rename = "bytes_to_devices")]
    pub to_devices: u64,
    /// Bytes from devices to the host.
    #[serde(rename = "bytes_to_host")]
    pub to_host: u64,
    /// Bytes from device to device.
    #[serde(rename = "bytes_between")]
    pub between: u64,
    /// Bytes from the host to its disk.
    #[serde(rename = "bytes_to_disk")]
    pub to_disk: u64,
    /// Bytes from its disk to the host, until every tile of the factor has been on the host once.
    #[serde(rename = "bytes_from_disk")]
    pub from_disk: u64,
    /// Compulsory traffic of the tasks on the devices where they ran; see [`Traffic`].
    #[serde(flatten)]
    pub compulsory: Traffic,
    /// Lower bound of the loads with the devices' memory (bytes); see [`load_bound`].
    #[serde(rename = "load_bound_bytes")]
    pub load_bound: f64,
    /// Makespan / bound, bodies as long as they were and transfers left out; see
    /// [`Report::over_bound`](zellige_runtime::trace::Report::over_bound).
    pub makespan_over_bound: f64,
    /// Use of each memory node, the host first.
    #[serde(serialize_with = "figures::of_nodes")]
    #[schemars(with = "Vec<NodeFigures>")]
    pub nodes: Vec<NodeUse>,
}

impl MemoryBench {
    fn grid(&self) -> Result<TileGrid, Error> {
        TileGrid::uniform(self.n, self.tile)
    }

    /// Returns the bytes of each device's memory: an equal part of [`share`](MemoryBench::share) of
    /// the tiles on and below the diagonal, as they are stored (4 bytes a number, diagonal tiles
    /// whole).
    ///
    /// # Errors
    /// [`Error::Grid`] for a tile size of 0.
    pub fn capacity(&self) -> Result<u64, Error> {
        Ok((self.stored()? * self.share / self.devices.max(1) as f64) as u64)
    }

    /// Returns the bytes of the host's memory, if that is limited.
    ///
    /// # Errors
    /// The errors of [`capacity`](MemoryBench::capacity).
    pub fn host_capacity(&self) -> Result<Option<u64>, Error> {
        self.host.as_ref().map(|host| Ok((self.stored()? * host.share) as u64)).transpose()
    }

    /// Bytes of the tiles on and below the diagonal.
    fn stored(&self) -> Result<f64, Error> {
        let grid = self.grid()?;
        let nt = grid.tiles();
        let numbers: usize =
            (0..nt).map(|j| (j..nt).map(|i| grid.width(i) * grid.width(j)).sum::<usize>()).sum();
        Ok(numbers as f64 * 4.0)
    }

    /// Refuses a host that cannot hold the operands of a product which no device would run either,
    /// before anything is factored.
    fn check_host(&self) -> Result<(), Error> {
        let (grid, capacity) = (self.grid()?, self.host_capacity()?);
        let Some(capacity) = capacity.filter(|_| self.devices == 0 && grid.tiles() > 2) else {
            return Ok(());
        };
        let operands = self.rule.precisions().into_iter().flatten().map(|p| p.operand_format().bytes());
        // The first three tile columns are whole, but for the last column of three.
        let (whole, last) = (grid.width(0), grid.width(2));
        let (product, others) = (whole * last, whole * last + whole * whole);
        let bytes = (4 * product + operands.min().unwrap_or(4) * others) as u64;
        if bytes <= capacity {
            return Ok(());
        }
        let (task, node) = ("gemm[2, 1, 0]".to_owned(), "host".to_owned());
        Err(zellige_runtime::Error::TooLarge { task, operands: 3, bytes, node, capacity }.into())
    }

    /// Factors the matrix on CPU cores alone, then under each of these policies.
    ///
    /// # Errors
    /// The errors of [`reference`](MemoryBench::reference) and [`run`](MemoryBench::run);
    /// [`Cancelled`](crate::Error::Cancelled).
    pub fn compare(
        &self,
        policies: &[&str],
        observer: &dyn Observer,
        watch: Watch<'_>,
    ) -> Result<(Reference, Vec<MemoryRun>), crate::Error> {
        self.check_host()?;
        let total = policies.len() as u64 + 1;
        observer.stage("in host memory", total);
        let reference = self.reference(watch)?;
        let mut runs = Vec::new();
        for (done, policy) in (1u64..).zip(policies) {
            check(observer)?;
            observer.stage(policy, total);
            observer.advance(done);
            runs.push(self.run(policy, &reference, watch)?);
        }
        Ok((reference, runs))
    }

    /// Factors the matrix on CPU cores alone. `watch` receives the means to cancel it.
    ///
    /// # Errors
    /// [`Error::Grid`] for a tile size of 0, or the error of the factorisation.
    pub fn reference<G>(&self, watch: impl FnOnce(Canceller) -> G) -> Result<Reference, Error> {
        let rt = Runtime::builder().workers(self.workers.max(1)).build()?;
        let _watched = watch(rt.canceller());
        let a = SymmetricTiled::generate(&rt, self.grid()?, &test_matrix::<f32>(self.n))?;
        rt.wait_all()?;
        let seconds = self.factor(&rt, &a)?;
        let error = estimated(&rt, &a, &test_matrix::<f64>(self.n))?;
        let tiles = a.handles().iter().map(|handle| numbers(&rt, handle)).collect::<Result<_, _>>()?;
        Ok(Reference { tiles, seconds, error })
    }

    /// Factors the matrix under a policy, from the host's memory and back to it. `watch` receives
    /// the means to cancel it.
    ///
    /// # Errors
    /// The errors of [`MemoryBench::reference`]; an unknown policy; a tile that fits nowhere; a
    /// factor that differs from the reference in any bit.
    pub fn run<G>(
        &self,
        policy: &str,
        reference: &Reference,
        watch: impl FnOnce(Canceller) -> G,
    ) -> Result<MemoryRun, Error> {
        let (grid, capacity) = (self.grid()?, self.capacity()?);
        let tasks = grid.tiles().pow(3) + 64 * grid.tiles().pow(2) + 64;
        let mut builder =
            Runtime::builder().workers(self.workers).policy(policy).trace_capacity(tasks.min(4_000_000));
        for _ in 0..self.devices {
            builder = builder.device(Emulated::new(capacity).bandwidth(self.bandwidth));
        }
        if let (Some(bytes), Some(host)) = (self.host_capacity()?, &self.host) {
            builder = builder.host_memory(bytes).swap(&host.folder);
        }
        let rt = builder.build()?;
        let _watched = watch(rt.canceller());
        let a = SymmetricTiled::generate(&rt, grid.clone(), &test_matrix::<f32>(self.n))?;
        // Written on the host, every tile is only there, or on its disk.
        for handle in a.handles() {
            drop(rt.write(handle)?);
        }
        rt.wait_transfers()?;
        let before = rt.memory();
        rt.take_trace();
        let seconds = self.factor(&rt, &a)?;
        for (at, (handle, want)) in a.handles().iter().zip(&reference.tiles).enumerate() {
            if &numbers(&rt, handle)? != want {
                return Err(Error::Shape {
                    what: "a factor made in little memory",
                    got: format!("tile {at} under {policy}"),
                    want: "the same tile made in host memory, bit by bit".into(),
                });
            }
        }
        // Pending write-backs are in both the trace and the counts, or in neither.
        rt.wait_transfers()?;
        let nodes = since(&before, rt.memory());
        let trace = rt.take_trace().unwrap_or_default();
        Ok(self.evaluate(&grid, &trace, nodes, seconds, capacity))
    }

    /// Seconds from the first submission to the last task.
    fn factor(&self, rt: &Runtime, a: &SymmetricTiled<f32>) -> Result<f64, Error> {
        let policy: SharedPolicy = self.rule.clone().into();
        let start = Instant::now();
        cholesky(rt, a, &policy)?.wait(rt)?;
        Ok(start.elapsed().as_secs_f64())
    }

    fn evaluate(
        &self,
        grid: &TileGrid,
        trace: &Trace,
        nodes: Vec<NodeUse>,
        seconds: f64,
        capacity: u64,
    ) -> MemoryRun {
        let moved = |which: &dyn Fn(u32, u32) -> bool| {
            let chosen = trace.transfers.iter().filter(|t| t.from != t.to && which(t.from, t.to));
            chosen.map(|t| t.bytes).sum::<u64>()
        };
        let disk = self.devices as u32 + 1;
        let total: f64 = trace.tasks.iter().map(|task| task.flops).sum();
        // Numbers of 2 bytes would be twice as many: the bound holds for the narrowest that occur.
        let narrow = trace.tasks.iter().any(|task| width(task) < 4);
        let of_all = narrowest(trace.tasks.iter());
        let (mut compulsory, mut bound, mut on_devices) = (Traffic::default(), 0.0, 0.0);
        for (worker, _) in trace.workers.iter().enumerate().filter(|(_, worker)| worker.node != 0) {
            let tasks = || trace.tasks.iter().filter(move |task| task.worker as usize == worker);
            let flops: f64 = tasks().map(|task| task.flops).sum();
            on_devices += flops;
            bound += load_bound(flops, capacity, if narrow { 2 } else { 4 });
            let own = traffic(grid, tasks(), &of_all);
            compulsory.loads += own.loads;
            compulsory.stores += own.stores;
        }
        MemoryRun {
            seconds,
            device_share: on_devices / total.max(1.0),
            to_devices: moved(&|from, to| from == 0 && to != disk),
            to_host: moved(&|from, to| to == 0 && from != disk),
            between: moved(&|from, to| from != 0 && to != 0),
            to_disk: moved(&|_, to| to == disk),
            from_disk: moved(&|from, _| from == disk),
            compulsory,
            load_bound: bound,
            makespan_over_bound: trace.report().over_bound(),
            nodes,
        }
    }
}

impl MemoryRun {
    /// Bytes that came to devices, over their [`load_bound`]; NaN without devices.
    pub fn over_bound(&self) -> f64 {
        (self.to_devices + self.between) as f64 / self.load_bound
    }

    /// Returns all bytes that moved to and from devices, relative to the compulsory ones; NaN
    /// without devices.
    pub fn over_compulsory(&self) -> f64 {
        let least = self.compulsory.loads + self.compulsory.stores;
        (self.to_devices + self.to_host + 2 * self.between) as f64 / least as f64
    }
}

/// The numbers of a tile of a factor.
fn numbers(rt: &Runtime, handle: &Handle<Tile<f32>>) -> Result<Vec<f32>, Error> {
    let tile = rt.read(handle)?;
    let wide = tile
        .to_storage(StorageFormat::F32)
        .ok_or(Error::Format { got: tile.storage(), want: StorageFormat::F32 })?;
    Ok(wide.as_slice()?.to_vec())
}

/// Returns the difference of two snapshots of the counters.
fn since(before: &[NodeUse], mut after: Vec<NodeUse>) -> Vec<NodeUse> {
    for (now, then) in after.iter_mut().zip(before) {
        now.hits -= then.hits;
        now.misses -= then.misses;
        now.prefetch_used -= then.prefetch_used;
        now.prefetch_unused -= then.prefetch_unused;
        now.evictions -= then.evictions;
        now.written_back -= then.written_back;
        now.conversions -= then.conversions;
        now.bytes_in -= then.bytes_in;
        now.bytes_out -= then.bytes_out;
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(rule: &str) -> MemoryBench {
        let rule = rule.parse().unwrap();
        let (workers, devices, share, host) = (1, 2, 0.3, None);
        MemoryBench { n: 192, tile: 24, rule, workers, devices, share, bandwidth: 10e9, host }
    }

    #[test]
    fn a_disk_holds_what_the_host_cannot_and_no_bit_changes() {
        for (devices, workers) in [(0, 2), (1, 1)] {
            let host = Some(HostLimit { share: 0.4, folder: std::env::temp_dir() });
            let bench = MemoryBench { devices, workers, host, ..bench("hp1:band=2") };
            // 36 tiles of 2304 bytes.
            assert_eq!(bench.host_capacity().unwrap(), Some(33_177));
            let reference = bench.reference(|_| ()).unwrap();
            let run = bench.run("lws", &reference, |_| ()).unwrap();
            let [host, .., disk] = &run.nodes[..] else { panic!("{run:?}") };
            assert_eq!((&*host.name, &*disk.name, run.nodes.len()), ("host", "disk", devices + 2));
            assert_eq!((disk.bytes_in, disk.bytes_out), (run.to_disk, run.from_disk), "{run:?}");
            assert!(run.to_disk > 0 && run.from_disk > 0, "{run:?}");
            assert_eq!(host.bytes_in, run.to_host + run.from_disk, "{run:?}");
        }
    }

    #[test]
    fn devices_move_what_they_must_and_no_bit_changes() {
        for rule in ["fp32", "hp1:band=2", "hp2:band=2", "x3"] {
            let bench = bench(rule);
            // 36 tiles of 2304 bytes.
            assert_eq!(bench.capacity().unwrap(), (36.0 * 2304.0 * 0.15) as u64);
            let reference = bench.reference(|_| ()).unwrap();
            assert!(reference.error.value < 1e-2, "{rule}: {:?}", reference.error);
            for policy in ["eager", "lws", "dmdas"] {
                let run = bench.run(policy, &reference, |_| ()).unwrap();
                assert!(run.to_devices >= run.compulsory.loads, "{rule} {policy}: {run:?}");
                assert!(run.to_host >= run.compulsory.stores, "{rule} {policy}: {run:?}");
                let [host, first, second] = &run.nodes[..] else { panic!("{run:?}") };
                assert_eq!(host.bytes_out, run.to_devices, "{run:?}");
                assert_eq!(first.bytes_out + second.bytes_out, run.to_host + run.between, "{run:?}");
                assert!((0.0..=1.0).contains(&run.device_share), "{run:?}");
            }
        }
    }

    #[test]
    fn without_cores_everything_is_on_the_devices() {
        let bench = MemoryBench { workers: 0, devices: 1, ..bench("fp32") };
        let reference = bench.reference(|_| ()).unwrap();
        let run = bench.run("prio", &reference, |_| ()).unwrap();
        assert_eq!(run.device_share, 1.0);
        // Each tile has to go there and to come back.
        assert_eq!(run.compulsory, Traffic { loads: 36 * 2304, stores: 36 * 2304 });
        let bound = load_bound(192f64.powi(3) / 3.0, bench.capacity().unwrap(), 4);
        assert!((run.load_bound / bound - 1.0).abs() < 1e-9, "{run:?}");
        let too_small = MemoryBench { share: 0.05, ..bench };
        let error = too_small.run("prio", &reference, |_| ()).unwrap_err().to_string();
        assert!(error.contains("emulated 0 has"), "{error}");
    }
}
