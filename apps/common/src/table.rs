//! Text tables with aligned columns.

use std::fmt::Write;

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Left-aligned, for words.
    Left,
    /// Right-aligned, for numbers.
    Right,
}

/// A table with a heading.
#[derive(Debug)]
pub struct Table {
    columns: Vec<(String, Side)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns an empty table with these columns.
    pub fn new(columns: &[(&str, Side)]) -> Table {
        Table { columns: columns.iter().map(|(name, side)| ((*name).into(), *side)).collect(), rows: vec![] }
    }

    /// Adds a row. Cells beyond the last column are dropped, missing ones are empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut row: Vec<String> = cells.into_iter().take(self.columns.len()).collect();
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
    }

    /// Returns the text, one line per row, without trailing blanks. The heading is bold with
    /// `colour`.
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
}
