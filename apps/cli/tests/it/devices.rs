//! Requested GPUs, with mock libraries in place of NVIDIA's, and without any.
//!
//! The mock libraries are those of the tests of `kernels/gpu` (`tests/mock/mock.c`). Without a C
//! compiler, the tests that need them print a line instead.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::common::{Ran, collect, finish, folder, left, result, results, words, zellige};
use serde_json::Value;

/// Libraries that linear algebra on GPUs needs.
const ALL: [&str; 4] = ["cuda", "cublas", "cublasLt", "cusolver"];

/// Writes an archive of kernels into a folder; a machine without NVRTC needs it.
fn archive(folder: &Path) {
    use zellige_kernels::cuda::all_sources;
    let others = [&zellige_tor::covariance::device::SOURCE, &zellige_selftest::SOURCE];
    let mut file = GzEncoder::new(Vec::new(), Compression::fast());
    for source in all_sources().chain(others) {
        writeln!(file, "{}.version 8.8", source.ptx_header()).unwrap();
    }
    fs::write(folder.join(zellige_gpu::source::ARCHIVE), file.finish().unwrap()).unwrap();
}

/// Compiles these libraries into a folder, with an archive of kernels; false if there is no C
/// compiler.
fn libraries(folder: &Path, names: &[&str]) -> bool {
    archive(folder);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels/gpu/tests/mock/mock.c");
    names.iter().all(|name| {
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", &format!("-DMOCK_{name}"), "-o"]);
        compiler.arg(folder.join(format!("lib{name}.so"))).arg(source).arg("-lm");
        match compiler.status() {
            Ok(status) => {
                assert!(status.success(), "{compiler:?}");
                true
            }
            Err(error) => {
                println!("skipped: no C compiler: {error}");
                false
            }
        }
    })
}

/// Runs the command with these libraries, which show two GPUs of 1 MiB each.
fn with(names: &[&str], arguments: &[&str], variables: &[(&str, &str)]) -> Option<Ran> {
    let (folder, there) = (folder(4), tempfile::tempdir().unwrap());
    if !libraries(there.path(), names) {
        return None;
    }
    let mut command = zellige(folder.path());
    command.env_remove("CUDA_VISIBLE_DEVICES").env("LD_LIBRARY_PATH", there.path());
    command.envs(variables.iter().copied()).args(arguments).arg("--cuda-libs").arg(there.path());
    let ran = finish(&mut command);
    assert!(left(folder.path()).is_empty(), "{ran:#?}");
    Some(ran)
}

#[test]
fn without_a_gpu_every_verb_ends_with_4_and_names_the_driver() {
    let folder = folder(4);
    for verb in [
        &["run", "small.toml"][..],
        &["build", "small.toml", "-o", "R.fits"],
        &["cov", "small.toml", "-o", "C.fits"],
        &["eval", "small.toml", "--rec", "small.toml"],
    ] {
        for device in ["cuda", "cuda:1,0", "cuda+cpu"] {
            // All GPUs of this machine are hidden from the driver.
            let mut command = zellige(folder.path());
            command.env("CUDA_VISIBLE_DEVICES", "").arg("tor").args(verb).args(["--device", device]);
            let ran = finish(&mut command).expect(4).says("CUDA driver is not usable").says("--device cpu");
            assert!(
                ran.stderr.contains(&format!("--device {device} is")) && ran.stdout.is_empty(),
                "{ran:#?}"
            );
        }
    }
    assert!(left(folder.path()).is_empty());
    let psa = |more: &[&str]| {
        let mut command = zellige(folder.path());
        command.env("CUDA_VISIBLE_DEVICES", "").args(["psa", "run", "--basis", ".", "--events", "."]);
        finish(command.args(["--device", "cuda"]).args(more))
    };
    psa(&[]).expect(4).says("CUDA driver is not usable");
    psa(&["--method", "cfgs"]).expect(2).says("GPUs have no kernels for this search");
}

#[test]
fn every_missing_library_is_named() {
    let run = ["tor", "run", "small.toml", "--device", "cuda"];
    if let Some(ran) = with(&["cuda"], &run, &[]) {
        let ran =
            ran.expect(4).says("cuBLAS is not usable").says("cuSOLVER is not usable").says("libcublas.so");
        assert!(!ran.stderr.contains("CUDA driver") && !ran.stderr.contains("cuBLASLt"), "{ran:#?}");
    }
    if let Some(ran) = with(&["cuda", "cublas"], &run, &[]) {
        let ran = ran.expect(4).says("cuSOLVER is not usable");
        assert!(!ran.stderr.contains("cuBLAS "), "{ran:#?}");
    }
    let all_but_lt = ["cuda", "cublas", "cusolver"];
    for rules in [["--precision", "fp8:operand=1e-5,else=hp1"], ["--solve-precision", "fp8"]] {
        if let Some(ran) = with(&all_but_lt, &[&run[..], &rules].concat(), &[]) {
            let ran = ran.expect(4).says("cuBLASLt is not usable");
            assert!(!ran.stderr.contains("cuSOLVER"), "{ran:#?}");
        }
    }
    if let Some(ran) = with(&ALL, &run, &[("CUDA_VISIBLE_DEVICES", "")]) {
        ran.expect(4).says("no CUDA-capable device").says("CUDA_VISIBLE_DEVICES is \"\"");
    }
    if let Some(ran) = with(&ALL, &run, &[("MOCK_DRIVER", "11020")]) {
        ran.expect(4).says("CUDA 11.2").says("11.4 is needed");
    }
}

