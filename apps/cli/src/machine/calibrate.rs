//! `zellige machine calibrate`: measures the tile kernels and stores their performance models.

use std::sync::Arc;

use anyhow::Context;
use zellige_cuda::Gpu;
use zellige_gpu::Driver;
use zellige_measure::calibrate::{Calibration, platform};
use zellige_runtime::model::{Loaded, Models, default_path};

use super::known::Known;
use crate::args::{MachineCalibrate, Output};
use crate::devices;
use crate::exit::CommandError;
use crate::interrupt;
use crate::models::identity;
use crate::out;
use crate::progress::Progress;
use crate::provenance;
use crate::results::write_json;

/// Maximum tile size on CPU workers.
const LARGEST_ON_CPU: u16 = 1024;

/// Measures the kernels, saves the models and prints them.
///
/// # Errors
/// The measurement fails or is interrupted, or the file of models or the output cannot be written.
pub fn calibrate(args: &MachineCalibrate) -> anyhow::Result<()> {
    let (target, written) = (&args.json, &args.platform);
    let path = default_path()?;
    check_writable(&path)?;
    let sizes = |usual: &[usize], most: u16| {
        let asked = args.tile.iter().copied().filter(|tile| *tile <= most).map(usize::from);
        let asked: Vec<usize> = asked.collect();
        if asked.is_empty() { usual.to_vec() } else { asked }
    };
    let workers = devices::workers(args.workers);
    let gpus = if args.cuda { all_of(&open()?) } else { Vec::new() };
    let calibration = Calibration {
        tiles: sizes(&Calibration::TILES, LARGEST_ON_CPU),
        workers: workers.into(),
        gpu_tiles: sizes(&Calibration::GPU_TILES, u16::MAX),
        gpus,
    };
    let models = Arc::new(of_other_devices(&path, &calibration.gpus));
    calibration.run(&models, &Progress::new(), &interrupt::watch)?;

    models.save(&path, &identity())?;
    if let Some(written) = written {
        let text = platform(&models, workers, &calibration.gpus, provenance::run())?.to_toml()?;
        written.write(|out| out.write_all(text.as_bytes()))?;
    }
    let known = Known::of(&models, path);
    write_json(target.as_ref(), &[&known])?;
    if [target, written].into_iter().flatten().any(Output::is_stdout) {
        return Ok(());
    }
    out::print(&known.text(out::colours(&std::io::stdout())))
}

/// Returns the stored models of GPUs that are not measured now. A file that cannot be used is
/// replaced.
fn of_other_devices(path: &std::path::Path, measured: &[Gpu]) -> Models {
    let now: Vec<String> = measured.iter().map(Gpu::model_kind).collect();
    let is_other = |name: &str| name.starts_with(GPUS) && !now.iter().any(|kind| name.starts_with(kind));
    match Models::load(path, &identity()) {
        Ok(Loaded::Fresh(known)) => known.only(is_other),
        Ok(Loaded::Stale { .. } | Loaded::Absent) | Err(_) => Models::new(),
    }
}

fn all_of(driver: &Arc<dyn Driver>) -> Vec<Gpu> {
    devices::all(&**driver).into_iter().map(|number| Gpu::new(Arc::clone(driver), number)).collect()
}

/// Prefix of the kinds of GPU models, and of the link ends on GPUs.
const GPUS: &str = "cuda:";

fn open() -> Result<Arc<dyn Driver>, CommandError> {
    let refused = |problem| CommandError::NoDevice { device: "cuda".into(), problem };
    let driver = devices::driver().map_err(|error| refused(error.to_string()))?;
    let numbers = devices::all(&*driver).into_iter();
    let problems: Vec<String> = numbers.flat_map(|number| devices::problems(&*driver, number)).collect();
    if problems.is_empty() { Ok(driver) } else { Err(refused(problems.join("\n  "))) }
}

/// Checks before the measurement that the models can be saved.
fn check_writable(path: &std::path::Path) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("{}: cannot be created", folder.display()))?;
    }
    zellige_files::Destination::new(path)
        .and_then(|models| models.check())
        .with_context(|| format!("the file of performance models {}", path.display()))
}

#[cfg(test)]
mod tests {
    use zellige_runtime::model::LinkModel;

    use super::*;

    /// Stored models of GPUs stay valid if these GPUs are not measured.
    #[test]
    fn gpus_that_are_not_measured_stay_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("models.json");
        assert!(of_other_devices(&path, &[]).rows().is_empty());
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
        let kept = of_other_devices(&path, &[]);
        assert_eq!((kinds(&kept), kept.links().len()), (vec!["cuda:New".into(), "cuda:Old".into()], 2));
        let driver: Arc<dyn Driver> = Arc::new(zellige_gpu::mock::Mock::builder().name("New").build());
        let kept = of_other_devices(&path, &all_of(&driver));
        assert_eq!((kinds(&kept), kept.links().len()), (vec!["cuda:Old".to_string()], 1));
        std::fs::write(&path, "no models").unwrap();
        assert!(of_other_devices(&path, &[]).rows().is_empty());
    }
}
