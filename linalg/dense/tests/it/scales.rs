//! Systems of any size, with rows and columns of any sizes, and right-hand sides of any size,
//! against exact answers.

use zellige_dense::{Cholesky, Error, RefineEnd, Rule, SharedPolicy, SymmetricTiled, TileGrid, cholesky};

use crate::common::*;

/// Returns `x 2^e`, exactly if the result is normal.
fn by_power(x: f64, e: i32) -> f64 {
    let half = e / 2;
    x * 2f64.powi(half) * 2f64.powi(e - half)
}

/// Returns `exp(-|i - j| / 3)`, and 1.5 on the diagonal.
fn covariance(n: usize) -> Vec<f64> {
    let element =
        |i: usize, j: usize| (-(i.abs_diff(j) as f64) / 3.0).exp() + 0.5 * f64::from(u8::from(i == j));
    (0..n * n).map(|at| element(at % n, at / n)).collect()
}

/// Returns the largest `||b - A x|| / ||b||` of a column, with sums in doubled precision: `A`, `x`
/// and `b` are those of a system near 1, by the exponents `d` of its rows and `c` of its columns of
/// right-hand sides.
fn residual(a: &[f64], d: &[i32], c: &[i32], b: &[f64], x: &[f64]) -> f64 {
    let n = d.len();
    let of_column = |(k, (b, x)): (usize, (&[f64], &[f64]))| {
        let most = *d.iter().max().unwrap();
        let (mut r2, mut b2) = (0.0, 0.0);
        for i in 0..n {
            let (mut sum, mut rest) = (0.0f64, 0.0f64);
            let mut add = |x: f64| {
                let next = sum + x;
                let part = next - sum;
                rest += (sum - (next - part)) + (x - part);
                sum = next;
            };
            // Row i of D A D x, divided by 2^(most + c).
            add(by_power(b[i], -most - c[k]));
            for j in 0..n {
                let y = by_power(x[j], d[j] - c[k]);
                let product = -a[i + j * n] * y;
                add(by_power(product, d[i] - most));
                add(by_power((-a[i + j * n]).mul_add(y, -product), d[i] - most));
            }
            r2 += (sum + rest).powi(2);
            b2 += by_power(b[i], -most - c[k]).powi(2);
        }
        (r2 / b2).sqrt()
    };
    b.chunks(n).zip(x.chunks(n)).enumerate().map(of_column).fold(0.0, f64::max)
}

#[test]
fn systems_of_any_size_are_solved() {
    let rt = runtime(2, "lws");
    // One tile, two, three; exponents of the matrix, of its rows relative to each other, of the
    // right-hand sides.
    for (n, rule, of_a, of_rows, of_b) in [
        (60, "fp32", 990, 0, 0),
        (60, "fp64", -990, 0, 0),
        (257, "hp1", -200, 0, 133),
        (257, "fp64", 127, 0, 990),
        (60, "fp32", 0, 490, -900),
        (60, "fp64", 0, 490, 900),
        (520, "hp1:operand=1e-2", -127, 5, -1000),
        (520, "fp64", 0, 40, 0),
    ] {
        let case = format!("{n} {rule} {of_a} {of_rows} {of_b}");
        let a = covariance(n);
        // Rows of sizes from 2^-of_rows to 2^of_rows, no two neighbours of similar size.
        let d: Vec<i32> = (0..n as i32)
            .map(|i| of_a / 2 + (i * 37 % n as i32) * 2 * of_rows / n as i32 - of_rows)
            .collect();
        let scaled: Vec<f64> = (0..n * n).map(|at| by_power(by_power(a[at], d[at % n]), d[at / n])).collect();
        let factor = Cholesky::factor(&rt, n, &scaled, rule).unwrap();
        // B = D A y, columns of different sizes, near which the solution D^-1 y has to be in range,
        // too.
        let y = random_rect(n, 3, 90);
        let most = d.iter().map(|d| d.abs()).max().unwrap();
        let middle = of_b.clamp(-1020 + most, 1000 - most);
        let c = [middle, middle - middle.signum() * 30, middle - middle.signum() * 300];
        let product: Vec<f64> = y.chunks(n).flat_map(|y| times(y, &a, 1, n)).collect();
        let b: Vec<f64> = (0..3 * n).map(|at| by_power(product[at], c[at / n] + d[at % n])).collect();

        let x = factor.solve(&b).unwrap();
        let (refined, refinement) = factor.refine(&b, 1e-13).unwrap();
        let (by_gmres, found) = factor.refine_gmres(&b, 1e-13).unwrap();

        let of = |x: &[f64]| residual(&a, &d, &c, &b, x);
        let bound = match rule {
            "fp64" => 1e-14,
            "fp32" => 1e-6,
            _ => 2e-2,
        };
        assert!(of(&x) < bound, "{case}: solve {:e}", of(&x));
        assert!(refinement.end == RefineEnd::Converged, "{case}: {refinement:?}");
        assert!(of(&refined) <= 1.1e-13, "{case}: {:e}", of(&refined));
        assert!(
            (of(&refined) - refinement.residual).abs() < 1e-15,
            "{case}: {refinement:?} {:e}",
            of(&refined)
        );
        assert!(found.iter().all(|one| one.reason.is_converged()), "{case}: {found:?}");
        assert!(of(&by_gmres) <= 1.1e-13, "{case}: gmres {:e}", of(&by_gmres));
    }
}

