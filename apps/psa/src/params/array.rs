//! Arrays of crystals in AGATA's text formats.

use std::collections::BTreeMap;
use std::path::Path;

use crate::Error;
use crate::array::{Array, MOST, Placement, dot};
use crate::body::Vec3;

/// Size limit of files of arrays (bytes).
const MOST_BYTES: u64 = 1 << 24;

/// Tolerance for the orthonormality of a table's rotation: the files have five digits.
const ROUNDED: f64 = 1e-3;

/// Reads AGATA's text files, which hold Euler angles and shifts or look-up tables:
///
/// - `aeuler` has a line for each cluster: number, kind, psi, theta, phi in degrees, dx, dy, dz
///   in mm.
/// - `aclust` has a line for each crystal of a cluster: kind of the cluster, number, shape, and
///   the same six numbers.
/// - A look-up table has four lines for each crystal: number, kind and shift (mm), then the
///   rows of the rotation with their numbers from 1.
///
/// Lines that begin with `#` are comments.
///
/// # Errors
/// [`Error::File`] if the file cannot be read. [`Error::Text`] with the line if the text has
/// none of these formats, names a crystal twice, or has a matrix that is no rotation.
pub fn read_array(path: &Path) -> Result<Array, Error> {
    let cannot = |source| Error::system(path, "cannot read the array", source);
    // Comments may be in any encoding: the relevant text is ASCII.
    let bytes = zellige_files::read_bytes(path, MOST_BYTES).map_err(cannot)?;
    parse_array(path, &String::from_utf8_lossy(&bytes))
}

/// Parses the text of a file of an array; errors call it `name`.
///
/// # Errors
/// Those of [`read_array`].
pub fn parse_array(name: &Path, text: &str) -> Result<Array, Error> {
    let wrong = |(line, problem): Wrong| Error::Text { path: name.to_owned(), line, problem };
    let lines = lines(text).map_err(wrong)?;
    let table = lines.first().is_some_and(|line| line.numbers.len() == 5);
    let places = if table { look_up(&lines) } else { euler(&lines) }.map_err(wrong)?;
    if places.is_empty() {
        return Err(wrong((None, "no line gives the position of a crystal".into())));
    }
    Ok(Array { places })
}

/// Line of an error, if known, and its description.
type Wrong = (Option<usize>, String);

/// A line that is not a comment.
struct Line {
    /// Line number, counted from 1.
    at: usize,
    numbers: Vec<f64>,
}

impl Line {
    fn wrong(&self, problem: impl Into<String>) -> Wrong {
        (Some(self.at), problem.into())
    }

    /// Returns the integer in a column.
    fn number(&self, column: usize) -> Result<usize, Wrong> {
        let number = self.numbers[column];
        match number >= 0.0 && number <= MOST as f64 && number.fract() == 0.0 {
            true => Ok(number as usize),
            false => Err(self.wrong(format!("{number}: a whole number from 0 to {MOST} is needed"))),
        }
    }

    /// Returns three numbers from a column on.
    fn three(&self, from: usize) -> Vec3 {
        std::array::from_fn(|k| self.numbers[from + k])
    }
}

fn lines(text: &str) -> Result<Vec<Line>, Wrong> {
    let mut all = Vec::new();
    for (k, text) in text.lines().enumerate() {
        let text = text.split('#').next().unwrap_or_default();
        let number = |word: &str| match word.parse::<f64>() {
            // Larger shifts and angles are implausible.
            Ok(number) if number.abs() <= 1e9 => Ok(number),
            _ => Err((Some(k + 1), format!("{word:?}: a number is needed"))),
        };
        let numbers = text.split_whitespace().map(number).collect::<Result<Vec<f64>, Wrong>>()?;
        if !numbers.is_empty() {
            all.push(Line { at: k + 1, numbers });
        }
    }
    Ok(all)
}

fn insert(
    places: &mut BTreeMap<usize, Placement>,
    line: &Line,
    number: usize,
    placement: Placement,
) -> Result<(), Wrong> {
    match places.insert(number, placement) {
        None => Ok(()),
        Some(_) => {
            Err(line.wrong(format!("crystal {number} has a position already: each needs its own number")))
        }
    }
}

/// Parses a line for each placement: 8 numbers for a cluster, 9 for a crystal in one.
fn euler(lines: &[Line]) -> Result<BTreeMap<usize, Placement>, Wrong> {
    let mut places = BTreeMap::new();
    let columns = lines.first().map_or(0, |line| line.numbers.len());
    for line in lines {
        let count = line.numbers.len();
        if !(count == 8 || count == 9) || count != columns {
            let problem = format!(
                "{count} numbers: each line has 8 (number, kind, psi, theta, phi, dx, dy, dz), or each has 9 (kind, number, shape and \
                 those six), or the first has 5 (a look-up table: number, kind, dx, dy, dz, then three rows of a rotation)"
            );
            return Err(line.wrong(problem));
        }
        let number = line.number(count - 8)?;
        let placement = Placement::euler(line.three(count - 6), line.three(count - 3));
        insert(&mut places, line, number, placement)?;
    }
    Ok(places)
}

