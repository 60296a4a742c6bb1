//! `scripts/gpu-checks`, the script for a machine with a GPU: without a GPU, and on the mock
//! driver.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Ran, finish};

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/gpu-checks")
}

/// Returns the script's command, with `zellige` as both builds, in an environment with only a path
/// of system programs.
fn checks(folder: &Path, zellige: &Path, options: &[&str]) -> Command {
    let mut command = Command::new("bash");
    command.arg(script()).args(options).current_dir(folder).env_clear().env("PATH", "/usr/bin:/bin");
    command.arg("--zellige").arg(zellige).arg("--checked").arg(zellige);
    command
}

fn ours() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_zellige"))
}

#[test]
fn without_a_gpu_it_says_so_and_ends_with_4() {
    let folder = tempfile::tempdir().unwrap();
    // All GPUs of this machine are hidden from the driver.
    let mut command = checks(folder.path(), ours(), &["--minutes", "1"]);
    let Ran { code, stdout, stderr } = finish(command.env("CUDA_VISIBLE_DEVICES", ""));
    assert_eq!(code, Some(4), "{stdout}{stderr}");
    assert!(stdout.ends_with("gpu-checks: no GPU can be used here, so nothing was measured\n"), "{stdout}");
    assert!(stderr.contains("CUDA driver is not usable"), "{stderr}");
    let lines = std::fs::read_to_string(folder.path().join("gpu-results/results.jsonl")).unwrap();
    let steps: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!((&steps[0]["step"], &steps[0]["status"]), (&"machine".into(), &"ok".into()));
    assert_eq!((&steps[1]["step"], &steps[1]["exit"]), (&"copies".into(), &4.into()));
    // Existing results are not overwritten.
    let again = finish(&mut checks(folder.path(), ours(), &[]));
    assert!(again.code == Some(2) && again.stderr.contains("--out"), "{again:?}");
}

#[test]
fn wrong_options_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for options in [
        &["--minutes", "soon"][..],
        &["--minutes"],
        &["--part", "4"],
        &["--device", "cuda"],
        &["--cuda-libs", "/nowhere"],
        &["--whatever"],
    ] {
        let ran = finish(&mut checks(folder.path(), ours(), options));
        assert!(ran.code == Some(2) && ran.stderr.contains("Usage"), "{options:?}: {ran:?}");
    }
}

/// All steps on the mock driver: each has its line and its files, even if one step fails, one
/// crashes and one hangs.
#[cfg(feature = "mock-gpu")]
#[test]
#[ignore = "a minute; run by scripts/test-long"]
fn on_a_mock_every_file_is_made_and_three_failures_are_survived() {
    use std::os::unix::fs::PermissionsExt;

    if Command::new("g++").arg("--version").output().is_err() {
        println!("skipped: there is no g++");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let wrapper = folder.path().join("zellige");
    let text = format!(
        "#!/bin/bash\ncase \"$*\" in\n\
         *'--json selftest-quick.json'*) echo 'a check failed' >&2; exit 1 ;;\n\
         *'--json routines.json'*) kill -SEGV $$ ;;\n\
         *'--json variant-2.json'*) exec sleep 1000 ;;\n\
         esac\nexport ZELLIGE_MOCK_GPU=1\nexec '{}' \"$@\"\n",
        ours().display()
    );
    std::fs::write(&wrapper, text).unwrap();
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
    // The kernels are compiled for the host once, before all steps.
    finish(Command::new(&wrapper).args(["machine", "show"]));
    let mut command = checks(folder.path(), &wrapper, &["--minutes", "20", "--tiny", "--out", "results"]);
    let child =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let Ran { code, stdout, stderr } = crate::common::collect(child, std::time::Duration::from_secs(900));
    assert_eq!(code, Some(1), "{stdout}{stderr}");
    let results = folder.path().join("results");
    let lines = std::fs::read_to_string(results.join("results.jsonl")).unwrap();
    let steps: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let with = |status: &str| -> Vec<&str> {
        steps
            .iter()
            .filter(|step| step["status"] == status)
            .map(|step| step["step"].as_str().unwrap())
            .collect()
    };
    assert_eq!(with("failed"), ["selftest-quick", "routines"], "{lines}");
    assert_eq!(with("time-out"), ["variant-2"], "{lines}");
    let ok = with("ok");
    let variants: Vec<String> = (1..=15).filter(|at| *at != 2).map(|at| format!("variant-{at}")).collect();
    let wanted = ["machine", "copies", "small", "goal", "trace-goal", "best", "selftest", "calibrate"];
    for name in wanted.into_iter().chain(variants.iter().map(String::as_str)) {
        assert!(ok.contains(&name), "{name}: {lines}");
        assert!(results.join(format!("{name}.log")).is_file(), "{name}");
        let figures = &steps.iter().find(|step| step["step"] == name).unwrap()["figures"];
        assert!(name == "calibrate" || figures.is_object(), "{name}: {figures}");
    }
    for file in ["platform.toml", "traces.tar.gz", "traces/goal.json"] {
        assert!(results.join(file).metadata().is_ok_and(|file| file.len() > 0), "{file}");
    }
    let last = stdout.lines().last().unwrap();
    for said in [
        "measured: machine, copies",
        "failed: selftest-quick (failed, exit 1), routines (failed, exit 139)",
        "variant-2 (time-out",
    ] {
        assert!(last.contains(said), "{said}: {last}");
    }
}
