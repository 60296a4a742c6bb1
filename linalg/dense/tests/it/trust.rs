//! Exact digits: bits without perturbation, the same digits on any number of workers, lost pivots.

use crate::common::*;
use zellige_dense::trust::{self, Fill, StochasticRun};
use zellige_dense::{
    Cholesky, Generator, RectTiled, Rule, SharedPolicy, SymmetricTiled, TileGrid, TileScalar, cholesky,
    generator, solve,
};
use zellige_mpi::run_local;
use zellige_runtime::{Runtime, Session};
use zellige_stochastic::{
    Categories, DigitMap, Eight, Perturbation, Report, Sample, Scope, Stochastic, Trust, TrustOptions,
};

const N: usize = 160;
const M: usize = 24;

fn grids() -> (TileGrid, TileGrid) {
    let edges = [0, 7, 32, 64, 65, 100, 160];
    (TileGrid::from_edges(edges).unwrap(), TileGrid::uniform(M, 10).unwrap())
}

fn dense<T: TileScalar>(values: &[f64], ld: usize) -> Generator<T> {
    let values = values.to_vec();
    generator(move |rows, cols, out: &mut [T], out_ld: usize| {
        for (j, column) in cols.enumerate() {
            for (i, row) in rows.clone().enumerate() {
                out[i + j * out_ld] = T::from_f64(values[row + column * ld]);
            }
        }
    })
}

fn sampled<T: TileScalar + Sample>(fill: &Generator<T>) -> Fill<T, Eight> {
    let fill = fill.clone();
    std::sync::Arc::new(move |rows, cols, out| {
        let (height, mut plain) = (rows.len(), vec![T::ZERO; out.len()]);
        fill(rows, cols, &mut plain, height)?;
        out.iter_mut().zip(plain).for_each(|(to, x)| *to = Stochastic::new(x));
        Ok(())
    })
}

fn without_perturbation_bits_are_plain<T: TileScalar + Sample>(rule: &str) {
    let rt = runtime(2, "prio");
    let (a, b) = (dense::<T>(&random_spd(N, 1.0, 20), N), dense::<T>(&random_rect(M, N, 21), M));
    let ((grid, rows), policy) = (grids(), SharedPolicy::from(rule.parse::<Rule>().unwrap()));
    let l = SymmetricTiled::generate(&rt, grid.clone(), &a).unwrap();
    let x = RectTiled::generate(&rt, "B", rows.clone(), grid.clone(), &b).unwrap();
    cholesky(&rt, &l, &policy).unwrap();
    solve(&rt, &l, &x, &policy).unwrap();

    let run = StochasticRun::new(&rt, Scope::with(0, Perturbation::None, Categories::NONE));
    let sampled_l = run.triangle(&grid, &sampled(&a)).unwrap();
    let sampled_x = run.rectangle(&rows, &grid, &sampled(&b)).unwrap();
    assert_eq!(run.cholesky(&sampled_l).unwrap(), None);
    run.solve(&sampled_l, &sampled_x).unwrap();
    let same = |plain: &[T], numbers: &[Stochastic<T, Eight>], shape: (usize, usize), lower: bool| {
        for at in (0..plain.len()).filter(|at| !lower || at % shape.0 >= at / shape.0) {
            assert!(numbers[at].samples().iter().all(|x| *x == plain[at]), "{at}: {:?}", numbers[at]);
        }
    };
    for i in 0..grid.tiles() {
        for j in 0..=i {
            let (plain, numbers) = (rt.read(l.tile(i, j)).unwrap(), rt.read(sampled_l.tile(i, j)).unwrap());
            same(plain.as_slice().unwrap(), &numbers, plain.shape(), i == j);
        }
    }
    for i in 0..rows.tiles() {
        for j in 0..grid.tiles() {
            let (plain, numbers) = (rt.read(x.tile(i, j)).unwrap(), rt.read(sampled_x.tile(i, j)).unwrap());
            same(plain.as_slice().unwrap(), &numbers, plain.shape(), false);
        }
    }
}

#[test]
fn without_perturbation_bits_are_those_of_plain_tiles() {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        without_perturbation_bits_are_plain::<f32>("fp32");
        without_perturbation_bits_are_plain::<f64>("fp64");
    }
}

/// Digits and the rest, but for the times.
fn judged(rt: &Runtime, last: f64) -> Trust {
    let a = dense::<f32>(&graded(random_spd(N, 1e-3, 20), N, last), N);
    let (b, (grid, rows)) = (dense::<f32>(&random_rect(M, N, 21), M), grids());
    let trust = trust::solve(rt, &grid, &a, &rows, &b, &TrustOptions::default()).unwrap();
    Trust { seconds: 0.0, plain_seconds: None, ..trust }
}

#[test]
fn digits_are_the_same_on_any_number_of_workers() {
    let (one, two) = (judged(&runtime(1, "prio"), 1.0), judged(&runtime(2, "prio"), 1.0));
    assert_eq!(one, two);
    let [l, pivots, x] = &one.maps[..] else { panic!("{:?}", one.maps) };
    assert_eq!((l.shape, pivots.shape, x.shape), ([6, 6], [N, 1], [3, 6]));
    assert_eq!(l.digits[1], 7, "exact zeros above the diagonal");
    assert!(pivots.digits[0] >= 6, "the first pivot is an entry of the matrix");
    assert!(pivots.worst().unwrap().0 < pivots.digits[0]);
    assert!(one.conclusions[0].contains("of 7 digits of X are exact"), "{:?}", one.conclusions);
}

