//! Text files that users write: crystals, arrays of crystals, maps of channels, and parameters of
//! result folders.

mod array;
mod channel_map;
mod crystal;
mod siggen;

use std::io;
use std::path::Path;

use crate::Error;
use crate::crystal::Crystal;

pub use array::{parse_array, read_array};
pub use channel_map::{parse_channel_map, read_channel_map};
pub use crystal::{EXAMPLE, parse_crystal, print_crystal};

/// Reads a crystal from a file. It is a TOML file ([`EXAMPLE`] shows
/// its keys) or greta_siggen's configuration of a hexagonal crystal. A configuration has a name
/// that ends in `.config`, and the files that it names are read with it.
///
/// # Errors
/// [`Error::File`] if a file cannot be read, [`Error::Text`] with the line if its text is
/// invalid, [`Error::Parameter`] if the crystal is impossible.
pub fn read_crystal(path: &Path) -> Result<Crystal, Error> {
    if siggen::is_config(path) { siggen::read(path) } else { crystal::read(path) }
}

/// Reads a text file of parameters. `missing` is the error message if the file does not exist.
pub(crate) fn read_toml<T: serde::de::DeserializeOwned>(path: &Path, missing: &str) -> Result<T, Error> {
    /// Size limit (bytes), more than any of our files of parameters.
    const MOST: u64 = 1 << 20;
    let text = zellige_files::read_text(path, MOST).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => {
            Error::Text { path: path.to_owned(), line: None, problem: missing.to_owned() }
        }
        _ => Error::system(path, "cannot read", source),
    })?;
    parse_toml(path, &text)
}

/// Parses TOML; errors call the file `name`, and give the line.
fn parse_toml<T: serde::de::DeserializeOwned>(name: &Path, text: &str) -> Result<T, Error> {
    toml::from_str(text).map_err(|e| {
        let line =
            e.span().map(|span| 1 + text.bytes().take(span.start).filter(|&byte| byte == b'\n').count());
        Error::Text { path: name.to_owned(), line, problem: e.message().to_owned() }
    })
}
