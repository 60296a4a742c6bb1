//! Files with the accuracies of row blocks, which a search for them writes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use zellige_sparse::Error;
use zellige_sparse::adaptive::{Accuracy, Adaptation, Criterion, FormatSet};
use zellige_sparse::system::{CriterionChoice, Inner};

/// Accuracies of the rows of a matrix, in one set of formats.
#[derive(Clone, Debug, PartialEq)]
pub struct RowAccuracies {
    /// Formats.
    pub set: FormatSet,
    /// Accuracy of the least accurate row.
    pub accuracy: Accuracy,
    /// Accuracy of each row, relative to `accuracy`.
    pub weights: Vec<f64>,
}

impl RowAccuracies {
    /// Reads a file such as `{"rows 0..50":"ap7:cw:2^-24","rows 50..99":"ap7:cw:2^-53"}` for a
    /// matrix with this number of rows.
    ///
    /// # Errors
    /// [`Error::File`], and [`Error::Content`] for a file with other content, blocks that do not
    /// make up the matrix, or several sets.
    pub fn read(path: &Path, rows: usize) -> Result<RowAccuracies, Error> {
        let problem = "cannot read the formats of row blocks";
        let text = std::fs::read_to_string(path).map_err(|source| Error::File {
            path: path.to_owned(),
            problem,
            source,
        })?;
        RowAccuracies::parse(&text, rows).map_err(|problem| Error::Content {
            file: path.to_owned(),
            line: None,
            problem,
        })
    }

    fn parse(text: &str, rows: usize) -> Result<RowAccuracies, String> {
        let names: BTreeMap<String, String> = serde_json::from_str(text).map_err(|error| {
            format!("{error}: formats by row block are needed, such as {{\"rows 0..50\":\"ap7:cw:2^-24\"}}")
        })?;
        let mut blocks: Vec<(Range<usize>, FormatSet, Accuracy)> = Vec::with_capacity(names.len());
        for (name, format) in &names {
            let range = range(name).ok_or_else(|| format!("`{name}` is not like `rows 0..50`"))?;
            match format.parse() {
                Ok(Inner::Adaptive {
                    set,
                    criterion: CriterionChoice::Componentwise,
                    accuracy,
                    block_size: None,
                }) => blocks.push((range, set, accuracy)),
                _ => return Err(format!("`{name}`: `{format}` is not like ap7:cw:2^-24")),
            }
        }
        blocks.sort_by_key(|(rows, ..)| rows.start);
        let ends = blocks.iter().map(|(rows, ..)| rows.end);
        let starts = blocks.iter().map(|(rows, ..)| rows.start);
        if !starts.chain([rows]).eq(std::iter::once(0).chain(ends)) {
            return Err(format!("the blocks are not those of a matrix with {rows} rows"));
        }
        let largest = |a: Accuracy, b: Accuracy| if b > a { b } else { a };
        let (Some(&(_, set, _)), Some(accuracy)) =
            (blocks.first(), blocks.iter().map(|block| block.2).reduce(largest))
        else {
            return Err("it has no blocks".into());
        };
        if let Some((_, other, _)) = blocks.iter().find(|block| block.1 != set) {
            return Err(format!("blocks in {set} and in {other}: one set is possible"));
        }
        let weights = blocks
            .into_iter()
            .flat_map(|(rows, _, of_block)| rows.map(move |_| of_block.get() / accuracy.get()));
        Ok(RowAccuracies { set, accuracy, weights: weights.collect() })
    }

    /// Returns the adaptation of a copy with these accuracies.
    pub fn adaptation(&self) -> Adaptation<'_> {
        Adaptation::new(self.set, Criterion::Rows(&self.weights), self.accuracy)
    }

    /// Returns the operator of a solver that multiplies with such a copy; the weights are its
    /// vector.
    pub fn inner(&self) -> Inner {
        let (set, accuracy) = (self.set, self.accuracy);
        Inner::Adaptive { set, criterion: CriterionChoice::Rows, accuracy, block_size: None }
    }
}

fn range(name: &str) -> Option<Range<usize>> {
    let (start, end) = name.strip_prefix("rows ")?.split_once("..")?;
    let range = start.parse().ok()?..end.parse().ok()?;
    (range.start < range.end).then_some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_make_up_the_rows() {
        let text = r#"{"rows 2..5": "ap7:cw:2^-24", "rows 0..2": "ap7:cw:2^-11"}"#;
        let rows = RowAccuracies::parse(text, 5).expect("blocks");
        assert_eq!((rows.set, rows.accuracy.get()), (FormatSet::Ap7, 2f64.powi(-11)));
        let small = 2f64.powi(-13);
        assert_eq!(rows.weights, [1.0, 1.0, small, small, small]);
        assert_eq!(rows.inner().to_string(), "ap7:rows:2^-11");
        for (text, rows, problem) in [
            (text, 6, "a matrix with 6 rows"),
            (text, 4, "a matrix with 4 rows"),
            (r#"{"rows 0..2": "ap7:cw:2^-24", "rows 3..5": "ap7:cw:2^-24"}"#, 5, "a matrix with 5 rows"),
            (r#"{"rows 0..2": "ap7:cw:2^-24", "rows 2..4": "ap4:cw:2^-24"}"#, 4, "one set"),
            (r#"{"rows 0..2": "ap7:nw:2^-24"}"#, 2, "is not like ap7:cw:2^-24"),
            (r#"{"rows 0..2": "fp64"}"#, 2, "is not like ap7:cw:2^-24"),
            (r#"{"row 2": "ap7:cw:2^-24"}"#, 2, "is not like `rows 0..50`"),
            (r#"{"rows 2..2": "ap7:cw:2^-24"}"#, 2, "is not like `rows 0..50`"),
            ("{}", 0, "no blocks"),
            ("[]", 0, "formats by row block are needed"),
        ] {
            let found = RowAccuracies::parse(text, rows).expect_err(text);
            assert!(found.contains(problem), "{text}: {found}");
        }
    }
}
