//! Searches beside the full one as a page: the thesis' Tables 5.1 to 5.3 and Figures 5.1 and 5.2, and how far answers are from the truth.

use std::fmt::Write;

use zellige_page::svg::{Chart, Scale, escape, short};
use zellige_page::{Page, figure};
use zellige_psa::channels::ChannelSet;
use zellige_psa::search::EnergyClass;
use zellige_psa::survey::{Outcome, Row, Run, Variant};

use crate::table::distinct;

/// Searches in the pictures of distances and energies.
const DRAWN: [&str; 4] = ["cfgs fp32", "cfgs mixed", "cfgs fp16", "fgs fp16"];
/// Ends of the bins of distances (mm).
const BINS: [f64; 6] = [3.0, 5.0, 10.0, 20.0, 40.0, f64::INFINITY];

/// The page.
pub fn page(crystal: &str, rows: &[Row], runs: &[Run], variants: &[Variant]) -> String {
    let mut page = Page::new(&format!("{crystal}: searches beside each other"));
    let words = "Where in a crystal gamma rays gave their energy: fast searches beside the one that compares every point in fp32.";
    page.section(crystal, words, "");
    let words = "Events whose point is that of the full search (thesis, Tables 5.1 and 5.3): bars are means over seeds and noises, circles what is published.";
    page.section("The same point", words, &by_channels(rows, |row| row.same.mean, |row| row.published[0]));
    let words = "Events whose point lies within 5 mm of the full search's.";
    page.section("Within 5 mm", words, &by_channels(rows, |row| row.near.mean, |row| row.published[1]));
    let words = "How far points that are not those of the full search lie from them (thesis, Figure 5.1).";
    page.section("Distances", words, &[legend(), panels(runs, variants, &|runs| distances(runs))].concat());
    let words =
        "Which energies the events have whose point is not that of the full search (thesis, Figure 5.2).";
    page.section("Energies", words, &[legend(), panels(runs, variants, &|runs| energies(runs))].concat());
    let words = "Half of the events lie nearer to where they happened: the full search, by energy.";
    page.section("Resolution", words, &resolution(runs));
    page.finish()
}

fn legend() -> String {
    let names = DRAWN.iter().enumerate();
    let names = names.map(|(k, name)| format!("<span><i class=\"b-c{k}\"></i>{}</span>", escape(name)));
    format!("<div class=\"legend\">{}</div>", names.collect::<String>())
}

/// A picture for each set of channels, a bar for each search.
fn by_channels(rows: &[Row], value: impl Fn(&Row) -> f64, published: impl Fn(&Row) -> Option<f64>) -> String {
    let mut out = String::from("<div class=\"row\">");
    for channels in distinct(rows.iter().map(|row| row.channels.clone())) {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.channels == channels).collect();
        out += &figure(&bars(&rows, &value, &published), &escape(&channels));
    }
    out + "</div>"
}

fn bars(rows: &[&Row], value: impl Fn(&Row) -> f64, published: impl Fn(&Row) -> Option<f64>) -> String {
    const LINE: f64 = 18.0;
    let names = distinct(rows.iter().map(|row| row.name.to_owned()));
    let mut chart =
        Chart::new(520.0, 50.0 + LINE * names.len() as f64, [6.0, 14.0, 40.0, 130.0], "% of the events");
    let x = Scale::linear(0.0, 100.0, chart.left, chart.right);
    for (at, name) in names.iter().enumerate() {
        let y = chart.top + LINE * at as f64;
        let alike: Vec<&&Row> = rows.iter().filter(|row| row.name == *name).collect();
        let mean = alike.iter().map(|row| value(row)).sum::<f64>() / alike.len() as f64;
        chart.text(chart.left - 8.0, y + 12.0, "end", "name", name);
        let (left, width) = (chart.left, x.at(mean) - chart.left);
        chart.put(format_args!(
            r#"<rect x="{left:.1}" y="{y:.1}" width="{width:.1}" height="{:.1}" class="f-c0"><title>{}: {} %</title></rect>"#,
            LINE - 5.0,
            escape(name),
            short(mean)
        ));
        if let Some(percent) = published(alike[0]) {
            chart.put(format_args!(
                r#"<circle cx="{:.1}" cy="{:.1}" r="5" class="f-c1"><title>published: {percent} %</title></circle>"#,
                x.at(percent),
                y + 0.5 * (LINE - 5.0)
            ));
        }
    }
    chart.x_axis(&x, "% of the events", false);
    chart.finish()
}

/// A picture for each set of channels, of the runs of each drawn search.
fn panels(runs: &[Run], variants: &[Variant], draw: &dyn Fn(&[Vec<&Outcome>]) -> String) -> String {
    let mut out = String::from("<div class=\"row\">");
    for channels in [ChannelSet::HitCore, ChannelSet::Neighbours, ChannelSet::All] {
        let of = |name: &&str| -> Vec<&Outcome> {
            let is_it = |run: &&Run| {
                run.channels == channels && run.variant.is_some_and(|variant| variants[variant].name == *name)
            };
            runs.iter().filter(is_it).flat_map(|run| &run.outcomes).collect()
        };
        let drawn: Vec<Vec<&Outcome>> = DRAWN.iter().map(of).collect();
        if drawn.iter().any(|outcomes| !outcomes.is_empty()) {
            out += &figure(&draw(&drawn), &escape(&channels.to_string()));
        }
    }
    out + "</div>"
}

