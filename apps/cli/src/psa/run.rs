//! `zellige psa run`.

use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use zellige_files::array::is_array;
use zellige_files::observe::Observer;
use zellige_psa::basis::{Basis, Sampling};
use zellige_psa::channels::CHANNELS;
use zellige_psa::channels::ChannelMap;
use zellige_psa::consistency::{BasisComparison, check_sampling};
use zellige_psa::events::Events;
use zellige_psa::files;
use zellige_psa::params::{read_array, read_channel_map};
use zellige_psa::pipeline::results::{EventResult, Results};
use zellige_psa::pipeline::traces::{EventFile, Needs};
use zellige_psa::pipeline::{Files, Input};
use zellige_psa::report::{self, Shown, text};
use zellige_psa::search::crosstalk::CrossTalk;
use zellige_psa::search::saturation::{Levels, Saturated};
use zellige_psa::search::{
    Answer, Batching, Event, EventPipeline, Flags, LocatedHit, Match, Method, PairPlan, Plan, Rules, Searcher,
};
use zellige_psa::trust::Searches;

use crate::args::{PsaInput, PsaRules, PsaRunArgs, PsaSearch};
use crate::devices;
use crate::exit::CommandError;
use crate::interrupt;
use crate::processes::{Processes, Session};
use crate::results::page_of;
use crate::run::{Run, Setup};

/// Searches for the hits of every event, and writes the results.
///
/// # Errors
/// Invalid combinations of options, files with other content or that do not fit each other, an
/// output that cannot be written.
pub fn run(args: &PsaRunArgs) -> anyhow::Result<()> {
    let plan = plan(&args.search);
    super::check(&plan, &args.execution)?;
    let setup = Setup::on_ranks(&args.execution, &devices::Needs::default(), &args.outputs)?;
    let (run, search) = match (&args.input.positions, &args.input.energies) {
        (Some(positions), Some(energies)) => arrays(args, &plan, setup, [positions, energies])?,
        _ => folders(args, &plan, setup)?,
    };
    let title = format!("Events of {}", args.input.events.display());
    let results = [&search.results];
    let page = || match &search.basis {
        Some(basis) => Ok(report::of_search(&title, basis, &search.results, &search.shown)),
        None => page_of(&title, &results),
    };
    let kept = args.outputs.json.is_some() || args.outputs.has_report();
    let hint = if kept { "" } else { "no file was written: use --json FILE or --report FILE.html\n" };
    run.write(&title, &results, page, |_| {
        text::of_search(&search.results, search.events, search.seconds) + hint
    })
}

/// Results of a search.
struct Search {
    results: Results,
    events: usize,
    seconds: f64,
    /// The basis, for a search of a whole crystal.
    basis: Option<Basis>,
    /// Signals that the report shows.
    shown: Vec<Shown>,
}

/// Checks the options for a search in arrays.
///
/// # Errors
/// An option that applies to whole crystals only.
fn are_of_arrays(from: &PsaInput, rules: &PsaRules, in_array: bool) -> Result<(), CommandError> {
    let given = [
        ("--shifts", rules.shifts > 0),
        ("--align", rules.align),
        ("--coarse-below", rules.coarse_below.is_some()),
        ("--pairs", rules.pairs.is_some()),
        ("--cross-talk", rules.cross_talk.is_some()),
        ("--trapping", rules.trapping.is_some()),
        ("--array", in_array),
        ("--channel-map", from.channel_map.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => {
            let problem = "applies to folders only: the inputs are arrays (--positions, --energies)";
            Err(CommandError::option(option, problem))
        }
        None => Ok(()),
    }
}

/// Searches for the hits of one segment, with arrays.
fn arrays<'a>(
    args: &PsaRunArgs,
    plan: &Plan,
    setup: Setup<'a>,
    [positions, energies]: [&Path; 2],
) -> anyhow::Result<(Run<'a>, Search)> {
    let input = input(&args.input, &args.rules, args.array.is_some(), [positions, energies])?;
    let is_clipped = |number: usize| input.saturated.binary_search(&number).is_ok();
    let run = setup.start()?;
    let skips = args.rules.saturated == Saturated::Skip;
    let (begin, matches) = run.work(|progress| -> anyhow::Result<_> {
        let clipped = saturated(input.saturated.len(), input.events.len(), args.rules.saturated, true);
        clipped.into_iter().for_each(|clipped| progress.warn(&clipped));
        let part = run.processes().part(input.events.len());
        progress.stage("searching", part.len() as u64);
        let mut searcher = Searcher::new(run.runtime(), plan, Batching::default());
        searcher.host(input.segment, &input.basis)?;
        let begin = Instant::now();
        for (hit, samples) in input.hits().skip(part.start).take(part.len()) {
            if skips && is_clipped(hit.ticket) {
                continue;
            }
            searcher.push(hit, samples, Instant::now())?;
            progress.advance(hit.ticket as u64);
        }
        Ok((begin, searcher.finish()?))
    })?;
    let event = |(number, best): (usize, Match)| {
        let (energy, position) = (input.events.energies()[number], input.basis.positions()[best.index]);
        let flags = best.flags.with_if(is_clipped(number), Flags::SATURATED);
        let best = Match { flags, ..best };
        EventResult::new(number, 0, &LocatedHit { segment: input.segment, energy, best, position })
    };
    let results = gathered(run.session(), Results { events: matches.into_iter().map(event).collect() })?;
    let (events, seconds) = (input.events.len(), begin.elapsed().as_secs_f64());
    Ok((run, Search { results, events, seconds, basis: None, shown: Vec::new() }))
}

