//! The performance models of a machine, measured on its kernels, and the platform that they make.

mod steps;

use std::sync::Arc;

use zellige_app::json::Provenance;
use zellige_cuda::Gpu;
use zellige_files::observe::Observer;
use zellige_runtime::Runtime;
use zellige_runtime::device::DeviceSpec;
use zellige_runtime::model::Models;
use zellige_sim::platform::Platform;

pub use steps::{
    POLICY, Step, calibrate, calibrate_on_gpu, device_conversions, host_conversions, steps, steps_on_gpu,
    surroundings,
};

use crate::{Error, PEERS, Watch, builder, check};

/// Parameters of a calibration.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// Tile sizes on CPU workers.
    pub tiles: Vec<usize>,
    /// CPU workers.
    pub workers: usize,
    /// GPUs; there may be none.
    pub gpus: Vec<Gpu>,
    /// Tile sizes on GPUs.
    pub gpu_tiles: Vec<usize>,
}

impl Calibration {
    /// Default tile sizes on CPU workers.
    pub const TILES: [usize; 7] = [64, 96, 128, 192, 256, 384, 512];
    /// Default tile sizes on GPUs.
    pub const GPU_TILES: [usize; 3] = [512, 1024, 2048];

    /// Teaches these models the kernels of CPU workers and GPUs, the links between them, and what
    /// surrounds tasks.
    ///
    /// # Errors
    /// [`Error::In`] with the step that failed; a runtime that cannot be built;
    /// [`Error::Cancelled`].
    pub fn run(&self, models: &Arc<Models>, observer: &dyn Observer, watch: Watch<'_>) -> Result<(), Error> {
        let rt = builder().workers(self.workers).policy(POLICY).models(Arc::clone(models)).build()?;
        let watched = watch(rt.canceller());
        in_steps(&rt, "calibrate", "", &steps(&self.tiles), observer, calibrate)?;
        drop(watched);
        rt.measure_links();
        // The samples that its workers have collected are then in the models.
        drop(rt);
        surroundings(models, self.workers, POLICY)?;
        if self.gpus.is_empty() {
            Ok(())
        } else {
            of_gpus(&self.gpus, &self.gpu_tiles, models, observer, watch)
        }
    }
}

/// Runs the steps in sequence.
fn in_steps(
    rt: &Runtime,
    stage: &str,
    device: &str,
    steps: &[Step],
    observer: &dyn Observer,
    run: fn(&Runtime, Step) -> Result<(), zellige_dense::Error>,
) -> Result<(), Error> {
    observer.stage(stage, steps.len() as u64);
    for (done, &step) in (1u64..).zip(steps) {
        let what = || format!("{device}tile {}, {}", step.tile, step.precision.name());
        run(rt, step).map_err(|source| Error::In { what: what(), source })?;
        check(observer)?;
        observer.advance(done);
    }
    Ok(())
}

/// Teaches the models the first GPU of each kind, and the links of all.
fn of_gpus(
    all: &[Gpu],
    tiles: &[usize],
    models: &Arc<Models>,
    observer: &dyn Observer,
    watch: Watch<'_>,
) -> Result<(), Error> {
    let alone = || builder().workers(0).policy(POLICY).models(Arc::clone(models)).peers(PEERS);
    let mut known: Vec<String> = Vec::new();
    for gpu in all {
        let Some(info) = gpu.driver().gpus().get(gpu.number() as usize) else { continue };
        if known.contains(&gpu.model_kind()) {
            continue;
        }
        known.push(gpu.model_kind());
        let rt = alone().trace(true).device(gpu.clone()).build()?;
        let watched = watch(rt.canceller());
        let steps = steps_on_gpu(tiles, info.compute_capability);
        in_steps(&rt, &info.name, &format!("{}, ", info.name), &steps, observer, calibrate_on_gpu)?;
        drop(watched);
        rt.wait_transfers()?;
        if let Some(rate) = rt.take_trace().as_ref().and_then(device_conversions) {
            let alike = all.iter().filter(|other| other.model_kind() == gpu.model_kind());
            alike.for_each(|gpu| models.set_link(&gpu.link_end(), &gpu.link_end(), rate));
        }
    }
    // A link that could not be measured is a warning.
    all.iter().fold(alone(), |builder, gpu| builder.device(gpu.clone())).build()?.measure_links();
    Ok(())
}

