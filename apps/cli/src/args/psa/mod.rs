//! The words after `zellige psa`.

mod compare;
mod run;
mod simulate;
mod track;

use clap::Subcommand;

pub use compare::PsaCompareArgs;
pub use run::{PsaMethod, PsaRunArgs};
pub use simulate::{BasisValues, Electronics, PsaEvents, PsaSimulate};
pub use track::{Geometry as TrackGeometry, PsaTrackArgs};

/// `zellige psa`.
#[derive(Debug, Subcommand)]
pub enum Psa {
    /// Print a crystal as a file that `simulate` reads: copy it and edit it.
    Crystal,
    /// A basis: the signals of all points of a crystal.
    #[command(after_help = simulate::SIMULATE_EXAMPLES)]
    Simulate(PsaSimulate),
    /// Events at known places, with noise.
    #[command(after_help = simulate::EVENTS_EXAMPLES)]
    Events(PsaEvents),
    /// Where in a segment each event happened: the point of a basis whose signals are most like the event's.
    Run(PsaRunArgs),
    /// How far the answers of two runs agree, and how far they are from the truth.
    Compare(PsaCompareArgs),
    /// Which hits belong to one gamma ray: spectra of an array, and how good they are with simulated gamma rays.
    Track(Box<PsaTrackArgs>),
}
