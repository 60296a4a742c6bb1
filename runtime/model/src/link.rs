//! Expected time of a transfer: `latency + bytes / bandwidth`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::median::median;

/// Plausible bandwidths of a link (B/s).
const BANDWIDTH: std::ops::RangeInclusive<f64> = 1e6..=1e13;
/// Largest plausible latency (s).
const LATENCY: f64 = 1.0;
/// Maximum number of sizes in a fit.
const SIZES: usize = 256;
/// Minimum ratio of sizes that separates latency and bandwidth.
const SPREAD: f64 = 8.0;
/// Relative difference below which the figures of two links are equal.
const SAME: f64 = 0.01;

/// The model of one direction of a link between two memory nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkModel {
    bandwidth: f64,
    latency: f64,
}

/// The reason why figures of a link are implausible.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// There are too few sizes: a line needs two points.
    #[error("transfers of {sizes} size(s) were measured: bandwidth and latency need 2 sizes at least")]
    TooFewSizes {
        /// Number of distinct sizes.
        sizes: usize,
    },
    /// The bandwidth is implausible.
    #[error(
        "a bandwidth of {got:e} B/s is not believable (1 MB/s to 10 TB/s): measure again, with larger transfers"
    )]
    Bandwidth {
        /// The bandwidth in B/s.
        got: f64,
    },
    /// The latency is implausible.
    #[error(
        "a latency of {got:e} s is not believable (0 to 1 s): measure again, while nothing else uses the link"
    )]
    Latency {
        /// The latency in s.
        got: f64,
    },
    /// The transfer did not leave the host (starpu-runtime/starpu#33).
    #[error(
        "{bandwidth:e} B/s and {latency:e} s are those of a copy within the host: the transfer probably never left it; check \
         which memory the device's buffers lie in"
    )]
    LikeHostCopy {
        /// The bandwidth in B/s.
        bandwidth: f64,
        /// The latency in s.
        latency: f64,
    },
}

impl LinkModel {
    /// Creates a link of this bandwidth (B/s) and latency (s).
    ///
    /// # Errors
    /// [`LinkError::Bandwidth`] outside of 1 MB/s to 10 TB/s, [`LinkError::Latency`] if it is
    /// negative or a second or more.
    pub fn new(bandwidth: f64, latency: f64) -> Result<LinkModel, LinkError> {
        if !BANDWIDTH.contains(&bandwidth) {
            return Err(LinkError::Bandwidth { got: bandwidth });
        }
        if !(0.0..LATENCY).contains(&latency) {
            return Err(LinkError::Latency { got: latency });
        }
        Ok(LinkModel { bandwidth, latency })
    }

    /// Fits a line through measured transfers (bytes, time). Several transfers of each of four or
    /// more sizes, spread over orders of magnitude, give a model that is insensitive to single
    /// disturbed transfers.
    ///
    /// Times of equal sizes are replaced by their median. The bandwidth is the median of the slopes
    /// between all pairs of the larger half of the sizes (Theil and Sen's estimator), which it
    /// dominates. The latency is the remaining time of the smallest size, or 0 if that is negative.
    /// If times do not grow with sizes, as within a GPU, the largest size gives a lower bound of
    /// the bandwidth, which is used.
    ///
    /// # Errors
    /// [`LinkError::TooFewSizes`], and those of [`LinkModel::new`].
    pub fn from_samples(samples: &[(u64, Duration)]) -> Result<LinkModel, LinkError> {
        let sizes = medians(samples);
        let few = LinkError::TooFewSizes { sizes: sizes.len() };
        if sizes.len() < 2 {
            return Err(few);
        }
        let larger = &sizes[(sizes.len() / 2).min(sizes.len() - 2)..];
        let slopes = larger.iter().enumerate().flat_map(|(i, &(small, early))| {
            larger[i + 1..].iter().map(move |&(large, late)| (late - early) / (large - small))
        });
        let slope = median(&mut slopes.collect::<Vec<f64>>()).ok_or(few)?;
        if slope * BANDWIDTH.end() < 1.0 {
            let (most, longest) = sizes[sizes.len() - 1];
            let shortest = sizes.iter().map(|&(_, time)| time).fold(longest, f64::min);
            return LinkModel::new(most / longest, shortest);
        }
        let (bytes, time) = sizes[0];
        LinkModel::new(1.0 / slope, (time - bytes * slope).max(0.0))
    }

