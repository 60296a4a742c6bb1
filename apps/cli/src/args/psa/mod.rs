//! The words after `zellige psa`.

mod benchmark;
mod compare;
mod run;
mod simulate;
mod stream;
mod track;

use clap::Subcommand;

pub use benchmark::PsaBenchmark;
pub use compare::PsaCompareArgs;
pub use run::{PsaMethod, PsaRules, PsaRunArgs, PsaSearch};
pub use simulate::{BasisValues, Electronics, PsaEvents, PsaSimulate};
pub use stream::{PsaFrames, PsaOverload, PsaSend, PsaStream};
pub use track::{Geometry as TrackGeometry, PsaTrackArgs};

/// `zellige psa`.
#[derive(Debug, Subcommand)]
pub enum Psa {
    /// Print a crystal as a file that `simulate` reads: copy it and edit it.
    Crystal,
    /// A basis: the signals of all points of a crystal.
    #[command(after_long_help = simulate::SIMULATE_EXAMPLES)]
    Simulate(PsaSimulate),
    /// Events at known positions, with noise.
    #[command(after_long_help = simulate::EVENTS_EXAMPLES)]
    Events(PsaEvents),
    /// Where in a crystal each event happened: the point of a basis whose signals are most like the
    /// event's.
    Run(Box<PsaRunArgs>),
    /// Compare fast searches with the full one on simulated events: how many answers differ, and by
    /// how far.
    #[command(after_long_help = benchmark::TABLES_EXAMPLES)]
    Benchmark(PsaBenchmark),
    /// Events as frames of int16 traces, for streams.
    #[command(after_long_help = stream::FRAMES_EXAMPLES)]
    Frames(PsaFrames),
    /// Search for events as they come, from a file, a pipe or a socket.
    #[command(after_long_help = stream::stream_help())]
    Stream(Box<PsaStream>),
    /// Send frames to a `zellige psa stream --listen`, and again what it has not made safe.
    Send(PsaSend),
    /// How far the answers of two runs agree, and how far they are from the truth.
    Compare(PsaCompareArgs),
    /// Which hits belong to one gamma ray: spectra of an array, and how good they are with
    /// simulated gamma rays.
    Track(Box<PsaTrackArgs>),
}
