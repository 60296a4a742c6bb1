//! Times of stochastic arithmetic beside plain loops, in turn in one run: the kernels of
//! `peers/cadna_speed.cpp`, and the product by the tile kernel, which packs its operands and has
//! fused operations. One line of JSON for each.
//!
//! `cargo run --release -p zellige-bench --example stochastic [-- ROUNDS]`

use std::hint::black_box;
use std::time::Instant;

use zellige_kernels::tile::{Elements, gemm};
use zellige_kernels::{MatMut, MatRef, Op};
use zellige_stochastic::{
    Categories, Eight, Perturbation, Samples, Scope, Sixteen, Stochastic, Three, element, vectorize,
};

/// Order of the matrices of a product.
const N: usize = 200;
/// Rows of the sparse matrix, and entries of each.
const ROWS: usize = 100_000;
const PER_ROW: usize = 27;

type Numbers<S> = Vec<Stochastic<f64, S>>;

#[inline(never)]
fn plain_product(a: &[f64], b: &[f64], c: &mut [f64]) {
    for i in 0..N {
        for j in 0..N {
            let mut sum = 0.0;
            for k in 0..N {
                sum += a[i * N + k] * b[k * N + j];
            }
            c[i * N + j] = sum;
        }
    }
}

#[inline(never)]
fn product<S: Samples>(a: &Numbers<S>, b: &Numbers<S>, c: &mut Numbers<S>) {
    vectorize(
        #[inline(always)]
        || {
            for i in 0..N {
                for j in 0..N {
                    let mut sum = Stochastic::new(0.0);
                    for k in 0..N {
                        sum += a[i * N + k] * b[k * N + j];
                    }
                    c[i * N + j] = sum;
                }
            }
        },
    );
}

/// The same product by the tile kernel, of matrices in columns.
#[inline(never)]
fn tile_product<S: Samples>(a: &Numbers<S>, b: &Numbers<S>, c: &mut Numbers<S>) {
    let view = |x| MatRef::new(x, N, N, N).expect("square");
    let out = MatMut::new(c, N, N, N).expect("square");
    gemm(1.0, view(b), Op::None, view(a), Op::None, 0.0, out, &mut Elements::default()).expect("shapes fit");
}

/// Sparse matrix of `cadna_speed.cpp`: a grid of 50 x 40 x 50, closed modulo the number of rows.
struct Csr {
    columns: Vec<u32>,
    values: Vec<f64>,
}

impl Csr {
    fn new() -> Csr {
        let mut matrix = Csr { columns: Vec::new(), values: Vec::new() };
        for i in 0..ROWS as i64 {
            let mut row = Vec::new();
            for (dz, dy, dx) in
                (-1..=1).flat_map(|z| (-1..=1).flat_map(move |y| (-1..=1).map(move |x| (z, y, x))))
            {
                row.push((i + dx + 50 * dy + 2000 * dz).rem_euclid(ROWS as i64) as u32);
            }
            row.sort_unstable();
            matrix.columns.extend(row);
            matrix.values.extend((0..PER_ROW).map(|k| 1.0 / (1 + k + i as usize % 7) as f64));
        }
        matrix
    }

    #[inline(never)]
    fn plain(&self, x: &[f64], y: &mut [f64]) {
        for (i, y) in y.iter_mut().enumerate() {
            let row = i * PER_ROW..(i + 1) * PER_ROW;
            let entries = self.columns[row.clone()].iter().zip(&self.values[row]);
            *y = entries.fold(0.0, |sum, (&j, &a)| sum + a * x[j as usize]);
        }
    }

    #[inline(never)]
    fn stochastic<S: Samples>(&self, x: &Numbers<S>, y: &mut Numbers<S>) {
        vectorize(
            #[inline(always)]
            || {
                for i in 0..ROWS {
                    element(i as u64);
                    let mut sum = Stochastic::new(0.0);
                    for k in i * PER_ROW..(i + 1) * PER_ROW {
                        sum += Stochastic::new(self.values[k]) * x[self.columns[k] as usize];
                    }
                    y[i] = sum;
                }
            },
        );
    }
}

fn seconds(f: impl FnOnce()) -> f64 {
    let start = Instant::now();
    f();
    start.elapsed().as_secs_f64()
}

fn line(kernel: &str, samples: usize, plain: f64, time: f64) {
    println!(
        "{{\"kernel\": \"{kernel}\", \"samples\": {samples}, \"plain_seconds\": {plain:.6}, \"seconds\": {time:.6}, \"ratio\": {:.2}}}",
        time / plain
    );
}

fn run<S: Samples>(rounds: usize, matrix: &Csr) {
    let numbers = |x: &[f64]| x.iter().map(|&x| Stochastic::new(x)).collect::<Numbers<S>>();
    let a: Vec<f64> =
        (0..N * N).map(|at| (1 + (37 * (at / N) + 11 * (at % N)) % 101) as f64 / 102.0).collect();
    let b: Vec<f64> = (0..N * N).map(|at| a[at % N * N + at / N]).collect();
    let x: Vec<f64> = (0..ROWS).map(|i| 1.0 + (i % 7) as f64 / 10.0).collect();
    let (mut c, mut y) = (vec![0.0; N * N], vec![0.0; ROWS]);
    let (sa, sb, sx) = (numbers(&a), numbers(&b), numbers(&x));
    let (mut sc, mut sy) = (numbers(&c), numbers(&y));
    let mut best = [f64::INFINITY; 5];
    for round in 0..rounds {
        // Detection is on, in the categories that CADNA has.
        let scope = Scope::with(round as u64, Perturbation::Random, Categories::CADNA);
        let times = [
            seconds(|| plain_product(&a, &b, &mut c)),
            seconds(|| scope.run(|| product(&sa, &sb, &mut sc))),
            seconds(|| matrix.plain(&x, &mut y)),
            seconds(|| scope.run(|| matrix.stochastic(&sx, &mut sy))),
            seconds(|| scope.run(|| tile_product(&sa, &sb, &mut sc))),
        ];
        best.iter_mut().zip(times).for_each(|(best, time)| *best = best.min(time));
        black_box((&c, &sc, &y, &sy));
    }
    line("product", S::COUNT, best[0], best[1]);
    line("tile product", S::COUNT, best[0], best[4]);
    line("csr", S::COUNT, best[2], best[3]);
}

fn main() {
    let rounds = std::env::args().nth(1).map_or(5, |text| text.parse().expect("ROUNDS is a number"));
    let matrix = Csr::new();
    run::<Three>(rounds, &matrix);
    run::<Eight>(rounds, &matrix);
    run::<Sixteen>(rounds, &matrix);
}
