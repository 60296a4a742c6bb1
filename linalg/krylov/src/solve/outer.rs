//! The vectors and graphs around a method.

use std::borrow::Cow;

use zellige_kernels::RealNumber;

use super::column::{Column, Verdict};
use super::system::Solve;
use crate::error::Error;
use crate::executor::{Executor, Replay};
use crate::inner_solver::{InnerResult, Limit, MemoryUse};
use crate::log::Logger;
use crate::numbers::{NumbersHandle, State};
use crate::reduction::unit_scale;
use crate::scalar::Scalar;
use crate::steps::{Steps, Sums};
use crate::vector::MultiVector;
use crate::vector_task::{plus, times};

/// Answers and true residuals of all right-hand sides between inner solves.
pub(super) struct Outer<'s, E: Scalar> {
    rt: &'s dyn Executor,
    /// The answer with the least residual so far.
    pub(super) best: MultiVector<E>,
    numbers: NumbersHandle<E>,
    /// For each column, the factor of the method's residual and divisor of its correction.
    pub(super) scales: Vec<f64>,
    /// The residual of `x`, and of the answer of an inner solve.
    of_guess: Replay<'s>,
    of_trial: Replay<'s>,
    correct: Replay<'s>,
    accept: Replay<'s>,
    keep: Replay<'s>,
    pub(super) memory: MemoryUse,
}

/// Vector whose residual is measured.
#[derive(Clone, Copy)]
pub(super) enum Measured {
    /// Start of the next inner solve.
    Guess,
    /// Answer of an inner solve.
    Trial,
}

/// Indices of the scalars: the norm of the residual, the scale and its inverse.
const RESIDUAL: usize = 0;
const SCALE: usize = 1;
const INVERSE: usize = 2;

/// Norms with an exponent (of two) within these have squares in range, and so have those that are
/// some 100 digits smaller.
const IN_RANGE: i32 = 400;