#[test]
fn a_number_that_there_is_not_is_answered_with_those_that_there_are() {
    let run = ["tor", "run", "small.toml", "--device", "cuda:1,2"];
    if let Some(ran) = with(&ALL, &run, &[]) {
        let ran = ran.expect(4).says("there is no GPU 2: 2 found, GPU 0 (Mock 0), GPU 1 (Mock 1)");
        assert!(!ran.stderr.contains("CUDA_VISIBLE_DEVICES"), "{ran:#?}");
    }
    if let Some(ran) = with(&ALL, &run, &[("CUDA_VISIBLE_DEVICES", "3,4")]) {
        ran.expect(4).says("CUDA_VISIBLE_DEVICES is \"3,4\"");
    }
}

/// With two GPUs, the first of which does not open, the command names it on request and still uses
/// the other one.
#[test]
fn a_gpu_that_does_not_open_is_named_and_hides_no_other() {
    let broken = [("MOCK_BROKEN", "0")];
    let parsed = |ran: Ran| result(&ran.expect(0).stdout);
    if let Some(machine) = with(&ALL, &["machine", "show", "--json", "-"], &broken).map(parsed) {
        let why = machine["gpus"][0]["unused"].as_str().unwrap();
        assert!(why.contains("Mock 0") && why.contains("CUDA_ERROR_DEVICE_UNAVAILABLE"), "{why}");
        assert!(machine["gpus"][1]["unused"].is_null() && machine["gpus_unused"].is_null(), "{machine}");
    }
    let run = |device: &str, more: &[&str]| {
        with(&ALL, &[&["tor", "run", "small.toml", "--device", device][..], more].concat(), &broken)
    };
    for device in ["cuda:0", "cuda:1,0"] {
        if let Some(ran) = run(device, &[]) {
            ran.expect(4).says("GPU 0 (Mock 0) does not work").says("CUDA_ERROR_DEVICE_UNAVAILABLE");
        }
    }
    // The command checks the memory of the other GPU, because it is the one in use.
    if let Some(ran) = run("cuda", &["--device-memory", "2MiB"]) {
        let ran = ran.expect(2).says("GPU 1 (Mock 1) has 1.00 MiB free");
        assert!(ran.stderr.contains("a GPU does not open, the others are used: GPU 0"), "{ran:#?}");
    }
    if let Some(ran) = with(&ALL, &["bench", "gpu"], &broken) {
        ran.expect(4).says("GPU 0 (Mock 0) does not work");
    }
}

