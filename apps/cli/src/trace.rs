//! `zellige trace`, which reads native traces.

mod summary;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use zellige_app::table::{Side, Table};
use zellige_app::text::digits;
use zellige_runtime::Trace;
use zellige_runtime::trace::Report;

use crate::args::{
    Output, TraceCompareArgs, TraceFile, TraceFormArgs, TraceFormat, TraceSummaryArgs, TraceVerb,
};
use crate::exit::CommandError;
use crate::out;
use crate::results::{is_stdout, write_json};

pub use summary::Summary;

/// Maximum size of a trace in bytes: enough for hundreds of millions of tasks.
const MOST_BYTES: u64 = 16 << 30;

/// Summarises a native trace, converts it, or compares it with another one.
///
/// # Errors
/// A file that is no native trace; an output that cannot be written.
pub fn run(verb: &TraceVerb) -> anyhow::Result<()> {
    match verb {
        TraceVerb::Summary(args) => summarise(args),
        TraceVerb::Html(args) => convert(args, TraceFormat::Html),
        TraceVerb::Perfetto(args) => convert(args, TraceFormat::Chrome),
        TraceVerb::Paje(args) => convert(args, TraceFormat::Paje),
        TraceVerb::Compare(args) => compare(args),
    }
}

/// Prints the summary of a run as text, and writes it as JSON.
fn summarise(args: &TraceSummaryArgs) -> anyhow::Result<()> {
    let report = read(&args.file)?.report();
    write_json(args.json.as_ref(), &[Summary::from(&report)])?;
    match is_stdout(args.json.as_ref()) {
        true => Ok(()),
        false => out::print(&report.to_string()),
    }
}

/// Converts a trace to another format.
fn convert(args: &TraceFormArgs, format: TraceFormat) -> anyhow::Result<()> {
    let from: &Path = &args.file;
    let output = match &args.output {
        Some(output) => output.clone(),
        None => Output::from(from.with_extension(format.ending()).into_os_string()),
    };
    if *output == *from {
        let problem = format!(
            "the trace itself would be overwritten; name another output with -o FILE.{}",
            format.ending()
        );
        return Err(CommandError::option(from.display(), problem).into());
    }
    let title = from.file_stem().unwrap_or_default().to_string_lossy();
    let to = TraceFile::new(output, format);
    to.write(&read(from)?, &title)?;
    if !to.output().is_stdout() {
        out::note(&format!("written: {}", to.output().display()));
    }
    Ok(())
}

/// Reads a native trace.
fn read(file: &Path) -> anyhow::Result<Trace> {
    let name = file.display();
    let bytes =
        zellige_files::read_bytes(file, MOST_BYTES).with_context(|| format!("{name} cannot be read"))?;
    Ok(Trace::read_native(&bytes).map_err(|problem| CommandError::option(name, problem))?)
}

/// Compares two runs.
fn compare(args: &TraceCompareArgs) -> anyhow::Result<()> {
    let (a, b) = (read(&args.a)?.report(), read(&args.b)?.report());
    out::print(&comparison(&a, &b, out::colours(&std::io::stdout())))
}

