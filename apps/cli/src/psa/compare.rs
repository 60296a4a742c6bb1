//! `zellige psa compare`.

use serde::Serialize;
use zellige_psa::compare::{Agreement, Distance, compare};
use zellige_psa::results::Results;
use zellige_psa::search::arrays;

use crate::args::PsaCompareArgs;
use crate::exit::CommandError;
use crate::out::{self, Target};
use crate::table::{Side, Table, digits};

/// A row of the JSON.
#[derive(Serialize)]
struct Figures {
    class: &'static str,
    events: usize,
    same_percent: f64,
    within_5_mm_percent: f64,
    beyond_20_mm_percent: f64,
    to_truth_mm: Option<[Truth; 2]>,
}

#[derive(Serialize)]
struct Truth {
    median: f64,
    p90: f64,
}

impl Figures {
    fn of(row: &Agreement) -> Figures {
        Figures {
            class: class(row),
            events: row.events,
            same_percent: row.same,
            within_5_mm_percent: row.near,
            beyond_20_mm_percent: row.far,
            to_truth_mm: row.truth.map(|both| both.map(|Distance { median, p90 }| Truth { median, p90 })),
        }
    }
}

/// Compares two runs.
///
/// # Errors
/// Files that are no results, runs of other events, an output that cannot be written.
pub fn run(args: &PsaCompareArgs) -> anyhow::Result<()> {
    let target = args.json.as_deref().map(|path| Target::new("--json", path)).transpose()?;
    let (a, b) = (Results::read(&args.a)?, Results::read(&args.b)?);
    let truth = args.truth.as_deref().map(|path| arrays::read(path, 2)).transpose()?;
    if truth.as_ref().is_some_and(|truth| truth.shape[1] != 3) {
        return Err(CommandError::option("--truth", "an array of events x 3 is needed").into());
    }
    let places = truth.map(|truth| {
        let places = truth.numbers.as_chunks().0;
        places.iter().map(|at: &[f64; 3]| at.map(|x| x as f32)).collect::<Vec<_>>()
    });
    let rows = compare(&a, &b, places.as_deref())?;
    if let Some(target) = &target {
        target.write_json(&rows.iter().map(Figures::of).collect::<Vec<_>>())?;
    }
    match target.is_some_and(|target| target.is_stdout()) {
        true => Ok(()),
        false => out::print(&table(&rows)),
    }
}

fn class(row: &Agreement) -> &'static str {
    row.class.map_or("all", |class| class.name())
}

fn table(rows: &[Agreement]) -> String {
    let mut table = Table::new(&[
        ("energy", Side::Left),
        ("events", Side::Right),
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
        let shares = [
            class(row).into(),
            row.events.to_string(),
            percent(row.same),
            percent(row.near),
            percent(row.far),
        ];
        let truth = row.truth.into_iter().flatten().flat_map(|of| [digits(of.median), digits(of.p90)]);
        table.row(shares.into_iter().chain(truth));
    }
    table.render(out::colours(&std::io::stdout()))
}
