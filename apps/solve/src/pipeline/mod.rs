//! Solves with one matrix, or with shifts of it, for several right-hand sides.

pub mod least_squares;
pub mod results;

use std::sync::{Mutex, PoisonError};

use zellige_sparse::Error;
use zellige_sparse::krylov::{History, Logger};
use zellige_sparse::system::System;

use results::Solved;

/// Solutions, with their statistics.
pub type Solutions = (Vec<Vec<f64>>, Vec<Solved>);

/// Solves for each right-hand side, from these initial guesses or from zero. `step` is called with
/// the residual after each step.
///
/// # Errors
/// The errors of [`System::solve_each`].
pub fn solve(
    system: &System<'_>,
    b: &[Vec<f64>],
    x0: Option<Vec<Vec<f64>>>,
    step: impl FnMut(f64) + Send,
) -> Result<Solutions, Error> {
    let mut x = x0.unwrap_or_else(|| b.iter().map(|b| vec![0.0; b.len()]).collect());
    let step = Mutex::new(step);
    let mut loggers: Vec<_> = b.iter().map(|_| ForwardedHistory::new(&step)).collect();
    let answers = system.solve_each(b, &mut x, &mut loggers)?;
    let histories = loggers.into_iter().map(|logger| logger.history);
    let solved = answers.into_iter().zip(histories).enumerate();
    let solved = solved.map(|(k, (answer, history))| Solved { rhs: k + 1, shift: None, answer, history });
    Ok((x, solved.collect()))
}

/// Solves for each right-hand side with each of these multiples of the identity added to the
/// matrix.
///
/// # Errors
/// The errors of [`System::solve_shifted`].
pub fn solve_shifted(
    system: &System<'_>,
    b: &[Vec<f64>],
    shifts: &[f64],
    step: impl FnMut(f64) + Send,
) -> Result<Solutions, Error> {
    let step = Mutex::new(step);
    let (mut x, mut solved) = (Vec::new(), Vec::new());
    for (k, b) in b.iter().enumerate() {
        let mut loggers: Vec<_> = shifts.iter().map(|_| ForwardedHistory::new(&step)).collect();
        let found = system.solve_shifted(shifts, b, &mut loggers)?;
        for (found, logger) in found.into_iter().zip(loggers) {
            x.push(found.x);
            let (answer, history) = (found.answer, logger.history);
            solved.push(Solved { rhs: k + 1, shift: Some(found.shift), answer, history });
        }
    }
    Ok((x, solved))
}

/// Logger that keeps the residuals of one right-hand side, and forwards them to the common `step`.
struct ForwardedHistory<'s, F> {
    history: History,
    step: &'s Mutex<F>,
}

impl<'s, F> ForwardedHistory<'s, F> {
    fn new(step: &'s Mutex<F>) -> Self {
        ForwardedHistory { history: History::default(), step }
    }
}

impl<F: FnMut(f64) + Send> Logger for ForwardedHistory<'_, F> {
    fn step(&mut self, residual: f64) {
        self.history.step(residual);
        self.step.lock().unwrap_or_else(PoisonError::into_inner)(residual);
    }

    fn true_residual(&mut self, steps: usize, residual: f64) {
        self.history.true_residual(steps, residual);
    }
}
