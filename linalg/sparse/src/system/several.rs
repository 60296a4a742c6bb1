//! Several right-hand sides at once.

use super::made::check_vectors;
use super::{Answer, MethodChoice, System};
use crate::concurrent::concurrent_map;
use zellige_krylov::{Error, Logger};

impl System<'_> {
    /// Solves `A x_k = b_k` for each `k`, from the guesses in `x`, with a logger for each.
    ///
    /// Conjugate gradients solve for 8, 4 or 2 of them in lock step, and each of their products
    /// reads the matrix once for the block. Others run concurrently, so that workers are also busy
    /// while the tasks of one wait for each other. Every answer is bitwise identical to that of a
    /// single solve.
    ///
    /// # Errors
    /// [`Error::Shape`] unless there are as many guesses and loggers as right-hand sides; otherwise
    /// the first error of [`solve`](System::solve), with the others solved all the same.
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
        let workers = self.rt.agree(self.rt.runtime().workers() as u64)? as usize;
        // Ranks run one operation at a time, in one order.
        let threads = if self.rt.ranks() > 1 { 1 } else { (2 * workers).max(1) };
        let (mut jobs, mut rest) = (Vec::new(), (b, x, logs));
        while !rest.0.is_empty() {
            let count = self.at_once(rest.0.len(), workers);
            let (b, others_b) = rest.0.split_at(count);
            let (x, others_x) = rest.1.split_at_mut(count);
            let (logs, others_logs) = rest.2.split_at_mut(count);
            jobs.push((b, x, logs));
            rest = (others_b, others_x, others_logs);
        }
        let at_a_time = jobs.iter().take(threads).map(|(b, ..)| b.len()).sum();
        check_vectors(self.a.rows(), at_a_time)?;
        let solved = concurrent_map(threads, jobs.into_iter(), |(b, x, logs)| match b {
            [b] => vec![self.solve(b, &mut x[0], &mut logs[0])],
            _ => self.solve_together(b, x, logs),
        });
        solved.into_iter().flatten().collect()
    }

    /// Returns the size of the next block among the right-hand sides that are left.
    fn at_once(&self, left: usize, workers: usize) -> usize {
        // A panel is one task for any number of vectors: with few panels, workers need several
        // products at a time.
        let most = if self.plan.space.parts() >= 2 * workers { left } else { left / workers.max(1) };
        // Devices do not support products in lock step.
        let is_fit = self.first_method() == MethodChoice::Cg
            && self.options.reliable.is_none()
            && self.rt.runtime().memory().iter().all(|node| node.device.is_none());
        if is_fit { [8, 4, 2].into_iter().find(|&count| count <= most).unwrap_or(1) } else { 1 }
    }
}
