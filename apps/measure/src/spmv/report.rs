//! Report of the cost of storing a matrix in several formats: the figures of the thesis' chapters 3
//! and 4.

use std::fmt::Write;

use zellige_app::page::{Page, figure};
use zellige_app::svg::{Chart, Scale, escape, positive, range, short};
use zellige_app::text::distinct;

use super::StorageRow;

/// The page of a matrix of this name.
pub fn of_storage(matrix: &str, rows: &[StorageRow]) -> Page {
    let mut page = Page::new(&format!("{matrix}: products in adaptive precision"));
    page.section(
        matrix,
        "A sparse matrix whose nonzeros are stored as accurately as their magnitude requires.",
        "",
    );
    let words = "Bytes of the matrix in percent of rows in fp64 (thesis, figures 3.3, 4.5 and 4.6).";
    page.section("Storage", words, &panels(rows, "% of fp64", |row| row.percent));
    let words = "Time of a product in percent of one in fp64 in the same layout, in the same run (thesis, figures 3.4 and 4.5).";
    page.section("Time", words, &panels(rows, "% of fp64", |row| 100.0 * row.seconds.0 / row.seconds.1));
    let words = "Errors of a product, in every row relative to what its magnitudes add up to for cw and cw-exact, as a whole for nw: dots; and the bound that \
                 none of them exceeds: lines.";
    page.section("Errors", words, &of_accuracies(rows, errors));
    let words =
        "Which part of the nonzeros is stored in how many bits, and which is left out (thesis, figure 4.7).";
    page.section(
        "Formats",
        words,
        &[legend(), figure(&formats(rows), "one line for each set, accuracy and criterion")].concat(),
    );
    page
}

/// A picture for each accuracy.
fn panels(rows: &[StorageRow], title: &str, value: impl Fn(&StorageRow) -> f64) -> String {
    let most = rows.iter().map(&value).filter(|value| value.is_finite()).fold(100.0, f64::max);
    of_accuracies(rows, |rows, criteria| bars(rows, criteria, most, title, &value))
}

/// Draws the rows of each accuracy, with a legend of the colours of their criteria.
fn of_accuracies(rows: &[StorageRow], draw: impl Fn(&[&StorageRow], &[String]) -> String) -> String {
    let accuracies = distinct(rows.iter().map(|row| row.accuracy.to_string()));
    let criteria = distinct(rows.iter().map(|row| row.criterion.to_owned()));
    let mut out = String::from("<div class=\"legend\">");
    for (k, criterion) in criteria.iter().enumerate() {
        let _ = write!(out, "<span><i class=\"b-c{k}\"></i>{}</span>", escape(criterion));
    }
    out.push_str("</div><div class=\"row\">");
    for accuracy in &accuracies {
        let rows: Vec<&StorageRow> =
            rows.iter().filter(|row| row.accuracy.to_string() == *accuracy).collect();
        // 2^-24 as it is written by hand.
        let accuracy = match accuracy.split_once('^') {
            Some((base, power)) => format!("{}<sup>{}</sup>", escape(base), escape(power)),
            None => escape(accuracy),
        };
        out += &figure(&draw(&rows, &criteria), &format!("accuracy {accuracy}"));
    }
    out + "</div>"
}

/// Draws adjacent bars for the criteria, in a group for each set.
fn bars(
    rows: &[&StorageRow],
    criteria: &[String],
    most: f64,
    title: &str,
    value: impl Fn(&StorageRow) -> f64,
) -> String {
    let sets = distinct(rows.iter().map(|row| row.set.to_string()));
    let mut chart = Chart::new(520.0, 260.0, [26.0, 10.0, 30.0, 44.0], title);
    let y = Scale::linear(0.0, most, chart.bottom, chart.top);
    chart.y_axis(&y, title);
    let (whole, left, right) = (y.at(100.0), chart.left, chart.right);
    chart.put(format_args!(
        r#"<path d="M{left:.1} {whole:.1}H{right:.1}" class="edge"><title>100 %: fp64</title></path>"#
    ));
    let group = (chart.right - chart.left) / sets.len().max(1) as f64;
    let width = (0.8 * group / criteria.len().max(1) as f64).min(40.0);
    for (at, set) in sets.iter().enumerate() {
        let middle = chart.left + (at as f64 + 0.5) * group;
        chart.text(middle, chart.bottom + 16.0, "middle", "tick", set);
        for row in rows.iter().filter(|row| row.set.to_string() == *set) {
            let k = criteria.iter().position(|criterion| criterion == row.criterion).unwrap_or(0);
            let x = middle + (k as f64 - criteria.len() as f64 / 2.0) * width;
            let (top, bottom, name) = (y.at(value(row)), chart.bottom, escape(row.criterion));
            chart.put(format_args!(
                r#"<rect x="{x:.1}" y="{top:.1}" width="{:.1}" height="{:.1}" class="f-c{k}"><title>{set}, {name}: {} %</title></rect>"#,
                width - 2.0,
                bottom - top,
                short(value(row))
            ));
        }
    }
    chart.finish()
}

