//! A section in a file: its name, its length, and a value that serde supports.

use std::io::{self, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ReadError;

pub(super) fn write_section(out: &mut impl Write, name: &str, value: &impl Serialize) -> io::Result<()> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).map_err(io::Error::other)?;
    out.write_all(name.as_bytes())?;
    out.write_all(&(bytes.len() as u64).to_le_bytes())?;
    out.write_all(&bytes)
}

/// Takes the next bytes off; `None` if there are fewer.
pub(super) fn take<'b>(bytes: &mut &'b [u8], count: u64) -> Option<&'b [u8]> {
    let (head, tail) = bytes.split_at_checked(usize::try_from(count).ok()?)?;
    *bytes = tail;
    Some(head)
}

pub(super) fn take_number<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    take(bytes, N as u64)?.try_into().ok()
}

/// Returns the content of the section that has to come next.
pub(super) fn take_section<'b>(bytes: &mut &'b [u8], section: &'static str) -> Result<&'b [u8], ReadError> {
    let cut = ReadError::Truncated(section.trim_end());
    let Some(name) = take_number::<4>(bytes) else { return Err(cut) };
    if name != section.as_bytes() {
        let found = String::from_utf8_lossy(&name).trim_end().escape_debug().to_string();
        return Err(ReadError::Section { expected: section.trim_end(), found: format!("{found:?}") });
    }
    let length = take_number(bytes).map(u64::from_le_bytes);
    length.and_then(|length| take(bytes, length)).ok_or(cut)
}

pub(super) fn read_section<T: DeserializeOwned>(
    bytes: &mut &[u8],
    section: &'static str,
) -> Result<T, ReadError> {
    let mut content = take_section(bytes, section)?;
    let wrong = |problem: String| ReadError::Content { section: section.trim_end(), problem };
    let value = ciborium::from_reader(&mut content).map_err(|error| wrong(error.to_string()))?;
    match content.len() {
        0 => Ok(value),
        left => Err(wrong(format!("{left} bytes too many"))),
    }
}
