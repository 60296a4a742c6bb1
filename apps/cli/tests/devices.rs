//! GPUs that are asked for: on libraries that stand in for NVIDIA's, and where there is nothing.
//!
//! The libraries are those of the tests of `gpu` (`gpu/tests/mock/mock.c`). Without a C compiler what needs them prints a line instead.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Ran, finish, folder, left, zellige};
use serde_json::Value;

/// All that linear algebra on GPUs needs.
const ALL: [&str; 4] = ["cuda", "cublas", "cublasLt", "cusolver"];

/// Puts these libraries into a folder; false if there is no C compiler.
fn libraries(folder: &Path, names: &[&str]) -> bool {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../gpu/tests/mock/mock.c");
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

/// Runs the command where these libraries are found: two GPUs of 1 MiB each.
fn with(names: &[&str], arguments: &[&str], variables: &[(&str, &str)]) -> Option<Ran> {
    let (folder, there) = (folder(4), tempfile::tempdir().unwrap());
    if !libraries(there.path(), names) {
        return None;
    }
    let mut command = zellige(folder.path());
    command.env_remove("CUDA_VISIBLE_DEVICES").env("LD_LIBRARY_PATH", there.path());
    let ran = finish(command.envs(variables.iter().copied()).args(arguments));
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
        &["eval", "small.toml", "--rec", "absent.fits"],
    ] {
        for device in ["cuda", "cuda:1,0", "cuda+cpu"] {
            // Whatever there is on this machine, the driver shows none of it.
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
        command.env("CUDA_VISIBLE_DEVICES", "").args(["psa", "run", "--basis", "b", "--events", "e"]);
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

#[test]
fn memory_that_a_gpu_has_not_is_refused() {
    let run = ["tor", "run", "small.toml", "--device", "cuda", "--gpu-mem"];
    if let Some(ran) = with(&ALL, &[&run[..], &["2MiB"]].concat(), &[]) {
        ran.expect(2).says("--gpu-mem").says("GPU 0 (Mock 0)").says("1.00 MiB free of 1.00 MiB");
    }
}

#[test]
fn the_machine_shows_its_gpus_and_what_they_lack() {
    let show = ["machine", "show", "--json", "-"];
    let parsed = |ran: Ran| serde_json::from_str::<Value>(&ran.expect(0).stdout).unwrap();
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
