//! What the libraries report through `tracing`, on standard error.

use std::io::{self, Write};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::exit::CommandError;
use crate::{out, progress};

/// Starts to print what is at least as urgent as `--log` says, or `RUST_LOG`, or else warnings.
///
/// # Errors
/// `--log` is not understood.
pub fn start(level: Option<&str>) -> Result<(), CommandError> {
    let filter = match level {
        Some(text) => text.parse::<Targets>().map_err(|e| {
            CommandError::option("--log", format!("{text:?}: {e}; e.g. off, error, warn, info, debug, trace"))
        })?,
        None => {
            let wanted = std::env::var("RUST_LOG").ok().filter(|text| !text.is_empty());
            let wanted = wanted.and_then(|text| text.parse::<Targets>().ok());
            wanted.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN))
        }
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(|| BesideTheBar)
        .with_ansi(out::colours(&io::stderr()))
        .with_target(false)
        .without_time();
    tracing_subscriber::registry().with(lines).with(filter).init();
    Ok(())
}

/// Standard error, with the progress bar out of the way of each line.
struct BesideTheBar;

impl Write for BesideTheBar {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A whole line comes in one call.
        progress::aside(|| {
            // That nobody reads it is no failure.
            let _ = io::stderr().write_all(bytes);
            Ok(bytes.len())
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
