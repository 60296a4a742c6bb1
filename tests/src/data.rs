//! Location of test data that are no part of the project: published systems, matrices, detector
//! files.
//!
//! The environment variable `ZELLIGE_TEST_DATA` names their folder. Without it such a test is
//! skipped: it prints so, and adds its name as one line to the file that `ZELLIGE_SKIPPED` names,
//! so that `scripts/test` can count.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Returns a file or folder of the external test data; `None`, with a printed line, if the project
/// is tested without them.
///
/// # Panics
///
/// If `ZELLIGE_TEST_DATA` is set and the file is missing from it: promised data have to be
/// complete.
#[track_caller]
pub fn data(relative: &str) -> Option<PathBuf> {
    let root = std::env::var_os("ZELLIGE_TEST_DATA").filter(|root| !root.is_empty()).map(PathBuf::from);
    let test = test();
    let found = find(root.as_deref(), relative);
    if let Err(missing) = &found {
        report(&test, missing, std::env::var_os("ZELLIGE_SKIPPED").map(PathBuf::from).as_deref());
        assert!(root.is_none(), "{missing}: complete the folder, or unset ZELLIGE_TEST_DATA");
    }
    found.ok()
}

/// Prints that a test is skipped because an external program is not installed.
#[track_caller]
pub fn skipped(missing: &str) {
    report(&test(), missing, std::env::var_os("ZELLIGE_SKIPPED").map(PathBuf::from).as_deref());
}

/// Returns the name of the calling test.
#[track_caller]
fn test() -> String {
    match std::thread::current().name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => std::panic::Location::caller().file().to_owned(),
    }
}

/// Returns the file, or a description of the missing one.
fn find(root: Option<&Path>, relative: &str) -> Result<PathBuf, String> {
    let root = root.ok_or_else(|| format!("ZELLIGE_TEST_DATA is not set ({relative})"))?;
    let path = root.join(relative);
    if path.exists() { Ok(path) } else { Err(format!("no {} in ZELLIGE_TEST_DATA", path.display())) }
}

/// Tests of this process that have been reported: each is, once.
static REPORTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Prints that a test is skipped, and adds it to the list of those.
fn report(test: &str, missing: &str, list: Option<&Path>) {
    if !REPORTED.lock().unwrap_or_else(PoisonError::into_inner).insert(test.to_owned()) {
        return;
    }
    eprintln!("skipped: {test}: {missing}");
    let Some(list) = list else { return };
    // One write of one line: tests of several processes append to the same file.
    let written = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(list)
        .and_then(|mut file| file.write_all(format!("{test}: {missing}\n").as_bytes()));
    written.unwrap_or_else(|error| panic!("cannot write ZELLIGE_SKIPPED={}: {error}", list.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("here"), "").expect("a file");
        assert_eq!(find(Some(folder.path()), "here"), Ok(folder.path().join("here")));
        let missing = find(Some(folder.path()), "a/b.npy").expect_err("nothing");
        assert!(missing.contains("a/b.npy") && missing.contains("ZELLIGE_TEST_DATA"), "{missing}");
        let unset = find(None, "a/b.npy").expect_err("nothing");
        assert!(unset.contains("not set") && unset.contains("a/b.npy"), "{unset}");
    }

    #[test]
    fn a_test_is_listed_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let list = folder.path().join("skipped");
        for test in ["one", "two", "one"] {
            report(test, "nothing there", Some(&list));
        }
        let text = std::fs::read_to_string(&list).expect("a list");
        assert_eq!(text, "one: nothing there\ntwo: nothing there\n");
    }
}
