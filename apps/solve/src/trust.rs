//! Digits of products and solutions that rounding errors leave.
//!
//! [`spmv`] and [`solve`] run once with plain numbers, for the time, and once with numbers of
//! several samples. Each of their operations is rounded up or down at random. The digits in which
//! the samples agree are exact, and the same on any number of workers.
//!
//! ```
//! use zellige_solve::trust::{ProductStorage, TrustOptions, spmv};
//! use zellige_sparse::Csr;
//!
//! // The second row cancels.
//! let a = Csr::from_triplets(2, 2, &[(0, 0, 1.0), (0, 1, 2.0), (1, 0, 1e15), (1, 1, -1e15)])?;
//! let rt = zellige_runtime::Runtime::builder().workers(1).build()?;
//! let trust = spmv(&rt, &a, &[0.1, 0.1], ProductStorage::Csr, &TrustOptions::default())?;
//! assert_eq!(trust.maps[0].worst(), Some((0, [1, 0])));
//! assert_eq!(trust.conclusions[0], "0 of 15 digits of y are exact; row 1 has the fewest");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::ops::Range;
use std::time::{Duration, Instant};

use zellige_kernels::RealNumber;
use zellige_sparse::adaptive::{Adaptation, ThesisMatrix, concurrent_map};
use zellige_sparse::krylov::{
    BiCgStab, BlockCg, Cg, Executor, Gmres, Method, Minres, Operator, Scalar, Solution, Solve, Space,
    coefficients, multiply, solve as solve_by,
};
use zellige_sparse::precondition::Jacobi;
use zellige_sparse::system::{Inner, MethodChoice, Options, PreconditionerChoice, ScalingChoice, candidates};
use zellige_sparse::{Csr, Error, Stored};
use zellige_stochastic::{DigitMap, Samples, Scope, Stochastic, WithSamples};
pub use zellige_stochastic::{Trust, TrustOptions};

