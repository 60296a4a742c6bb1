//! `zellige tor ...`.

mod build;
mod cov;
mod eval;
mod files;
mod info;
mod learn;
mod rtc;
mod run;
mod simulated;

use zellige_files::FileError;
use zellige_runtime::Runtime;
use zellige_tor::params::{self, Input, Mode};
use zellige_tor::pipeline::{self, Observer, OnNotSpd, Options, Outcome, TileChoice};
use zellige_tor::report::text;
use zellige_tor::system::{MirrorModel, Valid, WIND_SPEED};

use crate::args::{ExecutionArgs, FactorArgs, NotSpd, RoundingArgs, SystemArgs, Tile, Tor};
use crate::exit::CommandError;
use crate::out;
use crate::processes::Session;
use crate::run::{Run, Setup};

/// Runs a verb of `zellige tor`.
///
/// # Errors
/// Bad parameters, files that cannot be read or written, tasks that fail, no rule that survives,
/// Ctrl-C.
pub fn run(verb: &Tor) -> anyhow::Result<()> {
    match verb {
        Tor::Example => out::print(params::EXAMPLE),
        Tor::Info(args) => info::info(args),
        Tor::Cov(args) => cov::cov(args),
        Tor::Build(args) => build::build(args),
        Tor::Eval(args) => eval::eval(args),
        Tor::Learn(args) => learn::learn(args),
        Tor::Loop(args) => simulated::simulate(args),
        Tor::Rtc(args) => rtc::rtc(args),
        Tor::Run(args) => run::run(args),
    }
}

/// Reads the system, prints the reader's repairs, and applies the parameters of the command line.
pub(crate) fn read(args: &SystemArgs) -> anyhow::Result<Input> {
    let mode = if args.strict { Mode::Strict } else { Mode::Lenient };
    let mut input = params::read(&args.system, args.atm.as_deref(), mode)
        .map_err(|error| bad_file("SYSTEM or --atm", error))?;
    for warning in &input.warnings {
        out::note(&format!("warning: {warning}"));
    }
    if !args.targets.is_empty() {
        input.system.targets.clone_from(&args.targets);
    }
    if let Some(lag) = args.lag_ms {
        input.system.lag = 1e-3 * lag;
        let still = input.atmosphere.layers.iter().filter(|layer| layer.wind.is_none()).count();
        if lag > 0.0 && still > 0 {
            out::note(&format!(
                "warning: --lag-ms: {still} layer(s) have no wind in the profile; they move at {WIND_SPEED} m/s in spread directions: give atmosphere.wind_speed and wind_direction"
            ));
        }
    }
    if let Some(map) = &args.valid_map {
        let map = params::read_map(map).map_err(|error| bad_file("--valid-map", error))?;
        input.system.valid = Valid::Map(map);
    }
    if let Some(file) = &args.influence {
        let functions = params::read_influence(file).map_err(|error| bad_file("--influence", error))?;
        input.system.mirror = MirrorModel::Sampled(functions.into());
    }
    input.system.check()?;
    Ok(input)
}

/// Converts an error of a readable file that is no parameter file to that of a bad parameter.
fn bad_file(option: &'static str, error: zellige_tor::Error) -> anyhow::Error {
    match error {
        zellige_tor::Error::File(FileError::Content { path, problem, .. }) => {
            CommandError::option(option, format!("{}: {problem}", path.display())).into()
        }
        other => other.into(),
    }
}

/// Converts a tile size; `auto` stands for the given choice.
pub(crate) fn tile(tile: Tile, auto: TileChoice) -> TileChoice {
    match tile {
        Tile::Auto => auto,
        Tile::Edge(edge) => TileChoice::Uniform(edge),
    }
}

/// Returns the options that `run` and `build` share.
fn options(factor: &FactorArgs, execution: &ExecutionArgs, setup: &Setup<'_>) -> Options {
    Options {
        ranks: setup.processes.count(),
        workers: execution.workers.map(usize::from),
        solve_rule: factor.solve_precision.as_ref().map(ToString::to_string),
        tile: tile(factor.tile, setup.devices.auto_tiles()),
        fuse_updates: factor.fuse_updates.into(),
        on_not_spd: match factor.on_not_spd {
            NotSpd::Fail => OnNotSpd::Fail,
            NotSpd::Retry => OnNotSpd::Retry,
        },
        refine: factor.refine,
        ..Options::default()
    }
}

/// Starts a run that fits the memory, with its trace.
///
/// # Errors
/// The errors of [`zellige_tor::pipeline::precheck`] and of [`Setup::start_with`].
fn start<'a>(setup: Setup<'a>, input: &Input, options: &Options) -> anyhow::Result<Run<'a>> {
    let is_traced = setup.is_traced();
    let plan = pipeline::precheck(input, &Options { trace: is_traced, ..options.clone() })?;
    setup.start_with(|builder| match is_traced {
        true => builder.trace_capacity(plan.trace_records),
        false => builder,
    })
}

/// Minimum duration of a judgement that is announced, in seconds.
const LONG: f64 = 30.0;

/// Announces the time to judge the reconstructors of so many rules, if it is long. CPU workers
/// judge, whatever computed the reconstructors. `instead` is appended and names an alternative.
///
/// # Errors
/// A sensor has no valid sub-aperture.
fn announce_judgement(input: &Input, rules: usize, rt: &Runtime, instead: &str) -> anyhow::Result<()> {
    let workers = rt.workers() - pipeline::devices(rt).len();
    let seconds = pipeline::info(&input.system, &input.atmosphere)?.judging_seconds(rules, workers);
    if seconds >= LONG {
        let time = if seconds < 120.0 {
            format!("{seconds:.0} seconds")
        } else {
            format!("{:.0} minutes", seconds / 60.0)
        };
        out::note(&format!(
            "the evaluation in float64 will take about {time} on {workers} CPU worker(s){instead}"
        ));
    }
    Ok(())
}

/// Runs [`pipeline::run`] on one process or several.
///
/// # Errors
/// The errors of [`pipeline::run`].
fn reconstruct(
    session: &Session,
    input: &Input,
    options: &Options,
    observer: &dyn Observer,
) -> Result<Outcome, pipeline::PipelineError> {
    match session {
        Session::One(runtime) => pipeline::run(runtime, input, options, observer),
        #[cfg(feature = "mpi")]
        Session::Rank(cluster) => pipeline::run(cluster, input, options, observer),
    }
}

/// Runs the pipeline, with as few bits as `--bits auto` allows.
///
/// # Errors
/// The errors of [`pipeline::run`] and [`pipeline::with_fewest_bits`].
fn reconstruct_rounded(
    session: &Session,
    input: &Input,
    options: &Options,
    rounding: &RoundingArgs,
    observer: &dyn Observer,
) -> anyhow::Result<Outcome> {
    let run = |options: &Options| reconstruct(session, input, options, observer);
    let outcome = match rounding.largest_loss()? {
        Some(most) => pipeline::with_fewest_bits(options, |loss| rounding.within(loss), most, run),
        None => run(options),
    };
    Ok(outcome?)
}

/// Fails if no rule survived, and names the tile of each failure.
fn check_survivors(outcome: &Outcome) -> anyhow::Result<()> {
    match outcome.survived() {
        true => Ok(()),
        false => Err(CommandError::NoRuleSurvived(text::no_survivor(outcome)).into()),
    }
}
