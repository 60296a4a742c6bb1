//! Krylov methods for linear systems, written once: for real and complex numbers, any storage of vectors, one or several columns.
//!
//! [`solve`] computes the true residual `r = b - A x` with the exact operator, has a [`Method`] solve `A d = r` as well as its operator and its
//! limits allow, adds `d` to `x`, and goes on until the *true* residual is small enough. That one loop is restarted GMRES, iterative
//! refinement around any method (Carson and Higham 2018), and the check that every answer gets.
//!
//! | to | see |
//! |---|---|
//! | say what is solved | [`Operator`], [`from_fn`], [`Shifted`], [`Combination`], [`Product`], [`Adjoint`], [`Solve`] |
//! | say how | [`Method`], [`Cg`], [`ReliableUpdates`], [`Minres`], [`Gmres`], [`RelaxedGmres`], [`BiCgStab`] |
//! | solve for several right-hand sides, or several shifts at once | [`solve_columns`], [`solve_shifted`], [`solve_shifts`] |
//! | say when to stop | [`StoppingCriterion`], [`Stop`] |
//! | watch | [`Logger`], [`History`] |
//! | store vectors in fewer bits | [`MultiVector`], [`Storage`], [`Packed`] |
//! | write a method or an operator | [`Steps`], [`VectorTask`], [`Sums`], [`Formulas`], [`Numbers`], [`rounds`] |
//!
//! Vectors are cut into parts ([`Space`]), one task works on one part. Sums of products are made in one order: results have the same bits on any number of
//! workers, and a column of several has the bits that it has alone.
//!
//! ```
//! use num_complex::Complex;
//! use zellige_krylov::{Minres, Solve, Space, Stop, from_fn, solve};
//! use zellige_runtime::Runtime;
//!
//! // Hermitian and indefinite: i above the diagonal, -i below it, alternating signs on it.
//! let (rt, n) = (Runtime::new()?, 400);
//! let space = Space::new(n, 0);
//! let i_times = |z: Complex<f64>| Complex::new(-z.im, z.re);
//! let a = from_fn(&space, move |x: &[Complex<f64>], y: &mut [Complex<f64>]| {
//!     for i in 0..x.len() {
//!         let sign = if i % 2 == 0 { 3.0 } else { -3.0 };
//!         y[i] = x[i] * sign;
//!         if i + 1 < x.len() {
//!             y[i] += i_times(x[i + 1]);
//!         }
//!         if i > 0 {
//!             y[i] -= i_times(x[i - 1]);
//!         }
//!     }
//! });
//! let b = vec![Complex::new(1.0, -1.0); n];
//! let mut x = vec![Complex::default(); n];
//! let solution = solve(&Solve::new(&rt, &a), &Minres, &b, &mut x, &Stop::RelativeToRhs(1e-10), &mut ())?;
//! assert!(solution.reason.is_converged());
//! # Ok::<(), zellige_krylov::Error>(())
//! ```
#![deny(unsafe_code)]
#![deny(missing_docs)]

mod bicgstab;
mod cg;
mod composed;
mod error;
mod formulas;
mod gmres;
mod gpu;
pub mod grains;
mod log;
mod minres;
mod multishift;
mod numbers;
mod operator;
mod reliable;
pub mod rounds;
mod scalar;
mod shifted;
mod solve;
mod space;
mod steps;
mod stop;
mod storage;
mod vector;
mod vector_task;

