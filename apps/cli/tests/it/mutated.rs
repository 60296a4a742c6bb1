//! Files with changes that nobody made on purpose, through the command: an answer or an error, no panic, no hang, no memory beyond a limit.

use crate::common::{collect, folder, ok, zellige};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Some changes of bytes: flipped, cut off, said twice, numbers in place of others.
fn mutate(bytes: &[u8], random: &mut ChaCha8Rng) -> Vec<u8> {
    const WORDS: [&[u8]; 8] = [
        b"-1",
        b"0",
        b"1e999",
        b"nan",
        b"18446744073709551615",
        b"4294967296",
        b"\xff\xff\xff\xff",
        b"[[[[[",
    ];
    let mut bytes = bytes.to_vec();
    for _ in 0..random.random_range(1..4) {
        let at = random.random_range(0..bytes.len().max(1)).min(bytes.len());
        // Headers are where most can go wrong.
        let at = if random.random_bool(0.5) { at % 200.min(bytes.len().max(1)) } else { at };
        match random.random_range(0..5) {
            0 => bytes.truncate(at),
            1 => {
                let word = WORDS[random.random_range(0..WORDS.len())];
                let end = (at + word.len()).min(bytes.len());
                bytes.splice(at..end, word.iter().copied());
            }
            2 => {
                let part = bytes[at..(at + 40).min(bytes.len())].to_vec();
                bytes.splice(at..at, part);
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << random.random_range(0..8);
                }
            }
        }
    }
    bytes
}

/// Runs a line within 3 GB of address space.
fn survives(folder: &Path, line: &str, what: &str) {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("ulimit -v 3000000; exec \"$0\" {line}"));
    shell.arg(zellige(folder).get_program()).current_dir(folder).stdin(Stdio::null());
    let child = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let ran = collect(child, Duration::from_secs(60));
    let codes = [Some(0), Some(1), Some(2), Some(3), Some(5)];
    assert!(codes.contains(&ran.code) && !ran.stderr.contains("panicked"), "{line}, {what}: {ran:#?}");
    assert!(ran.stderr.len() < 4000, "{line}, {what}: {ran:#?}");
}

#[test]
fn broken_files_are_answered_or_refused() {
    let folder = folder(2);
    let here = folder.path();
    let fixtures = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../"));
    let copy = |from: &str, to: &str| _ = fs::copy(fixtures.join(from), here.join(to)).unwrap();
    ok(here, &["matrix", "generate", "flow", "--size", "4x4x3", "-o", "a.mtx"]);
    ok(here, &["matrix", "convert", "a.mtx", "a.mtx.gz"]);
    ok(here, &["solve", "a.mtx", "-o", "b.npy"]);
    ok(here, &["tor", "build", "small.toml", "-o", "R.fits"]);
    for name in ["basis_i16", "pos_f32", "events0_keV_f32", "events0_energy_keV_f64"] {
        copy(&format!("psa/tests/fixtures/seg00_{name}.npy"), &format!("{name}.npy"));
    }
    copy("tor/tests/fixtures/small-sys.txt", "sys-params.txt");
    copy("tor/tests/fixtures/small-atm.txt", "atm-params.txt");
    fs::write(here.join("array"), "0 0 0 0 0 0 0 100\n").unwrap();
    let hit = r#"{"event": 1, "timestamp": 5, "index": 0, "fom": 0, "position": [2, 1, 20], "energy": 250}"#;
    fs::write(here.join("hits.json"), format!("{{\"events\": [{hit}]}}")).unwrap();
    let search = "psa run --basis basis_i16.npy --positions pos_f32.npy --events events0_keV_f32.npy \
                  --energies events0_energy_keV_f64.npy";
    let seeds = [
        ("a.mtx", "matrix info a.mtx"),
        ("a.mtx", "solve a.mtx --max-steps 20"),
        ("a.mtx.gz", "matrix info a.mtx.gz"),
        ("b.npy", "solve a.mtx -b b.npy --max-steps 20"),
        ("small.toml", "tor info small.toml"),
        ("sys-params.txt", "tor info sys-params.txt --atm atm-params.txt"),
        ("atm-params.txt", "tor info sys-params.txt --atm atm-params.txt"),
        ("R.fits", "tor eval small.toml --rec R.fits"),
        ("basis_i16.npy", search),
        ("events0_energy_keV_f64.npy", search),
        ("array", "psa track hits.json --array array -o gammas"),
        ("hits.json", "psa track hits.json -o gammas"),
    ];
    let mut random = ChaCha8Rng::seed_from_u64(19);
    for (file, line) in seeds {
        let whole = fs::read(here.join(file)).unwrap();
        for round in 0..zellige_test_scale::amount(6) {
            fs::write(here.join(file), mutate(&whole, &mut random)).unwrap();
            survives(here, line, &format!("{file}, {round}"));
        }
        fs::write(here.join(file), whole).unwrap();
    }
}
