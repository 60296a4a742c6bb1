//! The C, C++ and Fortran programs of `programs/`, compiled against the header or the module and
//! the shared library, each run with one worker and with two. They check their results themselves.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A program that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// Cargo builds the shared library beside the tests.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().to_owned()
}

fn available(compiler: &str) -> bool {
    Command::new(compiler).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

fn compile(source: &str) -> Option<PathBuf> {
    let (compiler, standard) = match source.rsplit_once('.') {
        Some((_, "cpp")) => ("c++", "-std=c++17"),
        Some((_, "f90")) => ("gfortran", "-std=f2008"),
        _ if source.starts_with("mpi/") => ("mpicc", "-std=c99"),
        _ => ("cc", "-std=c99"),
    };
    if !available(compiler) {
        zellige_tests::skipped(&format!("not installed: {compiler}"));
        return None;
    }
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(source.replace(['.', '/'], "-"));
    let libraries = libraries();
    // The library's code asks the program for the sanitizer's functions.
    let sanitized = std::env::var("RUSTFLAGS").is_ok_and(|flags| flags.contains("sanitizer=address"));
    let modules = program.with_extension("modules");
    std::fs::create_dir_all(&modules).unwrap();
    let mut command = Command::new(compiler);
    command.args([standard, "-Wall", "-Werror", "-O1", "-g", "-D_GNU_SOURCE"]);
    if compiler == "gfortran" {
        // Subroutines for tasks have both arguments whether they use them or not.
        command.arg("-Wno-unused-dummy-argument").arg("-J").arg(&modules);
        command.arg(package.join("include/fstarpu_mod.f90"));
    }
    let output = command
        .args(sanitized.then_some("-fsanitize=address"))
        .arg(package.join("tests/programs").join(source))
        .arg("-I")
        .arg(package.join("include"))
        .arg("-L")
        .arg(&libraries)
        .arg(format!("-Wl,-rpath,{}", libraries.display()))
        .args(["-rdynamic", "-lzellige_starpu", "-lm", "-lpthread", "-o"])
        .arg(&program)
        .output()
        .unwrap();
    assert!(output.status.success(), "{source}: {}", String::from_utf8_lossy(&output.stderr));
    Some(program)
}

/// Runs a program, as several processes if `ranks` says how many.
fn run(program: &Path, workers: usize, ranks: Option<usize>) {
    let home = program.with_extension(format!("{workers}-{}", ranks.unwrap_or(0)));
    std::fs::create_dir_all(&home).unwrap();
    let gpus = program.file_name().is_some_and(|name| name.to_string_lossy().starts_with("gpu"));
    let mut command = match ranks {
        None => Command::new(program),
        Some(ranks) => {
            let mut command = Command::new("mpirun");
            command.args(["-n", &ranks.to_string()]).arg(program);
            // Open MPI asks for these where root starts it, and where there are few cores.
            for name in ["ALLOW_RUN_AS_ROOT", "ALLOW_RUN_AS_ROOT_CONFIRM", "MCA_rmaps_base_oversubscribe"] {
                command.env(format!("OMPI_{name}"), "1");
            }
            command
        }
    };
    let mut child = command
        .current_dir(&home)
        // Cargo's own list has the folder above first, where an older build may lie.
        .env("LD_LIBRARY_PATH", libraries())
        .env("STARPU_NCPU", workers.to_string())
        .env("STARPU_NCUDA", if gpus { "2" } else { "0" })
        // Two mocked GPUs, for the library that tests are built with.
        .env("ZELLIGE_MOCK_GPU", "2")
        .env("ZELLIGE_MOCK_GPU_PEERS", if workers == 1 { "0" } else { "1" })
        .env("STARPU_HOME", &home)
        .env_remove("STARPU_SCHED")
        .env_remove("STARPU_NCPUS")
        .env_remove("STARPU_CALIBRATE")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stream = child.stderr.take().unwrap();
    let errors = thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stream.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if began.elapsed() > LIMIT {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        thread::sleep(Duration::from_millis(2));
    };
    let errors = errors.join().unwrap();
    let name = program.file_name().unwrap().to_string_lossy();
    match status {
        Some(status) => {
            assert!(status.success(), "{name}, {workers} workers, ranks {ranks:?}: {status}\n{errors}");
        }
        None => panic!("{name}, {workers} workers, ranks {ranks:?}: not done within {LIMIT:?}\n{errors}"),
    }
}

macro_rules! programs {
    ($($name:ident: $source:literal,)*) => {$(
        #[test]
        fn $name() {
            if let Some(program) = compile($source) {
                let counts = if $source.starts_with("mpi/") { &[Some(1), Some(2), Some(4)][..] } else { &[None] };
                for &ranks in counts {
                    run(&program, 1, ranks);
                    run(&program, 2, ranks);
                }
            }
        }
    )*};
}

programs! {
    axpy_on_parts: "axpy.c",
    a_blocked_cholesky_factorisation: "cholesky.c",
    reduction_and_scratch: "reduction.c",
    an_interface_of_its_own: "interface.c",
    a_planned_partition: "partition.c",
    tags: "tags.c",
    callbacks_of_a_task: "callbacks.c",
    acquire_from_a_callback: "acquire.c",
    mistakes_are_errors: "failing.c",
    a_policy_of_its_own: "policy.c",
    models_and_profiling: "models.c",
    contexts_and_workers: "contexts.c",
    workers_are_driven_and_switched_off: "steering.c",
    lambdas_of_cpp: "lambdas.cpp",
    tasks_of_fortran: "fortran.f90",
}

#[cfg(feature = "mock-gpu")]
programs! {
    codelets_on_gpus: "gpu.c",
}

#[cfg(feature = "mpi")]
programs! {
    messages_between_processes: "mpi/messages.c",
    tasks_of_several_processes: "mpi/tasks.c",
}
