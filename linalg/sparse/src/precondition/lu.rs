//! Complete factors.

use std::sync::Arc;

use faer::MatMut;
use zellige_faer::sparse::{self, CholeskyOrder, FactorError, LuOrder, Pattern, Real};
use zellige_krylov::method::{Steps, joined, unit_scale};
use zellige_krylov::{Error, MultiVector, Operator, Space};
use zellige_runtime::{reads, updates};

use crate::csr::Csr;

/// Complete factorisation: `M` is the matrix, with factors in `f64` or `f32`, computed and solved
/// with by one thread (faer). A symmetric positive definite matrix gets a Cholesky factorisation
/// (after AMD), others `L U` with partial pivoting (after COLAMD).
///
/// With GMRES this is a direct solver with refinement by recomputed residuals; with factors in
/// `f32` it is GMRES-IR (Carson and Higham 2018), in less memory.
#[derive(Debug)]
pub struct Lu {
    space: Space,
    factors: Arc<CompleteFactors>,
    bytes: u64,
}

#[derive(Debug)]
enum CompleteFactors {
    Double(Factorisation<f64>),
    Single(Factorisation<f32>),
}

#[derive(Debug)]
enum Factorisation<T> {
    Cholesky(sparse::SparseCholesky<T>),
    General(sparse::Lu<T>),
}

impl<T: Real> Factorisation<T> {
    fn new(a: &Csr) -> Result<Self, Error> {
        Ok(match is_positive(a).then(|| cholesky(a)).transpose()?.flatten() {
            Some(factor) => Factorisation::Cholesky(factor),
            None => Factorisation::General(lu(a)?),
        })
    }

    /// Bytes of numbers and their rows.
    fn bytes(&self) -> u64 {
        let nonzeros = match self {
            Factorisation::Cholesky(factor) => factor.nonzeros(),
            Factorisation::General(factors) => factors.nonzeros(),
        };
        nonzero::<T>() * nonzeros
    }

    fn solve(&self, x: &mut [T]) {
        let b = MatMut::from_column_major_slice_mut(x, x.len(), 1);
        match self {
            Factorisation::Cholesky(factor) => factor.solve(b),
            Factorisation::General(factors) => factors.solve(b),
        }
    }
}

impl CompleteFactors {
    fn solve(&self, x: &mut [f64]) {
        match self {
            CompleteFactors::Double(factors) => factors.solve(x),
            CompleteFactors::Single(factors) => {
                // The power of two keeps values of any magnitude in range.
                let scale = unit_scale(x);
                let mut narrow: Vec<f32> = x.iter().map(|x| (scale * x) as f32).collect();
                factors.solve(&mut narrow);
                x.iter_mut().zip(narrow).for_each(|(x, narrow)| *x = f64::from(narrow) / scale);
            }
        }
    }
}

/// Bytes of a number of a factor and of its row.
fn nonzero<T>() -> u64 {
    (size_of::<T>() + size_of::<u32>()) as u64
}

impl Lu {
    /// Factors a matrix.
    ///
    /// # Errors
    /// [`Error::Memory`] if the factors would not fit the memory, by an estimate from the pattern
    /// (an upper bound except for matrices with very long rows); [`Error::Unsolvable`] for a matrix
    /// that is singular to the precision of `f64`.
    pub fn new(space: &Space, a: &Csr) -> Result<Lu, Error> {
        Lu::of(space, a, |a| {
            let factors = Factorisation::<f64>::new(a)?;
            Ok((factors.bytes(), CompleteFactors::Double(factors)))
        })
    }

    /// Factors a matrix in `f32`.
    ///
    /// # Errors
    /// Those of [`new`](Lu::new), to the precision of `f32`, also for nonzeros beyond its range.
    pub fn single(space: &Space, a: &Csr) -> Result<Lu, Error> {
        Lu::of(space, a, |a| {
            let factors = Factorisation::<f32>::new(a)?;
            Ok((factors.bytes(), CompleteFactors::Single(factors)))
        })
    }

    fn of(
        space: &Space,
        a: &Csr,
        make: impl FnOnce(&Csr) -> Result<(u64, CompleteFactors), Error>,
    ) -> Result<Lu, Error> {
        let copies = 4 * nonzero::<f64>() * a.nonzeros() as u64 + 64 * a.rows() as u64;
        Error::if_too_large(|| format!("analysing {} nonzeros", a.nonzeros()), copies)?;
        let (bytes, factors) = make(a)?;
        Ok(Lu { space: space.clone(), factors: Arc::new(factors), bytes: bytes + 16 * a.rows() as u64 })
    }
}

fn is_positive(a: &Csr) -> bool {
    (0..a.rows()).all(|i| a.get(i, i) > 0.0) && a.is_symmetric()
}

