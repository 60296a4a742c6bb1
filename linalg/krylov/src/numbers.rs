//! The scalars of a method, which one step leaves to the next.
//!
//! They are in one handle, a set for each column, and every rank has a copy. The tasks of a step
//! read and write them without the host, which checks them periodically.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Index, IndexMut};

use zellige_cuda::CUDA;
use zellige_kernels::RealNumber;
pub(crate) use zellige_kernels::formulas::REMEMBERED;
use zellige_kernels::formulas::word::{GOAL, HISTORY, LIMIT, OWN, RESIDUAL, STATE, STEPS};
use zellige_kernels::formulas::{begin, end_unless_positive, step};
use zellige_runtime::codelet::DeviceTable;
use zellige_runtime::{
    Codelet, Cpu, Handle, Operands, Read, Submit, TaskContext, TaskError, Update, read, update,
};

use crate::error::Error;
use crate::executor::{Executor, Replay};
use crate::gpu::{self, CopyOperands, GpuViews};
use crate::scalar::Scalar;

/// State of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The method has steps to make.
    Running,
    /// The residual that it keeps is small enough.
    Reached,
    /// The maximum number of steps was reached.
    Limited,
    /// A number that it divides by is zero, or has a sign that it cannot have if the method is the
    /// right one.
    BrokenDown,
    /// A number is infinite or NaN.
    NotANumber,
}

const STATES: [State; 5] =
    [State::Running, State::Reached, State::Limited, State::BrokenDown, State::NotANumber];

/// The handle of a method's [`Numbers`], those of column after column.
#[derive(Clone, Debug)]
pub struct NumbersHandle<E> {
    words: Handle<Vec<f64>>,
    columns: usize,
    scalar: PhantomData<E>,
}

impl<E: Scalar> NumbersHandle<E> {
    /// Creates the numbers of `columns` columns, each with `own` scalars of the method. All are
    /// zero, and every column is running.
    pub fn new(rt: &dyn Executor, columns: usize, own: usize) -> Self {
        let words = rt.words(vec![0.0; columns * (OWN + own * E::WORDS)]);
        NumbersHandle { words, columns, scalar: PhantomData }
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the operand of a task that reads them.
    pub fn read(&self) -> Read<Vec<f64>> {
        read(&self.words)
    }

    /// Returns the operand of a task that updates them.
    pub fn update(&self) -> Update<Vec<f64>> {
        update(&self.words)
    }

    /// Passes the numbers of each column to the host, after all submitted tasks on them.
    ///
    /// # Errors
    /// Errors of those tasks.
    pub fn look<T>(
        &self,
        rt: &dyn Executor,
        mut at: impl FnMut(usize, Numbers<E, &[f64]>) -> T,
    ) -> Result<Vec<T>, Error> {
        let mut seen = Vec::with_capacity(self.columns);
        rt.look(&self.words, &mut |words| {
            seen.extend(columns_of(words, self.columns).enumerate().map(|(c, numbers)| at(c, numbers)));
        })?;
        Ok(seen)
    }

    /// Resumes the columns for which `is_open` is true, and ends the others.
    ///
    /// # Errors
    /// Errors of submitted tasks on the numbers.
    pub fn set_open(&self, rt: &dyn Executor, is_open: impl Fn(usize) -> bool) -> Result<(), Error> {
        let open: Vec<bool> = (0..self.columns).map(is_open).collect();
        self.change(rt, move |c, mut numbers| match open[c] {
            true => numbers.go_on(),
            false => numbers.end(State::Limited),
        })
    }

    /// Changes the numbers of each column, after all submitted tasks on them.
    ///
    /// # Errors
    /// Errors of those tasks.
    pub fn change(
        &self,
        rt: &dyn Executor,
        at: impl Fn(usize, Numbers<E, &mut [f64]>) + Send + Sync + 'static,
    ) -> Result<(), Error> {
        let columns = self.columns;
        let each = move |words: &mut [f64]| {
            columns_of_mut(words, columns).enumerate().for_each(|(c, numbers)| at(c, numbers));
        };
        rt.change(&self.words, Box::new(each))
    }

    /// Returns a second set of numbers, and a graph that copies these numbers to it where they are.
    ///
    /// # Errors
    /// Errors of tasks on them.
    pub(crate) fn copied<'r>(&self, rt: &'r dyn Executor) -> Result<(Self, Replay<'r>), Error> {
        let mut len = 0;
        rt.look(&self.words, &mut |words| len = words.len())?;
        let copy = NumbersHandle { words: rt.words(vec![0.0; len]), ..self.clone() };
        let graph = rt.record(|graph| {
            graph.codelet(CopyNumbers, (self.read(), copy.update())).submit()?;
            Ok(())
        })?;
        Ok((copy, graph))
    }
}

