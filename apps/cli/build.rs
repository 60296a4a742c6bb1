//! Build script: passes the version, the commit and the features of the build to the command.

use std::path::Path;
use std::process::Command;

fn main() {
    let features: Vec<_> = ["hwloc", "hdf5", "check-borrows"]
        .into_iter()
        .filter(|name| {
            let variable = format!("CARGO_FEATURE_{}", name.to_uppercase().replace('-', "_"));
            std::env::var_os(variable).is_some()
        })
        .collect();
    let features = if features.is_empty() { "none".to_owned() } else { features.join(", ") };
    println!("cargo::rustc-env=ZELLIGE_FEATURES={features}");
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let commit = commit();
    if let Some(commit) = &commit {
        println!("cargo::rustc-env=ZELLIGE_COMMIT={commit}");
    }
    let of = commit.map_or(String::new(), |commit| format!("commit {commit}, "));
    println!("cargo::rustc-env=ZELLIGE_VERSION={version} ({of}features: {features})");
}

/// Returns the commit of the repository with this package; `None` without a repository or without
/// git.
fn commit() -> Option<String> {
    println!("cargo::rerun-if-changed=build.rs");
    let git = |arguments: &[&str]| {
        let output =
            Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
    };
    // A package that was unpacked into another repository is not part of it.
    git(&["ls-files", "--error-unmatch", "Cargo.toml"])?;
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"])?;
    if Path::new(&log).is_file() {
        println!("cargo::rerun-if-changed={log}");
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}
