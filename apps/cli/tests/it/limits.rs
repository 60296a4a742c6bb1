//! Memory and workers: a run that does not fit is refused with the sum before any work, and small
//! systems take little memory.

use crate::common::{Ran, collect, folder, left, ok, system, zellige};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use zellige_tests::every;

/// Runs a line with a limited address space in MB. Each worker thread reserves 16 MB of it.
fn with_space(folder: &Path, megabytes: u32, line: &str) -> Ran {
    with_limit(folder, &format!("-v {megabytes}000"), line)
}

/// Runs a line under one of the shell's limits.
fn with_limit(folder: &Path, limit: &str, line: &str) -> Ran {
    let command = zellige(folder);
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("ulimit {limit}; exec \"$0\" {line}"));
    shell.arg(command.get_program()).current_dir(folder).stdin(Stdio::null());
    let child = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    collect(child, Duration::from_secs(120))
}

/// Returns the first value with this key at any depth.
fn find<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    match value {
        Value::Object(map) => map.get(key).or_else(|| map.values().find_map(|value| find(value, key))),
        Value::Array(list) => list.iter().find_map(|value| find(value, key)),
        _ => None,
    }
}

#[test]
fn a_small_system_takes_no_more_workers_than_it_has_parts() {
    let folder = folder(4);
    let path = folder.path();
    ok(path, &["matrix", "generate", "flow", "--size", "8x8x8", "-o", "a.mtx"]);
    with_space(path, 2000, "solve a.mtx --workers 10000 --oversubscribe").expect(0);
    with_space(path, 2000, "solve a.mtx --workers 60000 --oversubscribe --shifts 1e6,2e6 --precond none")
        .expect(0);
}

#[test]
fn what_does_not_fit_is_refused_with_the_sum() {
    let folder = folder(4);
    let path = folder.path();
    let header = "%%MatrixMarket matrix coordinate real general\n9 9 90000000\n1 1 1\n";
    File::create(path.join("a.mtx")).unwrap().write_all(header.as_bytes()).unwrap();
    // A sparse file of the announced length takes no disk space.
    File::options().write(true).open(path.join("a.mtx")).unwrap().set_len(1 << 30).unwrap();
    fs::write(path.join("big.toml"), system(120)).unwrap();
    for (line, named) in [
        ("matrix generate flow --size 600 -o b.mtx", "600 x 600 x 600"),
        ("matrix generate elasticity --size 150 -o b.mtx", "150 x 150 x 150"),
        ("matrix info a.mtx", "90000000 nonzeros"),
        ("tor run big.toml", "Cmm"),
        ("tor cov big.toml -o c.fits", "Cmm"),
        ("tor run small.toml --workers 60000 --oversubscribe", "60000 worker(s)"),
        ("psa track --simulate 1 --workers 60000 --oversubscribe", "workers"),
    ] {
        with_space(path, 1500, line).expect(1).says("not enough memory").says("available").says(named);
    }
    fs::remove_file(path.join("a.mtx")).unwrap();
    assert_eq!(left(path), [Path::new("big.toml")]);
}

/// Complete factors that do not fit are refused by an estimate, before their computation.
#[test]
fn complete_factors_that_do_not_fit_are_refused() {
    let folder = folder(4);
    let path = folder.path();
    ok(path, &["matrix", "generate", "flow", "--size", "32x32x32", "-o", "flow.mtx"]);
    let refused = with_space(path, 240, "solve flow.mtx --precond lu --workers 2").expect(1);
    refused.says("not enough memory").says("a Cholesky factor of up to");
    // Other preconditioners need less memory.
    with_space(path, 240, "solve flow.mtx --precond ilu0 --workers 2").expect(0);
}

/// For any address space, the command gives an answer or an error that names the missing memory. If
/// the program itself does not fit, the system ends it.
#[test]
fn too_little_memory_is_an_error_and_no_abort() {
    let folder = folder(4);
    let path = folder.path();
    ok(path, &["matrix", "generate", "flow", "--size", "40x40x20", "-o", "flow.mtx"]);
    ok(path, &["matrix", "generate", "elasticity", "--size", "10", "-o", "solid.mtx"]);
    let (mut refused, mut answered) = (0, 0);
    for line in [
        "solve flow.mtx --precond amg --workers 2",
        "solve solid.mtx --precond amg --reorder --workers 2",
        "solve solid.mtx --operator ap7:cw:2^-24 --scale both --precond ilu0 --workers 2",
        "solve flow.mtx --method fgmres:200 --workers 2 --max-steps 20",
        "psa simulate -o basis --grid 4 --step 12 --workers 2",
        // Most of the memory that is left goes into the starts of threads.
        "solve flow.mtx --workers 8 --oversubscribe",
    ] {
        let mut least = 0;
        for megabytes in (120..=420).step_by(20 * every(3)) {
            // The code alone may be larger, in a build without optimisation.
            if with_space(path, megabytes, "--version").code != Some(0) {
                continue;
            }
            let ran = with_space(path, megabytes, line);
            let is_refused = ran.code == Some(1)
                && ["not enough memory", "starting ", "memory"].iter().any(|word| ran.stderr.contains(word));
            let is_answered = [Some(0), Some(5)].contains(&ran.code);
            assert!(is_refused || is_answered, "{line} in {megabytes} MB: {ran:#?}");
            assert!(!ran.stderr.contains("panicked"), "{line} in {megabytes} MB: {ran:#?}");
            refused += usize::from(is_refused);
            answered += usize::from(is_answered);
            if is_answered && least == 0 {
                least = megabytes;
            }
        }
        assert!(least > 0, "{line} needs more than 400 MB");
    }
    assert!(refused > 0 && answered > 0, "{refused} refused, {answered} answered");
}