/// Storage of the matrix of a product.
#[derive(Clone, Copy, Debug)]
pub enum ProductStorage<'a> {
    /// CSR in FP64, row by row from left to right.
    Csr,
    /// The layout of the thesis: a CSR matrix for each format.
    Thesis(Adaptation<'a>),
    /// Tiles of blocks of this size, 1 to 4, as solvers use them.
    Tiled(usize, Adaptation<'a>),
}

/// Judges the digits of `y = A x`, with one map `y`.
///
/// # Errors
/// [`Error::Parameter`] for a number of samples that there is not; [`Error::Shape`] for a vector of
/// another length; those of the storage.
pub fn spmv(
    rt: &dyn Executor,
    a: &Csr,
    x: &[f64],
    storage: ProductStorage<'_>,
    options: &TrustOptions,
) -> Result<Trust, Error> {
    check(options)?;
    if x.len() != a.columns() {
        let problem = format!("{} elements for {} columns", x.len(), a.columns());
        return Err(Error::Shape { what: "vector", problem });
    }
    let matrix = match storage {
        ProductStorage::Csr => Multiplied::Csr(a),
        ProductStorage::Thesis(adaptation) => Multiplied::Thesis(ThesisMatrix::new(a, &adaptation)?),
        ProductStorage::Tiled(block_size, adaptation) => {
            let (rows, columns) = (Space::new(a.rows(), a.bytes()), Space::new(a.columns(), a.bytes()));
            Multiplied::Tiled(Stored::between(rt, &rows, &columns, a, block_size, &adaptation)?)
        }
    };
    let product = ProductRun { rt, a, matrix: &matrix, x };
    let (_, plain) = product.run::<f64>(None)?;
    options.dispatch(JudgedProduct { product, options: *options, plain })
}

/// Judges the digits of the solution of `A x = b` from zero: maps `x`, and `alpha of CG` and `beta
/// of CG` by step for conjugate gradients.
///
/// The system is solved as it is given, neither scaled nor reordered, by the method of the options,
/// or by the first that the matrix suggests. Preconditioners are none and Jacobi, which `auto` is.
///
/// # Errors
/// [`Error::Parameter`] for options that stochastic numbers are not solved with; those of
/// [`zellige_sparse::krylov::solve`].
pub fn solve(
    rt: &dyn Executor,
    a: &Csr,
    b: &[f64],
    solver: &Options,
    options: &TrustOptions,
) -> Result<Trust, Error> {
    check(options)?;
    check_solver(solver)?;
    let (method, _) = candidates(a, solver)[0];
    let space = Space::new(a.rows(), a.bytes());
    let exact = Stored::exact(rt, &space, a)?;
    let adaptation = solver.inner.adaptation(&[]);
    let block_size = solver.inner.block_size().unwrap_or_else(|| a.block_size());
    let narrow = solver.inner != Inner::Exact;
    let inner = narrow.then(|| Stored::new(rt, &space, a, block_size, &adaptation)).transpose()?;
    let system = SystemRun { rt, a, b, exact: &exact, inner: inner.as_ref(), method, solver };
    let (_, _, plain) = system.run::<f64>()?;
    options.dispatch(JudgedSystem { system, options: *options, plain })
}

fn parameter<T>(name: &'static str, problem: &str) -> Result<T, Error> {
    Err(Error::Parameter { name, problem: problem.to_owned() })
}

fn check(options: &TrustOptions) -> Result<(), Error> {
    match options.samples {
        3 | 8 | 16 => Ok(()),
        other => parameter("samples", &format!("{other}: 3, 8 or 16 are possible")),
    }
}

fn check_solver(solver: &Options) -> Result<(), Error> {
    use PreconditionerChoice::{Auto, Jacobi, None};
    if !matches!(solver.preconditioner, Auto | None | Jacobi) {
        return parameter("precond", "stochastic numbers are solved with none or jacobi");
    }
    if !solver.relaxed.is_empty() || solver.reliable.is_some() {
        return parameter("method", "stochastic numbers are solved without relaxed or reliable products");
    }
    if solver.reorder || solver.without_constant || solver.scaling != ScalingChoice::default() {
        return parameter("scaling", "the digits are those of the system as it is given");
    }
    if solver.inner.is_for_vector() || matches!(solver.inner, Inner::Auto { .. }) {
        return parameter("inner", "name the copy's formats: products are repeated with it");
    }
    Ok(())
}

/// A stored matrix.
enum Multiplied<'a> {
    Csr(&'a Csr),
    Thesis(ThesisMatrix),
    Tiled(Stored),
}

/// A product, with numbers of any type.
#[derive(Clone, Copy)]
struct ProductRun<'a> {
    rt: &'a dyn Executor,
    a: &'a Csr,
    matrix: &'a Multiplied<'a>,
    x: &'a [f64],
}

impl ProductRun<'_> {
    /// Multiplies, in a scope if there is one.
    fn run<R: RealNumber + Scalar<Real = R>>(
        &self,
        scope: Option<&Scope>,
    ) -> Result<(Vec<R>, Duration), Error> {
        let x: Vec<R> = self.x.iter().map(|&x| R::from(x)).collect();
        let begun = Instant::now();
        let y = match self.matrix {
            Multiplied::Csr(a) => self.by_rows(scope, |rows, y| a.multiply_rows(rows, &x, y)),
            Multiplied::Thesis(a) => self.by_rows(scope, |rows, y| a.multiply_rows(rows, &x, y)),
            Multiplied::Tiled(a) => within(scope, || multiply(self.rt, a, &x))?,
        };
        Ok((y, begun.elapsed()))
    }

    /// Computes rows on as many threads as there are workers.
    fn by_rows<R: RealNumber>(
        &self,
        scope: Option<&Scope>,
        multiply: impl Fn(Range<usize>, &mut [R]) + Sync,
    ) -> Vec<R> {
        let mut y = vec![R::default(); self.a.rows()];
        let workers = self.rt.runtime().workers().max(1);
        let mut rest = &mut y[..];
        let mut parts = Vec::with_capacity(workers);
        for rows in self.a.even_rows(workers) {
            let (part, others) = std::mem::take(&mut rest).split_at_mut(rows.len());
            rest = others;
            parts.push((rows, part));
        }
        concurrent_map(workers, parts.into_iter(), |(rows, part)| within(scope, || multiply(rows, part)));
        y
    }
}

