//! Extent of tests: numbers of random graphs, tasks, cases of a property.
//!
//! A test names the number that finds bugs within seconds. `ZELLIGE_TEST_SCALE` (1 if it is not
//! set) multiplies all of them; `scripts/test-long` sets it.

use proptest::test_runner::Config;

/// Returns `usual` times `ZELLIGE_TEST_SCALE`; at least 1.
///
/// # Panics
/// If the variable is not a positive number.
pub fn amount(usual: usize) -> usize {
    times(usual, factor("ZELLIGE_TEST_SCALE", 1.0).unwrap_or(1.0))
}

/// Returns the divisor for a test that tries one of `usual` cases: `usual` divided by
/// `ZELLIGE_TEST_SCALE`; at least 1, which tries all of them.
///
/// # Panics
/// In the cases of [`amount`].
pub fn every(usual: usize) -> usize {
    times(usual, 1.0 / factor("ZELLIGE_TEST_SCALE", 1.0).unwrap_or(1.0))
}

/// Returns the configuration of a property that is tried `usual` times, times `ZELLIGE_TEST_SCALE`.
/// If `PROPTEST_CASES` is set, it is used instead: 256, proptest's own number, corresponds to
/// `usual`.
///
/// # Panics
/// If the variable that is used is not a positive number.
pub fn cases(usual: u32) -> Config {
    let factor = factor("PROPTEST_CASES", 256.0).or_else(|| factor("ZELLIGE_TEST_SCALE", 1.0)).unwrap_or(1.0);
    Config::with_cases(u32::try_from(times(usual as usize, factor)).unwrap_or(u32::MAX))
}

fn times(usual: usize, factor: f64) -> usize {
    ((usual as f64 * factor).round() as usize).max(1)
}

/// Returns the value of a variable in units of `unit`; `None` if it is not set.
fn factor(variable: &str, unit: f64) -> Option<f64> {
    let text = std::env::var(variable).ok()?;
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Some(number / unit),
        _ => panic!("{variable}={text}: give a positive number, or unset it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_multiplied_and_never_zero() {
        assert_eq!([times(100, 1.0), times(100, 2.5), times(3, 1e-3)], [100, 250, 1]);
    }
}
