//! Numbers of the papers: the file `published.csv`.

/// Lines of paper, item, row, column, value, place and note. Notes may contain commas.
const FILE: &str = include_str!("published.csv");

/// A number of a paper.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// Name of the paper.
    pub paper: &'static str,
    /// Figure or table.
    pub item: &'static str,
    /// Row.
    pub row: &'static str,
    /// Column.
    pub column: &'static str,
    /// Number.
    pub value: f64,
    /// Section, figure or table where it stands.
    pub place: &'static str,
    /// Remark, such as a contradiction within the paper; often empty.
    pub note: &'static str,
}

/// Returns all numbers, in the order of the file.
pub fn all() -> Vec<Published> {
    FILE.lines().skip(1).map(parse).collect()
}

fn parse(line: &'static str) -> Published {
    let cells: Vec<&str> = line.splitn(7, ',').collect();
    let [paper, item, row, column, value, place, note] = cells[..] else {
        unreachable!("a line of published.csv has seven cells: {line}")
    };
    let value = value.parse().unwrap_or(f64::NAN);
    Published { paper, item, row, column, value, place, note }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::items;
    use super::*;

    #[test]
    fn every_number_belongs_to_an_item() {
        let mut seen = BTreeSet::new();
        for one in all() {
            assert!(one.value.is_finite() && !one.place.is_empty(), "{one:?}");
            let is_known =
                items::ALL.iter().any(|item| item.paper.name() == one.paper && item.name == one.item);
            assert!(is_known, "{one:?}");
            assert!(seen.insert((one.paper, one.item, one.row, one.column)), "twice: {one:?}");
        }
        assert!(seen.len() > 150);
    }
}
