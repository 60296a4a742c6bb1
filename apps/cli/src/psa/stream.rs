//! `zellige psa frames`, `zellige psa stream` and `zellige psa send`.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

use zellige_files::observe::Observer;
use zellige_psa::channels::{CHANNELS, Channel, ChannelSet, Segment};
use zellige_psa::events::Events;
use zellige_psa::files;
use zellige_psa::files::geb::write_frame;
use zellige_psa::pipeline::stream::journal::Journal;
use zellige_psa::pipeline::stream::output::Output;
use zellige_psa::pipeline::stream::record::{KIND, Traces};
use zellige_psa::pipeline::stream::socket::{self, Listener};
use zellige_psa::pipeline::stream::source::{Mark, Once};
use zellige_psa::pipeline::stream::{self, Options, Overload};
use zellige_psa::report::text;
use zellige_psa::search::{Batching, Event, EventPipeline, Rules};

use super::run::{plan, rules};
use crate::args::{PsaFrames, PsaOverload, PsaSend, PsaStream};
use crate::devices::Needs;
use crate::exit::CommandError;
use crate::interrupt;
use crate::out;
use crate::progress::Progress;
use crate::results::page_of;
use crate::run::Setup;

/// Writes events as frames.
///
/// # Errors
/// Events that cannot be read, or that have several hits if only some channels are requested; an
/// output that cannot be written.
pub fn frames(args: &PsaFrames) -> anyhow::Result<()> {
    let events = files::events::read(&args.events)?;
    if events.hits > 1 && args.channels != ChannelSet::All {
        let problem = format!("these events have {} hits each: use all", events.hits);
        return Err(CommandError::option("--channels", problem).into());
    }
    let samples = events.sampling.samples;
    let window = match (args.window, args.channels) {
        (Some(window), _) => usize::from(window),
        (None, ChannelSet::All) => samples,
        (None, _) => Rules::DEFAULT.window.min(samples),
    };
    if window > samples {
        return Err(CommandError::option("--window", format!("these events have {samples} samples")).into());
    }
    let total = events.count() as u64 * u64::from(args.repeats);
    let progress = Progress::new();
    Observer::stage(&progress, "writing frames", total);
    let body = |out: &mut dyn Write| -> io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 18, out);
        let span = events.timestamps.last().map_or(0, |last| last + 1000);
        let (mut payload, mut done) = (Vec::new(), 0);
        let mut clipped = Clipped::default();
        for round in 0..u64::from(args.repeats) {
            for event in 0..events.count() {
                let (mut traces, channels) = traces(&events, event, args.channels, window);
                traces.crystal = args.crystal;
                let count = traces.put(channels, args.unit, &mut payload).map_err(io::Error::other)?;
                if count > 0 && round == 0 {
                    clipped.add(count, &traces.event.signals);
                }
                let timestamp = events.timestamps[event] + round * span;
                write_frame(&mut out, KIND, timestamp / 10, &payload)?;
            }
            done += events.count() as u64;
            Observer::advance(&progress, done);
            interrupt::check().map_err(io::Error::other)?;
        }
        clipped.warn(args.unit, &progress);
        out.flush()
    };
    args.output.write(body)?;
    drop(progress);
    match args.output.is_stdout() {
        true => Ok(()),
        false => out::print(&format!("{total} frames\nwritten: {}\n", args.output.display())),
    }
}

/// Samples that do not fit into 16 bits at the requested unit.
#[derive(Default)]
struct Clipped {
    samples: usize,
    events: usize,
    /// Largest magnitude of a sample (keV).
    largest: f32,
}

impl Clipped {
    fn add(&mut self, samples: usize, signals: &[f32]) {
        self.samples += samples;
        self.events += 1;
        self.largest = signals.iter().fold(self.largest, |most, x| most.max(x.abs()));
    }

    fn warn(&self, unit: f32, observer: &dyn Observer) {
        let Clipped { samples, events, largest } = self;
        let most = unit * f32::from(i16::MAX);
        // Two digits are enough for the recommended unit.
        let needed = f64::from(*largest) / f64::from(i16::MAX);
        let digit = 10f64.powf(needed.log10().floor() - 1.0);
        let needed = (needed / digit).ceil() * digit;
        if *samples > 0 {
            observer.warn(&format!(
                "{samples} samples of {events} events do not fit 16 bits at --unit {unit} ({most:.1} keV at most, the largest has {largest:.1}): they are clipped; use --unit {needed:.2e} or more"
            ));
        }
    }
}