    /// Updates the link from regular transfers (bytes, time). If their sizes are nearly equal,
    /// which gives no line, the latency stays and their median time beyond it gives the bandwidth.
    ///
    /// # Errors
    /// Those of [`LinkModel::from_samples`].
    pub fn learnt(self, samples: &[(u64, Duration)]) -> Result<LinkModel, LinkError> {
        let sizes = medians(samples);
        let (Some(&(least, _)), Some(&(most, _))) = (sizes.first(), sizes.last()) else {
            return Err(LinkError::TooFewSizes { sizes: 0 });
        };
        if most >= SPREAD * least {
            return LinkModel::from_samples(samples);
        }
        let rates = samples.iter().map(|&(bytes, time)| {
            let time = time.as_secs_f64();
            bytes as f64 / (time - self.latency.min(time / 2.0))
        });
        LinkModel::new(median(&mut rates.collect::<Vec<f64>>()).unwrap_or(0.0), self.latency)
    }

    /// Fails if this link, which ends at a device, is as fast as `host_copy`, a copy within the
    /// host, in both figures.
    ///
    /// # Errors
    /// [`LinkError::LikeHostCopy`].
    pub fn unlike_host_copy(self, host_copy: &LinkModel) -> Result<LinkModel, LinkError> {
        let same = |a: f64, b: f64| (a - b).abs() <= SAME * a.max(b);
        if same(self.bandwidth, host_copy.bandwidth) && same(self.latency, host_copy.latency) {
            return Err(LinkError::LikeHostCopy { bandwidth: self.bandwidth, latency: self.latency });
        }
        Ok(self)
    }

    /// Returns the bandwidth (B/s).
    #[inline]
    pub fn bandwidth(&self) -> f64 {
        self.bandwidth
    }

    /// Returns the latency (s).
    #[inline]
    pub fn latency(&self) -> f64 {
        self.latency
    }

    /// Returns the expected time of a transfer over the idle link.
    #[inline]
    pub fn time(&self, bytes: u64) -> Duration {
        Duration::from_secs_f64(self.latency + bytes as f64 / self.bandwidth)
    }
}

