//! The run as one page that needs only a browser.

mod data;
mod tables;

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use super::Trace;
use super::report::Report;
use super::summary::Short;
use data::PageData;

/// Maximum number of bodies that are drawn one by one; beyond it, short neighbours are merged.
const DRAWN: usize = 50_000;

/// Maximum number of codelets of the critical path that are named.
const NAMED: usize = 6;

/// Page template: `@@name@@` is replaced by the text that [`part`] writes.
const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPTS: [&str; 4] =
    [include_str!("model.js"), include_str!("gantt.js"), include_str!("charts.js"), include_str!("page.js")];

impl Trace {
    /// Writes one self-contained page: numbers, a Gantt chart per worker and per link, curves of
    /// ready tasks and of the used bytes of memory nodes, kernel durations, bounds, transfers.
    ///
    /// The page loads nothing and sends nothing: it works from a disk, offline. Up to 50 000 bodies
    /// and transfers are drawn one by one. In a longer run, those that are short at full view are
    /// merged with their neighbours, and the page notes that. Numbers, tables and histograms always
    /// cover every recorded task.
    ///
    /// # Errors
    ///
    /// Any error of `out`. The text is written in small pieces: pass a buffered writer.
    pub fn write_html(&self, title: &str, out: &mut impl Write) -> io::Result<()> {
        let report = self.report();
        let data = PageData::new(self, &report, DRAWN);
        for (place, piece) in PAGE.split("@@").enumerate() {
            if place % 2 == 0 {
                out.write_all(piece.as_bytes())?;
            } else {
                part(out, piece, title, self, &report, &data)?;
            }
        }
        Ok(())
    }
}

fn part(
    out: &mut impl Write,
    name: &str,
    title: &str,
    trace: &Trace,
    report: &Report,
    data: &PageData,
) -> io::Result<()> {
    match name {
        "title" => write!(out, "{}", Escaped(title)),
        "subtitle" => {
            let workers = report.idle.len();
            write!(out, "{workers} worker{}", if workers == 1 { "" } else { "s" })?;
            if !trace.policy.is_empty() {
                write!(out, " · policy {}", Escaped(&trace.policy))?;
            }
            Ok(())
        }
        "style" => out.write_all(STYLE.as_bytes()),
        "script" => SCRIPTS.iter().try_for_each(|script| out.write_all(script.as_bytes())),
        "data" => Ok(serde_json::to_writer(ScriptSafe(out), data)?),
        "cards" => cards(out, report),
        "bounds" => bounds(out, trace, report),
        "notes" => notes(out, report, data),
        "table" => tables::codelets(out, report),
        "moved" => tables::moved(out, report),
        // A placeholder without text would be a slip in the page itself; the tests look for one.
        other => write!(out, "@@{other}@@"),
    }
}

fn cards(out: &mut impl Write, report: &Report) -> io::Result<()> {
    card(out, "Makespan", Short(report.makespan), "start to end", "")?;
    let kinds = report.codelets.len();
    let kinds = format!("of {kinds} codelet{}", if kinds == 1 { "" } else { "s" });
    card(out, "Tasks", Grouped(report.tasks as u64), &kinds, "")?;
    let share = format!("{:.1} %", 100.0 * report.kernels_share());
    card(out, "Kernels’ share", share, "of worker time", "")?;
    if report.flops > 0.0 {
        let flops = format!("{}flop in all", Engineering(report.flops));
        card(out, "Rate", format!("{}flop/s", Engineering(1e9 * report.gflops())), &flops, "")?;
    }
    let over = |bound: Duration| {
        let times = report.makespan.as_secs_f64() / bound.as_secs_f64();
        match times {
            _ if bound.is_zero() => String::from("no time"),
            _ if times < 2.0 => format!("makespan +{:.1} %", 100.0 * (times - 1.0).max(0.0)),
            _ => format!("makespan {times:.1} ×"),
        }
    };
    card(out, "Area bound", Short(report.area_bound), &over(report.area_bound), "")?;
    let path = report.critical_path_bound;
    card(out, "Critical path", Short(path), &over(path), "")?;
    card(out, "To the bound", format!("{:.2} ×", report.over_bound()), "makespan / larger bound", "best")?;
    if report.failed > 0 {
        card(out, "Failed", Grouped(report.failed as u64), "tasks", "bad")?;
    }
    let (class, note) = match report.lost {
        0 => ("", "every record fits"),
        _ => ("bad", "not counted here"),
    };
    card(out, "Lost records", Grouped(report.lost), note, class)
}

/// `note` is this module's own text.
fn card(
    out: &mut impl Write,
    name: &str,
    value: impl fmt::Display,
    note: &str,
    class: &str,
) -> io::Result<()> {
    writeln!(out, "<div class=\"card {class}\"><dt>{name}</dt><dd>{value}</dd><small>{note}</small></div>")
}

