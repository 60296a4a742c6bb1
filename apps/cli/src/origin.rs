//! When and where figures were measured, so that a file can be told from others.

use std::time::SystemTime;

use humantime::format_rfc3339_seconds;
use serde::Serialize;
use zellige_runtime::model::processor;

/// Beside the GPU and its libraries.
#[derive(Debug, Serialize)]
pub struct Origin {
    /// When it began, in UTC: `2026-03-01T12:34:56Z`.
    pub date: String,
    /// The machine's name.
    pub host: String,
    /// Its processor; `null` where the system does not tell.
    pub cpu: Option<String>,
    /// Of this program.
    pub version: &'static str,
}

impl Origin {
    /// This moment on this machine.
    pub fn here() -> Self {
        // A clock that stands before 1970 has no date worth telling, and the library refuses it.
        let now = SystemTime::now().max(SystemTime::UNIX_EPOCH);
        Origin {
            date: format_rfc3339_seconds(now).to_string(),
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            cpu: processor(),
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}