/// Runs `f` in a scope, if there is one.
fn within<T>(scope: Option<&Scope>, f: impl FnOnce() -> T) -> T {
    match scope {
        Some(scope) => scope.run(f),
        None => f(),
    }
}

struct JudgedProduct<'a> {
    product: ProductRun<'a>,
    options: TrustOptions,
    plain: Duration,
}

impl WithSamples for JudgedProduct<'_> {
    type Output = Result<Trust, Error>;

    fn run<S: Samples>(self) -> Result<Trust, Error> {
        let scope = Scope::new(self.options.seed);
        let (y, time) = self.product.run::<Stochastic<f64, S>>(Some(&scope))?;
        let map = DigitMap::of_vector("y", "row", &y);
        let conclusions = vec![sentence(&map)];
        Ok(Trust { conclusions, ..trust(&self.options, &scope, vec![map], [self.plain, time]) })
    }
}

/// A system and its method, with numbers of any type.
#[derive(Clone, Copy)]
struct SystemRun<'a> {
    rt: &'a dyn Executor,
    a: &'a Csr,
    b: &'a [f64],
    exact: &'a Stored,
    /// A narrower copy for the products of the method.
    inner: Option<&'a Stored>,
    method: MethodChoice,
    solver: &'a Options,
}

impl SystemRun<'_> {
    fn run<E: Scalar>(&self) -> Result<(Vec<E>, Solution, Duration), Error> {
        let SystemRun { rt, a, exact, solver, .. } = *self;
        let space = Space::new(a.rows(), a.bytes());
        let jacobi = match (solver.preconditioner, self.method) {
            (PreconditionerChoice::None, _) => None,
            (_, MethodChoice::Minres) => Some(Jacobi::<E>::absolute(rt, &space, a)?),
            _ => Some(Jacobi::<E>::new(rt, &space, a)?),
        };
        let problem = Solve {
            rt,
            exact,
            inner: self.inner.unwrap_or(exact),
            preconditioner: jacobi.as_ref().map(|jacobi| jacobi as &dyn Operator<E>),
            reduction: if self.inner.is_some() { solver.inner.accuracy() } else { 0.0 },
        };
        let b: Vec<E> = self.b.iter().map(|&b| E::from_real(b)).collect();
        let mut x = vec![E::default(); a.columns()];
        let begun = Instant::now();
        let solution = solve_by(&problem, &*self.method(), &b, &mut x, &solver.stop[..], &mut ())?;
        Ok((x, solution, begun.elapsed()))
    }

    fn method<E: Scalar>(&self) -> Box<dyn Method<E>> {
        match self.method {
            MethodChoice::Auto => unreachable!("candidates are not automatic"),
            MethodChoice::Cg => Box::new(Cg { flexible: false }),
            MethodChoice::Fcg => Box::new(Cg { flexible: true }),
            MethodChoice::BlockCg => Box::new(BlockCg),
            MethodChoice::Minres => Box::new(Minres),
            MethodChoice::BiCgStab { l } => Box::new(BiCgStab { l }),
            MethodChoice::Gmres { restart, flexible } => {
                let Options { basis, orthogonalisation, .. } = *self.solver;
                Box::new(Gmres { restart, flexible, basis, orthogonalisation })
            }
        }
    }
}

struct JudgedSystem<'a> {
    system: SystemRun<'a>,
    options: TrustOptions,
    plain: Duration,
}

