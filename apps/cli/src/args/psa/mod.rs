//! Options of `zellige psa`.

mod benchmark;
mod compare;
mod run;
mod simulate;
mod stream;
mod track;

use clap::Subcommand;

pub use benchmark::PsaBenchmark;
pub use compare::PsaCompareArgs;
pub use run::{PsaInput, PsaRules, PsaRunArgs, PsaSearch};
pub use simulate::{BasisFormat, Electronics, PsaEvents, PsaSimulate};
pub use stream::{PsaFrames, PsaOverload, PsaSend, PsaStream};
pub use track::{Geometry as TrackGeometry, PsaTrackArgs};

/// Verbs of `zellige psa`.
#[derive(Debug, Subcommand)]
pub enum Psa {
    /// Print a crystal as a file that `simulate` reads, to copy and edit.
    Crystal,
    /// Simulate a basis: the signals of all points of a crystal.
    #[command(after_long_help = simulate::SIMULATE_EXAMPLES)]
    Simulate(PsaSimulate),
    /// Simulate events at known positions, with noise.
    #[command(after_long_help = simulate::EVENTS_EXAMPLES)]
    Events(PsaEvents),
    /// Locate each event in its crystal: find the point of a basis whose signals are most like the
    /// event's.
    Run(Box<PsaRunArgs>),
    /// Compare fast searches with the full one on simulated events: the number and distance of
    /// answers that differ.
    #[command(after_long_help = benchmark::TABLES_EXAMPLES)]
    Benchmark(PsaBenchmark),
    /// Write events as frames of int16 traces, for streams.
    #[command(after_long_help = stream::FRAMES_EXAMPLES)]
    Frames(PsaFrames),
    /// Search for events as they arrive from a file, pipe or socket.
    #[command(after_long_help = stream::stream_help())]
    Stream(Box<PsaStream>),
    /// Send frames to a `zellige psa stream --listen`, and resend those that it has not made safe.
    Send(PsaSend),
    /// Compare the answers of two runs with each other and with the truth.
    Compare(PsaCompareArgs),
    /// Track gamma rays: combine the hits of an array into gamma rays and spectra, and rate them on
    /// simulated gamma rays.
    Track(Box<PsaTrackArgs>),
}
