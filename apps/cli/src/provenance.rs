//! Provenance of a file of results: this build, on this machine, today.

use std::sync::OnceLock;
use std::time::SystemTime;

use humantime::format_rfc3339_seconds;
use zellige_app::json::{Host, Program, Provenance, SCHEMA};
use zellige_runtime::model::processor;
use zellige_runtime::topology::Topology;

static RUN: OnceLock<Provenance> = OnceLock::new();

/// Version text that `--version` prints after the name.
pub const VERSION: &str = env!("ZELLIGE_VERSION");

/// Records the start time and the words after the command's name, once.
pub fn begin(args: Vec<String>) {
    RUN.get_or_init(|| here(args));
}

/// Returns the provenance of this run.
pub fn run() -> &'static Provenance {
    RUN.get_or_init(|| here(Vec::new()))
}

fn here(args: Vec<String>) -> Provenance {
    // A clock before 1970 gives no useful date, and the library refuses it.
    let now = SystemTime::now().max(SystemTime::UNIX_EPOCH);
    let features = env!("ZELLIGE_FEATURES").split(", ").filter(|name| *name != "none");
    Provenance {
        schema: SCHEMA,
        zellige: Program {
            version: env!("CARGO_PKG_VERSION").into(),
            commit: option_env!("ZELLIGE_COMMIT").map(str::to_owned),
            features: features.map(str::to_owned).collect(),
        },
        host: Host {
            name: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            processor: processor(),
            cores: Topology::discover().cores.len(),
        },
        date: format_rfc3339_seconds(now).to_string(),
        args,
    }
}
