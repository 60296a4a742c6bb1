//! Krylov methods for linear systems: one implementation for real and complex numbers, any storage
//! of vectors, one or several columns.
//!
//! [`solve`] computes the recomputed residual `r = b - A x` with the exact operator. A [`Method`]
//! then solves `A d = r` as accurately as its operator and its limits allow, and `d` is added to
//! `x`. The loop continues until the *recomputed* residual is small enough. This one loop is
//! restarted GMRES, iterative refinement around any method (Carson and Higham 2018), and the check
//! that every answer gets.
//!
//! | task | items |
//! |---|---|
//! | define the system | [`Operator`], [`from_fn`], [`Shifted`], [`Combination`], [`Product`], [`Adjoint`], [`Solve`] |
//! | choose the method | [`Method`], [`Cg`], [`BlockCg`], [`ReliableUpdates`], [`Minres`], [`Gmres`], [`RelaxedGmres`], [`BiCgStab`] |
//! | solve for several right-hand sides, or several shifts at once | [`solve_columns`], [`solve_shifted`], [`solve_shifts`] |
//! | solve least-squares problems | [`LeastSquares`], [`least_squares`] |
//! | compute the lowest eigenvalues, and use them | [`Lanczos`], [`EigenPairs`], [`Deflated`] |
//! | define when to stop | [`StoppingCriterion`], [`Stop`] |
//! | monitor | [`Logger`], [`History`] |
//! | know how many digits rounding leaves | vectors of [`Stochastic`](zellige_stochastic::Stochastic), solved for in a scope |
//! | store vectors in fewer bits | [`MultiVector`], [`Storage`], [`Packed`] |
//! | write a method or an operator | [`method`] |
//!
//! Vectors are cut into parts ([`Space`]); one task works on one part. Sums of products are
//! computed in a fixed order. So results are bitwise identical for any number of workers, and a
//! column of several has the bits of a single solve.
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

mod accumulator;
mod beta;
mod bicgstab;
mod block;
mod buffer;
mod cg;
mod composed;
mod digits;
mod eigen;
mod error;
mod executor;
mod formulas;
mod gmres;
mod gpu;
mod inner_solver;
mod iteration;
mod log;
mod lsmr;
pub mod method;
mod minres;
mod multishift;
mod numbers;
mod operator;
mod reduction;
mod reliable;
mod scalar;
mod shifted;
mod solve;
mod space;
mod steps;
mod stop;
mod storage;
mod task_scope;
mod vector;
mod vector_task;

pub use bicgstab::BiCgStab;
pub use block::BlockCg;
pub use cg::Cg;
pub use composed::{Adjoint, Combination, Product};
pub use digits::coefficients;
pub use eigen::{Deflated, EigenPairs, Lanczos, Subspace};
pub use error::Error;
pub use executor::{Executor, Replay};
pub use gmres::{Gmres, Orthogonalisation, RelaxedGmres};
pub use inner_solver::Method;
pub use log::{History, Logger};
pub use lsmr::{LeastSquares, LeastSquaresSolution, least_squares};
pub use minres::Minres;
pub use multishift::{Refinement, ShiftedSolutions, solve_shifted, solve_shifted_with, solve_shifts};
pub use operator::{FromFn, Operator, from_fn, from_fn_between, multiply};
pub use reliable::{ReliableUpdates, Stabilisation, Trigger, Updates};
pub use scalar::Scalar;
pub use shifted::Shifted;
pub use solve::{Reason, Solution, Solve, cg, solve, solve_columns};
pub use space::Space;
pub use stop::{Progress, Stop, StoppingCriterion};
pub use storage::{Packed, Plain, Storage};
pub use vector::MultiVector;
