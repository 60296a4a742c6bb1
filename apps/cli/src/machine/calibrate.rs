//! `zellige machine calibrate`: measures the tile kernels and keeps what it learned.

use std::sync::Arc;

use anyhow::Context;
use zellige_cuda::Gpu;
use zellige_files::observe::Observer;
use zellige_gpu::Driver;
use zellige_gpu::cuda::Cuda;
use zellige_linalg::calibrate::{
    POLICY, calibrate as run_step, calibrate_on_gpu, device_conversions, steps, steps_on_gpu, surroundings,
};
use zellige_runtime::device::DeviceSpec;
use zellige_runtime::model::{Loaded, Models, default_path};
use zellige_sim::platform::Platform;

use super::models::{Known, identity};
use crate::args::{MachineCalibrate, Output};
use crate::devices;
use crate::exit::CommandError;
use crate::interrupt;
use crate::out;
use crate::progress::Progress;
use crate::provenance;
use crate::results::write_json;

/// Tile edges that are measured where none is requested.
const USUAL_TILES: [u16; 7] = [64, 96, 128, 192, 256, 384, 512];
/// The same on GPUs.
const GPU_TILES: [u16; 3] = [512, 1024, 2048];

/// Measures, saves, prints.
///
/// # Errors
/// The measurement fails or is interrupted, or the file of models or the output cannot be written.
pub fn calibrate(args: &MachineCalibrate) -> anyhow::Result<()> {
    let target = &args.json;
    let written = &args.platform;
    let path = default_path()?;
    check_writable(&path)?;
    let tiles = if args.tile.is_empty() { USUAL_TILES.to_vec() } else { args.tile.clone() };
    let tiles: Vec<usize> = tiles.into_iter().map(usize::from).collect();

    let workers = devices::workers(args.workers);
    let driver = args.cuda.then(open).transpose()?;
    let models = Arc::new(of_other_devices(&path, driver.as_ref()));
    let builder = devices::builder().workers(workers.into()).policy(POLICY).models(Arc::clone(&models));
    let rt = builder.build()?;
    let armed = interrupt::cancels(rt.canceller());
    let progress = Progress::new();
    let steps = steps(&tiles);
    progress.stage("calibrate", steps.len() as u64);
    for (done, &step) in steps.iter().enumerate() {
        let what = || format!("tile {}, {}", step.tile, step.precision.name());
        run_step(&rt, step).with_context(what)?;
        interrupt::check()?;
        progress.advance(done as u64 + 1);
    }
    drop(armed);
    rt.measure_links();
    // What its workers have gathered is in the models then.
    drop(rt);
    surroundings(&models, workers.into(), POLICY)?;
    if let Some(driver) = &driver {
        let usual = GPU_TILES.map(usize::from).to_vec();
        let asked = args.gpu_tile.iter().copied().map(usize::from).collect();
        gpus(driver, if args.gpu_tile.is_empty() { usual } else { asked }, &models, &progress)?;
    }
    drop(progress);

    models.save(&path, &identity())?;
    if let Some(written) = written {
        let devices = driver.as_ref().map(all_of).unwrap_or_default();
        let text = platform(&models, workers, &devices)?.to_toml()?;
        written.write(|out| out.write_all(text.as_bytes()))?;
    }
    let known = Known::of(&models, path);
    write_json(target.as_ref(), &[&known])?;
    if [target, written].into_iter().flatten().any(Output::is_stdout) {
        return Ok(());
    }
    out::print(&known.text(out::colours(&std::io::stdout())))
}

/// This machine as it was measured: these GPUs, and so many CPU workers.
fn platform(models: &Arc<Models>, workers: u16, gpus: &[Gpu]) -> anyhow::Result<Platform> {
    let devices: Vec<Arc<dyn DeviceSpec>> = gpus.iter().cloned().map(Into::into).collect();
    let mut platform = Platform::measured(Arc::clone(models), workers.into(), &devices)?;
    let run = provenance::run();
    platform.name = run.host.name.clone();
    platform.description = format!(
        "Measured by zellige {} machine calibrate on {}, {}, with {workers} CPU worker(s). Tasks of a GPU have no overhead of their own; a link's two \
         directions are as fast as the slower one.",
        run.zellige.version, run.host.name, run.date
    );
    Ok(platform)
}

/// What is known of GPUs that are not measured now. A file that cannot be used is written anew.
fn of_other_devices(path: &std::path::Path, measured: Option<&Arc<dyn Driver>>) -> Models {
    let now: Vec<String> = measured.map(all_of).unwrap_or_default().iter().map(Gpu::model_kind).collect();
    let is_other = |name: &str| name.starts_with(GPUS) && !now.iter().any(|kind| name.starts_with(kind));
    match Models::load(path, &identity()) {
        Ok(Loaded::Fresh(known)) => known.only(is_other),
        Ok(Loaded::Stale { .. } | Loaded::Absent) | Err(_) => Models::new(),
    }
}

fn all_of(driver: &Arc<dyn Driver>) -> Vec<Gpu> {
    devices::all(&**driver).into_iter().map(|number| Gpu::new(Arc::clone(driver), number)).collect()
}

/// How models of GPUs, and the ends of their links, begin.
const GPUS: &str = "cuda:";

fn open() -> Result<Arc<dyn Driver>, CommandError> {
    let refused = |problem| CommandError::NoDevice { device: "cuda".into(), problem };
    let driver = Cuda::open().map_err(|error| refused(error.to_string()))?;
    let numbers = devices::all(&driver).into_iter();
    let problems: Vec<String> = numbers.flat_map(|number| devices::problems(&driver, number)).collect();
    if problems.is_empty() { Ok(Arc::new(driver)) } else { Err(refused(problems.join("\n  "))) }
}

