//! Several right-hand sides at once.

use std::sync::{Mutex, PoisonError};

use super::{Answer, System};
use crate::error::Error;
use crate::krylov::Logger;

/// A right-hand side and its answer, while somebody works on it.
struct Job<'j, L> {
    at: usize,
    b: &'j [f64],
    x: &'j mut [f64],
    log: &'j mut L,
}

impl System<'_> {
    /// Solves `A x_k = b_k` for each `k`, from the guesses in `x`, with a logger for each. Tasks of several of them run side by side, so that workers
    /// are busy also where those of one wait for each other; every answer has the bits that it would have alone.
    ///
    /// # Errors
    /// [`Error::Shape`] unless there are as many guesses and loggers as right-hand sides; otherwise the first error of
    /// [`solve`](System::solve), with the others solved all the same.
    pub fn solve_each<L: Logger + Send>(
        &self,
        b: &[Vec<f64>],
        x: &mut [Vec<f64>],
        logs: &mut [L],
    ) -> Result<Vec<Answer>, Error> {
        if b.len() != x.len() || b.len() != logs.len() {
            let problem = format!("{} guesses and {} loggers for {} of them", x.len(), logs.len(), b.len());
            return Err(Error::shape("right-hand sides", problem));
        }
        let threads = (2 * self.rt.workers()).clamp(1, b.len().max(1));
        let rest = b.iter().zip(x).zip(logs).enumerate();
        let jobs = Mutex::new(rest.map(|(at, ((b, x), log))| Job { at, b, x, log }));
        let answers = Mutex::new(Vec::with_capacity(b.len()));
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    // The lock is not held while a job is worked on.
                    let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
                    while let Some(job) = next() {
                        let answer = self.solve(job.b, job.x, job.log);
                        answers.lock().unwrap_or_else(PoisonError::into_inner).push((job.at, answer));
                    }
                });
            }
        });
        let mut answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
        answers.sort_by_key(|(at, _)| *at);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }
}
