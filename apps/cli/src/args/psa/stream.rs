//! Options of `zellige psa frames`, `zellige psa stream` and `zellige psa send`.

use clap::{Args, ValueEnum};
use zellige_psa::channels::ChannelSet;

use super::run::{GPUS, PsaRules, PsaSearch};
use crate::args::ExecutionArgs;
use crate::args::execution::DEVICES;
use crate::args::{Input, Output, RunOutputs, word};

pub(super) const FRAMES_EXAMPLES: &str = "\
Frames are those of GRETINA's event files (16 bytes: type, length, time in 10 ns), with traces \
in int16. They have the channels that a search compares, with the segment and the energy of the \
hit; or whole crystals (--channels all), whose hits the search finds.

Examples
  zellige psa frames ev -o ev.geb
  zellige psa frames ev --channels hit-core --repeats 1000 -o - | \\
      zellige psa stream --basis basis --channels hit-core - -o hits.geb";

const STREAM_EXAMPLES: &str = "\
Events are frames (see `zellige psa frames`); hits are frames of GRETINA's mode 2, in the order \
of the events. An incomplete output is called OUT.part, and OUT.resume next to it records the \
safe positions of input and output. After an interruption the same command continues from there: \
a file at its position, a socket with the frames that were not acknowledged as safe. A pipe \
starts from the beginning.

If events arrive faster than they are searched, the sender waits (--overload block), or events \
are dropped and counted (--overload shed).

Examples
  zellige psa stream --basis basis ev.geb -o hits.geb
  zellige psa stream --basis basis --listen 127.0.0.1:4000 -o hits.geb \\
      --latency 5
  zellige psa send ev.geb 127.0.0.1:4000";

pub(super) fn stream_help() -> String {
    format!("{STREAM_EXAMPLES}\n\n{GPUS}\n\n{DEVICES}")
}

/// Options of `zellige psa frames`.
#[derive(Debug, Args)]
pub struct PsaFrames {
    /// Folder of events.
    #[arg(value_name = "FOLDER")]
    pub events: Input,
    /// Channels: hit-core, neighbours (of events with one hit), all.
    #[arg(long, value_name = "SET", default_value = "hit-core", value_parser = word::<ChannelSet>)]
    pub channels: ChannelSet,
    /// Samples per channel [default: 40; all with --channels all].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub window: Option<u16>,
    /// Energy of one step of the samples (keV); samples saturate at 32767 steps.
    #[arg(long, value_name = "KEV", default_value_t = 0.2)]
    pub unit: f32,
    /// Number of the crystal.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub crystal: i32,
    /// Write all events N times, each time later.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeats: u32,
    /// Output file; `-` is standard output.
    #[arg(long, short, value_name = "FILE|-")]
    pub output: Output,
}

/// Options of `zellige psa stream`.
#[derive(Debug, Args)]
pub struct PsaStream {
    /// Input file of events; `-` is standard input.
    #[arg(value_name = "FILE|-", required_unless_present = "listen")]
    pub input: Option<Input>,
    /// Receive events from `psa send` at this port.
    ///
    /// A port alone accepts connections from this machine only. 0.0.0.0:4000 accepts events from
    /// other machines.
    #[arg(long, value_name = "PORT|HOST:PORT", conflicts_with = "input")]
    pub listen: Option<String>,
    /// Folder of the basis.
    #[arg(long, value_name = "FOLDER")]
    pub basis: Input,
    /// Requested latency (ms).
    ///
    /// The batching delay is at most a quarter of it. Answers that take longer than the latency are
    /// counted.
    #[arg(long, value_name = "MS", default_value_t = 20.0, value_parser = milliseconds)]
    pub latency: f64,
    /// Action if events arrive too fast: block the sender, or drop events and count them (shed).
    #[arg(long, value_name = "WHAT", default_value = "block", hide_short_help = true)]
    pub overload: PsaOverload,
    /// Output: hits as GEB frames; `-` is standard output.
    #[arg(long, short, value_name = "FILE|-")]
    pub output: Output,
    #[command(flatten)]
    pub search: PsaSearch,
    #[command(flatten)]
    pub rules: PsaRules,
    #[command(flatten)]
    pub execution: ExecutionArgs,
    #[command(flatten)]
    pub outputs: RunOutputs,
}

/// Actions on overload; see [`PsaStream::overload`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PsaOverload {
    /// Blocks the sender, so that nothing is lost.
    Block,
    /// Drops events and counts them.
    Shed,
}

/// Options of `zellige psa send`.
#[derive(Debug, Args)]
pub struct PsaSend {
    /// File of frames to send.
    #[arg(value_name = "FILE")]
    pub input: Input,
    /// Address of the listening `psa stream`.
    #[arg(value_name = "PORT|HOST:PORT")]
    pub to: String,
    /// Maximum number of frames per second.
    #[arg(long, value_name = "HZ", value_parser = rate)]
    pub rate: Option<f64>,
    /// Give up after this number of seconds without a connection or an acknowledgement.
    #[arg(long, value_name = "S", default_value_t = 60)]
    pub patience: u32,
}

fn milliseconds(text: &str) -> Result<f64, String> {
    let time = text.parse().ok().filter(|time| (0.01..=1e6).contains(time));
    time.ok_or_else(|| "use a time from 0.01 to 1000000 ms".into())
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (1e-3..=1e9).contains(rate));
    rate.ok_or_else(|| "use a number from 0.001 to 1e9 per second".into())
}
