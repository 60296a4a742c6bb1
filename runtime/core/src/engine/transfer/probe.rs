//! Measurement of a link: the sizes that are sent over it, the repetitions, and the plausibility of
//! the result.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use zellige_model::{LinkError, LinkModel, median};

use crate::buffer::Buffer;

/// The sizes grow by this factor from the smallest to the largest (bytes).
const GROWTH: u64 = 4;
const SMALLEST: u64 = 4 << 10;
const LARGEST: u64 = 16 << 20;

/// Transfers of each size.
const ROUNDS: usize = 5;

/// A quarter of the longest acceptable transfer: after a size that takes this long no larger one is
/// sent.
const ENOUGH: Duration = Duration::from_micros(500);

/// Total time after which one transfer of each size is sufficient.
const PATIENCE: Duration = Duration::from_millis(20);

/// The transfers of one measurement, from small to large.
#[derive(Default)]
pub(super) struct Ladder {
    samples: Vec<(u64, Duration)>,
    /// Times of the smallest size, and of the one that is being sent.
    smallest: Vec<Duration>,
    current: Vec<Duration>,
    bytes: u64,
    spent: Duration,
}

impl Ladder {
    /// Returns the next size to send; `None` once enough is known.
    pub(super) fn next(&mut self) -> Option<u64> {
        if self.bytes == 0 {
            self.bytes = SMALLEST;
        }
        let rounds = if self.spent < PATIENCE { ROUNDS } else { 1 };
        if self.current.len() >= rounds {
            if self.is_at_its_end() {
                return None;
            }
            self.bytes *= GROWTH;
            let last = std::mem::take(&mut self.current);
            if self.smallest.is_empty() {
                self.smallest = last;
            }
        }
        Some(self.bytes)
    }

    /// True for the largest size, or for one that takes long enough and much longer than the
    /// smallest: the difference gives the bandwidth.
    fn is_at_its_end(&self) -> bool {
        let time = median_of(&self.current);
        let grown = !self.smallest.is_empty() && time >= 2 * median_of(&self.smallest);
        self.bytes >= LARGEST || (grown && (time >= ENOUGH || self.spent >= PATIENCE))
    }

    /// Adds the time of the last transfer.
    pub(super) fn add(&mut self, time: Duration) {
        self.samples.push((self.bytes, time));
        self.current.push(time);
        self.spent += time;
    }

    /// Returns the link, if its figures are plausible: `host_copy` is the speed of a copy within
    /// the host.
    pub(super) fn judge(&self, host_copy: Option<&LinkModel>) -> Result<LinkModel, LinkError> {
        let link = LinkModel::from_samples(&self.samples)?;
        match host_copy {
            Some(copy) => link.unlike_host_copy(copy),
            None => Ok(link),
        }
    }
}

fn median_of(times: &[Duration]) -> Duration {
    median(&mut times.to_vec()).unwrap_or_default()
}

/// Two buffers of equal size whose pages have been touched.
pub(super) struct Bytes {
    from: Buffer<u8>,
    to: Buffer<u8>,
}

impl Bytes {
    pub(super) fn new(bytes: u64) -> Self {
        let place = |fill: u8| {
            let mut place = Buffer::unfilled(bytes as usize);
            place.fill(fill);
            place
        };
        Bytes { from: place(1), to: place(2) }
    }

    pub(super) fn len(&self) -> u64 {
        self.from.len() as u64
    }

    /// The source and the destination buffer.
    pub(super) fn both(&mut self) -> (&mut [u8], &mut [u8]) {
        (&mut self.from, &mut self.to)
    }

    pub(super) fn copy(&mut self) {
        self.to.copy_from_slice(&self.from);
        std::hint::black_box(&mut self.to);
    }
}

/// Returns the speed of a copy within the host, measured once; `None` if it cannot be measured.
pub(super) fn host_copy() -> Option<&'static LinkModel> {
    static HOST_COPY: OnceLock<Option<LinkModel>> = OnceLock::new();
    HOST_COPY.get_or_init(measured_copy).as_ref()
}

fn measured_copy() -> Option<LinkModel> {
    let (mut ladder, mut bytes) = (Ladder::default(), Bytes::new(0));
    while let Some(size) = ladder.next() {
        if bytes.len() != size {
            bytes = Bytes::new(size);
        }
        let start = Instant::now();
        bytes.copy();
        ladder.add(start.elapsed());
    }
    ladder.judge(None).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends the sizes of the ladder over a link that takes `time`. Returns the ladder, the number
    /// of transfers and the longest of them.
    fn climb(time: impl Fn(u64) -> Duration) -> (Ladder, usize, Duration) {
        let (mut ladder, mut longest) = (Ladder::default(), Duration::ZERO);
        while let Some(bytes) = ladder.next() {
            longest = longest.max(time(bytes));
            ladder.add(time(bytes));
            assert!(ladder.samples.len() <= 7 * ROUNDS, "it ends");
        }
        let transfers = ladder.samples.len();
        (ladder, transfers, longest)
    }

    fn link(bandwidth: f64, latency: f64) -> impl Fn(u64) -> Duration {
        move |bytes| Duration::from_secs_f64(latency + bytes as f64 / bandwidth)
    }

    #[test]
    fn any_sane_link_is_found_and_the_transfers_stay_short() {
        for (bandwidth, latency) in [(50e9, 8e-6), (10e9, 0.0), (1e9, 50e-6), (100e6, 1e-3), (2e6, 0.0)] {
            let (ladder, _, longest) = climb(link(bandwidth, latency));
            let found = ladder.judge(None).unwrap();
            assert!((found.bandwidth() / bandwidth - 1.0).abs() < 0.01, "{found:?}");
            assert!((found.latency() - latency).abs() < 1e-6, "{found:?}");
            let smallest = link(bandwidth, latency)(SMALLEST);
            assert!(longest <= (4 * ENOUGH).max(2 * GROWTH as u32 * smallest), "{bandwidth:e}: {longest:?}");
        }
    }

    #[test]
    fn a_link_that_takes_forever_is_given_up_soon() {
        let (_, transfers, _) = climb(|bytes| Duration::from_millis(bytes / 10));
        assert_eq!(transfers, 2);
        let (ladder, transfers, _) = climb(|_| Duration::from_secs(1));
        assert_eq!(transfers, 7, "one of each size");
        assert!(ladder.judge(None).is_err());
    }

    #[test]
    fn a_copy_within_the_host_is_no_link() {
        let copy = LinkModel::new(8e9, 1e-6).unwrap();
        let (ladder, ..) = climb(link(8e9, 1e-6));
        assert!(matches!(ladder.judge(Some(&copy)), Err(LinkError::LikeHostCopy { .. })));
        assert!(climb(link(8e9, 9e-6)).0.judge(Some(&copy)).is_ok());
    }
}
