//! Sparse systems in files: the library of `zellige solve` and `zellige matrix info`. The solvers
//! are in [`zellige_sparse`].
//!
//! | module | what it holds |
//! |---|---|
//! | [`files`] | vectors in files, residuals as CSV |
//! | [`pipeline`] | several right-hand sides or shifts, and results |
//! | [`report`] | results as pages and text, advice |
//! | [`trust`] | digits of products and solutions that rounding errors leave |
//! | [`tune`] | formats of a solver, for a search of the cheapest ones |
//!
//! ```
//! use zellige_solve::pipeline::results::{SolveResult, Solved};
//! use zellige_sparse::generate::{Flow, flow};
//! use zellige_sparse::krylov::History;
//! use zellige_sparse::system::{Options, solve};
//!
//! let a = flow(&Flow { cells: [4, 4, 4], ..Flow::default() })?;
//! let rt = zellige_runtime::Runtime::builder().workers(1).build()?;
//! let (b, mut x, mut history) = (vec![1.0; a.rows()], vec![0.0; a.rows()], History::default());
//! let answer = solve(&rt, &a, &b, &mut x, &Options::default(), &mut history)?;
//! let solved = Solved { rhs: 1, shift: None, answer, history };
//! let page = zellige_solve::report::of_solved("flow", std::slice::from_ref(&solved));
//! assert!(page.finish().contains("<svg"));
//! assert!(SolveResult::new(&a, false, &solved).converged);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod files;
pub mod pipeline;
pub mod report;
pub mod trust;
pub mod tune;
