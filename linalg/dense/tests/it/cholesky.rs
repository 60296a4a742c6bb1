//! The factorisation against references, its failures, and its edge cases.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::*;
use zellige_dense::residual::{estimated, exact};
use zellige_dense::{
    Error, GemmPrecision, GemmQuery, PanelPrecision, PolicyError, PrecisionPolicy, RetryLadder, Rule,
    SharedPolicy, Submission, SymmetricTiled, TileGrid, at_submission, cholesky, generator,
    products_of_cholesky,
};
use zellige_runtime::{Runtime, Submit, update};

fn rule(text: &str) -> SharedPolicy {
    text.parse::<Rule>().unwrap().into()
}

/// Factors `a` in `f32` tiles; backward error, share of 16-bit products.
fn factor(rt: &Runtime, a: &[f64], grid: &TileGrid, policy: &SharedPolicy) -> Result<(f64, f64), Error> {
    let n = grid.len();
    let tiles = SymmetricTiled::generate(rt, grid.clone(), &dense32(a, n))?;
    let run = cholesky(rt, &tiles, policy)?;
    run.wait(rt)?;
    let error = exact(rt, &tiles, &dense64(a, n))?.value;
    let dense: Vec<f64> = tiles.gather(rt)?.into_iter().map(f64::from).collect();
    let independent = if n == 0 { 0.0 } else { reference_backward_error(a, &dense, n) };
    assert!((error - independent).abs() <= 1e-9 * independent + 1e-15, "{error:e} {independent:e}");
    Ok((error, run.counts().low_share()))
}

#[test]
fn each_precision_has_the_accuracy_of_its_roundoff() {
    let rt = runtime(2, "lws");
    let n = 200;
    let grid = TileGrid::uniform(n, 32).unwrap();
    for (name, a) in [
        ("random", random_spd(n, 1.0, 1)),
        ("graded", graded(random_spd(n, 1.0, 2), n, 1e-6)),
        ("radians", random_spd(n, 1.0, 3).iter().map(|x| x * 2.35e-11).collect()),
    ] {
        // Bounds: a few roundoffs of the operands' format (2^-24, 2^-22, 2^-11, 2^-8, 2^-4), C in
        // 16 bits for hp2 and hp3.
        for (text, low, bound, least) in [
            ("fp32", 0.0, 3e-7, 1e-9),
            ("x3", 1.0, 5e-7, 1e-9),
            ("hp1", 1.0, 1e-3, 1e-6),
            ("hp2", 1.0, 2e-3, 1e-6),
            ("hp3", 1.0, 4e-3, 1e-6),
            ("bf1", 1.0, 8e-3, 1e-5),
            ("tf32", 1.0, 1e-3, 1e-6),
            ("fp8", 1.0, 6e-2, 1e-4),
        ] {
            let (error, share) = factor(&rt, &a, &grid, &rule(text)).unwrap();
            assert!(error < bound, "{name} {text}: {error:e}");
            // A low precision that is as good as fp32 was not used.
            let least = if name == "graded" { 0.0 } else { least };
            assert!(error > least, "{name} {text}: {error:e}");
            assert_eq!(share, low, "{name} {text}");
        }
    }
}

/// Returns a smooth covariance of points on a line, with a little noise: condition number about
/// 7e5, close to the limit of `f32` factorisations.
fn covariance(n: usize) -> Vec<f64> {
    let entry = |i: usize, j: usize| {
        let distance = (i as f64 - j as f64) / 40.0;
        (-distance * distance).exp() + if i == j { 1e-4 } else { 0.0 }
    };
    (0..n * n).map(|at| entry(at % n, at / n)).collect()
}

