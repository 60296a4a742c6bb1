//! Scalar formulas of iterative methods as small programs: one text for a CPU task and for a CUDA
//! thread.
//!
//! A method keeps its scalars as words: first those that all methods have, such as the state, then
//! its own.

use crate::RealNumber;

/// Indices of the words that every method has.
pub mod word {
    /// State of the method: one of [`state`](super::state).
    pub const STATE: usize = 0;
    /// Number of completed steps.
    pub const STEPS: usize = 1;
    /// Residual norm at which the method has converged.
    pub const GOAL: usize = 2;
    /// Largest number of steps.
    pub const LIMIT: usize = 3;
    /// Norm of the last residual.
    pub const RESIDUAL: usize = 4;
    /// Residual norms of the last [`REMEMBERED`](super::REMEMBERED) steps.
    pub const HISTORY: usize = 5;
    /// First of the method's own scalars.
    pub const OWN: usize = HISTORY + super::REMEMBERED;
}

/// Number of steps whose residual norms are kept.
pub const REMEMBERED: usize = 128;

/// States of a method.
pub mod state {
    /// The method is running.
    pub const RUNNING: f64 = 0.0;
    /// The residual norm has reached the goal.
    pub const REACHED: f64 = 1.0;
    /// The method has reached the largest number of steps.
    pub const LIMITED: f64 = 2.0;
    /// A number that it divides by is zero, or has the wrong sign.
    pub const BROKEN_DOWN: f64 = 3.0;
    /// A number is infinite or NaN.
    pub const NOT_A_NUMBER: f64 = 4.0;
}

/// Sets the initial residual norm. The method ends if it is small enough or non-finite.
pub fn begin(words: &mut [f64], norm: f64) {
    words[word::RESIDUAL] = norm;
    judge(words);
}

/// Records one more step and its residual norm. The method ends if the norm is small enough or
/// non-finite, or if the step was the last one.
pub fn step(words: &mut [f64], norm: f64) {
    let step = words[word::STEPS] as usize;
    words[word::HISTORY + step % REMEMBERED] = norm;
    words[word::STEPS] += 1.0;
    words[word::RESIDUAL] = norm;
    judge(words);
}

/// Ends the method if a form that must be positive for every vector is not.
pub fn end_unless_positive(words: &mut [f64], form: f64) {
    if !form.is_finite() {
        words[word::STATE] = state::NOT_A_NUMBER;
    } else if form <= 0.0 {
        words[word::STATE] = state::BROKEN_DOWN;
    }
}

fn judge(words: &mut [f64]) {
    let norm = words[word::RESIDUAL];
    if !norm.is_finite() {
        words[word::STATE] = state::NOT_A_NUMBER;
    } else if norm <= words[word::GOAL] {
        words[word::STATE] = state::REACHED;
    } else if words[word::STEPS] >= words[word::LIMIT] {
        words[word::STATE] = state::LIMITED;
    }
}

/// An operation. Its result is the value with the operation's place; operands are the places of
/// earlier ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// A constant.
    Constant(f64),
    /// One of the method's own scalars: [`OWN`](word::OWN) and its number.
    Word(usize),
    /// A sum.
    Sum(usize),
    /// `a + b`.
    Add(usize, usize),
    /// `a - b`.
    Subtract(usize, usize),
    /// `a b`.
    Multiply(usize, usize),
    /// `a / b`.
    Divide(usize, usize),
    /// `-a`.
    Negate(usize),
    /// The square root.
    Root(usize),
    /// The magnitude.
    Magnitude(usize),
    /// 1 where `a <= b`, otherwise 0.
    AtMost(usize, usize),
    /// The second if the first is not 0, otherwise the third.
    Select(usize, usize, usize),
    /// One of the method's own scalars becomes a value.
    Set(usize, usize),
    /// [`begin`] with a norm. The program ends if the method does.
    Begin(usize),
    /// [`step`] with a norm. The program ends if the method does.
    Step(usize),
    /// [`end_unless_positive`]. The program ends if the method does.
    EndUnlessPositive(usize),
}

/// A program.
///
/// ```
/// use zellige_kernels::formulas::{Formulas, Op, word};
///
/// // alpha = rho / (p . q)
/// let mut formulas = Formulas::default();
/// let (rho, pq) = (formulas.push(Op::Word(word::OWN)), formulas.push(Op::Sum(0)));
/// let alpha = formulas.push(Op::Divide(rho, pq));
/// formulas.push(Op::Set(word::OWN + 1, alpha));
/// let mut words = vec![0.0; word::OWN + 2];
/// words[word::OWN] = 3.0;
/// formulas.run(&[2.0], &mut words);
/// assert_eq!(words[word::OWN + 1], 1.5);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Formulas {
    ops: Vec<Op>,
}

impl Formulas {
    /// Adds an operation; its place.
    pub fn push(&mut self, op: Op) -> usize {
        self.ops.push(op);
        self.ops.len() - 1
    }

    /// Returns all operations.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// Runs it on a method's words, of which those of its own scalars are whole numbers.
    ///
    /// # Panics
    /// If operations name places, words or sums that there are not.
    pub fn run<R: RealNumber>(&self, sums: &[R], words: &mut [f64]) {
        const FEW: usize = 64;
        let (state, own) = words.split_at_mut(word::OWN);
        let own = R::of_words_mut(own);
        if self.ops.len() <= FEW {
            self.run_with(sums, state, own, &mut [R::default(); FEW]);
        } else {
            self.run_with(sums, state, own, &mut vec![R::default(); self.ops.len()]);
        }
    }

    fn run_with<R: RealNumber>(&self, sums: &[R], state: &mut [f64], own: &mut [R], values: &mut [R]) {
        for (at, op) in self.ops.iter().enumerate() {
            let value = match *op {
                Op::Constant(value) => value.into(),
                Op::Word(word) => own[word - word::OWN],
                Op::Sum(sum) => sums[sum],
                Op::Add(a, b) => values[a] + values[b],
                Op::Subtract(a, b) => values[a] - values[b],
                Op::Multiply(a, b) => values[a] * values[b],
                Op::Divide(a, b) => values[a] / values[b],
                Op::Negate(a) => -values[a],
                Op::Root(a) => values[a].sqrt(),
                Op::Magnitude(a) => values[a].abs(),
                Op::AtMost(a, b) => f64::from(u8::from(values[a] <= values[b])).into(),
                Op::Select(which, a, b) => values[if values[which].value() != 0.0 { a } else { b }],
                Op::Set(word, a) => {
                    own[word - word::OWN] = values[a];
                    continue;
                }
                Op::Begin(a) => {
                    begin(state, values[a].value());
                    R::default()
                }
                Op::Step(a) => {
                    step(state, values[a].value());
                    R::default()
                }
                Op::EndUnlessPositive(a) => {
                    end_unless_positive(state, values[a].value());
                    R::default()
                }
            };
            let may_end = matches!(op, Op::Begin(_) | Op::Step(_) | Op::EndUnlessPositive(_));
            if may_end && state[word::STATE] != self::state::RUNNING {
                return;
            }
            values[at] = value;
        }
    }
}
