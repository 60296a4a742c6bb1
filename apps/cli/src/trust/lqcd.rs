//! `zellige trust lqcd ...`.

use zellige_files::observe::Observer;
use zellige_lqcd::{files, trust};

use super::{options, write};
use crate::args::{LqcdInvert, Trusted};
use crate::devices::Needs;
use crate::lqcd::invert;
use crate::run::Setup;

/// Judges a propagator.
///
/// # Errors
/// A file that cannot be read or holds no gauge field, invalid options or eigenvectors, an output
/// that cannot be written.
pub fn run(args: &Trusted<LqcdInvert>) -> anyhow::Result<()> {
    let Trusted { sampling, verb: args } = args;
    let gauge = files::read(&args.system.lattice)?.gauge;
    let run = Setup::new(&args.execution, &Needs::default(), &args.outputs)?.start()?;
    let trust = run.work(|progress| {
        progress.stage("solving", 0);
        trust::invert(run.runtime(), &gauge, &invert::options(args), &options(*sampling))
    })?;
    write(run, &format!("zellige trust lqcd invert {}", args.system.lattice.display()), &trust)
}
