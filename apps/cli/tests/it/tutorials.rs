//! The commands of the tutorials, as a reader would type them, one page after the other in a folder
//! of its own.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::{collect, zellige};

/// Returns the shell blocks of a page, in order.
fn commands(page: &str) -> String {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"));
    let text = std::fs::read_to_string(folder.join(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
    let mut script = String::from("set -eu\n");
    let mut inside = false;
    for line in text.lines() {
        match (inside, line) {
            (false, "```sh") => inside = true,
            (true, "```") => inside = false,
            (true, line) => script.extend([line, "\n"]),
            _ => {}
        }
    }
    assert!(script.contains("zellige "), "{page} has no command");
    script
}

/// Runs all blocks of a page. Every one must end with 0 and leave these files.
#[track_caller]
fn runs(page: &str, leaves: &[&str]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // The environment of the command, with the command itself on the path.
    let command = zellige(folder.path());
    let binaries = Path::new(command.get_program()).parent().expect("a folder").to_owned();
    let path = std::env::join_paths(
        std::iter::once(binaries).chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &commands(page)]).current_dir(folder.path()).stdin(Stdio::null());
    shell.env("XDG_CACHE_HOME", folder.path().join(".cache")).env("PATH", path.expect("a path"));
    let child = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a shell");
    collect(child, Duration::from_secs(300)).expect(0);
    for file in leaves {
        assert!(folder.path().join(file).exists(), "{page}: no {file}");
    }
}

#[test]
fn a_reconstructor() {
    runs("tutorials/reconstructor.md", &["mine.html", "mine.json", "R.fits"]);
}

#[test]
fn a_long_exposure() {
    runs("tutorials/loop.md", &["loop.html", "loop.json"]);
}

#[test]
fn a_sparse_system() {
    runs("tutorials/sparse-system.md", &["x.npy", "solve.html", "solve.json"]);
}

#[test]
fn pulse_shapes() {
    runs("tutorials/pulse-shapes.md", &["basis", "events", "hits.json", "psa.html"]);
}

#[test]
fn a_lattice() {
    runs("tutorials/lattice.md", &["field.lat", "propagator.html", "propagator.json"]);
}

#[test]
fn installation() {
    runs("how-to/install.md", &[]);
}
