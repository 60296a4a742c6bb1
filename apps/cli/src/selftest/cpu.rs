//! The kernels of CPU workers against float64.

use std::cell::Cell;

use zellige_files::observe::Observer;
use zellige_linalg::verify::{self, Extent};

use super::outcome::{CHECKS, KernelRow, verdict};
use crate::args::SelftestArgs;
use crate::devices;
use crate::interrupt;
use crate::table::{Side, Table};

/// CPU workers lack no precision.
const EVERYTHING: (u32, u32) = (u32::MAX, 0);

/// Every kernel in every precision on random tiles.
///
/// # Errors
/// Ctrl-C; no runtime can be built.
pub fn kernels(args: &SelftestArgs, progress: &dyn Observer) -> anyhow::Result<Vec<KernelRow>> {
    let (tiles, largest) = if args.quick { (20, 64) } else { (100, 96) };
    let extent = Extent { tiles, largest, seed: args.seed };
    progress.stage("kernels on CPU workers", CHECKS);
    let rt = devices::builder().build()?;
    let _armed = interrupt::cancels(rt.canceller());
    let done = Cell::new(0);
    let checks = verify::kernels(&rt, &extent, EVERYTHING, &|_| {
        done.set(done.get() + 1);
        progress.advance(done.get());
    });
    interrupt::check()?;
    Ok(checks.iter().map(|check| KernelRow::new(check, EVERYTHING)).collect())
}

/// A row for each.
pub fn table(rows: &[KernelRow]) -> Table {
    let mut table = Table::new(&[
        ("kernel (CPU)", Side::Left),
        ("precision", Side::Left),
        ("tiles", Side::Right),
        ("error / bound", Side::Right),
        ("", Side::Left),
    ]);
    for row in rows {
        let names = [row.kernel.into(), row.precision.into(), row.tiles.to_string()];
        let said = verdict(row.passed, &row.skipped, &row.failed);
        table.row(names.into_iter().chain([format!("{:.3}", row.error), said]));
    }
    table
}
