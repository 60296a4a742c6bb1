//! Hostile environments and typing errors lose no files: names that collide, devices, endless
//! files, closed streams.

use crate::common::{collect, finish, folder, left, ok, run, zellige};
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Makes a folder with the matrix `a.mtx` and `small.toml`.
fn with_matrix() -> tempfile::TempDir {
    let folder = folder(4);
    ok(folder.path(), &["matrix", "generate", "flow", "--size", "4x4x4", "-o", "a.mtx"]);
    folder
}

#[test]
fn inputs_are_not_overwritten() {
    let folder = with_matrix();
    let path = folder.path();
    fs::write(path.join("e.geb"), "frames").unwrap();
    fs::create_dir(path.join("b")).unwrap();
    fs::write(path.join("b/signals.npy"), "signals").unwrap();
    std::os::unix::fs::symlink("a.mtx", path.join("link.mtx")).unwrap();
    fs::hard_link(path.join("a.mtx"), path.join("hard.mtx")).unwrap();
    fs::copy(path.join("a.mtx"), path.join("v.mtx")).unwrap();
    let before: Vec<_> =
        ["small.toml", "a.mtx", "e.geb", "v.mtx"].map(|name| fs::read(path.join(name)).unwrap()).into();
    for line in [
        "tor run small.toml --json small.toml",
        "tor run small.toml --trace t.json --json ./t.json",
        "solve a.mtx -o a.mtx",
        "solve a.mtx -o link.mtx",
        "solve a.mtx --json hard.mtx",
        "solve a.mtx -b v.mtx -o v.mtx",
        "solve a.mtx --x0 v.mtx --csv v.mtx",
        "solve a.mtx --json x --csv b/../x",
        "solve a.mtx --json - --csv -",
        "spmv a.mtx --json a.mtx",
        "matrix convert a.mtx a.mtx",
        "matrix info a.mtx --json a.mtx",
        "psa stream e.geb --basis b -o e.geb",
        "psa stream e.geb --basis b -o b/signals.npy",
        "psa events --basis b -o b",
        "psa run --basis b --events b --json e.geb --array e.geb",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let ran = run(path, &words).expect(2);
        assert!(
            ran.stderr.contains("would be lost") || ran.stderr.contains("is written by"),
            "{line}: {ran:#?}"
        );
    }
    let after: Vec<_> =
        ["small.toml", "a.mtx", "e.geb", "v.mtx"].map(|name| fs::read(path.join(name)).unwrap()).into();
    assert_eq!(before, after);
    assert_eq!(fs::read(path.join("b/signals.npy")).unwrap(), b"signals");
    assert_eq!(left(path), ["a.mtx", "b", "e.geb", "hard.mtx", "link.mtx", "v.mtx"].map(Path::new));
}

#[test]
fn devices_and_pipes_are_written_to() {
    let folder = with_matrix();
    let path = folder.path();
    assert!(Command::new("mkfifo").arg(path.join("pipe")).status().unwrap().success());
    let pipe = path.join("pipe");
    let reader = std::thread::spawn(move || fs::read_to_string(pipe).unwrap());
    ok(path, &["matrix", "info", "a.mtx", "--json", "pipe"]);
    assert!(reader.join().unwrap().contains("\"rows\""));
    assert!(fs::metadata(path.join("pipe")).unwrap().file_type().is_fifo());
    run(path, &["matrix", "info", "a.mtx", "--json", "/dev/full"]).expect(1).says("/dev/full");
    assert!(fs::metadata("/dev/full").unwrap().file_type().is_char_device());
    ok(path, &["solve", "a.mtx", "--json", "/dev/null", "--csv", "/dev/null"]);
    run(path, &["solve", "a.mtx", "--report", "/dev/null"]).expect(2).says("needs a file");
}

#[test]
fn endings_and_folders_are_checked_first() {
    let folder = with_matrix();
    let path = folder.path();
    for line in [
        "solve a.mtx -o x.txt",
        "matrix convert a.mtx b.txt",
        "matrix generate flow -o m",
        "tor cov small.toml -o c.txt",
        "tor run small.toml --trace t.txt",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        run(path, &words).expect(2).says("the ending of the name determines the format");
    }
    run(path, &["psa", "simulate", "-o", "no/such/basis"]).expect(1).says("no/such/basis");
    assert_eq!(left(path), [Path::new("a.mtx")]);
}

#[test]
fn many_workers_are_a_slip_unless_said() {
    let folder = with_matrix();
    run(folder.path(), &["solve", "a.mtx", "--workers", "10000"]).expect(2).says("--oversubscribe");
    let many = (4 * std::thread::available_parallelism().unwrap().get() + 1).to_string();
    run(folder.path(), &["solve", "a.mtx", "--workers", &many]).expect(2).says("--oversubscribe");
    ok(folder.path(), &["solve", "a.mtx", "--workers", &many, "--oversubscribe"]);
}

