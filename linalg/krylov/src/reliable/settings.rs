//! Settings of residual replacements.

use std::sync::Arc;

use crate::scalar::Scalar;
use crate::storage::Storage;

/// Condition for a residual replacement.
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{Cg, Packed, ReliableUpdates, Solve, Stop, Trigger, Updates, solve};
///
/// let updates = Updates { trigger: Trigger::Estimate, ..Updates::new(0.1, Packed::SINGLE) };
/// let cg = ReliableUpdates { method: Cg::default(), exact: &a, updates };
/// let mut x = vec![0.0; 50];
/// let found = solve(&Solve::new(&rt, &a), &cg, &[1.0; 50], &mut x, &Stop::RelativeToRhs(1e-12), &mut ())?;
/// assert!(found.reason.is_converged() && found.updates > 0);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trigger {
    /// Replaces the residual when it is smaller than this factor, between 0 and 1, times the
    /// largest since the last replacement (Sleijpen and van der Vorst 1996).
    Reduction(f64),
    /// Replaces the residual when its estimated rounding error becomes large relative to it (van
    /// der Vorst and Ye 2000, algorithm 3): `d_k = d_{k-1} + u |r_k| + u_64 |A| |x_k|`. Here `u` is
    /// the roundoff of the stored residual or of the operator's products, and `|x_k|^2` is
    /// estimated by `sum alpha^2 |p|^2` (Clark et al. 2022, section III).
    Estimate,
}

/// Techniques that keep conjugate gradients stable with narrow products, residuals and directions
/// (Clark et al. 2022). Each can be switched off, to show its effect. The formula of Polak and
/// Ribière is [`Cg::flexible`](crate::Cg::flexible).
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{Cg, Packed, ReliableUpdates, Solve, Stabilisation, Stop, Updates, solve};
///
/// let stabilisation = Stabilisation { projection: false, ..Stabilisation::default() };
/// let updates = Updates { stabilisation, ..Updates::new(0.1, Packed::SINGLE) };
/// let cg = ReliableUpdates { method: Cg::default(), exact: &a, updates };
/// let mut x = vec![0.0; 50];
/// let found = solve(&Solve::new(&rt, &a), &cg, &[1.0; 50], &mut x, &Stop::RelativeToRhs(1e-12), &mut ())?;
/// assert!(found.reason.is_converged() && found.updates > 0);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stabilisation {
    /// The solution is accumulated in float64, and not in the storage of the directions between two
    /// updates.
    pub wide_solution: bool,
    /// After an update, the direction is made orthogonal to the new residual.
    pub projection: bool,
    /// A shift whose residual has reached the resolution of its storage takes no part in further
    /// shared steps, which would only add rounding errors; the second phase of each shift does the
    /// rest.
    pub removal: bool,
}

impl Default for Stabilisation {
    /// Enables all techniques.
    fn default() -> Self {
        Stabilisation { wide_solution: true, projection: true, removal: true }
    }
}

/// Settings of reliable updates: trigger, storage of vectors, and stabilisation.
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{Cg, Packed, ReliableUpdates, Solve, Stop, Updates, solve};
///
/// // Residuals and directions in float32.
/// let updates = Updates::new(0.1, Packed::SINGLE);
/// let cg = ReliableUpdates { method: Cg::default(), exact: &a, updates };
/// let mut x = vec![0.0; 50];
/// let found = solve(&Solve::new(&rt, &a), &cg, &[1.0; 50], &mut x, &Stop::RelativeToRhs(1e-12), &mut ())?;
/// assert!(found.reason.is_converged() && found.updates > 0);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Updates<E: Scalar = f64> {
    /// Condition for a residual replacement.
    pub trigger: Trigger,
    /// Storage of residuals, directions and products.
    pub storage: Arc<dyn Storage<E>>,
    /// Techniques that keep the method stable.
    pub stabilisation: Stabilisation,
    /// Number of directions of conjugate gradients that are kept and then added to the solution as
    /// a block, 1 to 8; 1 adds each in its step. The solution is in float64: with narrow directions
    /// it is a large part of the memory traffic of a step, and a buffer of `n` moves it every `n`
    /// steps. It takes `n - 1` additional vectors, and changes no bits.
    pub buffer: usize,
}

impl<E: Scalar> Updates<E> {
    /// Creates settings with vectors in this storage, all stabilisation techniques and no buffer.
    /// The residual is replaced when it has decreased by the factor `delta`; 0.1 is a good value.
    pub fn new(delta: f64, storage: impl Storage<E> + 'static) -> Self {
        let (trigger, storage) = (Trigger::Reduction(delta), Arc::new(storage));
        Updates { trigger, storage, stabilisation: Stabilisation::default(), buffer: 1 }
    }
}