/// This machine as it was measured: these GPUs, and so many CPU workers.
///
/// # Errors
/// The models lack something of it.
pub fn platform(
    models: &Arc<Models>,
    workers: u16,
    gpus: &[Gpu],
    run: &Provenance,
) -> Result<Platform, Error> {
    let devices: Vec<Arc<dyn DeviceSpec>> = gpus.iter().cloned().map(Into::into).collect();
    let mut platform = Platform::measured(Arc::clone(models), workers.into(), &devices)?;
    platform.name = run.host.name.clone();
    platform.description = format!(
        "Measured by zellige {} machine calibrate on {}, {}, with {workers} CPU worker(s). Tasks of a GPU have no overhead of their own; a link's two \
         directions are as fast as the slower one.",
        run.zellige.version, run.host.name, run.date
    );
    Ok(platform)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use zellige_files::observe::Silent;
    use zellige_gpu::Driver;
    use zellige_kernels::cuda::SOURCES;

    use super::*;
    use crate::tests::{NOBODY, run};

    fn all_of(driver: &Arc<dyn Driver>) -> Vec<Gpu> {
        driver.working().into_iter().map(|number| Gpu::new(Arc::clone(driver), number)).collect()
    }

    /// Kernels and links of mock GPUs; those of another name, older, have rows of their own.
    #[test]
    fn each_kind_of_gpu_has_its_own_models() {
        let models = Arc::new(Models::new());
        for (name, count, capability) in [("New", 2, (9, 0)), ("Old", 1, (7, 5))] {
            let Some(twins) = zellige_twins::mock(SOURCES) else { return };
            let twins = twins.name(name).gpus(count).compute_capability(capability.0, capability.1);
            let driver: Arc<dyn Driver> = Arc::new(twins.measured_links().build());
            of_gpus(&all_of(&driver), &[16], &models, &Silent, NOBODY).unwrap();
        }
        let rows = models.rows();
        let of = |kind: &str| rows.iter().filter(|row| row.kind == kind).collect::<Vec<_>>();
        let (new, old) = (of("cuda:New"), of("cuda:Old"));
        assert_eq!(new.len() + old.len(), rows.len());
        // potrf in two formats, trsm and syrk in four precisions, gemm in nine; an old GPU has
        // neither bf1 nor tf32 nor fp8.
        assert_eq!((new.len(), old.len()), (2 + 2 * 4 + 9, 2 + 2 * 3 + 6));
        assert!(new.iter().chain(&old).all(|row| row.estimate.is_some() && row.samples > 0), "{rows:?}");
        let labels = |rows: &[&zellige_runtime::model::Row]| -> BTreeSet<String> {
            rows.iter().filter(|row| row.codelet == "gemm").map(|row| row.label.clone()).collect()
        };
        let lacking: Vec<String> = labels(&new).difference(&labels(&old)).cloned().collect();
        assert_eq!(lacking, ["bf1", "fp8", "tf32"]);
        let links: BTreeSet<(String, String)> =
            models.links().into_iter().map(|(from, to, _)| (from, to)).collect();
        for end in ["cuda:New mock-0", "cuda:New mock-1", "cuda:Old mock-0"] {
            let there = links.contains(&("host".into(), end.into()));
            assert!(there && links.contains(&(end.into(), "host".into())), "{end}: {links:?}");
        }
    }

    /// Checks that a platform of measured GPUs can be written and read.
    #[test]
    fn measured_gpus_are_written_as_a_platform() {
        let Some(twins) = zellige_twins::mock(SOURCES) else { return };
        let driver: Arc<dyn Driver> =
            Arc::new(twins.name("New").gpus(2).memory(1 << 30).measured_links().build());
        let models = Arc::new(Models::new());
        of_gpus(&all_of(&driver), &[16], &models, &Silent, NOBODY).unwrap();
        let error = platform(&models, 1, &all_of(&driver), &run()).unwrap_err().to_string();
        assert!(error.contains("1 worker(s)"), "{error}");
        surroundings(&models, 2, POLICY).unwrap();
        let rt = builder().workers(2).policy(POLICY).models(Arc::clone(&models)).build().unwrap();
        for step in steps(&[16]) {
            calibrate(&rt, step).unwrap();
        }
        drop(rt);
        let text = platform(&models, 2, &all_of(&driver), &run()).unwrap().to_toml().unwrap();
        let written = Platform::parse(&text).unwrap();
        let kinds: Vec<(&str, usize)> =
            written.devices.iter().map(|device| (&*device.kind, device.count)).collect();
        assert_eq!(kinds, [("cuda:New", 1), ("cuda:New", 1), ("cpu", 2)], "{text}");
        let capacity = written.nodes[1].capacity_gb.unwrap();
        assert!(capacity > 0.8 && capacity < 1.07, "{text}");
        assert!(written.description.contains(env!("CARGO_PKG_VERSION")), "{text}");
        let [gpu, cpu] = ["cuda:New", "cpu"].map(|kind| &written.kinds[kind]);
        for label in ["fp64", "fp32", "hp1", "hp2", "hp3", "bf1", "x3", "tf32", "fp8"] {
            let flops = 2.0 * 16f64.powi(3);
            let [gpu, cpu] = [gpu, cpu].map(|kind| kind.nanos("gemm", label, [16; 3], flops, 0).unwrap());
            assert!(gpu > 0 && cpu > 0, "{label}: {text}");
            let known = models
                .rows()
                .into_iter()
                .find(|row| (&*row.kind, &*row.codelet, &*row.label) == ("cuda:New", "gemm", label));
            let known = known.unwrap().estimate.unwrap().time.as_nanos() as f64;
            assert!((gpu as f64 - known).abs() <= 1.0 + 1e-3 * known, "{label}: {gpu} {known}");
        }
    }
}