impl WithSamples for JudgedSystem<'_> {
    type Output = Result<Trust, Error>;

    fn run<S: Samples>(self) -> Result<Trust, Error> {
        let scope = Scope::new(self.options.seed).on_rank(self.system.rt.rank());
        let (x, solution, time) = scope.run(|| self.system.run::<Stochastic<f64, S>>())?;
        let map = DigitMap::of_vector("x", "row", &x);
        let (mut maps, mut conclusions) = (vec![map], Vec::new());
        conclusions.push(sentence(&maps[0]));
        let (of_method, lost) = coefficients(&scope.take_followed(), &self.system.method::<f64>().name());
        maps.extend(of_method);
        conclusions.extend(lost);
        // Digits of what is no solution come after that.
        let converged = solution.reason.is_converged();
        let at = if converged { conclusions.len() } else { 0 };
        conclusions.insert(at, solution.beside_digits());
        let trust = trust(&self.options, &scope, maps, [self.plain, time]);
        Ok(Trust { converged: Some(converged), conclusions, ..trust })
    }
}

fn sentence(map: &DigitMap) -> String {
    let DigitMap { name, unit, all, .. } = map;
    match map.worst() {
        None => format!("{name} has no {unit}"),
        Some((digits, _)) if digits == *all => format!("all {all} digits of {name} are exact"),
        Some((digits, [row, _])) => {
            format!("{digits} of {all} digits of {name} are exact; {unit} {row} has the fewest")
        }
    }
}

