//! Residuals as they come: for whoever waits, and for pictures.

use zellige_files::observe::Observer;
use zellige_krylov::{History, Logger};

/// The history of a right-hand side, which an observer may be told of.
#[derive(Clone)]
pub(super) struct Watched<'o> {
    pub history: History,
    observer: Option<&'o dyn Observer>,
    /// Steps before the solve that is going on.
    before: usize,
}

impl<'o> Watched<'o> {
    /// For so many right-hand sides of at most `most_steps`; the observer is told of the first.
    pub fn each(count: usize, most_steps: usize, observer: &'o dyn Observer) -> Vec<Watched<'o>> {
        observer.stage("iterations", most_steps as u64);
        let of =
            |at| Watched { history: History::default(), observer: (at == 0).then_some(observer), before: 0 };
        (0..count).map(of).collect()
    }

    /// Another solve begins where the last one ended.
    pub fn go_on(&mut self) {
        self.before = self.history.steps.len();
    }
}

impl Logger for Watched<'_> {
    fn step(&mut self, residual: f64) {
        self.history.step(residual);
        if let Some(observer) = self.observer {
            observer.advance(self.history.steps.len() as u64);
        }
    }

    fn true_residual(&mut self, steps: usize, residual: f64) {
        self.history.true_residual(self.before + steps, residual);
    }
}