/// Ctrl-C during a benchmark: the file, which is complete at any time, has the figures measured so
/// far and the measurements found impossible.
#[test]
fn an_interrupted_benchmark_keeps_its_figures() {
    let (folder, there) = (folder(4), tempfile::tempdir().unwrap());
    if !libraries(there.path(), &ALL) {
        return;
    }
    let sizes = vec!["900"; 300].join(",");
    let mut command = zellige(folder.path());
    command.env_remove("CUDA_VISIBLE_DEVICES").env("LD_LIBRARY_PATH", there.path());
    command.env("MOCK_MEMORY", "268435456").args(["bench", "gpu", "--repeats", "1", "--tile", "64"]);
    command.args(["--only", "products,cholesky"]);
    command.arg("--cuda-libs").arg(there.path());
    command.args(["--n", &sizes, "--json", "gpu.json"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let path = folder.path().join("gpu.json");
    let figures = || -> Option<Value> { Some(result(&fs::read_to_string(&path).ok()?)) };
    let sizes_in = |figures: &Value| figures["cholesky"].as_array().unwrap().len();
    while figures().is_none_or(|figures| sizes_in(&figures) == 0) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was interrupted");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(figures().unwrap()["complete"], false);
    let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ran = collect(child, Duration::from_secs(30))
        .expect(130)
        .says("gpu.json has the measurements made before the error");
    let figures = figures().unwrap();
    assert_eq!((&figures["complete"], ran.stdout.as_str()), (&false.into(), ""));
    assert!((1..300).contains(&sizes_in(&figures)), "{figures}");
    assert!(figures["failed"].as_array().unwrap().len() >= 9, "{figures}");
    assert_eq!(left(folder.path()), [Path::new("gpu.json")]);
}

/// If nothing fits or runs on a GPU, the benchmark prints lines, ends with exit code 1, and writes
/// figures with their provenance.
#[test]
fn a_benchmark_that_fails_throughout_is_written_all_the_same() {
    let Some(ran) = with(&ALL, &["bench", "gpu", "--quick", "--repeats", "1", "--json", "-"], &[]) else {
        return;
    };
    let ran = ran.expect(1).says("measurements failed");
    let figures = result(&ran.stdout);
    assert_eq!((&figures["complete"], &figures["gpu"]["name"]), (&true.into(), &"Mock 0".into()));
    assert_eq!(figures["libraries"]["CUDA driver"], "CUDA 12.9");
    let lines = |key: &str| figures[key].as_array().unwrap().len();
    assert!(lines("failed") >= 9 && lines("left_out") >= 2 && lines("products") == 0, "{figures}");
}

#[test]
fn memory_that_a_gpu_has_not_is_refused() {
    let run = ["tor", "run", "small.toml", "--device", "cuda", "--device-memory"];
    if let Some(ran) = with(&ALL, &[&run[..], &["2MiB"]].concat(), &[]) {
        ran.expect(2).says("--device-memory").says("GPU 0 (Mock 0)").says("1.00 MiB free of 1.00 MiB");
    }
}

#[test]
fn the_machine_shows_its_gpus_and_what_they_lack() {
    let show = ["machine", "show", "--json", "-"];
    let parsed = |ran: Ran| result(&ran.expect(0).stdout);
    if let Some(machine) = with(&ALL, &show, &[]).map(parsed) {
        let names: Vec<&str> =
            machine["gpus"].as_array().unwrap().iter().map(|gpu| gpu["name"].as_str().unwrap()).collect();
        assert_eq!((names, &machine["gpus_unused"]), (vec!["Mock 0", "Mock 1"], &Value::Null));
        assert!(machine["gpus"][1]["unused"].is_null(), "{machine}");
    }
    if let Some(machine) = with(&["cuda", "cublas"], &show, &[]).map(parsed) {
        let why = machine["gpus"][1]["unused"].as_str().unwrap();
        assert!(why.contains("cuSOLVER") && !why.contains("cuBLAS"), "{why}");
    }
    if let Some(ran) = with(&ALL, &["machine", "show"], &[]) {
        let text = ran.expect(0).stdout;
        let line = text.lines().find(|line| line.starts_with("GPU 1")).unwrap_or_else(|| panic!("{text}"));
        assert!(
            line.contains("Mock 1") && line.contains("1.00 MiB") && line.contains("--device cuda"),
            "{line}"
        );
    }
}

#[test]
fn tiles_that_the_host_may_not_hold_wait_in_a_file() {
    let folder = folder(5);
    let run = |more: &[&str]| {
        let base = words("tor run small.toml --tile 8 --workers 2 --precision fp32 --json -");
        finish(zellige(folder.path()).args([&base[..], more].concat())).expect(0)
    };
    let strehl = |ran: &Ran| -> Value { results(&ran.stdout)[0]["strehl_moao"].clone() };
    let unlimited = run(&["--stats"]);
    assert!(unlimited.stderr.contains("all data were in host memory"), "{}", unlimited.stderr);
    let limited = run(&["--host-memory", "96KiB", "--swap", ".", "--stats"]);
    let row = |name: &str| -> Vec<String> {
        let line = limited.stderr.lines().find(|line| line.trim_start().starts_with(name));
        line.unwrap_or_else(|| panic!("no {name} in {}", limited.stderr))
            .split("  ")
            .map(str::to_owned)
            .collect()
    };
    assert!(row("host").iter().any(|cell| cell.trim() == "96.0 KiB"), "{}", limited.stderr);
    assert!(
        row("disk").iter().any(|cell| cell.contains("KiB") || cell.contains("MiB")),
        "{}",
        limited.stderr
    );
    assert_eq!(strehl(&limited), strehl(&unlimited));
    assert!(strehl(&limited).as_f64().is_some_and(|strehl| strehl > 0.0));
    assert!(left(folder.path()).is_empty());
}

#[test]
fn limits_of_the_host_are_checked() {
    let folder = folder(4);
    let refused = |more: &[&str], said: &str| {
        finish(zellige(folder.path()).args([&["tor", "run", "small.toml"][..], more].concat()))
            .expect(2)
            .says(said);
    };
    refused(&["--swap", "."], "--host-memory");
    refused(&["--host-memory", "0"], "bytes as in 20GB");
    refused(&["--host-memory", "101%"], "bytes as in 20GB");
    let small = ["tor", "run", "small.toml", "--tile", "8", "--host-memory", "100B"];
    finish(zellige(folder.path()).args(small)).expect(1).says("host");
}
