//! Fills performance models with the tile kernels of a Cholesky factorisation.
//!
//! Whole factorisations run, not kernels in a loop: the tiles lie in memory as they do in real
//! runs, and the models' keys are those that real runs use.

use std::time::Instant;

use zellige_dense::{Error, Rule, SymmetricTiled, Tile, TileGrid, TileScalar, capability_for, cholesky};
use zellige_kernels::precision::PanelPrecision;
use zellige_kernels::{GemmPrecision, StorageFormat};
use zellige_runtime::model::{LinkModel, Models, OVERHEAD};
use zellige_runtime::{Runtime, TaskInfo, Trace};

use crate::tasks::task_overhead;
use crate::{median, test_matrix};

/// Fewest and most tiles along the matrix: each kernel runs at least eight times, more often than a
/// history needs.
const TILES: (usize, usize) = (8, 16);
/// Edge of a matrix that no cache holds: kernels that find their tiles in a cache are faster than
/// those of a real run.
const EDGE: usize = 4096;

/// Policy of the runtime that is calibrated: tasks in the order in which they were submitted find
/// fewer tiles in caches than with policies that mind it, and as many as with those that go by
/// models. (Calibrated with `prio`, bodies under those took 3 to 12 % more time on two cores than
/// predicted.)
pub const POLICY: &str = "eager";

/// A factorisation of a calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Tile size.
    pub tile: usize,
    /// Precision of the products; `Dp` is a factorisation in `f64`, all others are in `f32`.
    pub precision: GemmPrecision,
}

/// The factorisations that calibrate tiles of these sizes, in every precision.
pub fn steps(tiles: &[usize]) -> Vec<Step> {
    let of = |&tile: &usize| GemmPrecision::ALL.map(|precision| Step { tile, precision });
    tiles.iter().flat_map(of).collect()
}

/// Returns these steps without precisions that a GPU of this compute capability lacks.
pub fn steps_on_gpu(tiles: &[usize], capability: (u32, u32)) -> Vec<Step> {
    let mut all = steps(tiles);
    all.retain(|step| capability_for(step.precision) <= capability);
    all
}

/// Runs a step as [`calibrate`] does, on a runtime without CPU workers: the host makes the matrix
/// beforehand. Tiles are transferred to the devices as in any run; that is not timed.
///
/// # Errors
/// The errors of [`calibrate`].
pub fn calibrate_on_gpu(rt: &Runtime, step: Step) -> Result<(), Error> {
    match step.precision {
        GemmPrecision::Dp => factor_on_gpu::<f64>(rt, step),
        _ => factor_on_gpu::<f32>(rt, step),
    }
}

fn factor_on_gpu<T: TileScalar>(rt: &Runtime, step: Step) -> Result<(), Error> {
    let host = Runtime::builder().policy(POLICY).build()?;
    let a = prepared::<T>(&host, step)?;
    drop(host);
    cholesky(rt, &a, &rule(step.precision).into())?.wait(rt)
}

/// Factors a matrix of 8 x 8 to 16 x 16 tiles on `rt`, whose models learn from it; they have all of
/// it once `rt` is dropped.
///
/// # Errors
/// [`Error::Grid`] for a tile size of 0, [`Error::Runtime`], e.g. for tasks that were cancelled.
pub fn calibrate(rt: &Runtime, step: Step) -> Result<(), Error> {
    match step.precision {
        GemmPrecision::Dp => factor::<f64>(rt, step),
        _ => factor::<f32>(rt, step),
    }
}

fn factor<T: TileScalar>(rt: &Runtime, step: Step) -> Result<(), Error> {
    cholesky(rt, &prepared::<T>(rt, step)?, &rule(step.precision).into())?.wait(rt)
}

/// The matrix of a step.
fn prepared<T: TileScalar>(rt: &Runtime, step: Step) -> Result<SymmetricTiled<T>, Error> {
    let n = step.tile * (EDGE / step.tile.max(1)).clamp(TILES.0, TILES.1);
    let a = SymmetricTiled::<T>::new(rt, TileGrid::uniform(n, step.tile)?);
    a.fill(rt, &test_matrix::<T>(n))?;
    rt.wait_all()?;
    Ok(a)
}

