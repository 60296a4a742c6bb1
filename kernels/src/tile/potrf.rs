//! Cholesky factorisation of one tile.

use crate::{KernelError, MatMut, Op, Scalar};

use super::machine::Machine;
use super::{BLOCK, Elements, Number, check_shape, middle, subtract_products, syrk, trsm};
use zellige_stochastic::{element, vectorize};

/// Lower Cholesky factor `L` of `A = L L^T`, in place of the lower triangle of `A`.
///
/// # Errors
/// [`KernelError::NotPositive`] at the first pivot that is not positive and finite, or whose sign
/// is not known (value 0): the lower triangle is then partly overwritten. [`KernelError::Shape`]
/// when `A` is not square; `A` is then untouched.
pub fn potrf_lower<N: Number>(a: MatMut<'_, N>, elements: &mut Elements) -> Result<(), KernelError> {
    check_shape("potrf_lower", "A", a.shape(), (a.rows(), a.rows()))?;
    factor(a, 0, elements)
}

/// `first`: index of the first column in the whole matrix.
fn factor<N: Number>(a: MatMut<'_, N>, first: usize, elements: &mut Elements) -> Result<(), KernelError> {
    let n = a.rows();
    if n <= BLOCK {
        return match factor_block(a, elements) {
            None => Ok(()),
            Some((pivot, value)) => Err(KernelError::NotPositive { pivot: first + pivot, value }),
        };
    }
    let h = middle(n);
    let (top, bottom) = a.split_rows(h);
    let (mut a11, _) = top.split_cols(h);
    let (mut a21, mut a22) = bottom.split_cols(h);
    factor(a11.reborrow(), first, elements)?;
    trsm::right(Op::Trans, a11.as_ref(), a21.reborrow(), elements);
    syrk::update(-N::Plain::ONE, a21.as_ref(), N::Plain::ONE, a22.reborrow(), elements);
    factor(a22, first + h, elements)
}

/// Column and value of the first bad pivot. Entries are computed column by column; products within
/// a panel's diagonal block are not fused.
fn factor_block<N: Number>(mut a: MatMut<'_, N>, elements: &mut Elements) -> Option<(usize, f64)> {
    let n = a.rows();
    let panel = Machine::new(size_of::<N::Plain>()).panel;
    let first = elements.take(n * n);
    let zero = N::from_plain(N::Plain::ZERO);
    // Rows of `L`.
    let mut rows = vec![zero; n * n];
    vectorize(
        #[inline(always)]
        || {
            let one = N::from_plain(N::Plain::ONE);
            for j in 0..n {
                let p = j / panel * panel;
                let mut reciprocal = one;
                for i in j..n {
                    let (x, y) = (&rows[i * n..][..j], &rows[j * n..][..j]);
                    element(first + (i + j * n) as u64);
                    let mut sum = subtract_products(a.get(i, j), &x[..p], &y[..p]);
                    if i < p + panel {
                        for (x, y) in x[p..].iter().zip(&y[p..]) {
                            sum = sum - *x * *y;
                        }
                    } else {
                        sum = subtract_products(sum, &x[p..], &y[p..]);
                    }
                    if i == j {
                        let pivot = sum.pivot();
                        if !(pivot > 0.0 && pivot.is_finite()) {
                            return Some((j, pivot));
                        }
                        sum = sum.sqrt();
                        reciprocal = one / sum;
                    } else {
                        sum = sum * reciprocal;
                    }
                    rows[i * n + j] = sum;
                    a.set(i, j, sum);
                }
            }
            None
        },
    )
}
