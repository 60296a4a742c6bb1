//! Task graphs over tiles of data on every core and GPU of a machine, each tile in the precision it
//! needs; and linear algebra on it.
//!
//! | module | holds |
//! | --- | --- |
//! | [`runtime`] | tasks, handles, recorded graphs, scheduling policies |
//! | [`cuda`] | GPUs as devices of the runtime |
//! | [`mpi`] | several processes that run one program |
//! | [`sim`] | platform files, and virtual time on them |
//! | [`dense`] | tiled matrices, precision policies, mixed-precision Cholesky factorisations |
//! | [`sparse`] | sparse matrices in adaptive precision, preconditioners, the automatic solver |
//! | [`krylov`] | Krylov methods on vectors and operators, for any scalar and storage |
//! | [`stochastic`] | numbers that carry their rounding errors: exact digits of results, unstable operations |
//! | [`tune`] | search for the cheapest formats that still meet a criterion |
//!
//! Tasks on data:
//!
//! ```
//! use zellige::runtime::{Runtime, Submit, read, update};
//!
//! let rt = Runtime::new()?;
//! let (x, y) = (rt.register(vec![1.0f32; 1000]), rt.register(vec![2.0f32; 1000]));
//! rt.task("axpy").operands((read(&x), update(&y))).cpu(|(x, y)| x.iter().zip(y).for_each(|(x, y)| *y += 3.0 * x)).submit()?;
//! assert_eq!(rt.take(y)?[0], 5.0);
//! # Ok::<(), zellige::runtime::Error>(())
//! ```
//!
//! A dense system, half precision where a rule allows it, refined to float64:
//!
//! ```
//! # let (rt, n) = (zellige::runtime::Runtime::new().expect("a runtime"), 200usize);
//! # let a: Vec<f64> = (0..n * n).map(|at: usize| 1.0 / (1.0 + (at / n).abs_diff(at % n) as f64) + f64::from(at / n == at % n)).collect();
//! # let b = vec![1.0; n];
//! let factor = zellige::dense::Cholesky::factor(&rt, n, &a, "hp1:operand=1e-2")?;
//! let (x, refinement) = factor.refine(&b, 1e-12)?;
//! # assert!(x.len() == n && refinement.residual <= 1e-12);
//! # Ok::<(), zellige::dense::Error>(())
//! ```
//!
//! A sparse system, and one that is known only by what it does:
//!
//! ```
//! use zellige::krylov::{Space, cg, from_fn};
//! use zellige::sparse::{Csr, solve};
//!
//! # let (rt, n) = (zellige::runtime::Runtime::new()?, 100);
//! let a = Csr::from_triplets(2, 2, &[(0, 0, 4.0), (0, 1, 1.0), (1, 0, 1.0), (1, 1, 3.0)])?;
//! let x = solve(&rt, &a, &[1.0, 2.0], 1e-10)?;
//! # assert!((x[0] - 1.0 / 11.0).abs() < 1e-9);
//!
//! let twice = from_fn(&Space::new(n, 0), |x: &[f64], y: &mut [f64]| y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x));
//! let x = cg(&rt, &twice, &vec![1.0; n], 1e-10)?;
//! # assert!((x[9] - 0.5).abs() < 1e-9);
//! # Ok::<(), zellige::krylov::Error>(())
//! ```
//!
//! A difference of nearly equal numbers, with the digits that are left of it:
//!
//! ```
//! use zellige::stochastic::{Category, Scope, Stochastic};
//!
//! let scope = Scope::new(1);
//! let difference = scope.run(|| Stochastic::<f32>::new(100.0) / 3.0 - 33.333f32);
//! assert!((1..=3).contains(&difference.digits()));
//! assert_eq!(scope.report().count(Category::Cancellation), 1); // with its place in the source
//! ```
#![forbid(unsafe_code)]

pub use zellige_cuda as cuda;
pub use zellige_dense as dense;
pub use zellige_krylov as krylov;
pub use zellige_mpi as mpi;
pub use zellige_runtime as runtime;
pub use zellige_sim as sim;
pub use zellige_sparse as sparse;
pub use zellige_stochastic as stochastic;
pub use zellige_tune as tune;
