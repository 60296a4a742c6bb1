//! The Lanczos method with thick restarts and a polynomial filter.

use std::sync::Arc;

use zellige_files::observe::Observer;
use zellige_kernels::RealNumber;

use super::filter::Filter;
use super::subspace::Subspace;
use super::symmetric::eigen;
use crate::error::Error;
use crate::executor::{Executor, Replay};
use crate::numbers::NumbersHandle;
use crate::operator::{Operator, apply_to};
use crate::scalar::Scalar;
use crate::steps::{Steps, Sums};
use crate::storage::Storage;
use crate::vector::MultiVector;
use crate::vector_task::{minus, plus, times};

/// A vector that is left with this fraction of its norm is made orthogonal once more.
const CANCELLED: f64 = 1e-4;
/// Steps that estimate the largest eigenvalue.
const BOUND_STEPS: usize = 20;
/// The estimate is raised by this factor.
const BOUND_MARGIN: f64 = 1.02;
/// Lower end of the first filter's interval, relative to the largest eigenvalue.
const FIRST_LOW: f64 = 0.05;
/// Highest lower end, relative to the largest eigenvalue.
const MOST_LOW: f64 = 0.9;
/// The interval begins higher if the filter does not magnify a wanted eigenvalue by this factor.
const MAGNIFIED: f64 = 1.5;
/// A filter is replaced if its interval could begin below this fraction of its lower end.
const NARROWED: f64 = 0.6;
/// The interval begins above the kept eigenvalues by this factor.
const LOW_MARGIN: f64 = 1.05;
/// Residuals are smaller by this factor before further starting vectors are tried: the vectors are
/// not improved any more.
const MULTIPLE_MARGIN: f64 = 0.25;
/// A vector is in the space of those before it if less than this fraction is orthogonal to them.
const DEPENDENT: f64 = 1e-12;

/// Lanczos method with thick restarts (Wu and Simon 2000), for the lowest eigenvalues of a
/// Hermitian operator that has none below zero. Its operator is a Chebyshev polynomial of the given
/// one, which magnifies what is below an interval; the interval is found from the Ritz values.
///
/// ```
/// use zellige_files::observe::Silent;
/// use zellige_krylov::{Lanczos, Space, from_fn};
/// use zellige_runtime::Runtime;
///
/// let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(200, 0));
/// let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..200).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// let found = Lanczos::new(3).lowest(&rt, &a, &Silent)?;
/// assert!((found.values[2] - 3.0).abs() < 1e-8 && found.residuals[2] < 1e-7);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lanczos {
    /// Number of eigenvalues.
    pub count: usize,
    /// Maximum number of vectors at a time, more than `count`.
    pub basis: usize,
    /// Tolerance: `|A v - lambda v|` relative to the largest eigenvalue, for `v` of norm 1.
    pub tolerance: f64,
    /// Maximum number of restarts.
    pub restarts: usize,
    /// Searches for more copies of multiple eigenvalues from further starting vectors. Otherwise
    /// some may be missing.
    pub multiple: bool,
    /// Seed of the starting vector.
    pub seed: u64,
}

/// Eigenvalues of a Hermitian operator, in ascending order, and their eigenvectors.
#[derive(Clone, Debug)]
pub struct EigenPairs<E: Scalar = f64> {
    /// Eigenvalues: Rayleigh quotients of the vectors before they were stored in fewer bits.
    pub values: Vec<f64>,
    /// Norms `|A v - lambda v|` of these vectors.
    pub residuals: Vec<f64>,
    /// Eigenvectors, orthonormal to the accuracy of their storage.
    pub vectors: Subspace<E>,
    /// Upper bound of the operator's eigenvalues, as it was estimated.
    pub largest: f64,
    /// Number of applications of the operator.
    pub applications: usize,
    /// Number of restarts.
    pub restarts: usize,
}

