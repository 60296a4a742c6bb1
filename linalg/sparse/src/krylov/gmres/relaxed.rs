//! Products that need less and less accuracy.

use zellige_runtime::Runtime;

use super::{Gmres, Prepared};
use crate::error::Error;
use crate::krylov::{Correction, Method, Operator, Preconditioner};
use crate::space::Space;

/// GMRES whose products become less accurate as its residual becomes small (Bouras and Frayssé 2005; Simoncini and Szyld 2003, theorem 5.3; Giraud,
/// Gratton and Langou 2007): an error `E_j` in step `j` reaches the residual multiplied by `|r_j|`, so a step takes the
/// least accurate operator with
///
/// ```text
/// accuracy <= slack goal / |r_j|
/// ```
///
/// The host chooses after each step, and submits none ahead.
#[derive(Clone, Copy)]
pub struct RelaxedGmres<'o> {
    /// How cycles are made.
    pub gmres: Gmres,
    /// Copies of the matrix that are less accurate than the one the problem has, the most accurate of them first.
    pub narrower: &'o [&'o dyn Operator],
    /// `sigma_min(H_m) / (m |A|)` is certain (Simoncini and Szyld), and hardly ever needed: 0.01 is a good guess. One that is too large costs another
    /// cycle, since the true residual decides.
    pub slack: f64,
}

impl Method for RelaxedGmres<'_> {
    fn name(&self) -> String {
        format!("relaxed {}", self.gmres.name())
    }

    fn prepare<'r>(
        &'r self,
        rt: &'r Runtime,
        space: &'r Space,
        a: &'r dyn Operator,
        m: Option<&'r dyn Preconditioner>,
    ) -> Result<Box<dyn Correction + 'r>, Error> {
        let operators: Vec<_> = std::iter::once(a).chain(self.narrower.iter().copied()).collect();
        if !operators.is_sorted_by(|one, next| one.accuracy() <= next.accuracy()) {
            return Err(Error::parameter("operators", "not in the order of their accuracy, best first"));
        }
        if let Some(other) = operators.iter().find(|one| one.rows() != a.rows()) {
            let problem = format!("one of {} rows for a matrix of {}", other.rows(), a.rows());
            return Err(Error::shape("operators", problem));
        }
        if !(self.slack > 0.0 && self.slack.is_finite()) {
            return Err(Error::parameter("slack", format!("{}: a positive number is needed", self.slack)));
        }
        Ok(Box::new(Prepared::new(&self.gmres, rt, space, operators, self.slack, m)?))
    }
}
