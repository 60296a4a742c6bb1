//! YAML files: the layout of pyTomoAO, or the keys of zellige's TOML files.

use super::check::Place;
use crate::Error;
use saphyr_parser::{Event, Parser, ScalarStyle, Span};
use std::collections::HashMap;
use std::path::Path;

/// Maximum nesting of lists and tables.
const DEEPEST: usize = 16;

/// Maximum number of values in a file.
const MOST_VALUES: usize = 1 << 20;

/// A value and its line, counted from 1.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) value: Value,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Flag(bool),
    Number(f64),
    Text(String),
    List(Vec<Node>),
    Table(Vec<(String, Node)>),
}

impl Node {
    /// Returns the entry of a table.
    pub(super) fn get(&self, key: &str) -> Option<&Node> {
        match &self.value {
            Value::Table(entries) => entries.iter().find(|(k, _)| k == key).map(|(_, node)| node),
            _ => None,
        }
    }

    /// Returns a number. A number in quotes and a flag (0 or 1) also count: PyYAML reads `1e14` as
    /// text, and NumPy converts both.
    pub(super) fn number(&self) -> Option<f64> {
        match &self.value {
            Value::Number(number) => Some(*number),
            Value::Flag(flag) => Some(f64::from(u8::from(*flag))),
            Value::Text(text) => text.trim().parse().ok().filter(|number: &f64| number.is_finite()),
            _ => None,
        }
    }

    /// Returns whether there is no value.
    pub(super) fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    /// Returns the number of values in the node, including itself.
    fn size(&self) -> usize {
        1 + match &self.value {
            Value::List(list) => list.iter().map(Node::size).sum(),
            Value::Table(entries) => entries.iter().map(|(_, node)| node.size()).sum(),
            _ => 0,
        }
    }

    /// Returns the numbers of a list, or a single number as a list.
    pub(super) fn numbers(&self) -> Option<Vec<f64>> {
        match &self.value {
            Value::List(list) => list.iter().map(Node::number).collect(),
            _ => self.number().map(|number| vec![number]),
        }
    }

    /// Returns the numbers of a list of lists.
    pub(super) fn rows(&self) -> Option<Vec<Vec<f64>>> {
        match &self.value {
            Value::List(rows) => rows.iter().map(Node::numbers).collect(),
            _ => None,
        }
    }
}

fn refuse(file: &Path, line: usize, problem: impl Into<String>) -> Error {
    Error::Parameter {
        file: file.to_owned(),
        line: Some(line),
        key: "YAML".into(),
        problem: problem.into(),
        remedy: "write plain tables, lists, numbers and texts".into(),
    }
}

/// A list or table that is not closed yet.
struct Open {
    line: usize,
    table: bool,
    anchor: usize,
    nodes: Vec<Node>,
    keys: Vec<String>,
    key: Option<String>,
}

/// Parses the only document of a file.
pub(super) fn tree(file: &Path, text: &str) -> Result<Node, Error> {
    let mut open: Vec<Open> = Vec::new();
    let (mut root, mut values) = (None, 0);
    let mut anchors: HashMap<usize, Node> = HashMap::new();
    for event in Parser::new_from_str(text) {
        let (event, span): (Event, Span) = event.map_err(|e| refuse(file, e.marker().line(), e.info()))?;
        let line = span.start.line();
        let refuse = |problem: String| refuse(file, line, problem);
        let (node, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                if tag.is_some() {
                    return Err(refuse("a tag".into()));
                }
                if let Some(last) = open.last_mut().filter(|last| last.table && last.key.is_none()) {
                    if last.keys.iter().any(|key| *key == text) {
                        return Err(refuse(format!("'{text}' is given twice")));
                    }
                    last.key = Some(text.into_owned());
                    continue;
                }
                (Node { line, value: scalar(&text, style) }, anchor)
            }
            Event::SequenceStart(_, Some(_)) | Event::MappingStart(_, Some(_)) => {
                return Err(refuse("a tag".into()));
            }
            Event::SequenceStart(anchor, None) | Event::MappingStart(anchor, None) => {
                if open.len() == DEEPEST {
                    return Err(refuse(format!("nested more than {DEEPEST} deep")));
                }
                if open.last().is_some_and(|last| last.table && last.key.is_none()) {
                    return Err(refuse("a list or table as a key".into()));
                }
                let table = matches!(event, Event::MappingStart(..));
                open.push(Open { line, table, anchor, nodes: Vec::new(), keys: Vec::new(), key: None });
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(done) = open.pop() else { continue };
                let value = if done.table {
                    merged(done.keys.into_iter().zip(done.nodes).collect()).map_err(refuse)?
                } else {
                    Value::List(done.nodes)
                };
                (Node { line: done.line, value }, done.anchor)
            }
            Event::Alias(anchor) => {
                if open.last().is_some_and(|last| last.table && last.key.is_none()) {
                    return Err(refuse("an alias as a key".into()));
                }
                let node = anchors
                    .get(&anchor)
                    .ok_or_else(|| refuse("an alias of an anchor that is not complete".into()))?;
                // Aliases of aliases grow fast, so their values are counted before the copy.
                values += node.size();
                if values > MOST_VALUES {
                    return Err(refuse(format!("more than {MOST_VALUES} values")));
                }
                (node.clone(), 0)
            }
            _ => continue,
        };
        if anchor != 0 {
            values += node.size();
            anchors.insert(anchor, node.clone());
        }
        values += 1;
        if values > MOST_VALUES {
            return Err(refuse(format!("more than {MOST_VALUES} values")));
        }
        match open.last_mut() {
            Some(last) => {
                last.keys.extend(last.key.take());
                last.nodes.push(node);
            }
            None if root.is_some() => return Err(refuse("a second document".into())),
            None => root = Some(node),
        }
    }
    root.ok_or_else(|| refuse(file, 1, "the document is empty"))
}