/// `precision` for the products, and for diagonal updates and solves where they have it: a run like
/// any other fills in both.
fn rule(precision: GemmPrecision) -> Rule {
    let panel = PanelPrecision::ALL.into_iter().find(|panel| panel.gemm(GemmPrecision::Sp) == precision);
    Rule::uniform(precision).with_panel(panel.unwrap_or_default())
}

/// Rounds of what is measured apart from factorisations; a history needs six.
const ROUNDS: usize = 9;

/// Measures what surrounds the kernels on `workers` workers, for
/// [`Platform::host`](zellige_sim::platform::Platform::host): what a worker spends on a task
/// besides its body, and how fast tiles are converted between formats (f32 to f16, on one thread).
///
/// # Errors
/// [`Error::Runtime`] for a runtime that cannot be built.
pub fn surroundings(models: &Models, workers: usize, policy: &str) -> Result<(), Error> {
    let info = TaskInfo { shape: [workers as u32, 0, 0], ..TaskInfo::default() };
    let (id, cpu) = (models.id(OVERHEAD, &info), models.kind("cpu"));
    for time in task_overhead(workers, policy, ROUNDS)? {
        models.record(id, cpu, 0.0, 0, time);
    }
    host_conversions(models);
    Ok(())
}

/// Measures how fast tiles are converted between formats on one thread of the host (f32 to f16):
/// what platforms without CPU workers want too.
pub fn host_conversions(models: &Models) {
    // A clock that stands still would make a rate that no link has: then nothing is known of
    // conversions.
    if let Ok(conversion) = LinkModel::new(conversion_rate(), 0.0) {
        models.set_link("host", "host", conversion);
    }
}

/// Returns the rate at which devices convert tiles of `f32` within their own memory: bytes read and
/// written per second, the median over the conversions of a trace. `None` if there was none, or if
/// the rate is not valid for a link.
pub fn device_conversions(trace: &Trace) -> Option<LinkModel> {
    let inside = trace.transfers.iter().filter(|way| way.converted && way.from == way.to && way.from > 0);
    let rates = inside.filter_map(|way| {
        let narrow = StorageFormat::ALL.into_iter().find(|format| format.name() == way.label)?;
        let read = StorageFormat::F32.bytes() as f64 / narrow.bytes() as f64;
        let seconds = way.end_ns.saturating_sub(way.start_ns) as f64 * 1e-9;
        (seconds > 0.0).then(|| way.bytes as f64 * (1.0 + read) / seconds)
    });
    LinkModel::new(median(rates), 0.0).ok()
}