/// The error and the bound of each set and criterion.
fn errors(rows: &[&StorageRow], criteria: &[String]) -> String {
    let measured = |row: &StorageRow| {
        if row.criterion == "nw" {
            [row.error.normwise, row.bounds.normwise]
        } else {
            [row.error.componentwise, row.bounds.componentwise]
        }
    };
    let sets = distinct(rows.iter().map(|row| row.set.to_string()));
    let mut chart = Chart::new(520.0, 260.0, [26.0, 10.0, 30.0, 56.0], "errors and their bounds");
    let (least, most) = range(rows.iter().flat_map(|row| measured(row)).filter(|&error| positive(error)));
    let y = Scale::log(least, most, chart.bottom, chart.top);
    chart.y_axis(&y, "relative error");
    let group = (chart.right - chart.left) / sets.len().max(1) as f64;
    let width = (0.8 * group / criteria.len().max(1) as f64).min(40.0);
    for (at, set) in sets.iter().enumerate() {
        let middle = chart.left + (at as f64 + 0.5) * group;
        chart.text(middle, chart.bottom + 16.0, "middle", "tick", set);
        for row in rows.iter().filter(|row| row.set.to_string() == *set) {
            let k = criteria.iter().position(|criterion| criterion == row.criterion).unwrap_or(0);
            let x = middle + (k as f64 + 0.5 - criteria.len() as f64 / 2.0) * width;
            let ([error, bound], name) = (measured(row), escape(row.criterion));
            if positive(bound) {
                let (top, half) = (y.at(bound), 0.35 * width);
                chart.put(format_args!(
                    r#"<path d="M{:.1} {top:.1}H{:.1}" class="line c{k}"><title>{set}, {name}: at most {}</title></path>"#,
                    x - half,
                    x + half,
                    short(bound)
                ));
            }
            // An error of 0 has no place on the axis.
            if positive(error) {
                chart.put(format_args!(
                    r#"<circle cx="{x:.1}" cy="{:.1}" r="4" class="dot f-c{k}"><title>{set}, {name}: {}</title></circle>"#,
                    y.at(error),
                    short(error)
                ));
            }
        }
    }
    chart.finish()
}

/// Bits, and the class of their colour.
const COLOURS: [(&str, &str); 9] = [
    ("64", "fp64"),
    ("56", "bf1"),
    ("48", "x3"),
    ("40", "tf32"),
    ("32", "fp32"),
    ("24", "hp1"),
    ("16", "hp2"),
    ("8", "hp3"),
    ("drop", "none"),
];

fn legend() -> String {
    let mut out = String::from("<div class=\"legend\">");
    for (bits, class) in COLOURS {
        let name = if bits == "drop" { "left out".to_owned() } else { format!("{bits} bits") };
        let _ = write!(out, "<span><i class=\"b-{class}\"></i>{name}</span>");
    }
    out + "</div>"
}

/// The place of a format's bits in [`COLOURS`].
fn colour(format: &str) -> usize {
    let bits = format.trim_start_matches(|c: char| !c.is_ascii_digit());
    let bits = if bits.is_empty() { "drop" } else { bits };
    COLOURS.iter().position(|(name, _)| *name == bits).unwrap_or(COLOURS.len() - 1)
}

/// A line for each row, whose parts are the nonzeros of each format.
fn formats(rows: &[StorageRow]) -> String {
    const LINE: f64 = 20.0;
    let height = 50.0 + LINE * rows.len() as f64;
    let mut chart = Chart::new(900.0, height, [10.0, 14.0, 40.0, 200.0], "nonzeros by format");
    let x = Scale::linear(0.0, 100.0, chart.left, chart.right);
    for (at, row) in rows.iter().enumerate() {
        let y = chart.top + LINE * at as f64;
        let name = format!("{} {} {}", row.set, row.accuracy, row.criterion);
        chart.text(chart.left - 8.0, y + 13.0, "end", "name", &name);
        let mut counts: Vec<_> = row.counts.iter().filter(|(_, count)| **count > 0).collect();
        counts.sort_by_key(|(format, _)| colour(format));
        let (all, mut before) = (counts.iter().map(|(_, count)| **count).sum::<u64>().max(1) as f64, 0);
        for (format, &count) in counts {
            let (from, to) = (x.at(100.0 * before as f64 / all), x.at(100.0 * (before + count) as f64 / all));
            chart.put(format_args!(
                r#"<rect x="{from:.2}" y="{y:.1}" width="{:.2}" height="{:.1}" class="p-{}"><title>{}: {count} nonzeros</title></rect>"#,
                to - from,
                LINE - 4.0,
                COLOURS[colour(format)].1,
                escape(format)
            ));
            before += count;
        }
    }
    chart.x_axis(&x, "% of the nonzeros", false);
    chart.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_has_the_colour_of_its_bits() {
        for format in zellige_kernels::packed::PackedFormat::ALL {
            assert_eq!(COLOURS[colour(format.name())].0, (8 * format.bytes()).to_string(), "{format}");
        }
        assert_eq!(COLOURS[colour("drop")].0, "drop");
    }
}
