//! Products, solves and factorisations, written as their definitions.
//!
//! Sums are computed in f64 and rounded once to the format of the description, except with
//! [`Compute::F16`], whose running sum is rounded after every term.

use super::number::{decode, encode, to_f16, to_tf32};
use super::{Twin, TwinArg};
use crate::call::{Compute, Element, Gemm, Matrix, Potrf, Side, Syrk, Transpose, Trsm};

/// The library routines and no kernels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

impl Twin for Reference {}

/// A host version of one kernel.
pub(crate) type HostKernel =
    Box<dyn Fn([u32; 3], [u32; 3], &mut [TwinArg<'_>]) -> Result<(), String> + Send + Sync>;

/// A matrix's numbers, column by column without gaps.
struct Dense {
    rows: usize,
    numbers: Vec<f64>,
}

impl Dense {
    fn read(matrix: &Matrix, rows: u32, columns: u32, bytes: &[u8]) -> Dense {
        let (rows, size) = (rows as usize, matrix.element.bytes() as usize);
        let mut numbers = Vec::with_capacity(rows * columns as usize);
        for j in 0..columns as usize {
            for i in 0..rows {
                numbers.push(decode(matrix.element, &bytes[(j * matrix.ld as usize + i) * size..]));
            }
        }
        Dense { rows, numbers }
    }

    fn at(&self, i: usize, j: usize) -> f64 {
        self.numbers[j * self.rows + i]
    }

    fn set(&mut self, i: usize, j: usize, x: f64) {
        self.numbers[j * self.rows + i] = x;
    }

    /// `op` of it.
    fn of(&self, op: Transpose, i: usize, j: usize) -> f64 {
        match op {
            Transpose::No => self.at(i, j),
            Transpose::Yes => self.at(j, i),
        }
    }
}

fn write(matrix: &Matrix, i: usize, j: usize, x: f64, bytes: &mut [u8]) {
    let size = matrix.element.bytes() as usize;
    encode(matrix.element, x, &mut bytes[(j * matrix.ld as usize + i) * size..]);
}

fn entry(matrix: &Matrix, i: usize, j: usize, bytes: &[u8]) -> f64 {
    decode(matrix.element, &bytes[(j * matrix.ld as usize + i) * matrix.element.bytes() as usize..])
}

/// `alpha sum + beta c`, with C read only where beta is not 0, rounded to what sums are held in.
fn combine(compute: Compute, alpha: f64, sum: f64, beta: f64, c: impl FnOnce() -> f64) -> f64 {
    let x = alpha * sum + if beta == 0.0 { 0.0 } else { beta * c() };
    match compute {
        Compute::F64 => x,
        Compute::F32 | Compute::Tf32 => x as f32 as f64,
        Compute::F16 => to_f16(x),
    }
}

pub(super) fn gemm(gemm: &Gemm, [alpha, beta]: [f64; 2], a: &[u8], b: &[u8], c: &mut [u8]) {
    let (rows, columns) = gemm.shape_a();
    let a = operand(gemm, &gemm.a, rows, columns, a);
    let (rows, columns) = gemm.shape_b();
    let b = operand(gemm, &gemm.b, rows, columns, b);
    for j in 0..gemm.n as usize {
        for i in 0..gemm.m as usize {
            let terms = (0..gemm.k as usize).map(|l| a.of(gemm.op_a, i, l) * b.of(gemm.op_b, l, j));
            let sum = total(gemm.compute, terms);
            let x = combine(gemm.compute, alpha, sum, beta, || entry(&gemm.c, i, j, c));
            write(&gemm.c, i, j, x, c);
        }
    }
}

fn operand(gemm: &Gemm, matrix: &Matrix, rows: u32, columns: u32, bytes: &[u8]) -> Dense {
    // An empty sum has operands without entries, and possibly without an address.
    let columns = if gemm.k == 0 || gemm.m == 0 || gemm.n == 0 { 0 } else { columns };
    let mut dense = Dense::read(matrix, rows, columns, bytes);
    if gemm.compute == Compute::Tf32 {
        dense.numbers.iter_mut().for_each(|x| *x = to_tf32(*x));
    }
    dense
}

/// Returns the sum of products in the accumulator's precision.
fn total(compute: Compute, terms: impl Iterator<Item = f64>) -> f64 {
    match compute {
        Compute::F64 => terms.sum(),
        Compute::F32 | Compute::Tf32 => terms.sum::<f64>() as f32 as f64,
        Compute::F16 => terms.fold(0.0, |sum, term| to_f16(sum + term)),
    }
}

pub(super) fn trsm(trsm: &Trsm, l: &[u8], b: &mut [u8]) {
    if trsm.m == 0 || trsm.n == 0 {
        return;
    }
    let l = Dense::read(&trsm.l, trsm.order(), trsm.order(), l);
    let mut x = Dense::read(&trsm.b, trsm.m, trsm.n, b);
    let (m, n) = (trsm.m as usize, trsm.n as usize);
    match trsm.side {
        Side::Left => {
            for j in 0..n {
                substitute(&l, trsm.op == Transpose::No, m, &mut x, |i| (i, j));
            }
        }
        // X op(L) = B is op(L)^T X^T = B^T.
        Side::Right => {
            for i in 0..m {
                substitute(&l, trsm.op == Transpose::Yes, n, &mut x, |j| (i, j));
            }
        }
    }
    for j in 0..n {
        for i in 0..m {
            write(&trsm.b, i, j, x.at(i, j), b);
        }
    }
}

/// Solves `L x = b` (`forward`) or `L^T x = b` for the vector of `x` at the positions of `place`.
fn substitute(
    l: &Dense,
    forward: bool,
    order: usize,
    x: &mut Dense,
    place: impl Fn(usize) -> (usize, usize),
) {
    for step in 0..order {
        let row = if forward { step } else { order - 1 - step };
        let known = if forward { 0..row } else { row + 1..order };
        let (i, j) = place(row);
        let mut rest = x.at(i, j);
        for column in known {
            let factor = if forward { l.at(row, column) } else { l.at(column, row) };
            let (p, q) = place(column);
            rest -= factor * x.at(p, q);
        }
        x.set(i, j, rest / l.at(row, row));
    }
}

pub(super) fn syrk(syrk: &Syrk, a: &[u8], c: &mut [u8]) {
    let compute = compute_of(syrk.c.element);
    let columns = if syrk.n == 0 { 0 } else { syrk.k };
    let a = Dense::read(&syrk.a, syrk.n, columns, a);
    for j in 0..syrk.n as usize {
        for i in j..syrk.n as usize {
            let sum = total(compute, (0..columns as usize).map(|l| a.at(i, l) * a.at(j, l)));
            let x = combine(compute, syrk.alpha, sum, syrk.beta, || entry(&syrk.c, i, j, c));
            write(&syrk.c, i, j, x, c);
        }
    }
}

fn compute_of(element: Element) -> Compute {
    if element == Element::F64 { Compute::F64 } else { Compute::F32 }
}

pub(super) fn potrf(potrf: &Potrf, a: &mut [u8]) -> i32 {
    let n = potrf.n as usize;
    if n == 0 {
        return 0;
    }
    let mut l = Dense::read(&potrf.a, potrf.n, potrf.n, a);
    let info = factor(&mut l, n);
    for j in 0..n {
        for i in j..n {
            write(&potrf.a, i, j, l.at(i, j), a);
        }
    }
    info
}

/// The lower triangle becomes its Cholesky factor, column by column; stops at a pivot that is not
/// positive.
fn factor(l: &mut Dense, n: usize) -> i32 {
    for j in 0..n {
        let pivot = l.at(j, j) - (0..j).map(|k| l.at(j, k) * l.at(j, k)).sum::<f64>();
        // Like cuSOLVER, this takes NaN for positive.
        if pivot <= 0.0 {
            return j as i32 + 1;
        }
        let pivot = pivot.sqrt();
        l.set(j, j, pivot);
        for i in j + 1..n {
            let rest = l.at(i, j) - (0..j).map(|k| l.at(i, k) * l.at(j, k)).sum::<f64>();
            l.set(i, j, rest / pivot);
        }
    }
    0
}
