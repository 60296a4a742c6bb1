//! `zellige psa compare`.

use std::path::Path;

use zellige_app::table::{Side, Table};
use zellige_app::text::digits;
use zellige_psa::files::arrays;
use zellige_psa::pipeline::compare::{Agreement, Truth, compare};
use zellige_psa::pipeline::results::Results;
use zellige_psa::{files, report};

use crate::args::PsaCompareArgs;
use crate::exit::CommandError;
use crate::out;
use crate::results::{is_stdout, write_json, write_page};

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
        let [a, b] = [&args.a, &args.b].map(|path| path.display().to_string());
        write_page(report, report::of_comparison([&a, &b], &comparison))?;
    }
    write_json(args.json.as_ref(), &rows)?;
    match is_stdout(args.json.as_ref()) {
        true => Ok(()),
        false => out::print(&[table(&rows), unmatched(&rows[0])].concat()),
    }
}

/// Of a folder of simulated events, or of an array of places.
fn truth(path: &Path) -> anyhow::Result<Truth> {
    if path.is_dir() {
        return Ok(Truth::of_events(&files::events::read(path)?));
    }
    let places = arrays::read(path, 2)?;
    if places.shape[1] != 3 {
        return Err(CommandError::option("--truth", "an array of events x 3 is needed").into());
    }
    let place = |at: &[f64; 3]| at.map(|x| x as f32);
    Ok(Truth::of_places(&places.numbers.as_chunks().0.iter().map(place).collect::<Vec<_>>()))
}

fn unmatched(all: &Agreement) -> String {
    match all.only_in_first {
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
        let shares = [
            row.class.into(),
            row.hits.to_string(),
            percent(row.same_percent),
            percent(row.within_5_mm_percent),
            percent(row.beyond_20_mm_percent),
        ];
        let truth = row.to_truth_mm.into_iter().flatten().flat_map(|of| [digits(of.median), digits(of.p90)]);
        table.row(shares.into_iter().chain(truth));
    }
    table.render(out::colours(&std::io::stdout()))
}
