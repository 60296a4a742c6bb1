//! Report pages of tracking: spectra, and efficiencies by multiplicity.

use std::fmt::Write;

use crate::track::Spectrum;
use zellige_app::page::{Page, figure};
use zellige_app::svg::{Chart, Scale, escape, short};

use crate::pipeline::results::{TallyResult, TrackResult};

/// Limit of the steps of a line: wide enough to distinguish lines by eye.
const POINTS: usize = 270;

/// Returns the page of tracked hits.
pub fn of_hits(name: &str, result: &TrackResult) -> Page {
    let mut page = Page::new(&format!("{name}: gamma rays"));
    page.section(name, "Hits of germanium crystals, combined into gamma rays.", "");
    page.facts(&[
        ("events", result.events.to_string()),
        ("hits", result.hits.to_string()),
        ("gamma rays", result.gammas.to_string()),
        ("scattered", result.compton.to_string()),
        ("pairs", result.pairs.to_string()),
        ("single points", result.single.to_string()),
        ("points of no use", result.unused_points.to_string()),
    ]);
    let spectra = &result.spectra;
    let lines = [
        ("gamma rays", &spectra.tracked),
        ("as the source sent them out", &spectra.corrected),
        ("sums of events", &spectra.calorimetric),
    ];
    page.section("Spectra", "Counts in steps of energy.", &spectrum(&lines));
    page
}

/// Returns the page of simulated events.
pub fn of_simulation(title: &str, tallies: &[TallyResult]) -> Page {
    let mut page = Page::new("Tracking of simulated gamma rays");
    page.section("Tracking of simulated gamma rays", title, "");
    let words = "Efficiency: gamma rays in the peak as a fraction of those emitted; it is limited by the fraction that is absorbed completely in the germanium. Peak to total: gamma rays in the peak as a fraction of all reconstructed ones.";
    page.section("By multiplicity", words, &shares(tallies));
    for TallyResult { tally, .. } in tallies {
        let lines = [
            ("gamma rays", &tally.energies),
            ("as the source sent them out", &tally.corrected),
            ("sums of events", &tally.calorimetric),
        ];
        let words = format!(
            "{} of {} gamma rays in the peak, {} were reconstructed.",
            tally.peak, tally.emitted, tally.tracked
        );
        page.section(&format!("Multiplicity {}", tally.multiplicity), &words, &spectrum(&lines));
    }
    page
}

fn legend<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut out = String::from("<div class=\"legend\">");
    for (k, name) in names.enumerate() {
        let _ = write!(out, "<span><i class=\"b-c{k}\"></i>{}</span>", escape(name));
    }
    out + "</div>"
}

/// Draws lines of counts by energy, up to the last energy that any of them has.
fn spectrum(lines: &[(&str, &Spectrum)]) -> String {
    let last = |spectrum: &Spectrum| spectrum.counts.iter().rposition(|&count| count > 0).unwrap_or(0);
    let steps = lines.iter().map(|(_, spectrum)| last(spectrum) + 2).max().unwrap_or(1);
    let together = steps.div_ceil(POINTS).max(1);
    let sums = |spectrum: &Spectrum| -> Vec<u64> {
        let counted = &spectrum.counts[..steps.min(spectrum.counts.len())];
        counted.chunks(together).map(|counts| counts.iter().sum()).collect()
    };
    let width = lines.first().map_or(1.0, |(_, spectrum)| spectrum.step) * together as f64;
    let most = lines.iter().flat_map(|(_, spectrum)| sums(spectrum)).max().unwrap_or(1);
    let mut chart = Chart::new(900.0, 380.0, [24.0, 22.0, 42.0, 64.0], "counts by energy");
    // The axis begins below 1, so that a single count is visible.
    let y = Scale::log(0.5, most.max(1) as f64, chart.bottom, chart.top);
    let x = Scale::linear(0.0, steps as f64 * width / together as f64, chart.left, chart.right);
    chart.y_axis(&y, &format!("counts in {} keV", short(width)));
    chart.x_axis(&x, "energy (keV)", false);
    // Steps, with gaps for zero counts. Lines that equal an earlier one share its line and its
    // entry in the legend.
    let mut shown: Vec<(String, Vec<u64>)> = Vec::new();
    for (name, spectrum) in lines {
        let sums = sums(spectrum);
        if sums.iter().all(|&count| count == 0) {
            continue;
        }
        match shown.iter_mut().find(|(_, other)| *other == sums) {
            Some((names, _)) => *names += &format!(", {name}"),
            None => shown.push(((*name).to_owned(), sums)),
        }
    }
    // The first line is drawn last, on top of the others.
    for (k, (_, sums)) in shown.iter().enumerate().rev() {
        for (first, run) in runs(sums) {
            let steps = run.iter().enumerate().flat_map(|(step, &count)| {
                let left = (first + step) as f64 * width;
                [left, left + width].map(|energy| (x.at(energy), y.at(count as f64)))
            });
            chart.line(&steps.collect::<Vec<_>>(), &format!("c{k}"));
        }
    }
    legend(shown.iter().map(|(name, _)| name.as_str())) + figure(&chart.finish(), &caption(lines)).as_str()
}

