//! Solves and refinement against references.

use crate::common::*;
use zellige_dense::{
    Error, GemmPrecision, RectTiled, RefineEnd, RefineUntil, Rounding, Rule, SharedPolicy, Submission,
    SymmetricTiled, TileGrid, cholesky, refine, solve, solve_with, widened,
};
use zellige_runtime::Runtime;

fn rule(text: &str) -> SharedPolicy {
    text.parse::<Rule>().unwrap().into()
}

#[test]
fn solutions_are_as_good_as_the_precision() {
    let rt = runtime(2, "lws");
    let (m, n) = (37, 150);
    let a = random_spd(n, 1.0, 30);
    let x = random_rect(m, n, 31);
    let b = times(&x, &a, m, n);
    for edges in [vec![0, 150], vec![0, 40, 41, 90, 149, 150]] {
        let grid = TileGrid::from_edges(edges).unwrap();
        for row_edges in [vec![0, 37], vec![0, 1, 30, 37]] {
            let rows = TileGrid::from_edges(row_edges).unwrap();
            for (text, bound) in [
                ("fp32", 2e-6),
                ("x3", 2e-6),
                ("hp1", 3e-3),
                ("hp2", 6e-3),
                ("hp1:band=2", 3e-3),
                ("hp1:operand=1e-2,else=x3", 3e-3),
            ] {
                let l = SymmetricTiled::generate(&rt, grid.clone(), &dense32(&a, n)).unwrap();
                cholesky(&rt, &l, &rule("fp32")).unwrap();
                let fill = dense32(&b, m);
                let b = RectTiled::generate(&rt, "B", rows.clone(), grid.clone(), &fill).unwrap();
                let solution = solve(&rt, &l, &b, &rule(text)).unwrap();
                solution.wait(&rt).unwrap();
                let error = distance(b.gather(&rt).unwrap().into_iter().map(f64::from), &x);
                assert!(error < bound, "{text} {grid:?}: {error:e}");
                let (mt, nt) = (rows.tiles() as u64, grid.tiles() as u64);
                assert_eq!(solution.counts().total(), mt * nt * (nt - 1));
            }
        }
    }
    let grid = TileGrid::uniform(n, 50).unwrap();
    let l = SymmetricTiled::generate(&rt, grid.clone(), &dense64(&a, n)).unwrap();
    cholesky(&rt, &l, &rule("fp64")).unwrap();
    let rows = TileGrid::uniform(m, 8).unwrap();
    let b64 = RectTiled::generate(&rt, "B", rows, grid, &dense64(&b, m)).unwrap();
    let solution = solve(&rt, &l, &b64, &rule("fp64")).unwrap();
    solution.wait(&rt).unwrap();
    assert_eq!(solution.counts().share(GemmPrecision::Dp), 1.0);
    assert!(distance(b64.gather(&rt).unwrap(), &x) < 1e-13);
}

#[test]
fn refinement_gains_what_the_factor_allows_at_each_step() {
    let rt = runtime(2, "lws");
    let (m, n) = (19, 120);
    let a = random_spd(n, 0.2, 32);
    let exact = random_rect(m, n, 33);
    let b = times(&exact, &a, m, n);
    let grid = TileGrid::from_edges([0, 30, 31, 77, 120]).unwrap();
    let rows = TileGrid::uniform(m, 7).unwrap();
    let l = SymmetricTiled::generate(&rt, grid.clone(), &dense32(&a, n)).unwrap();
    cholesky(&rt, &l, &rule("hp1")).unwrap().wait(&rt).unwrap();
    let x = RectTiled::generate(&rt, "B", rows, grid, &dense32(&b, m)).unwrap();
    solve(&rt, &l, &x, &rule("hp1")).unwrap();
    let x = widened(&rt, &x).unwrap();
    let mut errors = vec![distance(x.gather(&rt).unwrap(), &exact)];
    let mut residuals = Vec::new();
    for _ in 0..4 {
        let before = x.gather(&rt).unwrap();
        let (factor, system) = ((&l, &rule("hp1")), (&dense64(&a, n), &dense64(&b, m)));
        let step = refine(&rt, factor, system, &x, RefineUntil { steps: 1, tolerance: 0.0 }).unwrap();
        // The residuals that it reports are those of X before and after the step.
        for (residual, x) in [(step.before[0], before), (step.residual, x.gather(&rt).unwrap())] {
            let independent = distance(times(&x, &a, m, n), &b);
            assert!((residual - independent).abs() < 1e-6 * independent + 1e-15);
        }
        residuals.push(step.before[0]);
        errors.push(distance(x.gather(&rt).unwrap(), &exact));
    }
    assert!(errors[0] > 1e-5, "{errors:?}");
    for pair in errors.windows(2) {
        assert!(pair[1] < 0.05 * pair[0] || pair[1] < 1e-13, "{errors:?}");
    }
    assert!(errors[4] < 1e-11, "{errors:?}");
    assert!(residuals[3] < 1e-6 * residuals[0]);
}

