//! All sizes of one implementation of a codelet with one label: the data of a regression.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::KindId;
use super::fit::{Fit, Point};
use super::history::Cell;
use super::table::{PerKind, Table};

#[derive(Debug, Default)]
pub(super) struct Family {
    members: Mutex<Vec<u32>>,
    regressions: PerKind<Regression>,
}

/// The regression on one kind of device. It is computed on request, and again once there are so
/// many more samples that the cost of reading every size is negligible per sample.
#[derive(Debug, Default)]
struct Regression {
    samples: AtomicU64,
    fit: Mutex<Fitted>,
}

#[derive(Debug, Default)]
struct Fitted {
    /// Fit over flops and bytes, from samples with counted bytes.
    by_both: Option<Fit>,
    /// Fit over flops, from all samples.
    by_flops: Option<Fit>,
    /// Number of samples at which it is computed again.
    due: u64,
}

impl Family {
    pub(super) fn join(&self, member: u32) {
        self.members.lock().push(member);
    }

    pub(super) fn count(&self, kind: KindId, samples: usize) {
        self.regressions.get_or_insert(kind).samples.fetch_add(samples as u64, Ordering::Relaxed);
    }

    /// Returns the expected time (ns), and the number of its samples. `bytes` 0: unknown.
    pub(super) fn estimate(&self, table: &Table, kind: KindId, flops: f64, bytes: u64) -> Option<(f64, u64)> {
        let regression = self.regressions.get(kind)?;
        let samples = regression.samples.load(Ordering::Relaxed);
        let mut fitted = regression.fit.lock();
        if samples >= fitted.due {
            let mut points = self.points(table, kind);
            fitted.due = samples + 1 + points.len() as u64 / 4;
            let counted: Vec<Point> = points.iter().filter(|point| point.bytes > 0.0).copied().collect();
            fitted.by_both = Fit::of(&counted);
            points.iter_mut().for_each(|point| point.bytes = 0.0);
            fitted.by_flops = Fit::of(&points);
        }
        let fit = fitted.by_both.filter(|_| bytes > 0).or(fitted.by_flops)?;
        Some((fit.time(flops, bytes as f64), samples))
    }

    fn points(&self, table: &Table, kind: KindId) -> Vec<Point> {
        let members = self.members.lock().clone();
        let cells = members.iter().filter_map(|&number| table.get(number)?.cells.get(kind));
        cells.filter_map(Cell::point).collect()
    }
}