#[test]
fn diagonal_updates_and_solves_have_a_precision_of_their_own() {
    let rt = runtime(2, "lws");
    // Tiles above 64: solves of smaller ones have no products.
    let n = 330;
    let grid = TileGrid::from_edges([0, 100, 210, 211, 330]).unwrap();
    for (name, a) in [("random", random_spd(n, 1.0, 12)), ("covariance", covariance(n))] {
        for (text, bound, least) in [
            ("fp32", 3e-7, 1e-9),
            ("fp32,panel=x3", 5e-7, 1e-9),
            ("x3,panel=x3", 5e-7, 1e-9),
            ("fp32,panel=tf32", 1e-3, 1e-6),
        ] {
            match factor(&rt, &a, &grid, &rule(text)) {
                Ok((error, _)) => assert!(error < bound && error > least, "{name} {text}: {error:e}"),
                // 2^-11 of the largest eigenvalue is far above the smallest.
                Err(lost) => {
                    let expected = name == "covariance" && text.ends_with("tf32");
                    assert!(lost.not_positive_definite().is_some() && expected, "{name} {text}: {lost}");
                }
            }
        }
    }
}

/// Rounding that only diagonal updates do is seen in the factor, and only there.
#[test]
fn full_reaches_updates_and_solves_alike() {
    let rt = runtime(1, "lws");
    let n = 300;
    let a = random_spd(n, 1.0, 13);
    let factors = ["fp32", "fp32,panel=x3", "fp32,panel=tf32"].map(|text| {
        let tiles =
            SymmetricTiled::generate(&rt, TileGrid::uniform(n, 150).unwrap(), &dense32(&a, n)).unwrap();
        cholesky(&rt, &tiles, &rule(text)).unwrap().wait(&rt).unwrap();
        let tile = |i: usize, j: usize| {
            let guard = rt.read(tiles.tile(i, j)).unwrap();
            guard.as_slice().unwrap().to_vec()
        };
        [tile(0, 0), tile(1, 0), tile(1, 1)]
    });
    for other in &factors[1..] {
        assert_eq!(other[0], factors[0][0], "the first factorisation is before any update");
        assert_ne!(other[1], factors[0][1], "a solve");
        assert_ne!(other[2], factors[0][2], "an update");
    }
}

struct FullOnF64;

impl PrecisionPolicy for FullOnF64 {
    fn choose(&self, _: &GemmQuery) -> Result<GemmPrecision, PolicyError> {
        Ok(GemmPrecision::Dp)
    }

    fn panel(&self) -> PanelPrecision {
        PanelPrecision::X3
    }
}

#[test]
fn f64_tiles_have_no_other_updates_and_solves() {
    let rt = runtime(1, "lws");
    let tiles = SymmetricTiled::<f64>::new(&rt, TileGrid::uniform(20, 10).unwrap());
    let policy: SharedPolicy = Arc::new(FullOnF64);
    let error = cholesky(&rt, &tiles, &policy).unwrap_err();
    assert!(matches!(error, Error::Panel { .. }), "{error:?}");
    assert!(error.to_string().contains("fp64") && error.to_string().contains("x3"), "{error}");
}

#[test]
fn f64_tiles_agree_with_the_reference() {
    let rt = runtime(2, "prio");
    let n = 150;
    let a = random_spd(n, 0.5, 4);
    let grid = TileGrid::from_edges([0, 1, 40, 41, 100, 150]).unwrap();
    let tiles = SymmetricTiled::generate(&rt, grid, &dense64(&a, n)).unwrap();
    let run = cholesky(&rt, &tiles, &rule("fp64")).unwrap();
    run.wait(&rt).unwrap();
    assert_eq!(run.counts().shares(), [(GemmPrecision::Dp, 1.0)]);
    assert_eq!(run.counts().total(), 10);
    assert_eq!(run.counts().at(4, 3, GemmPrecision::Dp), 3);
    let error = distance(tiles.gather(&rt).unwrap(), &reference_cholesky(&a, n));
    assert!(error < 1e-13, "{error:e}");
    assert!(exact(&rt, &tiles, &dense64(&a, n)).unwrap().value < 1e-15);
}

#[test]
fn the_estimate_is_close_to_the_exact_backward_error() {
    let rt = runtime(2, "lws");
    let n = 230;
    let a = random_spd(n, 1.0, 5);
    let grid = TileGrid::from_edges([0, 50, 61, 130, 230]).unwrap();
    let tiles = SymmetricTiled::generate(&rt, grid, &dense32(&a, n)).unwrap();
    cholesky(&rt, &tiles, &rule("hp1")).unwrap();
    let exact = exact(&rt, &tiles, &dense64(&a, n)).unwrap();
    let estimate = estimated(&rt, &tiles, &dense64(&a, n)).unwrap();
    assert!(exact.exact && !estimate.exact);
    let ratio = estimate.value / exact.value;
    assert!((0.6..1.5).contains(&ratio), "{estimate:?} {exact:?}");
}

