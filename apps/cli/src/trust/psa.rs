//! `zellige trust psa ...`.

use zellige_files::observe::Observer;
use zellige_psa::trust;

use super::{options, write};
use crate::args::{PsaRunArgs, Trusted};
use crate::devices::Needs;
use crate::psa::{plan, searches};
use crate::run::Setup;

/// Judges the searches for the hits of every event.
///
/// # Errors
/// Invalid combinations of options, files with other content or that do not fit each other, an
/// output that cannot be written.
pub fn run(args: &Trusted<PsaRunArgs>) -> anyhow::Result<()> {
    let Trusted { sampling, verb: args } = args;
    let setup = Setup::new(&args.execution, &Needs::default(), &args.outputs)?;
    let plan = plan(&args.search);
    let searches = searches(&args.input, &args.rules, &plan)?;
    let run = setup.start()?;
    let trust = run.work(|progress| {
        progress.stage("searching", 0);
        trust::run(run.runtime(), &searches, &plan, &options(*sampling))
    })?;
    write(run, &format!("zellige trust psa run {}", args.input.events.display()), &trust)
}
