//! Text, CSV and pages of items.

use std::fmt::Write;
use std::io::Write as _;
use std::path::Path;

use zellige_app::page::{Page, figure};
use zellige_app::svg::{Chart, Scale, escape, positive, range};
use zellige_app::table::{Side, Table};
use zellige_app::text::digits;

use super::found::{Series, Verdict};
use super::items::Paper;
use super::result::{ItemResult, Value};
use crate::provenance;

/// Returns all items as text.
pub fn text(results: &[ItemResult], colour: bool) -> String {
    results.iter().map(|result| of_item(result, colour)).collect::<Vec<_>>().join("\n")
}

fn of_item(result: &ItemResult, colour: bool) -> String {
    let mut text = format!("{} {}: {}\n", result.paper, result.item, result.title);
    let _ = writeln!(text, "published: {}", result.setting);
    text += &table(&result.values).render(colour);
    for statement in &result.statements {
        let _ = writeln!(text, "{:<12} {} ({})", statement.verdict.name(), statement.text, statement.reason);
    }
    text
}

fn table(values: &[Value]) -> Table {
    let mut table = Table::new(&[
        ("row", Side::Left),
        ("column", Side::Left),
        ("published", Side::Right),
        ("here", Side::Right),
        ("", Side::Left),
    ]);
    for value in values {
        let [published, found] = [value.published, value.found].map(cell);
        table.row([value.row.clone(), value.column.clone(), published, found, value.note.clone()]);
    }
    table
}

/// Formats a number with seven digits at most.
fn cell(number: Option<f64>) -> String {
    match number {
        None => "-".into(),
        Some(x) if x == x.trunc() && x.abs() < 1e9 => format!("{x:.0}"),
        Some(x) if (1e-3..1e6).contains(&x.abs()) => {
            let text = format!("{x:.*}", (6 - x.abs().max(1.0).log10().floor() as i32).max(0) as usize);
            text.trim_end_matches('0').to_owned()
        }
        Some(x) => {
            let text = format!("{x:.6e}");
            let (number, power) = text.split_once('e').unwrap_or((&text, "0"));
            format!("{}e{power}", number.trim_end_matches('0').trim_end_matches('.'))
        }
    }
}

/// Returns the numbers of all items as CSV.
pub fn csv(results: &[ItemResult]) -> String {
    let mut text = String::from("paper,item,row,column,published,here\n");
    let number = |x: Option<f64>| x.map_or(String::new(), |x| format!("{x:e}"));
    let quoted = |word: &str| format!("\"{}\"", word.replace('"', "\"\""));
    for result in results {
        for value in &result.values {
            let words = [&result.paper, &result.item, &value.row, &value.column].map(|word| quoted(word));
            let _ = writeln!(text, "{},{},{}", words.join(","), number(value.published), number(value.found));
        }
        for series in &result.series {
            for (x, y) in series.x.iter().zip(&series.y) {
                let words = [&result.paper, &result.item, &series.name].map(|word| quoted(word));
                let _ = writeln!(text, "{},\"{x:e}\",,{y:e}", words.join(","));
            }
        }
    }
    text
}

/// Returns one page with all items.
pub fn page(paper: Paper, results: &[ItemResult]) -> Page {
    let mut page = Page::new(&format!("{}, computed anew", paper.title()));
    page.heading(paper.title());
    page.facts(&facts(results));
    results.iter().for_each(|result| sections(&mut page, result));
    page
}

