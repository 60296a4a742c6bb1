//! Types of the files that a command reads and writes. [`super::check()`] finds them by type in the
//! options of any verb.

use std::ffi::OsString;
use std::io::Write;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use anyhow::Context;
use zellige_files::Destination;

use crate::out;

/// Path of a file or folder to read; `-` is standard input if the option supports it.
#[derive(Clone, Debug)]
pub struct Input(PathBuf);

/// Path of a file to write, or `-` for standard output.
#[derive(Clone, Debug)]
pub struct Output(PathBuf);

/// Path of a file in a format that needs a regular file: no `-`, no device.
#[derive(Clone, Debug)]
pub struct OutputFile(PathBuf);

/// Path of a folder to write files to.
#[derive(Clone, Debug)]
pub struct OutputFolder(PathBuf);

macro_rules! paths {
    ($($name:ident)*) => {
        $(
            impl From<OsString> for $name {
                fn from(name: OsString) -> Self {
                    Self(name.into())
                }
            }

            impl Deref for $name {
                type Target = Path;

                fn deref(&self) -> &Path {
                    &self.0
                }
            }
        )*
    };
}
paths!(Input Output OutputFile OutputFolder);

impl Output {
    /// Returns true for standard output.
    pub fn is_stdout(&self) -> bool {
        [Path::new("-"), Path::new("/dev/stdout")].contains(&&*self.0)
    }

    /// Returns true for a file that is replaced as a whole, which can be written several times.
    pub fn is_file(&self) -> bool {
        !self.is_stdout() && Destination::new(self).is_ok_and(|to| to.is_regular())
    }

    /// Writes the whole content through `body`. A file appears under its name when it is complete,
    /// or not at all.
    ///
    /// # Errors
    /// The disk is full, the folder was removed, ...
    pub fn write(&self, body: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> anyhow::Result<()> {
        if self.is_stdout() {
            let mut bytes = Vec::new();
            body(&mut bytes).context("cannot compose the output")?;
            return out::print_bytes(&bytes);
        }
        OutputFile(self.0.clone()).write(body)
    }

    /// Writes a value as JSON for readers.
    ///
    /// # Errors
    /// The errors of [`Output::write`].
    pub fn write_json(&self, value: &impl serde::Serialize) -> anyhow::Result<()> {
        let text = zellige_app::json::text(value).context("cannot write the result as JSON")?;
        self.write(|out| out.write_all(text.as_bytes()))
    }
}

impl OutputFile {
    /// Writes the whole content through `body`: the file appears when it is complete, or not at
    /// all.
    ///
    /// # Errors
    /// The disk is full, the folder was removed, ...
    pub fn write(&self, body: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> anyhow::Result<()> {
        zellige_files::write_whole(self, |file| body(file)).with_context(|| self.display().to_string())
    }
}

/// Returns a parser of names with one of these endings, each of which stands for a format.
pub fn with_ending(endings: &'static [&'static str]) -> impl Fn(&str) -> Result<OutputFile, String> + Clone {
    move |name| match endings.iter().any(|ending| name.to_ascii_lowercase().ends_with(ending)) {
        true => Ok(OutputFile(name.into())),
        false => Err(format!("the ending of the name determines the format: use {}", endings.join(", "))),
    }
}
