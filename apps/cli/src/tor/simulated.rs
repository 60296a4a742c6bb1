//! `zellige tor loop`.

use std::path::PathBuf;

use zellige_runtime::Runtime;
use zellige_tor::Matrix;
use zellige_tor::end_to_end::{Compared, LoopOptions, LoopPictures, LoopRun, Study, expose};
use zellige_tor::params::Input;
use zellige_tor::pipeline::{self, Foreign, Observer, Options, PipelineError, TileChoice};
use zellige_tor::report::{loops, text};

use super::files;
use crate::args::LoopArgs;
use crate::devices::Needs;
use crate::exit::CommandError;
use crate::interrupt;
use crate::progress::Progress;
use crate::run::Setup;

/// Simulates a loop frame by frame, for each reconstructor. Ctrl-C ends the exposure, and the
/// frames so far are the result.
///
/// # Errors
/// Bad parameters, files that do not fit the system, rules that all lose positive definiteness,
/// outputs that cannot be written, Ctrl-C.
pub fn simulate(args: &LoopArgs) -> anyhow::Result<()> {
    let setup = Setup::new(&args.execution, &Needs::of_rules(&args.precision), &args.outputs)?;
    let mut input = super::read(&args.system)?;
    let (mode, sensor) = (args.mode.map(Into::into), args.sensor.map(Into::into));
    input.system.simulation.replace(mode, sensor, args.gain, args.delay);
    input.system.check()?;
    let options = LoopOptions {
        frames: args.frames,
        skip: args.skip,
        seed: args.seed,
        noise: !args.no_noise,
        ..LoopOptions::default()
    };
    let study = Study {
        seeds: args.exposures,
        budget: args.error_budget,
        pictures: args.outputs.has_report(),
        telemetry: args.telemetry.as_deref(),
    };
    let tile = super::tile(args.tile, setup.devices.auto_tiles());
    let run = setup.start()?;
    let all = {
        let progress = Progress::of(run.runtime());
        let compared = reconstructors(args, tile, &input, run.runtime(), &progress)?;
        interrupt::check()?;
        if args.telemetry.is_some() && (compared.len() > 1 || args.exposures > 1) {
            let problem = "records one loop: give one reconstructor or precision rule, and one seed";
            return Err(CommandError::option("--telemetry", problem).into());
        }
        simulate_all(run.runtime(), &input, &compared, (&options, study), &progress)?
    };
    let (results, pictures): (Vec<LoopRun>, Vec<LoopPictures>) = all.into_iter().unzip();
    if results.iter().all(|result| result.frames() == 0) {
        interrupt::check()?;
    }
    let title = format!("Loop of {}", args.system.system.display());
    let Some(finished) = run.finish()? else { return Ok(()) };
    let page = || Ok(loops::page(&title, &input, &results, &pictures)?);
    finished.write(&title, &results, page, |colours| text::of_loops(&results, colours))?;
    let written: Vec<PathBuf> = args.telemetry.iter().map(|file| file.to_path_buf()).collect();
    files::print_written(args.outputs.is_quiet(), &written)?;
    check_complete(&results, args)
}

/// Fails after Ctrl-C, and says how many frames the results are of.
fn check_complete(results: &[LoopRun], args: &LoopArgs) -> anyhow::Result<()> {
    if !interrupt::seen() {
        return Ok(());
    }
    let done = |run: &LoopRun| {
        format!("{} of {} frames ({})", run.frames(), args.exposures * args.frames, run.reconstructor)
    };
    let list: Vec<String> = results.iter().filter(|run| run.not_spd.is_none()).map(done).collect();
    Err(CommandError::Kept(format!("the results are of {}", list.join(", "))).into())
}

/// Simulates the exposures of each reconstructor until Ctrl-C.
fn simulate_all(
    rt: &Runtime,
    input: &Input,
    compared: &[Candidate],
    how: (&LoopOptions, Study<'_>),
    observer: &dyn Observer,
) -> Result<Vec<(LoopRun, LoopPictures)>, PipelineError> {
    let mut all = Vec::new();
    for candidate in compared {
        match candidate {
            Candidate::Lost(run) => all.push((run.as_ref().clone(), LoopPictures::default())),
            Candidate::Kept(compared) => {
                all.extend(expose(rt, input, compared, how, observer, &mut interrupt::keeps)?);
            }
        }
        if observer.cancelled() {
            break;
        }
    }
    Ok(all)
}

/// A reconstructor, or a rule that has none.
enum Candidate {
    Kept(Compared),
    Lost(Box<LoopRun>),
}

/// Returns the reconstructors to compare: of the file, or of each rule, or none.
fn reconstructors(
    args: &LoopArgs,
    tile: TileChoice,
    input: &Input,
    rt: &Runtime,
    observer: &dyn Observer,
) -> anyhow::Result<Vec<Candidate>> {
    let one = |name: String, matrices| Ok(vec![Candidate::Kept(Compared { name, matrices, shares: None })]);
    if let Some(file) = &args.rec {
        let foreign = Foreign {
            reconstructor: file.to_path_buf(),
            command_matrix: None,
            order: args.slope_order.map(files::order),
        };
        let (matrices, notes) = pipeline::read_reconstructors(&input.system, &input.atmosphere, &foreign)?;
        notes.iter().for_each(|note| observer.warn(note));
        return one(file.to_path_buf().display().to_string(), Some(matrices));
    }
    if args.precision.is_empty() {
        if input.system.stars.len() > 1 && args.telemetry.is_none() {
            observer.warn(
                "control inverts the slopes of all stars together, as if their turbulence were the target's; \
                 --precision RULE computes a tomographic reconstructor",
            );
        }
        return one("measured".into(), None);
    }
    let options = Options {
        rules: args.precision.iter().map(ToString::to_string).collect(),
        tile,
        judge: false,
        keep_reconstructors: true,
        ..Options::default()
    };
    let outcome = pipeline::build(rt, input, &options, observer)?;
    super::check_survivors(&outcome)?;
    let candidate = |result: pipeline::RuleResult| match result.not_spd {
        Some(lost) => {
            observer.warn(&format!("{}: {lost}", result.rule));
            Candidate::Lost(Box::new(LoopRun::without_exposure(result.rule, lost)))
        }
        None => Candidate::Kept(Compared {
            name: result.rule,
            matrices: Some(result.extras.reconstructors.iter().map(|r| Matrix::clone(r)).collect()),
            shares: result.measured.map(|measured| measured.gemm_share),
        }),
    };
    Ok(outcome.results.into_iter().map(candidate).collect())
}
