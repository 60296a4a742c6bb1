//! Named results of a trial.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

/// Longest array whose elements become measures.
const ARRAY: usize = 64;

/// One result of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Measure {
    /// Value.
    pub value: f64,
    /// Standard error; 0 if the value is not that of a sample.
    #[serde(skip_serializing_if = "is_zero")]
    pub error: f64,
}

fn is_zero(error: &f64) -> bool {
    *error == 0.0
}

/// Named results of a trial. Values that are not finite are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Measures {
    map: BTreeMap<String, Measure>,
}

impl Measures {
    /// Collects the numbers of a JSON value. Names of nested objects are joined by dots, elements
    /// of short arrays are named by their index, and other characters than letters and digits
    /// become `_`. Truth values are 1 and 0. An object with the members `value` and `error` alone
    /// is one measure with its standard error.
    pub fn from_json(value: &Value) -> Self {
        let mut measures = Measures::default();
        measures.collect("", value);
        measures
    }

    fn collect(&mut self, path: &str, value: &Value) {
        match value {
            Value::Number(number) => self.insert(path, number.as_f64().unwrap_or(f64::NAN), 0.0),
            Value::Bool(value) => self.insert(path, f64::from(*value), 0.0),
            Value::Object(object) => {
                let number = |name: &str| object.get(name).and_then(Value::as_f64);
                match (number("value"), number("error"), object.len()) {
                    (Some(value), Some(error), 2) => self.insert(path, value, error),
                    _ => object.iter().for_each(|(name, value)| self.collect(&join(path, name), value)),
                }
            }
            Value::Array(array) if array.len() <= ARRAY => {
                array
                    .iter()
                    .enumerate()
                    .for_each(|(at, value)| self.collect(&join(path, &at.to_string()), value));
            }
            _ => {}
        }
    }

    /// Sets a measure with its standard error, 0 for values that are not those of a sample.
    pub fn insert(&mut self, name: impl Into<String>, value: f64, error: f64) {
        if value.is_finite() && error.is_finite() {
            self.map.insert(name.into(), Measure { value, error: error.abs() });
        }
    }

    /// Returns a measure.
    pub fn get(&self, name: &str) -> Option<Measure> {
        self.map.get(name).copied()
    }

    /// Returns all measures in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Measure)> {
        self.map.iter().map(|(name, measure)| (&**name, *measure))
    }

    /// Returns all names.
    pub fn names(&self) -> Vec<String> {
        self.map.keys().cloned().collect()
    }
}

impl<N: Into<String>, const K: usize> From<[(N, f64); K]> for Measures {
    fn from(values: [(N, f64); K]) -> Self {
        let mut measures = Measures::default();
        values.into_iter().for_each(|(name, value)| measures.insert(name, value, 0.0));
        measures
    }
}

fn join(path: &str, name: &str) -> String {
    let clean = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = name.chars().map(clean).collect();
    if path.is_empty() { name } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_json_are_flat() {
        let json = serde_json::json!({
            "a": {"b": 1, "c": [2.5, {"d": true}], "text": "no"},
            "share": {"value": 0.5, "error": 0.1},
            "fp64 seconds": 3,
            "long": vec![0; ARRAY + 1],
            "nothing": null,
        });
        let measures = Measures::from_json(&json);
        assert_eq!(measures.names(), ["a.b", "a.c.0", "a.c.1.d", "fp64_seconds", "share"]);
        assert_eq!(measures.get("share"), Some(Measure { value: 0.5, error: 0.1 }));
        assert_eq!(measures.get("a.c.1.d"), Some(Measure { value: 1.0, error: 0.0 }));
    }
}