/// Teaches the models the first GPU of each kind, and the links of all.
fn gpus(
    driver: &Arc<dyn Driver>,
    tiles: Vec<usize>,
    models: &Arc<Models>,
    progress: &dyn Observer,
) -> anyhow::Result<()> {
    let all = all_of(driver);
    let alone =
        || devices::builder().workers(0).policy(POLICY).models(Arc::clone(models)).peers(devices::PEERS);
    let mut known: Vec<String> = Vec::new();
    for gpu in &all {
        let Some(info) = driver.gpus().get(gpu.number() as usize) else { continue };
        if known.contains(&gpu.model_kind()) {
            continue;
        }
        known.push(gpu.model_kind());
        let rt = alone().trace(true).device(gpu.clone()).build()?;
        let armed = interrupt::cancels(rt.canceller());
        let steps = steps_on_gpu(&tiles, info.compute_capability);
        progress.stage(&info.name, steps.len() as u64);
        for (done, &step) in steps.iter().enumerate() {
            let what = || format!("{}, tile {}, {}", info.name, step.tile, step.precision.name());
            calibrate_on_gpu(&rt, step).with_context(what)?;
            interrupt::check()?;
            progress.advance(done as u64 + 1);
        }
        drop(armed);
        rt.wait_transfers()?;
        if let Some(rate) = rt.take_trace().as_ref().and_then(device_conversions) {
            let alike = all.iter().filter(|other| other.model_kind() == gpu.model_kind());
            alike.for_each(|gpu| models.set_link(&gpu.link_end(), &gpu.link_end(), rate));
        }
    }
    // What could not be measured is a warning with its link.
    all.iter().fold(alone(), |builder, gpu| builder.device(gpu.clone())).build()?.measure_links();
    Ok(())
}

/// Finds out before the work whether its result can be kept.
fn check_writable(path: &std::path::Path) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("{}: cannot be created", folder.display()))?;
    }
    zellige_files::Destination::new(path)
        .and_then(|models| models.check())
        .with_context(|| format!("the file of models {}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use zellige_files::observe::Silent;
    use zellige_kernels::cuda::SOURCES;
    use zellige_runtime::model::LinkModel;

    use super::*;

    /// Kernels and links of GPUs that are not there; those of another name, older, have rows of their own.
    #[test]
    fn each_kind_of_gpu_has_its_own_models() {
        let models = Arc::new(Models::new());
        for (name, count, capability) in [("New", 2, (9, 0)), ("Old", 1, (7, 5))] {
            let Some(twins) = zellige_twins::mock(SOURCES) else { return };
            let twins = twins.name(name).gpus(count).compute_capability(capability.0, capability.1);
            let driver: Arc<dyn Driver> = Arc::new(twins.measured_links().build());
            gpus(&driver, vec![16], &models, &Silent).unwrap();
        }
        let rows = models.rows();
        let of = |kind: &str| rows.iter().filter(|row| row.kind == kind).collect::<Vec<_>>();
        let (new, old) = (of("cuda:New"), of("cuda:Old"));
        assert_eq!(new.len() + old.len(), rows.len());
        // potrf in two formats, trsm and syrk in four precisions, gemm in nine; an old GPU has neither bf1 nor tf32 nor fp8.
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

    /// What was measured of GPUs can be written down, and read.
    #[test]
    fn measured_gpus_are_written_as_a_platform() {
        let Some(twins) = zellige_twins::mock(SOURCES) else { return };
        let driver: Arc<dyn Driver> =
            Arc::new(twins.name("New").gpus(2).memory(1 << 30).measured_links().build());
        let models = Arc::new(Models::new());
        gpus(&driver, vec![16], &models, &Silent).unwrap();
        let error = platform(&models, 1, &all_of(&driver)).unwrap_err().to_string();
        assert!(error.contains("1 worker(s)"), "{error}");
        surroundings(&models, 2, POLICY).unwrap();
        let rt = devices::builder().workers(2).policy(POLICY).models(Arc::clone(&models)).build().unwrap();
        for step in steps(&[16]) {
            run_step(&rt, step).unwrap();
        }
        drop(rt);
        let text = platform(&models, 2, &all_of(&driver)).unwrap().to_toml().unwrap();
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

    /// Measured without `--device cuda`, or with another GPU, the others stay known.
    #[test]
    fn gpus_that_are_not_measured_stay_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("models.json");
        assert!(of_other_devices(&path, None).rows().is_empty());
        let models = Models::new();
        let id = models.id("gemm", &Default::default());
        for kind in ["cpu", "cuda:New", "cuda:Old"] {
            let kind = models.kind(kind);
            (0..9).for_each(|_| models.record(id, kind, 1e6, 100, std::time::Duration::from_micros(5)));
        }
        let link = LinkModel::new(1e9, 1e-6).unwrap();
        for (from, to) in [("host", "disk"), ("host", "cuda:Old mock-0"), ("cuda:New mock-0", "host")] {
            models.set_link(from, to, link);
        }
        models.save(&path, &identity()).unwrap();
        let kinds =
            |models: &Models| -> Vec<String> { models.rows().into_iter().map(|row| row.kind).collect() };
        let kept = of_other_devices(&path, None);
        assert_eq!((kinds(&kept), kept.links().len()), (vec!["cuda:New".into(), "cuda:Old".into()], 2));
        let driver: Arc<dyn Driver> = Arc::new(zellige_gpu::mock::Mock::builder().name("New").build());
        let kept = of_other_devices(&path, Some(&driver));
        assert_eq!((kinds(&kept), kept.links().len()), (vec!["cuda:Old".to_string()], 1));
        std::fs::write(&path, "no models").unwrap();
        assert!(of_other_devices(&path, None).rows().is_empty());
    }
}
