//! Cubic B-splines at any position.

/// Number of coefficients along an axis that a value depends on.
pub(super) const TAPS: usize = 4;

/// The coefficients that give the values at some positions along one axis.
#[derive(Debug)]
pub(super) struct SplineTaps {
    /// First pixel that is used.
    pub(super) first: i64,
    /// Number of pixels from the first to the last one that is used.
    pub(super) width: usize,
    /// First pixel of each position, from `first`, and the weights from there on.
    pub(super) positions: Vec<(usize, [f64; TAPS])>,
}

impl SplineTaps {
    /// Returns the coefficients for positions in pixels.
    pub(super) fn new(positions: impl Iterator<Item = f64>) -> Self {
        let taps: Vec<_> = positions.map(taps).collect();
        let first = taps.iter().map(|tap| tap.0).min().unwrap_or(0);
        let last = taps.iter().map(|tap| tap.0).max().unwrap_or(0);
        SplineTaps {
            first,
            width: (last - first) as usize + TAPS,
            positions: taps.iter().map(|(pixel, weights)| ((pixel - first) as usize, *weights)).collect(),
        }
    }

    /// Returns the last pixel that is used.
    pub(super) fn last(&self) -> i64 {
        self.first + self.width as i64 - 1
    }
}

/// Returns the first pixel that the value at `x` depends on, and the weights from there on.
#[inline(always)]
pub(super) fn taps(x: f64) -> (i64, [f64; TAPS]) {
    let floor = x.floor();
    let t = x - floor;
    let s = 1.0 - t;
    let near = |t: f64| (4.0 + t * t * (3.0 * t - 6.0)) / 6.0;
    (floor as i64 - 1, [s * s * s / 6.0, near(t), near(s), t * t * t / 6.0])
}
