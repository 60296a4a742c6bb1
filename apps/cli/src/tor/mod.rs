//! `zellige tor ...`.

mod build;
mod cov;
mod eval;
mod files;
mod info;
mod results;
mod run;

use zellige_runtime::Runtime;
use zellige_tor::dm::InfluenceFunctions;
use zellige_tor::params::{self, Input, MirrorModel, Mode, Valid};
use zellige_tor::pipeline::{self, Observer, OnNotSpd, Options, Outcome, TileChoice};

use crate::args::{ExecutionArgs, FactorArgs, NotSpd, RunOutputs, SystemArgs, Tile, Tor};
use crate::devices::Devices;
use crate::exit::CommandError;
use crate::processes::{Processes, Session};
use crate::{interrupt, out};

/// Does what the word after `tor` says.
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
        Tor::Run(args) => run::run(args),
    }
}

/// Reads the system, prints what the reader repaired, and puts in place what the command line says
/// instead.
fn read(args: &SystemArgs) -> anyhow::Result<Input> {
    let mode = if args.strict { Mode::Strict } else { Mode::Lenient };
    let mut input = params::read(&args.system, args.atm.as_deref(), mode)
        .map_err(|error| bad_file("SYSTEM or --atm", error))?;
    for warning in &input.warnings {
        out::note(&format!("warning: {warning}"));
    }
    if !args.targets.is_empty() {
        input.system.targets.clone_from(&args.targets);
    }
    if let Some(map) = &args.valid_map {
        let map = zellige_tor::files::read_map(map).map_err(|error| bad_file("--valid-map", error))?;
        input.system.valid = Valid::Map(map);
    }
    if let Some(file) = &args.influence {
        let functions = InfluenceFunctions::read(file).map_err(|error| bad_file("--influence", error))?;
        input.system.mirror = MirrorModel::Sampled(functions.into());
    }
    input.system.check()?;
    Ok(input)
}

/// A parameter file that can be read and is none is a bad parameter.
fn bad_file(option: &'static str, error: zellige_tor::Error) -> anyhow::Error {
    match error {
        zellige_tor::Error::File { path, problem, source: None } => {
            CommandError::option(option, format!("{}: {problem}", path.display())).into()
        }
        other => other.into(),
    }
}

/// `auto`: the edges that are chosen where none are requested.
fn tile(tile: Tile, auto: TileChoice) -> TileChoice {
    match tile {
        Tile::Auto => auto,
        Tile::Edge(edge) => TileChoice::Uniform(edge),
    }
}

/// The options that `run` and `build` share.
fn options(
    factor: &FactorArgs,
    execution: &ExecutionArgs,
    devices: &Devices,
    processes: &Processes,
) -> Options {
    Options {
        ranks: processes.count(),
        workers: execution.workers.map(usize::from),
        solve_rule: factor.solve_precision.as_ref().map(ToString::to_string),
        tile: tile(factor.tile, devices.auto_tiles()),
        fuse_updates: factor.fuse_updates.into(),
        on_not_spd: match factor.on_not_spd {
            NotSpd::Fail => OnNotSpd::Fail,
            NotSpd::Retry => OnNotSpd::Retry,
        },
        refine: factor.refine,
        ..Options::default()
    }
}

/// Where a run that fits the memory submits its tasks, its trace included.
///
/// # Errors
/// As [`zellige_tor::pipeline::precheck`], and those of [`Processes::session`].
fn planned_session(
    input: &Input,
    options: &Options,
    execution: &ExecutionArgs,
    devices: &Devices,
    outputs: &RunOutputs,
    processes: &Processes,
) -> anyhow::Result<Session> {
    let options = Options { trace: outputs.is_traced(), ..options.clone() };
    let plan = zellige_tor::pipeline::precheck(input, &options)?;
    processes.session(outputs.traced_with(devices.runtime(execution), plan.trace_records))
}

/// A judgement that takes so many seconds is announced.
const LONG: f64 = 30.0;

/// Says how long it will take to judge the reconstructors of so many rules, where that is long: CPU
/// workers do it, whatever made them. What to do instead comes behind.
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
        out::note(&format!("judging in float64 will take about {time} on {workers} CPU worker(s){instead}"));
    }
    Ok(())
}

/// [`pipeline::run`] on one process or several.
///
/// # Errors
/// As there; Ctrl-C.
fn reconstruct(
    session: &Session,
    input: &Input,
    options: &Options,
    observer: &dyn Observer,
) -> anyhow::Result<Outcome> {
    let outcome = match session {
        Session::One(runtime) => pipeline::run(runtime, input, options, observer),
        #[cfg(feature = "mpi")]
        Session::Rank(cluster) => pipeline::run(cluster, input, options, observer),
    };
    outcome.map_err(pipeline_error)
}

/// An error of the pipeline; after Ctrl-C whatever it is, it is that.
fn pipeline_error(error: zellige_tor::pipeline::Error) -> anyhow::Error {
    match interrupt::check() {
        Err(interrupted) => interrupted.into(),
        Ok(()) => error.into(),
    }
}
