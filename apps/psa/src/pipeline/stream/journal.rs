//! How far a stream has come: what lies beside an output until it is whole.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::files::write_whole;
use crate::params::read_toml;

const FORMAT: &str = "zellige psa stream 1";

/// Where input and output stand when everything before is answered and written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    format: String,
    /// The input, as it was named.
    pub input: String,
    /// Bytes of it that are done with.
    pub offset: u64,
    /// Frames of it that are done with.
    pub frames: u64,
    /// Bytes of the output.
    pub written: u64,
}

impl Journal {
    /// At the beginning of an input.
    pub fn new(input: &str) -> Journal {
        Journal { format: FORMAT.into(), input: input.into(), ..Journal::default() }
    }

    /// The file beside an output.
    pub fn path(output: &Path) -> PathBuf {
        let mut name = output.as_os_str().to_owned();
        name.push(".resume");
        name.into()
    }

    /// What was kept beside an output; none where nothing was, or the output was finished.
    ///
    /// # Errors
    /// [`Error::Text`] for a file that says something else, [`Error::File`].
    pub fn read(output: &Path) -> Result<Option<Journal>, Error> {
        let path = Journal::path(output);
        if !path.exists() {
            return Ok(None);
        }
        let journal: Journal = read_toml(&path, "it is gone")?;
        if journal.format != FORMAT {
            let problem = format!("format {:?} where {FORMAT:?} is known", journal.format);
            return Err(Error::Text { path, line: None, problem });
        }
        Ok(Some(journal))
    }

    /// Keeps it, in one step.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write(&self, output: &Path) -> Result<(), Error> {
        let text = toml::to_string(self).expect("numbers and words are TOML");
        write_whole(&Journal::path(output), |out| out.write_all(text.as_bytes()))
    }
}