fn distances(searches: &[Vec<&Outcome>]) -> String {
    let bin = |outcome: &Outcome| BINS.iter().position(|end| outcome.from_reference <= *end).unwrap_or(0);
    let names: Vec<String> =
        BINS.iter().map(|end| if end.is_finite() { format!("to {end}") } else { "further".into() }).collect();
    shares(searches, &names, "% of the events, by mm", bin)
}

fn energies(searches: &[Vec<&Outcome>]) -> String {
    let class = |outcome: &Outcome| {
        let class = EnergyClass::of(outcome.energy);
        EnergyClass::ALL.iter().position(|other| *other == class).unwrap_or(0)
    };
    let names: Vec<String> = EnergyClass::ALL.iter().map(|class| class.name().to_owned()).collect();
    shares(searches, &names, "% of the events", class)
}

/// Of the events whose point is another one, how many fall into each bin: groups of bars, a bar for each search.
fn shares(
    searches: &[Vec<&Outcome>],
    names: &[String],
    title: &str,
    bin: impl Fn(&Outcome) -> usize,
) -> String {
    let share = |outcomes: &[&Outcome], at: usize| {
        let others = outcomes.iter().filter(|outcome| !outcome.is_same && bin(outcome) == at).count();
        100.0 * others as f64 / outcomes.len().max(1) as f64
    };
    let all = searches.iter().flat_map(|outcomes| (0..names.len()).map(|at| share(outcomes, at)));
    let most = all.fold(1.0, f64::max);
    let mut chart = Chart::new(520.0, 260.0, [26.0, 10.0, 30.0, 44.0], title);
    let y = Scale::linear(0.0, most, chart.bottom, chart.top);
    chart.y_axis(&y, title);
    let group = (chart.right - chart.left) / names.len() as f64;
    let width = 0.8 * group / searches.len() as f64;
    for (at, name) in names.iter().enumerate() {
        let middle = chart.left + (at as f64 + 0.5) * group;
        chart.text(middle, chart.bottom + 16.0, "middle", "tick", name);
        for (k, outcomes) in searches.iter().enumerate() {
            let value = share(outcomes, at);
            let x = middle + (k as f64 - searches.len() as f64 / 2.0) * width;
            let (top, bottom) = (y.at(value), chart.bottom);
            chart.put(format_args!(
                r#"<rect x="{x:.1}" y="{top:.1}" width="{:.1}" height="{:.1}" class="f-c{k}"><title>{}, {}: {} %</title></rect>"#,
                width - 1.0,
                bottom - top,
                DRAWN[k],
                escape(name),
                short(value)
            ));
        }
    }
    chart.finish()
}

/// The median distance of the full search from the truth, by energy, a line for each set of channels.
fn resolution(runs: &[Run]) -> String {
    const STEPS: usize = 12;
    let reference = || runs.iter().filter(|run| run.variant.is_none());
    let energies: Vec<f64> =
        reference().flat_map(|run| &run.outcomes).map(|outcome| outcome.energy).collect();
    let least = energies.iter().copied().fold(f64::INFINITY, f64::min);
    let most = energies.iter().copied().fold(0.0, f64::max);
    if !(least > 0.0 && least < most) {
        return String::new();
    }
    let edge = |step: usize| least * (most / least).powf(step as f64 / STEPS as f64);
    let sets = distinct(reference().map(|run| run.channels.to_string()));
    let mut lines: Vec<Vec<(f64, f64)>> = Vec::new();
    for set in &sets {
        let outcomes: Vec<&Outcome> = reference()
            .filter(|run| run.channels.to_string() == *set)
            .flat_map(|run| &run.outcomes)
            .collect();
        let median = |step: usize| {
            let range = edge(step)..edge(step + 1);
            let mut all: Vec<f64> =
                outcomes.iter().filter(|o| range.contains(&o.energy)).map(|o| o.from_truth).collect();
            all.sort_unstable_by(f64::total_cmp);
            Some(((range.start * range.end).sqrt(), *all.get(all.len() / 2)?))
        };
        lines.push((0..STEPS).filter_map(median).collect());
    }
    let top = lines.iter().flatten().map(|&(_, y)| y).fold(1.0, f64::max);
    let mut chart =
        Chart::new(620.0, 300.0, [24.0, 14.0, 42.0, 56.0], "median distance from the truth, by energy");
    let (x, y) =
        (Scale::log(least, most, chart.left, chart.right), Scale::linear(0.0, top, chart.bottom, chart.top));
    chart.x_axis(&x, "energy (keV)", true);
    chart.y_axis(&y, "mm to the truth");
    for (k, line) in lines.iter().enumerate() {
        let points: Vec<(f64, f64)> = line.iter().map(|&(energy, away)| (x.at(energy), y.at(away))).collect();
        chart.line(&points, &format!("c{k}"));
    }
    let mut legend = String::from("<div class=\"legend\">");
    for (k, set) in sets.iter().enumerate() {
        let _ = write!(legend, "<span><i class=\"b-c{k}\"></i>{}</span>", escape(set));
    }
    legend + "</div>" + figure(&chart.finish(), "full search in fp32").as_str()
}
