//! `zellige psa run`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use zellige_app::text::digits;
use zellige_files::observe::Observer;
use zellige_psa::array::Array;
use zellige_psa::channels::CHANNELS;
use zellige_psa::files;
use zellige_psa::pipeline::results::{EventResult, Results};
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
use crate::processes::{Processes, Session};
use crate::progress::Progress;
use crate::results::page_of;

/// Searches for every event.
///
/// # Errors
/// Options without meaning together, files that hold something else or do not fit each other, an output that cannot be written.
pub fn run(args: &PsaRunArgs) -> anyhow::Result<()> {
    let processes = Processes::find()?;
    let plan = plan(&args.search);
    plan.check()?;
    let devices = super::devices(&args.execution, &plan)?;
    let batching = Batching { size: args.batch.into(), ..Batching::default() };
    let search = match (&args.positions, &args.energies) {
        (Some(positions), Some(energies)) => {
            arrays(args, &plan, &devices, batching, [positions, energies], &processes)?
        }
        _ => folders(args, &plan, &devices, batching, &processes)?,
    };
    if !processes.is_first() {
        return Ok(());
    }
    let title = format!("Events of {}", args.events.display());
    let results = [&search.results];
    let page = || page_of(&title, &results);
    args.outputs.write(&title, search.trace.as_ref(), &results, page, || text(&search))
}

/// What was searched and found.
struct Search {
    results: Results,
    events: usize,
    seconds: f64,
    trace: Option<Trace>,
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
    processes: &Processes,
) -> anyhow::Result<Search> {
    are_of_arrays(args)?;
    let [basis, positions, events, energies] =
        [&args.basis, positions, &args.events, energies].map(Path::to_owned);
    let files = Files { basis, positions, events, energies };
    let window = args.rules.window.map(usize::from);
    let input = Input::read(&files, args.segment, args.rules.channels, window)?;
    let session = processes.session(args.outputs.traced(devices.runtime(&args.execution)))?;
    let rt = session.runtime();
    let _armed = interrupt::cancels(rt.canceller());
    let progress = Progress::new();
    let part = processes.part(input.events.len());
    progress.stage("searching", part.len() as u64);
    let mut searcher = Searcher::new(rt, plan, batching);
    searcher.host(input.segment, &input.basis)?;
    let begin = Instant::now();
    for (hit, samples) in input.hits().skip(part.start).take(part.len()) {
        searcher.push(hit, samples, Instant::now())?;
        progress.advance(hit.number as u64);
    }
    let found = searcher.finish().map_err(failed)?;
    drop(progress);
    let event = |(number, found): (usize, Found)| {
        let (energy, position) = (input.events.energies()[number], input.basis.positions()[found.index]);
        EventResult::new(number, 0, &Place { segment: input.segment, energy, found, position })
    };
    let events = found.into_iter().map(event).collect();
    searched(args, devices, &session, Results { events }, input.events.len(), begin)
}

/// How many events are on their way at most.
const ON_THE_WAY: usize = 8192;

/// Events of a whole crystal.
fn folders(
    args: &PsaRunArgs,
    plan: &Plan,
    devices: &Devices,
    batching: Batching,
    processes: &Processes,
) -> anyhow::Result<Search> {
    let (basis, _) = files::basis::read(&args.basis)?;
    let events = files::events::read(&args.events)?;
    let rules = rules(&args.rules, plan, basis.sampling().samples)?;
    let array = args.array.as_deref().map(Array::read).transpose()?;
    if array.as_ref().is_some_and(|array| array.place(args.crystal, [0.0; 3]).is_none()) {
        let problem = format!("the array has no crystal {}", args.crystal);
        return Err(CommandError::option("--crystal", problem).into());
    }
    let session = processes.session(args.outputs.traced(devices.runtime(&args.execution)))?;
    let rt = session.runtime();
    let _armed = interrupt::cancels(rt.canceller());
    let progress = Progress::new();
    let part = processes.part(events.count());
    progress.stage("searching", part.len() as u64);
    let mut flow = Flow::new(rt, plan, batching, &basis, rules)?;
    let begin = Instant::now();
    let mut answers = Vec::with_capacity(part.len());
    let length = CHANNELS * events.sampling.samples;
    for (number, signals) in events.signals.chunks_exact(length).enumerate().skip(part.start).take(part.len())
    {
        let event = Event { timestamp: events.timestamps[number], hit: None, signals: signals.to_vec() };
        flow.push(event, begin).with_context(|| format!("event {number} of {}", args.events.display()))?;
        if flow.on_the_way() >= ON_THE_WAY {
            flow.wait(begin, &mut answers).map_err(failed)?;
        }
        progress.advance(answers.len() as u64);
    }
    flow.finish(begin, &mut answers).map_err(failed)?;
    drop(progress);
    let hits = |answer: &Answer| {
        let (number, timestamp) = (part.start + answer.number as usize, answer.timestamp);
        let hit = |place: &Place| EventResult {
            crystal: args.crystal,
            in_array: array.as_ref().and_then(|array| array.place(args.crystal, place.position)),
            ..EventResult::new(number, timestamp, place)
        };
        answer.places.iter().map(hit).collect::<Vec<_>>()
    };
    let found = answers.iter().flat_map(hits).collect();
    searched(args, devices, &session, Results { events: found }, events.count(), begin)
}

/// What all processes have found, on the first of them.
fn searched(
    args: &PsaRunArgs,
    devices: &Devices,
    session: &Session,
    own: Results,
    events: usize,
    begin: Instant,
) -> anyhow::Result<Search> {
    let results = match session {
        Session::One(_) => own,
        #[cfg(feature = "mpi")]
        Session::Rank(_) => Results::joined(session.on_first(own.to_bytes()?)?)?,
    };
    let seconds = begin.elapsed().as_secs_f64();
    devices.done(&args.execution, session.runtime());
    Ok(Search { results, events, seconds, trace: args.outputs.recorded(session.runtime())? })
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