/// Task that copies numbers, on a GPU if they are there.
struct CopyNumbers;

impl CopyNumbers {
    fn cuda(&self, views: GpuViews<'_, CopyOperands>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        gpu::copy_numbers(views, cx)
    }
}

impl Codelet for CopyNumbers {
    type Operands = CopyOperands;

    fn name(&self) -> &'static str {
        "numbers.copy"
    }

    fn cpu(
        &self,
        (from, to): <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        to.copy_from_slice(from);
        Ok(())
    }

    /// Reads nothing that is known at the ends of other tasks.
    fn needs_ends(&self) -> bool {
        false
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        table.add(*CUDA, Self::cuda);
    }
}

/// Returns the numbers of each column, for a task that reads them.
pub(crate) fn columns_of<E: Scalar>(
    words: &[f64],
    columns: usize,
) -> impl ExactSizeIterator<Item = Numbers<E, &[f64]>> {
    words.chunks_exact(words.len() / columns).map(Numbers::new)
}

/// Returns the numbers of each column, for a task that changes them.
pub(crate) fn columns_of_mut<E: Scalar>(
    words: &mut [f64],
    columns: usize,
) -> impl ExactSizeIterator<Item = Numbers<E, &mut [f64]>> {
    words.chunks_exact_mut(words.len() / columns).map(Numbers::new)
}

/// The scalars of a method for one column: its state, and its own scalars, by index.
#[derive(Clone, Copy, Debug)]
pub struct Numbers<E, S>(S, PhantomData<E>);

impl<E: Scalar> Numbers<E, Vec<f64>> {
    /// Returns zeros, with `own` scalars of the method.
    pub fn zeros(own: usize) -> Self {
        Numbers::new(vec![0.0; OWN + own * E::WORDS])
    }
}

impl<E: Scalar, S: Deref<Target = [f64]>> Numbers<E, S> {
    fn new(words: S) -> Self {
        Numbers(words, PhantomData)
    }

    /// Returns the state of the method.
    pub fn state(&self) -> State {
        STATES.get(self.0[STATE] as usize).copied().unwrap_or(State::NotANumber)
    }

    /// Returns true if nothing is left to do: further steps change nothing.
    pub fn is_done(&self) -> bool {
        self.0[STATE] != 0.0
    }

    /// Returns the number of steps made.
    pub fn steps(&self) -> usize {
        self.0[STEPS] as usize
    }

    /// Returns true if a residual norm is small enough.
    pub fn is_reached(&self, norm: f64) -> bool {
        norm <= self.0[GOAL]
    }

    /// Returns the norm of the last residual.
    pub fn residual(&self) -> f64 {
        self.0[RESIDUAL]
    }

    /// Returns the norms of the residuals after step `from` (counted from 0), all of them if they
    /// are not older than 128 steps.
    pub fn residuals_from(&self, from: usize) -> impl Iterator<Item = f64> {
        let from = from.max(self.steps().saturating_sub(REMEMBERED));
        (from..self.steps()).map(move |step| self.0[HISTORY + step % REMEMBERED])
    }

    /// Returns the real part of one of the method's own scalars.
    pub fn real(&self, own: usize) -> E::Real {
        self[own].real()
    }

    /// Notes the digits of that part, of a number that is computed in each step.
    pub fn follow(&self, own: usize, name: &'static str) {
        self.real(own).follow(name);
    }

    /// Returns the value of that part, for decisions.
    pub fn value(&self, own: usize) -> f64 {
        self.real(own).value()
    }
}

