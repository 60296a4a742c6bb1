//! Harwell-Boeing and Rutherford-Boeing files: a matrix in CSC, in lines of Fortran formats.
//!
//! Duff, Grimes and Lewis, "Users' guide for the Harwell-Boeing sparse matrix collection (release
//! I)", 1992; "The Rutherford-Boeing sparse matrix collection", 1997. Numbers are cut out of a line
//! by the widths in the fourth line, so adjacent numbers need no space between them. They are read
//! as Fortran reads them: exponents with D or without a letter, decimals that the format implies,
//! and its scale factor.

use std::io::{BufRead, Read};
use std::path::Path;

use super::{Matrix, Source, Vectors, gathered, too_many_rows};
use crate::files::market::Symmetry;
use zellige_krylov::Error;

/// Lines are of 80 letters as a rule.
const LONGEST_LINE: u64 = 4096;

/// Returns true if a file begins with the four lines of a header.
pub(super) fn is(head: &[u8]) -> bool {
    let mut lines = head.split(|&byte| byte == b'\n');
    let (Some(_), Some(cards), Some(sizes), Some(formats)) =
        (lines.next(), lines.next(), lines.next(), lines.next())
    else {
        return false;
    };
    let whole = |words: &[&str]| words.iter().all(|word| word.parse::<u64>().is_ok());
    let (cards, sizes) = (String::from_utf8_lossy(cards), String::from_utf8_lossy(sizes));
    let (cards, sizes): (Vec<&str>, Vec<&str>) =
        (cards.split_whitespace().collect(), sizes.split_whitespace().collect());
    let Some((kind, sizes)) = sizes.split_first() else { return false };
    (3..=5).contains(&cards.len())
        && whole(&cards)
        && (3..=4).contains(&sizes.len())
        && whole(sizes)
        && kind.len() == 3
        && kind
            .bytes()
            .zip(["RCIPQX", "SUHZR", "AE"])
            .all(|(letter, known)| known.bytes().any(|known| known.eq_ignore_ascii_case(&letter)))
        && formats.trim_ascii_start().starts_with(b"(")
}

/// Reads the matrix, and its full right-hand sides if the file has some.
pub(super) fn read(source: Source<'_>, path: &Path) -> Result<(Matrix, Option<Vectors>), Error> {
    let length = source.length;
    let mut cards = Cards { reader: source.reader(), path, length, number: 0, line: Vec::new() };
    cards.bring("title")?;
    cards.bring("numbers of lines")?;
    let counts = cards.sizes(0)?;
    cards.bring("type and sizes")?;
    let kind: Vec<u8> = cards.line.trim_ascii_start().iter().take(3).map(u8::to_ascii_lowercase).collect();
    let sizes = cards.sizes(1)?;
    let &[rows, columns, nonzeros, ..] = &sizes[..] else {
        return Err(cards.wrong("rows, columns and nonzeros"));
    };
    let [field, symmetry, assembled] = [kind[0], kind[1], kind[2]];
    if assembled == b'e' {
        return Err(cards
            .refused("an unassembled matrix of finite elements, which is not supported: assemble it first"));
    }
    if matches!(field, b'q' | b'x') {
        return Err(cards.refused("a matrix whose values are in another file, which is not supported"));
    }
    let symmetry = match symmetry {
        b's' => Symmetry::Symmetric,
        b'h' if field == b'c' => Symmetry::Hermitian,
        b'h' => Symmetry::Symmetric,
        b'z' => Symmetry::Skew,
        _ => Symmetry::General,
    };
    if let Some(problem) = too_many_rows(rows, nonzeros) {
        return Err(cards.refused(problem));
    }
    cards.bring("formats")?;
    let formats = cards.formats()?;
    let format = |at: usize| formats.get(at).ok_or("a format of each part that has lines");
    let sides = match counts.get(4) {
        Some(&lines) if lines > 0 => {
            cards.bring("type of right-hand sides")?;
            cards.right_sides()?
        }
        _ => None,
    };
    let (pointers, indices) = match (format(0), format(1)) {
        (Ok(pointers), Ok(indices)) => (pointers, indices),
        _ => return Err(cards.refused("a fourth line without formats of pointers and indices")),
    };
    let starts = cards.whole(pointers, columns.saturating_add(1), "column pointer")?;
    let fits = starts[0] == 1 && starts.is_sorted() && starts.last() == Some(&nonzeros.saturating_add(1));
    if !fits {
        let problem = format!("column pointers that do not rise from 1 to {}", nonzeros.saturating_add(1));
        return Err(cards.refused(problem));
    }
    let index = cards.whole(indices, nonzeros, "row index")?;
    let complex = field == b'c';
    let parts = if complex { 2 } else { 1 };
    let values = match field {
        b'p' => Vec::new(),
        _ => match format(2) {
            Ok(format) => cards.real(format, nonzeros.saturating_mul(parts), "value")?,
            Err(wanted) => return Err(cards.refused(format!("a fourth line without {wanted}"))),
        },
    };
    let value = |at: usize| match field {
        b'p' => (1.0, 0.0),
        b'c' => (values[2 * at], values[2 * at + 1]),
        _ => (values[at], 0.0),
    };
    if let Some(at) = index.iter().position(|&row| row == 0 || row > rows) {
        return Err(cards.refused(format!("row index {} of a matrix of {rows} x {columns}", index[at])));
    }
    let matrix = gathered(path, (rows, columns), complex, symmetry, &|nonzero| {
        for j in 0..columns {
            for at in starts[j] - 1..starts[j + 1] - 1 {
                let (re, im) = value(at);
                nonzero(index[at] - 1, j, re, im);
            }
        }
    })?;
    let vectors = match (sides, formats.last()) {
        (Some(count), Some(format)) if count > 0 => {
            let each = rows.saturating_mul(parts);
            let values = cards.real(format, each.saturating_mul(count), "number of the right-hand sides")?;
            let columns = values.chunks_exact(each.max(1)).map(<[f64]>::to_vec).collect();
            Some(Vectors { columns, complex })
        }
        _ => None,
    };
    Ok((matrix, vectors))
}

