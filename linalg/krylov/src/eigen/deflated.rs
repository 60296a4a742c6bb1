//! Methods that begin with the solution in the space of known eigenvectors.

use super::lanczos::EigenPairs;
use crate::error::Error;
use crate::executor::{Executor, Replay};
use crate::inner_solver::{InnerResult, InnerSolver, Limits, MemoryUse, Method, Setting};
use crate::log::Logger;
use crate::numbers::NumbersHandle;
use crate::operator::Operator;
use crate::scalar::Scalar;
use crate::steps::{Steps, Sums};
use crate::vector::MultiVector;
use crate::vector_task::times;

/// A method for a Hermitian operator with known eigenvectors `V` of eigenvalues `L`: each inner
/// solve begins with `d = V L^-1 V^H r`, and the method solves for the rest, `A (x - d) = r - A d`,
/// which has hardly a part in their space.
///
/// The rest of that part grows again relative to the residual while the method converges, since
/// eigenvectors are inexact. [`Solve::reduction`](crate::Solve::reduction) limits a solve between
/// two projections; [`Deflated::reduction`] is one that suits the vectors.
///
/// ```
/// use zellige_files::observe::Silent;
/// use zellige_krylov::{Cg, Deflated, Lanczos, Solve, Space, Stop, from_fn, solve};
/// use zellige_runtime::Runtime;
///
/// let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(300, 0));
/// let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..300).for_each(|i| y[i] = ((i + 1) * (i + 1)) as f64 * x[i]));
/// let pairs = Lanczos::new(8).lowest(&rt, &a, &Silent)?;
/// let stop = Stop::RelativeToRhs(1e-9);
/// let (mut x, mut y) = (vec![0.0; 300], vec![0.0; 300]);
/// let plain = solve(&Solve::new(&rt, &a), &Cg::default(), &[1.0; 300], &mut x, &stop, &mut ())?;
/// let method = Deflated { method: &Cg::default(), exact: &a, pairs: &pairs, shift: 0.0 };
/// let problem = Solve { reduction: method.reduction(), ..Solve::new(&rt, &a) };
/// let deflated = solve(&problem, &method, &[1.0; 300], &mut y, &stop, &mut ())?;
/// assert!(deflated.reason.is_converged() && deflated.steps < plain.steps);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Deflated<'d, E: Scalar = f64> {
    /// Method for the rest.
    pub method: &'d dyn Method<E>,
    /// The operator whose residuals are computed.
    pub exact: &'d dyn Operator<E>,
    /// Eigenvectors, and the eigenvalues of `exact` without the shift.
    pub pairs: &'d EigenPairs<E>,
    /// `exact` is the operator of the eigenvalues plus this number.
    pub shift: f64,
}

/// Least and largest reduction of an inner solve.
const REDUCTIONS: [f64; 2] = [1e-6, 1e-2];

impl<E: Scalar> Deflated<'_, E> {
    /// Returns the factor by which an inner solve should reduce its residual: the part of a
    /// residual in the space of the vectors that a projection leaves, by their accuracy.
    pub fn reduction(&self) -> f64 {
        let EigenPairs { values, residuals, vectors, .. } = self.pairs;
        let of_pair = |(value, residual): (&f64, &f64)| residual / (value + self.shift);
        let left = values.iter().zip(residuals).map(of_pair).fold(vectors.storage().roundoff(), f64::max);
        left.clamp(REDUCTIONS[0], REDUCTIONS[1])
    }
}

impl<E: Scalar> Method<E> for Deflated<'_, E> {
    fn name(&self) -> String {
        format!("{}, {} eigenvectors", self.method.name(), self.pairs.values.len())
    }

    fn takes_columns(&self) -> bool {
        self.method.takes_columns()
    }

    fn prepare<'r>(&'r self, setting: Setting<'r, E>) -> Result<Box<dyn InnerSolver<E> + 'r>, Error> {
        let Setting { rt, columns, .. } = setting;
        let (space, vectors) = (setting.space(), &self.pairs.vectors);
        if vectors.vectors()[0].space() != space {
            let (found, rows) = (vectors.vectors()[0].space().len(), space.len());
            let problem = format!("vectors of {found} numbers for {rows} rows, or cut into other parts");
            return Err(Error::shape("eigenvectors", problem));
        }
        let is_invertible = |value: &f64| value + self.shift > 0.0;
        if let Some(value) = self.pairs.values.iter().find(|value| !is_invertible(value)) {
            let problem = format!("{value:e} + {:e} is not above 0: deflation divides by it", self.shift);
            return Err(Error::unsolvable("eigenvalues", problem));
        }
        let inner = self.method.prepare(setting)?;
        let (r, d, product) = (setting.zeros(), setting.zeros(), setting.zeros());
        let numbers = NumbersHandle::new(rt, columns, self.pairs.values.len());
        let sums = Sums::new(rt, space, columns, self.pairs.values.len());
        let shifted: Vec<f64> = self.pairs.values.iter().map(|value| value + self.shift).collect();
        let begin = rt.record(|graph| {
            let steps = &Steps::new(rt, graph, space, &numbers).with_sums(&sums);
            steps.task("deflation.begin").assign(&d, []).submit()?;
            vectors.project(steps, &r)?;
            steps.update_numbers("deflation.divide", move |sums, s| {
                for (k, (sum, value)) in sums.iter().zip(&shifted).enumerate() {
                    s[k] = *sum / E::from_real(*value);
                }
            })?;
            vectors.add(steps, &d, 0, 1.0)?;
            self.exact.apply(steps, &d, &product)?;
            let rest = [times(1.0, &r), times(-1.0, &product)];
            steps.task("deflation.rest").assign(inner.residual(), rest).submit()
        })?;
        let finish = rt.record(|graph| {
            let steps = Steps::new(rt, graph, space, &numbers);
            steps.task("deflation.finish").add(&d, times(1.0, inner.correction())).submit()
        })?;
        let basis = vectors.bytes() / columns as u64;
        let memory = MemoryUse { basis, ..MemoryUse::vectors::<E>(space, 3) };
        Ok(Box::new(DeflatedSolver { rt, inner, r, d, numbers, begin, finish, memory }))
    }
}

/// A deflated method that is ready for a system.
struct DeflatedSolver<'r, E: Scalar> {
    rt: &'r dyn Executor,
    inner: Box<dyn InnerSolver<E> + 'r>,
    r: MultiVector<E>,
    d: MultiVector<E>,
    numbers: NumbersHandle<E>,
    begin: Replay<'r>,
    finish: Replay<'r>,
    memory: MemoryUse,
}

impl<E: Scalar> InnerSolver<E> for DeflatedSolver<'_, E> {
    fn residual(&self) -> &MultiVector<E> {
        &self.r
    }

    fn correction(&self) -> &MultiVector<E> {
        &self.d
    }

    fn memory(&self) -> MemoryUse {
        self.memory.and(self.inner.memory())
    }

    fn solve(
        &mut self,
        limits: &Limits<'_>,
        logs: &mut [&mut dyn Logger],
    ) -> Result<Vec<InnerResult>, Error> {
        self.numbers.set_open(self.rt, |c| limits.columns[c].is_some())?;
        self.begin.run()?;
        let results = self.inner.solve(limits, logs)?;
        self.finish.run()?;
        Ok(results)
    }
}
