//! `zellige psa run`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use zellige_app::text::digits;
use zellige_files::observe::Observer;
use zellige_psa::array::Array;
use zellige_psa::basis::{Basis, Sampling};
use zellige_psa::channels::CHANNELS;
use zellige_psa::events::Events;
use zellige_psa::files;
use zellige_psa::files::channel_map::ChannelMap;
use zellige_psa::files::traces::{EventFile, Needs};
use zellige_psa::pipeline::results::{EventResult, Results};
use zellige_psa::report::{self, Shown};
use zellige_psa::search::crosstalk::CrossTalk;
use zellige_psa::search::{
    Answer, Batching, Event, Files, Flow, Found, Input, Method, PairPlan, Place, Plan, Rules, Searcher,
};
use zellige_runtime::Trace;

use super::failed;
use crate::args::{PsaMethod, PsaRules, PsaRunArgs, PsaSearch};
use crate::devices::Devices;
use crate::exit::CommandError;
use crate::interrupt;
use crate::progress::Progress;
use crate::results::page_of;

/// Searches for every event.
///
/// # Errors
/// Options without meaning together, files that hold something else or do not fit each other, an output that cannot be written.
pub fn run(args: &PsaRunArgs) -> anyhow::Result<()> {
    let plan = plan(&args.search);
    plan.check()?;
    let devices = super::devices(&args.execution, &plan)?;
    let batching = Batching { size: args.batch.into(), ..Batching::default() };
    let search = match (&args.positions, &args.energies) {
        (Some(positions), Some(energies)) => arrays(args, &plan, &devices, batching, [positions, energies])?,
        _ => folders(args, &plan, &devices, batching)?,
    };
    let title = format!("Events of {}", args.events.display());
    let results = [&search.results];
    let page = || match &search.basis {
        Some(basis) => Ok(report::of_search(&title, basis, &search.results, &search.shown)),
        None => page_of(&title, &results),
    };
    args.outputs.write(&title, search.trace.as_ref(), &results, page, || text(&search))
}

/// What was searched and found.
struct Search {
    results: Results,
    events: usize,
    seconds: f64,
    trace: Option<Trace>,
    /// Of a whole crystal.
    basis: Option<Basis>,
    /// Signals for the report.
    shown: Vec<Shown>,
}

