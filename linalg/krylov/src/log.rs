//! Interface between a solver and its logger.

/// Watches a solver. Every method has a default that does nothing.
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{Cg, Logger, Solve, Stop, solve};
///
/// /// Remembers the smallest residual.
/// struct Best(f64);
///
/// impl Logger for Best {
///     fn step(&mut self, residual: f64) {
///         self.0 = self.0.min(residual);
///     }
/// }
///
/// let (mut x, mut best) = (vec![0.0; 50], Best(f64::INFINITY));
/// solve(&Solve::new(&rt, &a), &Cg::default(), &[1.0; 50], &mut x, &Stop::Absolute(1e-6), &mut best)?;
/// assert!(best.0 <= 1e-6);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
pub trait Logger {
    /// Receives a step with the norm of the residual that the method keeps.
    fn step(&mut self, residual: f64) {
        let _ = residual;
    }

    /// Receives the recomputed residual `|b - A x|_2` after `steps` steps.
    fn true_residual(&mut self, steps: usize, residual: f64) {
        let _ = (steps, residual);
    }
}

/// Does not watch.
impl Logger for () {}

/// Residual norms as they came.
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{Cg, History, Solve, Stop, solve};
///
/// let (mut x, mut history) = (vec![0.0; 50], History::default());
/// let found = solve(&Solve::new(&rt, &a), &Cg::default(), &[1.0; 50], &mut x, &Stop::Steps(7), &mut history)?;
/// assert_eq!((history.steps.len(), found.steps), (7, 7));
/// assert_eq!(history.checks[0], (0, 50f64.sqrt())); // that of the initial guess
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// Norms of the method's own residual, after each step.
    pub steps: Vec<f64>,
    /// Number of steps and the residual recomputed then; the first is that of the initial guess.
    pub checks: Vec<(usize, f64)>,
}

impl Logger for History {
    fn step(&mut self, residual: f64) {
        self.steps.push(residual);
    }

    fn true_residual(&mut self, steps: usize, residual: f64) {
        self.checks.push((steps, residual));
    }
}

/// A logger that divides scaled residuals by their factor.
pub struct ScaledLogger<'l> {
    /// The logger that is notified.
    pub log: &'l mut dyn Logger,
    /// Factor that the norms were multiplied by.
    pub ratio: f64,
}

impl Logger for ScaledLogger<'_> {
    fn step(&mut self, residual: f64) {
        self.log.step(residual / self.ratio);
    }

    fn true_residual(&mut self, steps: usize, residual: f64) {
        self.log.true_residual(steps, residual / self.ratio);
    }
}

impl<'l> ScaledLogger<'l> {
    /// Wraps each of several loggers, with a separate ratio.
    pub fn each(logs: &'l mut [&mut dyn Logger], ratios: &[f64]) -> Vec<ScaledLogger<'l>> {
        logs.iter_mut()
            .zip(ratios)
            .map(|(log, ratio)| ScaledLogger { log: &mut **log, ratio: *ratio })
            .collect()
    }
}

/// A log that continues the numbering of earlier steps.
pub struct OffsetLogger<'l> {
    /// The logger that is notified.
    pub log: &'l mut dyn Logger,
    /// The steps of those before.
    pub before: usize,
}

impl Logger for OffsetLogger<'_> {
    fn step(&mut self, residual: f64) {
        self.log.step(residual);
    }

    fn true_residual(&mut self, steps: usize, residual: f64) {
        self.log.true_residual(self.before + steps, residual);
    }
}
