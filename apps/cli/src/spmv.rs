//! `zellige spmv`.

use zellige_app::table::{Side, Table};
use zellige_app::text::{bytes, digits};
use zellige_files::observe::Observer;
use zellige_measure::spmv::results::SpmvResult;
use zellige_measure::spmv::{Layout, StorageRow, Survey, report};
use zellige_solve::tune::RowAccuracies;
use zellige_sparse::adaptive::FormatSet;
use zellige_sparse::files;

use crate::args::{SetChoice, SpmvArgs};
use crate::devices;
use crate::exit::CommandError;
use crate::out;
use crate::progress::Progress;
use crate::results::{is_stdout, write_json, write_page};
use crate::vectors;

/// Stores a matrix in every requested format, and measures its products.
///
/// # Errors
/// A file that is no matrix, invalid combinations of options, an output that cannot be written.
pub fn run(args: &SpmvArgs) -> anyhow::Result<()> {
    let matrix = files::read_real(&args.matrix)?.without_zeros();
    let x = vectors::one("--x-for", &args.x_for, matrix.columns())?;
    let criteria: Vec<&str> = args.criterion.iter().map(String::as_str).collect();
    let rows = match &args.sets[..] {
        [SetChoice::Map(path)] => Some(RowAccuracies::read(path, matrix.rows())?),
        _ => None,
    };
    let (sets, criteria, accuracies, layout) = match (&rows, args.layout) {
        (Some(rows), layout) => {
            // The fastest layout is predicted from parts of the matrix.
            let layout = if layout == Layout::Auto { Layout::Tiled } else { layout };
            (vec![Some(rows.set)], vec!["rows"], std::slice::from_ref(&rows.accuracy), layout)
        }
        (None, layout) => (sets(&args.sets)?, criteria, &args.eps[..], layout),
    };
    let workers = devices::workers(args.workers);
    let survey = Survey {
        layout,
        sets: &sets,
        accuracies,
        criteria: &criteria,
        drops: true,
        weights: rows.as_ref().map_or(&[], |rows| &rows.weights),
        x: Some(&x),
        workers: workers.into(),
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
    let text = table(&args.matrix.display().to_string(), matrix.bytes(), workers, &rows);
    if let Some(target) = &args.report {
        write_page(target, report::of_storage(&args.matrix.display().to_string(), &rows))?;
    }
    write_json(args.json.as_ref(), &rows.into_iter().map(SpmvResult::from).collect::<Vec<_>>())?;
    match is_stdout(args.json.as_ref()) {
        true => Ok(()),
        false => out::print(&text),
    }
}

fn sets(choices: &[SetChoice]) -> Result<Vec<Option<FormatSet>>, CommandError> {
    let set = |choice: &SetChoice| match choice {
        SetChoice::Set(set) => Ok(Some(*set)),
        SetChoice::Auto => Ok(None),
        SetChoice::Map(_) => Err(CommandError::option("--sets", "a map stands alone: name no other set")),
    };
    choices.iter().map(set).collect()
}

fn table(name: &str, by_rows: u64, workers: u16, rows: &[StorageRow]) -> String {
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
        "{name}: {} as CSR in fp64; B: the largest bound of a row; of B: the largest error of a row relative to its bound; x fp64: time relative to a product in fp64, both on {workers} worker(s)\n",
        bytes(by_rows)
    );
    heading + table.render(out::colours(&std::io::stdout())).as_str()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use zellige_sparse::adaptive::FormatSet;

    /// The help names every format set.
    #[test]
    fn the_help_names_every_set() {
        let mut command = crate::args::Cli::command();
        let help = command.find_subcommand_mut("spmv").unwrap().render_long_help().to_string();
        for set in FormatSet::ALL.into_iter().chain(FormatSet::UNIFORM).chain([FormatSet::Ap1]) {
            assert!(help.contains(&set.name().to_lowercase()), "{set}");
        }
    }
}
