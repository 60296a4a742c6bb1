//! Times of one footprint on one kind of device.
//!
//! The first sample is set aside (cold caches, first touch of pages, a kernel that is still being
//! loaded). Of the others the last are kept, at most [`RING`], and of many every [`STRIDE`]th. The
//! expected time of the task is the mean of those within a factor of [`WITHIN`] of their median. A
//! schedule consists of sums, and times are skewed (medians are about 5 % below means), while
//! single spikes, whatever their size, do not change this mean.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::fit::Point;
use super::median::median;

/// Maximum number of samples that are kept.
pub(super) const RING: usize = 64;
/// Once the ring is full, one of this many new samples replaces the oldest one: an algorithm's last
/// tasks are not its average ones. A factorisation ends on the rest of its matrix, which lies in
/// cache.
const STRIDE: u64 = 8;
/// Number of samples from which on a history is trusted.
pub(super) const ENOUGH: u32 = 5;
/// Times further from the median, as a factor, are outliers.
const WITHIN: u64 = 2;
/// Share of the samples that the spread ignores at either end.
const TRIM: f64 = 0.1;
/// Weight in a regression of a size with only a first sample, in samples.
const FIRST_ONLY: f64 = 0.25;

/// Returns the interval, in samples, at which the estimate of `len` samples is recomputed: after a
/// quarter of new ones.
fn patience(len: usize) -> u32 {
    (len as u32 / 4).max(1)
}

/// A history that many workers add to and many policies read.
#[derive(Debug, Default)]
pub(super) struct Cell {
    /// Expected time (ns) in the upper 48 bits, number of samples in the lower 16, both saturating.
    published: AtomicU64,
    history: Mutex<History>,
}

const COUNT_BITS: u32 = 16;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
const TIME_MAX: u64 = u64::MAX >> COUNT_BITS;

impl Cell {
    /// Adds times (ns) of tasks with these flops and bytes.
    pub(super) fn add(&self, flops: f64, bytes: u64, times: &[u64]) {
        let mut history = self.history.lock();
        (history.flops, history.bytes) = (flops, bytes);
        for &time in times {
            history.add(time);
        }
        if history.unseen >= patience(history.ring.len()) {
            self.publish(&mut history);
        }
    }

    /// Restores saved data.
    pub(super) fn restore(&self, flops: f64, bytes: u64, count: u64, times: &[u64]) {
        let mut history = self.history.lock();
        let kept = &times[..times.len().min(RING)];
        *history = History { flops, bytes, count, ring: kept.to_vec(), ..History::default() };
        self.publish(&mut history);
    }

    fn publish(&self, history: &mut History) {
        history.unseen = 0;
        let Some(expected) = expected(&history.ring) else {
            return;
        };
        let packed = expected.min(TIME_MAX) << COUNT_BITS | history.count.min(COUNT_MAX);
        self.published.store(packed, Ordering::Relaxed);
    }

    /// Returns the expected time (ns) and the number of its samples.
    pub(super) fn expected(&self) -> (u64, u32) {
        let packed = self.published.load(Ordering::Relaxed);
        (packed >> COUNT_BITS, (packed & COUNT_MAX) as u32)
    }

    /// Returns the number of samples seen, including the one set aside.
    pub(super) fn seen(&self) -> u64 {
        let history = self.history.lock();
        history.count + u64::from(history.first.is_some())
    }

    /// Returns the point for a regression over sizes; `None` before the first sample.
    pub(super) fn point(&self) -> Option<Point> {
        let (expected, samples) = self.expected();
        let history = self.history.lock();
        let (time, weight) = match samples {
            // A size that occurs once is better than none, e.g. the panels of a sparse matrix.
            0 => (history.first?, FIRST_ONLY),
            _ => (expected, history.ring.len() as f64),
        };
        Some(Point { flops: history.flops, bytes: history.bytes as f64, time: time as f64, weight })
    }

    /// Returns all data.
    pub(super) fn summary(&self) -> Summary {
        let history = self.history.lock();
        let mut sorted = history.ring.clone();
        sorted.sort_unstable();
        Summary {
            flops: history.flops,
            bytes: history.bytes,
            count: history.count,
            median: median_of(&sorted),
            spread: spread(&sorted),
            sorted,
        }
    }
}

/// Contents of a [`Cell`]; times in ns.
#[derive(Clone, Debug, Default)]
pub(super) struct Summary {
    pub(super) flops: f64,
    pub(super) bytes: u64,
    /// Samples, without the first.
    pub(super) count: u64,
    pub(super) median: Option<u64>,
    pub(super) spread: Duration,
    /// The samples that are kept.
    pub(super) sorted: Vec<u64>,
}

#[derive(Debug, Default)]
struct History {
    flops: f64,
    bytes: u64,
    first: Option<u64>,
    ring: Vec<u64>,
    /// Position of the next sample once the ring is full.
    at: usize,
    count: u64,
    /// Samples since the estimate was computed.
    unseen: u32,
}

impl History {
    fn add(&mut self, time: u64) {
        if self.first.is_none() && self.count == 0 {
            self.first = Some(time);
            return;
        }
        self.count += 1;
        if self.ring.len() < RING {
            self.ring.push(time);
        } else if self.count.is_multiple_of(STRIDE) {
            self.ring[self.at] = time;
            self.at = (self.at + 1) % RING;
        } else {
            return;
        }
        self.unseen += 1;
    }
}

