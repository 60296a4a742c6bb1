//! Written matrix files, and the order of slopes in them.

use zellige_tor::files::SlopeOrder;

use crate::args::Order;
use crate::out;

/// Prints the names of the files that were written.
///
/// # Errors
/// Standard output fails.
pub fn print_written(quiet: bool, written: &[std::path::PathBuf]) -> anyhow::Result<()> {
    for path in written.iter().filter(|_| !quiet) {
        out::print(&format!("written: {}\n", path.display()))?;
    }
    Ok(())
}

/// Converts an order to that of the library.
pub fn order(order: Order) -> SlopeOrder {
    match order {
        Order::Xxyy => SlopeOrder::Xxyy,
        Order::Xyxy => SlopeOrder::Xyxy,
    }
}
