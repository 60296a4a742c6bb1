//! Polynomials of an operator that magnify its lowest eigenvalues.

use crate::error::Error;
use crate::operator::{Operator, apply_to};
use crate::scalar::Scalar;
use crate::steps::Steps;
use crate::vector::MultiVector;
use crate::vector_task::times;

/// Magnification of an eigenvalue in the middle between 0 and the lower end of the interval.
const MAGNIFICATION: f64 = 10.0;
/// Largest degree.
const MOST_DEGREE: f64 = 1000.0;

/// The Chebyshev polynomial `T_d((A - centre) / radius)`: at most 1 in magnitude on an interval,
/// and growing fast below it (Zhou, Saad, Tiago and Chelikowsky 2006).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Filter {
    centre: f64,
    radius: f64,
    pub(super) degree: usize,
}

impl Filter {
    /// The operator itself.
    pub(super) const NONE: Filter = Filter { centre: 0.0, radius: 1.0, degree: 1 };

    /// Makes a filter for eigenvalues from 0 to `low`, of an operator with none above `high`. Its
    /// degree is even, so that it is positive below the interval.
    pub(super) fn new(low: f64, high: f64) -> Filter {
        let (centre, radius) = (0.5 * (high + low), 0.5 * (high - low));
        let degree = MAGNIFICATION.acosh() / ((centre - 0.5 * low) / radius).acosh();
        let degree = if degree < MOST_DEGREE { degree } else { MOST_DEGREE };
        Filter { centre, radius, degree: (degree.ceil() as usize).next_multiple_of(2) }
    }

    /// Returns the buffer of two that has the result, if the argument is in the first.
    pub(super) fn result(self) -> usize {
        self.degree % 2
    }

    /// Records the filter of the first of two buffers. The result is in one of them; `product` is
    /// overwritten, too.
    pub(super) fn apply<E: Scalar>(
        self,
        steps: &Steps<'_, E>,
        a: &dyn Operator<E>,
        buffers: &[MultiVector<E>; 2],
        product: &MultiVector<E>,
    ) -> Result<(), Error> {
        let (scale, offset) = (1.0 / self.radius, -self.centre / self.radius);
        for k in 0..self.degree {
            let (last, next) = (&buffers[k % 2], &buffers[(k + 1) % 2]);
            apply_to(steps, a, last, product, None)?;
            let task = steps.task("eigen.filter");
            match k {
                0 => task.assign(next, [times(scale, product), times(offset, last)]),
                _ => task.assign(
                    next,
                    [times(2.0 * scale, product), times(2.0 * offset, last), times(-1.0, next)],
                ),
            }
            .submit()?;
        }
        Ok(())
    }
}