/// Parses a look-up table, four lines for each crystal.
fn look_up(lines: &[Line]) -> Result<BTreeMap<usize, Placement>, Wrong> {
    let mut places = BTreeMap::new();
    for block in lines.chunks(4) {
        let [head, rows @ ..] = block else { break };
        if head.numbers.len() != 5 {
            return Err(head.wrong("a look-up table needs number, kind, dx, dy, dz here"));
        }
        if rows.len() < 3 {
            return Err(head.wrong("the table ends before the three rows of this crystal's rotation"));
        }
        for (k, row) in rows.iter().enumerate() {
            if row.numbers.len() != 4 || row.numbers[0] != (k + 1) as f64 {
                return Err(row.wrong(format!("row {} of a rotation is needed: its number and three", k + 1)));
            }
        }
        let rotation = [0, 1, 2].map(|k: usize| rows[k].three(1));
        check(&rotation).map_err(|problem| head.wrong(problem))?;
        let placement = Placement { rotation, shift: head.three(2) };
        insert(&mut places, head, head.number(0)?, placement)?;
    }
    Ok(places)
}

/// Checks that the rows have length 1, are at right angles, and do not mirror.
fn check(rows: &[Vec3; 3]) -> Result<(), String> {
    let off = |a: usize, b: usize| (dot(rows[a], rows[b]) - f64::from(a == b)).abs();
    let worst = (0..3).flat_map(|a| (a..3).map(move |b| (a, b))).map(|(a, b)| off(a, b)).fold(0.0, f64::max);
    let [a, b, c] = rows;
    let cross = [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
    match worst <= ROUNDED && dot(cross, *c) > 0.0 {
        true => Ok(()),
        false => {
            Err("the rows below are not a rotation: they need length 1, right angles, and no reflection"
                .into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parsed(text: &str) -> Result<Array, String> {
        parse_array(Path::new("a"), text).map_err(|e| e.to_string())
    }

    const CLUSTERS: &str =
        "# cl kind psi theta phi dx dy dz\n\n 3 0 10 20 30 1 2 3 # the last\n 1 0 0 0 90 -1 0 0.5\n";
    const TABLE: &str = " 7 0 1 2 3\n 1 0 -1 0\n 2 1 0 0\n 3 0 0 1\n";

    #[test]
    fn all_three_kinds_of_lines_are_read() {
        let clusters = parsed(CLUSTERS).expect("clusters");
        assert_eq!(clusters.crystals().map(|(number, _)| number).collect::<Vec<_>>(), [1, 3]);
        assert_eq!(clusters.place(2, [0.0; 3]), None);
        let table = parsed(TABLE).expect("a table");
        assert_eq!(table.place(7, [1.0, 0.0, 0.0]), Some([1.0, 3.0, 3.0]));
        let crystals = parsed("0 0 0 0 0 0 5 0 0\n0 1 1 0 0 90 0 5 0\n").expect("crystals");
        let all = clusters.of_clusters(&crystals);
        assert_eq!(all.crystals().map(|(number, _)| number).collect::<Vec<_>>(), [2, 3, 6, 7]);
        // Cluster 1 turns by 90 degrees: its first crystal is 5 mm along y from its shift.
        let place = all.place(2, [0.0; 3]).expect("crystal 2");
        assert!((place[0] + 1.0).abs() + (place[1] - 5.0).abs() + (place[2] - 0.5).abs() < 1e-12);
    }

    #[test]
    fn mistakes_have_lines() {
        for (text, words) in [
            ("", "no line"),
            ("# nothing\n", "no line"),
            ("1 2 3\n", ":1: 3 numbers"),
            ("0 0 1 2 3 4 5 6\n0 0 1 2 3 4 5 6\n", ":2: crystal 0 has"),
            ("0 0 1 2 3 4 5 6\n0 1 1 2 3 4 5 6 7\n", ":2: 9 numbers"),
            ("0 0 1 2 3 4 5 six\n", ":1: \"six\""),
            ("0 0 1 2 3 4 5 nan\n", ":1: \"nan\""),
            ("-1 0 1 2 3 4 5 6\n", ":1: -1"),
            ("0.5 0 1 2 3 4 5 6\n", ":1: 0.5"),
            (" 7 0 1 2 3\n 1 0 -1 0\n 2 1 0 0\n", ":1: the table ends"),
            (" 7 0 1 2 3\n 1 0 -1 0\n 3 1 0 0\n 2 0 0 1\n", ":3: row 2"),
            (" 7 0 1 2 3\n 1 0 1 0\n 2 1 0 0\n 3 0 0 1\n", ":1: the rows"),
            (" 7 0 1 2 3\n 1 0 -2 0\n 2 1 0 0\n 3 0 0 1\n", ":1: the rows"),
        ] {
            let said = parsed(text).expect_err(text);
            assert!(said.contains(words), "{text:?}: {said}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(table: bool, at in 0usize..39, byte: u8, cut: bool) {
            let mut bytes = if table { TABLE } else { CLUSTERS }.as_bytes().to_vec();
            if cut { bytes.truncate(at) } else { bytes[at] = byte }
            let _ = parsed(&String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn lines_come_back(number in 0usize..1000, angles: [i16; 3], shift: [i32; 3]) {
            let angles = angles.map(|a| f64::from(a) / 64.0);
            let shift = shift.map(|s| f64::from(s) / 1024.0);
            let words = angles.iter().chain(&shift).map(f64::to_string).collect::<Vec<_>>().join(" ");
            let array = parsed(&format!("{number} 0 {words}\n")).expect("a line");
            prop_assert_eq!(array.crystals().next(), Some((number, &Placement::euler(angles, shift))));
        }
    }
}
