//! Symmetric rank-k update of a lower triangle.

use crate::{KernelError, MatMut, MatRef, Op, Scalar};

use super::gemm::{product, scaled};
use super::machine::Machine;
use super::{Elements, Number, check_shape, middle, rows_of, subtract_products};
use zellige_stochastic::{element, vectorize};

/// Lower triangle of `C = alpha A A^T + beta C`, `C` of order `n`, `A` `n x k`. The strict upper
/// part of `C` is not written; nothing of `C` is read when `beta` is zero.
///
/// # Errors
/// [`KernelError::Shape`] when `C` is not square of `A`'s row count; `C` is then untouched.
pub fn syrk_lower<N: Number>(
    alpha: N::Plain,
    a: MatRef<'_, N>,
    beta: N::Plain,
    c: MatMut<'_, N>,
    elements: &mut Elements,
) -> Result<(), KernelError> {
    check_shape("syrk_lower", "C", c.shape(), (a.rows(), a.rows()))?;
    update(alpha, a, beta, c, elements);
    Ok(())
}

/// Largest order that is not halved any more.
const ORDER: usize = 128;
/// Products that are summed before they are added to `C`.
const DEPTH: usize = 128;

pub(super) fn update<N: Number>(
    alpha: N::Plain,
    a: MatRef<'_, N>,
    beta: N::Plain,
    mut c: MatMut<'_, N>,
    elements: &mut Elements,
) {
    let (n, k) = a.shape();
    if n > ORDER {
        let h = middle(n);
        let (a1, a2) = (a.sub(0, 0, h, k), a.sub(h, 0, n - h, k));
        let (top, bottom) = c.split_rows(h);
        let (c11, _) = top.split_cols(h);
        let (c21, c22) = bottom.split_cols(h);
        update(alpha, a1, beta, c11, elements);
        product(alpha, (a2, Op::None), (a1, Op::Trans), beta, c21, elements);
        update(alpha, a2, beta, c22, elements);
        return;
    }
    let rows = rows_of(a, Op::None);
    let machine = Machine::new(size_of::<N::Plain>());
    let factor = N::from_plain(alpha);
    let zero = N::from_plain(N::Plain::ZERO);
    let first = elements.take(n * n);
    vectorize(
        #[inline(always)]
        || {
            for j in 0..n {
                let y = &rows[j * k..][..k];
                for (i, value) in c.col_mut(j).iter_mut().enumerate().skip(j) {
                    element(first + (i + j * n) as u64);
                    let mut sum = scaled(beta, *value);
                    if alpha != N::Plain::ZERO {
                        let inside = is_inside(machine, n, (i, j));
                        let x = &rows[i * k..][..k];
                        for (x, y) in x.chunks(DEPTH).zip(y.chunks(DEPTH)) {
                            let products = subtract_products(zero, x, y);
                            sum = if inside {
                                (-products).mul_add(factor, sum)
                            } else {
                                sum - factor * products
                            };
                        }
                    }
                    *value = sum;
                }
            }
        },
    );
}

/// Whether the block of entry `(i, j)` lies below the diagonal and within a matrix of order `n`:
/// such blocks are added by fused operations. A panel has one register of rows over the
/// diagonal, then pairs of registers.
fn is_inside(machine: Machine, n: usize, (i, j): (usize, usize)) -> bool {
    let Machine { lanes, panel, .. } = machine;
    let p = j / panel * panel;
    let top = p / lanes * lanes;
    let (start, height) = if i < top + lanes {
        (top, lanes)
    } else {
        let pairs = (i - top - lanes) / (2 * lanes);
        let start = top + lanes + pairs * 2 * lanes;
        (start, if start + lanes < n { 2 * lanes } else { lanes })
    };
    start >= p + panel - 1 && start + height <= n && p + panel <= n
}
