//! Operators that are made of others, against dense matrices.

use num_complex::Complex;
use zellige_krylov::{
    Adjoint, Combination, Error, FromFn, Operator, Product, Shifted, Space, cg, from_fn, multiply,
};
use zellige_runtime::Runtime;

type C = Complex<f64>;

const ROWS: usize = 100;

/// A matrix, row by row.
#[derive(Clone)]
struct Dense(Vec<Vec<C>>);

impl Dense {
    fn new(seed: u64) -> Dense {
        let mut state = seed;
        let mut random = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
        };
        Dense((0..ROWS).map(|_| (0..ROWS).map(|_| C::new(random(), random())).collect()).collect())
    }

    fn of(element: impl Fn(usize, usize) -> C) -> Dense {
        Dense((0..ROWS).map(|i| (0..ROWS).map(|j| element(i, j)).collect()).collect())
    }

    fn adjoint(&self) -> Dense {
        Dense::of(|i, j| self.0[j][i].conj())
    }

    fn times(&self, other: &Dense) -> Dense {
        Dense::of(|i, j| (0..ROWS).map(|k| self.0[i][k] * other.0[k][j]).sum())
    }

    fn multiply(&self, x: &[C], y: &mut [C]) {
        y.iter_mut().zip(&self.0).for_each(|(y, row)| *y = row.iter().zip(x).map(|(a, x)| a * x).sum());
    }

    fn operator(&self, space: &Space) -> FromFn<C> {
        let (a, adjoint) = (self.clone(), self.adjoint());
        let operator = from_fn(space, move |x: &[C], y: &mut [C]| a.multiply(x, y));
        operator.with_adjoint(move |x: &[C], y: &mut [C]| adjoint.multiply(x, y))
    }
}

/// Checks that an operator and its adjoint are those of a matrix.
fn is(rt: &Runtime, operator: &dyn Operator<C>, expected: &Dense) -> Result<(), Error> {
    let x: Vec<C> = (0..ROWS).map(|i| C::new(i as f64 / 50.0 - 1.0, 1.0 / (1.0 + i as f64))).collect();
    let adjoint = Adjoint(operator);
    for (operator, expected) in [(operator, expected), (&adjoint, &expected.adjoint())] {
        let mut wanted = vec![C::default(); ROWS];
        expected.multiply(&x, &mut wanted);
        let found = multiply(rt, operator, &x)?;
        let size = wanted.iter().fold(0.0, |most: f64, y| most.max(y.norm()));
        let error = found.iter().zip(&wanted).map(|(y, wanted)| (y - wanted).norm()).fold(0.0, f64::max);
        assert!(error < 1e-13 * size, "{error:e} beside {size:e}");
    }
    Ok(())
}

#[test]
fn composed_operators_are_those_of_matrices() -> Result<(), Error> {
    let (rt, space) = (Runtime::builder().workers(2).build()?, Space::cut_at(&[0, 48], ROWS)?);
    let [a, b] = [3, 5].map(Dense::new);
    let (of_a, of_b) = (a.operator(&space), b.operator(&space));
    let (c, d) = (C::new(0.5, -2.0), C::new(3.0, 1.0));
    let product = Product::new(&of_a, &of_b)?;
    is(&rt, &product, &a.times(&b))?;
    is(&rt, &Product::new(&Adjoint(&of_a), &product)?, &a.adjoint().times(&a.times(&b)))?;
    let sum = Combination::new(&[(c, &of_a), (d, &of_b)])?;
    is(&rt, &sum, &Dense::of(|i, j| c * a.0[i][j] + d * b.0[i][j]))?;
    is(&rt, &Combination::new(&[(c, &of_a)])?, &Dense::of(|i, j| c * a.0[i][j]))?;
    let shifted = Shifted { a: &of_a, sigma: 1.5 };
    is(&rt, &shifted, &Dense::of(|i, j| a.0[i][j] + if i == j { 1.5 } else { 0.0 }))
}

/// Normal equations: `A^H A x = A^H b` is Hermitian and positive definite.
#[test]
fn methods_take_composed_operators() -> Result<(), Error> {
    let (rt, space) = (Runtime::builder().workers(2).build()?, Space::cut_at(&[0, 48], ROWS)?);
    let random = Dense::new(7);
    let a = Dense::of(|i, j| random.0[i][j] * 0.05 + if i == j { C::new(0.0, 1.0) } else { C::default() });
    let (of_a, x) = (a.operator(&space), vec![C::new(1.0, -1.0); ROWS]);
    let adjoint = Adjoint(&of_a);
    let normal = Product::new(&adjoint, &of_a)?;
    let b = multiply(&rt, &normal, &x)?;
    let found = cg(&rt, &normal, &b, 1e-13)?;
    assert!(found.iter().zip(&x).all(|(found, x)| (found - x).norm() < 1e-10));
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused() -> Result<(), Error> {
    let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(3, 0));
    let same = |space: &Space| from_fn(space, |x: &[f64], y: &mut [f64]| y.copy_from_slice(x));
    let (three, four) = (same(&space), same(&Space::new(4, 0)));
    assert!(
        Product::new(&three, &four).is_err() && Combination::new(&[(1.0, &three), (1.0, &four)]).is_err()
    );
    assert!(Combination::<f64>::new(&[]).is_err());
    let without = multiply(&rt, &Adjoint(&three), &[1.0; 3]).expect_err("it has no adjoint").to_string();
    assert!(without.contains("with_adjoint"), "{without}");
    Ok(())
}