/// Reads the arrays of one segment, and refuses clipped samples if that is requested.
fn input(
    from: &PsaInput,
    rules: &PsaRules,
    in_array: bool,
    [positions, energies]: [&Path; 2],
) -> anyhow::Result<Input> {
    are_of_arrays(from, rules, in_array)?;
    let [basis, positions, events, energies] =
        [&from.basis, positions, &from.events, energies].map(Path::to_owned);
    let files = Files { basis, positions, events, energies };
    let window = rules.window.map(usize::from);
    let input = Input::read(&files, from.segment, rules.channels, window)?;
    if let (Saturated::Refuse, Some(first)) = (rules.saturated, input.saturated.first()) {
        let (count, of) = (input.saturated.len(), from.events.display());
        let problem = format!("{count} events of {of} have clipped samples; the first is event {first}");
        return Err(CommandError::option("--saturated refuse", problem).into());
    }
    Ok(input)
}

/// Reads the searches that `trust` and `tune` judge, without shifts of the events.
///
/// # Errors
/// Those of [`run`] before its search.
pub(crate) fn searches(from: &PsaInput, given: &PsaRules, plan: &Plan) -> anyhow::Result<Searches> {
    plan.check()?;
    if let (Some(positions), Some(energies)) = (&from.positions, &from.energies) {
        return Ok(Searches::of_segment(&input(from, given, false, [positions, energies])?));
    }
    let basis = files::read_basis(&from.basis)?;
    let mut source = Source::open(from, basis.sampling())?;
    source.check(from, basis.sampling(), 0)?;
    let rules = rules(given, plan, basis.sampling().samples)?;
    let mut events = Vec::new();
    while let Some(event) = source.next(basis.sampling().samples)? {
        events.push(event);
    }
    Ok(Searches::of_crystal(&basis, rules, events)?)
}

/// Number of samples by which --align may shift an event, for the check of the sampling.
const ALIGNED: usize = 3;

/// Returns a note on events with clipped samples, if there are any. `is_known` says whether the
/// energies are given.
fn saturated(clipped: usize, events: usize, what: Saturated, is_known: bool) -> Option<String> {
    let of_them = match what {
        Saturated::Fit if is_known => "they are compared as they are, with the given energies",
        Saturated::Fit => "their energies and positions are fits to the other samples",
        Saturated::Skip => "they have no hits",
        Saturated::Refuse => return None,
    };
    let flag = "samples that are clipped at the end of their range (flag `saturated`, --saturated)";
    (clipped > 0).then(|| format!("{clipped} of {events} events have {flag}: {of_them}"))
}

/// Maximum number of events in flight.
const MOST_PENDING: usize = 8192;

