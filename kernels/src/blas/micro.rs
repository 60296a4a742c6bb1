//! The register-blocked kernel under the triangles of order at most [`BLOCK`].
//!
//! All three triangular kernels come down to one operation: `V` registers of rows times `N` columns
//! of an accumulator, from which the product of a strip of rows and `N` coefficients per step is
//! subtracted. Both factors are packed column-major with a fixed leading dimension, in memory that
//! stays in the first-level cache: a tile of 512 columns has a leading dimension that maps all its
//! columns on the same few cache sets.

use pulp::Simd;

use super::BLOCK;
use crate::Scalar;

/// Cache-line aligned storage on the stack.
#[repr(C, align(64))]
pub(super) struct Aligned<T, const LEN: usize>(pub [T; LEN]);

impl<T: Scalar, const LEN: usize> Aligned<T, LEN> {
    #[inline(always)]
    pub fn zeroed() -> Self {
        Self([T::ZERO; LEN])
    }
}

/// Elements of a [`BLOCK`] x [`BLOCK`] packed block, whose leading dimension is [`BLOCK`].
pub(super) const AREA: usize = BLOCK * BLOCK;

/// Accumulator columns on machines with 32 registers, and on others: 2 rows of registers times this
/// many accumulators hide the latency of the fused multiply-add and leave registers for the
/// operands.
pub(super) const WIDE: usize = 8;
pub(super) const NARROW: usize = 4;

pub(super) type Accumulators<T, S, const V: usize, const N: usize> =
    [[<T as crate::scalar::lanes::SimdScalar>::Reg<S>; V]; N];

/// Returns `acc[c] - sum_k x[k] coef[k][c]`. `x[k]` are the `V` registers at `x[k * x_ld]`,
/// `coef[k]` the `N` numbers at `coef[k * coef_ld]`.
///
/// The accumulator is passed and returned by value. Through a reference it would be stored in every
/// step, because a panicking bounds check must not leave it stale.
#[inline(always)]
pub(super) fn subtract_products<T: Scalar, S: Simd, const V: usize, const N: usize>(
    s: S,
    mut acc: Accumulators<T, S, V, N>,
    x: &[T],
    x_ld: usize,
    coef: &[T],
    coef_ld: usize,
    count: usize,
) -> Accumulators<T, S, V, N> {
    let lanes = T::count::<S>();
    for k in 0..count {
        let x = &x[k * x_ld..][..V * lanes];
        let coef = &coef[k * coef_ld..][..N];
        let mut xs = [T::splat(s, T::ZERO); V];
        for v in 0..V {
            xs[v] = T::load::<S>(&x[v * lanes..]);
        }
        for c in 0..N {
            let f = T::splat(s, coef[c]);
            for v in 0..V {
                acc[c][v] = T::sub_mul(s, acc[c][v], xs[v], f);
            }
        }
    }
    acc
}

/// Solves `X D^T = acc`: `D` lower triangular of order `N`, column-major, its diagonal given as
/// reciprocals.
#[inline(always)]
pub(super) fn solve_diagonal<T: Scalar, S: Simd, const V: usize, const N: usize>(
    s: S,
    mut acc: Accumulators<T, S, V, N>,
    d: &[T],
    d_ld: usize,
    reciprocals: &[T],
) -> Accumulators<T, S, V, N> {
    for c in 0..N {
        let r = T::splat(s, reciprocals[c]);
        for v in 0..V {
            acc[c][v] = T::times(s, acc[c][v], r);
        }
        let x = acc[c];
        let below = &d[c * d_ld..][..N];
        for e in 0..N {
            if e > c {
                let f = T::splat(s, below[e]);
                for v in 0..V {
                    acc[e][v] = T::sub_mul(s, acc[e][v], x[v], f);
                }
            }
        }
    }
    acc
}

/// Reads an accumulator block whose columns are `ld` apart.
#[inline(always)]
pub(super) fn load_block<T: Scalar, S: Simd, const V: usize, const N: usize>(
    s: S,
    x: &[T],
    ld: usize,
) -> Accumulators<T, S, V, N> {
    let lanes = T::count::<S>();
    let mut acc = [[T::splat(s, T::ZERO); V]; N];
    for c in 0..N {
        let col = &x[c * ld..][..V * lanes];
        for v in 0..V {
            acc[c][v] = T::load::<S>(&col[v * lanes..]);
        }
    }
    acc
}

/// Writes an accumulator block whose columns are `ld` apart.
#[inline(always)]
pub(super) fn store_block<T: Scalar, S: Simd, const V: usize, const N: usize>(
    x: &mut [T],
    ld: usize,
    acc: &Accumulators<T, S, V, N>,
) {
    let lanes = T::count::<S>();
    for c in 0..N {
        let col = &mut x[c * ld..][..V * lanes];
        for v in 0..V {
            T::store::<S>(&mut col[v * lanes..], acc[c][v]);
        }
    }
}