/// Returns the sizes (bytes), smallest first, with the median of their times (s); evenly thinned if
/// there are very many.
fn medians(samples: &[(u64, Duration)]) -> Vec<(f64, f64)> {
    let mut by_size: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for &(bytes, time) in samples {
        by_size.entry(bytes).or_default().push(time.as_secs_f64());
    }
    let stride = by_size.len().div_ceil(SIZES).max(1);
    let sizes = by_size.into_iter().step_by(stride);
    sizes.filter_map(|(bytes, mut times)| Some((bytes as f64, median(&mut times)?))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Transfers over a link of 12 GB/s and 10 us, five of each size, 1 % of jitter.
    fn transfers() -> Vec<(u64, Duration)> {
        let sizes = (12..=26).map(|log| 1u64 << log);
        let one = |(i, bytes): (usize, u64)| {
            (0..5).map(move |j| {
                let jitter = 1.0 + 0.005 * ((i * 7 + j * 3) % 5) as f64 - 0.01;
                (bytes, Duration::from_secs_f64((10e-6 + bytes as f64 / 12e9) * jitter))
            })
        };
        sizes.enumerate().flat_map(one).collect()
    }

    fn is_the_link(link: LinkModel) -> bool {
        (link.bandwidth() / 12e9 - 1.0).abs() < 0.02 && (link.latency() / 10e-6 - 1.0).abs() < 0.05
    }

    #[test]
    fn the_line_is_found_through_jitter_and_spikes() {
        let mut samples = transfers();
        let clean = LinkModel::from_samples(&samples).unwrap();
        assert!(is_the_link(clean), "{clean:?}");
        for at in [0, 17, 40, 74] {
            samples[at].1 *= 500;
        }
        let disturbed = LinkModel::from_samples(&samples).unwrap();
        assert!(is_the_link(disturbed), "{disturbed:?}");
        // One transfer of each size, the largest disturbed.
        let mut single: Vec<_> = transfers().into_iter().step_by(5).collect();
        single.last_mut().unwrap().1 *= 500;
        let link = LinkModel::from_samples(&single).unwrap();
        assert!((link.bandwidth() / 12e9 - 1.0).abs() < 0.1, "{link:?}");
    }

    #[test]
    fn transfers_that_happen_show_the_link() {
        let wrong = LinkModel::new(1e9, 10e-6).unwrap();
        assert!(is_the_link(wrong.learnt(&transfers()).unwrap()), "of all sizes");
        let alike: Vec<_> = transfers().into_iter().filter(|&(bytes, _)| bytes >> 22 == 1).collect();
        assert!(is_the_link(wrong.learnt(&alike).unwrap()), "of one size: {alike:?}");
        // A latency that is too long leaves no time for the bytes.
        let long = LinkModel::new(1e9, 0.1).unwrap();
        assert!(long.learnt(&alike).unwrap().bandwidth() < 25e9);
        assert_eq!(wrong.learnt(&[]), Err(LinkError::TooFewSizes { sizes: 0 }));
    }

    #[test]
    fn figures_that_no_link_has_are_named() {
        let us = Duration::from_micros;
        assert_eq!(LinkModel::from_samples(&[]), Err(LinkError::TooFewSizes { sizes: 0 }));
        assert_eq!(
            LinkModel::from_samples(&[(8, us(1)), (8, us(2))]),
            Err(LinkError::TooFewSizes { sizes: 1 })
        );
        // A time of zero; a link slower than a modem.
        let bandwidth =
            |samples: &[_]| matches!(LinkModel::from_samples(samples), Err(LinkError::Bandwidth { .. }));
        assert!(bandwidth(&[(1 << 10, us(1)), (1 << 20, us(0))]));
        assert!(bandwidth(&[(1 << 10, us(1)), (1 << 20, us(2_000_000))]));
        let slow = LinkModel::from_samples(&[(1 << 10, us(2_000_000)), (1 << 30, us(2_100_000))]);
        assert!(matches!(slow, Err(LinkError::Latency { .. })), "{slow:?}");
        for bad in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
            assert!(LinkModel::new(bad, 0.0).is_err());
        }
        assert!(LinkModel::new(1e9, f64::NAN).is_err());
    }

    #[test]
    fn a_link_whose_times_do_not_grow_is_as_fast_as_its_largest_transfer() {
        let ns = Duration::from_nanos;
        for (small, large) in [(20_000, 20_000), (20_000, 10_000), (20_000, 20_001)] {
            let link = LinkModel::from_samples(&[(1 << 10, ns(small)), (1 << 20, ns(large))]).unwrap();
            let least = f64::from(1 << 20) / (large as f64 * 1e-9);
            assert!((link.bandwidth() / least - 1.0).abs() < 1e-9, "{link:?}");
            assert_eq!(link.latency(), small.min(large) as f64 * 1e-9);
        }
    }

    #[test]
    fn a_device_as_fast_as_the_host_is_suspicious() {
        let host = LinkModel::new(10e9, 1e-6).unwrap();
        let twin = LinkModel::new(10.05e9, 1.005e-6).unwrap();
        assert!(matches!(twin.unlike_host_copy(&host), Err(LinkError::LikeHostCopy { .. })));
        let other = LinkModel::new(10.05e9, 8e-6).unwrap();
        assert_eq!(other.unlike_host_copy(&host), Ok(other));
    }

    proptest! {
        #[test]
        fn what_is_accepted_gives_times(
            samples in prop::collection::vec((any::<u64>(), any::<u64>().prop_map(Duration::from_nanos)), 0..40),
            bytes in any::<u64>(),
        ) {
            if let Ok(link) = LinkModel::from_samples(&samples) {
                prop_assert!(link.time(bytes) >= link.time(0));
            }
        }
    }
}
