//! A matrix plus a multiple of the identity.

use super::operator::Operator;
use super::scalars::Scalars;
use super::steps::Steps;
use crate::error::Error;
use crate::space::Vector;

/// `A + sigma I`.
pub struct Shifted<'a> {
    /// `A`.
    pub a: &'a dyn Operator,
    /// `sigma`.
    pub sigma: f64,
}

impl Operator for Shifted<'_> {
    fn rows(&self) -> usize {
        self.a.rows()
    }

    fn bytes(&self) -> u64 {
        self.a.bytes()
    }

    fn vectors(&self) -> u64 {
        self.a.vectors()
    }

    fn accuracy(&self) -> f64 {
        self.a.accuracy()
    }

    fn apply(&self, steps: &Steps<'_>, x: &Vector, y: &Vector) -> Result<(), Error> {
        self.a.apply(steps, x, y)?;
        let sigma = self.sigma;
        steps.each(
            "shift",
            |i| (steps.scalars(), y.update(i), x.read(i)),
            move |(s, y, x)| {
                if !Scalars::new(s).is_done() {
                    y.iter_mut().zip(&*x).for_each(|(y, x)| *y += sigma * x);
                }
            },
        )
    }
}
