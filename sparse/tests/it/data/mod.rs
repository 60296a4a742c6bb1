//! Matrices that are not in this repository.

use std::path::PathBuf;

/// A file of the external test data (`ZELLIGE_TEST_DATA`, or `shared/data` beside the checkout), or `None` with a printed line.
pub fn test_data(name: &str) -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data");
    let root = std::env::var_os("ZELLIGE_TEST_DATA").map_or_else(|| PathBuf::from(beside), PathBuf::from);
    let path = root.join("sparse").join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: no test data at {} (set ZELLIGE_TEST_DATA)", path.display());
    None
}
