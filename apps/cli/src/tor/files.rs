//! Matrix files that will be written: the ending of the name says the format.

use std::path::Path;

use zellige_tor::files::SlopeOrder;

use crate::args::Order;
use crate::exit::CommandError;
use crate::out::{self, Target};

/// Checks the name of a matrix file that will be written, and its folder.
///
/// # Errors
/// Another ending than .fits or .npy; a folder that takes no files; a device.
pub fn target(option: &'static str, path: &Path) -> anyhow::Result<Target> {
    let ending = path.extension().map(|e| e.to_ascii_lowercase());
    match ending.as_ref().and_then(|e| e.to_str()) {
        Some("fits" | "fit" | "npy") => Target::regular(option, path),
        _ => {
            let problem =
                format!("{}: the name must end in .fits or .npy, which says the format", path.display());
            Err(CommandError::option(option, problem).into())
        }
    }
}

/// Runs something that writes files, safe from a signal that ends the process, and says what was written.
///
/// # Errors
/// What `write` fails with.
pub fn write(
    quiet: bool,
    write: impl FnOnce() -> Result<Vec<std::path::PathBuf>, zellige_tor::pipeline::Error>,
) -> anyhow::Result<()> {
    let written = {
        let _held = out::writing();
        write()?
    };
    for path in written.iter().filter(|_| !quiet) {
        out::print(&format!("wrote {}\n", path.display()))?;
    }
    Ok(())
}

/// The library's name for an order.
pub fn order(order: Order) -> SlopeOrder {
    match order {
        Order::Xxyy => SlopeOrder::Xxyy,
        Order::Xyxy => SlopeOrder::Xyxy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_says_the_format() {
        let folder = tempfile::tempdir().unwrap();
        assert!(target("-o", &folder.path().join("R.FITS")).is_ok());
        assert!(target("-o", &folder.path().join("R.npy")).is_ok());
        let error = target("-o", &folder.path().join("R.txt")).unwrap_err();
        assert!(error.to_string().contains(".fits or .npy"), "{error}");
    }
}