/// Returns the factor of a symmetric matrix, unless it is not positive definite.
fn cholesky<T: Real>(a: &Csr) -> Result<Option<sparse::SparseCholesky<T>>, Error> {
    // Its rows are its columns.
    let (starts, rows, values) = a.arrays();
    let starts = narrow(starts)?;
    let pattern = Pattern { starts: &starts, rows };
    let order = CholeskyOrder::new(pattern).map_err(|problem| failed(a, problem))?;
    check::<T>("a Cholesky factor", order.nonzeros())?;
    match order.factor(pattern, &rounded::<T>(values)?) {
        Ok(factor) => Ok(Some(factor)),
        Err(FactorError::TooLarge) => Err(failed(a, FactorError::TooLarge)),
        Err(_) => Ok(None),
    }
}

fn lu<T: Real>(a: &Csr) -> Result<sparse::Lu<T>, Error> {
    let transposed = a.transposed();
    let ((starts_t, rows_t, _), (starts, rows, values)) = (a.arrays(), transposed.arrays());
    let (starts_t, starts) = (narrow(starts_t)?, narrow(starts)?);
    let pattern = Pattern { starts: &starts, rows };
    let order = LuOrder::new(pattern, Pattern { starts: &starts_t, rows: rows_t });
    let order = order.map_err(|problem| failed(a, problem))?;
    check::<T>("LU factors", order.nonzeros())?;
    order.factor(pattern, &rounded::<T>(values)?).map_err(|problem| failed(a, problem))
}

/// Nonzeros as factors have them.
fn rounded<T: Real>(values: &[f64]) -> Result<Vec<T>, Error> {
    let rounded: Vec<T> = values.iter().map(|value| T::nearest(*value)).collect();
    match rounded.iter().position(|value| !value.is_number()) {
        None => Ok(rounded),
        Some(at) => {
            let problem = format!("{:e} is beyond the range of float32: take lu", values[at]);
            Err(Error::unsolvable("preconditioner", problem))
        }
    }
}

/// Returns the row starts with 32 bits.
fn narrow(starts: &[usize]) -> Result<Vec<u32>, Error> {
    let problem = |_| Error::shape("matrix", "a matrix of more than 2^32 nonzeros cannot be factored");
    starts.iter().map(|&start| u32::try_from(start).map_err(problem)).collect()
}

/// Refuses factors that do not fit the memory.
fn check<T>(what: &str, nonzeros: u64) -> Result<(), Error> {
    // Arrays grow by half of their size, or more.
    let bytes = (nonzero::<T>() * 3 / 2).saturating_mul(nonzeros);
    Error::if_too_large(|| format!("{what} of up to {nonzeros} nonzeros"), bytes)?;
    match nonzeros > i32::MAX as u64 {
        true => {
            let problem =
                format!("{what} would have up to {nonzeros} nonzeros, and 2^31 at most are possible");
            Err(Error::unsolvable("preconditioner", problem))
        }
        false => Ok(()),
    }
}

fn failed(a: &Csr, problem: FactorError) -> Error {
    let problem = match problem {
        FactorError::Singular { column } => format!(
            "column {} is a linear combination of others, up to rounding: the matrix is singular",
            column + 1
        ),
        FactorError::NotPositive => "the matrix is not positive definite".into(),
        FactorError::TooLarge => format!("factors of {} nonzeros do not fit the memory", a.nonzeros()),
    };
    Error::unsolvable("preconditioner", problem)
}

