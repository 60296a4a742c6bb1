//! Cholesky factorisation of one tile.

use pulp::{Simd, WithSimd};

use super::micro::{AREA, Aligned, NARROW, WIDE, load_block, solve_diagonal, store_block, subtract_products};
use super::{BLOCK, Op, middle, syrk, trsm};
use crate::error::check_shape;
use crate::{KernelError, MatMut, Scalar};

/// Lower Cholesky factor `L` of `A = L L^T`, in place of the lower triangle of `A`; the strict
/// upper part is neither read nor written.
///
/// # Errors
/// [`KernelError::NotPositive`] at the first pivot that is zero, negative, infinite or NaN: the
/// lower triangle is then partly overwritten. [`KernelError::Shape`] when `A` is not square; `A` is
/// then untouched.
pub fn potrf_lower<T: Scalar>(a: MatMut<'_, T>) -> Result<(), KernelError> {
    check_shape("potrf_lower", "A", a.shape(), (a.rows(), a.rows()))?;
    factor(a, 0)
}

/// `first`: index of the first column in the whole matrix.
fn factor<T: Scalar>(a: MatMut<'_, T>, first: usize) -> Result<(), KernelError> {
    let n = a.rows();
    if n <= BLOCK {
        let failed = pulp::Arch::new().dispatch(Factorization { a });
        return match failed {
            None => Ok(()),
            Some((pivot, value)) => {
                Err(KernelError::NotPositive { pivot: first + pivot, value: value.to_f64() })
            }
        };
    }
    let h = middle(n);
    let (top, bottom) = a.split_rows(h);
    let (mut a11, _) = top.split_cols(h);
    let (mut a21, mut a22) = bottom.split_cols(h);
    factor(a11.reborrow(), first)?;
    trsm::right(Op::Trans, a11.as_ref(), a21.reborrow());
    syrk::update(-T::ONE, a21.as_ref(), T::ONE, a22.reborrow());
    factor(a22, first + h)
}

/// A diagonal block, `[column][row]`.
type DiagonalBlock<T> = [[T; WIDE]; WIDE];

/// Factorization of one matrix of order at most [`BLOCK`].
struct Factorization<'a, T> {
    a: MatMut<'a, T>,
}

impl<T: Scalar> WithSimd for Factorization<'_, T> {
    type Output = Option<(usize, T)>;

    #[inline(always)]
    fn with_simd<S: Simd>(self, s: S) -> Self::Output {
        if S::REGISTER_COUNT >= 32 { self.panels::<S, WIDE>(s) } else { self.panels::<S, NARROW>(s) }
    }
}

impl<T: Scalar> Factorization<'_, T> {
    /// Factors left-looking over panels of `N` columns: subtract the contributions of the columns
    /// before, factor the diagonal block, solve the rows below it. Rows are taken in whole
    /// registers; the results above the diagonal are never used.
    #[inline(always)]
    fn panels<S: Simd, const N: usize>(mut self, s: S) -> Option<(usize, T)> {
        let n = self.a.rows();
        let lanes = T::count::<S>();
        let padded = n.next_multiple_of(N);
        let bottom = padded.next_multiple_of(lanes);
        let mut work = Aligned::<T, AREA>::zeroed();
        let work = &mut work.0;
        for j in 0..n {
            work[j * BLOCK + j..j * BLOCK + n].copy_from_slice(&self.a.col_mut(j)[j..]);
        }
        for j in n..padded {
            work[j * BLOCK + j] = T::ONE;
        }
        let mut failed = None;
        for p in (0..padded).step_by(N) {
            let top = p / lanes * lanes;
            Self::rows::<S, N>(s, work, top, bottom, p, None);
            let mut reciprocals = [T::ONE; WIDE];
            let mut diagonal: DiagonalBlock<T> = [[T::ZERO; WIDE]; WIDE];
            for c in 0..N {
                for r in c..N {
                    diagonal[c][r] = work[(p + c) * BLOCK + p + r];
                }
            }
            if let Some((c, value)) = cholesky::<T, N>(&mut diagonal, &mut reciprocals) {
                failed = Some((p + c, value));
                break;
            }
            // The solve may run over the diagonal block's own rows: its factor is put there
            // afterwards.
            let below = (p + N) / lanes * lanes;
            Self::rows::<S, N>(s, work, below, bottom, p, Some((&diagonal, &reciprocals)));
            for c in 0..N {
                work[(p + c) * BLOCK + p..][c..N].copy_from_slice(&diagonal[c][c..N]);
            }
        }
        let done = failed.map_or(n, |(pivot, _)| pivot / N * N);
        for j in 0..done {
            self.a.col_mut(j)[j..].copy_from_slice(&work[j * BLOCK + j..j * BLOCK + n]);
        }
        failed
    }

    /// Panel `p`, rows `from..to`: the update by the columns before it, or the solve with its
    /// factored diagonal block.
    #[inline(always)]
    fn rows<S: Simd, const N: usize>(
        s: S,
        work: &mut [T; AREA],
        from: usize,
        to: usize,
        p: usize,
        solve: Option<(&DiagonalBlock<T>, &[T; WIDE])>,
    ) {
        let lanes = T::count::<S>();
        let mut i = from;
        while i < to {
            if i + 2 * lanes <= to {
                Self::step::<S, 2, N>(s, work, i, p, solve);
                i += 2 * lanes;
            } else {
                Self::step::<S, 1, N>(s, work, i, p, solve);
                i += lanes;
            }
        }
    }

    #[inline(always)]
    fn step<S: Simd, const V: usize, const N: usize>(
        s: S,
        work: &mut [T; AREA],
        i: usize,
        p: usize,
        solve: Option<(&DiagonalBlock<T>, &[T; WIDE])>,
    ) {
        let acc = load_block::<T, S, V, N>(s, &work[p * BLOCK + i..], BLOCK);
        let acc = match solve {
            None => subtract_products(s, acc, &work[i..], BLOCK, &work[p..], BLOCK, p),
            Some((d, r)) => solve_diagonal(s, acc, d.as_flattened(), WIDE, r),
        };
        store_block::<T, S, V, N>(&mut work[p * BLOCK + i..], BLOCK, &acc);
    }
}

/// Unblocked factorisation of the diagonal block, `d[column][row]`; the failing column and its
/// pivot otherwise.
#[inline(always)]
fn cholesky<T: Scalar, const N: usize>(
    d: &mut DiagonalBlock<T>,
    reciprocals: &mut [T; WIDE],
) -> Option<(usize, T)> {
    for c in 0..N {
        let pivot = d[c][c];
        // A NaN is not above zero either.
        if !(pivot > T::ZERO && pivot.is_finite()) {
            return Some((c, pivot));
        }
        let root = pivot.sqrt();
        let r = T::ONE / root;
        d[c][c] = root;
        reciprocals[c] = r;
        for i in c + 1..N {
            d[c][i] *= r;
        }
        for e in c + 1..N {
            for i in e..N {
                let product = d[c][i] * d[c][e];
                d[e][i] -= product;
            }
        }
    }
    None
}
