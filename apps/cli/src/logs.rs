//! What the libraries report through `tracing`, on standard error.

use std::io::{self, Write};

use tracing_subscriber::EnvFilter;

use crate::exit::CommandError;
use crate::{out, progress};

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
        .with_writer(|| BesideTheBar)
        .with_ansi(out::colours(&io::stderr()))
        .with_target(false)
        .without_time()
        .init();
    Ok(())
}

/// Standard error, with the progress bar out of the way of each line.
struct BesideTheBar;

impl Write for BesideTheBar {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A whole line comes in one call.
        progress::aside(|| io::stderr().write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