pub use bicgstab::BiCgStab;
pub use cg::Cg;
pub use composed::{Adjoint, Combination, Product};
pub use error::Error;
pub use formulas::{Formulas, Value};
pub use gmres::{Gmres, Orthogonalisation, RelaxedGmres};
pub use log::{History, Logger, Onwards, Rescaled};
pub use minres::Minres;
pub use multishift::{Refinement, ShiftedSolutions, solve_shifted, solve_shifted_with, solve_shifts};
pub use numbers::{Numbers, NumbersHandle, REMEMBERED, State};
pub use operator::{FromFn, Operator, Workspace, apply_to, from_fn, multiply};
pub use reliable::{Estimated, Reliable, ReliableUpdates, Stabilisation, Trigger, Updatable, Updates};
pub use scalar::Scalar;
pub use shifted::Shifted;
pub use solve::{Reason, Solution, Solve, cg, solve, solve_columns};
pub use space::{GRAIN, MOST_PARTS, Space, joined};
pub use steps::{Gated, Steps, Sums, are_done};
pub use stop::{Progress, Stop, StoppingCriterion};
pub use storage::{Packed, Plain, Storage};
pub use vector::MultiVector;
pub use vector_task::{Coefficient, Term, VectorTask, minus, plus, times};

use std::sync::Arc;

use zellige_runtime::Runtime;

use rounds::{Ended, Limits};

/// What a method is made ready for.
#[derive(Clone, Copy)]
pub struct Setting<'r, E: Scalar> {
    /// Runs the tasks.
    pub rt: &'r Runtime,
    /// What it multiplies with.
    pub a: &'r dyn Operator<E>,
    /// The preconditioner, `z = M^-1 r`.
    pub m: Option<&'r dyn Operator<E>>,
    /// How many columns it solves for at once.
    pub columns: usize,
}

impl<E: Scalar> Setting<'_, E> {
    /// Where vectors are cut.
    pub fn space(&self) -> &Space {
        self.a.domain()
    }

    /// A vector of zeros in this storage.
    pub fn stored(&self, storage: &Arc<dyn Storage<E>>) -> MultiVector<E> {
        MultiVector::stored(self.rt, self.space(), self.columns, Arc::clone(storage))
    }

    /// A vector of zeros in float64.
    pub fn zeros(&self) -> MultiVector<E> {
        MultiVector::zeros(self.rt, self.space(), self.columns)
    }
}

/// A Krylov method.
pub trait Method<E: Scalar = f64> {
    /// As options name it.
    fn name(&self) -> String;

    /// True if it solves for several columns at once.
    fn takes_columns(&self) -> bool {
        true
    }

    /// Makes its vectors and records its graphs for a system; some of them when they are first needed.
    ///
    /// # Errors
    /// [`Error::Parameter`] for an operator, a preconditioner or a number of columns that it cannot use; those of submission.
    fn prepare<'r>(&'r self, setting: Setting<'r, E>) -> Result<Box<dyn Correction<E> + 'r>, Error>;
}

/// Bytes of the vectors that solving keeps for each column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// The basis of the Krylov space, as it is stored.
    pub basis: u64,
    /// All others.
    pub vectors: u64,
}

impl Kept {
    /// So many vectors of a space in float64, and no basis.
    pub fn vectors<E: Scalar>(space: &Space, count: usize) -> Kept {
        Kept { basis: 0, vectors: space.bytes(count * E::WORDS) }
    }

    /// Both.
    #[must_use]
    pub fn and(self, other: Kept) -> Kept {
        Kept { basis: self.basis + other.basis, vectors: self.vectors + other.vectors }
    }
}

/// A method that is ready to solve `A d = r`.
pub trait Correction<E: Scalar = f64> {
    /// `r`: written by the caller before each run, and overwritten by it.
    fn residual(&self) -> &MultiVector<E>;

    /// `d`: what the last run has found.
    fn correction(&self) -> &MultiVector<E>;

    /// What its vectors take.
    fn kept(&self) -> Kept;

    /// Solves, from `d = 0`, until each column that has a limit has met one; a method that restarts comes back then. The correction of other columns
    /// means nothing.
    ///
    /// # Errors
    /// What went wrong in a task.
    fn run(&mut self, limits: &Limits<'_>, logs: &mut [&mut dyn Logger]) -> Result<Vec<Ended>, Error>;
}
