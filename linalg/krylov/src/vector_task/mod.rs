//! Vector tasks: linear combinations and sums of products, fused.

mod codelet;
mod compile;
mod interpreter;
mod kernel;
mod program;
mod term;

pub use self::term::{Coefficient, Term, minus, plus, times};

use std::sync::Arc;

use zellige_runtime::data::Chunk;
use zellige_runtime::{Handle, Submit, reads, updates};

use self::codelet::VectorCodelet;
use self::compile::Operations;
use self::program::MOST_TERMS;
use crate::error::Error;
use crate::scalar::Scalar;
use crate::steps::Steps;
use crate::task_scope::TaskScope;
use crate::vector::MultiVector;

impl<'g, E: Scalar> Steps<'g, E> {
    /// Creates a task per part that updates vectors by linear combinations of others, and sums
    /// products.
    pub fn task(&self, name: &'static str) -> VectorTask<'_, 'g, E> {
        VectorTask { steps: self, name, operations: Operations::default() }
    }
}

/// Builder of a vector task; [`submit`](VectorTask::submit) records it for each part.
///
/// The task executes its operations in this order for some rows at a time, which stay in the
/// nearest cache.
#[must_use = "a task that is not submitted does nothing"]
pub struct VectorTask<'s, 'g, E: Scalar> {
    steps: &'s Steps<'g, E>,
    name: &'static str,
    operations: Operations<E>,
}

impl<E: Scalar> VectorTask<'_, '_, E> {
    /// Skips also the columns for which one of the method's scalars, by index, is not zero.
    pub fn unless(mut self, at: usize) -> Self {
        self.operations.unless = Some(at);
        self
    }

    /// Adds `y = sum of the terms`, from left to right; `y` may be among them. No terms: `y = 0`.
    ///
    /// # Panics
    /// For more than three terms.
    pub fn assign<const N: usize>(mut self, y: &MultiVector<E>, terms: [Term<E>; N]) -> Self {
        assert!(N <= MOST_TERMS, "{N} terms: {MOST_TERMS} at most");
        self.operations.assignments.push((y.clone(), terms.into()));
        self
    }

    /// Adds `y += term`.
    pub fn add(self, y: &MultiVector<E>, term: Term<E>) -> Self {
        self.assign(y, [times(1.0, y), term])
    }

    /// Adds `y = x`.
    pub fn copy(self, y: &MultiVector<E>, x: &MultiVector<E>) -> Self {
        self.assign(y, [times(1.0, x)])
    }

    /// Sets sum `at` to `conj(x) . y`, after the assignments.
    pub fn dot(mut self, x: &MultiVector<E>, y: &MultiVector<E>, at: usize) -> Self {
        self.operations.dots.push((x.clone(), y.clone(), at));
        self
    }

    /// Sets sum `at` to `conj(y) . (y - y_old)` for a vector that is assigned to; `y_old` is its
    /// value before.
    pub fn dot_change(mut self, y: &MultiVector<E>, at: usize) -> Self {
        self.operations.changes.push((y.clone(), at));
        self
    }

    /// Records the task.
    ///
    /// # Errors
    /// Those of submission.
    ///
    /// # Panics
    /// If a vector has another number of parts than the space or other columns than the method, and
    /// for sums if the steps have none.
    pub fn submit(self) -> Result<(), Error> {
        let VectorTask { steps, name, operations } = self;
        let width = if operations.has_sums() { steps.sums().width() } else { 0 };
        let (program, vectors) = operations.compile(steps.space(), steps.columns(), width);
        let kernel = program.kernel().map(Arc::new);
        let goes_at_once = kernel.is_some() && program.goes_at_once(steps);
        let program = Arc::new(program);
        let parts: Vec<usize> = steps.space().ranges().map(|range| range.len()).collect();
        let at_once = if goes_at_once { parts.len().max(1) } else { 1 };
        for (i, rows) in parts.chunks(at_once).enumerate() {
            let here = i * at_once..i * at_once + rows.len();
            let of = |vectors: &'_ [MultiVector<E>]| -> Vec<Handle<Chunk<f64>>> {
                here.clone().flat_map(|part| vectors.iter().map(move |v| v.parts()[part].clone())).collect()
            };
            let sums = here.clone().filter(|_| width > 0).map(|part| steps.sums().of(part));
            let operands = (
                steps.numbers().read(),
                reads(&of(&vectors.read)),
                updates(&of(&vectors.updated)),
                sums.collect::<Vec<_>>(),
            );
            let (program, kernel) = (Arc::clone(&program), kernel.clone());
            let (first, scope) = (steps.space().range(here.start).start, TaskScope::new::<E>());
            let task = VectorCodelet { name, rows: rows.into(), first, program, kernel, scope };
            steps.graph().codelet(task, operands).coords([i as u32]).submit()?;
        }
        Ok(())
    }
}
