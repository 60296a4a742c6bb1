//! Aligned columns of text.

use std::fmt::Write;

/// On which side a column is flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table with a heading.
#[derive(Debug)]
pub struct Table {
    columns: Vec<(String, Side)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub fn new(columns: &[(&str, Side)]) -> Table {
        Table { columns: columns.iter().map(|(name, side)| ((*name).into(), *side)).collect(), rows: vec![] }
    }

    /// Adds a row; cells beyond the last column are left out, missing ones are empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut row: Vec<String> = cells.into_iter().take(self.columns.len()).collect();
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
    }

    /// The text, a line per row, without blanks at line ends. A bold heading only with `colour`.
    pub fn render(&self, colour: bool) -> String {
        let width = |c: usize| {
            let cells = self.rows.iter().map(|row| row[c].chars().count());
            cells.chain([self.columns[c].0.chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let line = |cells: &mut dyn Iterator<Item = &String>| {
            let mut line = String::new();
            for ((cell, &width), (_, side)) in cells.zip(&widths).zip(&self.columns) {
                let gap = " ".repeat(width - cell.chars().count());
                let separator = if line.is_empty() { "" } else { "  " };
                // Writing to a string cannot fail.
                let _ = match side {
                    Side::Left => write!(line, "{separator}{cell}{gap}"),
                    Side::Right => write!(line, "{separator}{gap}{cell}"),
                };
            }
            line.trim_end().to_string()
        };
        let heading = line(&mut self.columns.iter().map(|(name, _)| name));
        let mut text = if colour { format!("\u{1b}[1m{heading}\u{1b}[0m\n") } else { format!("{heading}\n") };
        for row in &self.rows {
            text.push_str(&line(&mut row.iter()));
            text.push('\n');
        }
        text
    }
}

/// Three significant digits, or as many as the integer part has; `-` for what is not a number.
pub fn digits(x: f64) -> String {
    match x.abs() {
        a if !a.is_finite() => "-".into(),
        a if a >= 100.0 => format!("{x:.0}"),
        a if a >= 10.0 => format!("{x:.1}"),
        a if a >= 0.1 || a == 0.0 => format!("{x:.2}"),
        a if a >= 0.001 => format!("{x:.4}"),
        _ => format!("{x:.2e}"),
    }
}

/// Bytes in the unit that suits them.
pub fn bytes(count: u64) -> String {
    let (mut value, mut unit) = (count as f64, "B");
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    if unit == "B" { format!("{count} B") } else { format!("{} {unit}", digits(value)) }
}

/// Each name once, in the order in which they come.
pub fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut all = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&[("rule", Side::Left), ("seconds", Side::Right), ("note", Side::Left)]);
        table.row(["fp32".into(), "1.00".into()]);
        table.row(["hp1:band=2".into(), "0.50".into(), "good".into(), "left out".into()]);
        assert_eq!(
            table.render(false),
            "rule        seconds  note\nfp32           1.00\nhp1:band=2     0.50  good\n"
        );
        assert!(table.render(true).starts_with("\u{1b}[1mrule"));
    }

    #[test]
    fn numbers_are_short() {
        for (x, text) in [
            (0.0, "0.00"),
            (123.4, "123"),
            (12.34, "12.3"),
            (1.234, "1.23"),
            (0.0123, "0.0123"),
            (1e-8, "1.00e-8"),
        ] {
            assert_eq!(digits(x), text);
        }
        assert_eq!(digits(f64::NAN), "-");
        assert_eq!(bytes(100), "100 B");
        assert_eq!(bytes(1536), "1.50 KiB");
        assert_eq!(bytes(3 << 30), "3.00 GiB");
    }
}
