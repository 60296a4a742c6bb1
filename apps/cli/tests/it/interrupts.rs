//! Ctrl-C at any time: exit code 130, a message, no file.

use crate::common::{collect, folder, left, ok, words, zellige};
use std::process::{Child, Stdio};
use std::time::Duration;
use zellige_tests::every;
use zellige_tor::files::SlopeOrder;
use zellige_tor::learn::read_slopes;
use zellige_tor::params::{self, Mode};

/// Returns whether a process has its handler for Ctrl-C; before that, the system ends it.
fn listens(child: &Child) -> bool {
    let Ok(text) = std::fs::read_to_string(format!("/proc/{}/status", child.id())) else { return true };
    let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.is_none_or(|mask| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 2 != 0))
}

/// Sends a signal, once the command has its handler.
fn signal(child: &Child, signal: rustix::process::Signal) {
    while !listens(child) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Starts a run that takes much longer than the test.
fn long(verb: &str, folder: &std::path::Path) -> Child {
    let mut command = zellige(folder);
    match verb {
        "run" => command.args(words("tor run small.toml --precision fp32 --precision hp1:operand=1e-2")),
        verb => command.args(["tor", verb, "small.toml"]),
    };
    if verb == "run" {
        command.args(["--json", "x.json", "--trace", "t.json"]);
    }
    // With two workers the run is long on any machine.
    command.args(["--workers", "2", "-o", "R.fits"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    // Two workers compute during the whole run.
    let all = [
        ("run", 300),
        ("run", 2500),
        ("run", 1500),
        ("build", 1500),
        ("build", 800),
        ("cov", 1000),
        ("cov", 500),
    ];
    for (verb, delay) in all.into_iter().step_by(every(2)) {
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
        // The system merges two equal signals that are pending at once.
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

/// Sends Ctrl-C after a delay to a long command.
fn interrupted(folder: &std::path::Path, line: &str, delay: u64) -> crate::common::Ran {
    let mut command = zellige(folder);
    let child = command.args(line.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(delay));
    signal(&child, rustix::process::Signal::INT);
    collect(child, Duration::from_secs(20)).expect(130)
}

/// Sends Ctrl-C after a longer and longer delay, until `has_begun` says that a slow machine, too,
/// was past its preparations.
fn interrupted_later(
    folder: &std::path::Path,
    line: &str,
    has_begun: impl Fn(&crate::common::Ran) -> bool,
) -> crate::common::Ran {
    let delays = [500, 2000, 6000, 15000, 30000].into_iter();
    delays
        .map(|delay| interrupted(folder, line, delay))
        .find(has_begun)
        .expect("a machine that begins in 30 s")
}

/// A loop that is interrupted keeps the telemetry of its frames.
#[test]
fn telemetry_until_ctrl_c_is_kept() {
    let folder = folder(6);
    let system = params::read(&folder.path().join("small.toml"), None, Mode::Strict).unwrap().system;
    let geometry = zellige_tor::geometry::Geometry::new(&system).unwrap();
    for name in ["t.fits", "t.npz"] {
        let line = format!("tor loop small.toml --mode open --frames 200000 --skip 0 --telemetry {name}");
        let file = folder.path().join(name);
        let frames = |ran: &crate::common::Ran| {
            let said = ran.stderr.lines().find_map(|line| line.strip_suffix(" frames")?.rsplit(' ').next());
            said.map_or(0, |frames| frames.parse::<usize>().unwrap())
        };
        let ran = interrupted_later(folder.path(), &line, |ran| {
            assert_eq!(file.exists(), frames(ran) > 0, "{ran:#?}");
            frames(ran) > 0
        });
        // The file is whole: it has the frames that the message says.
        let slopes = read_slopes(&[file], &geometry, SlopeOrder::Xxyy).unwrap().slopes;
        assert_eq!(slopes.rows(), frames(&ran));
    }
    assert_eq!(left(folder.path()), ["t.fits", "t.npz"].map(std::path::Path::new));
}

/// Readers wait for pipes without data, and Ctrl-C ends them.
#[test]
fn readers_are_interrupted() {
    let folder = folder(4);
    let path = folder.path();
    for name in ["pipe.mtx", "pipe.npy", "pipe.json"] {
        assert!(std::process::Command::new("mkfifo").arg(path.join(name)).status().unwrap().success());
    }
    ok(path, &["matrix", "generate", "flow", "--size", "3", "-o", "a.mtx"]);
    for line in [
        "matrix info pipe.mtx",
        "solve pipe.mtx --json x.json",
        "solve a.mtx -b pipe.npy -o x.npy",
        "spmv pipe.mtx",
        "psa track pipe.json -o gammas",
    ] {
        interrupted(path, line, 400).says("interrupted");
    }
    let there = ["a.mtx", "pipe.json", "pipe.mtx", "pipe.npy"].map(std::path::Path::new);
    assert_eq!(left(path), there);
}

/// Ctrl-C while a file of millions of lines is read, and during a solve.
#[test]
fn long_work_on_matrices_is_interrupted() {
    let folder = folder(4);
    let path = folder.path();
    let mut text = String::from("%%MatrixMarket matrix coordinate real general\n3000000 3000000 3000000\n");
    (1..=3_000_000).for_each(|row| text += &format!("{row} {row} 1.5\n"));
    std::fs::write(path.join("a.mtx"), text).unwrap();
    for (line, delay) in [
        ("matrix info a.mtx", 200),
        ("solve a.mtx -o x.npy --precond amg", 500),
        ("matrix convert a.mtx b.mtx.gz", 900),
    ] {
        interrupted(path, line, delay);
    }
    ok(path, &["matrix", "generate", "stokes", "--size", "10", "-o", "a.mtx"]);
    interrupted(
        path,
        "solve a.mtx --tol 1e-300 --max-steps 100000000 --method minres --precond none -o x.npy",
        1500,
    );
    assert_eq!(left(path), [std::path::Path::new("a.mtx")]);
}

#[test]
fn simulations_of_crystals_are_interrupted() {
    let folder = folder(4);
    for delay in [200, 1500] {
        interrupted(folder.path(), "psa simulate -o basis --workers 2 --grid 1", delay);
        assert!(left(folder.path()).is_empty(), "after {delay} ms: {:?}", left(folder.path()));
    }
    interrupted(folder.path(), "psa track --simulate 100000000 --workers 2", 500);
    assert!(left(folder.path()).is_empty(), "{:?}", left(folder.path()));
}

/// Ctrl-C ends an exposure, of which the frames so far are written.
#[test]
fn a_loop_keeps_the_frames_so_far() {
    let folder = folder(4);
    let line = "tor loop small.toml --mode pseudo-open --frames 50000000 --skip 5 --workers 2 --json x.json --report r.html";
    let ran = interrupted_later(folder.path(), line, |ran| ran.stderr.contains("the results are of"));
    let file = std::fs::read_to_string(folder.path().join("x.json")).unwrap();
    let result = crate::common::result(&file);
    let frames = result["frames"].as_u64().unwrap();
    assert!(frames > 0 && result["complete"] == false, "{result}");
    let strehl = result["targets"][0]["bands"][0]["strehl"].as_f64().unwrap();
    assert!(strehl > 0.0 && strehl < 1.0, "{result}");
    assert!(ran.stdout.contains(&format!("{frames} frames of")), "{ran:#?}");
    assert!(ran.stderr.contains(&format!("{frames} of 50000000 frames")), "{ran:#?}");
    assert_eq!(left(folder.path()), ["r.html", "x.json"].map(std::path::Path::new));
    // Before the first frame of the exposure, nothing is left.
    let none = tempfile::tempdir().unwrap();
    std::fs::write(none.path().join("small.toml"), crate::common::system(4)).unwrap();
    let line = line.replace("--skip 5", "--skip 50000000");
    let ran = interrupted(none.path(), &line, 3000).says("interrupted");
    assert!(ran.stdout.is_empty() && left(none.path()).is_empty(), "{ran:#?}");
}

/// Writes an array with so many copies of the elements of another, along its first axis.
fn repeated(from: &std::path::Path, to: &std::path::Path, copies: usize) {
    let bytes = std::fs::read(from).unwrap();
    let (header, elements) = bytes.split_at(10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]])));
    let text = std::str::from_utf8(&header[10..]).unwrap();
    let (before, shape) = text.split_once("'shape': (").unwrap();
    let (first, rest) = shape.split_once(',').unwrap();
    let longer = first.parse::<usize>().unwrap() * copies;
    let text = format!("{before}'shape': ({longer},{}", rest.trim_end());
    let text = format!("{text:<width$}\n", width = header.len() - 11);
    let mut all = [&header[..10], text.as_bytes()].concat();
    (0..copies).for_each(|_| all.extend_from_slice(elements));
    std::fs::write(to, all).unwrap();
}

/// Ctrl-C during a search of several seconds: while its events are read, a little later, and twice
/// at once.
#[test]
fn searches_are_interrupted() {
    let folder = folder(4);
    let path = folder.path();
    let fixtures = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../psa/tests/fixtures"));
    for (name, copies) in
        [("basis_i16", 1), ("pos_f32", 1), ("events0_keV_f32", 4000), ("events0_energy_keV_f64", 4000)]
    {
        repeated(&fixtures.join(format!("seg00_{name}.npy")), &path.join(format!("{name}.npy")), copies);
    }
    let before = left(path);
    // There is no table of powers of 0.77, so each power is computed.
    let line = "psa run --basis basis_i16.npy --positions pos_f32.npy --events events0_keV_f32.npy \
                --energies events0_energy_keV_f64.npy --p 0.77 --lut none --workers 2 --json x.json --trace t.json \
                --report r.html";
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    for delay in [0, 200] {
        let ran = interrupted(path, &line, delay).says("interrupted");
        assert!(ran.stdout.is_empty(), "after {delay} ms: {ran:#?}");
        assert_eq!(left(path), before, "after {delay} ms");
    }
    let mut command = zellige(path);
    let child = command.args(line.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    for _ in 0..2 {
        signal(&child, rustix::process::Signal::INT);
        std::thread::sleep(Duration::from_millis(50));
    }
    collect(child, Duration::from_secs(20)).expect(130).says("interrupted");
    assert_eq!(left(path), before, "after a second one");
}

/// Standard error is full and writes to it block, but the command still ends.
#[test]
fn a_full_standard_error_keeps_nobody() {
    let folder = folder(16);
    let mut command = zellige(folder.path());
    command.args(["tor", "run", "small.toml", "--log", "trace", "--workers", "2"]);
    let (read, write) = std::io::pipe().unwrap();
    let mut filled = write.try_clone().unwrap();
    rustix::io::ioctl_fionbio(&filled, true).unwrap();
    while std::io::Write::write(&mut filled, &[b'.'; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&filled, false).unwrap();
    drop(filled);
    let child = command.stdout(Stdio::piped()).stderr(write).spawn().unwrap();
    drop(command);
    std::thread::sleep(Duration::from_millis(800));
    signal(&child, rustix::process::Signal::INT);
    collect(child, Duration::from_secs(20)).expect(130);
    drop(read);
}