#[test]
fn endless_files_are_refused() {
    let folder = with_matrix();
    let path = folder.path();
    for line in [
        "psa simulate --crystal /dev/zero -o basis",
        "tor run small.toml --precision script:/dev/zero",
        "tor run small.toml --precision map:/dev/zero",
        "simulate cholesky --n 1000 --tile 100 --precision hp1:operand=1e-2 --norms /dev/zero",
        "psa track /dev/zero --array /dev/zero -o gammas",
        "lqcd info /dev/zero",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let ran = run(path, &words);
        assert!([Some(1), Some(2)].contains(&ran.code), "{line}: {ran:#?}");
        assert!(!ran.stderr.contains("panicked") && ran.stderr.len() < 1000, "{line}: {ran:#?}");
    }
    assert_eq!(left(path), [Path::new("a.mtx")], "no empty folders");
}

#[test]
fn a_time_longer_than_any_run_is_no_limit() {
    let folder = with_matrix();
    ok(folder.path(), &["solve", "a.mtx", "--max-time", "1e300"]);
}

#[test]
fn nobody_reads_standard_error() {
    let folder = with_matrix();
    for line in ["solve a.mtx --log debug", "tor run small.toml --target 99,99,99", "solve no.mtx"] {
        let mut command = zellige(folder.path());
        // The reader has gone before the first word.
        let (read, write) = std::io::pipe().unwrap();
        drop(read);
        let child = command.args(line.split(' ')).stdout(Stdio::piped()).stderr(write).spawn().unwrap();
        let ran = collect(child, Duration::from_secs(60));
        assert_ne!(ran.code, Some(101), "{line}: {ran:#?}");
    }
}

/// Ctrl-C during the generation of a file, and while it is written.
#[test]
fn writing_is_interrupted() {
    for delay in [200, 1500] {
        let folder = folder(4);
        let mut command = zellige(folder.path());
        command.args(["matrix", "generate", "flow", "--size", "200x200x100", "-o", "a.mtx.gz"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(delay));
        let pid = rustix::process::Pid::from_raw(child.id() as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        collect(child, Duration::from_secs(20)).expect(130).says("interrupted");
        assert!(left(folder.path()).is_empty(), "after {delay} ms: {:?}", left(folder.path()));
    }
}

#[test]
fn a_link_and_its_permissions_stay() {
    use std::os::unix::fs::PermissionsExt;
    let folder = with_matrix();
    let path = folder.path();
    fs::write(path.join("real.json"), "old").unwrap();
    fs::set_permissions(path.join("real.json"), fs::Permissions::from_mode(0o600)).unwrap();
    std::os::unix::fs::symlink("real.json", path.join("link.json")).unwrap();
    finish(zellige(path).args(["matrix", "info", "a.mtx", "--json", "link.json"])).expect(0);
    assert!(path.join("link.json").is_symlink());
    let real = fs::metadata(path.join("real.json")).unwrap();
    assert_eq!((real.permissions().mode() & 0o777, real.len() > 10), (0o600, true));
}

#[test]
fn the_reconstructor_of_another_telescope_is_refused() {
    let folder = folder(6);
    let path = folder.path();
    ok(path, &["tor", "run", "small.toml", "--precision", "fp32", "--xray", "off", "-o", "r.fits"]);
    ok(path, &["tor", "eval", "--rec", "r.fits", "small.toml"]);
    let system = fs::read_to_string(path.join("small.toml")).unwrap();
    for (from, to, says, code) in [
        ("diameter = 8.0", "diameter = 30.0", "DIAM = 8, but this system has 30", 2),
        ("r0 = 0.13", "r0 = 0.15", "R0", 0),
    ] {
        assert!(system.contains(from), "{from} is in the demonstration");
        fs::write(path.join("other.toml"), system.replace(from, to)).unwrap();
        run(path, &["tor", "eval", "--rec", "r.fits", "other.toml"]).expect(code).says(says);
    }
}

#[test]
fn what_no_solver_takes_is_refused_in_short_lines() {
    let folder = folder(4);
    let path = folder.path();
    let banner = "%%MatrixMarket matrix coordinate";
    fs::write(path.join("wide.mtx"), format!("{banner} real general\n2 3 2\n1 1 1\n2 2 1\n")).unwrap();
    fs::write(path.join("complex.mtx"), format!("{banner} complex general\n2 2 2\n1 1 1 0\n2 2 1 0\n"))
        .unwrap();
    fs::write(path.join("one.mtx"), format!("{banner} real symmetric\n2 2 2\n1 1 1\n2 2 3\n")).unwrap();
    run(path, &["solve", "wide.mtx", "--method", "cg"]).expect(2).says("least squares");
    run(path, &["spmv", "complex.mtx"]).expect(2).says("complex");
    ok(path, &["solve", "one.mtx", "--shifts", "-0.5,0"]);
    let system = fs::read_to_string(path.join("small.toml")).unwrap();
    fs::write(path.join("small.toml"), system.replace("diameter = 8.0", "diameter = 1e300")).unwrap();
    let said = run(path, &["tor", "info", "small.toml"]).expect(2).says("1e300").stderr;
    assert!(said.lines().all(|line| line.len() < 200), "{said}");
}
