//! `zellige psa ...`.

mod compare;
mod run;

use crate::args::Psa;

/// Does what the word after `psa` says.
///
/// # Errors
/// Bad parameters, files that cannot be read or written, tasks that fail.
pub fn run(verb: &Psa) -> anyhow::Result<()> {
    match verb {
        Psa::Run(args) => run::run(args),
        Psa::Compare(args) => compare::run(args),
    }
}