/// Returns a table of the whole runs, and one of the codelets, with the largest differences first.
fn comparison(a: &Report, b: &Report, colours: bool) -> String {
    let milliseconds = |time: Duration| digits(1e3 * time.as_secs_f64());
    let ratio = |a: f64, b: f64| if a > 0.0 { format!("{:.3}", b / a) } else { "-".into() };
    let columns = |what| [(what, Side::Left), ("A", Side::Right), ("B", Side::Right), ("B / A", Side::Right)];
    let mut whole = Table::new(&columns("run"));
    whole.row([
        "tasks".into(),
        a.tasks.to_string(),
        b.tasks.to_string(),
        ratio(a.tasks as f64, b.tasks as f64),
    ]);
    let workers = |report: &Report| report.idle.len().to_string();
    whole.row(["workers".into(), workers(a), workers(b), ratio(a.idle.len() as f64, b.idle.len() as f64)]);
    type Time = fn(&Report) -> Duration;
    let times: [(&str, Time); 4] = [
        ("makespan (ms)", |report| report.makespan),
        ("in bodies (ms)", |report| report.busy),
        ("area bound (ms)", |report| report.area_bound),
        ("critical path (ms)", |report| report.critical_path_bound),
    ];
    for (name, of) in times {
        let (a, b) = (of(a), of(b));
        whole.row([name.into(), milliseconds(a), milliseconds(b), ratio(a.as_secs_f64(), b.as_secs_f64())]);
    }
    let percent = |share: f64| format!("{:.1}", 100.0 * share);
    let (share_a, share_b) = (a.kernels_share(), b.kernels_share());
    whole.row(["workers busy (%)".into(), percent(share_a), percent(share_b), ratio(share_a, share_b)]);
    let moved = |report: &Report| report.links.iter().map(|link| link.bytes).sum::<u64>();
    let megabytes = |bytes: u64| digits(bytes as f64 / 1e6);
    whole.row([
        "moved (MB)".into(),
        megabytes(moved(a)),
        megabytes(moved(b)),
        ratio(moved(a) as f64, moved(b) as f64),
    ]);

    let mut codelets: BTreeMap<&str, [(usize, Duration); 2]> = BTreeMap::new();
    for (k, report) in [a, b].into_iter().enumerate() {
        for codelet in &report.codelets {
            codelets.entry(codelet.name).or_default()[k] = (codelet.count, codelet.total);
        }
    }
    let mut codelets: Vec<_> = codelets.into_iter().collect();
    codelets.sort_by_key(|(_, [(_, a), (_, b)])| std::cmp::Reverse(a.abs_diff(*b)));
    let mut table = Table::new(&[
        ("codelet", Side::Left),
        ("A: runs", Side::Right),
        ("B: runs", Side::Right),
        ("A: ms", Side::Right),
        ("B: ms", Side::Right),
        ("B - A: ms", Side::Right),
        ("B / A", Side::Right),
    ]);
    for (name, [(runs_a, of_a), (runs_b, of_b)]) in codelets {
        let more = 1e3 * (of_b.as_secs_f64() - of_a.as_secs_f64());
        table.row([
            name.into(),
            runs_a.to_string(),
            runs_b.to_string(),
            milliseconds(of_a),
            milliseconds(of_b),
            format!("{more:+.3}"),
            ratio(of_a.as_secs_f64(), of_b.as_secs_f64()),
        ]);
    }
    format!("{}\n{}", whole.render(colours), table.render(colours))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_runs_are_compared() {
        use zellige_runtime::trace::{TaskEvent, TraceWorker};
        let run = |took: u64, names: &[&'static str]| {
            let task = |(k, &name): (usize, &&'static str)| TaskEvent {
                id: k as u64,
                name,
                start_ns: k as u64 * took,
                end_ns: (k as u64 + 1) * took,
                ..TaskEvent::default()
            };
            let workers = vec![TraceWorker { name: "cpu 0".into(), kind: "cpu".into(), node: 0 }];
            let tasks = names.iter().enumerate().map(task).collect();
            Trace { workers, tasks, ..Trace::default() }.report()
        };
        let (a, b) = (run(1_000_000, &["gemm", "gemm", "trsm"]), run(2_000_000, &["gemm", "potrf"]));
        let text = comparison(&a, &b, false);
        let line = |name: &str| {
            let line =
                text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
            line.split_whitespace().rev().take(3).map(str::to_owned).collect::<Vec<_>>()
        };
        // The last three cells: ratio, B, A of the run; ratio, difference, B of a codelet.
        assert_eq!(line("makespan"), ["1.333", "4.00", "3.00"]);
        assert_eq!(line("gemm"), ["1.000", "+0.000", "2.00"]);
        assert_eq!(line("potrf"), ["-", "+2.000", "2.00"]);
        assert_eq!(line("trsm"), ["0.000", "-1.000", "0.00"]);
        assert!(text.find("potrf") < text.find("gemm"), "what differs most comes first: {text}");
    }
}
