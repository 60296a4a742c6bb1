//! `zellige tor loop`.

use std::path::{Path, PathBuf};
use std::time::Instant;

use zellige_runtime::Runtime;
use zellige_tor::Matrix;
use zellige_tor::end_to_end::{LoopOptions, LoopRun, Simulation};
use zellige_tor::params::Input;
use zellige_tor::pipeline::{self, Foreign, Observer, Options, PipelineError};
use zellige_tor::report::{field, text};

use super::files;
use crate::args::LoopArgs;
use crate::devices::Needs;
use crate::interrupt::Finishing;
use crate::results::page_of;
use crate::run::Setup;

/// Reconstructors to compare: a name, and a matrix for each target.
type Compared = Vec<(String, Option<Vec<Matrix>>)>;

/// Simulates a loop frame by frame, for each reconstructor.
///
/// # Errors
/// Bad parameters, files that do not fit the system, a rule that loses positive definiteness,
/// outputs that cannot be written.
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
    let run = setup.start()?;
    let results = run.work(|progress| {
        let compared = reconstructors(args, &input, run.runtime(), progress)?;
        if args.telemetry.is_some() && compared.len() > 1 {
            let problem = "--telemetry records one loop: give one reconstructor or precision rule";
            return Err(PipelineError::Options(problem.into()));
        }
        let file = args.telemetry.as_deref();
        let one = |(name, matrices): (String, Option<Vec<Matrix>>)| {
            simulate_one(run.runtime(), &input, &options, name, matrices.as_deref(), file, progress)
        };
        compared.into_iter().map(one).collect::<Result<Vec<LoopRun>, PipelineError>>()
    })?;
    let title = format!("Loop of {}", args.system.system.display());
    let page = || {
        let mut page = page_of(&title, &results)?;
        page.markup().push_str(&field::section(&results));
        Ok(page)
    };
    run.write(&title, &results, page, |colours| text::of_loops(&results, colours))?;
    let written: Vec<PathBuf> = args.telemetry.iter().map(|file| file.to_path_buf()).collect();
    files::print_written(args.outputs.is_quiet(), &written)
}

/// Simulates one exposure.
fn simulate_one(
    rt: &Runtime,
    input: &Input,
    options: &LoopOptions,
    reconstructor: String,
    matrices: Option<&[Matrix]>,
    telemetry: Option<&Path>,
    observer: &dyn Observer,
) -> Result<LoopRun, PipelineError> {
    observer.stage("calibration", 1);
    let mut simulation = Simulation::new(input, matrices, options)?;
    if telemetry.is_some() {
        simulation.record(options.frames)?;
    }
    let start = Instant::now();
    // Ctrl-C ends the simulation, but not the writing of what was measured.
    let finishing = telemetry.is_some().then(Finishing::begin);
    let ended = simulation.run(rt, options.skip + options.frames, observer);
    if let (Some(file), Some(recorded)) = (telemetry, simulation.telemetry()) {
        let recorded = recorded.get();
        if ended.is_ok() || recorded.frames() > 0 {
            recorded.write(file, &input.system)?;
        }
        if recorded.frames() as u64 != options.frames {
            observer.warn(&format!("{}: {} frames", file.display(), recorded.frames()));
        }
    }
    drop(finishing);
    ended?;
    let seconds = start.elapsed().as_secs_f64();
    let result = simulation.result(&input.system, options);
    let theory = simulation.theory(input, options).unwrap_or_else(|error| {
        observer.warn(&error.to_string());
        None
    });
    let field = simulation.field_map(rt, input, options, observer)?;
    Ok(LoopRun {
        theory,
        field,
        reconstructor,
        result,
        seconds,
        frames_per_second: (options.skip + options.frames) as f64 / seconds,
    })
}

/// Returns the reconstructors to compare: of the file, or of each rule, or none.
fn reconstructors(
    args: &LoopArgs,
    input: &Input,
    rt: &Runtime,
    observer: &dyn Observer,
) -> Result<Compared, PipelineError> {
    if let Some(file) = &args.rec {
        let foreign = Foreign {
            reconstructor: file.to_path_buf(),
            command_matrix: None,
            order: args.slope_order.map(files::order),
        };
        let (matrices, notes) = pipeline::read_reconstructors(&input.system, &input.atmosphere, &foreign)?;
        notes.iter().for_each(|note| observer.warn(note));
        let name = file.to_path_buf().display().to_string();
        return Ok(vec![(name, Some(matrices))]);
    }
    if args.precision.is_empty() {
        return Ok(vec![("measured".into(), None)]);
    }
    let options = Options {
        rules: args.precision.iter().map(ToString::to_string).collect(),
        judge: false,
        keep_reconstructors: true,
        ..Options::default()
    };
    let outcome = pipeline::build(rt, input, &options, observer)?;
    let mut compared = Vec::new();
    for result in &outcome.results {
        if let Some(failed) = &result.not_spd {
            observer.warn(&format!("{}: {failed}", result.rule));
            continue;
        }
        let matrices = result.extras.reconstructors.iter().map(|r| Matrix::clone(r)).collect();
        compared.push((result.rule.clone(), Some(matrices)));
    }
    match compared.is_empty() {
        true => Err(PipelineError::Options(text::no_survivor(&outcome))),
        false => Ok(compared),
    }
}