#[test]
fn band_and_norm_rules_use_both_precisions() {
    let rt = runtime(2, "lws");
    let n = 192;
    let a = graded(random_spd(n, 1.0, 6), n, 1e-3);
    let grid = TileGrid::uniform(n, 16).unwrap();
    let all = |text: &str| factor(&rt, &a, &grid, &rule(text)).unwrap();
    let (hp1, _) = all("hp1");
    for (text, low) in [
        // 12 x 12 tiles: sum of j over j < i is 220; with i - j >= 2 it is 165.
        ("hp1:band=2", Some(165.0 / 220.0)),
        ("hp1:tile=1e-3", None),
        ("hp1:operand=3e-4", None),
        ("hp1:operand=3e-4,else=x3", None),
    ] {
        let (error, share) = all(text);
        match low {
            Some(low) => assert!((share - low).abs() < 1e-12, "{text}: {share}"),
            None if text.ends_with("x3") => assert_eq!(share, 1.0),
            None => assert!(share > 0.05 && share < 0.95, "{text}: {share}"),
        }
        assert!(error < hp1, "{text}: {error:e}, hp1 {hp1:e}");
    }
}

/// The norms that a policy receives agree with norms of dense matrices.
#[test]
fn policies_see_the_norms_that_are_documented() {
    let rt = runtime(2, "lws");
    let n = 60;
    let a = random_spd(n, 1.0, 7);
    let l = reference_cholesky(&a, n);
    let grid = TileGrid::from_edges([0, 10, 25, 45, 60]).unwrap();
    let block = move |m: &[f64], i: usize, j: usize, grid: &TileGrid| {
        let squares =
            grid.range(j).flat_map(|c| grid.range(i).map(move |r| (r, c))).map(|(r, c)| m[r + c * n].powi(2));
        squares.sum::<f64>().sqrt()
    };
    let norm_a = a.iter().map(|x| x * x).sum::<f64>().sqrt();
    let asked = Arc::new(AtomicUsize::new(0));
    let policy: SharedPolicy = {
        let (grid, asked) = (grid.clone(), Arc::clone(&asked));
        Arc::new(move |q: &GemmQuery| {
            asked.fetch_add(1, Ordering::Relaxed);
            for (seen, norm) in [
                (q.norm_a, norm_a),
                (q.norm_a_ij, block(&a, q.i, q.j, &grid)),
                (q.norm_l_ik, block(&l, q.i, q.k, &grid)),
                (q.norm_l_jk, block(&l, q.j, q.k, &grid)),
            ] {
                assert!((seen - norm).abs() < 1e-12 * norm, "{q:?}: {seen} {norm}");
            }
            assert_eq!(q.nt, 4);
            GemmPrecision::Dp
        })
    };
    let a = random_spd(n, 1.0, 7);
    let tiles = SymmetricTiled::generate(&rt, grid, &dense64(&a, n)).unwrap();
    cholesky(&rt, &tiles, &policy).unwrap().wait(&rt).unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 4);
}

