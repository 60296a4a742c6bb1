//! Lowest eigenvalues, and solves that begin with their vectors.

use std::f64::consts::PI;
use std::sync::Arc;

use faer::{Mat, Side};
use num_complex::Complex;
use zellige_files::observe::Silent;
use zellige_krylov::{
    Cg, Deflated, EigenPairs, Error, Lanczos, Packed, Scalar, Solve, Space, Stop, StoppingCriterion, from_fn,
    solve, solve_columns,
};
use zellige_runtime::Runtime;

type C = Complex<f64>;

/// The second difference along a line of `n` points that are `stride` apart, added to `y`.
fn difference<E: Scalar>(x: &[E], y: &mut [E], n: usize, stride: usize) {
    let two = E::from_real(2.0);
    for i in 0..x.len() {
        let at = i / stride % n;
        let before = if at > 0 { x[i - stride] } else { E::default() };
        let after = if at + 1 < n { x[i + stride] } else { E::default() };
        y[i] = y[i] + two * x[i] - before - after;
    }
}

fn line_value(k: usize, n: usize) -> f64 {
    2.0 - 2.0 * ((k + 1) as f64 * PI / (n + 1) as f64).cos()
}

fn workers(count: usize) -> Result<Runtime, Error> {
    Ok(Runtime::builder().workers(count).build()?)
}

/// Returns the largest deviation of products of vectors from those of orthonormal ones.
fn deviation<E: Scalar>(rt: &Runtime, pairs: &EigenPairs<E>) -> Result<f64, Error> {
    let columns: Result<Vec<Vec<E>>, Error> =
        pairs.vectors.vectors().iter().map(|v| v.column(rt, 0)).collect();
    let (columns, mut most): (_, f64) = (columns?, 0.0);
    for (i, x) in columns.iter().enumerate() {
        for (j, y) in columns.iter().enumerate() {
            let product: E = x.iter().zip(y).map(|(x, y)| x.conj() * *y).sum();
            let error = product - E::from_real(f64::from(u8::from(i == j)));
            most = most.max(E::words(&[error]).iter().fold(0.0, |most: f64, word| most.max(word.abs())));
        }
    }
    Ok(most)
}

#[test]
fn eigenvalues_of_a_line_are_those_of_the_closed_form_with_the_same_bits_on_any_workers() -> Result<(), Error>
{
    let n = 900;
    let space = Space::cut_at(&[0, 192, 480], n)?;
    let a = from_fn(&space, move |x: &[f64], y: &mut [f64]| {
        y.fill(0.0);
        difference(x, y, n, 1);
    });
    let mut bits = Vec::new();
    for count in [1, 2] {
        let rt = workers(count)?;
        let pairs =
            Lanczos { tolerance: 1e-12, multiple: false, ..Lanczos::new(12) }.lowest(&rt, &a, &Silent)?;
        for (k, (value, residual)) in pairs.values.iter().zip(&pairs.residuals).enumerate() {
            assert!((value - line_value(k, n)).abs() < 1e-12, "{k}: {value} {}", line_value(k, n));
            assert!(*residual < 4.2e-12);
        }
        assert!(pairs.largest >= line_value(n - 1, n) && pairs.largest < 4.5);
        assert!(deviation(&rt, &pairs)? < 1e-13);
        bits.push((pairs.values.clone(), pairs.vectors.vectors()[5].column(&rt, 0)?));
        for (format, most) in [("fp32", 3e-7), ("block16", 3e-3)] {
            let format: Packed = format.parse()?;
            assert!(deviation(&rt, &pairs.clone().stored(&rt, Arc::new(format))?)? < most);
        }
    }
    assert_eq!(bits[0], bits[1]);
    Ok(())
}

/// On a square most eigenvalues are double, on a cube most are threefold or sixfold.
#[test]
fn multiple_eigenvalues_are_found_as_often_as_they_are_there() -> Result<(), Error> {
    let rt = workers(2)?;
    for (n, dimensions, count) in [(24, 2, 11), (7, 3, 20)] {
        let space = Space::new(usize::pow(n, dimensions), 0);
        let a = from_fn(&space, move |x: &[C], y: &mut [C]| {
            y.fill(C::default());
            (0..dimensions).for_each(|d| difference(x, y, n, usize::pow(n, d)));
        });
        let mut exact: Vec<f64> = (0..usize::pow(n, dimensions))
            .map(|i| (0..dimensions).map(|d| line_value(i / usize::pow(n, d) % n, n)).sum())
            .collect();
        exact.sort_by(f64::total_cmp);
        let pairs = Lanczos::new(count).lowest(&rt, &a, &Silent)?;
        for (k, (value, exact)) in pairs.values.iter().zip(&exact).enumerate() {
            assert!((value - exact).abs() < 1e-9, "{dimensions} {k}: {value} {exact}");
        }
        assert!(deviation(&rt, &pairs)? < 1e-12);
    }
    Ok(())
}

/// Returns a random positive definite matrix.
fn random_matrix(n: usize) -> Mat<C> {
    let mut state = 7u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    };
    let half = Mat::from_fn(n, n, |_, _| C::new(next(), next()));
    half.adjoint() * &half
}