/// Searches for the events of a whole crystal.
fn folders<'a>(args: &PsaRunArgs, plan: &Plan, setup: Setup<'a>) -> anyhow::Result<(Run<'a>, Search)> {
    let basis = files::read_basis(&args.input.basis)?;
    let mut source = Source::open(&args.input, basis.sampling())?;
    let shifts = if args.rules.align { ALIGNED } else { 0 }.max(args.rules.shifts.into());
    source.check(&args.input, basis.sampling(), shifts)?;
    let part = source.part(&setup.processes)?;
    let rules = rules(&args.rules, plan, basis.sampling().samples)?;
    let array = args.array.as_deref().map(read_array).transpose()?;
    if array.as_ref().is_some_and(|array| array.place(args.crystal, [0.0; 3]).is_none()) {
        let problem = format!("the array has no crystal {}", args.crystal);
        return Err(CommandError::option("--crystal", problem).into());
    }
    let run = setup.start()?;
    let (begin, answers, shown) = run.work(|progress| -> anyhow::Result<_> {
        progress.stage("searching", source.total());
        let mut pipeline = EventPipeline::new(run.runtime(), plan, Batching::default(), &basis, rules)?;
        let mut comparison = BasisComparison::new(&basis, shifts);
        let begin = Instant::now();
        let mut answers = Vec::new();
        let mut number = part.start;
        let mut shown = Vec::new();
        while number < part.end
            && let Some(event) = source.next(basis.sampling().samples)?
        {
            if args.outputs.has_report() && args.show.contains(&number) {
                shown.push(Shown { number, signals: event.signals.clone() });
            }
            if event.hit.is_none() {
                comparison.add(&event.signals);
            }
            pipeline
                .push(event, begin)
                .with_context(|| format!("event {number} of {}", args.input.events.display()))?;
            if pipeline.pending() >= MOST_PENDING {
                pipeline.wait(begin, &mut answers)?;
                interrupt::check()?;
            }
            number += 1;
            progress.advance(source.done());
        }
        pipeline.finish(begin, &mut answers)?;
        // Checks of the events do not count towards the search time.
        let asked = Instant::now();
        let clipped = answers.iter().filter(|answer| answer.saturated > 0).count();
        let doubts = [
            pipeline.doubt(),
            comparison.doubt(),
            saturated(clipped, answers.len(), args.rules.saturated, false),
        ];
        doubts.into_iter().flatten().for_each(|doubt| progress.warn(&doubt));
        Ok((begin + asked.elapsed(), answers, shown))
    })?;
    let hits = |answer: &Answer| {
        let (number, timestamp) = (part.start + answer.number as usize, answer.timestamp);
        let hit = |hit: &LocatedHit| EventResult {
            crystal: args.crystal,
            in_array: array.as_ref().and_then(|array| array.place(args.crystal, hit.position)),
            ..EventResult::new(number, timestamp, hit)
        };
        answer.hits.iter().map(hit).collect::<Vec<_>>()
    };
    let hits: Vec<EventResult> = answers.iter().flat_map(hits).collect();
    let events = source.count().unwrap_or(answers.len());
    let results = gathered(run.session(), Results { events: hits })?;
    let seconds = begin.elapsed().as_secs_f64();
    Ok((run, Search { results, events, seconds, basis: Some(basis), shown }))
}

/// Source of the events of a whole crystal.
enum Source {
    /// A folder or an array, the number of events taken so far, and the clipping levels.
    Folder(Box<Events>, usize, Levels),
    /// A file of frames, with the channel map if the frames come from digitisers.
    File(Box<EventFile>, Option<ChannelMap>),
}

impl Source {
    /// Opens the source of the events.
    ///
    /// # Errors
    /// A folder or a file that cannot be read, frames of digitisers without a map, a map of another
    /// sampling.
    fn open(from: &PsaInput, sampling: Sampling) -> anyhow::Result<Self> {
        let refuse = |problem: String| Err(CommandError::option("--channel-map", problem).into());
        let is_array = is_array(&from.events);
        if is_array || from.events.is_dir() {
            if from.channel_map.is_some() {
                return refuse(
                    "applies to frames of digitisers only: --events is a folder or an array".into(),
                );
            }
            let events = match is_array {
                true => files::events::read_signals(&from.events, sampling)?,
                false => files::events::read(&from.events)?,
            };
            let levels = Levels::of(&events.signals, CHANNELS, events.sampling.samples);
            return Ok(Source::Folder(Box::new(events), 0, levels));
        }
        let needs = EventFile::needs(&from.events)?;
        let map = from.channel_map.as_deref().map(read_channel_map).transpose()?;
        match (&map, needs) {
            (None, Needs::Map) => refuse(format!(
                "{} has traces of digitisers (mode 3), which need a map from channels to segments; --help has its keys",
                from.events.display()
            )),
            (Some(map), Needs::Map) if (map.step() - sampling.step).abs() > 1e-6 * sampling.step => {
                refuse(format!(
                    "the map has samples every {} ns, but the basis every {} ns",
                    map.step(),
                    sampling.step
                ))
            }
            _ => Ok(Source::File(Box::new(EventFile::open(&from.events)?), map)),
        }
    }

