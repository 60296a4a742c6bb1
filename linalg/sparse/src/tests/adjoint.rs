//! Adjoints of stored matrices.

use num_complex::Complex;

use super::*;
use crate::adaptive::{Adaptation, Criterion, FormatSet};

const ROWS: usize = 4000;
const COLUMNS: usize = 2500;

/// Returns a matrix with a few nonzeros in each row, along a line from corner to corner.
fn tall() -> Csr {
    let of_row = |i: usize| {
        let place = move |k: usize| (i * COLUMNS / ROWS + k * k * (1 + i % 3)) % COLUMNS;
        (0..4).map(move |k| (i as u32, place(k) as u32, ((i * 31 + k * 17) % 23) as f64 - 11.5))
    };
    Csr::from_triplets(ROWS, COLUMNS, &(0..ROWS).flat_map(of_row).collect::<Vec<_>>()).expect("a matrix")
}

fn stored(rt: &Runtime, a: &Csr, adaptation: &Adaptation<'_>) -> Result<Stored, Error> {
    let (rows, columns) = (Space::new(a.rows(), 64 * a.bytes()), Space::new(a.columns(), 64 * a.bytes()));
    assert!(rows.parts() > 1 && columns.parts() > 1);
    Stored::between(rt, &rows, &columns, a, 1, adaptation)?.with_adjoint(rt, a, adaptation)
}

fn complex(len: usize) -> Vec<Complex<f64>> {
    rhs(len).iter().rev().zip(rhs(len)).map(|(re, im)| Complex::new(*re, im)).collect()
}

#[test]
fn it_is_the_transpose() -> Result<(), Error> {
    let (rt, a, y) = (Runtime::builder().workers(2).build()?, tall(), complex(ROWS));
    for (adaptation, tolerance) in [
        (Adaptation::double(), 1e-15),
        (Adaptation::single(), 1e-7),
        (Adaptation::new(FormatSet::Ap7, Criterion::Componentwise, "2^-24".parse()?), 1e-7),
    ] {
        let stored = stored(&rt, &a, &adaptation)?;
        let found = multiply(&rt, &Adjoint::<Complex<f64>>(&stored), &y)?;
        let mut expected = vec![Complex::default(); COLUMNS];
        for (i, (columns, values)) in a.iter().enumerate() {
            columns.iter().zip(values).for_each(|(&j, &value)| expected[j as usize] += y[i] * value);
        }
        let error = found.iter().zip(&expected).map(|(x, y)| (x - y).norm()).fold(0.0, f64::max);
        let largest = expected.iter().map(|y| y.norm()).fold(0.0, f64::max);
        assert!(error <= tolerance * largest, "{error:e} beside {largest:e}: {adaptation:?}");
        assert!(Operator::<f64>::memory(&stored) > stored.bytes());
    }
    Ok(())
}

#[test]
fn it_has_the_same_bits_everywhere() -> Result<(), Error> {
    let a = tall();
    same_bits_everywhere(|rt| multiply(rt, &Adjoint(&stored(rt, &a, &Adaptation::double())?), &rhs(ROWS)))
}

/// A symmetric matrix that is stored symmetrically is its own adjoint.
#[test]
fn of_a_symmetric_matrix_nothing_more_is_stored() -> Result<(), Error> {
    let (rt, (a, b)) = (Runtime::builder().workers(2).build()?, flowing()?);
    let by_rows = Adaptation::new(FormatSet::Ap7, Criterion::Componentwise, "2^-24".parse()?);
    for adaptation in [Adaptation::double(), Adaptation { symmetric: true, ..by_rows }] {
        let stored = stored(&rt, &a, &adaptation)?;
        assert_eq!(Operator::<f64>::memory(&stored), stored.bytes());
        assert_eq!(multiply(&rt, &Adjoint(&stored), &b)?, multiply(&rt, &stored, &b)?);
    }
    assert!(Operator::<f64>::memory(&stored(&rt, &a, &by_rows)?) > stored(&rt, &a, &by_rows)?.bytes());
    let without = Stored::exact(&rt, &Space::new(a.rows(), a.bytes()), &a)?;
    let refused = multiply(&rt, &Adjoint(&without), &b).expect_err("it has no adjoint");
    assert!(refused.to_string().contains("with_adjoint"), "{refused}");
    Ok(())
}

/// The residual of the least-squares solution is orthogonal to all columns, by products with the
/// CSR matrix.
#[test]
fn least_squares_need_no_second_matrix() -> Result<(), Error> {
    let (rt, a, b) = (Runtime::builder().workers(2).build()?, tall(), rhs(ROWS));
    let stored = stored(&rt, &a, &Adaptation::double())?;
    let problem =
        LeastSquares { rt: &rt, a: &stored, damping: 1.0, tolerance: 1e-12, steps: 2000, time: None };
    let (x, found) = least_squares(&problem, &[&b], &mut [&mut ()])?;
    let mut product = vec![0.0; ROWS];
    a.multiply(&x[0], &mut product)?;
    let residual: Vec<f64> = b.iter().zip(&product).map(|(b, y)| b - y).collect();
    let mut gradient = vec![0.0; COLUMNS];
    a.transposed().multiply(&residual, &mut gradient)?;
    let square: f64 = gradient.iter().zip(&x[0]).map(|(g, x)| (g - x).powi(2)).sum();
    assert!(square.sqrt() <= 1e-10 * found[0].norm * found[0].residual, "{square:e} {:?}", found[0]);
    Ok(())
}