/// The lines of a file.
struct Cards<'a> {
    reader: Box<dyn BufRead + 'a>,
    path: &'a Path,
    /// Bytes that the text may have.
    length: u64,
    number: u64,
    line: Vec<u8>,
}

impl Cards<'_> {
    fn refused(&self, problem: impl Into<String>) -> Error {
        Error::Content { file: self.path.to_owned(), line: Some(self.number), problem: problem.into() }
    }

    fn wrong(&self, wanted: &str) -> Error {
        let line = String::from_utf8_lossy(&self.line);
        let shown: String = line.trim().chars().take(60).flat_map(char::escape_default).collect();
        self.refused(format!("\"{shown}\" where the header needs {wanted}"))
    }

    /// Brings the next line, which has to be there.
    fn bring(&mut self, what: &str) -> Result<(), Error> {
        self.number += 1;
        self.line.clear();
        let line = self.reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut self.line);
        let taken = line.map_err(|e| Error::file(self.path, "cannot read the matrix", e))?;
        if taken == 0 {
            return Err(self.refused(format!("the file ends before its {what}")));
        }
        if taken as u64 == LONGEST_LINE {
            return Err(self.refused(format!("a line of more than {LONGEST_LINE} bytes")));
        }
        while self.line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
            self.line.pop();
        }
        Ok(())
    }

    /// Returns the integers of a line after the first `words` words.
    fn sizes(&self, words: usize) -> Result<Vec<usize>, Error> {
        let line = String::from_utf8_lossy(&self.line);
        let sizes = line.split_whitespace().skip(words).map(|word| word.parse().ok());
        sizes.collect::<Option<Vec<usize>>>().ok_or_else(|| self.wrong("whole numbers"))
    }

    /// Returns the formats of the fourth line; a format for right-hand sides does not imply that
    /// there are some.
    fn formats(&self) -> Result<Vec<Vec<CardField>>, Error> {
        let line = String::from_utf8_lossy(&self.line).into_owned();
        let (mut formats, mut depth, mut begin) = (Vec::new(), 0, 0);
        for (at, letter) in line.char_indices() {
            match letter {
                '(' => {
                    if depth == 0 {
                        begin = at + 1;
                    }
                    depth += 1;
                }
                ')' if depth > 0 => {
                    depth -= 1;
                    if depth == 0 {
                        let text = &line[begin..at];
                        let format =
                            format(text).ok_or_else(|| self.wrong("Fortran formats like (4E20.12)"))?;
                        formats.push(format);
                    }
                }
                _ => {}
            }
        }
        Ok(formats)
    }

    /// Returns the number of full right-hand sides, or `None` if they are stored in another form.
    fn right_sides(&self) -> Result<Option<usize>, Error> {
        let counts = self.sizes(1)?;
        let is_full =
            self.line.trim_ascii_start().first().is_some_and(|letter| letter.eq_ignore_ascii_case(&b'f'));
        Ok(counts.first().copied().filter(|_| is_full))
    }

    /// Reads `count` fields of the lines that follow.
    fn fields<T>(
        &mut self,
        format: &[CardField],
        count: usize,
        what: &str,
        read: impl Fn(&str, &CardField) -> Option<T>,
    ) -> Result<Vec<T>, Error> {
        // Each takes a letter at least.
        if count as u64 > self.length {
            return Err(self
                .refused(format!("{count} times {what} are more than the file can hold: it is truncated")));
        }
        Error::if_too_large(|| format!("{}: {count} times {what}", self.path.display()), 16 * count as u64)?;
        let mut values = Vec::with_capacity(count.min(1 << 20));
        while values.len() < count {
            self.bring(&format!("{what} {} of {count}", values.len() + 1))?;
            let Ok(line) = std::str::from_utf8(&self.line) else {
                return Err(self.refused("bytes that are not text"));
            };
            let mut at = 0;
            for field in format {
                if values.len() == count || !field.is_blank && at >= line.len() {
                    break;
                }
                let end = (at + field.width).min(line.len());
                let text = line.get(at.min(end)..end).unwrap_or("?").trim();
                let column = at + 1;
                at = end;
                if field.is_blank {
                    continue;
                }
                match read(text, field) {
                    Some(value) => values.push(value),
                    None => {
                        let shown: String = text.chars().flat_map(char::escape_default).collect();
                        return Err(self.refused(format!("column {column}: \"{shown}\" is not a {what}")));
                    }
                }
            }
            if at == 0 {
                return Err(
                    self.refused(format!("a blank line before {what} {} of {count}", values.len() + 1))
                );
            }
        }
        Ok(values)
    }

    fn whole(&mut self, format: &[CardField], count: usize, what: &str) -> Result<Vec<usize>, Error> {
        self.fields(format, count, what, |text, _| text.parse().ok())
    }

    fn real(&mut self, format: &[CardField], count: usize, what: &str) -> Result<Vec<f64>, Error> {
        self.fields(format, count, what, CardField::real)
    }
}