/// Bytes read and written per second by conversions of tiles; median.
fn conversion_rate() -> f64 {
    const EDGE: usize = 512;
    let tile = Tile::<f32>::zeros(EDGE, EDGE);
    let moved = tile.bytes() + EDGE * EDGE * StorageFormat::F16.bytes();
    let rates = [(); ROUNDS].map(|()| {
        let start = Instant::now();
        std::hint::black_box(tile.to_storage(StorageFormat::F16));
        moved as f64 / start.elapsed().as_secs_f64()
    });
    median(rates)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zellige_cuda::Gpu;
    use zellige_gpu::Driver;
    use zellige_runtime::device::DeviceSpec;
    use zellige_runtime::trace::TransferEvent;
    use zellige_runtime::{Emulated, Graph, Recorder};
    use zellige_sim::platform::Platform;
    use zellige_sim::{SimOutcome, Simulation};

    use super::*;
    use zellige_dense::SharedPolicy;

    #[test]
    fn every_kernel_is_calibrated_in_every_precision() {
        let models = Arc::new(Models::new());
        let rt = Runtime::builder().workers(2).models(Arc::clone(&models)).build().unwrap();
        for step in steps(&[8, 16]) {
            calibrate(&rt, step).unwrap();
        }
        drop(rt);
        let cpu = models.kind("cpu");
        let known = |codelet: &str, label: &'static str, shape: [u32; 3]| {
            let info = TaskInfo { label, shape, ..TaskInfo::default() };
            assert!(models.is_calibrated(models.id(codelet, &info), cpu), "{codelet} {label} {shape:?}");
        };
        for n in [8, 16] {
            for label in ["fp64", "fp32"] {
                known("generate", label, [n, n, 0]);
                known("potrf", label, [n, 0, 0]);
            }
            for label in ["fp64", "fp32", "x3", "tf32"] {
                known("trsm", label, [n, n, 0]);
                known("syrk", label, [n, n, 0]);
            }
            for precision in GemmPrecision::ALL {
                known("gemm", precision.name(), [n; 3]);
            }
        }
        let rows = models.rows();
        assert_eq!(rows.len(), 2 * (2 * 2 + 4 * 2 + 9));
        let kernels = rows.iter().filter(|row| row.codelet != "generate");
        assert!(kernels.clone().all(|row| row.bytes > 0 && row.flops > 0.0), "{rows:?}");
    }

    /// Checks that calibrated models suffice to simulate a factorisation on this machine.
    #[test]
    fn a_calibrated_machine_is_a_platform() {
        let models = Arc::new(Models::new());
        let rt = Runtime::builder().workers(2).models(Arc::clone(&models)).build().unwrap();
        calibrate(&rt, Step { tile: 16, precision: GemmPrecision::Sp }).unwrap();
        drop(rt);
        assert!(Platform::host(Arc::clone(&models), 2).is_err(), "the overhead is not known");
        surroundings(&models, 2, "lws").unwrap();
        assert!(Platform::host(Arc::clone(&models), 1).is_err(), "of another number of workers");
        let host = Platform::host(models, 2).unwrap();
        let outcome = simulated(&host, GemmPrecision::Sp, "lws");
        assert_eq!(outcome.trace.tasks.len(), 10 + 45 + 45 + 120);
        assert!(outcome.makespan >= outcome.bounds.mixed && outcome.trace.transfers.is_empty());
        // The same from a file.
        let written = Platform::parse(&host.to_toml().unwrap()).unwrap();
        near(&simulated(&written, GemmPrecision::Sp, "lws"), &outcome);
    }

    /// A factor of 10 x 10 tiles of 16 in virtual time.
    fn simulated(platform: &Platform, precision: GemmPrecision, sched: &str) -> SimOutcome {
        let policy: SharedPolicy = Rule::uniform(precision).into();
        let graph = Graph::record(|g: &Recorder| {
            let a = SymmetricTiled::<f32>::planned(g, TileGrid::uniform(160, 16)?);
            cholesky(g, &a, &policy).map(drop)
        });
        Simulation::new(&graph.unwrap(), platform).policy(sched).ahead(0).run().unwrap()
    }

    /// Rates in a file have five digits.
    fn near(written: &SimOutcome, known: &SimOutcome) {
        let [written, known] = [written, known].map(|outcome| outcome.bounds.area.as_secs_f64());
        assert!((written / known - 1.0).abs() < 1e-3, "{written} {known}");
    }

    /// Returns models of tasks and links that have been measured on these devices.
    fn calibrated(devices: &[Arc<dyn DeviceSpec>]) -> Arc<Models> {
        let models = Arc::new(Models::new());
        let builder = Runtime::builder().workers(0).policy(POLICY).models(Arc::clone(&models)).peers(1e10);
        let builder = devices.iter().fold(builder, |builder, device| builder.device(Arc::clone(device)));
        let rt = builder.trace(true).build().unwrap();
        for precision in [GemmPrecision::Sp, GemmPrecision::Hp1] {
            (0..3).for_each(|_| calibrate_on_gpu(&rt, Step { tile: 16, precision }).unwrap());
        }
        rt.wait_transfers().unwrap();
        rt.measure_links();
        // The measured rate may be below the default of a link: the mock is slow.
        let trace = rt.take_trace().unwrap();
        let inside = |way: &TransferEvent| way.converted && way.from == way.to && way.from > 0;
        assert!(trace.transfers.iter().any(inside), "hp1 wants operands in 16 bits");
        drop(rt);
        let error = Platform::measured(Arc::clone(&models), 0, devices).unwrap_err().to_string();
        assert!(error.contains("0 worker(s)"), "conversions of the host are not known: {error}");
        host_conversions(&models);
        models
    }

    /// Devices with memory of their own are measured as a machine that can be written, read and
    /// simulated: their tasks take what the models say, and what comes on top are transfers.
    fn is_a_platform(devices: &[Arc<dyn DeviceSpec>]) {
        let links = devices.len() * (devices.len() + 1) / 2;
        // A measurement that other programs have disturbed is not believed, and its link is left
        // out: one of a few is enough.
        let measured = (0..10).map(|_| calibrated(devices)).find_map(|models| {
            match Platform::measured(Arc::clone(&models), 0, devices) {
                Ok(known) => (known.links.len() == links).then_some((models, known)),
                Err(error) => {
                    assert!(error.to_string().contains("the link from the host to"), "{error}");
                    None
                }
            }
        });
        let (models, known) = measured.expect("all links are measured at least once");
        let written = Platform::parse(&known.to_toml().unwrap()).unwrap();
        assert_eq!((written.nodes.len(), written.devices.len()), (devices.len() + 1, devices.len()));
        assert_eq!(written.links.len(), links, "{:?}", written.links);
        for precision in [GemmPrecision::Sp, GemmPrecision::Hp1] {
            let [known, written] = [&known, &written].map(|platform| simulated(platform, precision, "dmdas"));
            near(&written, &known);
            let bodies: u64 = written.trace.tasks.iter().map(|task| task.end_ns - task.start_ns).sum();
            let moves: u64 = written.trace.transfers.iter().map(|way| way.end_ns - way.start_ns).sum();
            assert!(written.trace.tasks.len() == 220 && bodies > 0 && moves > 0);
            let makespan = written.makespan.as_nanos() as u64;
            assert!(makespan <= bodies + moves, "{makespan} > {bodies} + {moves}: somebody always works");
            assert!(written.makespan >= written.bounds.mixed, "{written:?}");
        }
        assert!(Platform::measured(models, 1, devices).is_err(), "the overhead of a CPU worker is not known");
    }

    #[test]
    fn emulated_devices_are_a_platform() {
        let device = Emulated::new(1 << 20).bandwidth(1e9).measured_links();
        is_a_platform(&[device.clone().into(), device.into()]);
        is_a_platform(&[Emulated::new(1 << 20).bandwidth(1e9).into()]);
    }

    #[test]
    fn gpus_are_a_platform() {
        let Some(twins) = zellige_twins::mock(zellige_kernels::cuda::SOURCES) else { return };
        let driver: Arc<dyn Driver> = Arc::new(twins.gpus(2).measured_links().build());
        is_a_platform(&[0, 1].map(|number| Gpu::new(Arc::clone(&driver), number).into()));
    }

    /// 1000 numbers become 16-bit ones: 6000 bytes.
    #[test]
    fn conversions_on_a_device_are_those_within_its_memory() {
        let inside = TransferEvent {
            from: 1,
            to: 1,
            data: 0,
            label: "fp16",
            bytes: 2000,
            start_ns: 1000,
            end_ns: 4000,
            reason: Default::default(),
            converted: true,
        };
        let other = [
            TransferEvent { from: 0, ..inside },
            TransferEvent { from: 0, to: 0, ..inside },
            TransferEvent { converted: false, ..inside },
            TransferEvent { label: "", ..inside },
        ];
        let rate = |transfers: &[TransferEvent]| {
            let trace = Trace { transfers: transfers.to_vec(), ..Trace::default() };
            device_conversions(&trace).map(|link| link.bandwidth())
        };
        assert_eq!(rate(&other), None);
        let all = [&other[..], &[inside]].concat();
        assert!((rate(&all).unwrap() / 2e9 - 1.0).abs() < 1e-12);
    }

    #[test]
    fn no_tile_is_an_error() {
        let rt = Runtime::builder().workers(1).build().unwrap();
        let step = Step { tile: 0, precision: GemmPrecision::Sp };
        assert!(matches!(calibrate(&rt, step), Err(Error::Grid(_))));
    }
}