#[test]
fn eigenvalues_of_a_random_matrix_are_those_of_a_dense_solver() -> Result<(), Error> {
    let (rt, n) = (workers(2)?, 120);
    let matrix = Arc::new(random_matrix(n));
    let mut exact = matrix.self_adjoint_eigenvalues(Side::Lower).expect("a Hermitian matrix");
    exact.sort_by(f64::total_cmp);
    let of = Arc::clone(&matrix);
    let a = from_fn(&Space::new(n, 0), move |x: &[C], y: &mut [C]| {
        for (i, y) in y.iter_mut().enumerate() {
            *y = x.iter().enumerate().map(|(j, x)| of[(i, j)] * x).sum();
        }
    });
    let pairs = Lanczos { tolerance: 1e-12, ..Lanczos::new(9) }.lowest(&rt, &a, &Silent)?;
    for (value, exact) in pairs.values.iter().zip(&exact) {
        assert!((value - exact).abs() < 1e-10, "{value} {exact}");
    }
    Ok(())
}

#[test]
fn settings_without_meaning_are_refused() -> Result<(), Error> {
    let (rt, space) = (workers(1)?, Space::new(40, 0));
    let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..40).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
    let good = Lanczos { basis: 20, ..Lanczos::new(5) };
    assert!(good.lowest(&rt, &a, &Silent).is_ok());
    for (wrong, name) in [
        (Lanczos { count: 0, ..good }, "eigenvalues: "),
        (Lanczos { count: 20, ..good }, "eigenvalues: "),
        (Lanczos { basis: 40, ..good }, "eigenvalues: "),
        (Lanczos { tolerance: f64::NAN, ..good }, "tolerance: "),
        (Lanczos { restarts: 0, ..good }, "tolerance: "),
        (Lanczos { tolerance: 1e-30, restarts: 3, ..good }, "eigenvalues: residuals"),
    ] {
        let error = wrong.lowest(&rt, &a, &Silent).expect_err(name).to_string();
        assert!(error.starts_with(name), "{error}");
    }
    for sign in [-1.0, f64::NAN] {
        let wrong = from_fn(&space, move |x: &[f64], y: &mut [f64]| (0..40).for_each(|i| y[i] = sign * x[i]));
        let error = good.lowest(&rt, &wrong, &Silent).expect_err("an operator").to_string();
        assert!(error.starts_with("operator: "), "{error}");
    }
    Ok(())
}

/// Deflated solves need the steps of the rest of the spectrum, whatever the vectors are stored in,
/// and a column of several has the bits of a single solve.
#[test]
fn eigenvectors_save_steps_and_the_residual_is_that_of_the_operator() -> Result<(), Error> {
    let n = 1500;
    let space = Space::cut_at(&[0, 480], n)?;
    let a = from_fn(&space, move |x: &[C], y: &mut [C]| {
        y.fill(C::default());
        difference(x, y, n, 1);
        y.iter_mut().zip(x).for_each(|(y, x)| *y += x * 1e-6);
    });
    let bare = from_fn(&space, move |x: &[C], y: &mut [C]| {
        y.fill(C::default());
        difference(x, y, n, 1);
    });
    let sides: Vec<Vec<C>> =
        [0.7, 1.3].map(|f| (0..n).map(|i| C::new((f * i as f64).sin(), 1.0)).collect()).into();
    let stop = Stop::RelativeToRhs(1e-10);
    let mut answers = Vec::new();
    for count in [1, 2] {
        let rt = workers(count)?;
        let pairs = Lanczos { multiple: false, ..Lanczos::new(30) }.lowest(&rt, &bare, &Silent)?;
        let mut x = vec![C::default(); n];
        let plain = solve(&Solve::new(&rt, &a), &Cg::default(), &sides[0], &mut x, &stop, &mut ())?;
        for (format, gain) in [("fp64", 4), ("fp32", 4), ("block16", 2)] {
            let format: Packed = format.parse()?;
            let pairs = pairs.clone().stored(&rt, Arc::new(format))?;
            let method = Deflated { method: &Cg::default(), exact: &a, pairs: &pairs, shift: 1e-6 };
            let problem = Solve { reduction: method.reduction(), ..Solve::new(&rt, &a) };
            let mut alone = vec![C::default(); n];
            let found = solve(&problem, &method, &sides[0], &mut alone, &stop, &mut ())?;
            assert!(found.reason.is_converged() && found.true_residual <= 1e-10 * found.rhs);
            assert!(gain * found.steps < plain.steps, "{}: {} {}", format.name(), found.steps, plain.steps);
            let (mut one, mut two) = (vec![C::default(); n], vec![C::default(); n]);
            let stops: [&dyn StoppingCriterion; 2] = [&stop, &stop];
            let b = [&sides[0][..], &sides[1]];
            solve_columns(&problem, &method, &b, &mut [&mut one, &mut two], &stops, &mut [&mut (), &mut ()])?;
            assert_eq!(one, alone);
            answers.push(two);
        }
        let method = Deflated { method: &Cg::default(), exact: &a, pairs: &pairs, shift: -1.0 };
        let error =
            solve(&Solve::new(&rt, &a), &method, &sides[0], &mut x, &stop, &mut ()).expect_err("a shift");
        assert!(error.to_string().starts_with("eigenvalues: "), "{error}");
    }
    assert_eq!(answers[..3], answers[3..]);
    Ok(())
}
