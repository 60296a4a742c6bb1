//! Log messages of the libraries (`tracing`), on standard error.

use std::io::{self, Write};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::exit::CommandError;
use crate::{bar, out};

/// Starts the log, at the level of `--log`, of `RUST_LOG`, or else at warnings.
///
/// # Errors
/// `--log` is not a valid filter.
pub fn start(level: Option<&str>) -> Result<(), CommandError> {
    let filter = match level {
        Some(text) => text.parse::<Targets>().map_err(|e| {
            CommandError::option(
                "--log",
                format!("{text:?}: {e}; use off, error, warn, info, debug or trace"),
            )
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

/// Writer to standard error that moves the progress bar out of the way of each line.
struct BesideTheBar;

impl Write for BesideTheBar {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Each call writes a complete line.
        bar::aside(|| {
            // It is no failure if nobody reads standard error.
            let _ = io::stderr().write_all(bytes);
            Ok(bytes.len())
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
