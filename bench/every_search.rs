//! Every method of a search in every format: `cargo run --release -p zellige-bench --example
//! every_search -- BASIS EVENTS [PASSES]`, with the folders of `zellige psa simulate` and `zellige
//! psa events`.
//!
//! Prints the plans that no other one surpasses in time and in the share of the same points, and
//! the fastest that is shown to find 99.5 % of them. Times are CPU time of one thread; medians of
//! passes over all plans (3).

use std::collections::BTreeMap;
use std::path::Path;

use zellige_measure::cpu_seconds;
use zellige_psa::Error;
use zellige_psa::channels::CHANNELS;
use zellige_psa::files;
use zellige_psa::search::{Event, Plan, Rules};
use zellige_psa::trust::Searches;
use zellige_psa::tune::{ACCEPT, Tuning, options};
use zellige_tune::{Acceptance, Data, Measures};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [basis, events, rest @ ..] = &args[..] else {
        return Err("use every_search BASIS EVENTS [PASSES]".into());
    };
    let passes: usize = rest.first().map_or(Ok(3), |count| count.parse())?;
    let searches = read(Path::new(basis), Path::new(events))?;
    let mut found: BTreeMap<String, (Vec<f64>, Measures)> = BTreeMap::new();
    for _ in 0..passes {
        let mut tuning = Tuning::new(&searches, None, Plan::DEFAULT.p, |run| cpu_seconds(run))?;
        let all = tuning.space().clone();
        let [methods, samples, tables] = [0, 1, 2].map(|item| &all.items()[item].formats);
        for (method, sample) in methods.iter().flat_map(|a| samples.iter().map(move |b| (a, b))) {
            for table in tables {
                let words = [("method", &*method.name), ("samples", &*sample.name), ("table", &*table.name)];
                let formats = all.assignment(words)?;
                // Combinations that the search does not have are left out.
                let (Ok(plan), Ok(measures)) = (tuning.plan(&formats), tuning.trial(&formats, Data::Search))
                else {
                    continue;
                };
                let time = measures.get("microseconds").map_or(f64::NAN, |time| time.value);
                let entry = found.entry(options(&plan)).or_insert_with(|| (Vec::new(), measures));
                entry.0.push(time);
            }
        }
    }
    print(found)?;
    Ok(())
}

fn print(found: BTreeMap<String, (Vec<f64>, Measures)>) -> Result<(), Box<dyn std::error::Error>> {
    let accept = Acceptance::parse(ACCEPT)?;
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let mut rows: Vec<(f64, String, Measures)> =
        found.into_iter().map(|(plan, (times, measures))| (median(times), plan, measures)).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let default = options(&Plan::DEFAULT);
    let today = rows.iter().find(|row| row.1 == default).map_or(f64::NAN, |row| row.0);
    println!("{} plans; today's: {today:.2} us, {default}", rows.len());
    println!("{:>8} {:>7} {:>9} {:>9}  plan", "us", "x today", "% same", "error");
    let mut best = f64::NEG_INFINITY;
    let mut first = None;
    for (time, plan, measures) in &rows {
        let same = measures.get("same").ok_or("no share")?;
        // The condition needs no reference.
        let is_shown = same.value - 1.645 * same.error >= 0.995;
        if is_shown && first.is_none() {
            first = Some((*time, plan));
        }
        if same.value > best || *plan == default {
            best = best.max(same.value);
            let percent = [100.0 * same.value, 100.0 * same.error];
            println!("{time:8.2} {:7.3} {:9.3} {:9.3}  {plan}", time / today, percent[0], percent[1]);
        }
    }
    match first {
        Some((time, plan)) => println!("{}: {:.3} of today's time by {plan}", accept.text(), time / today),
        None => println!("{}: by no plan; take more events", accept.text()),
    }
    Ok(())
}

fn read(basis: &Path, events: &Path) -> Result<Searches, Error> {
    let (basis, events) = (files::read_basis(basis)?, files::events::read(events)?);
    let signals = events.signals.chunks_exact(CHANNELS * events.sampling.samples);
    let event = |(signals, &timestamp): (&[f32], &u64)| Event {
        timestamp,
        hit: None,
        signals: signals.to_vec(),
        saturated: Vec::new(),
    };
    let rules = Rules { window: Rules::DEFAULT.window.min(basis.sampling().samples), ..Rules::DEFAULT };
    Searches::of_crystal(&basis, rules, signals.zip(&events.timestamps).map(event))
}
