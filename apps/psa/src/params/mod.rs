//! Text files that users write: crystals, arrays of crystals, and parameters of result folders.

pub(crate) mod array;
pub(crate) mod crystal;
pub(crate) mod siggen;

use std::io;
use std::path::Path;

use crate::Error;
pub use crystal::EXAMPLE;

/// Reads a text file of parameters. `missing` is the error message if the file does not exist.
pub(crate) fn read_toml<T: serde::de::DeserializeOwned>(path: &Path, missing: &str) -> Result<T, Error> {
    /// Size limit (bytes), more than any of our files of parameters.
    const MOST: u64 = 1 << 20;
    let wrong = |line, problem| Error::Text { path: path.to_owned(), line, problem };
    let text = zellige_files::read_text(path, MOST).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => wrong(None, missing.to_owned()),
        _ => Error::File { path: path.to_owned(), problem: "cannot read", source },
    })?;
    toml::from_str(&text).map_err(|e| {
        let line =
            e.span().map(|span| 1 + text.bytes().take(span.start).filter(|&byte| byte == b'\n').count());
        wrong(line, e.message().to_owned())
    })
}
