//! A subset of Python for the parameter files of COMPASS, read without executing anything.
//!
//! The subset has assignments, objects `Param*()` (also `module.Param*()`), their `set_*()` and
//! attributes, and `append` of lists. Expressions have numbers, strings, lists, earlier names,
//! indices and `+ - * / // % **`. Imports and strings that stand alone are ignored. Everything else
//! is an error with its line: loops, conditions, functions and calls of other names would have to
//! be executed.

mod lex;
mod parse;

use std::collections::HashMap;

pub(super) use parse::read;

/// Maximum total number of list elements, far above that of any real file.
const MOST_ELEMENTS: usize = 1 << 16;

/// A statement that is not read: its line and the reason.
#[derive(Debug)]
pub(super) struct Refusal {
    /// Line, counted from 1.
    pub(super) line: usize,
    pub(super) problem: String,
}

/// Value of an expression. Lists and objects are indices into the [`Program`], so that names that
/// share one see each other's changes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum PythonValue {
    Number(f64),
    Text(String),
    None,
    List(usize),
    Object(usize),
}

impl PythonValue {
    fn kind(&self) -> &'static str {
        match self {
            PythonValue::Number(_) => "a number",
            PythonValue::Text(_) => "a string",
            PythonValue::None => "None",
            PythonValue::List(_) => "a list",
            PythonValue::Object(_) => "an object",
        }
    }
}

/// An object of parameters.
#[derive(Debug)]
pub(super) struct Object {
    /// Class name in lower case, without `param` and underscores: `wfs` for `Param_wfs` and
    /// `ParamWfs`.
    pub(super) class: String,
    /// Line of its construction.
    pub(super) line: usize,
    /// Fields that were set, each with its line.
    pub(super) fields: HashMap<String, (PythonValue, usize)>,
}

/// Names, lists and objects of a file.
#[derive(Debug, Default)]
pub(super) struct Program {
    names: HashMap<String, PythonValue>,
    lists: Vec<Vec<PythonValue>>,
    pub(super) objects: Vec<Object>,
}

impl Program {
    /// Returns the value of a name.
    pub(super) fn name(&self, name: &str) -> Option<&PythonValue> {
        self.names.get(name)
    }

    /// Returns the elements of a list, or the value itself if it is no list.
    pub(super) fn elements<'v>(&'v self, value: &'v PythonValue) -> &'v [PythonValue] {
        match value {
            PythonValue::List(list) => &self.lists[*list],
            other => std::slice::from_ref(other),
        }
    }

    fn list(&mut self, elements: Vec<PythonValue>) -> Result<PythonValue, String> {
        // The limit is on all lists together, because a short file may double a list repeatedly.
        if elements.len() + self.lists.iter().map(Vec::len).sum::<usize>() > MOST_ELEMENTS {
            return Err(format!("lists of more than {MOST_ELEMENTS} elements together"));
        }
        self.lists.push(elements);
        Ok(PythonValue::List(self.lists.len() - 1))
    }

    fn object(&mut self, class: &str, line: usize) -> PythonValue {
        let class = class.trim_start_matches("Param").replace('_', "").to_ascii_lowercase();
        self.objects.push(Object { class, line, fields: HashMap::new() });
        PythonValue::Object(self.objects.len() - 1)
    }

    /// Returns the field of an object, as `get_NAME()` and the attribute do.
    fn field(&self, of: &PythonValue, name: &str) -> Result<PythonValue, String> {
        let PythonValue::Object(object) = of else {
            return Err(format!("'.{name}' of {}: only objects Param*() have attributes here", of.kind()));
        };
        let found = self.objects[*object].fields.get(name).map(|(value, _)| value.clone());
        found.ok_or_else(|| format!("'.{name}' was not set before: this reader has no defaults"))
    }

    fn set(&mut self, of: &PythonValue, name: &str, value: PythonValue, line: usize) -> Result<(), String> {
        let PythonValue::Object(object) = of else {
            return Err(format!("set_{name}() of {}: only objects Param*() have it here", of.kind()));
        };
        self.objects[*object].fields.insert(name.to_owned(), (value, line));
        Ok(())
    }

    fn append(&mut self, to: &PythonValue, value: PythonValue) -> Result<(), String> {
        let PythonValue::List(list) = *to else {
            return Err(format!("append() to {}", to.kind()));
        };
        if self.lists.iter().map(Vec::len).sum::<usize>() >= MOST_ELEMENTS {
            return Err(format!("lists of more than {MOST_ELEMENTS} elements together"));
        }
        self.lists[list].push(value);
        Ok(())
    }

    fn index(&self, of: &PythonValue, at: &PythonValue) -> Result<PythonValue, String> {
        let (PythonValue::List(list), PythonValue::Number(at)) = (of, at) else {
            return Err(format!("{} with {} as index", of.kind(), at.kind()));
        };
        let elements = &self.lists[*list];
        let place = if *at < 0.0 { at + elements.len() as f64 } else { *at };
        let found = (place.fract() == 0.0 && place >= 0.0).then(|| elements.get(place as usize)).flatten();
        found.cloned().ok_or_else(|| format!("index {at} of a list of {} elements", elements.len()))
    }

    /// Evaluates `a OP b`.
    fn operate(&mut self, a: &PythonValue, operator: &str, b: &PythonValue) -> Result<PythonValue, String> {
        match (a, operator, b) {
            (PythonValue::Number(a), _, PythonValue::Number(b)) => {
                let result = match operator {
                    "+" => a + b,
                    "-" => a - b,
                    "*" => a * b,
                    "**" => a.powf(*b),
                    "/" => a / b,
                    "//" => (a / b).floor(),
                    // In Python the result has the sign of the divisor.
                    _ => a - b * (a / b).floor(),
                };
                let finite = result.is_finite().then_some(PythonValue::Number(result));
                finite.ok_or_else(|| format!("{a} {operator} {b} is not a finite number"))
            }
            (PythonValue::List(_), "+", PythonValue::List(_)) => {
                let both = [self.elements(a), self.elements(b)].concat();
                self.list(both)
            }
            (PythonValue::List(_), "*", PythonValue::Number(times))
            | (PythonValue::Number(times), "*", PythonValue::List(_)) => {
                let list = if matches!(a, PythonValue::List(_)) { a } else { b };
                let elements = self.elements(list);
                let count = times.max(0.0) * elements.len() as f64;
                if times.fract() != 0.0 || count > MOST_ELEMENTS as f64 {
                    return Err(format!("a list of {} elements times {times}", elements.len()));
                }
                let repeated = elements.iter().cycle().take(count as usize).cloned().collect();
                self.list(repeated)
            }
            _ => Err(format!("{} {operator} {}", a.kind(), b.kind())),
        }
    }
}
