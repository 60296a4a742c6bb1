//! Lexer for Python, line by line.

use super::Refusal;

/// A token and its line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Token {
    pub(super) line: usize,
    pub(super) word: Word,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Word {
    Name(String),
    Number(f64),
    Text(String),
    /// An operator or bracket.
    Sign(&'static str),
    /// End of a statement.
    End,
}

/// Operators and brackets, longest first. Those that no expression here has are read so that an
/// error names the statement.
const SIGNS: [&str; 34] = [
    "**=", "//=", "**", "//", "+=", "-=", "*=", "/=", "==", "!=", "<=", ">=", "(", ")", "[", "]", ",", ".",
    "=", "+", "-", "*", "/", "%", ":", "{", "}", "<", ">", "@", "&", "|", "~", "^",
];

/// Splits a text into tokens, up to the first invalid one, which is returned as a refusal. Lines
/// continue inside brackets; a comment ends with its line.
pub(super) fn words(text: &str) -> (Vec<Token>, Option<Refusal>) {
    let mut out = Vec::new();
    let refusal = cut(text, &mut out).err();
    (out, refusal)
}

fn cut(text: &str, out: &mut Vec<Token>) -> Result<(), Refusal> {
    let (mut line, mut open, mut begin) = (1, Vec::<(&str, usize)>::new(), true);
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let refuse = |line, problem: String| Err(Refusal { line, problem });
    while let Some(first) = rest.chars().next() {
        let mut token = |word| out.push(Token { line, word });
        match first {
            '\n' => {
                if open.is_empty() {
                    token(Word::End);
                    begin = true;
                }
                line += 1;
                rest = &rest[1..];
                continue;
            }
            ' ' | '\t' | '\r' | '\u{c}' => {
                let indented = begin && open.is_empty() && first != '\r';
                let blank = rest.trim_start_matches([' ', '\t', '\r', '\u{c}']);
                if indented && !blank.is_empty() && !blank.starts_with(['\n', '#']) {
                    return refuse(
                        line,
                        "an indented line: the body of a loop, a condition or a function".into(),
                    );
                }
                rest = blank;
                continue;
            }
            '#' => {
                rest = &rest[rest.find('\n').unwrap_or(rest.len())..];
                continue;
            }
            ';' if open.is_empty() => {
                token(Word::End);
                rest = &rest[1..];
            }
            '\\' => {
                let Some(next) = rest[1..].trim_start_matches('\r').strip_prefix('\n') else {
                    return refuse(line, "'\\' in the middle of a line".into());
                };
                line += 1;
                rest = next;
            }
            '\'' | '"' => {
                let (text, behind) = string(rest).map_err(|problem| Refusal { line, problem })?;
                token(Word::Text(text));
                line += rest[..rest.len() - behind.len()].matches('\n').count();
                rest = behind;
            }
            c if c.is_ascii_digit() || (c == '.' && rest[1..].starts_with(|d: char| d.is_ascii_digit())) => {
                let (number, behind) = number(rest).map_err(|problem| Refusal { line, problem })?;
                token(Word::Number(number));
                rest = behind;
            }
            c if c.is_alphabetic() || c == '_' => {
                let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
                token(Word::Name(rest[..end].to_owned()));
                rest = &rest[end..];
            }
            c => {
                let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) else {
                    return refuse(line, format!("'{c}' is not supported"));
                };
                token(Word::Sign(sign));
                match sign {
                    "(" | "[" => open.push((sign, line)),
                    ")" | "]" => {
                        let matching = if sign == ")" { "(" } else { "[" };
                        if open.pop().is_none_or(|(last, _)| last != matching) {
                            return refuse(line, format!("'{sign}' without its '{matching}'"));
                        }
                    }
                    _ => {}
                }
                rest = &rest[sign.len()..];
            }
        }
        begin = false;
    }
    if let Some((sign, line)) = open.pop() {
        return refuse(line, format!("'{sign}' is never closed"));
    }
    out.push(Token { line, word: Word::End });
    Ok(())
}

/// Returns a string at the beginning of `text`, and the rest of the text. Escapes are kept, because
/// no used string has any.
fn string(text: &str) -> Result<(String, &str), String> {
    let quote = &text[..1];
    let long = quote.repeat(3);
    let (mark, body) = match text.strip_prefix(&long) {
        Some(body) => (long.as_str(), body),
        None => (quote, &text[1..]),
    };
    let mut at = 0;
    loop {
        let rest = &body[at..];
        if let Some(behind) = rest.strip_prefix(mark) {
            return Ok((body[..at].to_owned(), behind));
        }
        match rest.chars().next() {
            None => return Err("a string is never closed".into()),
            Some('\n') if mark.len() == 1 => return Err("a string is not closed on its line".into()),
            Some('\\') => at += 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            Some(c) => at += c.len_utf8(),
        }
    }
}

/// Parses a number at the beginning of `text`: `12`, `1_000`, `.5`, `1.`, `1e-3`.
fn number(text: &str) -> Result<(f64, &str), String> {
    let bytes = text.as_bytes();
    let mut end = 0;
    while let Some(&byte) = bytes.get(end) {
        let sign = matches!(byte, b'+' | b'-') && end > 0 && matches!(bytes[end - 1], b'e' | b'E');
        if !(byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_' || sign) {
            break;
        }
        end += 1;
    }
    let digits = text[..end].replace('_', "");
    let number = digits.parse::<f64>().ok().filter(|x| x.is_finite() && !digits.contains(['n', 'N']));
    number.map(|number| (number, &text[end..])).ok_or_else(|| format!("'{}' is not a number", &text[..end]))
}
