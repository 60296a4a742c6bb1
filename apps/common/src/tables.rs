//! Results of any verb as HTML tables.

use std::fmt::Write;

use serde_json::{Map, Value};

use crate::svg::escape;

/// Maximum number of rows of a table on a page; the JSON has all.
const MOST_ROWS: usize = 200;
/// Maximum number of list entries on a page.
const MOST_NUMBERS: usize = 8;

/// Appends the results: scalars as a table of names and values, lists of objects as one table each,
/// with the name of the key as its title.
pub fn write(out: &mut String, results: &Value) {
    match results {
        Value::Array(all) if all.len() == 1 => write(out, &all[0]),
        Value::Array(all) => section(out, "Results", &list(all)),
        Value::Object(object) => sections(out, "Results", object),
        scalar => section(out, "Results", &cell(scalar)),
    }
}

fn section(out: &mut String, title: &str, markup: &str) {
    let _ = writeln!(out, "<section><h2>{}</h2>{markup}</section>", escape(title));
}

/// Appends a section for the scalars of an object, and one for each list of objects in it.
fn sections(out: &mut String, title: &str, object: &Map<String, Value>) {
    let (nested, plain): (Vec<_>, Vec<_>) = object.iter().partition(|(_, value)| is_nested(value));
    if !plain.is_empty() {
        let row = |(name, value): &(&String, &Value)| {
            format!("<tr><td>{}</td><td>{}</td></tr>", escape(&words(name)), cell(value))
        };
        let rows: String = plain.iter().map(row).collect();
        section(out, title, &format!("<div class=\"wide\"><table>{rows}</table></div>"));
    }
    for (name, value) in nested {
        match value {
            Value::Object(inner) => sections(out, &words(name), inner),
            Value::Array(all) => section(out, &words(name), &list(all)),
            _ => {}
        }
    }
}

/// Returns whether a value has a separate section: objects and lists of objects do.
fn is_nested(value: &Value) -> bool {
    match value {
        Value::Object(object) => !object.is_empty(),
        Value::Array(all) => all.iter().any(Value::is_object),
        _ => false,
    }
}

/// Returns a table with a row for each object, and the columns of all objects.
fn list(all: &[Value]) -> String {
    let mut columns: Vec<&String> = Vec::new();
    for name in all.iter().filter_map(Value::as_object).flat_map(Map::keys) {
        if !columns.contains(&name) {
            columns.push(name);
        }
    }
    let head: String = columns.iter().map(|name| format!("<th>{}</th>", escape(&words(name)))).collect();
    let row = |value: &Value| {
        let cells: String = columns
            .iter()
            .map(|name| format!("<td>{}</td>", value.get(name).map_or(String::new(), cell)))
            .collect();
        format!("<tr>{cells}</tr>")
    };
    let rows: String = all.iter().take(MOST_ROWS).map(row).collect();
    let rest = match all.len().saturating_sub(MOST_ROWS) {
        0 => String::new(),
        more => format!("<p class=\"soft\">and {more} more</p>"),
    };
    format!("<div class=\"wide\"><table><tr>{head}</tr>{rows}</table></div>{rest}")
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => escape(text),
        Value::Number(number) => {
            number.as_f64().map_or_else(|| number.to_string(), |x| digits(x, number.is_f64()))
        }
        Value::Bool(is) => if *is { "yes" } else { "no" }.into(),
        Value::Array(all) if all.len() > MOST_NUMBERS => format!("{} values", all.len()),
        Value::Array(all) => all.iter().map(cell).collect::<Vec<_>>().join(", "),
        Value::Object(object) => {
            let pairs =
                object.iter().map(|(name, value)| format!("{} {}", escape(&words(name)), cell(value)));
            pairs.collect::<Vec<_>>().join(", ")
        }
    }
}

/// Formats six significant digits of a fraction, or all digits of a whole number.
fn digits(x: f64, is_fraction: bool) -> String {
    match is_fraction {
        false => format!("{x:.0}"),
        true if x == 0.0 || (1e-3..1e6).contains(&x.abs()) => {
            let text = format!("{:.*}", (5 - x.abs().max(1.0).log10().floor() as i32).max(0) as usize, x);
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        }
        true => format!("{x:.5e}"),
    }
}

/// Converts a key to words.
fn words(key: &str) -> String {
    key.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn results_become_tables() {
        let mut out = String::new();
        let rows = json!([{"true_residual": 1.25e-11, "rows": 512, "name": "<a>",
            "attempts": [{"method": "cg", "iterations": 3}, {"method": "gmres", "reason": null}],
            "history": (0..9).collect::<Vec<u32>>(), "seconds": {"setup": 0.5}}]);
        write(&mut out, &rows);
        for part in [
            "<td>true residual</td><td>1.25000e-11</td>",
            "<td>rows</td><td>512</td>",
            "<td>&lt;a&gt;</td>",
            "<th>method</th><th>iterations</th><th>reason</th>",
            "<tr><td>gmres</td><td></td><td></td></tr>",
            "<td>9 values</td>",
            "<h2>seconds</h2>",
            "<td>0.5</td>",
        ] {
            assert!(out.contains(part), "{part} in {out}");
        }
    }

    #[test]
    fn long_lists_are_cut() {
        let rows: Vec<Value> = (0..MOST_ROWS + 3).map(|k| json!({"k": k})).collect();
        let text = list(&rows);
        assert!(text.contains("and 3 more") && !text.contains("<td>201</td>"), "{text}");
    }

    #[test]
    fn numbers_have_six_digits() {
        for (x, text) in
            [(0.0, "0"), (1.0, "1"), (123456.7, "123457"), (0.0012345678, "0.00123"), (2.5e7, "2.50000e7")]
        {
            assert_eq!(digits(x, true), text);
        }
        assert_eq!(digits(3e9, false), "3000000000");
    }
}
