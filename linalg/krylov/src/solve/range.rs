//! Scaling by a power of two of systems with right-hand sides far from 1.

use std::borrow::Cow;

use libm::{frexp, ldexp};

use super::system::Solve;
use crate::error::Error;
use crate::log::Logger;
use crate::operator::multiply;
use crate::scalar::Scalar;

/// Right-hand sides with exponents (of two) within this range need no scaling: a residual of
/// `1e-16` relative to them is far from underflow and overflow.
const NEAR: i32 = 600;
/// Vectors may have numbers with this exponent, and sums of a few.
const LARGE: i32 = 960;

/// Returns the exponent of the power of two that right-hand side and guess are multiplied by: 0 if
/// `b` is near 1. Otherwise the exponents of the right-hand side and of the solution are about half
/// of the operator's, with opposite signs.
///
/// # Errors
/// Those of a product, which estimates the size of the operator.
pub(super) fn exponent<E: Scalar>(problem: &Solve<'_, E>, b: &[E], guess: &[E]) -> Result<i32, Error> {
    let Some(of_rhs) = largest(b).filter(|exponent| exponent.abs() > NEAR) else { return Ok(0) };
    let of_operator = |v: &[E], of_v: i32| -> Result<i32, Error> {
        let product = multiply(problem.rt, problem.exact, &times_power(v, -of_v))?;
        // A product that overflows, or vanishes, is one of an operator at the end of the range.
        Ok(match largest(&product) {
            Some(exponent) => exponent.clamp(-1000, 1000),
            None if E::words(&product).iter().all(|word| *word == 0.0) => -1000,
            None => 1000,
        })
    };
    let wanted = of_operator(b, of_rhs)? / 2 - of_rhs;
    // A guess far above the solution must not cause an overflow.
    let Some(of_guess) = largest(guess) else { return Ok(wanted) };
    Ok(wanted.min(LARGE - of_guess - of_operator(guess, of_guess)?.max(0)))
}

/// Returns `e` with `2^(e-1) <= |v|_inf < 2^e`; `None` for zero and for non-finite numbers.
fn largest<E: Scalar>(v: &[E]) -> Option<i32> {
    let largest = E::words(v).iter().fold(0.0, |most: f64, word| most.max(word.abs()));
    let is_finite = E::words(v).iter().all(|word| word.is_finite());
    (largest > 0.0 && is_finite).then(|| frexp(largest).1)
}

/// Returns true if the largest number is so small that it has the rounding error of a subnormal
/// number.
pub(super) fn is_subnormal<E: Scalar>(v: &[E]) -> bool {
    largest(v).is_some_and(|exponent| exponent < f64::MIN_EXP + f64::MANTISSA_DIGITS as i32)
}

/// Returns `2^exponent v`, rounded once.
pub(super) fn times_power<E: Scalar>(v: &[E], exponent: i32) -> Cow<'_, [E]> {
    if exponent == 0 {
        return Cow::Borrowed(v);
    }
    let mut words: Vec<f64> = E::words(v).iter().map(|word| ldexp(*word, exponent)).collect();
    Cow::Owned(E::of_words_mut(&mut words).to_vec())
}

/// A logger of norms that were multiplied by a power of two.
pub(super) struct TimesPower<'l> {
    log: &'l mut dyn Logger,
    exponent: i32,
}

impl<'l> TimesPower<'l> {
    /// Wraps each of several loggers, with a separate exponent.
    pub(super) fn each(logs: &'l mut [&mut dyn Logger], exponents: &[i32]) -> Vec<TimesPower<'l>> {
        let each = logs.iter_mut().zip(exponents);
        each.map(|(log, exponent)| TimesPower { log: &mut **log, exponent: *exponent }).collect()
    }
}

impl Logger for TimesPower<'_> {
    fn step(&mut self, residual: f64) {
        self.log.step(ldexp(residual, -self.exponent));
    }

    fn true_residual(&mut self, steps: usize, residual: f64) {
        self.log.true_residual(steps, ldexp(residual, -self.exponent));
    }
}
