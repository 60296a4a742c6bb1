//! Coefficient of the previous direction in conjugate gradients.

use crate::error::Error;
use crate::formulas::{Formulas, Value};
use crate::scalar::Scalar;
use crate::steps::Steps;
use crate::vector::MultiVector;
use crate::vector_task::VectorTask;

/// Formula of the numerator of `beta`.
pub(crate) enum Beta<E: Scalar> {
    /// `r . z` (Fletcher and Reeves).
    Usual,
    /// `(r - r_old) . z` (Polak and Ribière), for preconditioners and products that change from
    /// step to step. The usual formula replaces it where it is negative, or the residual was
    /// replaced.
    PolakRibiere {
        /// The residual of the previous step, with a preconditioner.
        old: Option<MultiVector<E>>,
        /// Sum of `r_old . z` with a preconditioner, of `(r - r_old) . r` without one.
        change: usize,
        /// A scalar that is not 0 if the residual was replaced.
        is_new: Option<usize>,
    },
}

impl<E: Scalar> Beta<E> {
    /// Returns the residual of the previous step, if it is needed.
    pub(crate) fn old(&self) -> Option<&MultiVector<E>> {
        match self {
            Beta::PolakRibiere { old, .. } => old.as_ref(),
            Beta::Usual => None,
        }
    }

    /// Records that the residual is kept, before it changes.
    pub(crate) fn keep(&self, steps: &Steps<'_, E>, r: &MultiVector<E>) -> Result<(), Error> {
        self.old().map_or(Ok(()), |old| steps.task("beta.keep").copy(old, r).submit())
    }

    /// Adds the sum of a method without a preconditioner to the task that changes `r`.
    pub(crate) fn add_change<'s, 'g>(
        &self,
        task: VectorTask<'s, 'g, E>,
        r: &MultiVector<E>,
    ) -> VectorTask<'s, 'g, E> {
        match self {
            Beta::PolakRibiere { old: None, change, .. } => task.dot_change(r, *change),
            _ => task,
        }
    }

    /// Adds the sum of a method with a preconditioner to a task that reads `z`.
    pub(crate) fn add_old<'s, 'g>(
        &self,
        task: VectorTask<'s, 'g, E>,
        z: &MultiVector<E>,
    ) -> VectorTask<'s, 'g, E> {
        match self {
            Beta::PolakRibiere { old: Some(old), change, .. } => task.dot(old, z, *change),
            _ => task,
        }
    }

    /// Returns the numerator; `rho` is `r . z`.
    pub(crate) fn numerator<'f>(&self, f: &'f Formulas<E>, rho: Value<'f>) -> Value<'f> {
        let Beta::PolakRibiere { old, change, is_new } = self else { return rho };
        let change = f.real_sum(*change);
        let change = if old.is_some() { rho - change } else { change };
        let positive = f.constant(0.0).at_most(change).select([change, rho]);
        is_new.map_or(positive, |is_new| f.real(is_new).select([rho, positive]))
    }
}
