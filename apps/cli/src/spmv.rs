//! `zellige spmv`.

mod report;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use zellige_kernels::packed::Rounding;
use zellige_sparse::market;
use zellige_sparse::survey::{Row, Survey};
use zellige_tor::pipeline::Observer;

use crate::args::{Round, SpmvArgs};
use crate::out;
use crate::progress::Progress;
use crate::results::{is_stdout, write_json, write_page};
use crate::table::{Side, Table, bytes, digits};
use crate::vectors;

/// A row of the JSON.
#[derive(Serialize, JsonSchema)]
pub struct Figures {
    set: String,
    criterion: &'static str,
    layout: String,
    eps_log2: f64,
    counts: BTreeMap<String, u64>,
    positive: BTreeMap<String, u64>,
    bytes: u64,
    bytes_all_rowptr: u64,
    percent: f64,
    error_nw: f64,
    error_cw: f64,
    /// The largest bound of a row, `max_i B_i`.
    bound: f64,
    /// The bounds, measured as the errors are.
    bound_nw: f64,
    bound_cw: f64,
    /// The largest error of a row beside its bound.
    error_of_bound: f64,
    seconds: f64,
    seconds_fp64: f64,
}

impl Figures {
    fn of(row: Row) -> Self {
        Figures {
            set: row.set.to_string(),
            criterion: row.criterion,
            layout: row.layout,
            eps_log2: row.accuracy.log2(),
            counts: row.counts,
            positive: row.positive,
            bytes: row.bytes,
            bytes_all_rowptr: row.bytes_all_rowptr,
            percent: row.percent,
            error_nw: row.error.normwise,
            error_cw: row.error.componentwise,
            bound: row.bound,
            bound_nw: row.bounds.normwise,
            bound_cw: row.bounds.componentwise,
            error_of_bound: row.of_bound,
            seconds: row.seconds.0,
            seconds_fp64: row.seconds.1,
        }
    }
}

/// Stores a matrix in every way that is asked for.
///
/// # Errors
/// A file that is no matrix, options without meaning together, an output that cannot be written.
pub fn run(args: &SpmvArgs) -> anyhow::Result<()> {
    let matrix = market::read(&args.matrix)?.matrix.without_zeros();
    let x = vectors::one("--x-for", &args.x_for, matrix.columns())?;
    let criteria: Vec<&str> = args.criterion.iter().map(String::as_str).collect();
    let sets: Vec<_> = args.sets.iter().map(|set| set.0).collect();
    let survey = Survey {
        layout: args.layout,
        sets: &sets,
        accuracies: &args.eps,
        criteria: &criteria,
        rounding: match args.round {
            Round::Nearest => Rounding::Nearest,
            Round::Chop => Rounding::Chop,
        },
        drops: !args.no_drop,
        x: Some(&x),
        workers: args.workers.into(),
        repeats: args.repeats.into(),
    };
    let progress = Progress::new();
    progress.stage("storing and multiplying", survey.len() as u64);
    let mut done = 0;
    let rows = survey.run(&matrix, |_| {
        done += 1;
        progress.advance(done);
    })?;
    drop(progress);
    let text = table(&args.matrix.display().to_string(), matrix.bytes(), args.workers, &rows);
    if let Some(target) = &args.report {
        write_page(target, report::page(&args.matrix.display().to_string(), &rows))?;
    }
    write_json(args.json.as_ref(), &rows.into_iter().map(Figures::of).collect::<Vec<_>>())?;
    match is_stdout(args.json.as_ref()) {
        true => Ok(()),
        false => out::print(&text),
    }
}

fn table(name: &str, by_rows: u64, workers: u16, rows: &[Row]) -> String {
    let mut table = Table::new(&[
        ("criterion", Side::Left),
        ("eps", Side::Left),
        ("set", Side::Left),
        ("layout", Side::Left),
        ("bytes", Side::Right),
        ("% of fp64", Side::Right),
        ("dropped", Side::Right),
        ("error nw", Side::Right),
        ("error cw", Side::Right),
        ("B", Side::Right),
        ("of B", Side::Right),
        ("ms", Side::Right),
        ("x fp64", Side::Right),
    ]);
    for row in rows {
        table.row([
            row.criterion.to_string(),
            row.accuracy.to_string(),
            row.set.to_string(),
            row.layout.clone(),
            bytes(row.bytes),
            format!("{:.1}", row.percent),
            row.counts["drop"].to_string(),
            format!("{:.1e}", row.error.normwise),
            format!("{:.1e}", row.error.componentwise),
            format!("{:.1e}", row.bound),
            digits(row.of_bound),
            digits(row.seconds.0 * 1e3),
            digits(row.seconds.0 / row.seconds.1),
        ]);
    }
    let heading = format!(
        "{name}: {} by rows in fp64; B: the largest bound of a row; of B: the largest error of a row beside its bound; x fp64: time \
         beside that of a product in fp64, both on {workers} worker(s)\n",
        bytes(by_rows)
    );
    heading + table.render(out::colours(&std::io::stdout())).as_str()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use zellige_sparse::adaptive::FormatSet;

    /// The help names every set that there is.
    #[test]
    fn the_help_names_every_set() {
        let mut command = crate::args::Cli::command();
        let help = command.find_subcommand_mut("spmv").unwrap().render_long_help().to_string();
        for set in FormatSet::ALL {
            assert!(help.contains(&set.name().to_lowercase()), "{set}");
        }
    }
}
