//! Spectra, and figures by multiplicity, as a page.

use std::fmt::Write;

use crate::track::Spectrum;
use zellige_app::page::{Page, figure};
use zellige_app::svg::{Chart, Scale, escape, short};

use crate::pipeline::results::{TallyResult, TrackResult};

/// Most points of a line: more than the picture has pixels would only make it large.
const POINTS: usize = 800;

/// The page of hits.
pub fn of_hits(name: &str, result: &TrackResult) -> Page {
    let mut page = Page::new(&format!("{name}: gamma rays"));
    page.section(name, "Hits of germanium crystals, put together to gamma rays.", "");
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

/// The page of simulated events.
pub fn of_simulation(title: &str, tallies: &[TallyResult]) -> Page {
    let mut page = Page::new("Tracking of simulated gamma rays");
    page.section("Tracking of simulated gamma rays", title, "");
    let words = "Efficiency: gamma rays in the peak in parts of those that were sent out; no tracking gets more than what stayed whole in the germanium. \
                 Peak to total: gamma rays in the peak in parts of all that were put together.";
    page.section("By multiplicity", words, &shares(tallies));
    for TallyResult { tally, .. } in tallies {
        let lines = [
            ("gamma rays", &tally.energies),
            ("as the source sent them out", &tally.corrected),
            ("sums of events", &tally.calorimetric),
        ];
        let words = format!(
            "{} of {} gamma rays in the peak, {} were put together.",
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

/// Lines of counts by energy, up to the last energy that any of them has.
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
    let mut chart = Chart::new(900.0, 380.0, [24.0, 14.0, 42.0, 64.0], "counts by energy");
    // Half a count is where an empty step is drawn.
    let y = Scale::log(0.5, most.max(1) as f64, chart.bottom, chart.top);
    let x = Scale::linear(0.0, steps as f64 * width / together as f64, chart.left, chart.right);
    chart.y_axis(&y, &format!("counts in {} keV", short(width)));
    chart.x_axis(&x, "energy (keV)", false);
    for (k, (_, spectrum)) in lines.iter().enumerate() {
        let at =
            |(step, count): (usize, u64)| (x.at((step as f64 + 0.5) * width), y.at((count as f64).max(0.5)));
        chart.line(&sums(spectrum).into_iter().enumerate().map(at).collect::<Vec<_>>(), &format!("c{k}"));
    }
    legend(lines.iter().map(|(name, _)| *name))
        + figure(&chart.finish(), "an empty step is at one half").as_str()
}

/// Efficiency and peak to total by multiplicity.
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
