//! Several right-hand sides at once.

use super::{Answer, System};
use crate::error::Error;
use crate::krylov::Logger;
use crate::side_by_side::side_by_side;

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
        let threads = (2 * self.rt.workers()).max(1);
        let jobs = b.iter().zip(x).zip(logs);
        side_by_side(threads, jobs, |((b, x), log)| self.solve(b, x, log)).into_iter().collect()
    }
}
