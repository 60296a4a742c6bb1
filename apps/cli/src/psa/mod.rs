//! `zellige psa ...`.

mod benchmark;
mod compare;
mod events;
mod run;
mod simulate;
mod stream;
mod track;

pub(crate) use run::{plan, searches};

use std::path::Path;

use zellige_psa::electronics::Electronics;
use zellige_psa::fields::Fields;
use zellige_psa::files::basis::Origin;
use zellige_psa::params::EXAMPLE;
use zellige_psa::search::Plan;
use zellige_psa::{detector, files};
use zellige_runtime::Runtime;

use crate::args::{self, Device, ExecutionArgs, Psa};
use crate::exit::CommandError;
use crate::out;
use crate::progress::Progress;

/// Runs a verb of `zellige psa`.
///
/// # Errors
/// Files that cannot be read or written, invalid parameters, tasks that fail, Ctrl-C.
pub fn run(verb: &Psa) -> anyhow::Result<()> {
    match verb {
        Psa::Crystal => out::print(EXAMPLE),
        Psa::Simulate(args) => simulate::run(args),
        Psa::Events(args) => events::run(args),
        Psa::Run(args) => run::run(args),
        Psa::Benchmark(args) => benchmark::run(args),
        Psa::Frames(args) => stream::frames(args),
        Psa::Stream(args) => stream::run(args),
        Psa::Send(args) => stream::send(args),
        Psa::Compare(args) => compare::run(args),
        Psa::Track(args) => track::run(args),
    }
}

/// Fails for a plan that cannot be searched by, or not on the requested devices.
fn check(plan: &Plan, args: &ExecutionArgs) -> anyhow::Result<()> {
    plan.check()?;
    if args.device != Device::Cpu && !plan.runs_on_gpus() {
        let problem = "GPUs have no kernels for this search: use --method fgs or screen, --precision fp32, int16 or bf16, --lut none, no --certify";
        return Err(CommandError::option("--device", problem).into());
    }
    Ok(())
}

/// Reads the fields of a basis from its folder, or computes them again if the folder has none.
fn fields(folder: &Path, rt: &Runtime, origin: &Origin, progress: &Progress) -> anyhow::Result<Fields> {
    match files::fields::are_there(folder) {
        true => Ok(files::fields::read(folder, &origin.crystal, origin.grid)?),
        false => Ok(detector::fields(rt, &origin.crystal, origin.grid, progress)?),
    }
}

/// Returns the electronics of the options, with the known values for options that are not given.
fn electronics(said: args::Electronics, known: Electronics) -> Electronics {
    Electronics {
        tau: said.tau.unwrap_or(known.tau),
        cross_talk: said.cross_talk.map_or(known.cross_talk, |(proportional, _)| proportional),
        differential_cross_talk: said
            .cross_talk
            .and_then(|(_, differential)| differential)
            .unwrap_or(known.differential_cross_talk),
    }
}
