//! Medians of measurements.

use std::cmp::Ordering;
use std::time::Duration;

/// A number whose medians are taken: it has a total order and a middle of two.
pub trait Midpoint: Copy {
    /// Compares two numbers.
    fn order(&self, other: &Self) -> Ordering;

    /// Returns the mean of two numbers, rounded down for integers.
    #[must_use]
    fn midpoint(self, other: Self) -> Self;
}

impl Midpoint for f64 {
    fn order(&self, other: &f64) -> Ordering {
        self.total_cmp(other)
    }

    fn midpoint(self, other: f64) -> f64 {
        f64::midpoint(self, other)
    }
}

impl Midpoint for u64 {
    fn order(&self, other: &u64) -> Ordering {
        self.cmp(other)
    }

    fn midpoint(self, other: u64) -> u64 {
        u64::midpoint(self, other)
    }
}

impl Midpoint for Duration {
    fn order(&self, other: &Duration) -> Ordering {
        self.cmp(other)
    }

    fn midpoint(self, other: Duration) -> Duration {
        (self + other) / 2
    }
}

/// Returns the median of some numbers, for an even count the mean of the middle two; `None` of
/// none. The numbers are left in another order.
pub fn median<T: Midpoint>(numbers: &mut [T]) -> Option<T> {
    let half = numbers.len() / 2;
    if numbers.is_empty() {
        return None;
    }
    let even = numbers.len().is_multiple_of(2);
    let (lower, &mut middle, _) = numbers.select_nth_unstable_by(half, T::order);
    let below = lower.iter().copied().max_by(T::order).filter(|_| even);
    Some(below.map_or(middle, |below| below.midpoint(middle)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn medians_of_few_numbers() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median::<f64>(&mut []), None);
        assert_eq!(median(&mut [4, 1].map(Duration::from_nanos)), Some(Duration::from_nanos(2)));
    }

    proptest! {
        #[test]
        fn the_median_is_that_of_the_sorted_numbers(mut times in prop::collection::vec(any::<u64>(), 1..=64)) {
            let found = median(&mut times.clone()).unwrap();
            times.sort_unstable();
            let (low, high) = (times[(times.len() - 1) / 2], times[times.len() / 2]);
            prop_assert_eq!(found, low + (high - low) / 2);
        }
    }
}