/// Returns the median of up to [`RING`] times.
fn median_of(times: &[u64]) -> Option<u64> {
    let mut copy = [0; RING];
    let copy = &mut copy[..times.len()];
    copy.copy_from_slice(times);
    median(copy)
}

/// Returns the mean of the times within a factor of the median.
fn expected(times: &[u64]) -> Option<u64> {
    let median = median_of(times)?;
    let range = median / WITHIN..=median.saturating_mul(WITHIN);
    let (sum, count) = times
        .iter()
        .filter(|time| range.contains(time))
        .fold((0, 0), |(sum, count), &time| (sum + u128::from(time), count + 1u128));
    // Half of the times may be far below the other half, and none near the mean of the two middle
    // ones.
    Some((sum + count / 2).checked_div(count).map_or(median, |mean| mean as u64))
}

/// Returns the standard deviation about the median, without a tenth of the sorted times at either
/// end.
fn spread(sorted: &[u64]) -> Duration {
    let Some(median) = median_of(sorted) else {
        return Duration::ZERO;
    };
    let cut = if sorted.len() < 3 { 0 } else { (sorted.len() as f64 * TRIM).ceil() as usize };
    let kept = &sorted[cut..sorted.len() - cut];
    let squares = kept.iter().map(|&time| (time as f64 - median as f64).powi(2));
    let variance = squares.sum::<f64>() / kept.len() as f64;
    Duration::from_nanos(variance.sqrt() as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cell(times: &[u64]) -> Cell {
        let cell = Cell::default();
        for &time in times {
            cell.add(1.0, 1, &[time]);
        }
        cell
    }

    #[test]
    fn the_first_sample_is_put_aside() {
        let cell = cell(&[9_000_000, 100, 102, 101]);
        assert_eq!(cell.expected(), (101, 3));
        assert_eq!(cell.seen(), 4);
        assert_eq!(cell.point().unwrap().time, 101.0);
    }

    /// A kernel of 190 us that once took 100 ms, as in starpu#50: a mean would be 1.3 ms for 64
    /// samples.
    #[test]
    fn a_spike_does_not_poison() {
        let mut times: Vec<u64> = (0..20).map(|i| 190_000 + 100 * (i % 5)).collect();
        times.insert(6, 100_000_000);
        times.extend([70_000_000, 190_000, 190_100]);
        let cell = cell(&times);
        let summary = cell.summary();
        assert!((190_000..190_500).contains(&cell.expected().0), "{:?}", cell.expected());
        assert!(summary.spread < Duration::from_micros(1), "{:?}", summary.spread);
    }

    #[test]
    fn the_ring_forgets_what_is_old() {
        let old = [1_000; 200];
        let cell = cell(&old);
        for _ in 0..RING as u64 * STRIDE {
            cell.add(1.0, 1, &[5_000]);
        }
        assert_eq!(cell.expected().0, 5_000);
        assert_eq!(cell.summary().sorted.len(), RING);
    }

    /// Each factorisation ends with 60 products whose tiles lie in cache: they count by their share
    /// among 560.
    #[test]
    fn how_an_algorithm_ends_is_not_what_it_is() {
        let factorisation = [[3_000; 500].as_slice(), &[2_000; 60]].concat();
        let cell = cell(&factorisation.repeat(3));
        assert!((2_850..=3_000).contains(&cell.expected().0), "{:?}", cell.expected());
    }

    /// Kernels share caches and memory: most are fast, some take half as long again, and a schedule
    /// contains all of them.
    #[test]
    fn skewed_times_add_up() {
        let times: Vec<u64> = (0..64).map(|i| if i % 4 == 3 { 1_500 } else { 1_000 }).collect();
        let cell = Cell::default();
        cell.add(1.0, 1, &[&[9], times.as_slice()].concat());
        assert_eq!((cell.expected().0, cell.summary().median), (1_125, Some(1_000)));
    }

    #[test]
    fn what_was_saved_needs_no_warm_up() {
        let cell = Cell::default();
        cell.restore(8.0, 2, 100, &[10, 12, 11]);
        assert_eq!(cell.expected(), (11, 100));
        cell.add(8.0, 2, &[11]);
        assert_eq!(cell.seen(), 101);
        assert_eq!(cell.summary().sorted, [10, 11, 11, 12]);
    }

    #[test]
    fn counts_and_times_saturate() {
        let cell = cell(&[u64::MAX; 4]);
        assert_eq!(cell.expected(), (TIME_MAX, 3));
        let many = Cell::default();
        many.add(1.0, 1, &vec![7; 70_000]);
        assert_eq!(many.expected(), (7, COUNT_MAX as u32));
        assert_eq!(Cell::default().expected(), (0, 0));
    }

    proptest! {
        /// Fewer than half of the samples may be anything.
        #[test]
        fn outliers_cannot_leave_the_range_of_the_good(
            good in prop::collection::vec(900u64..1100, 11..20),
            bad in prop::collection::vec(any::<u64>(), 0..10),
        ) {
            let mut times = vec![0];
            times.extend(good.iter().chain(&bad));
            let cell = cell(&times);
            let found = cell.summary().median.unwrap();
            prop_assert!((900..1100).contains(&found), "{}", found);
            let found = expected(&times[1..]).unwrap();
            prop_assert!((900 / WITHIN..=1100 * WITHIN).contains(&found), "{}", found);
        }
    }
}
