//! Corrupt files as input of the command: it gives an answer or an error, without a panic or a
//! hang. It takes no more memory than the file or the documented plan of its reader justifies.

use crate::common::{Ran, collect, folder, ok, words, zellige};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Makes some random changes: flipped bytes, truncation, repetition, numbers in place of others.
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
        // Errors in headers have the largest effects.
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

/// Bytes that a reader may take for any file (docs/explanation/sparse.md, "Memory of readers"):
/// rows without nonzeros, and vectors of them.
const PLAN: u64 = 64 << 20;

/// Runs a line within 3 GB of address space, and returns its outcome and its observed peak memory.
fn measured(folder: &Path, line: &str) -> (Ran, u64) {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("ulimit -v 3000000; exec \"$0\" {line}"));
    shell.arg(zellige(folder).get_program()).current_dir(folder).stdin(Stdio::null());
    let child = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (status, peak, ended) =
        (format!("/proc/{}/status", child.id()), AtomicU64::new(0), AtomicBool::new(false));
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                // The system reports the peak; the last millisecond of the process may be missed.
                let text = fs::read_to_string(&status).unwrap_or_default();
                let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
                let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok());
                peak.fetch_max(1024 * kilobytes.unwrap_or(0), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let ran = collect(child, Duration::from_secs(60));
        ended.store(true, Ordering::Relaxed);
        ran
    });
    (ran, peak.load(Ordering::Relaxed))
}

/// Checks that a line ends with a permitted code, and takes no more than `most` bytes.
fn survives(folder: &Path, line: &str, most: u64, what: &str) {
    let (ran, peak) = measured(folder, line);
    let codes = [Some(0), Some(1), Some(2), Some(3), Some(5)];
    assert!(codes.contains(&ran.code) && !ran.stderr.contains("panicked"), "{line}, {what}: {ran:#?}");
    assert!(ran.stderr.len() < 4000, "{line}, {what}: {ran:#?}");
    assert!(peak <= most, "{line}, {what}: {peak} bytes, {most} at most: {ran:#?}");
}

