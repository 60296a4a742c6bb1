//! `zellige machine calibrate`: measures the tile kernels and keeps what it learned.

use std::sync::Arc;

use anyhow::Context;
use zellige_linalg::calibrate::{POLICY, calibrate as run_step, steps, surroundings};
use zellige_runtime::Runtime;
use zellige_runtime::model::{Models, default_path};
use zellige_tor::pipeline::Observer;

use super::models::{Known, identity};
use crate::args::MachineCalibrate;
use crate::interrupt;
use crate::out::{self, Target};
use crate::progress::Progress;

/// Tile edges that are measured where none is asked for.
const USUAL_TILES: [u16; 7] = [64, 96, 128, 192, 256, 384, 512];

/// Measures, saves, prints.
///
/// # Errors
/// The measurement fails or is interrupted, or the file of models or the output cannot be written.
pub fn calibrate(args: &MachineCalibrate) -> anyhow::Result<()> {
    let target = args.json.as_deref().map(|path| Target::new("--json", path)).transpose()?;
    let path = default_path()?;
    check_writable(&path)?;
    let tiles = if args.tile.is_empty() { USUAL_TILES.to_vec() } else { args.tile.clone() };
    let tiles: Vec<usize> = tiles.into_iter().map(usize::from).collect();

    let models = Arc::new(Models::new());
    let builder = Runtime::builder().workers(args.workers.into()).policy(POLICY).models(Arc::clone(&models));
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
    drop(progress);
    drop(armed);
    rt.measure_links();
    // What its workers have gathered is in the models then.
    drop(rt);
    surroundings(&models, args.workers.into(), POLICY)?;

    let held = out::writing();
    models.save(&path, &identity())?;
    drop(held);
    let known = Known::of(&models, path);
    if let Some(target) = &target {
        target.write_json(&known)?;
    }
    if target.as_ref().is_some_and(Target::is_stdout) {
        return Ok(());
    }
    out::print(&known.text(out::colours(&std::io::stdout())))
}

/// Finds out before the work whether its result can be kept.
fn check_writable(path: &std::path::Path) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("{}: cannot be created", folder.display()))?;
    }
    Target::regular("the file of models", path).map(drop)
}
