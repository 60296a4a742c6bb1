//! `zellige trust lqcd ...`.

use zellige_files::observe::Observer;
use zellige_lqcd::{files, trust};

use super::{options, write};
use crate::args::{LqcdFiles, LqcdInvert, Trusted};
use crate::devices::Needs;
use crate::exit::CommandError;
use crate::lqcd::invert;
use crate::run::Setup;

/// Judges a propagator.
///
/// # Errors
/// A file that cannot be read or holds no gauge field, invalid options or eigenvectors, an output
/// that cannot be written.
pub fn run(args: &Trusted<LqcdInvert>) -> anyhow::Result<()> {
    let Trusted { sampling, verb: args } = args;
    if args.deflate.is_some() {
        let problem = "solutions are judged that begin at zero: leave it out";
        return Err(CommandError::option("--deflate", problem).into());
    }
    let LqcdFiles { output, source_fields, long, .. } = &args.files;
    let given = [
        ("--output", output.is_some()),
        ("--source-fields", source_fields.is_some()),
        ("--long", long.is_some()),
    ];
    if let Some((option, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
        let problem = "a point source in a gauge field is judged: leave it out";
        return Err(CommandError::option(option, problem).into());
    }
    let gauge = files::read(&args.system.lattice)?.gauge;
    let run = Setup::new(&args.execution, &Needs::default(), &args.outputs)?.start()?;
    let trust = run.work(|progress| {
        progress.stage("solving", 0);
        trust::invert(run.runtime(), &gauge, &invert::options(args), &options(*sampling))
    })?;
    write(run, &format!("zellige trust lqcd invert {}", args.system.lattice.display()), &trust)
}
