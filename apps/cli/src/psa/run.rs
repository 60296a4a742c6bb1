//! `zellige psa run`.

use std::collections::BTreeMap;
use std::time::Instant;

use zellige_psa::results::{EventResult, Results};
use zellige_psa::search::{Batching, Files, Input, Method, Plan, Searcher};
use zellige_tor::pipeline::Observer;

use super::runtime;
use crate::args::{PsaMethod, PsaRunArgs};
use crate::interrupt;
use crate::out::{self, Target};
use crate::progress::Progress;
use crate::table::digits;

/// Searches for every event.
///
/// # Errors
/// Options without meaning together, files that are no arrays or do not fit each other, an output that cannot be written.
pub fn run(args: &PsaRunArgs) -> anyhow::Result<()> {
    let target = args.json.as_deref().map(|path| Target::new("--json", path)).transpose()?;
    let plan = plan(args);
    plan.check()?;
    let input = Input::read(&files(args), args.segment, args.channels)?;
    let rt = runtime(args.workers)?;
    let _armed = interrupt::cancels(rt.canceller());
    let progress = Progress::new();
    progress.stage("searching", input.events.len() as u64);
    let begin = Instant::now();
    let batching = Batching { size: args.batch.into(), ..Batching::default() };
    let mut searcher = Searcher::new(&rt, &plan, batching);
    searcher.host(input.segment, &input.basis)?;
    for (hit, samples) in input.hits() {
        searcher.push(hit, samples, Instant::now())?;
        progress.advance(hit.number as u64);
    }
    let found = searcher.finish()?;
    let seconds = begin.elapsed().as_secs_f64();
    drop(progress);
    let event = |(number, found)| {
        EventResult::new(number, &found, input.events.energies()[number], input.segment, &input.basis)
    };
    let results = Results { events: found.into_iter().map(event).collect() };
    if let Some(target) = &target {
        target.write_json(&results)?;
    }
    match target.is_some_and(|target| target.is_stdout()) {
        true => Ok(()),
        false => out::print(&text(&results, seconds)),
    }
}

fn files(args: &PsaRunArgs) -> Files {
    Files {
        basis: args.basis.clone(),
        positions: args.positions.clone(),
        events: args.events.clone(),
        energies: args.energies.clone(),
    }
}

fn plan(args: &PsaRunArgs) -> Plan {
    let method = match args.method {
        PsaMethod::Fgs => Method::Full,
        PsaMethod::Cfgs => Method::CoarseFine { cells: args.cells },
        PsaMethod::Screen => Method::Screen { by: args.screen, keep: args.top },
        PsaMethod::Exact => Method::Exact { cap: args.cap },
    };
    Plan { method, p: args.p, precision: args.precision, table: args.lut, certify: args.certify }
}

fn text(results: &Results, seconds: f64) -> String {
    let count = results.events.len();
    let mut text = format!(
        "{count} events in {} s, {} a second\n",
        digits(seconds),
        digits(count as f64 / seconds.max(f64::MIN_POSITIVE))
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
