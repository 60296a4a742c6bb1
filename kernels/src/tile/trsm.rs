//! Triangular solves with a lower triangular matrix.

use crate::{KernelError, MatMut, MatRef, Op, Scalar};

use super::gemm::product;
use super::{BLOCK, Elements, Number, check_shape, middle, subtract_products};
use zellige_stochastic::{element, vectorize};

/// Solves `X op(L) = B` in place of `B` (`m x n`), `L` lower triangular of order `n`.
///
/// # Errors
/// [`KernelError::Shape`] when `L` is not square of `B`'s column count; `B` is then untouched.
pub fn trsm_right_lower<N: Number>(
    op: Op,
    l: MatRef<'_, N>,
    b: MatMut<'_, N>,
    elements: &mut Elements,
) -> Result<(), KernelError> {
    check_shape("trsm_right_lower", "L", l.shape(), (b.cols(), b.cols()))?;
    right(op, l, b, elements);
    Ok(())
}

/// Solves `op(L) X = B` in place of `B` (`m x n`), `L` lower triangular of order `m`.
///
/// # Errors
/// [`KernelError::Shape`] when `L` is not square of `B`'s row count; `B` is then untouched.
pub fn trsm_left_lower<N: Number>(
    op: Op,
    l: MatRef<'_, N>,
    b: MatMut<'_, N>,
    elements: &mut Elements,
) -> Result<(), KernelError> {
    check_shape("trsm_left_lower", "L", l.shape(), (b.rows(), b.rows()))?;
    left(op, l, b, elements);
    Ok(())
}

/// `L11`, `L21` and `L22` of a triangle that is halved.
fn halves<N>(l: MatRef<'_, N>) -> (usize, [MatRef<'_, N>; 3]) {
    let (n, h) = (l.rows(), middle(l.rows()));
    (h, [l.sub(0, 0, h, h), l.sub(h, 0, n - h, h), l.sub(h, h, n - h, n - h)])
}

pub(super) fn right<N: Number>(op: Op, l: MatRef<'_, N>, b: MatMut<'_, N>, elements: &mut Elements) {
    if b.is_empty() {
        return;
    }
    if l.rows() <= BLOCK {
        return solve_block(Side::Right, op, l, b, elements);
    }
    let (h, [l11, l21, l22]) = halves(l);
    let (mut b1, mut b2) = b.split_cols(h);
    let (minus, one) = (-N::Plain::ONE, N::Plain::ONE);
    match op {
        Op::Trans => {
            right(op, l11, b1.reborrow(), elements);
            product(minus, (b1.as_ref(), Op::None), (l21, Op::Trans), one, b2.reborrow(), elements);
            right(op, l22, b2, elements);
        }
        Op::None => {
            right(op, l22, b2.reborrow(), elements);
            product(minus, (b2.as_ref(), Op::None), (l21, Op::None), one, b1.reborrow(), elements);
            right(op, l11, b1, elements);
        }
    }
}

fn left<N: Number>(op: Op, l: MatRef<'_, N>, b: MatMut<'_, N>, elements: &mut Elements) {
    if b.is_empty() {
        return;
    }
    if l.rows() <= BLOCK {
        return solve_block(Side::Left, op, l, b, elements);
    }
    let (h, [l11, l21, l22]) = halves(l);
    let (mut b1, mut b2) = b.split_rows(h);
    let (minus, one) = (-N::Plain::ONE, N::Plain::ONE);
    match op {
        Op::None => {
            left(op, l11, b1.reborrow(), elements);
            product(minus, (l21, Op::None), (b1.as_ref(), Op::None), one, b2.reborrow(), elements);
            left(op, l22, b2, elements);
        }
        Op::Trans => {
            left(op, l22, b2.reborrow(), elements);
            product(minus, (l21, Op::Trans), (b2.as_ref(), Op::None), one, b1.reborrow(), elements);
            left(op, l11, b1, elements);
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Side {
    Left,
    Right,
}

/// Substitution with one triangle of order at most [`BLOCK`], the same in all four cases: unknowns
/// in their order, from the last one where the triangle is passed backwards.
fn solve_block<N: Number>(
    side: Side,
    op: Op,
    l: MatRef<'_, N>,
    mut b: MatMut<'_, N>,
    elements: &mut Elements,
) {
    let n = l.rows();
    let backwards = (side == Side::Right) == (op == Op::None);
    let place = |p: usize| if backwards { n - 1 - p } else { p };
    let zero = N::from_plain(N::Plain::ZERO);
    // Coefficient of unknown `q` in equation `p > q` at `p n + q`.
    let mut triangle = vec![zero; n * n];
    for p in 0..n {
        for q in 0..p {
            let (i, j) = (place(p).max(place(q)), place(p).min(place(q)));
            triangle[p * n + q] = l.get(i, j);
        }
    }
    let systems = if side == Side::Left { b.cols() } else { b.rows() };
    let first = elements.take(n);
    let first_unknown = elements.take(n * systems);
    let mut reciprocals = [zero; BLOCK];
    let mut x = [zero; BLOCK];
    vectorize(
        #[inline(always)]
        || {
            let one = N::from_plain(N::Plain::ONE);
            for p in 0..n {
                element(first + p as u64);
                reciprocals[p] = one / l.get(place(p), place(p));
            }
            for system in 0..systems {
                for p in 0..n {
                    let (i, j) = if side == Side::Left { (place(p), system) } else { (system, place(p)) };
                    element(first_unknown + (system * n + p) as u64);
                    let sum = subtract_products(b.get(i, j), &x[..p], &triangle[p * n..][..p]);
                    x[p] = sum * reciprocals[p];
                    b.set(i, j, x[p]);
                }
            }
        },
    );
}
