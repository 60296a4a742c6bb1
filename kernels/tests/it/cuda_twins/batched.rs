//! Batches of small products: the stated chain of operations bit for bit, and its error against
//! f64.

use half::{bf16, f16};
use rand::RngExt;
use zellige_gpu::{Address, Element, Matrix};
use zellige_kernels::cuda::{SMALL_BATCH, SmallProduct, SmallProducts, small_products};

use super::run;
use super::tile::{Cell, Tile, rng, same_f32};

/// Element type of A and B.
trait Operand: bytemuck::Pod {
    const ELEMENT: Element;
    fn round(x: f32) -> Self;
    fn value(self) -> f32;
}

impl Operand for f32 {
    const ELEMENT: Element = Element::F32;
    fn round(x: f32) -> f32 {
        x
    }
    fn value(self) -> f32 {
        self
    }
}

impl Operand for f16 {
    const ELEMENT: Element = Element::F16;
    fn round(x: f32) -> f16 {
        f16::from_f32(x)
    }
    fn value(self) -> f32 {
        self.to_f32()
    }
}

impl Operand for bf16 {
    const ELEMENT: Element = Element::BF16;
    fn round(x: f32) -> bf16 {
        bf16::from_f32(x)
    }
    fn value(self) -> f32 {
        self.to_f32()
    }
}

struct Product<T> {
    a: Tile<T>,
    b: Tile<T>,
    c: Tile<f32>,
    scales: [Cell<i32>; 2],
}

/// Checks a batch entry by entry. Returns false without g++.
fn check<T: Operand>(
    count: usize,
    shape @ (m, n, k): (usize, usize, usize),
    transposed: bool,
    (alpha, beta): (f32, f32),
    seed: u64,
) -> bool {
    let mut rng = rng(seed);
    let mut tile = |rows, cols, extra| {
        Tile::new((rows, cols, rows + extra), T::ELEMENT, |_, _| T::round(rng.random_range(-1.0..1.0f32)))
    };
    let mut batch: Vec<Product<T>> = (0..count as i32)
        .map(|at| {
            let a = tile(m, k, 1);
            let b = if transposed { tile(n, k, 3) } else { tile(k, n, 3) };
            let c = tile(m, n, 2);
            // With beta 0 the contents of C must not matter.
            let c = Tile::new((m, n, m + 2), Element::F32, |i, j| {
                if beta == 0.0 { f32::NAN } else { c.at(i, j).value() }
            });
            // Within the range of f32, and both beyond it where they meet in the middle.
            let scales = if at % 2 == 0 { [3 * at, -at] } else { [-200 - at, 197] };
            Product { a, b, c, scales: scales.map(Cell::new) }
        })
        .collect();
    let before: Vec<Tile<f32>> = batch.iter().map(|p| p.c.clone()).collect();
    let at = |m: Matrix| m.at;
    let place = |p: &mut Product<T>| SmallProduct {
        tiles: [at(p.a.matrix()), at(p.b.matrix()), at(p.c.matrix())],
        scales: p.scales.each_mut().map(Cell::at),
    };
    let places: Vec<SmallProduct> = batch.iter_mut().map(place).collect();
    let ld = [batch[0].a.ld as u32, batch[0].b.ld as u32, batch[0].c.ld as u32];
    let shape = (shape.0 as u32, shape.1 as u32, shape.2 as u32);
    let products = SmallProducts { shape, alpha, ld, element: T::ELEMENT, transposed, beta };
    if !run(&small_products(&products, &places).unwrap(), seed) {
        return false;
    }
    for (product, before) in batch.iter().zip(&before) {
        product.c.entries();
        // Numbers in f32 have no scale.
        let scaled = T::ELEMENT != Element::F32;
        let scale = if scaled { product.scales.iter().map(Cell::get).sum::<i32>() } else { 0 };
        let unit = 2.0f32.powi(scale);
        for j in 0..n {
            for i in 0..m {
                let factors = |l| {
                    let b = if transposed { product.b.at(j, l) } else { product.b.at(l, j) };
                    (product.a.at(i, l).value(), b.value())
                };
                let s = (0..k).map(factors).fold(0.0f32, |s, (a, b)| a.mul_add(b, s)) * unit;
                let old = before.at(i, j);
                let want = if beta == 0.0 { alpha * s } else { alpha.mul_add(s, beta * old) };
                let got = product.c.at(i, j);
                assert!(same_f32(got, want), "{got:e} {want:e}");
                let wide = |x: f32| f64::from(x);
                let (exact, size) = (0..k).map(factors).fold((0.0, 0.0), |(sum, size), (a, b)| {
                    (sum + wide(a) * wide(b), size + (wide(a) * wide(b)).abs())
                });
                let (exact, size) = (exact * wide(unit), size * wide(unit));
                let old = if beta == 0.0 { 0.0 } else { wide(beta) * wide(old) };
                let bound =
                    2.0f64.powi(-24) * ((k as f64 + 2.0) * wide(alpha).abs() * size + 2.0 * old.abs());
                assert!((wide(got) - (wide(alpha) * exact + old)).abs() <= bound, "{got:e}");
            }
        }
    }
    true
}

#[test]
fn batches_follow_the_stated_order() {
    let mut seed = 0;
    for shape in [(1, 1, 1), (64, 64, 64), (33, 5, 17), (7, 64, 16), (20, 31, 0), (64, 2, 130)] {
        for transposed in [false, true] {
            for factors in [(-1.0, 1.0), (0.5, 0.0), (3.0, -0.25)] {
                seed += 1;
                let count = [3, 1, SMALL_BATCH][seed as usize % 3];
                let there = check::<f32>(count, shape, transposed, factors, seed)
                    && check::<f16>(count, shape, transposed, factors, seed)
                    && check::<bf16>(count, shape, transposed, factors, seed);
                if !there {
                    return;
                }
            }
        }
    }
}

#[test]
fn an_empty_batch_does_nothing() {
    let products = SmallProducts {
        shape: (4, 4, 4),
        alpha: 1.0,
        ld: [4; 3],
        element: Element::F32,
        transposed: true,
        beta: 1.0,
    };
    run(&small_products(&products, &[]).unwrap(), 1);
    let none = SmallProduct { tiles: [Address(64); 3], scales: [Address(64); 2] };
    let error = small_products(&products, &[none; SMALL_BATCH + 1]).unwrap_err().to_string();
    assert!(error.contains("the batch is 33, the kernel takes at most 32"), "{error}");
}