impl<E: Scalar> EigenPairs<E> {
    /// Returns the pairs with vectors in another storage.
    ///
    /// # Errors
    /// Errors of tasks.
    pub fn stored(self, rt: &dyn Executor, storage: Arc<dyn Storage<E>>) -> Result<Self, Error> {
        Ok(EigenPairs { vectors: self.vectors.stored(rt, storage)?, ..self })
    }
}

impl Lanczos {
    /// Returns the settings for this number of eigenvalues, with a tolerance of 1e-10.
    pub fn new(count: usize) -> Self {
        let basis = 2 * count + 20;
        Lanczos { count, basis, tolerance: 1e-10, restarts: 100, multiple: true, seed: 1 }
    }

    /// Returns true if eigenvalues are the same within the tolerance.
    fn are_same(&self, old: &[f64], new: &[f64], high: f64) -> bool {
        old.iter().zip(new).all(|(old, new)| (old - new).abs() <= self.tolerance * high)
    }

    fn check(&self, rows: usize) -> Result<(), Error> {
        let Lanczos { count, basis, tolerance, restarts, .. } = *self;
        if count == 0 || count >= basis {
            let problem = format!("{count} of at most {basis} vectors: 1 or more, and fewer than vectors");
            return Err(Error::parameter("eigenvalues", problem));
        }
        if basis >= rows {
            let problem = format!(
                "{count} with {basis} vectors for an operator of order {rows}: fewer vectors than that are possible"
            );
            return Err(Error::parameter("eigenvalues", problem));
        }
        if !(tolerance > 0.0 && tolerance.is_finite()) || restarts == 0 {
            let problem = format!("{tolerance} with {restarts} restarts: both have to be above 0");
            return Err(Error::parameter("tolerance", problem));
        }
        Ok(())
    }

    /// Computes the lowest eigenvalues. The observer is told the number of converged ones.
    ///
    /// # Errors
    /// [`Error::Parameter`] for impossible settings; [`Error::Unsolvable`] if the tolerance is not
    /// reached, or for an operator that is not Hermitian or not finite; those of tasks.
    pub fn lowest<E: Scalar>(
        &self,
        rt: &dyn Executor,
        a: &dyn Operator<E>,
        observer: &dyn Observer,
    ) -> Result<EigenPairs<E>, Error> {
        self.check(a.domain().len())?;
        let words = a.domain().bytes(E::WORDS) * (self.basis as u64 + 4);
        Error::if_too_large(|| format!("a basis of {} vectors", self.basis), words)?;
        observer.stage("eigenvalues", self.count as u64);
        let mut run = LanczosRun::new(rt, a, self);
        let high = run.bound()?;
        let mut low = FIRST_LOW * high;
        let mut filter = run.filter(Filter::new(low, high))?;
        let kept = self.count + (self.basis - self.count) / 2;
        let (mut before, mut is_narrowed): (Option<Vec<f64>>, _) = (None, false);
        for restart in 1..=self.restarts {
            run.extend(&filter)?;
            let magnified = run.restart(kept)?[self.count - 1];
            let measured = run.measure(kept)?;
            let wanted = &measured[..self.count];
            let within = |goal: f64| wanted.iter().filter(|(_, residual)| *residual <= goal * high).count();
            observer.advance(within(self.tolerance) as u64);
            let mut values: Vec<f64> = wanted.iter().map(|(value, _)| *value).collect();
            values.sort_by(f64::total_cmp);
            let is_last =
                !self.multiple || before.as_ref().is_some_and(|old| self.are_same(old, &values, high));
            if within(self.tolerance) == self.count && is_last {
                return run.pairs(wanted, high, restart);
            }
            if within(MULTIPLE_MARGIN * self.tolerance) == self.count {
                before = Some(values);
                run.start_anew(self.count)?;
                continue;
            }
            let most = measured.iter().map(|(value, _)| *value).fold(0.0, f64::max);
            let better = match before {
                Some(_) => low,
                None if magnified < MAGNIFIED && !is_narrowed => (2.0 * low).min(MOST_LOW * high),
                None if LOW_MARGIN * most < NARROWED * low => LOW_MARGIN * most,
                None => low,
            };
            if better != low {
                is_narrowed |= better < low;
                low = better;
                filter = run.filter(Filter::new(low, high))?;
                run.start_from_all(kept)?;
            }
        }
        let worst = run.measure(self.count)?.into_iter().map(|(_, residual)| residual).fold(0.0, f64::max);
        let problem = format!(
            "residuals of eigenvalues are up to {worst:.1e} after {} restarts, above {:.1e}: more vectors or restarts, or a larger tolerance",
            self.restarts,
            self.tolerance * high
        );
        Err(Error::unsolvable("eigenvalues", problem))
    }
}

