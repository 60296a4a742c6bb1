//! The mean, and how many of its digits are exact.

use crate::Stochastic;
use crate::sample::Sample;
use crate::samples::Samples;

/// Samples that agree within this part of the first one have a digit: what lies within needs no
/// closer look. The deviation is then at most 0.073 of the mean, its 2.6-fold 0.2.
pub(crate) const CERTAIN: f64 = 1.0 / 16.0;

/// [`precision`](Stochastic::precision) of a number with this [`certainty`](Stochastic::certainty).
pub(crate) fn precision_of<T: Sample>(certainty: f64) -> f64 {
    certainty.log10().clamp(0.0, f64::from(T::DIGITS))
}

impl<T: Sample, S: Samples> Stochastic<T, S> {
    /// Mean of the samples.
    pub fn mean(&self) -> f64 {
        let (scale, mean, _) = self.moments();
        if scale.is_finite() { mean * scale } else { self.samples().iter().map(|x| x.to_f64()).sum::<f64>() }
    }

    /// A scale; mean and standard deviation of the samples divided by it. The scale is a power of
    /// two near the largest magnitude of a sample, or this magnitude if it is 0, infinite or NaN.
    ///
    /// Differences of samples that are near each other are exact, so that the deviation is.
    fn moments(&self) -> (f64, f64, f64) {
        let mut largest = self.samples().iter().fold(0.0f64, |largest, x| largest.max(x.to_f64().abs()));
        if self.has_nan() {
            largest = f64::NAN; // which `max` would pass over
        }
        if largest == 0.0 || !largest.is_finite() {
            return (largest, 0.0, 0.0);
        }
        // Its inverse, too, is a normal number.
        const LARGEST_SCALE: f64 = 0.25 / f64::MIN_POSITIVE;
        let exponent = f64::INFINITY.to_bits();
        let scale = f64::from_bits(largest.clamp(f64::MIN_POSITIVE, LARGEST_SCALE).to_bits() & exponent);
        let inverse = scale.recip();
        let first = inverse * self.lane(0).to_f64();
        let count = S::COUNT as f64;
        let differences: S::Array<f64> = S::build(|lane| inverse * self.lane(lane).to_f64() - first);
        let differences = &differences.as_ref()[..S::COUNT];
        let offset = differences.iter().sum::<f64>() / count;
        let squares = differences.iter().map(|d| (d - offset) * (d - offset));
        let variance = squares.sum::<f64>() / (count - 1.0);
        (scale, first + offset, variance.sqrt())
    }

    /// Number of exact decimal digits as a real number: log10(|mean| / (k sigma)), with the
    /// deviations `k` of [`Samples::DEVIATIONS`], between 0 and the digits of the type.
    ///
    /// An exact number has all digits of the type, so has an exact 0; NaN and infinity have none.
    pub fn precision(&self) -> f64 {
        precision_of::<T>(self.certainty())
    }

    /// `10^digits`, not limited: |mean| / (k sigma); infinite for an exact number, 0 for NaN and
    /// infinity.
    pub(crate) fn certainty(&self) -> f64 {
        let (scale, mean, deviation) = self.moments();
        if !scale.is_finite() {
            0.0
        } else if deviation == 0.0 {
            f64::INFINITY
        } else {
            mean.abs() / (S::DEVIATIONS * deviation)
        }
    }

    /// Number of exact decimal digits, from 0 to those of the type (15, 7, 3, 2).
    pub fn digits(&self) -> u32 {
        self.precision() as u32
    }

    /// Whether the number is a computational zero: an exact 0, or one whose sign is not known.
    pub fn is_zero(&self) -> bool {
        let (scale, mean, deviation) = self.moments();
        scale.is_finite() && mean.abs() <= S::DEVIATIONS * deviation
    }

    /// Whether the number is nothing but rounding errors: a computational zero that is no exact 0.
    pub fn is_noise(&self) -> bool {
        self.is_zero() && self.samples().iter().any(|x| x.to_f64() != 0.0)
    }

    /// Magnitude for the search of a pivot: that of the mean, and 0 for a computational zero.
    ///
    /// Comparisons of stochastic numbers hold `1.7 > noise` for false where the noise is larger;
    /// a search that compares keys never prefers noise.
    pub fn pivot_key(&self) -> f64 {
        if !self.agrees_within(CERTAIN) && self.is_zero() { 0.0 } else { self.mean().abs() }
    }
}
