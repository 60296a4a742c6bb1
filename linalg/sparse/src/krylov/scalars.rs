//! The numbers that one step of a solver leaves to the next, in a handle of their own: the graph of a step reads and writes them without
//! the host, which looks at them now and then.

use std::ops::{Deref, DerefMut, Index, IndexMut};

/// Where the numbers are that every solver has.
const STATE: usize = 0;
const STEPS: usize = 1;
const GOAL: usize = 2;
const LIMIT: usize = 3;
const RESIDUAL: usize = 4;
const HISTORY: usize = 5;
/// Where a solver's own begin.
const OWN: usize = HISTORY + Scalars::<&[f64]>::REMEMBERED;

/// How a solver stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It has steps to make.
    Running,
    /// The residual that it keeps is within the requested tolerance.
    Reached,
    /// It has made as many steps as it may.
    Limited,
    /// A number that it divides by is zero, or has a sign that it cannot have if the method is the right one.
    BrokenDown,
    /// A number is none.
    NotANumber,
}

const STATES: [State; 5] =
    [State::Running, State::Reached, State::Limited, State::BrokenDown, State::NotANumber];

/// The numbers: `[f64]` behind a reference, borrowed or owned.
#[derive(Clone, Copy, Debug)]
pub struct Scalars<S>(S);

impl Scalars<&[f64]> {
    /// Of how many steps the residuals are kept, for a host that looks that often.
    pub const REMEMBERED: usize = 64;

    /// Numbers for a solver that has `own` ones.
    pub fn zeros(own: usize) -> Vec<f64> {
        vec![0.0; OWN + own]
    }
}

impl<S: Deref<Target = [f64]>> Scalars<S> {
    /// The numbers in a slice that [`zeros`](Scalars::zeros) made.
    pub fn new(numbers: S) -> Self {
        Scalars(numbers)
    }

    /// How the solver stands.
    pub fn state(&self) -> State {
        STATES.get(self.0[STATE] as usize).copied().unwrap_or(State::NotANumber)
    }

    /// True where there is nothing more to do: the tasks of further steps leave everything as it is.
    pub fn is_done(&self) -> bool {
        self.0[STATE] != 0.0
    }

    /// Steps that have been made.
    pub fn steps(&self) -> usize {
        self.0[STEPS] as usize
    }

    /// True for a residual norm that is small enough.
    pub fn is_reached(&self, norm: f64) -> bool {
        norm <= self.0[GOAL]
    }

    /// The norm of the last residual.
    pub fn residual(&self) -> f64 {
        self.0[RESIDUAL]
    }

    /// The norms of the residuals after step `from` (counted from 0): all of them, if they are not older than
    /// [`REMEMBERED`](Scalars::REMEMBERED) steps.
    pub fn residuals_from(&self, from: usize) -> impl Iterator<Item = f64> {
        let remembered = Scalars::<&[f64]>::REMEMBERED;
        let from = from.max(self.steps().saturating_sub(remembered));
        (from..self.steps()).map(move |step| self.0[HISTORY + step % remembered])
    }
}

impl<S: DerefMut<Target = [f64]>> Scalars<S> {
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

    /// Has what has ended run again.
    pub fn go_on(&mut self) {
        self.0[STATE] = State::Running as u8 as f64;
    }

    /// The residual that the solver begins with.
    pub fn first_residual(&mut self, norm: f64) {
        self.0[RESIDUAL] = norm;
        self.judge();
    }

    /// One more step, and the norm of its residual; ends if it is small enough, is no number, or was the last step.
    pub fn step(&mut self, norm: f64) {
        let step = self.steps();
        self.0[HISTORY + step % Scalars::<&[f64]>::REMEMBERED] = norm;
        self.0[STEPS] += 1.0;
        self.0[RESIDUAL] = norm;
        self.judge();
    }

    /// Makes what has been done of a step the last one, if its residual is small enough.
    pub fn end_if_reached(&mut self, norm: f64) {
        if self.is_reached(norm) {
            self.step(norm);
        }
    }

    /// Ends where a form that is positive for every vector is not: the matrix, or the preconditioner, is not positive definite. What is done stays
    /// as it is.
    pub fn end_unless_positive(&mut self, form: f64) {
        if self.is_done() {
            return;
        }
        if !form.is_finite() {
            self.end(State::NotANumber);
        } else if form <= 0.0 {
            self.end(State::BrokenDown);
        }
    }

    fn judge(&mut self) {
        let norm = self.0[RESIDUAL];
        if !norm.is_finite() {
            self.end(State::NotANumber);
        } else if self.is_reached(norm) {
            self.end(State::Reached);
        } else if self.0[STEPS] >= self.0[LIMIT] {
            self.end(State::Limited);
        }
    }
}

impl<S: Deref<Target = [f64]>> Index<usize> for Scalars<S> {
    type Output = f64;

    /// One of the solver's own numbers.
    fn index(&self, own: usize) -> &f64 {
        &self.0[OWN + own]
    }
}

impl<S: DerefMut<Target = [f64]>> IndexMut<usize> for Scalars<S> {
    fn index_mut(&mut self, own: usize) -> &mut f64 {
        &mut self.0[OWN + own]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(goal: f64, limit: usize) -> Scalars<Vec<f64>> {
        let mut scalars = Scalars::new(Scalars::zeros(2));
        scalars.begin(goal, limit);
        scalars
    }

    #[test]
    fn ends_are_told_apart() {
        let ended = |goal, limit, norm: f64| {
            let mut scalars = begun(goal, limit);
            scalars.first_residual(1.0);
            assert_eq!(scalars.state(), State::Running);
            scalars.step(norm);
            scalars.state()
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
        let mut scalars = begun(0.0, 1000);
        (1..=70).for_each(|step| scalars.step(step as f64));
        assert_eq!(scalars.residuals_from(67).collect::<Vec<_>>(), [68.0, 69.0, 70.0]);
        assert_eq!(scalars.residuals_from(0).next(), Some(7.0));
        assert_eq!((scalars.steps(), scalars.residual()), (70, 70.0));
    }

    #[test]
    fn own_numbers_are_apart() {
        let mut scalars = begun(0.0, 9);
        scalars[1] = 5.0;
        scalars.step(2.0);
        assert_eq!((scalars[0], scalars[1], scalars.state()), (0.0, 5.0, State::Running));
    }
}
