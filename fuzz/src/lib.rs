//! What several targets need.

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

/// The text of an input; none for bytes that are no text, which readers of text refuse before they begin.
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
