//! Products that need less and less accuracy.

use super::cycle::{Gmres, Prepared};
use crate::error::Error;
use crate::inner_solver::{InnerSolver, Method, Setting};
use crate::operator::Operator;
use crate::scalar::Scalar;

/// GMRES with products that become less accurate as its residual becomes small (Bouras and Frayssé
/// 2005; Simoncini and Szyld 2003, theorem 5.3; Giraud, Gratton and Langou 2007). An error `E_j` in
/// step `j` reaches the residual multiplied by `|r_j|`, so a step takes the least accurate operator
/// with
///
/// ```text
/// accuracy <= slack goal / |r_j|
/// ```
///
/// The host chooses after each step, and submits none ahead.
#[derive(Clone, Copy)]
pub struct RelaxedGmres<'o, E: Scalar = f64> {
    /// Settings of the cycles.
    pub gmres: Gmres,
    /// Copies of the matrix that are less accurate than the one the problem has, the most accurate
    /// of them first.
    pub narrower: &'o [&'o dyn Operator<E>],
    /// Slack of the products' accuracy. `sigma_min(H_m) / (m |A|)` is safe (Simoncini and Szyld),
    /// and hardly ever needed: 0.01 is a good guess. A value that is too large costs another cycle,
    /// since the recomputed residual decides.
    pub slack: f64,
}

impl<E: Scalar> Method<E> for RelaxedGmres<'_, E> {
    fn name(&self) -> String {
        format!("relaxed {}", Method::<E>::name(&self.gmres))
    }

    fn takes_columns(&self) -> bool {
        false
    }

    fn prepare<'r>(&'r self, setting: Setting<'r, E>) -> Result<Box<dyn InnerSolver<E> + 'r>, Error> {
        let operators: Vec<_> = std::iter::once(setting.a).chain(self.narrower.iter().copied()).collect();
        if !operators.is_sorted_by(|one, next| one.accuracy() <= next.accuracy()) {
            return Err(Error::parameter(
                "operators",
                "they must be in the order of their accuracy, the most accurate first",
            ));
        }
        if let Some(other) = operators.iter().find(|one| one.domain() != setting.space()) {
            let (found, wanted) = (other.domain().len(), setting.space().len());
            return Err(Error::shape("operators", format!("one of {found} rows for a matrix of {wanted}")));
        }
        if !(self.slack > 0.0 && self.slack.is_finite()) {
            return Err(Error::parameter("slack", format!("{}: a positive number is needed", self.slack)));
        }
        Ok(Box::new(Prepared::new(&self.gmres, setting, operators, self.slack)?))
    }
}
