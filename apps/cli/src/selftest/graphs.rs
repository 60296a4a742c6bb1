//! Random task graphs, compared with a sequential run.

use zellige_app::table::{Side, Table};
use zellige_app::text::bytes;
use zellige_selftest::{FuzzCounts, FuzzReport};

use crate::args::SelftestArgs;

/// Returns a table and a summary of the graphs.
pub fn text(report: &FuzzReport, colours: bool) -> String {
    format!("{}{}", table(report).render(colours), summary(report))
}

/// Returns an error if graphs failed, with the command that repeats the first failure.
pub fn verdict(args: &SelftestArgs, report: &FuzzReport) -> anyhow::Result<()> {
    let Some(first) = report.failures.first() else { return Ok(()) };
    let deaths = if args.device_failures { " --device-failures" } else { "" };
    let threads = if args.single_threaded { " --single-threaded" } else { "" };
    let cuda = if args.cuda { " --device cuda --only graphs" } else { "" };
    anyhow::bail!(
        "{} of {} graphs failed; to repeat the first: zellige selftest --fuzz 1 --seed {}{deaths}{threads}{cuda}",
        report.failures.len(),
        report.counts.graphs,
        first.seed,
    )
}

fn table(report: &FuzzReport) -> Table {
    let mut table = Table::new(&[
        ("policy", Side::Left),
        ("graphs", Side::Right),
        ("tasks", Side::Right),
        ("evictions", Side::Right),
        ("write-backs", Side::Right),
        ("conversions", Side::Right),
        ("prefetch hits", Side::Right),
        ("moved", Side::Right),
        ("deaths", Side::Right),
    ]);
    for (policy, counts) in &report.by_policy {
        table.row(row(policy, counts));
    }
    table.row(row("all", &report.counts));
    table
}

fn row(name: &str, counts: &FuzzCounts) -> [String; 9] {
    [
        name.into(),
        counts.graphs.to_string(),
        counts.tasks.to_string(),
        counts.evictions.to_string(),
        counts.write_backs.to_string(),
        counts.conversions.to_string(),
        counts.prefetch_hits.to_string(),
        bytes(counts.bytes_moved),
        counts.device_deaths.to_string(),
    ]
}

fn summary(report: &FuzzReport) -> String {
    let counts = &report.counts;
    let (failed, last) = (report.failures.len(), report.seed.wrapping_add(counts.graphs.saturating_sub(1)));
    let mut text = format!(
        "{} graphs from seed {} (to {last}), {:.0} % with evictions, {:.0} % with conversions; {failed} failed; {:.1} s\n",
        counts.graphs,
        report.seed,
        100.0 * report.eviction_share(),
        100.0 * report.conversion_share(),
        report.seconds,
    );
    for failure in &report.failures {
        text += &format!("{failure}\n");
    }
    text
}
