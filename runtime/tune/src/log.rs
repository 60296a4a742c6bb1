//! Log of trials on disk: a line of JSON for each.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::Error;
use crate::measures::{Measure, Measures};
use crate::space::{Assignment, Space};
use crate::trials::{Data, Run};

/// An open log. Each line is written by one call and counts only with its newline, so that a killed
/// process loses the trials that were running and no others.
#[derive(Debug)]
pub(crate) struct Log {
    path: PathBuf,
    file: File,
}

/// Description of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Subject {
    Formats(Assignment),
    /// Name of a trial outside of the space.
    Other(String),
}

/// A trial of a log.
pub(crate) type Logged = (Data, Subject, Run);

/// First line: the search that the trials belong to.
#[derive(Serialize)]
struct Header<'h> {
    log: &'static str,
    subject: &'h str,
    /// Names of formats by item.
    items: Map<String, Value>,
}

/// Line of a trial.
#[derive(Serialize, Deserialize)]
struct Line {
    data: Data,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    formats: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    other: Option<String>,
    seconds: f64,
    /// Measures as text such as `0.5` or `0.5 +- 0.01`. As numbers they could lose their last bit,
    /// and a search that goes on must judge as the first one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    measures: Option<Map<String, Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failed: Option<String>,
}

impl Log {
    /// Opens a log, or creates it; returns the trials that it has. An incomplete last line is
    /// removed.
    pub fn open(path: &Path, subject: &str, space: &Space) -> Result<(Log, Vec<Logged>), Error> {
        let fail = |problem: String| Error::Log { path: path.to_owned(), problem };
        let system = |error: std::io::Error| fail(error.to_string());
        let mut options = OpenOptions::new();
        let mut file =
            options.read(true).write(true).create(true).truncate(false).open(path).map_err(system)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(system)?;
        let complete = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let header = header(subject, space);
        let mut lines = bytes[..complete].split_inclusive(|&byte| byte == b'\n');
        match lines.next() {
            Some(first) if first != header.as_bytes() => {
                let problem =
                    "the trials of another search, with other items or another subject: name another file";
                return Err(fail(problem.into()));
            }
            None if !header.as_bytes().starts_with(&bytes) => {
                return Err(fail("not a log of trials: name another file".into()));
            }
            _ => {}
        }
        let mut runs = Vec::new();
        for (at, line) in lines.enumerate() {
            let read = parse(line, space)
                .ok_or_else(|| fail(format!("line {} is not a trial of this search", at + 2)))?;
            runs.push(read);
        }
        file.set_len(complete as u64).map_err(system)?;
        file.seek(SeekFrom::End(0)).map_err(system)?;
        let mut log = Log { path: path.to_owned(), file };
        if complete == 0 {
            log.append(&header)?;
        }
        Ok((log, runs))
    }

    /// Appends a trial.
    pub fn write(&mut self, data: Data, subject: &Subject, run: &Run) -> Result<(), Error> {
        let names = |formats: &Assignment| {
            formats.iter().map(|(item, format)| (item.name.clone(), format.name.clone().into())).collect()
        };
        let (formats, other) = match subject {
            Subject::Formats(formats) => (Some(names(formats)), None),
            Subject::Other(name) => (None, Some(name.clone())),
        };
        let line = Line {
            data,
            formats,
            other,
            seconds: run.seconds,
            measures: run.result.as_ref().ok().map(write_measures),
            failed: run.result.as_ref().err().cloned(),
        };
        self.append(&json(&line))
    }

    fn append(&mut self, line: &str) -> Result<(), Error> {
        let fail = |error: std::io::Error| Error::Log { path: self.path.clone(), problem: error.to_string() };
        self.file.write_all(line.as_bytes()).map_err(fail)
    }
}

fn header(subject: &str, space: &Space) -> String {
    let formats = |item: &crate::space::Item| {
        item.formats.iter().map(|format| Value::from(format.name.clone())).collect::<Vec<_>>()
    };
    let items = space.items().iter().map(|item| (item.name.clone(), formats(item).into()));
    json(&Header { log: "zellige tune 1", subject, items: items.collect() })
}

/// A value as one line.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("maps have names of text, and numbers are finite") + "\n"
}

fn parse(line: &[u8], space: &Space) -> Option<Logged> {
    let line: Line = serde_json::from_slice(line).ok()?;
    let subject = match (line.formats, line.other) {
        (Some(formats), None) => {
            let names: Option<Vec<_>> =
                formats.iter().map(|(item, format)| Some((&**item, format.as_str()?))).collect();
            Subject::Formats(space.assignment(names?).ok()?)
        }
        (None, Some(name)) => Subject::Other(name),
        _ => return None,
    };
    let result = match (line.measures, line.failed) {
        (Some(measures), None) => Ok(read_measures(&measures)?),
        (None, Some(reason)) => Err(reason),
        _ => return None,
    };
    Some((line.data, subject, Run { result, seconds: line.seconds }))
}

/// Separates a value from its standard error.
const ERROR: &str = " +- ";

fn write_measures(measures: &Measures) -> Map<String, Value> {
    let text = |measure: Measure| match measure.error {
        0.0 => format!("{:?}", measure.value),
        error => format!("{:?}{ERROR}{error:?}", measure.value),
    };
    measures.iter().map(|(name, measure)| (name.to_string(), text(measure).into())).collect()
}

fn read_measures(map: &Map<String, Value>) -> Option<Measures> {
    let mut measures = Measures::default();
    for (name, text) in map {
        let text = text.as_str()?;
        let (value, error) = text.split_once(ERROR).unwrap_or((text, "0"));
        measures.insert(name, value.parse().ok()?, error.parse().ok()?);
    }
    Some(measures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_come_back_to_the_last_bit() {
        let mut measures = Measures::default();
        let mut x = 0.1f64;
        for at in 0..2000 {
            x = (x * 997.0 + 0.123_456_789).fract();
            measures.insert(
                at.to_string(),
                x * 10f64.powi(at % 40 - 20),
                if at % 3 == 0 { x * 1e-9 } else { 0.0 },
            );
        }
        let line = json(&write_measures(&measures));
        let read: Map<String, Value> = serde_json::from_str(&line).expect("a map");
        assert_eq!(read_measures(&read), Some(measures));
    }
}
