//! Stopping criteria.

use std::time::Duration;

/// Input of stopping criteria.
///
/// ```
/// use std::time::Duration;
/// use zellige_krylov::{Progress, Stop, StoppingCriterion};
///
/// let progress = Progress { steps: 10, elapsed: Duration::from_secs(1), rhs: 2.0, first: 1.0 };
/// assert_eq!(Stop::RelativeToRhs(1e-3).goal(&progress), Some(2e-3));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Number of steps of the method so far.
    pub steps: usize,
    /// Time since the solver began.
    pub elapsed: Duration,
    /// `|b|_2`.
    pub rhs: f64,
    /// `|b - A x0|_2` of the initial guess.
    pub first: f64,
}

/// Stopping criterion of a solver.
///
/// ```
/// use zellige_krylov::{Progress, Stop, StoppingCriterion};
///
/// /// At the norm of rounding errors in the right-hand side.
/// struct ToRounding;
///
/// impl StoppingCriterion for ToRounding {
///     fn goal(&self, progress: &Progress) -> Option<f64> {
///         Some(8.0 * f64::EPSILON * progress.rhs)
///     }
/// }
///
/// // Of several the first that is reached counts.
/// let both: [&dyn StoppingCriterion; 2] = [&ToRounding, &Stop::Steps(1000)];
/// # let progress = Progress { steps: 990, elapsed: std::time::Duration::ZERO, rhs: 1.0, first: 1.0 };
/// assert_eq!((both[..].steps_left(&progress), both[..].goal(&progress)), (Some(10), Some(8.0 * f64::EPSILON)));
/// ```
pub trait StoppingCriterion {
    /// Returns the residual (2-norm) that is small enough; `None` if the criterion does not use
    /// residuals.
    fn goal(&self, progress: &Progress) -> Option<f64> {
        let _ = progress;
        None
    }

    /// Returns the number of steps that may still be made; `None` for any number.
    fn steps_left(&self, progress: &Progress) -> Option<usize> {
        let _ = progress;
        None
    }

    /// Returns true if the time is up.
    fn is_late(&self, progress: &Progress) -> bool {
        let _ = progress;
        false
    }
}

/// The usual criteria.
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{Cg, Solve, Stop, solve};
///
/// use std::time::Duration;
///
/// let stop = [Stop::RelativeToFirst(1e-8), Stop::Steps(500), Stop::After(Duration::from_secs(60))];
/// let mut x = vec![0.0; 50];
/// let found = solve(&Solve::new(&rt, &a), &Cg::default(), &[1.0; 50], &mut x, &stop[..], &mut ())?;
/// assert!(found.reason.is_converged());
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stop {
    /// Stops after this number of steps.
    Steps(usize),
    /// Stops after this time; checked every few steps.
    After(Duration),
    /// Stops at a residual of this norm.
    Absolute(f64),
    /// Stops at a residual of this norm relative to that of the right-hand side.
    RelativeToRhs(f64),
    /// Stops at a residual of this norm relative to that of the first one.
    RelativeToFirst(f64),
}

impl StoppingCriterion for Stop {
    fn goal(&self, progress: &Progress) -> Option<f64> {
        match *self {
            Stop::Absolute(norm) => Some(norm),
            Stop::RelativeToRhs(ratio) => Some(ratio * progress.rhs),
            Stop::RelativeToFirst(ratio) => Some(ratio * progress.first),
            Stop::Steps(_) | Stop::After(_) => None,
        }
    }

    fn steps_left(&self, progress: &Progress) -> Option<usize> {
        match *self {
            Stop::Steps(most) => Some(most.saturating_sub(progress.steps)),
            _ => None,
        }
    }

    fn is_late(&self, progress: &Progress) -> bool {
        matches!(*self, Stop::After(most) if progress.elapsed >= most)
    }
}

impl<C: StoppingCriterion + ?Sized> StoppingCriterion for &C {
    fn goal(&self, progress: &Progress) -> Option<f64> {
        (**self).goal(progress)
    }

    fn steps_left(&self, progress: &Progress) -> Option<usize> {
        (**self).steps_left(progress)
    }

    fn is_late(&self, progress: &Progress) -> bool {
        (**self).is_late(progress)
    }
}

/// Whichever of several comes first.
impl<C: StoppingCriterion> StoppingCriterion for [C] {
    fn goal(&self, progress: &Progress) -> Option<f64> {
        self.iter().filter_map(|one| one.goal(progress)).reduce(f64::max)
    }

    fn steps_left(&self, progress: &Progress) -> Option<usize> {
        self.iter().filter_map(|one| one.steps_left(progress)).min()
    }

    fn is_late(&self, progress: &Progress) -> bool {
        self.iter().any(|one| one.is_late(progress))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_several_counts() {
        let progress = Progress { steps: 7, elapsed: Duration::from_secs(2), rhs: 10.0, first: 4.0 };
        let all = [Stop::Steps(9), Stop::Absolute(0.5), Stop::RelativeToRhs(0.1), Stop::RelativeToFirst(0.5)];
        assert_eq!(all[..].goal(&progress), Some(2.0));
        assert_eq!(all[..3].goal(&progress), Some(1.0));
        assert_eq!(all[..].steps_left(&progress), Some(2));
        assert!(!all[..].is_late(&progress));
        assert!([Stop::After(Duration::from_secs(1))][..].is_late(&progress));
        assert_eq!([Stop::Steps(3)][..].steps_left(&progress), Some(0));
    }
}