fn facts(results: &[ItemResult]) -> [(&'static str, String); 4] {
    let count = |verdict| results.iter().map(|result| result.count(verdict)).sum::<usize>().to_string();
    [
        ("figures and tables", results.len().to_string()),
        ("statements that agree", count(Verdict::Agrees)),
        ("contradicted", count(Verdict::Contradicts)),
        ("open", count(Verdict::Open)),
    ]
}

/// Adds the sections of an item: numbers, curves, statements and commands.
fn sections(page: &mut Page, result: &ItemResult) {
    let mut markup = curves(&result.series, &result.axes);
    if !result.values.is_empty() {
        markup += &values(&result.values);
    }
    markup += "<ul>";
    for statement in &result.statements {
        let (text, reason) = (escape(&statement.text), escape(&statement.reason));
        let _ = write!(
            markup,
            "<li><b>{}</b>: {text} <span class=\"soft\">{reason}</span></li>",
            statement.verdict.name()
        );
    }
    markup += "</ul>";
    if !result.commands.is_empty() {
        let lines: Vec<String> = result.commands.iter().map(|line| escape(line)).collect();
        let _ = write!(markup, "<pre>{}</pre>", lines.join("\n"));
    }
    let title = format!("{}: {}", result.item, result.title);
    page.section(&title, &format!("Published: {}", result.setting), &markup);
}

/// Returns a figure of curves, or two if some have a logarithmic axis.
pub fn curves(series: &[Series], axes: &[String; 2]) -> String {
    let mut markup = String::new();
    for log in [false, true] {
        let series: Vec<&Series> = series.iter().filter(|one| is_log(one) == log).collect();
        if !series.is_empty() {
            markup += &legend(&series);
            markup += &figure(&chart(&series, axes, log), "computed here");
        }
    }
    markup
}

fn values(values: &[Value]) -> String {
    let mut out = String::from(
        "<div class=\"wide\"><table><tr><th>row</th><th>column</th><th>published</th><th>here</th><th></th></tr>",
    );
    for value in values {
        let cells = [&value.row, &value.column, &cell(value.published), &cell(value.found), &value.note];
        let cells: String = cells.iter().map(|text| format!("<td>{}</td>", escape(text))).collect();
        let _ = write!(out, "<tr>{cells}</tr>");
    }
    out + "</table></div>"
}

/// Returns true for a curve of positive numbers over more than three decades.
fn is_log(series: &Series) -> bool {
    let (least, most) = range(series.y.iter().copied());
    series.y.iter().copied().all(positive) && most > 1e3 * least
}

fn legend(series: &[&Series]) -> String {
    let mut out = String::from("<div class=\"legend\">");
    for (k, one) in series.iter().enumerate() {
        let _ = write!(out, "<span><i class=\"b-c{}\"></i>{}</span>", k % 8, escape(&one.name));
    }
    out + "</div>"
}

fn chart(series: &[&Series], axes: &[String; 2], log: bool) -> String {
    let mut chart = Chart::new(620.0, 320.0, [24.0, 14.0, 42.0, 60.0], &axes[1]);
    let (left, right) = range(series.iter().flat_map(|one| one.x.iter().copied()));
    let (low, high) = range(series.iter().flat_map(|one| one.y.iter().copied()));
    let x = Scale::linear(left, if right > left { right } else { left + 1.0 }, chart.left, chart.right);
    let y = match log {
        true => Scale::log(low, high, chart.bottom, chart.top),
        false => Scale::linear(low.min(0.0), high.max(f64::MIN_POSITIVE), chart.bottom, chart.top),
    };
    chart.x_axis(&x, &axes[0], false);
    chart.y_axis(&y, &axes[1]);
    for (k, one) in series.iter().enumerate() {
        let points: Vec<(f64, f64)> = one.x.iter().zip(&one.y).map(|(&a, &b)| (x.at(a), y.at(b))).collect();
        chart.line(&points, &format!("c{}", k % 8));
    }
    chart.finish()
}

/// Writes a page and a CSV file for each item, and the index of the paper.
///
/// # Errors
/// A file that cannot be written.
pub fn write_folder(folder: &Path, paper: Paper, results: &[ItemResult]) -> anyhow::Result<()> {
    zellige_files::make_folder(folder)?;
    let write = |name: String, text: String| {
        zellige_files::write_whole(&folder.join(name), |file| file.write_all(text.as_bytes()))
    };
    for result in results {
        let mut page = Page::new(&format!("{} {}", result.paper, result.item));
        page.heading(&format!("{}: {}", paper.title(), result.item));
        sections(&mut page, result);
        page.provenance(provenance::run());
        let name = format!("{}-{}", result.paper, result.item);
        write(format!("{name}.html"), page.finish())?;
        write(format!("{name}.csv"), csv(std::slice::from_ref(result)))?;
    }
    write(format!("{}.html", paper.name()), index(paper, results))?;
    Ok(())
}

fn index(paper: Paper, results: &[ItemResult]) -> String {
    let mut page = Page::new(paper.title());
    page.heading(paper.title());
    page.facts(&facts(results));
    let mut rows = String::from(
        "<div class=\"wide\"><table><tr><th>item</th><th>what</th><th>agrees</th><th>contradicts</th><th>open</th><th>data</th></tr>",
    );
    for result in results {
        let name = format!("{}-{}", result.paper, result.item);
        let counts = [Verdict::Agrees, Verdict::Contradicts, Verdict::Open];
        let counts: String =
            counts.map(|verdict| format!("<td>{}</td>", digits(result.count(verdict) as f64))).concat();
        let _ = write!(
            rows,
            "<tr><td><a href=\"{name}.html\">{}</a></td><td>{}</td>{counts}<td><a href=\"{name}.csv\">CSV</a></td></tr>",
            result.item,
            escape(&result.title)
        );
    }
    page.section(
        "Figures and tables",
        "Each statement of the paper that the numbers are for is judged.",
        &(rows + "</table></div>"),
    );
    page.provenance(provenance::run());
    page.finish()
}
