//! `zellige psa compare`.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use zellige_app::page::{Page, figure};
use zellige_app::svg::escape;
use zellige_psa::compare::{Agreement, Comparison, Distance, Outcome, Truth, compare};
use zellige_psa::events;
use zellige_psa::results::Results;
use zellige_psa::search::arrays;

use super::figures::{self, Search};
use crate::args::PsaCompareArgs;
use crate::exit::CommandError;
use crate::out;
use crate::results::{is_stdout, write_json, write_page};
use crate::table::{Side, Table, digits};

/// A row of the JSON.
#[derive(Serialize, JsonSchema)]
pub struct Figures {
    class: &'static str,
    hits: usize,
    only_in_first: usize,
    same_percent: f64,
    within_5_mm_percent: f64,
    beyond_20_mm_percent: f64,
    to_truth_mm: Option<[Distance; 2]>,
}

impl Figures {
    fn of(row: &Agreement) -> Figures {
        Figures {
            class: class(row),
            hits: row.hits,
            only_in_first: row.only_first,
            same_percent: row.same,
            within_5_mm_percent: row.near,
            beyond_20_mm_percent: row.far,
            to_truth_mm: row.truth,
        }
    }
}

/// Compares two runs.
///
/// # Errors
/// Files that are no results, runs of other events, an output that cannot be written.
pub fn run(args: &PsaCompareArgs) -> anyhow::Result<()> {
    let (a, b) = (Results::read(&args.a)?, Results::read(&args.b)?);
    let truth = args.truth.as_deref().map(truth).transpose()?;
    let comparison = compare(&a, &b, truth.as_ref())?;
    let rows = comparison.rows();
    if let Some(report) = &args.report {
        write_page(report, page(args, &comparison))?;
    }
    write_json(args.json.as_ref(), &rows.iter().map(Figures::of).collect::<Vec<_>>())?;
    match is_stdout(args.json.as_ref()) {
        true => Ok(()),
        false => out::print(&[table(&rows), unmatched(&rows[0])].concat()),
    }
}

/// Of a folder of simulated events, or of an array of places.
fn truth(path: &Path) -> anyhow::Result<Truth> {
    if path.is_dir() {
        return Ok(Truth::of_events(&events::read(path)?));
    }
    let places = arrays::read(path, 2)?;
    if places.shape[1] != 3 {
        return Err(CommandError::option("--truth", "an array of events x 3 is needed").into());
    }
    let place = |at: &[f64; 3]| at.map(|x| x as f32);
    Ok(Truth::of_places(&places.numbers.as_chunks().0.iter().map(place).collect::<Vec<_>>()))
}

fn class(row: &Agreement) -> &'static str {
    row.class.map_or("all", |class| class.name())
}

fn unmatched(all: &Agreement) -> String {
    match all.only_first {
        0 => String::new(),
        count => format!("{count} hits of the first run are not in the second\n"),
    }
}

fn table(rows: &[Agreement]) -> String {
    let mut table = Table::new(&[
        ("energy", Side::Left),
        ("hits", Side::Right),
        ("% same", Side::Right),
        ("% in 5 mm", Side::Right),
        ("% beyond 20 mm", Side::Right),
        ("A: mm to truth", Side::Right),
        ("p90", Side::Right),
        ("B: mm to truth", Side::Right),
        ("p90", Side::Right),
    ]);
    for row in rows {
        let percent = |share: f64| format!("{share:.2}");
        let shares =
            [class(row).into(), row.hits.to_string(), percent(row.same), percent(row.near), percent(row.far)];
        let truth = row.truth.into_iter().flatten().flat_map(|of| [digits(of.median), digits(of.p90)]);
        table.row(shares.into_iter().chain(truth));
    }
    table.render(out::colours(&std::io::stdout()))
}

/// The pictures of `zellige psa benchmark` for two runs.
fn page(args: &PsaCompareArgs, comparison: &Comparison) -> Page {
    let [a, b] = [&args.a, &args.b].map(|path| path.display().to_string());
    let search = [Search { name: &a, outcomes: comparison.outcomes.iter().collect() }];
    let mut page = Page::new(&format!("{a} beside {b}"));
    let words = format!(
        "{} hits that both runs have, {} that only {a} has; the point is the same for {:.2} %.",
        comparison.outcomes.len(),
        comparison.only_first.len(),
        comparison.rows()[0].same
    );
    page.section(&format!("{a} beside {b}"), &words, "");
    let picture = |drawn: String| format!("<div class=\"row\">{}</div>", figure(&drawn, &escape(&a)));
    let words = format!("How far points of {a} that are not those of {b} lie from them.");
    page.section("Distances", &words, &picture(figures::distances(&search)));
    let words = format!("Which energies the hits have whose point is not that of {b}.");
    page.section("Energies", &words, &picture(figures::energies(&search)));
    let line = |run: usize, name: String| {
        let point = |hit: &Outcome| Some((hit.energy, hit.from_truth?[run]));
        (name, comparison.outcomes.iter().filter_map(point).collect())
    };
    let resolution = figures::resolution(&[line(0, a.clone()), line(1, b.clone())], "both runs");
    if !resolution.is_empty() {
        let words = "Half of the hits lie nearer to where they happened, by energy.";
        page.section("Resolution", words, &resolution);
    }
    page
}
