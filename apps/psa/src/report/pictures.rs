//! Pictures that compare search results with a reference, and with the truth.

use std::fmt::Write;

use crate::pipeline::compare::Outcome;
use crate::search::EnergyClass;
use zellige_app::page::figure;
use zellige_app::svg::{Chart, Scale, escape, short};

/// Upper ends of the bins of distances (mm).
const BINS: [f64; 6] = [3.0, 5.0, 10.0, 20.0, 40.0, f64::INFINITY];

/// Outcomes of a search for hits.
pub struct Search<'a> {
    /// Name of the search.
    pub name: &'a str,
    /// Outcomes relative to the reference.
    pub outcomes: Vec<&'a Outcome>,
}

/// Returns the legend: names of lines and bars in their colours.
pub fn legend(names: &[impl AsRef<str>]) -> String {
    let mut legend = String::from("<div class=\"legend\">");
    for (k, name) in names.iter().enumerate() {
        let _ = write!(legend, "<span><i class=\"b-c{k}\"></i>{}</span>", escape(name.as_ref()));
    }
    legend + "</div>"
}

/// Draws the distances of points that differ from the reference's.
pub fn distances(searches: &[Search<'_>]) -> String {
    let bin = |outcome: &Outcome| BINS.iter().position(|end| outcome.from_reference <= *end).unwrap_or(0);
    let names: Vec<String> =
        BINS.iter().map(|end| if end.is_finite() { format!("to {end}") } else { "further".into() }).collect();
    shares(searches, &names, "% of the hits, by mm", bin)
}

/// Draws the energies of the hits whose point differs from the reference's.
pub fn energies(searches: &[Search<'_>]) -> String {
    let class = |outcome: &Outcome| {
        let class = EnergyClass::of(outcome.energy);
        EnergyClass::ALL.iter().position(|other| *other == class).unwrap_or(0)
    };
    let names: Vec<String> = EnergyClass::ALL.iter().map(|class| class.name().to_owned()).collect();
    shares(searches, &names, "% of the hits", class)
}

/// Draws the distribution over bins of the hits whose point differs: groups of bars, a bar for each
/// search.
fn shares(searches: &[Search<'_>], names: &[String], title: &str, bin: impl Fn(&Outcome) -> usize) -> String {
    let share = |outcomes: &[&Outcome], at: usize| {
        let others = outcomes.iter().filter(|outcome| !outcome.is_same && bin(outcome) == at).count();
        100.0 * others as f64 / outcomes.len().max(1) as f64
    };
    let all = searches.iter().flat_map(|search| (0..names.len()).map(|at| share(&search.outcomes, at)));
    let most = all.fold(1.0, f64::max);
    let mut chart = Chart::new(520.0, 260.0, [26.0, 10.0, 30.0, 44.0], title);
    let y = Scale::linear(0.0, most, chart.bottom, chart.top);
    chart.y_axis(&y, title);
    let group = (chart.right - chart.left) / names.len() as f64;
    let width = 0.8 * group / searches.len() as f64;
    for (at, name) in names.iter().enumerate() {
        let middle = chart.left + (at as f64 + 0.5) * group;
        chart.text(middle, chart.bottom + 16.0, "middle", "tick", name);
        for (k, search) in searches.iter().enumerate() {
            let value = share(&search.outcomes, at);
            let x = middle + (k as f64 - searches.len() as f64 / 2.0) * width;
            let (top, bottom) = (y.at(value), chart.bottom);
            chart.put(format_args!(
                r#"<rect x="{x:.1}" y="{top:.1}" width="{:.1}" height="{:.1}" class="f-c{k}"><title>{}, {}: {} %</title></rect>"#,
                width - 1.0,
                bottom - top,
                escape(search.name),
                escape(name),
                short(value)
            ));
        }
    }
    chart.finish()
}

/// Draws the median distance from the truth by energy. There is a line for each name with its hits,
/// pairs of energy (keV) and distance (mm). Returns an empty string if all hits have the same
/// energy.
pub fn resolution(named: &[(String, Vec<(f64, f64)>)], title: &str) -> String {
    const STEPS: usize = 12;
    let energies = || named.iter().flat_map(|(_, hits)| hits).map(|&(energy, _)| energy);
    let (least, most) = (energies().fold(f64::INFINITY, f64::min), energies().fold(0.0, f64::max));
    if !(least > 0.0 && least < most) {
        return String::new();
    }
    let edge = |step: usize| least * (most / least).powf(step as f64 / STEPS as f64);
    let line = |hits: &[(f64, f64)]| -> Vec<(f64, f64)> {
        let median = |step: usize| {
            let range = edge(step)..edge(step + 1);
            let mut all: Vec<f64> =
                hits.iter().filter(|(energy, _)| range.contains(energy)).map(|&(_, away)| away).collect();
            all.sort_unstable_by(f64::total_cmp);
            Some(((range.start * range.end).sqrt(), *all.get(all.len() / 2)?))
        };
        (0..STEPS).filter_map(median).collect()
    };
    let lines: Vec<Vec<(f64, f64)>> = named.iter().map(|(_, hits)| line(hits)).collect();
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
    let names: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).collect();
    legend(&names) + figure(&chart.finish(), title).as_str()
}
