//! `zellige bench gpu`. It knows the GPU's driver and nothing of CUDA.

mod budget;
pub mod figures;
mod reconstructors;
mod run;
mod sparse;
mod summary;

use std::sync::Arc;
use std::time::Duration;

use zellige_gpu::Driver;
use zellige_gpu::cuda::Cuda;
use zellige_linalg::Rule;
use zellige_runtime::Topology;

use crate::args::{BenchGpu, Output, Tile};
use crate::devices;
use crate::exit::CommandError;
use crate::out;
use crate::progress::Progress;
use crate::results::{is_stdout, write_json};
use figures::Figures;
use reconstructors::TorSize;
use run::measure;
use sparse::SparseSizes;

/// How much is measured.
#[derive(Clone, Debug)]
struct Sizes {
    n: Vec<u32>,
    tile: u32,
    rules: Vec<Rule>,
    /// Most products on one tile in one task.
    fuse_updates: u8,
    out_of_core: u32,
    /// CPU workers that help.
    workers: usize,
    sparse: SparseSizes,
    tor: Vec<TorSize>,
    tor_tile: Tile,
    /// At most.
    repeats: u16,
    /// Time for all measurements.
    budget: Duration,
    /// Bytes of the tiles of products, more than caches hold.
    spread: u64,
    /// Replays of a graph that are timed together.
    replays: usize,
    /// Order of the library's large products, as long as memory holds it.
    peak: u32,
    /// Bytes of one copy.
    copy: usize,
    /// Least time of the products of one run.
    seconds: f64,
}

impl Sizes {
    /// What the options ask for.
    fn of(args: &BenchGpu) -> Result<Self, CommandError> {
        if !args.tile.is_multiple_of(16) {
            let problem = format!("{} is no multiple of 16, as tensor cores want it", args.tile);
            return Err(CommandError::option("--tile", problem));
        }
        let usual: &[u32] = if args.quick { &[8192, 16_384] } else { &[16_384, 32_768, 65_536, 100_352] };
        let across: &[u16] = if args.quick { &[41] } else { &[47, 67, 86] };
        let sparse = if args.quick {
            SparseSizes { cells: [80, 80, 60], elements: [23; 3] }
        } else {
            SparseSizes { cells: [170, 170, 110], elements: [47; 3] }
        };
        Ok(Sizes {
            n: if args.n.is_empty() { usual.to_vec() } else { args.n.clone() },
            tile: args.tile,
            rules: args.precision.clone(),
            fuse_updates: args.fuse_updates,
            out_of_core: args.out_of_core.unwrap_or(if args.quick { 16_384 } else { 32_768 }),
            workers: Topology::discover().cores.len(),
            sparse,
            tor: TorSize::all(if args.tor.is_empty() { across } else { &args.tor }),
            tor_tile: args.tor_tile,
            repeats: args.repeats,
            budget: Duration::from_secs(args.budget.into()),
            spread: 512 << 20,
            replays: 20,
            peak: if args.quick { 4096 } else { 8192 },
            copy: 256 << 20,
            seconds: 0.2,
        })
    }
}

/// Measures, prints, writes.
///
/// # Errors
/// [`CommandError::NoDevice`] without the GPU or its libraries; something could not be measured; the output cannot be written.
pub fn run(args: &BenchGpu) -> anyhow::Result<()> {
    let sizes = Sizes::of(args)?;
    let target = &args.json;
    let figures_file = target.as_ref().filter(|target| target.is_file());
    let platform = figures_file.map(beside).transpose()?;
    let driver = open(args.device)?;
    let progress = Progress::new();
    let save = |figures: &Figures| {
        // What cannot be written now may be at the end, which says so if not.
        if let Some(Err(error)) = figures_file.map(|target| write_json(Some(target), &[figures])) {
            tracing::warn!("figures are not written yet: {error:#}");
        }
    };
    let (figures, measured) = measure(&driver, args.device, &sizes, &progress, &save)?;
    drop(progress);
    if let Some(target) = target {
        write_json(Some(target), &[&figures])?;
        if let (Some(file), Some(text)) = (&platform, &figures.platform) {
            file.write(|out| out.write_all(text.as_bytes()))?;
        }
        if measured.is_err() {
            out::note(&format!("zellige: {} has what was measured until then", target.display()));
        }
    }
    measured?;
    if !is_stdout(target.as_ref()) {
        out::print(&figures.text(out::colours(&std::io::stdout())))?;
    }
    verdict(&figures)
}

/// The file of the measured platform: as the figures', with another ending.
fn beside(figures: &Output) -> anyhow::Result<Output> {
    let name = figures.with_extension("toml");
    anyhow::ensure!(name != **figures, "--json {}: the platform has that name", name.display());
    Ok(Output::from(name.into_os_string()))
}

fn open(number: u32) -> Result<Arc<dyn Driver>, CommandError> {
    let refused = |problem| CommandError::NoDevice { device: format!("cuda:{number}"), problem };
    let driver = Cuda::open().map_err(|error| refused(error.to_string()))?;
    let problems = devices::problems(&driver, number);
    if problems.is_empty() { Ok(Arc::new(driver)) } else { Err(refused(problems.join("\n  "))) }
}

/// An error for what failed.
fn verdict(figures: &Figures) -> anyhow::Result<()> {
    let failed = figures.failed.len();
    anyhow::ensure!(failed == 0, "{failed} measurements failed: the lines that say so");
    Ok(())
}

#[cfg(test)]
mod tests;
