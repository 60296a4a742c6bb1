//! Measures: the stated order bit for bit, the stated error against a compensated sum.

use rand::RngExt;
use zellige_gpu::Element;
use zellige_kernels::Scalar;
use zellige_kernels::formats::{frobenius_norm, max_abs, scale_exponent};

use super::tile::{Numbers, SHAPES, Tile, measured, rng, same_f64};

/// Adds in pairs: `t` and `t + half`, and again.
fn tree(mut sums: Vec<f64>) -> f64 {
    while sums.len() > 1 {
        let upper = sums.split_off(sums.len() / 2);
        sums.iter_mut().zip(upper).for_each(|(a, b)| *a += b);
    }
    sums[0]
}

/// Returns the threads of a block, as in the source.
fn threads(rows: usize) -> usize {
    [32, 64, 128].into_iter().find(|&t| 8 * t >= rows).unwrap_or(256)
}

/// The order that the source states, squares in units of `2^exp`.
fn in_stated_order<T: Scalar>(a: &Tile<T>, exp: i32) -> f64 {
    let blocks = a.cols.clamp(1, 128);
    let half = -exp / 2;
    let factors = (2.0f64.powi(half), 2.0f64.powi(-exp - half));
    let mut of_blocks = vec![0.0; 128];
    for (b, sum) in of_blocks.iter_mut().enumerate().take(blocks) {
        let threads = threads(a.rows);
        let mut of_threads = vec![0.0; threads];
        for j in (b..a.cols).step_by(blocks) {
            for i in 0..a.rows {
                let x = a.at(i, j).to_f64() * factors.0 * factors.1;
                of_threads[i % threads] += x * x;
            }
        }
        *sum = tree(of_threads);
    }
    let half = exp / 2;
    tree(of_blocks).sqrt() * 2.0f64.powi(half) * 2.0f64.powi(exp - half)
}

/// The norm by a sum that carries its error along (Neumaier), squares relative to the largest.
fn accurate<T: Scalar>(a: &Tile<T>, max: f64) -> f64 {
    if max == 0.0 || !max.is_finite() {
        return max;
    }
    let (mut sum, mut error) = (0.0f64, 0.0f64);
    for x in a.entries() {
        let x = x.to_f64() / max;
        let square = x * x;
        error += x.mul_add(x, -square);
        let next = sum + square;
        error += if sum >= square { (sum - next) + square } else { (square - next) + sum };
        sum = next;
    }
    (sum + error).sqrt() * max
}

fn check<T: Scalar>(tile: &mut Tile<T>, seed: u64, scaled: bool) -> bool {
    let Some(cell) = measured(tile, seed) else { return false };
    let (got, what) = (cell.get(), format!("{} x {}", tile.rows, tile.cols));
    let max = max_abs(tile.view());
    assert!(same_f64(got.max, max), "{what}: {:e} {max:e}", got.max);
    assert_eq!(got.exponent, scale_exponent(max));
    assert_eq!(got.raise, if max > 32768.0 { scale_exponent(max) } else { 0 });
    let plain = max == 0.0 || !max.is_finite();
    let model = match (scaled, plain) {
        (true, true) => max,
        (true, false) => in_stated_order(tile, scale_exponent(max)),
        (false, _) => in_stated_order(tile, 0),
    };
    assert!(same_f64(got.norm, model), "{what}: {:e} {model:e}", got.norm);
    let cpu = frobenius_norm(tile.view());
    assert_eq!(got.norm.is_nan(), cpu.is_nan(), "{what}");
    let want = accurate(tile, max);
    if want.is_finite() && want > f64::MIN_POSITIVE {
        let chain = tile.rows.div_ceil(threads(tile.rows)) * tile.cols.div_ceil(128);
        let bound = (chain as f64 + 19.0) * f64::EPSILON / 2.0;
        // The reference itself rounds its quotients, twice each.
        let slack = 4.0 * f64::EPSILON;
        assert!((got.norm / want - 1.0).abs() <= bound + slack, "{what}: {:e} {want:e}", got.norm);
        assert!((got.norm / cpu - 1.0).abs() < 1e-12, "{what}: {:e} {cpu:e}", got.norm);
    }
    true
}

#[test]
fn f32_tiles() {
    for (s, shape) in SHAPES.into_iter().chain([(700, 260, 700)]).enumerate() {
        for (k, numbers) in Numbers::ALL.into_iter().enumerate() {
            let seed = (s * 10 + k) as u64;
            if !check(&mut numbers.tile(shape, seed), seed, false) {
                return;
            }
        }
    }
}

#[test]
fn f64_tiles_from_the_smallest_to_the_largest_numbers() {
    for (s, shape) in SHAPES.into_iter().enumerate() {
        for (k, exp) in [0, -400, 400, -1073, -1030, 1022].into_iter().enumerate() {
            let seed = (s * 10 + k) as u64;
            let mut rng = rng(seed);
            let mut tile = Tile::new(shape, Element::F64, |_, _| {
                let x: f64 = rng.random_range(-1.0..1.0);
                x * 2.0f64.powi(exp / 2) * 2.0f64.powi(exp - exp / 2)
            });
            if !check(&mut tile, seed, true) {
                return;
            }
        }
    }
}

#[test]
fn what_is_not_a_number_is_seen_wherever_it_stands() {
    for x in [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0] {
        for place in [0, 37, 299 * 3] {
            let fill = |i: usize, j: usize| if i + 300 * j == place { x } else { 0.0 };
            let mut wide = Tile::new((300, 3, 301), Element::F64, fill);
            let mut single = Tile::new((300, 3, 301), Element::F32, |i, j| fill(i, j) as f32);
            if !check(&mut wide, 3, true) || !check(&mut single, 3, false) {
                return;
            }
        }
    }
}
