//! Several right-hand sides: in blocks of 2, 4 or 8 in lock step, or concurrently.

use zellige_krylov::{BlockCg, Cg, Error, Logger, Method, Stop, StoppingCriterion, solve_columns};

use super::{RightHandSide, System, check_memory};
use crate::concurrent::concurrent_map;
use crate::system::answer::Answer;
use crate::system::options::MethodChoice;
use crate::system::prepare::ScaledMethod;

impl System<'_> {
    /// Solves `A x_k = b_k` for each `k`, from the guesses in `x`, with a logger for each.
    ///
    /// Conjugate gradients solve for 8, 4 or 2 of them in lock step, and each of their products
    /// reads the matrix once for the block. Others run concurrently, so that workers are also busy
    /// while the tasks of one wait for each other. Every answer is bitwise identical to that of a
    /// single solve, except with [`MethodChoice::BlockCg`].
    ///
    /// # Errors
    /// [`Error::Shape`] unless there are as many guesses and loggers as right-hand sides; otherwise
    /// the first error of a right-hand side, with the others solved all the same:
    /// [`Error::Shape`] for vectors of other lengths, [`Error::Unsolvable`] for non-finite values
    /// in them, and the error that kept every attempt from beginning.
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
        let (mut blocks, mut rest) = (Vec::new(), (b, x, logs));
        while !rest.0.is_empty() {
            let count = self.block_of(rest.0.len(), workers);
            let (b, others_b) = rest.0.split_at(count);
            let (x, others_x) = rest.1.split_at_mut(count);
            let (logs, others_logs) = rest.2.split_at_mut(count);
            blocks.push((b, x, logs));
            rest = (others_b, others_x, others_logs);
        }
        let concurrent = blocks.iter().take(threads).map(|(b, ..)| b.len()).sum();
        check_memory(self.prepared.matrix().rows(), concurrent)?;
        let solved = concurrent_map(threads, blocks.into_iter(), |(b, x, logs)| match b {
            [b] => vec![self.solve(b, &mut x[0], &mut logs[0])],
            _ => self.solve_block(b, x, logs),
        });
        solved.into_iter().flatten().collect()
    }

    /// Returns the size of the next block among the right-hand sides that are left.
    fn block_of(&self, left: usize, workers: usize) -> usize {
        // A panel is one task for any number of vectors: with few panels, workers need several
        // products at a time.
        let most = match self.candidates[0].method {
            MethodChoice::BlockCg => left,
            _ if self.prepared.space().parts() >= 2 * workers => left,
            _ => left / workers.max(1),
        };
        // Devices do not support products in lock step.
        let is_fit = matches!(self.candidates[0].method, MethodChoice::Cg | MethodChoice::BlockCg)
            && self.options.reliable.is_none()
            && self.rt.runtime().memory().iter().all(|node| node.device.is_none());
        if is_fit { [8, 4, 2].into_iter().find(|&count| count <= most).unwrap_or(1) } else { 1 }
    }

    /// Solves for 2, 4 or 8 right-hand sides: the first attempt is made for the block, later ones
    /// for each right-hand side that needs them.
    fn solve_block<L: Logger>(
        &self,
        b: &[Vec<f64>],
        x: &mut [Vec<f64>],
        logs: &mut [L],
    ) -> Vec<Result<Answer, Error>> {
        match self.first_attempt(b, x, logs) {
            Ok(block) => {
                let each = block.into_iter().zip(x).zip(logs);
                each.map(|((mut rhs, x), log)| {
                    if !self.is_over(&rhs, 0) {
                        self.attempt_from(&mut rhs, 1, log)?;
                    }
                    self.answer(rhs, x)
                })
                .collect()
            }
            // One of them cannot be solved, or all: each reports it for itself.
            Err(_) => {
                let each = b.iter().zip(x).zip(logs);
                each.map(|((b, x), log)| self.solve(b, x, log)).collect()
            }
        }
    }

    /// Makes the first attempt for a block, by conjugate gradients.
    fn first_attempt<L: Logger>(
        &self,
        b: &[Vec<f64>],
        x: &[Vec<f64>],
        logs: &mut [L],
    ) -> Result<Vec<RightHandSide>, Error> {
        let block = b.iter().zip(x).map(|(b, x)| self.right_hand_side(b, x));
        let mut block: Vec<RightHandSide> = block.collect::<Result<_, _>>()?;
        let (mut preconditioner, mut stops) = (None, Vec::new());
        for rhs in &mut block {
            let (own, stop) = self.start(rhs, 0)?;
            preconditioner = own.operator;
            stops.push(stop);
        }
        let problem = self.problem(preconditioner.as_deref());
        let criteria: Vec<&[Stop]> = stops.iter().map(|stop| &stop[..]).collect();
        let criteria: Vec<&dyn StoppingCriterion> =
            criteria.iter().map(|stop| stop as &dyn StoppingCriterion).collect();
        let mut logs: Vec<&mut dyn Logger> = logs.iter_mut().map(|log| log as &mut dyn Logger).collect();
        let (b, mut x): (Vec<&[f64]>, Vec<&mut [f64]>) =
            block.iter_mut().map(|rhs| (&rhs.b[..], &mut rhs.x[..])).unzip();
        let method: &dyn Method = match self.candidates[0].method {
            MethodChoice::BlockCg => &BlockCg,
            _ => &Cg { flexible: false },
        };
        let solutions = match self.prepared.scales() {
            Some(scales) => {
                let scaled = ScaledMethod { method, scales };
                solve_columns(&problem, &scaled, &b, &mut x, &criteria, &mut logs)?
            }
            None => solve_columns(&problem, method, &b, &mut x, &criteria, &mut logs)?,
        };
        for ((rhs, solution), log) in block.iter_mut().zip(solutions).zip(logs) {
            self.record(rhs, 0, method.name(), Ok(solution), log)?;
        }
        Ok(block)
    }
}
