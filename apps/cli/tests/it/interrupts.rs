//! Ctrl-C at any time: exit code 130, a message, no file.

use crate::common::{collect, folder, left, zellige};
use std::process::{Child, Stdio};
use std::time::Duration;

fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// A run that takes much longer than the test lets it.
fn long(verb: &str, folder: &std::path::Path) -> Child {
    let mut command = zellige(folder);
    match verb {
        "run" => command.args([
            "tor",
            "run",
            "small.toml",
            "--precision",
            "fp32",
            "--precision",
            "hp1:operand=1e-2",
        ]),
        verb => command.args(["tor", verb, "small.toml"]),
    };
    if verb == "run" {
        command.args(["--json", "x.json", "--trace", "t.json"]);
    }
    // Two workers need long on any machine.
    command.args(["--workers", "2", "-o", "R.fits"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    for (verb, delay) in [("run", 300), ("run", 1500), ("run", 2500), ("build", 1500), ("cov", 1000)] {
        let folder = folder(32);
        let child = long(verb, folder.path());
        std::thread::sleep(Duration::from_millis(delay));
        signal(&child, rustix::process::Signal::INT);
        let ran = collect(child, Duration::from_secs(20)).expect(130).says("interrupted");
        assert!(ran.stdout.is_empty(), "{verb}, after {delay} ms: {ran:#?}");
        assert!(left(folder.path()).is_empty(), "{verb}, after {delay} ms: {:?}", left(folder.path()));
    }
}

#[test]
fn a_second_one_ends_it_at_once() {
    let folder = folder(32);
    let child = long("run", folder.path());
    std::thread::sleep(Duration::from_millis(800));
    for _ in 0..2 {
        signal(&child, rustix::process::Signal::INT);
        // Two signals of a kind at once are one to the system.
        std::thread::sleep(Duration::from_millis(50));
    }
    collect(child, Duration::from_secs(20)).expect(130).says("interrupted");
    assert!(left(folder.path()).is_empty());
}

#[test]
fn a_request_to_end_is_the_same() {
    let folder = folder(32);
    let child = long("run", folder.path());
    std::thread::sleep(Duration::from_millis(800));
    signal(&child, rustix::process::Signal::TERM);
    collect(child, Duration::from_secs(20)).expect(130);
    assert!(left(folder.path()).is_empty());
}