impl<E: Scalar, S: DerefMut<Target = [f64]>> Numbers<E, S> {
    /// Begins again: no step has been made.
    pub fn begin(&mut self, goal: f64, limit: usize) {
        self.0.fill(0.0);
        self.0[GOAL] = goal;
        self.0[LIMIT] = limit as f64;
    }

    /// Ends with a state.
    pub fn end(&mut self, state: State) {
        self.0[STATE] = state as u8 as f64;
    }

    /// Resumes a column that has ended.
    pub fn go_on(&mut self) {
        self.0[STATE] = State::Running as u8 as f64;
    }

    /// Sets one of the method's own scalars to a real number.
    pub fn set_real(&mut self, own: usize, real: impl Into<E::Real>) {
        self[own] = E::from_real(real);
    }

    /// Sets several of them.
    pub fn set_reals<const N: usize>(&mut self, reals: [(usize, impl Into<E::Real>); N]) {
        reals.into_iter().for_each(|(own, real)| self.set_real(own, real));
    }

    /// Sets the initial residual norm of the method.
    pub fn first_residual(&mut self, norm: f64) {
        begin(&mut self.0, norm);
    }

    /// Counts a step with the norm of its residual; ends if that is small enough or not finite, or
    /// if it was the last step.
    pub fn step(&mut self, norm: f64) {
        step(&mut self.0, norm);
    }

    /// Counts a partial step as the last one, if its residual is small enough.
    pub fn end_if_reached(&mut self, norm: f64) {
        if self.is_reached(norm) {
            self.step(norm);
        }
    }

    /// Ends the method if a form that should be positive for every vector is not: the operator, or
    /// the preconditioner, is not positive definite. The results so far are kept.
    pub fn end_unless_positive(&mut self, form: f64) {
        if !self.is_done() {
            end_unless_positive(&mut self.0, form);
        }
    }
}

impl<E: Scalar, S: Deref<Target = [f64]>> Index<usize> for Numbers<E, S> {
    type Output = E;

    /// Returns one of the method's own scalars.
    fn index(&self, own: usize) -> &E {
        &E::of_words(&self.0[OWN..])[own]
    }
}

impl<E: Scalar, S: DerefMut<Target = [f64]>> IndexMut<usize> for Numbers<E, S> {
    fn index_mut(&mut self, own: usize) -> &mut E {
        &mut E::of_words_mut(&mut self.0[OWN..])[own]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(goal: f64, limit: usize) -> Numbers<f64, Vec<f64>> {
        let mut numbers = Numbers::zeros(2);
        numbers.begin(goal, limit);
        numbers
    }

    #[test]
    fn ends_are_told_apart() {
        let ended = |goal, limit, norm: f64| {
            let mut numbers = begun(goal, limit);
            numbers.first_residual(1.0);
            assert_eq!(numbers.state(), State::Running);
            numbers.step(norm);
            numbers.state()
        };
        assert_eq!(ended(0.1, 9, 0.05), State::Reached);
        assert_eq!(ended(0.1, 9, 0.5), State::Running);
        assert_eq!(ended(0.1, 1, 0.5), State::Limited);
        assert_eq!(ended(0.1, 1, 0.05), State::Reached);
        assert_eq!(ended(0.1, 9, f64::NAN), State::NotANumber);
        assert_eq!(ended(0.1, 9, f64::INFINITY), State::NotANumber);
    }

    #[test]
    fn residuals_are_remembered() {
        let mut numbers = begun(0.0, 1000);
        let steps = REMEMBERED + 6;
        (1..=steps).for_each(|step| numbers.step(step as f64));
        let last = steps as f64;
        assert_eq!(numbers.residuals_from(steps - 3).collect::<Vec<_>>(), [last - 2.0, last - 1.0, last]);
        assert_eq!(numbers.residuals_from(0).next(), Some(7.0));
        assert_eq!((numbers.steps(), numbers.residual()), (steps, last));
    }

    #[test]
    fn own_scalars_are_apart() {
        let mut numbers = begun(0.0, 9);
        numbers[1] = 5.0;
        numbers.step(2.0);
        assert_eq!((numbers[0], numbers[1], numbers.state()), (0.0, 5.0, State::Running));
    }
}
