//! Search directions that are added to a solution as a block.

use crate::error::Error;
use crate::inner_solver::Setting;
use crate::numbers::{NumbersHandle, State};
use crate::scalar::Scalar;
use crate::steps::Steps;
use crate::vector::MultiVector;
use crate::vector_task::plus;

/// Directions that a buffer has at most.
pub(crate) const MOST_BUFFERED: usize = 8;

/// Step lengths along the last directions of one or several solutions. All directions are added in
/// one task, so that a solution, which is in float64, is read and written once for several steps
/// (like `solution_accumulator_pipeline` of QUDA's conjugate gradients).
///
/// Each term is added and rounded as it would be in its own step: a solution has the same bits.
pub(crate) struct Buffer<E: Scalar> {
    /// Directions of each solution. A recorded graph of steps begins with the first and ends with
    /// the last.
    depth: usize,
    solutions: usize,
    /// The lengths, `[solution][direction]`, 0 after they were added. A column is running if they
    /// are to be added.
    lengths: NumbersHandle<E>,
}

impl<E: Scalar> Buffer<E> {
    /// Creates a buffer for `depth` directions of each solution; `None` for one direction.
    pub(crate) fn new(setting: Setting<'_, E>, depth: usize, solutions: usize) -> Option<Self> {
        let lengths = || NumbersHandle::new(setting.rt, setting.columns, depth * solutions);
        (depth > 1).then(|| Buffer { depth, solutions, lengths: lengths() })
    }

    /// Records, at the beginning of a solve, that no direction is kept.
    pub(crate) fn begin(&self, steps: &Steps<'_, E>) -> Result<(), Error> {
        steps.update_numbers_of("buffer.begin", &self.lengths, |_, _, lengths| {
            lengths.begin(0.0, 0);
            lengths.end(State::Limited);
        })
    }

    /// Records that the lengths of step `k` are kept, for columns that are not done. `alphas` are
    /// the indices of these scalars, one for each solution, each with the index of a scalar that is
    /// nonzero if the solution is not updated.
    pub(crate) fn keep(
        &self,
        steps: &Steps<'_, E>,
        k: usize,
        alphas: Vec<(usize, Option<usize>)>,
    ) -> Result<(), Error> {
        let (depth, at) = (self.depth, k % self.depth);
        steps.update_numbers_of("buffer.keep", &self.lengths, move |_, method, lengths| {
            if method.is_done() {
                return;
            }
            for (i, (alpha, done)) in alphas.iter().enumerate() {
                if done.is_none_or(|done| method.value(done) == 0.0) {
                    lengths[i * depth + at] = method[*alpha];
                }
            }
            if at + 1 == depth {
                lengths.go_on();
            }
        })
    }

    /// Records that the directions up to step `k` are added to each solution, and are then
    /// discarded. That is due if the buffer is full, and for columns that are not done by the
    /// numbers of `open`.
    pub(crate) fn flush<'v>(
        &self,
        open: &Steps<'_, E>,
        k: usize,
        solutions: impl Iterator<Item = (&'v MultiVector<E>, &'v [MultiVector<E>])>,
    ) -> Result<(), Error> {
        open.update_numbers_of("buffer.open", &self.lengths, |_, numbers, lengths| {
            if !numbers.is_done() {
                lengths.go_on();
            }
        })?;
        let due = open.by(&self.lengths);
        for (i, (x, directions)) in solutions.enumerate() {
            let kept = directions[..=k % self.depth].iter().enumerate();
            kept.fold(due.task("buffer.add"), |task, (at, p)| task.add(x, plus(i * self.depth + at, p)))
                .submit()?;
        }
        let lengths = self.depth * self.solutions;
        open.update_numbers_of("buffer.clear", &self.lengths, move |_, _, kept| {
            if !kept.is_done() {
                (0..lengths).for_each(|at| kept[at] = E::default());
                kept.end(State::Limited);
            }
        })
    }
}
