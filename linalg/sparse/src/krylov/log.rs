//! What a solver tells whoever watches it.

/// Watches a solver. Every method has a default that does nothing.
pub trait Logger {
    /// A step was made; the norm of the residual that the method keeps.
    fn step(&mut self, residual: f64) {
        let _ = residual;
    }

    /// The true residual `|b - A x|_2` was computed, after so many steps.
    fn true_residual(&mut self, steps: usize, residual: f64) {
        let _ = (steps, residual);
    }
}

/// Does not watch.
impl Logger for () {}

/// Residual norms as they came.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// Of the method's own residual, after each step.
    pub steps: Vec<f64>,
    /// Steps made, and the true residual computed then; the first is that of the initial guess.
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

/// Tells of residuals that were multiplied by something as what they were.
pub(crate) struct Rescaled<'l> {
    /// Who is told.
    pub(crate) log: &'l mut dyn Logger,
    /// What they were multiplied by.
    pub(crate) ratio: f64,
}

impl Logger for Rescaled<'_> {
    fn step(&mut self, residual: f64) {
        self.log.step(residual / self.ratio);
    }

    fn true_residual(&mut self, steps: usize, residual: f64) {
        self.log.true_residual(steps, residual / self.ratio);
    }
}

/// A log that goes on where others ended.
pub(crate) struct Onwards<'l> {
    pub(crate) log: &'l mut dyn Logger,
    /// Their steps.
    pub(crate) before: usize,
}

impl Logger for Onwards<'_> {
    fn step(&mut self, residual: f64) {
        self.log.step(residual);
    }

    fn true_residual(&mut self, steps: usize, residual: f64) {
        self.log.true_residual(self.before + steps, residual);
    }
}
