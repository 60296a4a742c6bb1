//! What the libraries report through `tracing`, on standard error.

use std::io;

use tracing_subscriber::EnvFilter;

use crate::exit::CommandError;
use crate::out;

/// Starts to print what is at least as urgent as `--log` says, or `RUST_LOG`, or else warnings.
///
/// # Errors
/// `--log` is not understood.
pub fn start(level: Option<&str>) -> Result<(), CommandError> {
    let filter = match level {
        Some(text) => EnvFilter::try_new(text).map_err(|e| {
            CommandError::option("--log", format!("{text:?}: {e}; e.g. off, error, warn, info, debug, trace"))
        })?,
        None => EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn")),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(out::colours(&io::stderr()))
        .with_target(false)
        .without_time()
        .init();
    Ok(())
}