impl Operator for Lu {
    fn domain(&self) -> &Space {
        &self.space
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn apply(&self, steps: &Steps<'_>, r: &MultiVector, z: &MultiVector) -> Result<(), Error> {
        let (factors, columns) = (Arc::clone(&self.factors), steps.columns());
        steps.one("lu", 0, (reads(r.parts()), updates(z.parts())), move |(r, mut z)| {
            let r = joined(r);
            for c in 0..columns {
                // One column at a time: each has the bits of a single solve.
                let mut x: Vec<f64> = r.iter().skip(c).step_by(columns).copied().collect();
                factors.solve(&mut x);
                let places = z.iter_mut().flat_map(|part| part.iter_mut());
                places.skip(c).step_by(columns).zip(&x).for_each(|(to, from)| *to = *from);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zellige_tests::cases;

    use super::*;
    use crate::direct;
    use crate::generate::{Elasticity, Elements, elasticity};
    use crate::precondition::tests::applied;

    fn differ(x: &[f64], y: &[f64]) -> f64 {
        let size = y.iter().fold(0.0, |most: f64, y| most.max(y.abs()));
        x.iter().zip(y).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max) / size
    }

    /// Returns a matrix without a zero on the diagonal of some permutation, for this seed.
    fn scattered(n: u32, seed: u64) -> Csr {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        };
        let shift = next() % n;
        let mut triplets: Vec<_> =
            (0..n).map(|i| (i, (i * 7 + shift) % n, 1.0 + f64::from(next() % 100))).collect();
        triplets.extend((0..3 * n).map(|_| (next() % n, next() % n, f64::from(next() % 201) / 20.0 - 5.0)));
        Csr::from_triplets(n as usize, n as usize, &triplets).expect("a matrix")
    }

    proptest! {
        #![proptest_config(cases(60))]
        #[test]
        fn scattered_systems_are_solved(n in (1..90u32).prop_filter("7 and n share nothing", |n| n % 7 != 0), seed in any::<u64>()) {
            let a = scattered(n, seed);
            let condition = direct::condition(&a);
            prop_assume!(condition < 1e12);
            let b: Vec<f64> = (0..n).map(|i| f64::from(i % 9) - 3.5).collect();
            let x = applied(&a, |_, space| Lu::new(space, &a), &b).unwrap();
            prop_assert!(differ(&x, &direct::solved(&a, &b)) < 1e-12 * condition);
        }
    }

    #[test]
    fn positive_definite_matrices_have_one_factor() -> Result<(), Error> {
        let a = elasticity(&Elasticity { elements: Elements([4, 3, 5]), ..Elasticity::default() })?;
        let (space, b) = (Space::new(a.rows(), 0), vec![1.0; a.rows()]);
        let lu = Lu::new(&space, &a)?;
        assert!(
            matches!(*lu.factors, CompleteFactors::Double(Factorisation::Cholesky(_)))
                && lu.bytes > a.bytes() / 2
        );
        let narrow = Lu::single(&space, &a)?;
        assert!(
            matches!(*narrow.factors, CompleteFactors::Single(Factorisation::Cholesky(_)))
                && narrow.bytes < lu.bytes
        );
        let x = applied(&a, |_, space| Lu::new(space, &a), &b)?;
        assert!(differ(&x, &direct::solved(&a, &b)) < 1e-12 * direct::condition(&a));
        // Indefinite with a positive diagonal.
        let a = Csr::from_triplets(2, 2, &[(0, 0, 1.0), (0, 1, 2.0), (1, 0, 2.0), (1, 1, 1.0)])?;
        let x = applied(&a, |_, space| Lu::new(space, &a), &[3.0, 3.0])?;
        assert!(differ(&x, &[1.0, 1.0]) < 1e-15);
        Ok(())
    }

    /// Vectors of any size, by factors in `f32`: as accurate as those are. Nonzeros beyond their
    /// range are named.
    #[test]
    fn factors_in_single_precision_are_as_accurate_as_they_are() -> Result<(), Error> {
        let a = scattered(80, 5);
        let condition = direct::condition(&a);
        for size in [1.0, 1e-200, 1e200] {
            let b: Vec<f64> = (0..80).map(|i| size * (f64::from(i % 9) - 3.5)).collect();
            let x = applied(&a, |_, space| Lu::single(space, &a), &b)?;
            let error = differ(&x, &direct::solved(&a, &b));
            assert!(error < 1e-6 * condition && error > 1e-12, "{size:e}: {error:e} for {condition:e}");
        }
        let large = a.map_values(|_, _, value| 1e40 * value);
        let error = Lu::single(&Space::new(80, 0), &large).expect_err("too large").to_string();
        assert!(error.contains("range of float32"), "{error}");
        Ok(())
    }

    #[test]
    fn singular_columns_are_named() -> Result<(), Error> {
        let space = Space::new(3, 0);
        let triplets = [(0, 0, 1.0), (1, 1, 1.0), (2, 2, 0.0), (0, 2, 1.0), (1, 2, 1.0)];
        for a in [Csr::from_triplets(3, 3, &triplets)?, Csr::from_triplets(3, 3, &triplets)?.without_zeros()]
        {
            let error = Lu::new(&space, &a).expect_err("singular").to_string();
            assert!(error.contains("column") && error.contains("singular"), "{error}");
        }
        Ok(())
    }

    /// The fill-in of a few long rows is estimated, not refused.
    #[test]
    fn estimates_are_no_less_than_what_there_is() -> Result<(), Error> {
        for seed in 0..20 {
            let a = scattered(400, seed);
            let transposed = a.transposed();
            let ((starts_t, rows_t, _), (starts, rows, values)) = (a.arrays(), transposed.arrays());
            let (starts_t, starts) = (narrow(starts_t)?, narrow(starts)?);
            let pattern = Pattern { starts: &starts, rows };
            let order = LuOrder::new(pattern, Pattern { starts: &starts_t, rows: rows_t }).expect("an order");
            let most = order.nonzeros();
            let lu = order.factor(pattern, values).expect("factors");
            assert!(lu.nonzeros() <= most && most < 100 * lu.nonzeros(), "{seed}: {} {most}", lu.nonzeros());
        }
        Ok(())
    }
}
