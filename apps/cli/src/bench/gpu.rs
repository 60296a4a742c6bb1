//! `zellige bench gpu`.

use std::ops::RangeInclusive;
use std::time::Duration;

use zellige_measure::gpu::{Figures, Listeners, Sizes, TorSize, Tuning, measure};
use zellige_runtime::device::LaunchDepth;

use crate::args::{BenchGpu, Output, Tune};
use crate::devices;
use crate::exit::CommandError;
use crate::interrupt;
use crate::out;
use crate::progress::Progress;
use crate::provenance;
use crate::results::{is_stdout, write_json};

/// Orders of single routines.
const ROUTINES: RangeInclusive<u32> = 16..=32_768;

/// Minimum number of tiles in a row with little memory: each of four parts of a GPU then has room
/// for the operands of a product.
const LEAST_TILES: u32 = 12;

/// Converts the options to the sizes of the measurements.
fn sizes(args: &BenchGpu) -> Result<Sizes, CommandError> {
    if let Some(tile) = args.tile.filter(|tile| !tile.is_multiple_of(16)) {
        let problem = format!("{tile} is not a multiple of 16, which tensor cores need");
        return Err(CommandError::option("--tile", problem));
    }
    let usual = Sizes::usual(args.quick);
    let mut routines: Vec<u32> = args.n.iter().copied().filter(|n| ROUTINES.contains(n)).collect();
    routines.dedup();
    let tile = args.tile.unwrap_or(usual.tile);
    let out_of_core = args.n.iter().copied().filter(|n| n / tile >= LEAST_TILES).max();
    Ok(Sizes {
        parts: if args.only.is_empty() { usual.parts } else { args.only.clone() },
        tuning: tuning(&args.tuning),
        routines: if args.n.is_empty() { usual.routines } else { routines },
        out_of_core: out_of_core.map_or(usual.out_of_core, |most| most.min(usual.out_of_core)),
        n: if args.n.is_empty() { usual.n } else { args.n.clone() },
        tile,
        rules: args.precision.clone(),
        solve_rule: args.solve_precision.clone(),
        fuse_updates: args.fuse_updates,
        by_inverses: !args.tuning.contains(&Tune::Substitution),
        tor: if args.tor.is_empty() { usual.tor } else { TorSize::all(&args.tor) },
        tor_tile: args.tile.map(|tile| tile as usize),
        repeats: args.repeats,
        budget: Duration::from_secs(args.budget.into()),
        ..usual
    })
}

/// Applies changes to the default settings of the runtimes.
fn tuning(changes: &[Tune]) -> Tuning {
    changes.iter().fold(Tuning::default(), |tuning, change| match *change {
        Tune::Streams(streams) => Tuning { streams, ..tuning },
        Tune::Depth(depth) => {
            let depth = LaunchDepth { ahead: depth, launched: depth, ordered: 2 * depth };
            Tuning { depth: Some(depth), ..tuning }
        }
        Tune::Spins(micros) => Tuning { spins: Some(Duration::from_micros(micros.into())), ..tuning },
        Tune::UrgentStream => Tuning { urgent: true, ..tuning },
        Tune::Substitution => tuning,
    })
}

/// Measures the GPU, prints the figures and writes them.
///
/// # Errors
/// [`CommandError::NoDevice`] without the GPU or its libraries; a measurement that fails; an output
/// that cannot be written.
pub fn run(args: &BenchGpu) -> anyhow::Result<()> {
    let sizes = sizes(args)?;
    let target = &args.json;
    let figures_file = target.as_ref().filter(|target| target.is_file());
    let platform = figures_file.map(beside).transpose()?;
    let driver = devices::one(args.device, &devices::LINEAR_ALGEBRA)?;
    let save = |figures: &Figures| {
        // A failed write is only a warning here: the final write reports the error.
        if let Some(Err(error)) = figures_file.map(|target| write_json(Some(target), &[figures])) {
            tracing::warn!("results are not written yet: {error:#}");
        }
    };
    let progress = Progress::new();
    let (watch, run): (zellige_measure::Watch<'_>, _) = (&interrupt::watch, provenance::run());
    let listeners = Listeners { progress: &progress, save: &save, watch, run };
    let (figures, measured) = measure(&driver, args.device, &sizes, listeners)?;
    drop(progress);
    if let Some(target) = target {
        write_json(Some(target), &[&figures])?;
        if let (Some(file), Some(text)) = (&platform, &figures.platform) {
            file.write(|out| out.write_all(text.as_bytes()))?;
        }
        if measured.is_err() {
            out::note(&format!("zellige: {} has the measurements made before the error", target.display()));
        }
    }
    measured?;
    if !is_stdout(target.as_ref()) {
        out::print(&figures.text(out::colours(&std::io::stdout())))?;
    }
    verdict(&figures)
}

/// Returns the path of the measured platform: the figures' name with another ending.
fn beside(figures: &Output) -> anyhow::Result<Output> {
    let name = figures.with_extension("toml");
    anyhow::ensure!(
        name != **figures,
        "--json {}: the platform file has the same name; use another",
        name.display()
    );
    Ok(Output::from(name.into_os_string()))
}

/// Returns an error if measurements failed.
fn verdict(figures: &Figures) -> anyhow::Result<()> {
    let failed = figures.failed.len();
    anyhow::ensure!(failed == 0, "{failed} measurements failed; see their lines above");
    Ok(())
}