/// At the limit on file sizes, a write is an error that names the file, as on a full disk, and no
/// partial file is left.
#[test]
fn a_limit_on_sizes_of_files_is_an_error() {
    let folder = folder(5);
    let path = folder.path();
    let begun = left(path);
    for (line, file) in [
        ("matrix generate flow --size 10x10x10 -o m.mtx", "m.mtx"),
        ("matrix generate flow --size 30x30x30 -o m.mtx.gz", "m.mtx.gz"),
        ("lqcd generate --size 4 --beta 5.7 --trajectories 1 -o g.lat", "g.lat"),
        ("tor run small.toml -o r.fits", "r.fits"),
    ] {
        with_limit(path, "-f 4", line).expect(1).says(file).says("File too large");
        assert_eq!(left(path), begun, "{line}");
    }
    // A swap file that cannot grow leaves values in memory, and the answer is the same as without a
    // limit.
    let line =
        "tor run small.toml --tile 8 --workers 2 --precision fp32 --host-memory 96KiB --swap . --json -";
    let (free, limited) = (with_limit(path, "-f unlimited", line), with_limit(path, "-f 4", line));
    let strehl = |ran: &Ran| find(&serde_json::from_str(&ran.stdout).unwrap(), "strehl_moao").cloned();
    let (free, limited) = (free.expect(0), limited.expect(0));
    assert!(strehl(&free).is_some() && strehl(&free) == strehl(&limited));
}

/// The memory of the last stage is checked before the first one runs, and the amount in the message
/// is enough.
#[test]
fn too_little_host_memory_for_a_later_stage_is_refused_before_the_first() {
    let folder = folder(5);
    let path = folder.path();
    let run = |more: &str| {
        let line = format!("tor run small.toml --tile 8 --workers 2 {more}");
        collect(
            zellige(path)
                .args(line.split_whitespace())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap(),
            Duration::from_secs(120),
        )
    };
    let refused = run("--precision fp32 --host-memory 1KB").expect(1).says("fp32: error covariance");
    assert!(refused.stdout.is_empty(), "{refused:?}");
    let (_, enough) = refused.stderr.split_once("give --host-memory ").unwrap();
    let enough = enough.split_whitespace().next().unwrap();
    run(&format!("--precision fp32 --host-memory {enough}")).expect(0);
}

/// The memory that `tor info` announces is about the memory that `tor run` takes.
#[test]
fn announced_memory_is_taken_memory() {
    let folder = folder(12);
    let read = |line: &str| -> Value {
        let words: Vec<&str> = line.split(' ').collect();
        serde_json::from_str(&ok(folder.path(), &words)).unwrap()
    };
    let announced = find(&read("tor info small.toml --json -"), "memory_bytes").unwrap().as_f64().unwrap();
    let taken = find(&read("tor run small.toml --json -"), "peak_memory_bytes").unwrap().as_f64().unwrap();
    // The value is 0 if the system does not report it.
    assert!(taken < 1.3 * announced && (taken == 0.0 || announced < 4.0 * taken), "{taken} of {announced}");
}

/// The records of a trace are part of the announced sum, and are refused with the rest.
#[test]
fn records_of_a_trace_are_planned() {
    let folder = folder(12);
    let json: Value = serde_json::from_str(&ok(
        folder.path(),
        &["tor", "info", "small.toml", "--workers", "3", "--json", "-"],
    ))
    .unwrap();
    let announced = find(&json, "trace_bytes").unwrap().as_u64().unwrap();
    assert!(announced > 10 << 20, "{announced}");
    let memory = find(&json, "memory").unwrap().to_string();
    assert!(memory.contains("3 worker(s)") && !memory.contains("trace"), "{memory}");
    let line = "tor run small.toml --precision fp32 --workers 2 --xray off";
    let starts = |&megabytes: &u32| with_space(folder.path(), megabytes, "--version").code == Some(0);
    let megabytes = 10 + (100..400).step_by(5).find(starts).unwrap();
    let refused = with_space(folder.path(), megabytes, line).expect(1).says("available").stderr;
    assert!(!refused.contains("records of the trace"), "{refused}");
    with_space(folder.path(), megabytes, &format!("{line} --trace t.json"))
        .expect(1)
        .says("records of the trace");
    assert!(left(folder.path()).is_empty());
}

/// The sizes of trace records and measured products depend on the machine, not on the number of
/// workers.
#[test]
fn many_workers_take_little_more() {
    let folder = folder(8);
    let line = "tor run small.toml --precision fp32 --workers 64 --oversubscribe --trace t.json --json -";
    let words: Vec<&str> = line.split(' ').collect();
    let json: Value = serde_json::from_str(&ok(folder.path(), &words)).unwrap();
    let taken = find(&json, "peak_memory_bytes").unwrap().as_f64().unwrap();
    assert!(taken < 600e6, "{taken}");
}