impl<'s, E: Scalar> Outer<'s, E> {
    pub(super) fn new(
        problem: &Solve<'s, E>,
        [r, d]: [&MultiVector<E>; 2],
        b: &[Cow<'_, [E]>],
        x: &[Cow<'_, [E]>],
    ) -> Result<Self, Error> {
        let (rt, space) = (problem.rt, problem.exact.domain());
        let (columns, scales) = (b.len(), b.iter().map(|b| unit_scale(b)).collect());
        let vector = |columns: &[Cow<'_, [E]>]| {
            let columns: Vec<&[E]> = columns.iter().map(|column| &**column).collect();
            MultiVector::from_columns(rt, space, &columns)
        };
        let (b, best, x) = (vector(b), vector(x), vector(x));
        let zeros = || MultiVector::zeros(rt, space, columns);
        let (trial, product) = (zeros(), zeros());
        let numbers = NumbersHandle::new(rt, columns, 3);
        let sums = Sums::new(rt, space, columns, 1);
        let record = |body: &dyn Fn(&Steps<'_, E>) -> Result<(), Error>| {
            rt.record(|graph| body(&Steps::new(rt, graph, space, &numbers).with_sums(&sums)))
        };
        let residual_of = |x: &MultiVector<E>| {
            record(&|steps| {
                problem.exact.apply(steps, x, &product)?;
                let task = steps.task("residual").assign(r, [times(1.0, &b), times(-1.0, &product)]);
                task.assign(r, [plus(SCALE, r)]).dot(r, r, 0).submit()?;
                steps.update_numbers("residual.norm", |sums, s| s.set_real(RESIDUAL, sums[0].real().sqrt()))
            })
        };
        let (of_guess, of_trial) = (residual_of(&x)?, residual_of(&trial)?);
        let correct = record(&|steps| {
            steps.task("correct").assign(&trial, [times(1.0, &x), plus(INVERSE, d)]).submit()
        })?;
        let accept = record(&|steps| steps.task("accept").copy(&x, &trial).submit())?;
        let keep = record(&|steps| steps.task("accept").copy(&best, &trial).submit())?;
        // The memory of an operator beyond the bytes that it reads is that of its vectors.
        let of_exact = problem.exact.memory().saturating_sub(problem.exact.bytes());
        let memory = MemoryUse::vectors::<E>(space, 5).and(MemoryUse { basis: 0, vectors: of_exact });
        Ok(Outer { rt, best, numbers, scales, of_guess, of_trial, correct, accept, keep, memory })
    }

    /// Adds the corrections of an inner solve to the answers, and recomputes the residuals.
    pub(super) fn absorb(
        &mut self,
        columns: &mut [Column],
        limits: &[Option<Limit>],
        results: &[InnerResult],
        logs: &mut [&mut dyn Logger],
    ) -> Result<(), Error> {
        let (ran, scales): (Vec<bool>, _) =
            (limits.iter().map(Option::is_some).collect(), self.scales.clone());
        self.replay(&self.correct, &ran)?;
        let corrected = self.measure(Measured::Trial, &ran)?;
        let judge = |(c, column): (usize, &mut Column)| {
            if !ran[c] {
                return None;
            }
            let verdict = column.judge(&results[c], scales[c], corrected[c]);
            logs[c].true_residual(column.solution.steps, corrected[c]);
            Some(verdict)
        };
        let verdicts: Vec<Option<Verdict>> = columns.iter_mut().enumerate().map(judge).collect();
        let of = |is: &dyn Fn(&Verdict) -> bool| -> Vec<bool> {
            verdicts.iter().map(|verdict| verdict.as_ref().is_some_and(is)).collect()
        };
        let (accepted, refused) = (of(&|verdict| verdict.accepted), of(&|verdict| !verdict.accepted));
        let best = of(&|verdict| verdict.best);
        self.replay(&self.accept, &accepted)?;
        self.replay(&self.keep, &best)?;
        if refused.contains(&true) {
            self.measure(Measured::Guess, &refused)?;
        }
        Ok(())
    }

    /// Computes the residuals of some columns, for the next inner solve, with scales that keep
    /// their norms in range; returns the norms.
    pub(super) fn measure(&mut self, of: Measured, columns: &[bool]) -> Result<Vec<f64>, Error> {
        let mut open = columns.to_vec();
        loop {
            let graph = match of {
                Measured::Guess => &self.of_guess,
                Measured::Trial => &self.of_trial,
            };
            self.replay(graph, &open)?;
            let norms = self.numbers.look(self.rt, |_, numbers| numbers.value(RESIDUAL))?;
            for (c, scale) in self.scales.iter_mut().enumerate().filter(|(c, _)| columns[*c]) {
                let power = |exponent| libm::ldexp(1.0, exponent);
                let factor = match norms[c] {
                    norm if norm < power(-IN_RANGE) => power(IN_RANGE),
                    norm if norm > power(IN_RANGE) => power(-IN_RANGE),
                    _ => 1.0,
                };
                let better = (factor * *scale).clamp(power(-1000), power(1000));
                open[c] = better != *scale;
                *scale = better;
            }
            if !open.contains(&true) {
                return Ok(norms.iter().zip(&self.scales).map(|(norm, scale)| norm / scale).collect());
            }
        }
    }

    /// Replays a graph for some columns, if there are any.
    fn replay(&self, graph: &Replay<'_>, columns: &[bool]) -> Result<(), Error> {
        if !columns.contains(&true) {
            return Ok(());
        }
        let (scales, open) = (self.scales.clone(), columns.to_vec());
        self.numbers.change(self.rt, move |c, mut numbers| {
            numbers.set_reals([(SCALE, scales[c]), (INVERSE, 1.0 / scales[c])]);
            match open[c] {
                true => numbers.go_on(),
                false => numbers.end(State::Limited),
            }
        })?;
        graph.run()
    }
}