/// Returns the traces of an event, and its number of channels.
fn traces(events: &Events, event: usize, set: ChannelSet, window: usize) -> (Traces, usize) {
    let samples = events.sampling.samples;
    let signals = &events.signals[event * CHANNELS * samples..][..CHANNELS * samples];
    let (hit, channels): (Option<(Segment, f64)>, Vec<Channel>) = match set {
        ChannelSet::All => (None, Channel::all().collect()),
        set => (Some((events.segments[event], events.energies[event])), set.of(events.segments[event])),
    };
    let signals = channels.iter().flat_map(|channel| &signals[channel.index() * samples..][..window]);
    let (signals, saturated) = (signals.copied().collect(), Vec::new());
    let event = Event { timestamp: events.timestamps[event], hit, signals, saturated };
    (Traces { crystal: 0, event }, channels.len())
}

/// Searches for events while they arrive.
///
/// # Errors
/// A basis or an input that cannot be read, invalid options, an output that cannot be written, an
/// output of another input, Ctrl-C.
pub fn run(args: &PsaStream) -> anyhow::Result<()> {
    let plan = plan(&args.search);
    super::check(&plan, &args.execution)?;
    let setup = Setup::new(&args.execution, &Needs::default(), &args.outputs)?;
    let basis = files::read_basis(&args.basis)?;
    let step = basis.sampling().step;
    let latency = Duration::from_secs_f64(args.latency / 1000.0);
    let batching = Batching { patience: latency / 4, ..Batching::default() };
    let options = Options {
        latency,
        overload: match args.overload {
            PsaOverload::Block => Overload::Block,
            PsaOverload::Shed => Overload::Shed,
        },
        ..Options::default()
    };
    let rules = rules(&args.rules, &plan, basis.sampling().samples)?;
    let run = setup.start()?;
    let is_stdout = args.output.is_stdout();
    let input = match (&args.listen, &args.input) {
        (Some(_), _) | (None, None) => "socket".to_owned(),
        (None, Some(path)) => path.display().to_string(),
    };
    let (mut output, from) = match (is_stdout, input.as_str()) {
        (true, _) => (Output::stream(io::stdout(), step), Mark::default()),
        (false, "-") => (Output::anew(&args.output, &input, step)?, Mark::default()),
        (false, _) => Output::file(&args.output, &input, step)?,
    };
    if from.frames > 0 {
        out::note(&format!("zellige: continuing after {} frames of an earlier run", from.frames));
    }
    let summary = run.work(|progress| -> anyhow::Result<_> {
        progress.stage("events", 0);
        let mut pipeline = EventPipeline::new(run.runtime(), &plan, batching, &basis, rules)?;
        let summary = match (&args.listen, &args.input) {
            (Some(address), _) => {
                let listener = Listener::bind(address, from)?;
                out::note(&format!("zellige: listening at {}", listener.address()));
                stream::run(listener, &mut output, &mut pipeline, &options, progress)
            }
            (None, Some(path)) if &**path == Path::new("-") => {
                stream::run(Once::new(io::stdin()), &mut output, &mut pipeline, &options, progress)
            }
            (None, Some(path)) => {
                stream::run(Once::open(path, from)?, &mut output, &mut pipeline, &options, progress)
            }
            (None, None) => unreachable!("one of the two is required"),
        };
        if summary.is_err()
            && let Ok(Some(Journal { frames, .. })) = Journal::read(&args.output)
        {
            out::note(&format!(
                "zellige: {frames} frames are complete: the same command continues after them"
            ));
        }
        Ok(summary?)
    })?;
    if summary.events == 0 && summary.foreign > 0 {
        let problem = format!("none of its {} frames has traces of zellige psa frames", summary.foreign);
        return Err(CommandError::option(input.as_str(), problem).into());
    }
    if summary.events > 0 && summary.broken == summary.events {
        let problem = format!(
            "none of its {} events can be searched; use the --channels and --window of zellige psa frames",
            summary.events
        );
        return Err(CommandError::option(input.as_str(), problem).into());
    }
    output.finish()?;
    let text =
        |_| if is_stdout { String::new() } else { text::of_stream(&summary, args.latency, &args.output) };
    let title = format!("Stream of events from {input}");
    let results = [&summary];
    run.write(&title, &results, || page_of(&title, &results), text)
}

/// Sends frames to a stream.
///
/// # Errors
/// A file that cannot be read, an address without a listener.
pub fn send(args: &PsaSend) -> anyhow::Result<()> {
    let progress = Progress::new();
    Observer::stage(&progress, "sending", 0);
    let patience = Duration::from_secs(args.patience.into());
    let frames = socket::send(&args.input, &args.to, args.rate, patience, &progress)?;
    drop(progress);
    out::print(&format!("{frames} frames are acknowledged\n"))
}
