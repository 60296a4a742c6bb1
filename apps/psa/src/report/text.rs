//! Results as text for a terminal.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use zellige_app::table::{Side, Table};
use zellige_app::text::digits;

use crate::basis::Basis;
use crate::channels::Segment;
use crate::crystal::Crystal;
use crate::detector;
use crate::fields::Fields;
use crate::pipeline::compare::Agreement;
use crate::pipeline::results::{Results, TallyResult, TrackResult};
use crate::pipeline::stream::Summary;
use crate::simulate::unsettled;

/// Fraction of the whole charge within which a signal counts as settled.
pub const SETTLED: f32 = 0.01;

/// Describes a simulated basis. `times` are those of the fields and of the signals.
pub fn of_basis(
    crystal: &Crystal,
    fields: &Fields,
    basis: &Basis,
    times: [Duration; 2],
    written: &Path,
) -> String {
    let mut counts = vec![0usize; Segment::all().count()];
    basis.segments().iter().for_each(|segment| counts[segment.index()] += 1);
    let (least, most) =
        (counts.iter().min().copied().unwrap_or(0), counts.iter().max().copied().unwrap_or(0));
    let points = basis.positions().len();
    let lines = [
        format!("{}: {points} points, {least} to {most} in a segment", crystal.name),
        format!(
            "fields: {} nodes, sum of weighting potentials 1 within {:.0e}, {} s",
            fields.grid().len(),
            fields.worst_sum(crystal),
            digits(times[0].as_secs_f64())
        ),
        format!("signals: {} s", digits(times[1].as_secs_f64())),
        settled(basis),
        depleted(crystal, fields),
        format!("written: {}", written.display()),
    ];
    lines.into_iter().filter(|line| !line.is_empty()).map(|line| line + "\n").collect()
}

/// Reports the points at which the charge has not settled, and names some of them.
fn settled(basis: &Basis) -> String {
    const NAMED: usize = 5;
    let points = unsettled(basis, SETTLED);
    if points.is_empty() {
        return format!("all charges are settled within {} % at the last sample", 100.0 * SETTLED);
    }
    let place = |&point: &usize| format!("{:?}", basis.positions()[point]);
    let named: Vec<String> = points.iter().take(NAMED).map(place).collect();
    format!(
        "warning: {} charges are not settled within {} % at the last sample (--samples): {}{}",
        points.len(),
        100.0 * SETTLED,
        named.join(", "),
        if points.len() > NAMED { ", ..." } else { "" }
    )
}

/// Returns a warning if the crystal is not depleted. A potential beyond those of the contacts would
/// be that of space charge that remains in a real crystal.
fn depleted(crystal: &Crystal, fields: &Fields) -> String {
    match detector::is_depleted(crystal, fields) {
        true => String::new(),
        false => format!(
            "warning: {} V do not deplete the crystal: the fields of its undepleted part are wrong (use a larger bias in the file of the crystal)",
            crystal.bias
        ),
    }
}

/// Describes the hits that a search found in so many events.
pub fn of_search(results: &Results, events: usize, seconds: f64) -> String {
    let count = results.events.len();
    let mut text = format!(
        "{events} events, {count} hits in {} s, {} events per second\n",
        digits(seconds),
        digits(events as f64 / seconds.max(f64::MIN_POSITIVE))
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
            "points within 2 % of the best figure of merit are within {} mm of it (median)\n",
            digits(*median)
        );
    }
    text
}

/// Describes a stream that was searched.
pub fn of_stream(summary: &Summary, latency: f64, written: &Path) -> String {
    let rate = summary.events as f64 / summary.seconds.max(f64::MIN_POSITIVE);
    let mut text = format!(
        "{} events, {} hits in {} s, {} events per second\n",
        summary.events,
        summary.hits,
        digits(summary.seconds),
        digits(rate)
    );
    text += &format!(
        "latency: {} ms (median), {} ms (99 %), {} ms at most; {} took longer than {} ms\n",
        digits(summary.latency_p50_ms),
        digits(summary.latency_p99_ms),
        digits(summary.latency_most_ms),
        summary.late,
        latency
    );
    let odd = [
        (summary.shed, "dropped events (shed)"),
        (summary.broken, "invalid events"),
        (summary.foreign, "frames of other types"),
        (summary.saturated, "events with clipped samples (saturated)"),
    ];
    for (count, what) in odd.into_iter().filter(|(count, _)| *count > 0) {
        text += &format!("{what}: {count}\n");
    }
    text += &format!("written: {}\n", written.display());
    text
}

fn unmatched(all: &Agreement) -> String {
    match all.only_in_first {
        0 => String::new(),
        count => format!("{count} hits of the first run are missing in the second\n"),
    }
}

/// Lists the agreement of two runs, or of one run with the truth.
pub fn of_comparison(rows: &[Agreement], of_two: bool, colours: bool) -> String {
    let mut columns = vec!["energy", "hits"];
    columns.extend(match of_two {
        true => {
            &["% same", "% in 5 mm", "% beyond 20 mm", "A: mm to truth", "p90", "B: mm to truth", "p90"][..]
        }
        false => &["mm to truth", "p90"],
    });
    let side = |at| if at == 0 { Side::Left } else { Side::Right };
    let columns: Vec<_> = columns.into_iter().enumerate().map(|(at, name)| (name, side(at))).collect();
    let mut table = Table::new(&columns);
    for row in rows {
        let percent = |share: f64| format!("{share:.2}");
        let shares = [row.same_percent, row.within_5_mm_percent, row.beyond_20_mm_percent].map(percent);
        let runs = if of_two { 2 } else { 1 };
        let truth = row.to_truth_mm.into_iter().flatten().take(runs);
        let cells = [row.class.into(), row.hits.to_string()].into_iter();
        let cells = cells.chain(shares.into_iter().filter(|_| of_two));
        table.row(cells.chain(truth.flat_map(|of| [digits(of.median), digits(of.p90)])));
    }
    table.render(colours) + &unmatched(&rows[0])
}

/// Describes tracked hits.
pub fn of_hits(result: &TrackResult, folder: &Path) -> String {
    format!(
        "{} hits in {} events: {} points after packing, {} unused, {} s\n{} gamma rays: {} scattered, {} pairs, {} single points\nwritten: {}\n",
        result.hits,
        result.events,
        result.points,
        result.unused_points,
        digits(result.seconds),
        result.gammas,
        result.compton,
        result.pairs,
        result.single,
        folder.display()
    )
}

/// Lists the figures of simulated gamma rays by multiplicity.
pub fn of_tallies(rows: &[TallyResult], colours: bool) -> String {
    let mut table = Table::new(&[
        ("multiplicity", Side::Right),
        ("emitted", Side::Right),
        ("% absorbed", Side::Right),
        ("tracked", Side::Right),
        ("in peak", Side::Right),
        ("% efficiency", Side::Right),
        ("% peak to total", Side::Right),
    ]);
    for TallyResult { efficiency, peak_to_total, absorbed_share, tally } in rows {
        let percent = |share: f64| format!("{:.2}", 100.0 * share);
        table.row([
            tally.multiplicity.to_string(),
            tally.emitted.to_string(),
            percent(*absorbed_share),
            tally.tracked.to_string(),
            tally.peak.to_string(),
            percent(*efficiency),
            percent(*peak_to_total),
        ]);
    }
    table.render(colours)
}