#[test]
fn a_rule_of_float64_is_float64_for_every_order() {
    let rt = runtime(2, "lws");
    for n in [1, 2, 200, 256, 257, 600] {
        let a = covariance(n);
        let (b, zero) = (vec![1.0; n], vec![0; n]);
        for factor in [Cholesky::factor(&rt, n, &a, "fp64"), Cholesky::factor_tiled(&rt, n, &a, "fp64", 64)] {
            let factor = factor.unwrap();
            let error = residual(&a, &zero, &[0], &b, &factor.solve(&b).unwrap());
            assert!(error < 2e-15, "{n}: {error:e}");
            let (_, refinement) = factor.refine(&b, 1e-15).unwrap();
            assert!(refinement.residual < 1e-15 && refinement.before.len() < 3, "{n}: {refinement:?}");
        }
    }
    // Tiles of one type refuse rules of the other, whether or not there is a product to query the
    // rule for.
    let policy: SharedPolicy = "fp64".parse::<Rule>().unwrap().into();
    let single: SharedPolicy = "hp1:band=2".parse::<Rule>().unwrap().into();
    for n in [1, 5, 20] {
        let grid = TileGrid::uniform(n, 5).unwrap();
        let (a, fill) = (covariance(n), |a: &[f64]| (dense32(a, n), dense64(a, n)));
        let narrow = SymmetricTiled::generate(&rt, grid.clone(), &fill(&a).0).unwrap();
        let wide = SymmetricTiled::generate(&rt, grid, &fill(&a).1).unwrap();
        let refused =
            [cholesky(&rt, &narrow, &policy).err().unwrap(), cholesky(&rt, &wide, &single).err().unwrap()];
        for error in refused {
            assert!(matches!(error, Error::Elements { .. }), "{error}");
        }
    }
}

#[test]
fn what_has_no_answer_is_named() {
    let rt = runtime(1, "eager");
    let n = 300;
    let mut a = covariance(n);
    // Above the diagonal nothing is read.
    a[3 + 7 * n] = f64::NAN;
    let factor = Cholesky::factor(&rt, n, &a, "fp32").unwrap();
    for (at, value) in [(7 + 3 * n, f64::NAN), (299 + 299 * n, f64::INFINITY), (299, f64::NEG_INFINITY)] {
        let mut wrong = a.clone();
        wrong[at] = value;
        let error = Cholesky::factor(&rt, n, &wrong, "fp64").err().unwrap();
        let (row, column) = (at % n, at / n);
        assert_eq!(error.to_string(), format!("matrix: row {row}, column {column} (from 0) is {value}"));
        let mut b = vec![1.0; 2 * n];
        b[n + 5] = value;
        let said = [
            factor.solve(&b).unwrap_err(),
            factor.refine(&b, 1e-10).unwrap_err(),
            factor.refine_gmres(&b, 1e-10).unwrap_err(),
        ];
        for error in said {
            assert_eq!(error.to_string(), format!("right-hand sides: row 5, column 1 (from 0) is {value}"));
        }
    }
    // For a matrix of any scale the error has its row and its pivot.
    for (rule, e) in [("fp32", 990), ("fp64", -990)] {
        let mut wrong: Vec<f64> = covariance(n).iter().map(|a| by_power(*a, e)).collect();
        wrong[257 * (n + 1)] = by_power(-1.0, e);
        let error = Cholesky::factor(&rt, n, &wrong, rule).err().unwrap();
        let lost = error.not_positive_definite().unwrap();
        assert_eq!((lost.row, lost.tile, lost.pivot), (257, 1, 1));
        let pivot = by_power(lost.value, -e);
        assert!((-3.0..-1.0).contains(&pivot), "{pivot}");
    }
    for value in [0.0, -4.0] {
        let error = Cholesky::factor(&rt, 1, &[value], "fp32").err().unwrap();
        assert_eq!(error.not_positive_definite().unwrap().value, value);
    }
}