/// Graph of a filter, which filters the first buffer.
struct RecordedFilter<'r> {
    filter: Filter,
    graph: Replay<'r>,
}

/// The method's scalars: a norm and its inverse, and coefficients of the vectors, twice.
const NORM: usize = 0;
const INVERSE: usize = 1;
const COEFFICIENTS: usize = 2;

/// Vectors and projected matrix of a run.
struct LanczosRun<'r, E: Scalar> {
    rt: &'r dyn Executor,
    a: &'r dyn Operator<E>,
    basis: usize,
    /// The basis, and the next vector.
    v: Subspace<E>,
    buffers: [MultiVector<E>; 2],
    product: MultiVector<E>,
    numbers: NumbersHandle<E>,
    sums: Sums<E>,
    /// The filtered operator in the basis, and the number of its columns.
    t: Vec<Vec<f64>>,
    made: usize,
    applications: usize,
    seed: u64,
}

impl<'r, E: Scalar> LanczosRun<'r, E> {
    fn new(rt: &'r dyn Executor, a: &'r dyn Operator<E>, settings: &Lanczos) -> Self {
        let (space, basis) = (a.domain(), settings.basis);
        let zeros = || MultiVector::zeros(rt, space, 1);
        let v = Subspace::new((0..=basis).map(|_| zeros()).collect()).expect("vectors of a kind");
        LanczosRun {
            rt,
            a,
            basis,
            v,
            buffers: [zeros(), zeros()],
            product: zeros(),
            numbers: NumbersHandle::new(rt, 1, COEFFICIENTS + 2 * (basis + 1)),
            sums: Sums::new(rt, space, 1, basis + 1),
            t: vec![vec![0.0; basis]; basis],
            made: 0,
            applications: 0,
            seed: settings.seed,
        }
    }