#[test]
fn an_indefinite_matrix_names_tile_and_pivot_and_hurts_nobody_else() {
    let rt = runtime(2, "lws");
    let n = 96;
    let mut a = random_spd(n, 1.0, 8);
    let grid = TileGrid::uniform(n, 16).unwrap();
    a[53 + 53 * n] = -4.0;
    let other = rt.register(vec![0.0f64]);
    let tiles = SymmetricTiled::generate(&rt, grid.clone(), &dense32(&a, n)).unwrap();
    let run = cholesky(&rt, &tiles, &rule("fp32")).unwrap();
    rt.task("other").operands((update(&other),)).cpu(|(x,)| x[0] += 1.0).submit().unwrap();
    let error = run.wait(&rt).unwrap_err();
    let lost = *error.not_positive_definite().expect("not positive definite");
    assert_eq!((lost.tile, lost.pivot, lost.row), (3, 5, 53));
    assert!(lost.value < -3.0, "{lost}");
    assert!(error.to_string().contains("tile 3") && error.to_string().contains("row 53"));
    // Independent results exist; dependent ones report the same cause.
    assert_eq!(rt.take(other).unwrap(), [1.0]);
    let l = reference_cholesky(&a, n);
    let guard = rt.read(tiles.tile(3, 1)).unwrap();
    assert!((f64::from(guard.mat().unwrap().get(2, 3)) - l[50 + 19 * n]).abs() < 1e-5);
    drop(guard);
    let poisoned = Error::from(rt.read(tiles.tile(5, 3)).unwrap_err());
    assert_eq!(poisoned.not_positive_definite(), Some(&lost));
    assert!(tiles.gather(&rt).is_err());
    // The handles are used again for the next matrix.
    a[53 + 53 * n] = 4.0;
    tiles.fill(&rt, &dense32(&a, n)).unwrap();
    cholesky(&rt, &tiles, &rule("fp32")).unwrap().wait(&rt).unwrap();
    assert!(exact(&rt, &tiles, &dense64(&a, n)).unwrap().value < 3e-7);
}

/// A matrix on which half precision must fail: a large constant hides eigenvalues below its
/// roundoff.
#[test]
fn the_ladder_ends_where_the_precision_suffices() {
    let rt = runtime(2, "lws");
    let n = 128;
    let a: Vec<f64> = (0..n * n).map(|at| 1.0 + if at % n == at / n { 1e-4 } else { 0.0 }).collect();
    let grid = TileGrid::uniform(n, 16).unwrap();
    let mut failed = Vec::new();
    let survivor = RetryLadder::new("hp1".parse().unwrap()).find(|rule| {
        match factor(&rt, &a, &grid, &rule.clone().into()) {
            Ok(_) => true,
            Err(error) => {
                assert!(error.not_positive_definite().is_some(), "{error}");
                failed.push(rule.to_string());
                false
            }
        }
    });
    assert_eq!(failed.first().map(String::as_str), Some("hp1"));
    assert!(survivor.is_some());
}

#[derive(Debug)]
struct Refuses(usize);

impl PrecisionPolicy for Refuses {
    fn choose(&self, q: &GemmQuery) -> Result<GemmPrecision, PolicyError> {
        match q.i + q.j + q.k == self.0 {
            true => Err(PolicyError::new(self.describe(), q, "line 3: no such thing")),
            false => Ok(GemmPrecision::Sp),
        }
    }

    fn describe(&self) -> String {
        "script:x.rhai".into()
    }
}

#[test]
fn a_policy_that_fails_fails_the_task_with_its_message() {
    let rt = runtime(2, "lws");
    let n = 40;
    let a = random_spd(n, 1.0, 9);
    let grid = TileGrid::uniform(n, 8).unwrap();
    let policy: SharedPolicy = Arc::new(Refuses(3));
    let error = factor(&rt, &a, &grid, &policy).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Policy(_)), "{error:?}");
    assert!(text.contains("(2, 1, 0)") && text.contains("line 3"), "{text}");
    // A precision that the tiles do not have: at submission, and late.
    let early: SharedPolicy = Arc::new(at_submission(|_: &GemmQuery| GemmPrecision::Dp));
    let late: SharedPolicy = Arc::new(|_: &GemmQuery| GemmPrecision::Dp);
    for policy in [early, late] {
        let error = factor(&rt, &a, &grid, &policy).unwrap_err();
        assert!(matches!(error, Error::Precision { i: 2, j: 1, k: 0, .. }), "{error:?}");
    }
    let panics: SharedPolicy = Arc::new(|_: &GemmQuery| -> GemmPrecision { panic!("oh") });
    let text = factor(&rt, &a, &grid, &panics).unwrap_err().to_string();
    assert!(text.contains("oh"), "{text}");
    assert!(factor(&rt, &a, &grid, &rule("fp32")).is_ok());
}