#[test]
fn a_lost_factor_fails_the_solve_with_its_cause() {
    let rt = runtime(2, "lws");
    let n = 32;
    let mut a = random_spd(n, 1.0, 34);
    a[9 + 9 * n] = -1.0;
    let grid = TileGrid::uniform(n, 8).unwrap();
    let l = SymmetricTiled::generate(&rt, grid.clone(), &dense32(&a, n)).unwrap();
    cholesky(&rt, &l, &rule("fp32")).unwrap();
    let rows = TileGrid::uniform(4, 4).unwrap();
    let fill = dense32(&random_rect(4, n, 35), 4);
    let b = RectTiled::generate(&rt, "B", rows.clone(), grid, &fill).unwrap();
    let error = solve(&rt, &l, &b, &rule("hp1:operand=1")).unwrap().wait(&rt).unwrap_err();
    assert_eq!(error.not_positive_definite().unwrap().row, 9);
    let other = TileGrid::uniform(n, 9).unwrap();
    let b = RectTiled::<f32>::new(&rt, "B", rows, other);
    assert!(matches!(solve(&rt, &l, &b, &rule("fp32")), Err(Error::Shape { .. })));
}

#[test]
fn no_rows_are_solved_at_once() {
    let rt = runtime(1, "lws");
    let grid = TileGrid::uniform(8, 4).unwrap();
    let a = random_spd(8, 1.0, 36);
    let l = SymmetricTiled::generate(&rt, grid.clone(), &dense32(&a, 8)).unwrap();
    cholesky(&rt, &l, &rule("fp32")).unwrap();
    let none = TileGrid::uniform(0, 4).unwrap();
    let b = RectTiled::<f32>::new(&rt, "B", none, grid);
    solve(&rt, &l, &b, &rule("hp1:operand=1")).unwrap().wait(&rt).unwrap();
    let x = widened(&rt, &b).unwrap();
    let (factor, system) = ((&l, &rule("fp32")), (&dense64(&a, 8), &dense64(&[], 0)));
    let found = refine(&rt, factor, system, &x, RefineUntil { steps: 1, tolerance: 0.0 }).unwrap();
    assert_eq!((found.end, found.before.len(), found.residual), (RefineEnd::Converged, 0, 0.0));
}

/// Returns the factor of `a`, and the solution of `X A = B` with it.
fn solved(rt: &Runtime, a: &[f64], b: &[f64], n: usize) -> (SymmetricTiled<f32>, RectTiled<f64>) {
    let (m, grid) = (b.len() / n, TileGrid::uniform(n, 24).unwrap());
    let l = SymmetricTiled::generate(rt, grid.clone(), &dense32(a, n)).unwrap();
    cholesky(rt, &l, &rule("hp1")).unwrap().wait(rt).unwrap();
    let x = RectTiled::generate(rt, "B", TileGrid::uniform(m, 7).unwrap(), grid, &dense32(b, m)).unwrap();
    solve(rt, &l, &x, &rule("hp1")).unwrap();
    (l, widened(rt, &x).unwrap())
}

/// Residuals of small right-hand sides leave the range of `f32` before they are small relative to
/// them.
#[test]
fn refinement_goes_on_where_residuals_are_tiny() {
    let rt = runtime(2, "lws");
    let (m, n) = (19, 72);
    let a = random_spd(n, 0.2, 37);
    let exact: Vec<f64> = random_rect(m, n, 38).iter().map(|x| 1e-36 * x).collect();
    let b = times(&exact, &a, m, n);
    let (l, x) = solved(&rt, &a, &b, n);
    let system = (&dense64(&a, n), &dense64(&b, m));
    let until = RefineUntil { steps: 20, tolerance: 1e-14 };
    let found = refine(&rt, (&l, &rule("hp1")), system, &x, until).unwrap();
    assert_eq!(found.end, RefineEnd::Converged, "{found:?}");
    assert!(found.before.len() < 12 && found.residual <= 1e-14, "{found:?}");
    assert!(found.before.is_sorted_by(|one, next| next < one), "{found:?}");
    let independent = distance(times(&x.gather(&rt).unwrap(), &a, m, n), &b);
    assert!((found.residual - independent).abs() < 1e-15, "{found:?} {independent:e}");
    assert!(distance(x.gather(&rt).unwrap(), &exact) < 1e-12);
}

