//! Triangular solves with a lower triangular matrix.
//!
//! Triangles of order at most [`BLOCK`] are solved by substitution, never through an inverse, so
//! the solution is backward stable row by row: `(X + dX) op(L) = B` with `|dX L| <= c n u |X| |L|`.
//! Division by the diagonal is a multiplication by its rounded reciprocal, one more rounding per
//! entry.

use pulp::{Simd, WithSimd};

use super::micro::{AREA, Aligned, NARROW, WIDE, load_block, solve_diagonal, store_block, subtract_products};
use super::transpose::SQUARE;
use super::{BLOCK, Op, gemm::product, middle};
use crate::error::check_shape;
use crate::{KernelError, MatMut, MatRef, Scalar};

/// Solves `X op(L) = B` in place of `B` (`m x n`), `L` lower triangular of order `n`; its strict
/// upper part is not read.
///
/// A zero on the diagonal gives infinities and NaN, as in the BLAS.
///
/// # Errors
/// [`KernelError::Shape`] when `L` is not square of `B`'s column count; `B` is then untouched.
pub fn trsm_right_lower<T: Scalar>(op: Op, l: MatRef<'_, T>, b: MatMut<'_, T>) -> Result<(), KernelError> {
    check_shape("trsm_right_lower", "L", l.shape(), (b.cols(), b.cols()))?;
    right(op, l, b);
    Ok(())
}

/// Solves `op(L) X = B` in place of `B` (`m x n`), `L` lower triangular of order `m`; its strict
/// upper part is not read.
///
/// # Errors
/// [`KernelError::Shape`] when `L` is not square of `B`'s row count; `B` is then untouched.
pub fn trsm_left_lower<T: Scalar>(op: Op, l: MatRef<'_, T>, b: MatMut<'_, T>) -> Result<(), KernelError> {
    check_shape("trsm_left_lower", "L", l.shape(), (b.rows(), b.rows()))?;
    left(op, l, b);
    Ok(())
}

/// `X L^T = B` from the first columns on, `X L = B` from the last ones on.
pub(crate) fn right<T: Scalar>(op: Op, l: MatRef<'_, T>, b: MatMut<'_, T>) {
    let n = l.rows();
    if b.is_empty() {
        return;
    }
    if n <= BLOCK {
        solve_block(Side::Right, op, l, b);
        return;
    }
    let h = middle(n);
    let (l11, l21, l22) = (l.sub(0, 0, h, h), l.sub(h, 0, n - h, h), l.sub(h, h, n - h, n - h));
    let (mut b1, mut b2) = b.split_cols(h);
    match op {
        Op::Trans => {
            right(op, l11, b1.reborrow());
            product(-T::ONE, b1.as_ref(), Op::None, l21, Op::Trans, T::ONE, b2.reborrow());
            right(op, l22, b2);
        }
        Op::None => {
            right(op, l22, b2.reborrow());
            product(-T::ONE, b2.as_ref(), Op::None, l21, Op::None, T::ONE, b1.reborrow());
            right(op, l11, b1);
        }
    }
}

/// `L X = B` from the first rows on, `L^T X = B` from the last ones on.
fn left<T: Scalar>(op: Op, l: MatRef<'_, T>, b: MatMut<'_, T>) {
    let n = l.rows();
    if b.is_empty() {
        return;
    }
    if n <= BLOCK {
        solve_block(Side::Left, op, l, b);
        return;
    }
    let h = middle(n);
    let (l11, l21, l22) = (l.sub(0, 0, h, h), l.sub(h, 0, n - h, h), l.sub(h, h, n - h, n - h));
    let (mut b1, mut b2) = b.split_rows(h);
    match op {
        Op::None => {
            left(op, l11, b1.reborrow());
            product(-T::ONE, l21, Op::None, b1.as_ref(), Op::None, T::ONE, b2.reborrow());
            left(op, l22, b2);
        }
        Op::Trans => {
            left(op, l22, b2.reborrow());
            product(-T::ONE, l21, Op::Trans, b2.as_ref(), Op::None, T::ONE, b1.reborrow());
            left(op, l11, b1);
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Left,
    Right,
}

/// Solves with one triangle of order at most [`BLOCK`].
///
/// The four cases reduce to one. A left solve is a right solve of the transposed right-hand side. A
/// backward solve is a forward solve after rows and columns of the triangle are numbered from the
/// end.
fn solve_block<T: Scalar>(side: Side, op: Op, l: MatRef<'_, T>, b: MatMut<'_, T>) {
    let n = l.rows();
    let backwards = (side == Side::Right) == (op == Op::None);
    // triangle[k * BLOCK + j]: the coefficient of unknown k in equation j > k.
    let mut triangle = Aligned::<T, AREA>::zeroed();
    let mut reciprocals = [T::ONE; BLOCK];
    for k in 0..n {
        let col = l.col(k);
        if backwards {
            for i in k + 1..n {
                triangle.0[(n - 1 - i) * BLOCK + (n - 1 - k)] = col[i];
            }
            reciprocals[n - 1 - k] = T::ONE / col[k];
        } else {
            triangle.0[k * BLOCK + k + 1..k * BLOCK + n].copy_from_slice(&col[k + 1..]);
            reciprocals[k] = T::ONE / col[k];
        }
    }
    pulp::Arch::new().dispatch(Solve {
        n,
        backwards,
        transposed: side == Side::Left,
        triangle: &triangle.0,
        reciprocals: &reciprocals,
        b,
    });
}

struct Solve<'a, T> {
    n: usize,
    backwards: bool,
    transposed: bool,
    triangle: &'a [T; AREA],
    reciprocals: &'a [T; BLOCK],
    b: MatMut<'a, T>,
}

impl<T: Scalar> WithSimd for Solve<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        if S::REGISTER_COUNT >= 32 {
            self.strips::<S, WIDE>(s);
        } else {
            self.strips::<S, NARROW>(s);
        }
    }
}

