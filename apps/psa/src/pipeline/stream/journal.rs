//! Progress of a stream, kept in a file next to an output until the output is complete.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::files::write_whole;
use crate::params::read_toml;

const FORMAT: &str = "zellige psa stream 1";

/// Positions in input and output up to which all events are answered and written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    format: String,
    /// Name of the input.
    pub input: String,
    /// Number of bytes of the input that are processed.
    pub offset: u64,
    /// Number of frames of the input that are processed.
    pub frames: u64,
    /// Number of bytes of the output.
    pub written: u64,
}

impl Journal {
    /// Creates a journal at the beginning of an input.
    pub fn new(input: &str) -> Journal {
        Journal { format: FORMAT.into(), input: input.into(), ..Journal::default() }
    }

    /// Returns the path of the journal of an output.
    pub fn path(output: &Path) -> PathBuf {
        let mut name = output.as_os_str().to_owned();
        name.push(".resume");
        name.into()
    }

    /// Reads the journal of an output; `None` if there is none, for example because the output was
    /// finished.
    ///
    /// # Errors
    /// [`Error::Text`] for a file with other content, [`Error::File`] if it cannot be read.
    pub fn read(output: &Path) -> Result<Option<Journal>, Error> {
        let path = Journal::path(output);
        if !path.exists() {
            return Ok(None);
        }
        let journal: Journal = read_toml(&path, "the file is missing")?;
        if journal.format != FORMAT {
            let problem = format!("format {:?} is not supported; {FORMAT:?} is", journal.format);
            return Err(Error::Text { path, line: None, problem });
        }
        Ok(Some(journal))
    }

    /// Writes the journal atomically.
    ///
    /// # Errors
    /// [`Error::File`] if this fails.
    pub fn write(&self, output: &Path) -> Result<(), Error> {
        let text = toml::to_string(self).expect("numbers and words are TOML");
        write_whole(&Journal::path(output), |out| out.write_all(text.as_bytes()))
    }
}