/// Returns unit matrices on 4^4 sites: a file of openQCD, an array of PyQUDA, and an archive file
/// without a byte order.
fn lattices() -> [(&'static str, Vec<u8>); 3] {
    // The real parts of the diagonal, three of 18 numbers, are 1.
    let numbers = || (0..4 * 256 * 18).map(|k| if k % 18 % 8 == 0 { 1.0f32 } else { 0.0 });
    let doubles: Vec<u8> = numbers().flat_map(|x| f64::from(x).to_le_bytes()).collect();
    let singles: Vec<u8> = numbers().flat_map(f32::to_le_bytes).collect();
    let header = "{'descr': '<c16', 'fortran_order': False, 'shape': (4, 4, 4, 4, 4, 3, 3), }\n";
    let words = [4u32; 4].into_iter().flat_map(u32::to_le_bytes);
    let sum = 1.0f32.to_bits().wrapping_mul(3072);
    let archive = format!(
        "BEGIN_HEADER\nDATATYPE = 4D_SU3_GAUGE_3x3\nDIMENSION_1 = 4\nDIMENSION_2 = 4\nDIMENSION_3 = 4\nDIMENSION_4 = 4\n\
         CHECKSUM = {sum:x}\nFLOATING_POINT = IEEE32\nEND_HEADER\n"
    );
    [
        ("a.oqcd", [words.chain(3.0f64.to_le_bytes()).collect(), doubles.clone()].concat()),
        (
            "links.npy",
            [b"\x93NUMPY\x01\0", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), &doubles]
                .concat(),
        ),
        ("a.nersc", [archive.into_bytes(), singles].concat()),
    ]
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
    ok(here, &words("matrix generate flow --size 9x8x7 -o c.mtx"));
    ok(here, &words("solve c.mtx --save-setup setup.npz"));
    ok(here, &["tor", "build", "small.toml", "-o", "R.fits"]);
    ok(here, &["lqcd", "generate", "--size", "4", "--trajectories", "1", "-o", "a.ildg"]);
    ok(here, &["lqcd", "convert", "a.ildg", "a.lime", "--links", "fixed24-13"]);
    for name in ["basis_i16", "pos_f32", "events0_keV_f32", "events0_energy_keV_f64"] {
        copy(&format!("psa/tests/fixtures/seg00_{name}.npy"), &format!("{name}.npy"));
    }
    copy("tor/tests/fixtures/small-sys.txt", "sys-params.txt");
    copy("tor/tests/fixtures/small-atm.txt", "atm-params.txt");
    let title = format!("{:72}key\n             3             1             1             1\n", "title");
    let sizes = "RSA                        2             2             2             0\n(3I2)           (2I2)           (2F5.1)\n";
    fs::write(here.join("a.rb"), format!("{title}{sizes} 1 2 3\n 1 2\n  4.0 -1.0\n")).unwrap();
    let header = [1_211_216i32, 2, 2, 2, 1, 1, 0, 1].map(i32::to_be_bytes).concat();
    let vector = [1_211_214i32, 2].map(i32::to_be_bytes).concat();
    let numbers = [4.0f64, -1.0].map(f64::to_be_bytes).concat();
    fs::write(here.join("a.petsc"), [&header[..], &numbers, &vector, &numbers].concat()).unwrap();
    zellige_files::array::write(&here.join("a.npy"), &[3, 3], [2.0, 0.0, 1.0, 0.0, 2.0, 0.0, 1.0, 0.0, 2.0])
        .unwrap();
    zellige_files::array::npz::NpzWriter::write(&here.join("a.npz"), |to| {
        to.put("a", &[2, 2], &[1.0, 0.0, 0.0, 2.0])
    })
    .unwrap();
    fs::write(here.join("b.csv"), "b,c\n1,2\n3,4\n").unwrap();
    let circle = fs::read_to_string(fixtures.join("tor/tests/fixtures/circle.yaml")).unwrap();
    fs::write(
        here.join("circle.yaml"),
        circle.replace("[7]", "&a [7]").replace("L0: 28", "<<: {L0: 28}\n  a: *a"),
    )
    .unwrap();
    fs::write(here.join("array"), "0 0 0 0 0 0 0 100\n").unwrap();
    let hit = r#"{"event": 1, "timestamp": 5, "index": 0, "fom": 0, "position": [2, 1, 20], "energy": 250}"#;
    fs::write(here.join("hits.json"), format!("{{\"results\": [{{\"events\": [{hit}]}}]}}")).unwrap();
    ok(here, &["psa", "simulate", "-o", "basis", "--grid", "5", "--step", "12", "--samples", "40"]);
    ok(here, &["psa", "events", "--basis", "basis", "-n", "8", "-o", "events"]);
    let basis = zellige_psa::files::read_basis(&here.join("basis")).unwrap();
    zellige_psa::files::archives::write_basis(&here.join("basis.npz"), &basis).unwrap();
    ok(here, &["psa", "frames", "events", "--channels", "neighbours", "-o", "e.geb"]);
    for (name, bytes) in lattices() {
        fs::write(here.join(name), bytes).unwrap();
    }
    copy("../runtime/sim/src/platform/shipped/v100x4.toml", "platform.toml");
    fs::write(here.join("options.toml"), "json = \"-\"\n").unwrap();
    fs::write(here.join("share.txt"), "0 1 -0.0015\n3 5 0.0005\n").unwrap();
    fs::write(
        here.join("rule.rhai"),
        "fn precision(i, j, k, nt, norm_a_ij, norm_l_ik, norm_l_jk, norm_a) { if i - j > 2 { \"hp1\" } else { \"fp32\" } }",
    )
    .unwrap();
    let map = zellige_dense::TileMap::new("map.json", &[0, 8], |_, _, _| zellige_dense::GemmPrecision::Sp);
    fs::write(here.join("map.json"), map.unwrap().to_string()).unwrap();
    ok(here, &words("tor run small.toml --precision fp32 --xray off --tile 10 --norms norms.json"));
    let search = "psa run --basis basis_i16.npy --positions pos_f32.npy --events events0_keV_f32.npy \
                  --energies events0_energy_keV_f64.npy";
    let seeds = [
        ("a.mtx", "matrix info a.mtx"),
        ("a.mtx", "solve a.mtx --max-steps 20"),
        ("a.mtx.gz", "matrix info a.mtx.gz"),
        ("b.npy", "solve a.mtx -b b.npy --max-steps 20"),
        ("a.rb", "matrix info a.rb"),
        ("a.petsc", "solve a.petsc -b a.petsc --max-steps 20"),
        ("a.npy", "solve a.npy --max-steps 20"),
        ("a.npz", "matrix info a.npz"),
        ("setup.npz", "solve c.mtx --setup setup.npz"),
        ("b.csv", "solve a.npz -b b.csv --max-steps 20"),
        ("small.toml", "tor info small.toml"),
        ("sys-params.txt", "tor info sys-params.txt --atm atm-params.txt"),
        ("atm-params.txt", "tor info sys-params.txt --atm atm-params.txt"),
        ("circle.yaml", "tor info circle.yaml"),
        ("R.fits", "tor eval small.toml --rec R.fits"),
        ("R.fits", "tor eval small.toml --rec R.fits/R"),
        ("basis_i16.npy", search),
        ("events0_energy_keV_f64.npy", search),
        ("array", "psa track hits.json --array array -o gammas"),
        ("hits.json", "psa track hits.json -o gammas"),
        ("pos_f32.npy", search),
        ("events0_keV_f32.npy", search),
        ("basis/basis.toml", "psa run --basis basis --events events"),
        ("basis/signals.npy", "psa run --basis basis --events events"),
        ("events/signals.npy", "psa run --basis basis --events events"),
        ("events/timestamps.npy", "psa run --basis basis.npz --events events"),
        ("basis.npz", "psa run --basis basis.npz --events events/signals.npy"),
        ("e.geb", "psa stream e.geb --basis basis -o /dev/null"),
        ("share.txt", "psa run --basis basis --events events --cross-talk share.txt"),
        ("platform.toml", "simulate cholesky --n 1000 --tile 250 --platform platform.toml"),
        (
            "norms.json",
            "simulate cholesky --n 1000 --tile 250 --norms norms.json --precision hp1:operand=1e-2",
        ),
        ("rule.rhai", "tor info small.toml --precision script:rule.rhai"),
        ("map.json", "tor info small.toml --tile 4096 --precision map:map.json"),
        ("options.toml", "matrix info a.mtx --config options.toml"),
        ("a.oqcd", "lqcd info a.oqcd"),
        ("links.npy", "lqcd info links.npy"),
        ("a.nersc", "lqcd info a.nersc"),
        ("a.ildg", "lqcd info a.ildg"),
        ("a.lime", "lqcd info a.lime"),
    ];
    let mut random = ChaCha8Rng::seed_from_u64(19);
    for (file, line) in seeds {
        let whole = fs::read(here.join(file)).unwrap();
        let (ran, usual) = measured(here, line);
        assert!([Some(0), Some(5)].contains(&ran.code), "{line} reads what is whole: {ran:#?}");
        let most = usual + 4 * whole.len() as u64 + PLAN;
        for round in 0..zellige_tests::amount(6) {
            fs::write(here.join(file), mutate(&whole, &mut random)).unwrap();
            survives(here, line, most, &format!("{file}, {round}"));
        }
        fs::write(here.join(file), whole).unwrap();
    }
}