/// Rows of right-hand side in a strip, at most: two of the widest registers.
const STRIP: usize = 32;

impl<T: Scalar> Solve<'_, T> {
    /// Strips of two registers of rows, so that the chain of dependent operations in a diagonal
    /// block is shared by many rows; fewer at the end.
    #[inline(always)]
    fn strips<S: Simd, const N: usize>(mut self, s: S) {
        let lanes = T::count::<S>();
        let total = if self.transposed { self.b.cols() } else { self.b.rows() };
        let mut strip = Aligned::<T, { STRIP * BLOCK }>::zeroed();
        let mut at = 0;
        while at < total {
            let left = total - at;
            if left > lanes {
                self.strip::<S, 2, N>(s, &mut strip.0, at, left.min(2 * lanes));
                at += 2 * lanes;
            } else {
                self.strip::<S, 1, N>(s, &mut strip.0, at, left);
                at += lanes;
            }
        }
    }

    /// The `here` rows from `at` on.
    #[inline(always)]
    fn strip<S: Simd, const V: usize, const N: usize>(
        &mut self,
        s: S,
        strip: &mut [T],
        at: usize,
        here: usize,
    ) {
        let height = V * T::count::<S>();
        let padded = self.n.next_multiple_of(N);
        let strip = &mut strip[..height * padded];
        // Padded unknowns are zero from the start; an earlier, higher strip may have left something
        // there.
        strip[height * self.n..].fill(T::ZERO);
        self.read(s, strip, height, at, here);
        for p in (0..padded).step_by(N) {
            let acc = load_block::<T, S, V, N>(s, &strip[p * height..], height);
            let acc = subtract_products(s, acc, strip, height, &self.triangle[p..], BLOCK, p);
            let acc = solve_diagonal(s, acc, &self.triangle[p * BLOCK + p..], BLOCK, &self.reciprocals[p..]);
            store_block::<T, S, V, N>(&mut strip[p * height..], height, &acc);
        }
        self.write(s, strip, height, at, here);
    }

    /// Lanes beyond `here` keep what they had: lanes never meet.
    #[inline(always)]
    fn read<S: Simd>(&self, s: S, strip: &mut [T], height: usize, at: usize, here: usize) {
        let (n, b) = (self.n, self.b.as_ref());
        if !self.transposed {
            for j in 0..n {
                let to = &mut strip[self.place(j) * height..][..here];
                copy::<T, S>(to, &b.col(j)[at..at + here]);
            }
            return;
        }
        for i in (0..here).step_by(SQUARE) {
            for j in (0..n).step_by(SQUARE) {
                if i + SQUARE <= here && j + SQUARE <= n {
                    let mut square = [[T::ZERO; SQUARE]; SQUARE];
                    for c in 0..SQUARE {
                        square[c] = *chunk(&b.col(at + i + c)[j..]);
                    }
                    let square = T::transpose(s, &square);
                    for r in 0..SQUARE {
                        *chunk_mut(&mut strip[self.place(j + r) * height + i..]) = square[r];
                    }
                } else {
                    for c in i..here.min(i + SQUARE) {
                        for r in j..n.min(j + SQUARE) {
                            strip[self.place(r) * height + c] = b.get(r, at + c);
                        }
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn write<S: Simd>(&mut self, s: S, strip: &[T], height: usize, at: usize, here: usize) {
        let n = self.n;
        if !self.transposed {
            for j in 0..n {
                let from = &strip[self.place(j) * height..][..here];
                copy::<T, S>(&mut self.b.col_mut(j)[at..at + here], from);
            }
            return;
        }
        for i in (0..here).step_by(SQUARE) {
            for j in (0..n).step_by(SQUARE) {
                if i + SQUARE <= here && j + SQUARE <= n {
                    let mut square = [[T::ZERO; SQUARE]; SQUARE];
                    for r in 0..SQUARE {
                        square[r] = *chunk(&strip[self.place(j + r) * height + i..]);
                    }
                    let square = T::transpose(s, &square);
                    for c in 0..SQUARE {
                        *chunk_mut(&mut self.b.col_mut(at + i + c)[j..]) = square[c];
                    }
                } else {
                    for c in i..here.min(i + SQUARE) {
                        for r in j..n.min(j + SQUARE) {
                            self.b.set(r, at + c, strip[self.place(r) * height + c]);
                        }
                    }
                }
            }
        }
    }

    /// Returns the offset of unknown `j` in the strip.
    #[inline(always)]
    fn place(&self, j: usize) -> usize {
        if self.backwards { self.n - 1 - j } else { j }
    }
}

/// The first elements of `x`, which holds enough.
#[inline(always)]
fn chunk<T>(x: &[T]) -> &[T; SQUARE] {
    x.first_chunk().expect("a whole row of a square")
}

#[inline(always)]
fn chunk_mut<T>(x: &mut [T]) -> &mut [T; SQUARE] {
    x.first_chunk_mut().expect("a whole row of a square")
}

/// Copies a few registers' worth of elements: a call to `memmove` for each column of a strip costs
/// as much as the copy.
#[inline(always)]
fn copy<T: Scalar, S: Simd>(to: &mut [T], from: &[T]) {
    let lanes = T::count::<S>();
    let mut to = to.chunks_exact_mut(lanes);
    let mut from = from.chunks_exact(lanes);
    for (to, from) in (&mut to).zip(&mut from) {
        T::store::<S>(to, T::load::<S>(from));
    }
    for (to, &from) in to.into_remainder().iter_mut().zip(from.remainder()) {
        *to = from;
    }
}
