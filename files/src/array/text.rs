//! Columns of numbers as text, in the formats of `numpy.savetxt`, spreadsheets and pandas.
//!
//! Each line is a row of numbers, separated by blanks, commas or semicolons. Lines that begin with
//! `#` or `%` are comments, and a first line without any number is a heading. Exponents may have a
//! D. Complex numbers are written as in Python, `(1+2j)`.

use std::io::{BufRead, Read};
use std::path::Path;

use super::{Numbers, cannot, wrong};
use crate::FileError;

/// Longer lines are no numbers.
const LONGEST_LINE: u64 = 1 << 26;
/// Number of characters of a wrong word in an error.
const SHOWN: usize = 40;

/// Reads rows of numbers in C order, with their number of rows and columns.
///
/// # Errors
/// [`FileError::Content`] with line and column for a word that is no number, for a row of another
/// length, or if there are no numbers.
pub fn table(source: &mut dyn BufRead, path: &Path) -> Result<([usize; 2], Numbers), FileError> {
    let (mut rows, mut columns, mut separator) = (0, 0, None);
    let (mut re, mut im, mut is_complex) = (Vec::new(), Vec::new(), false);
    let (mut line, mut number, mut begun) = (Vec::new(), 0, false);
    loop {
        line.clear();
        number += 1;
        let taken = source.take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(cannot(path))?;
        if taken == 0 {
            break;
        }
        let place = |column: usize| format!("line {number}, column {column}");
        let no_text =
            || wrong(path, None, format!("line {number}: no text, and no other format that is read"));
        let text = std::str::from_utf8(&line).map_err(|_| no_text())?;
        if text.contains('\0') || taken as u64 == LONGEST_LINE {
            return Err(no_text());
        }
        let text = text.trim_start_matches('\u{feff}').trim();
        if text.is_empty() || text.starts_with(['#', '%']) {
            continue;
        }
        let separator = *separator.get_or_insert_with(|| [';', ','].into_iter().find(|&c| text.contains(c)));
        let words = words(text, separator);
        if !std::mem::replace(&mut begun, true) {
            if words.len() > 1 && words[0].is_empty() {
                let problem =
                    "line 1: the first column has no name: pandas wrote its index; write with index=False";
                return Err(wrong(path, None, problem));
            }
            if words.iter().all(|word| value(word).is_none())
                && !words.iter().any(|word| is_number_like(word))
            {
                continue;
            }
        }
        if rows == 0 {
            columns = words.len();
        } else if words.len() != columns {
            let problem =
                format!("line {number}: {} numbers, where the first row has {columns}", words.len());
            return Err(wrong(path, None, problem));
        }
        for (at, word) in words.iter().enumerate() {
            let Some((a, b)) = value(word) else {
                let shown: String = word.chars().take(SHOWN).flat_map(char::escape_default).collect();
                return Err(wrong(
                    path,
                    None,
                    format!("{}: \"{shown}\" is not a finite number", place(at + 1)),
                ));
            };
            is_complex |= b.is_some();
            re.push(a);
            im.push(b.unwrap_or(0.0));
        }
        rows += 1;
    }
    match rows {
        0 => Err(wrong(path, None, "no line with numbers")),
        _ => Ok(([rows, columns], Numbers { re, im: is_complex.then_some(im) })),
    }
}

fn words(text: &str, separator: Option<char>) -> Vec<&str> {
    match separator {
        None => text.split_whitespace().collect(),
        // Some writers end each line with a separator.
        Some(separator) => {
            let text = text.strip_suffix(separator).unwrap_or(text);
            text.split(separator).map(|word| word.trim().trim_matches('"')).collect()
        }
    }
}

/// Returns true if a word is meant as a number, so that a first line with it is no heading.
fn is_number_like(word: &str) -> bool {
    let word = word.trim_start_matches(['(', '+', '-', '.']);
    word.starts_with(|c: char| c.is_ascii_digit())
        || ["nan", "inf"].iter().any(|w| word.eq_ignore_ascii_case(w))
}

/// Real and, of a complex number, imaginary part.
fn value(word: &str) -> Option<(f64, Option<f64>)> {
    if let Some(re) = real(word) {
        return Some((re, None));
    }
    let word = word.strip_prefix('(').and_then(|word| word.strip_suffix(')')).unwrap_or(word);
    let word = word.strip_suffix(['j', 'i'])?;
    // The sign between the parts is the last one that belongs to no exponent.
    let is_between = |&(at, c): &(usize, char)| {
        at > 0 && matches!(c, '+' | '-') && !word[..at].ends_with(['e', 'E', 'd', 'D'])
    };
    let Some((at, _)) = word.char_indices().rfind(is_between) else {
        return Some((0.0, Some(real(word)?)));
    };
    // `numpy.savetxt` writes 1+-2j.
    let (re, im) = match word[..at].strip_suffix('+') {
        Some(re) => (re, &word[at..]),
        None => (&word[..at], &word[at..]),
    };
    Some((real(re)?, Some(real(im)?)))
}

/// A finite number; Fortran writes its exponents with a D.
fn real(word: &str) -> Option<f64> {
    if !word.ends_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let value: f64 = word.parse().or_else(|_| word.replace(['d', 'D'], "e").parse()).ok()?;
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<([usize; 2], Numbers), String> {
        table(&mut text.as_bytes(), Path::new("b.csv")).map_err(|error| error.to_string())
    }

    #[test]
    fn columns_are_read_as_they_are_written() {
        let real = |re: &[f64]| Numbers { re: re.to_vec(), im: None };
        for (text, sides, re) in [
            ("1\n2.5e0\n-3\n", [3, 1], &[1.0, 2.5, -3.0][..]),
            ("# savetxt\n1.000000000000000000e+00 2\n\n3\t4", [2, 2], &[1.0, 2.0, 3.0, 4.0]),
            ("\u{feff}b,c\r\n1,2\r\n3 , 4\r\n", [2, 2], &[1.0, 2.0, 3.0, 4.0]),
            ("\"x\"; \"y\"\n1;2;\n", [1, 2], &[1.0, 2.0]),
            ("1.5D+02\n-1d-1\n", [2, 1], &[150.0, -0.1]),
        ] {
            assert_eq!(read(text), Ok((sides, real(re))), "{text}");
        }
        let complex = Numbers { re: vec![1.0, 0.0, 2e-3, 5.0], im: Some(vec![2.0, -1.0, -1e-2, 0.0]) };
        assert_eq!(read(" (1.0e+00+2j)\n -1j\n(2e-03+-1e-02j)\n5\n"), Ok(([4, 1], complex)));
    }

    #[test]
    fn what_is_no_number_is_named_with_line_and_column() {
        for (text, says) in [
            ("1,2\n3,x\n", "b.csv: line 2, column 2: \"x\" is not a finite number"),
            ("a\nb\n", "line 2, column 1: \"b\""),
            ("1\nnan\n", "line 2, column 1: \"nan\""),
            ("nan\n1\n", "line 1, column 1: \"nan\""),
            ("1\n1e400\n", "line 2, column 1"),
            ("1 2\n3\n", "line 2: 1 numbers, where the first row has 2"),
            (",b\n0,1.5\n", "index=False"),
            ("1;1,5\n", "line 1, column 2: \"1,5\""),
            ("", "no line with numbers"),
            ("# only a comment\n", "no line with numbers"),
            ("\u{0}\u{1}\n", "no text"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }
}