    /// Refuses events with another sampling than the basis, if their sampling is known.
    fn check(&self, from: &PsaInput, basis: Sampling, shifts: usize) -> Result<(), CommandError> {
        match self {
            Source::Folder(events, ..) => check_sampling(basis, events.sampling, shifts)
                .map_err(|problem| CommandError::option(from.events.display(), problem)),
            Source::File(..) => Ok(()),
        }
    }

    /// Returns the events that this process searches for. Those of a folder start at the first
    /// event of the part.
    ///
    /// # Errors
    /// A file with an unknown number of events, for several processes.
    fn part(&mut self, processes: &Processes) -> Result<Range<usize>, CommandError> {
        match self {
            Source::Folder(events, taken, _) => {
                let part = processes.part(events.count());
                *taken = part.start;
                Ok(part)
            }
            Source::File(..) if processes.count() > 1 => {
                let problem = "a file of frames is read by a single process: give a folder of events, or start one process";
                Err(CommandError::option("--events", problem))
            }
            Source::File(..) => Ok(0..usize::MAX),
        }
    }

    /// Returns the number of events, if it is known.
    fn count(&self) -> Option<usize> {
        match self {
            Source::Folder(events, ..) => Some(events.count()),
            Source::File(..) => None,
        }
    }

    /// Returns the total number of progress steps: events, or bytes.
    fn total(&self) -> u64 {
        match self {
            Source::Folder(events, ..) => events.count() as u64,
            Source::File(file, _) => file.progress()[1],
        }
    }

    fn done(&self) -> u64 {
        match self {
            Source::Folder(_, taken, _) => *taken as u64,
            Source::File(file, _) => file.progress()[0],
        }
    }

    fn next(&mut self, samples: usize) -> Result<Option<Event>, zellige_psa::Error> {
        match self {
            Source::Folder(events, taken, levels) => {
                let length = CHANNELS * events.sampling.samples;
                let signals = events.signals.chunks_exact(length).nth(*taken);
                let event = signals.map(|signals| Event {
                    timestamp: events.timestamps[*taken],
                    hit: None,
                    signals: signals.to_vec(),
                    saturated: levels.find(signals, events.sampling.samples),
                });
                *taken += 1;
                Ok(event)
            }
            Source::File(file, map) => file.next(map.as_ref(), samples),
        }
    }
}

/// Gathers the results of all processes on the first one.
fn gathered(session: &Session, own: Results) -> anyhow::Result<Results> {
    match session {
        Session::One(_) => Ok(own),
        #[cfg(feature = "mpi")]
        Session::Rank(_) => Ok(Results::joined(session.on_first(own.to_bytes()?)?)?),
    }
}

/// Converts the search options to a plan.
pub(crate) fn plan(args: &PsaSearch) -> Plan {
    Plan { method: args.method, p: args.p, precision: args.precision, table: args.lut, certify: args.certify }
}

/// Converts the event options to rules, for a basis with signals of `samples` samples. The default
/// window is limited to this length.
pub(super) fn rules(args: &PsaRules, plan: &Plan, samples: usize) -> Result<Rules, zellige_psa::Error> {
    if args.coarse_below.is_some() && !matches!(plan.method, Method::CoarseFine { .. }) {
        let problem = "coarse points are those of cfgs: use --method cfgs".into();
        return Err(zellige_psa::Error::Parameter { name: "coarse-below", problem });
    }
    let pairs = |penalty| PairPlan { single: *plan, penalty, ..PairPlan::default() };
    Ok(Rules {
        channels: args.channels,
        window: args.window.map_or(Rules::DEFAULT.window.min(samples), usize::from),
        threshold: args.threshold,
        shifts: args.shifts.into(),
        align: args.align,
        pairs: args.pairs.map(pairs),
        cross_talk: args.cross_talk.as_deref().map(CrossTalk::read).transpose()?,
        trapping: args.trapping,
        saturated: args.saturated,
        coarse_below: args.coarse_below.unwrap_or(Rules::DEFAULT.coarse_below),
        always_fine: args.coarse_below.map_or(Rules::DEFAULT.always_fine, |_| 0),
    })
}
