//! Residual histories, with notification of an observer.

use zellige_files::observe::Observer;
use zellige_krylov::{History, Logger};

/// History of a right-hand side, with an optional observer.
#[derive(Clone)]
pub(super) struct ObservedHistory<'o> {
    pub history: History,
    observer: Option<&'o dyn Observer>,
    /// Number of steps before the current solve.
    before: usize,
    /// Divisor of residuals.
    divisor: f64,
}

impl<'o> ObservedHistory<'o> {
    /// Makes histories for `count` right-hand sides of at most `most_steps`. The observer is
    /// notified of the first one.
    pub fn each(count: usize, most_steps: usize, observer: &'o dyn Observer) -> Vec<ObservedHistory<'o>> {
        observer.stage("iterations", most_steps as u64);
        let of = |at| ObservedHistory {
            history: History::default(),
            observer: (at == 0).then_some(observer),
            before: 0,
            divisor: 1.0,
        };
        (0..count).map(of).collect()
    }

    /// Divides the residuals that follow by a number, unless it is zero.
    pub fn divide_by(&mut self, divisor: f64) {
        self.divisor = if divisor == 0.0 { 1.0 } else { divisor };
    }

    /// Begins another solve, after the last one.
    pub fn go_on(&mut self) {
        self.before = self.history.steps.len();
    }
}

impl Logger for ObservedHistory<'_> {
    fn step(&mut self, residual: f64) {
        self.history.step(residual / self.divisor);
        if let Some(observer) = self.observer {
            observer.advance(self.history.steps.len() as u64);
        }
    }

    fn true_residual(&mut self, steps: usize, residual: f64) {
        self.history.true_residual(self.before + steps, residual / self.divisor);
    }
}