/// Two equal rows but for the last bits: plain arithmetic may accept what rounding decides.
#[test]
fn a_pivot_of_noise_is_named() {
    let rt = runtime(2, "prio");
    let n = 40;
    let fill: Generator<f32> = generator(move |rows, cols, out: &mut [f32], ld: usize| {
        for (c, j) in cols.enumerate() {
            for (r, i) in rows.clone().enumerate() {
                out[r + c * ld] = 1.0 / (i + j + 1) as f32;
            }
        }
    });
    let grid = TileGrid::uniform(n, 16).unwrap();
    let numbers: Fill<f32, Eight> = sampled(&fill);
    let run = StochasticRun::new(&rt, Scope::new(1));
    let a = run.triangle(&grid, &numbers).unwrap();
    let lost = run.cholesky(&a).unwrap().unwrap();
    assert!((5..9).contains(&lost.row) && lost.tile == 0, "{lost:?}");
    assert!(trust::not_definite(&lost, 7).contains(&format!("ivot {}", lost.row)));
    let map = run.digits("L", &a).unwrap();
    assert_eq!((map.digits[0], map.digits[8]), (0, 0), "tiles after the pivot");
}

/// Samples of all tiles, digits, and instabilities that this rank counted.
fn factored<P: Session>(session: &P, matrix: &[f64]) -> (Vec<u32>, Vec<DigitMap>, Option<usize>, Report) {
    let a = dense::<f32>(matrix, N);
    let (b, (grid, rows)) = (dense::<f32>(&random_rect(M, N, 21), M), grids());
    let run = StochasticRun::new(session, Scope::new(3).on_rank(session.rank()));
    let l = run.triangle(&grid, &sampled(&a)).unwrap();
    let x = run.rectangle(&rows, &grid, &sampled(&b)).unwrap();
    let lost = run.cholesky(&l).unwrap().map(|lost| lost.row);
    run.solve(&l, &x).unwrap();
    let maps = vec![run.digits("L", &l).unwrap(), run.pivots(&l).unwrap(), run.digits("X", &x).unwrap()];
    let mut words = Vec::new();
    for tile in (0..rows.tiles()).flat_map(|i| (0..grid.tiles()).map(move |j| (i, j))) {
        if let Ok(tile) = session.read(x.tile(tile.0, tile.1)) {
            words.extend(Stochastic::words(&tile).iter().map(|sample| sample.to_bits()));
        }
    }
    (words, maps, lost, run.report())
}

/// Tiles that depend on a lost pivot have no value.
#[test]
fn samples_and_instabilities_are_the_same_on_any_number_of_ranks() {
    let mut matrix = random_spd(N, 1e-3, 20);
    for lost_row in [None, Some(120)] {
        lost_row.into_iter().for_each(|row| matrix[row + row * N] = 0.0);
        let (words, maps, lost, report) = factored(&runtime(2, "prio"), &matrix);
        assert_eq!((lost, report.is_empty()), (lost_row, false));
        for ranks in [1, 2, 4] {
            let found = run_local(ranks, 1, |cluster| factored(cluster, &matrix)).unwrap();
            let mut merged = Report::default();
            for (of_rank, of_maps, of_lost, own) in found {
                assert!(of_rank == words, "{ranks} ranks");
                assert_eq!((&of_maps, of_lost), (&maps, lost), "{ranks} ranks");
                merged.merge(&own);
            }
            assert_eq!(merged, report, "{ranks} ranks");
        }
    }
}

/// Scaling by powers of two changes no digit.
#[test]
fn systems_from_arrays_are_judged() {
    let (rt, a) = (runtime(2, "prio"), random_spd(N, 1e-3, 20));
    let judged = |a: &[f64], rule| {
        let factor = Cholesky::factor_tiled(&rt, N, a, rule, 64).unwrap();
        let of_factor = factor.trust(&rt, None, &TrustOptions::default()).unwrap();
        assert!(of_factor.conclusions[0].contains("digits of L are exact"), "{:?}", of_factor.conclusions);
        let maps = factor.trust(&rt, Some(&vec![1.0; 2 * N]), &TrustOptions::default()).unwrap().maps;
        assert_eq!(of_factor.maps.len(), 2);
        maps
    };
    for (rule, all) in [("fp32", 7), ("fp64", 15)] {
        let maps = judged(&a, rule);
        let [l, pivots, x] = &maps[..] else { panic!("{maps:?}") };
        assert_eq!((l.shape, pivots.shape, x.shape, x.all), ([3, 3], [N, 1], [1, 3], all));
        assert!(x.median().unwrap() + 6 >= all, "{x:?}");
        assert_eq!(maps, judged(&a.iter().map(|a| a * 4.0).collect::<Vec<f64>>(), rule));
    }
}