/// Draws three bars on one scale: the makespan, and the two bounds.
fn bounds(out: &mut impl Write, trace: &Trace, report: &Report) -> io::Result<()> {
    let rows = [
        ("makespan", report.makespan, "took"),
        ("area bound", report.area_bound, "limit"),
        ("critical path", report.critical_path_bound, "limit"),
    ];
    let widest = rows.iter().map(|row| row.1).max().unwrap_or_default().as_secs_f64();
    for (name, time, class) in rows {
        let width = if widest > 0.0 { 100.0 * time.as_secs_f64() / widest } else { 0.0 };
        writeln!(
            out,
            "<div class=\"bound\"><span>{name}</span><i><b class=\"{class}\" style=\"width:{width:.2}%\"></b></i>\
             <span class=\"num\">{}</span></div>",
            Short(time)
        )?;
    }
    let path = report.critical_path_bound > report.area_bound;
    let verdict = match report.efficiency() {
        _ if report.makespan.is_zero() => "Nothing ran.",
        e if e > 0.9 && path => {
            "The critical path sets the pace: only shorter bodies or fewer steps on it would make this run faster."
        }
        e if e > 0.9 => {
            "The workers are busy nearly all the time: only faster bodies or more workers would make this run faster."
        }
        _ if path => {
            "The dependencies limit this run more than the work does: look for waits on the critical path."
        }
        _ => "The work would fit into less time on these workers: look for idle stretches in the schedule.",
    };
    writeln!(out, "<p>{verdict}</p>")?;

    let names: HashMap<u64, &str> = trace.tasks.iter().map(|task| (task.id, task.name)).collect();
    let mut steps: BTreeMap<&str, usize> = BTreeMap::new();
    for name in report.critical_path.iter().filter_map(|id| names.get(id)) {
        *steps.entry(name).or_default() += 1;
    }
    if steps.is_empty() {
        return Ok(());
    }
    let mut steps: Vec<(&str, usize)> = steps.into_iter().collect();
    steps.sort_by_key(|step| Reverse(step.1));
    write!(out, "<p>On the critical path:")?;
    for (place, (name, count)) in steps.iter().take(NAMED).enumerate() {
        let comma = if place > 0 { "," } else { "" };
        write!(out, "{comma} {} {}", Grouped(*count as u64), Escaped(name))?;
    }
    if steps.len() > NAMED {
        write!(out, " and {} codelets more", steps.len() - NAMED)?;
    }
    writeln!(out, ".</p>")
}

fn notes(out: &mut impl Write, report: &Report, data: &PageData) -> io::Result<()> {
    let moved = report.links.iter().map(|link| link.transfers as u64).sum();
    let (drawn, moves) = data.drawn();
    if (drawn, moves as u64) == (report.tasks, moved) {
        write!(out, "All {} tasks", Grouped(report.tasks as u64))?;
        if moved > 0 {
            write!(out, " and {} transfers", Grouped(moved))?;
        }
        write!(out, " drawn.")?;
    } else {
        write!(out, "{} of {} tasks", Grouped(drawn as u64), Grouped(report.tasks as u64))?;
        if moved > 0 {
            write!(out, " and {} of {} transfers", Grouped(moves as u64), Grouped(moved))?;
        }
        write!(
            out,
            " drawn one by one; those below {} merged with their neighbours into {} blocks, each split by the time \
             of its parts. Numbers and histograms are over all tasks.",
            Short(Duration::from_nanos(data.bin())),
            Grouped(data.merged() as u64)
        )?;
    }
    if report.lost > 0 {
        write!(out, " <b>{} records did not fit and are missing.</b>", Grouped(report.lost))?;
    }
    if report.cyclic_edges > 0 {
        let edges = Grouped(report.cyclic_edges as u64);
        write!(out, " <b>{edges} dependencies form cycles; the critical path leaves them out.</b>")?;
    }
    Ok(())
}

/// Text inside an element or a quoted attribute.
struct Escaped<'t>(&'t str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\0' => f.write_str("\u{fffd}")?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

/// JSON inside a `script` element: `<` stands only in strings there, and `\u003c` cannot end the
/// element.
struct ScriptSafe<W>(W);

impl<W: Write> Write for ScriptSafe<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for (place, piece) in bytes.split(|&byte| byte == b'<').enumerate() {
            if place > 0 {
                self.0.write_all(b"\\u003c")?;
            }
            self.0.write_all(piece)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A count with thin spaces between groups of three digits.
struct Grouped(u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (place, digit) in digits.chars().enumerate() {
            if place > 0 && (digits.len() - place).is_multiple_of(3) {
                f.write_str("\u{202f}")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

/// A number with an SI prefix.
struct Engineering(f64);

impl fmt::Display for Engineering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = [(1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
        let (unit, prefix) = steps.into_iter().find(|step| self.0 >= step.0).unwrap_or((1.0, ""));
        let value = self.0 / unit;
        let digits = if value < 10.0 {
            2
        } else if value < 100.0 {
            1
        } else {
            0
        };
        write!(f, "{value:.digits$} {prefix}")
    }
}

#[cfg(test)]
mod tests;
