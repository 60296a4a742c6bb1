//! `zellige psa compare`.

use std::path::Path;

use zellige_psa::files;
use zellige_psa::files::arrays::{self, Quantity};
use zellige_psa::pipeline::compare::{Truth, compare};
use zellige_psa::pipeline::results::Results;
use zellige_psa::report::{self, text};

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
        false => {
            let colours = out::colours(&std::io::stdout());
            out::print(&text::of_comparison(&rows, args.b.is_some(), colours))
        }
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