/// With the factor of another matrix steps increase the residual, or hardly reduce it: the result
/// reports that, and the better solution is restored.
#[test]
fn refinement_ends_where_steps_gain_nothing() {
    let rt = runtime(1, "lws");
    let (m, n) = (5, 72);
    let a = random_spd(n, 0.2, 39);
    let b = random_rect(m, n, 40);
    let (l, x) = solved(&rt, &a, &b, n);
    let until = RefineUntil { steps: 50, tolerance: 0.0 };
    let found = refine(&rt, (&l, &rule("hp1")), (&dense64(&a, n), &dense64(&b, m)), &x, until).unwrap();
    assert!(found.end == RefineEnd::Stagnated && found.before.len() < 20, "{found:?}");
    assert!(found.residual < 1e-14, "{found:?}");
    let other: Vec<f64> = a.iter().map(|a| 4.0 * a).collect();
    let system = (&dense64(&other, n), &dense64(&b, m));
    let first = distance(times(&x.gather(&rt).unwrap(), &other, m, n), &b);
    let found = refine(&rt, (&l, &rule("hp1")), system, &x, until).unwrap();
    assert_eq!((found.end, found.before.len()), (RefineEnd::Stagnated, 1), "{found:?}");
    assert!((found.residual - first).abs() < 1e-12 * first, "{found:?} {first:e}");
}

/// Returns `tr(E A E^T)`, `E = X - Q`.
fn loss(x: &[f64], q: &[f32], a: &[f64], (m, n): (usize, usize)) -> f64 {
    let e: Vec<f64> = x.iter().zip(q).map(|(x, &q)| x - f64::from(q)).collect();
    times(&e, a, m, n).iter().zip(&e).map(|(ea, e)| ea * e).sum()
}

#[test]
fn rounded_columns_make_up_for_the_errors_of_others() {
    let rt = runtime(2, "lws");
    let (m, n) = (37, 150);
    let a: Vec<f64> = (0..n * n)
        .map(|at| {
            (-((at % n) as f64 - (at / n) as f64).abs() / 30.0).exp()
                + if at % n == at / n { 0.05 } else { 0.0 }
        })
        .collect();
    let x = random_rect(m, n, 34);
    let b = times(&x, &a, m, n);
    let rounding = Rounding::new(5, 32).unwrap();
    for edges in [vec![0, 150], vec![0, 40, 41, 90, 149, 150]] {
        let (grid, rows) = (TileGrid::from_edges(edges).unwrap(), TileGrid::uniform(m, 20).unwrap());
        let l = SymmetricTiled::generate(&rt, grid.clone(), &dense32(&a, n)).unwrap();
        cholesky(&rt, &l, &rule("fp32")).unwrap();
        let solved = |rounding| {
            let b = RectTiled::generate(&rt, "B", rows.clone(), grid.clone(), &dense32(&b, m)).unwrap();
            let submission = Submission::default().round(rounding);
            let solution = solve_with(&rt, &l, &b, &rule("fp32"), &submission, |_| Ok(())).unwrap();
            solution.wait(&rt).unwrap();
            (solution, b.gather(&rt).unwrap())
        };
        let (solution, q) = solved(rounding.clone());
        let [of_columns, nearest] =
            [&q, &solved(rounding.clone().to_nearest()).1].map(|q| loss(&x, q, &a, (m, n)));
        assert!(of_columns < 0.25 * nearest, "{grid:?}: {of_columns:e} and {nearest:e}");
        let rounded = solution.rounded().unwrap();
        for (i, j) in (0..rows.tiles()).flat_map(|i| (0..grid.tiles()).map(move |j| (i, j))) {
            let tile = rounded.tile(&rt, i, j).unwrap();
            let (height, width) = tile.shape();
            assert_eq!((height, width), (rows.width(i), grid.width(j)));
            for at in 0..height * width {
                let (row, column) = (at % height, at / height);
                let value = f32::from(tile.codes()[at]) * tile.scales()[row + column / 32 * height];
                assert_eq!(value, q[rows.range(i).start + row + m * (grid.range(j).start + column)]);
            }
        }
    }
    let grid = TileGrid::uniform(n, 50).unwrap();
    let l = SymmetricTiled::generate(&rt, grid.clone(), &dense64(&a, n)).unwrap();
    cholesky(&rt, &l, &rule("fp64")).unwrap();
    // From tiles of float64, as little is lost.
    let losses = [rounding.clone(), rounding.to_nearest()].map(|rounding| {
        let rows = TileGrid::uniform(m, 37).unwrap();
        let b = RectTiled::generate(&rt, "B", rows, grid.clone(), &dense64(&b, m)).unwrap();
        let submission = Submission::default().round(rounding);
        solve_with(&rt, &l, &b, &rule("fp64"), &submission, |_| Ok(())).unwrap().wait(&rt).unwrap();
        // Rounded numbers are numbers of float32.
        let q: Vec<f32> = b.gather(&rt).unwrap().into_iter().map(|q| q as f32).collect();
        loss(&x, &q, &a, (m, n))
    });
    assert!(losses[0] < 0.25 * losses[1], "{losses:?}");
}