#[test]
fn solutions_that_float64_does_not_hold_are_not_called_right() {
    let rt = runtime(1, "eager");
    let n = 40;
    let small: Vec<f64> = covariance(n).iter().map(|a| by_power(*a, -900)).collect();
    let factor = Cholesky::factor(&rt, n, &small, "fp32").unwrap();
    let b = vec![by_power(1.0, 900); n];
    let error = factor.refine(&b, 1e-10).unwrap_err().to_string();
    assert!(error.starts_with("solution: row 0, column 0 (from 0) is inf"), "{error}");
    assert!(factor.solve(&b).is_err() && factor.refine_gmres(&b, 1e-10).is_err());

    // A solution of 1e-310 has about 13 digits, one of 1e-320 three, and a multiple of the least
    // number none.
    let factor = Cholesky::factor(&rt, n, &covariance(n), "fp64").unwrap();
    for (b, least, most) in [(1e-310, 1e-15, 1e-12), (1e-320, 1e-6, 1e-1), (5e-324, 1e-2, 1e3)] {
        let b = vec![b; n];
        let (x, refinement) = factor.refine(&b, 1e-15).unwrap();
        let (_, found) = factor.refine_gmres(&b, 1e-15).unwrap();
        let expected = residual(&covariance(n), &vec![0; n], &[-1040], &b, &x);
        assert!((least..most).contains(&expected), "{expected:e}");
        assert!((refinement.residual / expected - 1.0).abs() < 1e-3, "{refinement:?} {expected:e}");
        assert!(refinement.end == RefineEnd::Stagnated && !found[0].reason.is_converged(), "{found:?}");
    }
    // Zero is the solution of zero.
    let (x, refinement) = factor.refine(&vec![0.0; 2 * n], 1e-15).unwrap();
    assert!(x.iter().all(|x| *x == 0.0) && refinement.end == RefineEnd::Converged);
}

/// If the residual of the rows with the largest scales cannot be small relative to the right-hand
/// side, it is not reported as small.
#[test]
fn the_residual_is_that_of_the_system_that_was_given() {
    let rt = runtime(1, "eager");
    let n = 30;
    let a = covariance(n);
    let d: Vec<i32> = (0..n as i32).map(|i| (i * 7 % 30) * 4 - 58).collect();
    let scaled: Vec<f64> = (0..n * n).map(|at| by_power(a[at], d[at % n] + d[at / n])).collect();
    let b = vec![1.0; n];
    for rule in ["fp32", "fp64"] {
        let factor = Cholesky::factor(&rt, n, &scaled, rule).unwrap();
        let (x, refinement) = factor.refine(&b, 1e-12).unwrap();
        let (by_gmres, found) = factor.refine_gmres(&b, 1e-12).unwrap();
        let of = |x: &[f64]| residual(&a, &d, &[0], &b, x);
        for (reported, is_converged, expected) in [
            (refinement.residual, refinement.end == RefineEnd::Converged, of(&x)),
            (found[0].true_residual / found[0].rhs, found[0].reason.is_converged(), of(&by_gmres)),
        ] {
            // Both are rounding errors; a residual in float64 has only their magnitude right.
            assert!(
                expected > 1e-12 && reported > 1e-12 && !is_converged,
                "{rule}: {reported:e} {expected:e}"
            );
        }
    }
}
