//! The words after `zellige psa`.

mod compare;
mod run;

use clap::Subcommand;

pub use compare::PsaCompareArgs;
pub use run::{PsaMethod, PsaRunArgs};

/// The word after `psa`.
#[derive(Debug, Subcommand)]
pub enum Psa {
    /// Where in a segment each event happened: the point of a basis whose signals are most like the event's.
    Run(PsaRunArgs),
    /// How far the answers of two runs agree, and how far they are from the truth.
    Compare(PsaCompareArgs),
}
