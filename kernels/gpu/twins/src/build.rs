//! Compilation with g++, with a cache of the libraries.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::TwinError;

const SHIM: &str = include_str!("../shim.h");
/// Products and sums are not fused, as with `--fmad=false`.
const FLAGS: [&str; 5] = ["-std=c++17", "-O2", "-shared", "-fPIC", "-ffp-contract=off"];
const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas"];

fn system(what: String) -> impl FnOnce(io::Error) -> TwinError {
    move |error| TwinError::System { what, why: error.to_string() }
}

/// Builds the shared library of a source with these kernels. Returns `None`, and prints a line, if
/// there is no g++.
///
/// It is cached next to the test's program: each test is a process of its own, and many need the
/// same twins.
pub(crate) fn library(name: &str, text: &str, kernels: &[&str]) -> Result<Option<PathBuf>, TwinError> {
    let Some(compiler) = compiler() else {
        eprintln!("skipped: host twins of {name}: there is no g++ (install it)");
        return Ok(None);
    };
    let twins: String = kernels.iter().map(|kernel| format!("SHIM_TWIN({kernel})\n")).collect();
    let program = format!("#include \"shim.h\"\n{text}\n{twins}");
    // A library is another one with another program, shim, compiler or options.
    let mut hash = DefaultHasher::new();
    (&program, SHIM, FLAGS, WARNINGS, compiler).hash(&mut hash);
    let folder = kept().map_err(system("a folder for host twins".into()))?;
    let file = folder.join(format!("{name}-{:016x}.so", hash.finish()));
    if !file.exists() {
        compile(name, &program, &folder, &file)?;
    }
    Ok(Some(file))
}

/// Returns the version text of g++, queried once: a test builds the twins of many sources.
fn compiler() -> Option<&'static [u8]> {
    static VERSION: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let ask = || Some(Command::new("g++").arg("--version").output().ok()?.stdout);
    VERSION.get_or_init(ask).as_deref()
}

/// Returns `twins` next to the folder of the program.
fn kept() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let beside = program.parent().and_then(Path::parent).ok_or(io::ErrorKind::NotFound)?;
    let folder = beside.join("twins");
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Compiles in a separate folder, from which the complete library is moved to its final path.
fn compile(name: &str, program: &str, kept: &Path, to: &Path) -> Result<(), TwinError> {
    let folder = tempfile::tempdir_in(kept).map_err(system("a temporary folder".into()))?;
    for (file, text) in [("shim.h", SHIM), ("twins.cpp", program)] {
        let path = folder.path().join(file);
        std::fs::write(&path, text).map_err(system(format!("writing {}", path.display())))?;
    }
    let output = Command::new("g++")
        .args(FLAGS)
        .args(WARNINGS)
        .args(["-o", "twins.so", "twins.cpp"])
        .current_dir(folder.path())
        .output()
        .map_err(system("running g++".into()))?;
    if !output.status.success() {
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(TwinError::Compile { source_name: name.into(), log });
    }
    std::fs::rename(folder.path().join("twins.so"), to).map_err(system(format!("writing {}", to.display())))
}