/// One field of a format.
#[derive(Debug, Clone, PartialEq)]
struct CardField {
    /// True if the field is skipped.
    is_blank: bool,
    width: usize,
    /// Decimals of a number without a point.
    decimals: i32,
    /// Power of ten that divides numbers without an exponent.
    scale: i32,
}

impl CardField {
    /// Parses a finite number by the rules of Fortran.
    fn real(text: &str, field: &CardField) -> Option<f64> {
        let text: String = text.chars().filter(|letter| *letter != ' ').collect();
        // An exponent begins with its letter, or with a sign that is not the first character.
        let letter = text.find(['e', 'E', 'd', 'D', 'q', 'Q']);
        let sign = text.char_indices().skip(1).find(|(_, letter)| matches!(letter, '+' | '-'));
        let end = letter.or(sign.map(|(at, _)| at)).unwrap_or(text.len());
        let (mantissa, exponent) = text.split_at(end);
        let exponent = exponent.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
        let mut power: i32 = if exponent.is_empty() { 0 } else { exponent.parse().ok()? };
        if !mantissa.contains('.') {
            power = power.checked_sub(field.decimals)?;
        }
        if end == text.len() {
            power = power.checked_sub(field.scale)?;
        }
        let is_digits = mantissa.chars().any(|letter| letter.is_ascii_digit())
            && mantissa.chars().all(|letter| letter.is_ascii_digit() || matches!(letter, '+' | '-' | '.'));
        let value: f64 = format!("{mantissa}e{power}").parse().ok().filter(|_| is_digits)?;
        value.is_finite().then_some(value)
    }
}

/// Maximum number of fields of a line.
const MOST_FIELDS: usize = LONGEST_LINE as usize;

/// Returns the fields of a format without its outer parentheses; `None` if it is not supported.
fn format(text: &str) -> Option<Vec<CardField>> {
    let text: String =
        text.chars().filter(|letter| !letter.is_whitespace()).collect::<String>().to_ascii_uppercase();
    let (fields, rest, _) = items(&text, 0, 0)?;
    let readable = fields.iter().any(|field| !field.is_blank);
    (rest.is_empty() && readable && fields.len() <= MOST_FIELDS).then_some(fields)
}

