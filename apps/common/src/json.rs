//! JSON of the results of all verbs, in one envelope.
//!
//! ```
//! use zellige_app::json::{Envelope, Host, Program, Provenance};
//!
//! let run = Provenance {
//!     schema: zellige_app::json::SCHEMA,
//!     zellige: Program { version: "0.1.0".into(), commit: None, features: vec![] },
//!     host: Host { name: "node1".into(), processor: None, cores: 2 },
//!     date: "2026-03-01T12:34:56Z".into(),
//!     args: ["solve", "a.mtx", "--json", "-"].map(String::from).into(),
//! };
//! let text = serde_json::to_string(&Envelope { run: &run, results: &[1.5] }).unwrap();
//! assert!(text.starts_with(r#"{"schema":2,"zellige":{"version":"0.1.0""#) && text.ends_with(r#""results":[1.5]}"#));
//! ```

use std::io;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::Serializer;
use serde_json::ser::Formatter;

/// Version of the JSON of all verbs. It is raised when a key is removed or renamed; keys may be
/// added without a new version.
pub const SCHEMA: u32 = 2;

/// Columns of a line in a file of JSON.
const COLUMNS: usize = 120;

/// Provenance of results: program, machine, date and arguments.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Provenance {
    /// Version of the keys of this file: [`SCHEMA`].
    pub schema: u32,
    /// Program that wrote the results.
    pub zellige: Program,
    /// Machine of the run.
    pub host: Host,
    /// Start time of the program in UTC: `2026-03-01T12:34:56Z`.
    pub date: String,
    /// Words of the command line after `zellige`, including those of a configuration file.
    pub args: Vec<String>,
}

/// A build of the program.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Program {
    /// Version of the program.
    pub version: String,
    /// Commit of the build; null for a build outside a repository.
    pub commit: Option<String>,
    /// Optional features of the build.
    pub features: Vec<String>,
}

/// A machine.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Host {
    /// Network name.
    pub name: String,
    /// Model name of the processor; null if the system does not report it.
    pub processor: Option<String>,
    /// Number of cores that the process may use.
    pub cores: usize,
}

/// A file of results.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(bound(serialize = "T: Serialize"))]
pub struct Envelope<'a, T: 'a> {
    /// Provenance of the results.
    #[serde(flatten)]
    pub run: &'a Provenance,
    /// One entry for each rule, right-hand side, row of a table, ...; most verbs write one.
    pub results: &'a [T],
}

/// Results as read from a file.
#[derive(Debug, Deserialize)]
pub struct Results<T> {
    /// Results, as in [`Envelope::results`].
    pub results: Vec<T>,
}

/// Adds null to the type of numbers, since non-finite numbers are null in JSON. Removes the names
/// of Rust's types and the line breaks of the source.
fn simplify(schema: &mut Schema) {
    if schema.get("type").is_some_and(|kind| kind == "number") {
        schema.insert("type".into(), serde_json::json!(["number", "null"]));
    }
    schema.remove("format");
    if let Some(serde_json::Value::String(text)) = schema.get_mut("description") {
        *text =
            text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ")).collect::<Vec<_>>().join("\n\n");
    }
}

/// Returns the JSON schema (draft 2020-12) of a type of results.
pub fn schema<T: JsonSchema>() -> Schema {
    let settings =
        SchemaSettings::draft2020_12().for_serialize().with_transform(RecursiveTransform(simplify));
    settings.into_generator().into_root_schema_for::<T>()
}

/// Serializes a value as JSON for readers. A value that fits on a line stands on one line. In a
/// longer one plain entries share lines, and each list or object has lines of its own.
///
/// # Errors
/// The value does not serialize.
pub fn text(value: &impl Serialize) -> serde_json::Result<String> {
    let mut line = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut line, OneLine))?;
    let mut text = String::new();
    append(&mut text, 0, &String::from_utf8_lossy(&line));
    text.push('\n');
    Ok(text)
}

/// Format of JSON on one line, with a space between entries.
struct OneLine;

impl Formatter for OneLine {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, line: &mut W, first: bool) -> io::Result<()> {
        line.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, line: &mut W, first: bool) -> io::Result<()> {
        self.begin_array_value(line, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, line: &mut W) -> io::Result<()> {
        line.write_all(b": ")
    }
}

/// Appends a value, given on one line, to text whose last line has this indent.
fn append(text: &mut String, indent: usize, value: &str) {
    if !is_nested(value) || fits(text, value.len()) {
        text.push_str(value);
        return;
    }
    let (open, close) = (&value[..1], &value[value.len() - 1..]);
    text.push_str(open);
    let mut follows_plain = false;
    for (at, (key, value)) in entries(&value[1..value.len() - 1]).into_iter().enumerate() {
        text.push_str(if at == 0 { "" } else { "," });
        let is_plain = !is_nested(value);
        if is_plain && follows_plain && fits(text, 1 + key.len() + value.len()) {
            text.push(' ');
        } else {
            new_line(text, indent + 2);
        }
        text.push_str(key);
        append(text, indent + 2, value);
        follows_plain = is_plain;
    }
    new_line(text, indent);
    text.push_str(close);
}

fn new_line(text: &mut String, indent: usize) {
    text.push('\n');
    text.extend(std::iter::repeat_n(' ', indent));
}

/// Returns whether the last line has room for so many bytes and a comma.
fn fits(text: &str, bytes: usize) -> bool {
    let begin = text.rfind('\n').map_or(0, |end| end + 1);
    text.len() - begin + bytes < COLUMNS
}

/// Returns whether a value has entries.
fn is_nested(value: &str) -> bool {
    value.starts_with(['[', '{']) && value.len() > 2
}

/// Splits the inside of a list or object into keys, with their colons, and values.
fn entries(inside: &str) -> Vec<(&str, &str)> {
    let (mut depth, mut quoted, mut escaped) = (0, false, false);
    let (mut begin, mut value) = (0, 0);
    let mut found = Vec::new();
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            _ if quoted => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth -= 1,
            b':' if depth == 0 => value = at + 2,
            b',' if depth == 0 => {
                found.push((&inside[begin..value], &inside[value..at]));
                (begin, value) = (at + 2, at + 2);
            }
            _ => {}
        }
    }
    found.push((&inside[begin..value], &inside[value..]));
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn plain_entries_share_lines() {
        let word = "a \"word\", [of {24: columns";
        let value = json!({
            "short": {"list": [], "number": 1.5, "none": null},
            "words": vec![word; 6],
            "rows": vec![json!({"word": word, "indices": [1, 2, 3]}); 2],
            "a": 1, "b": -1e-9, "long": "x".repeat(150), "c": {},
        });
        let text = text(&value).unwrap();
        let word = serde_json::to_string(word).unwrap();
        let row = format!("{{\"word\": {word}, \"indices\": [1, 2, 3]}}");
        let expected = [
            "{".into(),
            "  \"short\": {\"list\": [], \"number\": 1.5, \"none\": null},".into(),
            "  \"words\": [".into(),
            format!("    {word}, {word}, {word},"),
            format!("    {word}, {word}, {word}"),
            "  ],".into(),
            "  \"rows\": [".into(),
            format!("    {row},"),
            format!("    {row}"),
            "  ],".into(),
            "  \"a\": 1, \"b\": -1e-9,".into(),
            format!("  \"long\": \"{}\",", "x".repeat(150)),
            "  \"c\": {}".into(),
            "}\n".into(),
        ];
        assert_eq!(text, expected.join("\n"));
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
