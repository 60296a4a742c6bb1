//! `zellige doctor`.

use clap::Parser;
use schemars::JsonSchema;
use serde::Serialize;
use zellige_measure::selftest::Report;

use crate::args::{Cli, DoctorArgs, SelftestArgs, Verb};
use crate::machine::show::Machine;
use crate::out;
use crate::results::{is_stdout, write_json};
use crate::selftest;

/// Description of the machine, and the result of the self-test.
#[derive(Serialize, JsonSchema)]
pub struct Figures {
    /// The machine, as `machine show` describes it.
    machine: Machine,
    /// The self-test, as `selftest --quick` reports it.
    selftest: Report,
}

/// Describes the machine and runs a short self-test, with GPUs if their driver is present.
///
/// # Errors
/// A check failed, or the output cannot be written.
pub fn run(args: &DoctorArgs) -> anyhow::Result<()> {
    let machine = Machine::discover();
    let quiet = is_stdout(args.json.as_ref());
    if !quiet {
        out::print(&format!("{}\n", machine.text()))?;
    }
    let short = short(machine.gpus.are_there());
    let report = selftest::check(&short)?;
    if !quiet {
        selftest::print(&report)?;
    }
    let figures = Figures { machine, selftest: report };
    write_json(args.json.as_ref(), &[&figures])?;
    selftest::verdict(&short, &figures.selftest)?;
    if !quiet {
        out::print("everything works here\n")?;
    }
    Ok(())
}

/// Returns the options of the short self-test.
fn short(has_gpus: bool) -> SelftestArgs {
    let device = if has_gpus { "cuda" } else { "cpu" };
    let line = ["zellige", "selftest", "--quick", "--fuzz", "50", "--device", device];
    match Cli::parse_from(line).verb {
        Verb::Selftest(args) => args,
        _ => unreachable!("the line says selftest"),
    }
}