/// Digits of results without conclusions.
fn trust(
    options: &TrustOptions,
    scope: &Scope,
    maps: Vec<DigitMap>,
    [plain, stochastic]: [Duration; 2],
) -> Trust {
    Trust {
        samples: options.samples,
        seed: options.seed,
        maps,
        converged: None,
        instabilities: scope.report(),
        conclusions: Vec::new(),
        plain_seconds: Some(plain.as_secs_f64()),
        seconds: stochastic.as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use zellige_runtime::Runtime;
    use zellige_sparse::adaptive::{Criterion, FormatSet};
    use zellige_sparse::generate::{Flow, Transport, flow, transport};
    use zellige_sparse::krylov::Stop;

    use super::*;

    /// Everything but times.
    fn without_times(trust: Trust) -> Trust {
        Trust { plain_seconds: None, seconds: 0.0, ..trust }
    }

    fn on_one_and_two(judge: impl Fn(&Runtime) -> Result<Trust, Error>) -> Result<Trust, Error> {
        let on = |workers| judge(&Runtime::builder().workers(workers).build()?).map(without_times);
        let (one, two) = (on(1)?, on(2)?);
        assert_eq!(one, two);
        Ok(one)
    }

    #[test]
    fn digits_of_products_are_the_same_on_any_workers() -> Result<(), Error> {
        let a = flow(&Flow { cells: [10, 9, 8], spread: 0.5, ..Flow::default() })?;
        let x: Vec<f64> = (0..a.columns()).map(|i| (i as f64 * 0.7).sin()).collect();
        let narrow = Adaptation::new(FormatSet::Ap7, Criterion::Normwise, "2^-24".parse()?);
        let storages = [
            ProductStorage::Csr,
            ProductStorage::Thesis(narrow),
            ProductStorage::Tiled(1, narrow),
            ProductStorage::Tiled(2, Adaptation::double()),
        ];
        for storage in storages {
            let options = TrustOptions { samples: 8, seed: 5 };
            let trust = on_one_and_two(|rt| spmv(rt, &a, &x, storage, &options))?;
            let median = trust.maps[0].median();
            assert!(median.is_some_and(|digits| digits >= 13), "{storage:?}: {median:?}");
            assert_eq!(trust.maps[0].shape, [a.rows(), 1]);
        }
        Ok(())
    }

    #[test]
    fn digits_of_solutions_are_the_same_on_any_workers() -> Result<(), Error> {
        let a = flow(&Flow { cells: [8, 8, 8], spread: 0.5, ..Flow::default() })?;
        let stop = vec![Stop::RelativeToRhs(1e-6), Stop::Steps(60)];
        let (b, solver) = (vec![1.0; a.rows()], Options { stop, ..Options::default() });
        let trust = on_one_and_two(|rt| solve(rt, &a, &b, &solver, &TrustOptions { samples: 3, seed: 2 }))?;
        let names: Vec<&str> = trust.maps.iter().map(|map| &*map.name).collect();
        assert_eq!(names, ["x", "alpha of CG", "beta of CG"]);
        let of_x = |one: &String| one.contains("digits of x are exact");
        assert!(trust.conclusions.iter().any(of_x), "{:?}", trust.conclusions);
        let a = transport(&Transport {
            flow: Flow { cells: [8; 3], ..Flow::default() },
            ..Transport::default()
        })?;
        let of = ["alpha", "beta", "omega", "rho"].map(|name| format!("{name} of BICGSTAB(2)"));
        let of_gmres =
            ["the residual estimate", "the subdiagonal of H"].map(|name| format!("{name} of GMRES(20)"));
        for (method, names) in [("bicgstabl:2", &of[..]), ("gmres:20", &of_gmres)] {
            let solver = Options { method: method.parse()?, ..solver.clone() };
            let trust =
                on_one_and_two(|rt| solve(rt, &a, &vec![1.0; a.rows()], &solver, &TrustOptions::default()))?;
            assert_eq!(
                trust.maps[1..].iter().map(|map| &map.name).collect::<Vec<_>>(),
                names.iter().collect::<Vec<_>>()
            );
            assert!(trust.maps[1..].iter().all(|map| map.digits[0] >= 10 && map.shape[0] > 3));
        }
        Ok(())
    }

    /// Conjugate gradients that go on beyond what their digits allow.
    #[test]
    fn lost_coefficients_are_named() -> Result<(), Error> {
        let n = 60;
        let diagonal: Vec<_> =
            (0..n).map(|i| (i, i, 10f64.powf(f64::from(i) * 8.0 / f64::from(n)))).collect();
        let a = Csr::from_triplets(n as usize, n as usize, &diagonal)?;
        let rt = Runtime::builder().workers(1).build()?;
        let solver = Options {
            method: MethodChoice::Cg,
            preconditioner: PreconditionerChoice::None,
            stop: vec![Stop::RelativeToRhs(1e-15), Stop::Steps(400)],
            ..Options::default()
        };
        let trust = solve(&rt, &a, &vec![1.0; n as usize], &solver, &TrustOptions::default())?;
        let alpha = trust.maps[1].digits.clone();
        assert!(alpha[0] >= 13 && alpha.contains(&0), "{alpha:?}");
        let lost = |said: &String| said.starts_with("alpha of CG has no exact digit from step ");
        let is_lost = trust.conclusions.iter().any(lost);
        assert_eq!(is_lost, alpha.last() == Some(&0), "{:?}", trust.conclusions);
        Ok(())
    }

    #[test]
    fn what_cannot_be_judged_is_refused() -> Result<(), Error> {
        let rt = Runtime::builder().workers(1).build()?;
        let a = Csr::from_triplets(1, 1, &[(0, 0, 2.0)])?;
        let wrong = TrustOptions { samples: 5, seed: 0 };
        assert!(spmv(&rt, &a, &[1.0], ProductStorage::Csr, &wrong).is_err());
        assert!(spmv(&rt, &a, &[1.0, 2.0], ProductStorage::Csr, &TrustOptions::default()).is_err());
        let solver = Options { preconditioner: PreconditionerChoice::Amg, ..Options::default() };
        assert!(solve(&rt, &a, &[1.0], &solver, &TrustOptions::default()).is_err());
        Ok(())
    }
}
