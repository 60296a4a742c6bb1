//! Matrices with known properties, and a factorisation written down once more, in `f64` and without
//! tiles.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zellige_dense::{Generator, from_dense, generator};
use zellige_runtime::Runtime;

pub fn runtime(workers: usize, policy: &str) -> Runtime {
    Runtime::builder().workers(workers).policy(policy).build().unwrap()
}

/// Returns `G G^T / n + shift I` with entries of `G` uniform in (-1, 1): well conditioned.
pub fn random_spd(n: usize, shift: f64, seed: u64) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let g: Vec<f64> = (0..n * n).map(|_| rng.random_range(-1.0..1.0)).collect();
    let mut a = vec![0.0; n * n];
    for j in 0..n {
        for k in 0..n {
            let factor = g[j + k * n] / n as f64;
            for i in 0..n {
                a[i + j * n] += g[i + k * n] * factor;
            }
        }
        a[j + j * n] += shift;
    }
    a
}

/// Returns `D A D` with `D` decreasing from 1 to `last`.
pub fn graded(mut a: Vec<f64>, n: usize, last: f64) -> Vec<f64> {
    let d = |i: usize| last.powf(i as f64 / (n - 1) as f64);
    for j in 0..n {
        for i in 0..n {
            a[i + j * n] *= d(i) * d(j);
        }
    }
    a
}

pub fn random_rect(m: usize, n: usize, seed: u64) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..m * n).map(|_| rng.random_range(-1.0..1.0)).collect()
}

pub fn dense64(values: &[f64], ld: usize) -> Generator<f64> {
    from_dense(values.to_vec(), ld)
}

pub fn dense32(values: &[f64], ld: usize) -> Generator<f32> {
    let values = values.to_vec();
    generator(move |rows, cols, out: &mut [f32], out_ld: usize| {
        for (j, column) in cols.enumerate() {
            for (i, row) in rows.clone().enumerate() {
                out[i + j * out_ld] = values[row + column * ld] as f32;
            }
        }
    })
}

/// Returns the lower Cholesky factor, column by column, in `f64`.
pub fn reference_cholesky(a: &[f64], n: usize) -> Vec<f64> {
    let mut l = vec![0.0; n * n];
    for j in 0..n {
        let mut d = a[j + j * n];
        for k in 0..j {
            d -= l[j + k * n] * l[j + k * n];
        }
        let d = d.sqrt();
        l[j + j * n] = d;
        for i in j + 1..n {
            let mut s = a[i + j * n];
            for k in 0..j {
                s -= l[i + k * n] * l[j + k * n];
            }
            l[i + j * n] = s / d;
        }
    }
    l
}

/// Returns `||X - Y||_F / ||Y||_F`.
pub fn distance(x: impl IntoIterator<Item = f64>, y: &[f64]) -> f64 {
    let (mut error, mut norm) = (0.0, 0.0);
    let mut count = 0;
    for (x, y) in x.into_iter().zip(y) {
        error += (x - y) * (x - y);
        norm += y * y;
        count += 1;
    }
    assert_eq!(count, y.len());
    (error / norm).sqrt()
}

/// Returns `||A - L L^T||_F / ||A||_F` without tiles.
pub fn reference_backward_error(a: &[f64], l: &[f64], n: usize) -> f64 {
    let mut product = vec![0.0; n * n];
    for j in 0..n {
        for k in 0..=j {
            let factor = l[j + k * n];
            for i in k..n {
                product[i + j * n] += l[i + k * n] * factor;
            }
        }
    }
    // Above the diagonal the loops leave out what the lower triangle has: mirror it.
    for j in 0..n {
        for i in 0..j {
            product[i + j * n] = product[j + i * n];
        }
    }
    distance(product, a)
}

/// Returns `X A` for `X` of `m` rows.
pub fn times(x: &[f64], a: &[f64], m: usize, n: usize) -> Vec<f64> {
    let mut b = vec![0.0; m * n];
    for j in 0..n {
        for k in 0..n {
            for i in 0..m {
                b[i + j * m] += x[i + k * m] * a[k + j * n];
            }
        }
    }
    b
}