/// Returns a table with the entries of the tables under `<<`, unless it has an entry of that name.
fn merged(mut entries: Vec<(String, Node)>) -> Result<Value, String> {
    let Some(at) = entries.iter().position(|(key, _)| key == "<<") else { return Ok(Value::Table(entries)) };
    let sources = match entries.remove(at).1.value {
        Value::List(list) => list.into_iter().map(|node| node.value).collect(),
        one => vec![one],
    };
    for source in sources {
        let Value::Table(more) = source else { return Err("'<<' of a value that is not a table".into()) };
        for (key, node) in more {
            if entries.iter().all(|(known, _)| *known != key) {
                entries.push((key, node));
            }
        }
    }
    Ok(Value::Table(entries))
}

fn scalar(text: &str, style: ScalarStyle) -> Value {
    if style != ScalarStyle::Plain {
        return Value::Text(text.into());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Flag(true),
        "false" | "False" | "FALSE" => Value::Flag(false),
        _ if text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) => {
            match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Value::Number(number),
                _ => Value::Text(text.into()),
            }
        }
        _ => Value::Text(text.into()),
    }
}

/// Converts the tree to a TOML table, with the positions of its entries.
pub(super) fn table(file: &Path, root: Node) -> Result<(toml::Table, Place), Error> {
    let mut place = Place::new(file, "");
    mark(&root, "", &mut place);
    match (root.line, toml_value(file, root)?) {
        (_, Some(toml::Value::Table(table))) => Ok((table, place)),
        (line, _) => Err(refuse(file, line, "no table of parameters")),
    }
}

/// Records the lines of all entries, as [`Place::new`] does for TOML: `a.b`, and `guide_star[0].x`
/// in lists.
fn mark(node: &Node, prefix: &str, place: &mut Place) {
    let Value::Table(entries) = &node.value else { return };
    for (key, node) in entries {
        let name = format!("{prefix}{key}");
        place.line(&name, node.line);
        mark(node, &format!("{name}."), place);
        if let Value::List(list) = &node.value {
            for (i, node) in list.iter().enumerate().filter(|(_, node)| matches!(node.value, Value::Table(_)))
            {
                place.line(&format!("{name}[{i}]"), node.line);
                mark(node, &format!("{name}[{i}]."), place);
            }
        }
    }
}

/// Converts a node to TOML; `None` for an empty value, which counts as absent.
fn toml_value(file: &Path, node: Node) -> Result<Option<toml::Value>, Error> {
    Ok(Some(match node.value {
        Value::Null => return Ok(None),
        Value::Flag(flag) => flag.into(),
        // Whole numbers become integers, which also serve as real numbers.
        Value::Number(x) if x.fract() == 0.0 && x.abs() < 9e15 => (x as i64).into(),
        Value::Number(x) => x.into(),
        Value::Text(text) => text.into(),
        Value::List(list) => {
            let values: Result<Vec<Option<toml::Value>>, Error> =
                list.into_iter().map(|node| toml_value(file, node)).collect();
            let values: Option<Vec<toml::Value>> = values?.into_iter().collect();
            toml::Value::Array(values.ok_or_else(|| refuse(file, node.line, "an empty value in a list"))?)
        }
        Value::Table(entries) => {
            let mut table = toml::Table::new();
            for (key, node) in entries {
                if let Some(value) = toml_value(file, node)? {
                    table.insert(key, value);
                }
            }
            toml::Value::Table(table)
        }
    }))
}