/// Returns the items up to the end of their group, the remaining text, and the scale factor from
/// there on.
fn items(mut text: &str, mut scale: i32, depth: usize) -> Option<(Vec<CardField>, &str, i32)> {
    let mut fields = Vec::new();
    while let Some(letter) = text.chars().next() {
        if letter == ',' {
            text = &text[1..];
            continue;
        }
        if letter == ')' {
            break;
        }
        let (number, rest) = leading(text);
        let kind = rest.chars().next()?;
        text = rest.get(1..)?;
        let count = number.unwrap_or(1).clamp(0, MOST_FIELDS as i32) as usize;
        match kind {
            'P' => scale = number?,
            'X' => fields.push(CardField { is_blank: true, width: count, decimals: 0, scale }),
            '(' if depth < 4 => {
                let (group, rest, then) = items(text, scale, depth + 1)?;
                (text, scale) = (rest.strip_prefix(')')?, then);
                if group.len().checked_mul(count)? > MOST_FIELDS {
                    return None;
                }
                (0..count).for_each(|_| fields.extend(group.iter().cloned()));
            }
            'I' | 'E' | 'D' | 'F' | 'G' => {
                let after = text.strip_prefix(['S', 'N']).filter(|_| kind == 'E').unwrap_or(text);
                let (width, rest) = leading(after);
                let width = usize::try_from(width?).ok().filter(|width| (1..=MOST_FIELDS).contains(width))?;
                let (decimals, rest) = rest.strip_prefix('.').map_or((None, rest), leading);
                // The width of exponents is for writing.
                text = rest.strip_prefix('E').map_or(rest, |rest| leading(rest).1);
                let decimals = if kind == 'I' { 0 } else { decimals.unwrap_or(0) };
                let field = CardField { is_blank: false, width, decimals, scale };
                fields.extend(std::iter::repeat_n(field, count));
            }
            _ => return None,
        }
        if fields.len() > MOST_FIELDS {
            return None;
        }
    }
    Some((fields, text, scale))
}

/// Returns the integer at the beginning, and the rest.
fn leading(text: &str) -> (Option<i32>, &str) {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
    let end = if end == 0 { 0 } else { text.len() - digits.len() + end };
    (text[..end].parse().ok(), &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_of_fortran_divide_lines() {
        let field = |width, decimals, scale| CardField { is_blank: false, width, decimals, scale };
        assert_eq!(format("10I8"), Some(vec![field(8, 0, 0); 10]));
        assert_eq!(format(" 1P, 5 E16.8E3 "), Some(vec![field(16, 8, 1); 5]));
        assert_eq!(format("1p3d25.16"), Some(vec![field(25, 16, 1); 3]));
        assert_eq!(format("F20.0"), Some(vec![field(20, 0, 0)]));
        assert_eq!(format("-2PES12.4"), Some(vec![field(12, 4, -2)]));
        let blank = CardField { is_blank: true, width: 1, decimals: 0, scale: 0 };
        assert_eq!(
            format("2(1X,G9.2)"),
            Some([blank.clone(), field(9, 2, 0), blank, field(9, 2, 0)].to_vec())
        );
        for text in ["", "A8", "5I", "I0", "*", "2X", "((((((I3))))))", "99999(99999I3)", "5(I3"] {
            assert_eq!(format(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_read_as_fortran_reads_them() {
        let read = |text: &str, decimals, scale| {
            CardField::real(text, &CardField { is_blank: false, width: 20, decimals, scale })
        };
        for (text, decimals, scale, value) in [
            ("1.5D-03", 4, 0, 1.5e-3),
            ("-.25E+1", 4, 1, -2.5),
            ("1.5-103", 4, 0, 1.5e-103),
            ("-1.5+2", 4, 0, -150.0),
            ("125", 2, 0, 1.25),
            ("12.5", 2, 1, 1.25),
            ("12.5E0", 2, 1, 12.5),
            ("1.E 2", 0, 0, 100.0),
            ("+7", 0, 0, 7.0),
            ("1.0Q2", 0, 0, 100.0),
        ] {
            assert_eq!(read(text, decimals, scale), Some(value), "{text}");
        }
        for text in ["", "x", "1.5.2", "nan", "inf", "1e999", "--1", "1E", "."] {
            let wanted = if text == "1E" { Some(1.0) } else { None };
            assert_eq!(read(text, 0, 0), wanted, "{text}");
        }
    }
}
