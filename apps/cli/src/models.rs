//! The performance models of this machine: their file, and the identity for which they are valid.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use zellige_runtime::model::{Identity, Loaded, Models, default_path};
use zellige_runtime::sched::uses_performance_models;

use crate::out;

/// Returns the identity of this machine and build, for which its models are valid. A build without
/// optimisation has its own identity, because it runs at half the rate.
pub fn identity() -> Identity {
    let profile = if cfg!(debug_assertions) { "debug" } else { "release" };
    Identity::of_host(format!("zellige {} {profile} {}", env!("CARGO_PKG_VERSION"), simd().join(" ")))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The models are of this machine and build, and are used by the platform `host` and by
    /// policies that use performance models.
    Fresh,
    /// The models are of another machine or build.
    Stale,
    /// Nothing was measured yet.
    Absent,
    /// The file exists but cannot be used.
    Unreadable,
}

/// The reason why there are no usable models.
#[derive(Debug)]
pub struct Unusable {
    /// Path of the file; `None` if there is no cache folder.
    pub path: Option<PathBuf>,
    /// State of the file; never [`State::Fresh`].
    pub state: State,
    /// The reason why an existing file is not used.
    pub why: Option<String>,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.as_deref().map_or("no file".into(), |path| path.display().to_string());
        let measure = "zellige machine calibrate measures them";
        match (self.state, &self.why) {
            (State::Stale, why) => {
                write!(f, "stale, not used: {}; {measure} again ({path})", why.as_deref().unwrap_or("other"))
            }
            (State::Unreadable, why) => write!(f, "not used: {}", why.as_deref().unwrap_or(&path)),
            (_, Some(why)) => write!(f, "none: {why}"),
            (_, None) => write!(f, "none: {measure} ({path})"),
        }
    }
}

/// Returns the models of this machine and the path of their file.
///
/// # Errors
/// The reason why there are no models.
pub fn cached() -> Result<(Arc<Models>, PathBuf), Unusable> {
    let path = default_path().map_err(|e| Unusable {
        path: None,
        state: State::Absent,
        why: Some(e.to_string()),
    })?;
    let (state, why) = match Models::load(&path, &identity()) {
        Ok(Loaded::Fresh(models)) => return Ok((Arc::new(models), path)),
        Ok(Loaded::Stale { why }) => (State::Stale, Some(why)),
        Ok(Loaded::Absent) => (State::Absent, None),
        Err(e) => (State::Unreadable, Some(e.to_string())),
    };
    Err(Unusable { path: Some(path), state, why })
}

/// Returns the models of this machine, for a scheduling policy that uses performance models. If
/// there are none, a note on standard error says so.
pub fn for_policy(policy: &str) -> Option<Arc<Models>> {
    if !uses_performance_models(policy) {
        return None;
    }
    match cached() {
        Ok((models, _)) => Some(models),
        Err(unusable) => {
            out::note(&format!(
                "warning: {policy} starts without estimates of task times; performance models: {unusable}"
            ));
            None
        }
    }
}

/// Writes the models into their file, with the measurements of a run. A file of another machine or
/// build is kept, and so is one that cannot be parsed; only `machine calibrate` replaces those.
pub fn keep(models: &Models) {
    let path = match cached() {
        Ok((_, path)) | Err(Unusable { path: Some(path), state: State::Absent, .. }) => path,
        Err(_) => return,
    };
    if let Err(error) = models.save(&path, &identity()) {
        out::note(&format!("warning: the measurements of this run are not saved: {error}"));
    }
}

/// Returns the vector instruction sets that the kernels can choose from.
#[cfg(target_arch = "x86_64")]
pub fn simd() -> Vec<&'static str> {
    let known = [
        ("avx2", is_x86_feature_detected!("avx2")),
        ("fma", is_x86_feature_detected!("fma")),
        ("f16c", is_x86_feature_detected!("f16c")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512bf16", is_x86_feature_detected!("avx512bf16")),
        ("avx512fp16", is_x86_feature_detected!("avx512fp16")),
    ];
    known.into_iter().filter_map(|(name, there)| there.then_some(name)).collect()
}

/// Returns the vector instruction sets that the kernels can choose from: none on this architecture.
#[cfg(not(target_arch = "x86_64"))]
pub fn simd() -> Vec<&'static str> {
    Vec::new()
}