    /// Records a graph of steps.
    fn record(&self, body: impl FnOnce(&Steps<'_, E>) -> Result<(), Error>) -> Result<Replay<'r>, Error> {
        let space = self.a.domain();
        self.rt.record(|graph| body(&Steps::new(self.rt, graph, space, &self.numbers).with_sums(&self.sums)))
    }

    fn filter(&self, filter: Filter) -> Result<RecordedFilter<'r>, Error> {
        let graph = self.record(|steps| filter.apply(steps, self.a, &self.buffers, &self.product))?;
        Ok(RecordedFilter { filter, graph })
    }

    /// Estimates the largest eigenvalue from above: the largest Ritz value and its residual.
    fn bound(&mut self) -> Result<f64, Error> {
        let filter = self.filter(Filter::NONE)?;
        let (basis, steps) = (self.basis, BOUND_STEPS.min(self.basis));
        self.start_random(0)?;
        self.basis = steps;
        let last = self.extend(&filter)?;
        self.basis = basis;
        let t: Vec<Vec<f64>> = self.t[..steps].iter().map(|row| row[..steps].to_vec()).collect();
        let (values, vectors) = eigen(t);
        let high = BOUND_MARGIN * (values[0] + last * vectors[0][steps - 1].abs());
        if !(high > 0.0 && high.is_finite() && values[steps - 1] > -1e-8 * high) {
            let problem = format!(
                "Ritz values from {:.1e} to {:.1e}: a Hermitian operator without negative eigenvalues is needed",
                values[steps - 1],
                values[0]
            );
            return Err(Error::unsolvable("operator", problem));
        }
        self.clear();
        self.start_random(0)?;
        Ok(high)
    }

    fn clear(&mut self) {
        self.made = 0;
        self.t.iter_mut().for_each(|row| row.fill(0.0));
    }

    /// Makes the filtered products of the basis vectors, until the basis is full. Returns the norm
    /// of the last one's part that is orthogonal to the basis.
    fn extend(&mut self, RecordedFilter { filter, graph }: &RecordedFilter<'r>) -> Result<f64, Error> {
        let result = self.buffers[filter.result()].clone();
        let mut last = 0.0;
        for j in self.made..self.basis {
            let begin = self.record(|steps| {
                steps.task("eigen.begin").copy(&self.buffers[0], &self.v.vectors()[j]).submit()
            })?;
            begin.run()?;
            graph.run()?;
            self.applications += filter.degree;
            let (h, norm) = self.orthogonalise(&result, j + 1)?;
            let size = h.iter().fold(0.0, |most: f64, h| most.max(h.abs()));
            for (i, h) in h.into_iter().enumerate() {
                (self.t[i][j], self.t[j][i]) = (h, h);
            }
            last = norm;
            self.made = j + 1;
            if !(norm + size).is_finite() {
                let problem = format!("product {} of the Lanczos method is not finite", self.applications);
                return Err(Error::unsolvable("operator", problem));
            }
            if norm <= DEPENDENT * size.max(f64::MIN_POSITIVE) {
                // The space is invariant: another vector continues, without coupling.
                last = 0.0;
                self.start_random(j + 1)?;
            } else if norm <= CANCELLED * size {
                // Its rounding errors have become large relative to it.
                let again = self.record(|steps| {
                    steps.task("eigen.again").copy(&self.buffers[0], &self.v.vectors()[j + 1]).submit()
                })?;
                again.run()?;
                self.orthogonalise(&self.buffers[0], j + 1)?;
            }
        }
        Ok(last)
    }

    /// Makes a vector orthogonal to the first `count` of the basis (classical Gram-Schmidt, twice),
    /// and stores it, of norm 1, as the next. Returns its coefficients and its norm.
    fn orthogonalise(&self, w: &MultiVector<E>, count: usize) -> Result<(Vec<f64>, f64), Error> {
        let (v, next) = (self.v.first(count.max(1)), &self.v.vectors()[count]);
        let second = COEFFICIENTS + self.basis + 1;
        let graph = self.record(|steps| {
            for first in [COEFFICIENTS, second].into_iter().filter(|_| count > 0) {
                v.project(steps, w)?;
                steps.update_numbers("eigen.coefficients", move |sums, s| {
                    (0..count).for_each(|k| s[first + k] = sums[k]);
                })?;
                v.add(steps, w, first, -1.0)?;
            }
            steps.task("eigen.norm").dot(w, w, 0).submit()?;
            steps.update_numbers("eigen.norm", |sums, s| {
                let norm = sums[0].real().sqrt();
                s.set_real(NORM, norm);
                s.set_real(INVERSE, if norm.value() > 0.0 { E::Real::from(1.0) / norm } else { norm });
            })?;
            steps.task("eigen.next").assign(next, [plus(INVERSE, w)]).submit()
        })?;
        graph.run()?;
        let seen = self.numbers.look(self.rt, |_, s| {
            let h = (0..count).map(|k| s.value(COEFFICIENTS + k) + s.value(second + k));
            (h.collect::<Vec<f64>>(), s.value(NORM))
        })?;
        Ok(seen.into_iter().next().expect("one column"))
    }

    /// Makes a random vector that is orthogonal to the first `count` the next one.
    fn start_random(&mut self, count: usize) -> Result<(), Error> {
        self.seed = self.seed.wrapping_add(1);
        let random = random::<E>(self.a.domain().len(), self.seed);
        self.buffers[0].set_column(self.rt, 0, &random)?;
        self.orthogonalise(&self.buffers[0], count)?;
        Ok(())
    }

    /// Begins with the sum of the first `count` vectors.
    fn start_from_all(&mut self, count: usize) -> Result<(), Error> {
        self.clear();
        let vectors = self.v.vectors();
        self.record(|steps| {
            let sum = &self.buffers[0];
            steps.task("eigen.start").copy(sum, &vectors[0]).submit()?;
            vectors[1..count]
                .iter()
                .try_for_each(|v| steps.task("eigen.start").add(sum, times(1.0, v)).submit())
        })?
        .run()?;
        self.orthogonalise(&self.buffers[0], 0)?;
        Ok(())
    }

    /// Continues with a random vector after the first `count`.
    fn start_anew(&mut self, count: usize) -> Result<(), Error> {
        self.made = count;
        self.start_random(count)
    }

    /// Keeps the Ritz vectors of the `count` largest filtered eigenvalues, and the next vector.
    /// Returns these eigenvalues.
    fn restart(&mut self, count: usize) -> Result<Vec<f64>, Error> {
        let (mut values, vectors) = eigen(self.t.clone());
        values.truncate(count);
        let kept = Arc::new(vectors[..count].to_vec());
        let (v, next) = (self.v.first(self.basis), self.v.vectors()[self.basis].clone());
        self.record(|steps| {
            v.rotate(steps, &kept)?;
            steps.task("eigen.keep").copy(&self.v.vectors()[count], &next).submit()
        })?
        .run()?;
        self.clear();
        self.made = count;
        values.iter().enumerate().for_each(|(i, value)| self.t[i][i] = *value);
        Ok(values)
    }

    /// Returns the Rayleigh quotient `lambda` of each of the first vectors, and `|A v - lambda v|`.
    fn measure(&mut self, count: usize) -> Result<Vec<(f64, f64)>, Error> {
        let (norm, value, y) = (NORM, INVERSE, &self.product);
        let mut measured = Vec::with_capacity(count);
        for v in &self.v.vectors()[..count] {
            self.record(|steps| {
                apply_to(steps, self.a, v, y, Some(0))?;
                steps.update_numbers("eigen.value", move |sums, s| s.set_real(value, sums[0].real()))?;
                steps
                    .task("eigen.residual")
                    .assign(y, [times(1.0, y), minus(value, v)])
                    .dot(y, y, 0)
                    .submit()?;
                steps.update_numbers("eigen.residual", move |sums, s| s.set_real(norm, sums[0].real().sqrt()))
            })?
            .run()?;
            measured.extend(self.numbers.look(self.rt, |_, s| (s.value(value), s.value(norm)))?);
        }
        self.applications += count;
        Ok(measured)
    }

    /// Returns the first vectors in ascending order of their values.
    fn pairs(&self, measured: &[(f64, f64)], largest: f64, restarts: usize) -> Result<EigenPairs<E>, Error> {
        let mut order: Vec<usize> = (0..measured.len()).collect();
        order.sort_by(|&i, &j| measured[i].0.total_cmp(&measured[j].0));
        let vectors = order.iter().map(|&i| self.v.vectors()[i].clone()).collect();
        let (values, residuals) = order.iter().map(|&i| measured[i]).unzip();
        let vectors = Subspace::new(vectors)?;
        Ok(EigenPairs { values, residuals, vectors, largest, applications: self.applications, restarts })
    }
}

/// Returns numbers whose parts are uniform in [-0.5, 0.5), by the generator `SplitMix64` (Steele,
/// Lea and Flood 2014).
fn random<E: Scalar>(len: usize, seed: u64) -> Vec<E> {
    let mut numbers = vec![E::default(); len];
    let stride = E::WORDS / E::PARTS;
    for (i, word) in E::words_mut(&mut numbers).iter_mut().enumerate().step_by(stride) {
        let mut z = (seed << 40).wrapping_add(i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        *word = ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
    }
    numbers
}