/// Returns the caption: the number of energies beyond the end of each line.
fn caption(lines: &[(&str, &Spectrum)]) -> String {
    let mut out = String::from("a gap is where nothing was counted");
    for (name, spectrum) in lines.iter().filter(|(_, spectrum)| spectrum.beyond > 0) {
        let end = spectrum.step * spectrum.counts.len() as f64;
        let _ = write!(out, "; {name}: {} above {} keV", spectrum.beyond, short(end));
    }
    out
}

/// Returns runs of counts above 0 with their starts.
fn runs(counts: &[u64]) -> Vec<(usize, &[u64])> {
    let mut begin = 0;
    let mut out = Vec::new();
    for run in counts.chunk_by(|a, b| (*a > 0) == (*b > 0)) {
        if run[0] > 0 {
            out.push((begin, run));
        }
        begin += run.len();
    }
    out
}

/// Draws efficiency and peak-to-total ratio by multiplicity.
fn shares(tallies: &[TallyResult]) -> String {
    let most = tallies.iter().map(|row| row.tally.multiplicity).max().unwrap_or(1);
    let mut chart = Chart::new(620.0, 320.0, [24.0, 14.0, 42.0, 56.0], "shares by multiplicity");
    let y = Scale::linear(0.0, 100.0, chart.bottom, chart.top);
    let x = Scale::linear(0.0, most as f64, chart.left, chart.right);
    chart.y_axis(&y, "%");
    chart.x_axis(&x, "gamma rays of an event", false);
    let names = ["efficiency", "peak to total", "stayed whole"];
    for (k, name) in names.into_iter().enumerate() {
        let share = |row: &TallyResult| 100.0 * [row.efficiency, row.peak_to_total, row.absorbed_share][k];
        let mut points: Vec<(usize, f64)> =
            tallies.iter().map(|row| (row.tally.multiplicity, share(row))).collect();
        points.sort_by_key(|point| point.0);
        let line: Vec<(f64, f64)> = points.iter().map(|&(m, share)| (x.at(m as f64), y.at(share))).collect();
        chart.line(&line, &format!("c{k}"));
        for (&(m, share), (cx, cy)) in points.iter().zip(line) {
            chart.put(format_args!(
                r#"<circle cx="{cx:.1}" cy="{cy:.1}" r="4" class="dot f-c{k}"><title>{m}: {name} {} %</title></circle>"#,
                short(share)
            ));
        }
    }
    legend(names.into_iter()) + figure(&chart.finish(), "figures stand on the points").as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_for_a_spectrum_is_said_below_it() {
        let (mut rays, mut sums) = (Spectrum::new(1.0, 4000.0), Spectrum::new(1.0, 4000.0));
        (0..10).for_each(|_| rays.add(1000.0));
        (0..3).for_each(|_| sums.add(5000.0));
        let page = spectrum(&[("gamma rays", &rays), ("sums of events", &sums)]);
        assert!(page.contains("sums of events: 3 above 4000 keV"), "{page}");
        assert_eq!(page.matches("b-c").count(), 1, "a line without counts has no colour: {page}");
        sums.add(2000.0);
        let page = spectrum(&[("gamma rays", &rays), ("sums of events", &sums)]);
        assert_eq!(page.matches("b-c").count(), 2, "{page}");
    }
}