#[test]
fn a_generator_that_fails_is_named() {
    let rt = runtime(1, "eager");
    let grid = TileGrid::uniform(8, 4).unwrap();
    let fill = generator(|rows, _cols, out: &mut [f32], _ld| {
        out.iter_mut().step_by(5).for_each(|diagonal| *diagonal = 1.0);
        if rows.start == 4 {
            return Err(std::io::Error::other("no more numbers"));
        }
        Ok(())
    });
    let tiles = SymmetricTiled::generate(&rt, grid, &fill).unwrap();
    let error = cholesky(&rt, &tiles, &rule("fp32")).unwrap().wait(&rt).unwrap_err();
    assert!(error.to_string().contains("no more numbers"), "{error}");
}

#[test]
fn every_shape_of_grid_works() {
    let rt = runtime(2, "lws");
    for edges in
        [vec![0], vec![0, 1], vec![0, 37], vec![0, 1, 2, 3, 4], vec![0, 1, 30, 31, 37], vec![0, 36, 37]]
    {
        let grid = TileGrid::from_edges(edges).unwrap();
        let n = grid.len();
        let a = random_spd(n, 1.0, 10);
        for text in ["fp32", "hp2", "hp3", "hp1:operand=1e-1,else=x3"] {
            let (error, _) = factor(&rt, &a, &grid, &rule(text)).unwrap_or((f64::NAN, 0.0));
            // Without rows both norms are zero, and so is their ratio; the reference divides.
            assert!(error < 5e-3 || n == 0, "{grid:?} {text}: {error:e}");
        }
    }
    let none = SymmetricTiled::<f32>::new(&rt, TileGrid::from_edges([0]).unwrap());
    cholesky(&rt, &none, &rule("hp1:operand=1")).unwrap().wait(&rt).unwrap();
    assert!(none.gather(&rt).unwrap().is_empty());
    assert_eq!(exact(&rt, &none, &dense64(&[], 0)).unwrap().value, 0.0);
    assert_eq!(estimated(&rt, &none, &dense64(&[], 0)).unwrap().value, 0.0);
}

#[test]
fn hp2_keeps_tiles_in_16_bits_until_their_solve() {
    let rt = runtime(1, "lws");
    let n = 48;
    let a = random_spd(n, 1.0, 11);
    let grid = TileGrid::uniform(n, 16).unwrap();
    let tiles = SymmetricTiled::generate(&rt, grid, &dense32(&a, n)).unwrap();
    assert_eq!(tiles.bytes(&rt).unwrap(), 6 * 16 * 16 * 4);
    cholesky(&rt, &tiles, &rule("hp2")).unwrap().wait(&rt).unwrap();
    // L is f32 everywhere: the master copy.
    assert_eq!(tiles.bytes(&rt).unwrap(), 6 * 16 * 16 * 4);
}

/// Tile `(i, j)` below the diagonal becomes `A_ij - A_i0 A_j0^T - .. - A_i,j-1 A_j,j-1^T` with the
/// updated tiles on its left. Tiles of the diagonal keep their values.
#[test]
fn products_alone_update_the_tiles_below_the_diagonal() -> Result<(), Error> {
    let (rt, n, tile) = (runtime(2, "lws"), 23, 6);
    let a = random_spd(n, 1.0, 7);
    let tiles = SymmetricTiled::<f64>::generate(&rt, TileGrid::uniform(n, tile)?, &dense64(&a, n))?;
    products_of_cholesky(&rt, &tiles, &rule("fp64"), &Submission::default())?;
    rt.wait_all()?;
    let mut expected = a.clone();
    let nt = n.div_ceil(tile);
    for k in 0..nt {
        let step = k * tile..((k + 1) * tile).min(n);
        for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
            if i / tile > j / tile && j / tile > k {
                let sum: f64 = step.clone().map(|l| expected[i * n + l] * expected[j * n + l]).sum();
                expected[i * n + j] -= sum;
            }
        }
    }
    let found = tiles.gather(&rt)?;
    for (i, j) in (0..n).flat_map(|i| (0..=i).map(move |j| (i, j))) {
        // Tiles are gathered by columns.
        let (found, expected) = (found[j * n + i], expected[i * n + j]);
        assert!((found - expected).abs() <= 1e-12 * (1.0 + expected.abs()), "({i}, {j}): {found} {expected}");
    }
    Ok(())
}