/// # Errors
/// Options that are of meaning for whole crystals alone.
fn are_of_arrays(args: &PsaRunArgs) -> Result<(), CommandError> {
    let rules = &args.rules;
    let given = [
        ("--shifts", rules.shifts > 0),
        ("--align", rules.align),
        ("--pairs", rules.pairs.is_some()),
        ("--cross-talk", rules.cross_talk.is_some()),
        ("--trapping", rules.trapping.is_some()),
        ("--array", args.array.is_some()),
        ("--channel-map", args.channel_map.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => {
            let problem = "of meaning for folders alone: these are arrays (--positions, --energies)";
            Err(CommandError::option(option, problem))
        }
        None => Ok(()),
    }
}

/// Hits of one segment.
fn arrays(
    args: &PsaRunArgs,
    plan: &Plan,
    devices: &Devices,
    batching: Batching,
    [positions, energies]: [&Path; 2],
) -> anyhow::Result<Search> {
    are_of_arrays(args)?;
    let [basis, positions, events, energies] =
        [&args.basis, positions, &args.events, energies].map(Path::to_owned);
    let files = Files { basis, positions, events, energies };
    let window = args.rules.window.map(usize::from);
    let input = Input::read(&files, args.segment, args.rules.channels, window)?;
    let rt = args.outputs.traced(devices.runtime(&args.execution)).build()?;
    let _armed = interrupt::cancels(rt.canceller());
    let progress = Progress::new();
    progress.stage("searching", input.events.len() as u64);
    let mut searcher = Searcher::new(&rt, plan, batching);
    searcher.host(input.segment, &input.basis)?;
    let begin = Instant::now();
    for (hit, samples) in input.hits() {
        searcher.push(hit, samples, Instant::now())?;
        progress.advance(hit.number as u64);
    }
    let found = searcher.finish().map_err(failed)?;
    let seconds = begin.elapsed().as_secs_f64();
    drop(progress);
    devices.done(&args.execution, &rt);
    let event = |(number, found): (usize, Found)| {
        let (energy, position) = (input.events.energies()[number], input.basis.positions()[found.index]);
        EventResult::new(number, 0, &Place { segment: input.segment, energy, found, position })
    };
    let results = Results { events: found.into_iter().map(event).collect() };
    let trace = args.outputs.recorded(&rt)?;
    Ok(Search { results, events: input.events.len(), seconds, trace, basis: None, shown: Vec::new() })
}

/// How many events are on their way at most.
const ON_THE_WAY: usize = 8192;

/// Events of a whole crystal.
fn folders(args: &PsaRunArgs, plan: &Plan, devices: &Devices, batching: Batching) -> anyhow::Result<Search> {
    let basis = files::read_basis(&args.basis)?;
    let mut source = Source::open(args, basis.sampling())?;
    let rules = rules(&args.rules, plan, basis.sampling().samples)?;
    let array = args.array.as_deref().map(Array::read).transpose()?;
    if array.as_ref().is_some_and(|array| array.place(args.crystal, [0.0; 3]).is_none()) {
        let problem = format!("the array has no crystal {}", args.crystal);
        return Err(CommandError::option("--crystal", problem).into());
    }
    let rt = args.outputs.traced(devices.runtime(&args.execution)).build()?;
    let _armed = interrupt::cancels(rt.canceller());
    let progress = Progress::new();
    progress.stage("searching", source.total());
    let mut flow = Flow::new(&rt, plan, batching, &basis, rules)?;
    let begin = Instant::now();
    let mut answers = Vec::new();
    let mut number = 0;
    let mut shown = Vec::new();
    while let Some(event) = source.next(basis.sampling().samples)? {
        if args.outputs.has_report() && args.show.contains(&number) {
            shown.push(Shown { number, signals: event.signals.clone() });
        }
        flow.push(event, begin).with_context(|| format!("event {number} of {}", args.events.display()))?;
        if flow.on_the_way() >= ON_THE_WAY {
            flow.wait(begin, &mut answers).map_err(failed)?;
            interrupt::check()?;
        }
        number += 1;
        progress.advance(source.done());
    }
    flow.finish(begin, &mut answers).map_err(failed)?;
    let seconds = begin.elapsed().as_secs_f64();
    drop(progress);
    devices.done(&args.execution, &rt);
    let hits = |answer: &Answer| {
        let (number, timestamp) = (answer.number as usize, answer.timestamp);
        let hit = |place: &Place| EventResult {
            crystal: args.crystal,
            in_array: array.as_ref().and_then(|array| array.place(args.crystal, place.position)),
            ..EventResult::new(number, timestamp, place)
        };
        answer.places.iter().map(hit).collect::<Vec<_>>()
    };
    let results = Results { events: answers.iter().flat_map(hits).collect() };
    let (events, trace) = (answers.len(), args.outputs.recorded(&rt)?);
    drop(flow);
    Ok(Search { results, events, seconds, trace, basis: Some(basis), shown })
}

/// Where the events of a whole crystal come from.
enum Source {
    /// A folder, and how many of its events were taken.
    Folder(Box<Events>, usize),
    /// Frames, with the map of their channels where they are those of digitisers.
    File(Box<EventFile>, Option<ChannelMap>),
}

impl Source {
    /// # Errors
    /// A folder or a file that cannot be read, frames of digitisers without a map, a map of another sampling.
    fn open(args: &PsaRunArgs, sampling: Sampling) -> anyhow::Result<Self> {
        let refuse = |problem: String| Err(CommandError::option("--channel-map", problem).into());
        if args.events.is_dir() {
            if args.channel_map.is_some() {
                return refuse("of meaning for frames of digitisers: --events is a folder".into());
            }
            return Ok(Source::Folder(Box::new(files::events::read(&args.events)?), 0));
        }
        let needs = EventFile::needs(&args.events)?;
        let map = args.channel_map.as_deref().map(ChannelMap::read).transpose()?;
        match (&map, needs) {
            (None, Needs::Map) => refuse(format!(
                "{} holds traces of digitisers (mode 3): say which channel is which segment; the help has the keys",
                args.events.display()
            )),
            (Some(map), Needs::Map) if (map.step() - sampling.step).abs() > 1e-6 * sampling.step => refuse(
                format!("samples every {} ns, those of the basis every {} ns", map.step(), sampling.step),
            ),
            _ => Ok(Source::File(Box::new(EventFile::open(&args.events)?), map)),
        }
    }

    /// Steps of the whole: events, or bytes.
    fn total(&self) -> u64 {
        match self {
            Source::Folder(events, _) => events.count() as u64,
            Source::File(file, _) => file.progress()[1],
        }
    }

    fn done(&self) -> u64 {
        match self {
            Source::Folder(_, taken) => *taken as u64,
            Source::File(file, _) => file.progress()[0],
        }
    }

    fn next(&mut self, samples: usize) -> Result<Option<Event>, zellige_psa::Error> {
        match self {
            Source::Folder(events, taken) => {
                let length = CHANNELS * events.sampling.samples;
                let signals = events.signals.chunks_exact(length).nth(*taken);
                let event = signals.map(|signals| Event {
                    timestamp: events.timestamps[*taken],
                    hit: None,
                    signals: signals.to_vec(),
                });
                *taken += 1;
                Ok(event)
            }
            Source::File(file, map) => file.next(map.as_ref(), samples),
        }
    }
}

/// How segments are searched.
pub(super) fn plan(args: &PsaSearch) -> Plan {
    let method = match args.method {
        PsaMethod::Fgs => Method::Full,
        PsaMethod::Cfgs => Method::CoarseFine { cells: args.cells },
        PsaMethod::Screen => Method::Screen { by: args.screen, keep: args.top },
        PsaMethod::Exact => Method::Exact { cap: args.cap },
    };
    Plan { method, p: args.p, precision: args.precision, table: args.lut, certify: args.certify }
}

/// What is done with events, for a basis with signals of so many samples: no window is longer by itself.
pub(super) fn rules(args: &PsaRules, plan: &Plan, samples: usize) -> Result<Rules, zellige_psa::Error> {
    let pairs = |penalty| PairPlan { single: *plan, penalty, ..PairPlan::default() };
    Ok(Rules {
        channels: args.channels,
        window: args.window.map_or(Rules::DEFAULT.window.min(samples), usize::from),
        threshold: args.threshold,
        coarse_below: args.coarse_below,
        shifts: args.shifts.into(),
        align: args.align,
        pairs: args.pairs.map(pairs),
        cross_talk: args.cross_talk.as_deref().map(CrossTalk::read).transpose()?,
        trapping: args.trapping,
    })
}

fn text(search: &Search) -> String {
    let Search { results, events, seconds, .. } = search;
    let count = results.events.len();
    let mut text = format!(
        "{events} events, {count} hits in {} s, {} events a second\n",
        digits(*seconds),
        digits(*events as f64 / seconds.max(f64::MIN_POSITIVE))
    );
    let mut flags: BTreeMap<&str, usize> = BTreeMap::new();
    results
        .events
        .iter()
        .flat_map(|event| &event.flags)
        .for_each(|flag| *flags.entry(flag).or_default() += 1);
    for (flag, count) in flags {
        text += &format!("{flag}: {count}\n");
    }
    let mut spreads: Vec<f64> = results.events.iter().map(|event| event.spread).collect();
    spreads.sort_unstable_by(f64::total_cmp);
    if let Some(median) = spreads.get(count / 2) {
        text += &format!(
            "points within 2 % of the best figure of merit lie {} mm around it (median)\n",
            digits(*median)
        );
    }
    text
}
