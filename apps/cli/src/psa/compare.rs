//! `zellige psa compare`.

use std::path::Path;

use zellige_app::table::{Side, Table};
use zellige_app::text::digits;
use zellige_psa::files::arrays::{self, Quantity};
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
    let of_b = args.b.as_ref().unwrap_or(&args.a);
    let (a, b) = (Results::read(&args.a)?, Results::read(of_b)?);
    let truth = args.truth.as_deref().map(truth).transpose()?;
    let comparison = compare(&a, &b, truth.as_ref())?;
    let rows = comparison.rows();
    if let Some(report) = &args.report {
        let [a, b] = [&args.a, of_b].map(|path| path.display().to_string());
        write_page(report, report::of_comparison([&a, &b], &comparison))?;
    }
    write_json(args.json.as_ref(), &rows)?;
    match is_stdout(args.json.as_ref()) {
        true => Ok(()),
        false => out::print(&[table(&rows, args.b.is_some()), unmatched(&rows[0])].concat()),
    }
}

/// Reads the truth, from a folder of simulated events or from an array of positions.
fn truth(path: &Path) -> anyhow::Result<Truth> {
    if path.is_dir() {
        return Ok(Truth::of_events(&files::events::read(path)?));
    }
    let places = arrays::read(path, 2, Quantity::Length)?;
    if places.shape[1] != 3 {
        return Err(CommandError::option("--truth", "the array must have the shape events x 3").into());
    }
    let place = |at: &[f64; 3]| at.map(|x| x as f32);
    Ok(Truth::of_places(&places.numbers.as_chunks().0.iter().map(place).collect::<Vec<_>>()))
}

fn unmatched(all: &Agreement) -> String {
    match all.only_in_first {
        0 => String::new(),
        count => format!("{count} hits of the first run are missing in the second\n"),
    }
}

/// Returns the table of a comparison of two runs, or of one run with the truth.
fn table(rows: &[Agreement], of_two: bool) -> String {
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
    table.render(out::colours(&std::io::stdout()))
}
