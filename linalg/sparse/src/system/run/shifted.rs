//! Several multiples of the identity added to the matrix.

use std::time::{Duration, Instant};

use zellige_krylov::{Error, Logger, Solution, solve_shifted};

use super::System;
use super::quality::quality;
use crate::system::answer::{Answer, Attempt};
use crate::system::options::{MethodChoice, PreconditionerChoice};
use crate::system::prepare::check_symmetry;

/// Result for one shift.
#[derive(Clone, Debug, PartialEq)]
pub struct ShiftedAnswer {
    /// The multiple of the identity.
    pub shift: f64,
    /// The answer.
    pub x: Vec<f64>,
    /// Data of the answer: residuals and errors are those of `A + shift I`; steps are the shared
    /// ones and those of this shift; times are those of all shifts.
    pub answer: Answer,
}

impl System<'_> {
    /// Solves `(A + sigma_k I) x_k = b` for every shift with conjugate gradients in one Krylov
    /// space ([`krylov::solve_shifted`](solve_shifted)), with a logger for each.
    ///
    /// # Errors
    /// [`Error::Parameter`] for another method, a preconditioner, scaling, or a null space, which
    /// shifts do not share; [`Error::Unsolvable`] for a matrix that is not symmetric; those of
    /// [`solve_shifted`].
    pub fn solve_shifted<L: Logger>(
        &self,
        shifts: &[f64],
        b: &[f64],
        logs: &mut [L],
    ) -> Result<Vec<ShiftedAnswer>, Error> {
        self.check_for_shifts()?;
        let (begun, busy) = (Instant::now(), self.stored.busy());
        let problem = self.problem(None);
        let ordered = self.prepared.ordered(b);
        let solved = solve_shifted(&problem, shifts, &ordered, &self.options.stop[..], logs)?;
        let took = (begun.elapsed(), (self.stored.busy() - busy) / self.rt.runtime().workers() as u32);
        let each = shifts.iter().zip(solved.each).map(|(&shift, (solution, x))| {
            let (steps, runs) = (solved.shared + solution.steps, 1 + solution.runs);
            self.shifted_answer(shift, Solution { steps, runs, ..solution }, &ordered, x, took)
        });
        Ok(each.collect())
    }

    fn shifted_answer(
        &self,
        shift: f64,
        solution: Solution,
        b: &[f64],
        x: Vec<f64>,
        (solve, products): (Duration, Duration),
    ) -> ShiftedAnswer {
        let workers = self.rt.runtime().workers();
        let (backward_error, attainable) = quality(self.prepared.matrix(), shift, b, &x, workers);
        let attempt = Attempt {
            method: "shifted cg".to_owned(),
            preconditioner: PreconditionerChoice::None,
            result: Ok(solution),
        };
        let answer = Answer {
            solution,
            attempts: vec![attempt],
            inner: self.stored.chosen,
            removed: 0.0,
            backward_error,
            attainable,
            setup: self.setup,
            solve,
            products,
            bytes: self.bytes(solution.memory, [0, 0]),
        };
        let mut restored = vec![0.0; x.len()];
        self.prepared.restore(&x, &mut restored);
        ShiftedAnswer { shift, x: restored, answer }
    }

    fn check_for_shifts(&self) -> Result<(), Error> {
        let options = &self.options;
        let refuse = |name, problem: &str| Err(Error::parameter(name, problem));
        if !matches!(options.method, MethodChoice::Auto | MethodChoice::Cg) || options.reliable.is_some() {
            return refuse(
                "shifts",
                "only plain conjugate gradients solve for them in one Krylov space: use --method cg, or leave it out",
            );
        }
        check_symmetry(options)?;
        if !matches!(options.preconditioner, PreconditionerChoice::Auto | PreconditionerChoice::None) {
            return refuse(
                "shifts",
                "a preconditioner would have to be the same for all of them: use --precond none",
            );
        }
        if self.prepared.scales().is_some() {
            return refuse("shifts", "a scaled matrix has a different shift in each row: use --scale none");
        }
        if options.without_constant {
            return refuse(
                "shifts",
                "a matrix plus a multiple of the identity has not the null space of the matrix",
            );
        }
        if !self.prepared.matrix().is_symmetric() {
            return Err(Error::unsolvable("matrix", "it is not symmetric, which multi-shift CG requires"));
        }
        Ok(())
    }
}
