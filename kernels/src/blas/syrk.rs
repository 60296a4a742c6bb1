//! Symmetric rank-k update of a lower triangle.

use pulp::{Simd, WithSimd};

use super::micro::{Accumulators, Aligned, NARROW, WIDE, store_block, subtract_products};
use super::{
    Op,
    gemm::{product, scale_slice},
    middle,
};
use crate::error::check_shape;
use crate::{KernelError, MatMut, MatRef, Scalar};

/// Lower triangle of `C = alpha A A^T + beta C`, `C` of order `n`, `A` `n x k`.
///
/// The strict upper part of `C` is neither read nor written; nothing of `C` is read when `beta` is
/// zero.
///
/// # Errors
/// [`KernelError::Shape`] when `C` is not square of `A`'s row count; `C` is then untouched.
pub fn syrk_lower<T: Scalar>(
    alpha: T,
    a: MatRef<'_, T>,
    beta: T,
    c: MatMut<'_, T>,
) -> Result<(), KernelError> {
    check_shape("syrk_lower", "C", c.shape(), (a.rows(), a.rows()))?;
    update(alpha, a, beta, c);
    Ok(())
}

pub(crate) fn update<T: Scalar>(alpha: T, a: MatRef<'_, T>, beta: T, mut c: MatMut<'_, T>) {
    let n = a.rows();
    if n > ORDER {
        let h = middle(n);
        let (a1, a2) = (a.sub(0, 0, h, a.cols()), a.sub(h, 0, n - h, a.cols()));
        let (top, bottom) = c.split_rows(h);
        let (c11, _) = top.split_cols(h);
        let (c21, c22) = bottom.split_cols(h);
        update(alpha, a1, beta, c11);
        product(alpha, a2, Op::None, a1, Op::Trans, beta, c21);
        update(alpha, a2, beta, c22);
        return;
    }
    for j in 0..n {
        scale_slice(beta, &mut c.col_mut(j)[j..]);
    }
    if alpha != T::ZERO {
        pulp::Arch::new().dispatch(Update { alpha, a, c });
    }
}

/// Largest order of `C` that is not halved any more. Twice [`BLOCK`](super::BLOCK): a product of
/// two 64-row blocks with a long inner dimension is slower in `gemm` than here, where the packed
/// rows serve both factors.
const ORDER: usize = 128;

/// Columns of `A` packed at a time: more than the first-level cache holds, so that `C` is gone
/// through less often.
const DEPTH: usize = 128;

/// `C` of order at most [`ORDER`].
struct Update<'a, T> {
    alpha: T,
    a: MatRef<'a, T>,
    c: MatMut<'a, T>,
}

impl<T: Scalar> WithSimd for Update<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) {
        if S::REGISTER_COUNT >= 32 {
            self.panels::<S, WIDE>(s);
        } else {
            self.panels::<S, NARROW>(s);
        }
    }
}

/// Accumulators of a block that crosses the diagonal: two registers of the widest kind times the
/// widest panel.
type Edge<T> = Aligned<T, { 32 * WIDE }>;

impl<T: Scalar> Update<'_, T> {
    /// Panels of `N` columns; in each, rows from the one register that meets the diagonal down, two
    /// registers at a time.
    #[inline(always)]
    fn panels<S: Simd, const N: usize>(mut self, s: S) {
        let (n, k) = self.a.shape();
        let lanes = T::count::<S>();
        let mut packed = Aligned::<T, { ORDER * DEPTH }>::zeroed();
        let packed = &mut packed.0;
        let mut edge = Edge::<T>::zeroed();
        let mut at = 0;
        while at < k {
            let depth = DEPTH.min(k - at);
            for j in 0..depth {
                packed[j * ORDER..j * ORDER + n].copy_from_slice(self.a.col(at + j));
            }
            let mut p = 0;
            while p < n {
                let mut i = p / lanes * lanes;
                // One register over the diagonal, so that what lies above it is least.
                if i < n {
                    self.block::<S, 1, N>(s, packed, i, p, depth, &mut edge);
                    i += lanes;
                }
                while i < n {
                    if i + lanes < n {
                        self.block::<S, 2, N>(s, packed, i, p, depth, &mut edge);
                        i += 2 * lanes;
                    } else {
                        self.block::<S, 1, N>(s, packed, i, p, depth, &mut edge);
                        i += lanes;
                    }
                }
                p += N;
            }
            at += depth;
        }
    }

    #[inline(always)]
    fn block<S: Simd, const V: usize, const N: usize>(
        &mut self,
        s: S,
        packed: &[T],
        i: usize,
        p: usize,
        k: usize,
        edge: &mut Edge<T>,
    ) {
        let n = self.a.rows();
        let lanes = T::count::<S>();
        let height = V * lanes;
        let zero: Accumulators<T, S, V, N> = [[T::splat(s, T::ZERO); V]; N];
        let (x, coef) = (&packed[i..], &packed[p..]);
        let inside = i >= p + N - 1 && i + height <= n && p + N <= n;
        let mut acc = subtract_products(s, zero, x, ORDER, coef, ORDER, k);
        if inside {
            // All columns are read before one is written. If columns are a multiple of 4 KiB apart,
            // a read right after a write to another column waits for that write.
            let f = T::splat(s, self.alpha);
            for c in 0..N {
                let col = &self.c.col_mut(p + c)[i..i + height];
                for v in 0..V {
                    let old = T::load::<S>(&col[v * lanes..]);
                    acc[c][v] = T::sub_mul(s, old, acc[c][v], f);
                }
            }
            for c in 0..N {
                let col = &mut self.c.col_mut(p + c)[i..i + height];
                for v in 0..V {
                    T::store::<S>(&mut col[v * lanes..], acc[c][v]);
                }
            }
        } else {
            store_block::<T, S, V, N>(&mut edge.0, height, &acc);
            for c in 0..N.min(n - p) {
                let from = i.max(p + c);
                let to = n.min(i + height);
                if from < to {
                    let col = &mut self.c.col_mut(p + c)[from..to];
                    let add = &edge.0[c * height + from - i..][..to - from];
                    for (x, y) in col.iter_mut().zip(add) {
                        *x -= self.alpha * *y;
                    }
                }
            }
        }
    }
}
