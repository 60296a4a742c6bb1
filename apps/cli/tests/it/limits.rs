//! Memory and workers: what does not fit is refused with the sum, before any work, and small systems take little.

use crate::common::{Ran, collect, folder, left, ok, system, zellige};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Runs a line with so many MB of address space. Threads of workers have 16 MB each of it, whatever they use.
fn with_space(folder: &Path, megabytes: u32, line: &str) -> Ran {
    let command = zellige(folder);
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("ulimit -v {megabytes}000; exec \"$0\" {line}"));
    shell.arg(command.get_program()).current_dir(folder).stdin(Stdio::null());
    let child = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    collect(child, Duration::from_secs(120))
}

/// The first value with this key, however deep.
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
    // As long as it says, without taking the disk for it.
    File::options().write(true).open(path.join("a.mtx")).unwrap().set_len(1 << 30).unwrap();
    fs::write(path.join("big.toml"), system(120)).unwrap();
    for (line, named) in [
        ("matrix generate flow --size 600 -o b.mtx", "600 x 600 x 600"),
        ("matrix generate elasticity --size 150 -o b.mtx", "150 x 150 x 150"),
        ("matrix info a.mtx", "90000000 elements"),
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

/// What `tor info` announces is what `tor run` takes, if not to the byte.
#[test]
fn announced_memory_is_taken_memory() {
    let folder = folder(12);
    let read = |line: &str| -> Value {
        let words: Vec<&str> = line.split(' ').collect();
        serde_json::from_str(&ok(folder.path(), &words)).unwrap()
    };
    let announced = find(&read("tor info small.toml --json -"), "memory_bytes").unwrap().as_f64().unwrap();
    let taken = find(&read("tor run small.toml --json -"), "peak_memory_bytes").unwrap().as_f64().unwrap();
    // 0 where the system does not tell.
    assert!(taken < 1.3 * announced && (taken == 0.0 || announced < 4.0 * taken), "{taken} of {announced}");
}

/// Records of a trace and measured products are those of the machine, not of so many workers.
#[test]
fn many_workers_take_little_more() {
    let folder = folder(8);
    let line = "tor run small.toml --precision fp32 --workers 64 --oversubscribe --trace t.json --json -";
    let words: Vec<&str> = line.split(' ').collect();
    let json: Value = serde_json::from_str(&ok(folder.path(), &words)).unwrap();
    let taken = find(&json, "peak_memory_bytes").unwrap().as_f64().unwrap();
    assert!(taken < 600e6, "{taken}");
}
