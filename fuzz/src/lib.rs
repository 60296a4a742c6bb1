//! Helpers that several targets share.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A folder of this process for files that are read by name; scripts/fuzz clears them away.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("zellige-fuzz-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for inputs");
        folder
    })
}

/// The input as a file with this name.
pub fn file(name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder().join(name);
    std::fs::write(&path, bytes).expect("the input as a file");
    path
}

/// The text of an input; none for bytes that are no text, which readers of text refuse before they
/// begin.
pub fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Panics of code from `owner` alone are caught by the reader that calls it: they are no findings.
pub fn allow_panics_of(owner: &'static str) {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !panic.location().is_some_and(|place| place.file().contains(owner)) {
            hook(panic);
        }
    }));
}

/// Returns a gauge field file, for inputs that pass the checks of lengths and of links. The first
/// byte says whether the others are the file, or changes of a `valid` one. Changes are groups of
/// four bytes: a position of 24 bits, and the byte to put there. A position beyond the end
/// truncates the file at the position modulo its length plus one.
pub fn changed(bytes: &[u8], valid: &[u8]) -> Option<Vec<u8>> {
    let (kind, bytes) = bytes.split_first()?;
    if kind % 2 == 0 {
        return Some(bytes.to_vec());
    }
    let mut file = valid.to_vec();
    for change in bytes.chunks_exact(4) {
        let at = u32::from_le_bytes([change[0], change[1], change[2], 0]) as usize;
        match file.get_mut(at) {
            Some(byte) => *byte = change[3],
            None => file.truncate(at % (file.len() + 1)),
        }
    }
    Some(file)
}
