//! General matrix product: the wrapper around crate `gemm`, and the only caller of its `unsafe`
//! function.

use crate::error::check_shape;
use crate::{KernelError, MatMut, MatRef, Scalar};

/// Transformation of an operand before the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// The operand itself.
    None,
    /// Transposed.
    Trans,
}

impl Op {
    /// `(rows, cols)` of the operand after `self`.
    pub fn shape(self, (rows, cols): (usize, usize)) -> (usize, usize) {
        match self {
            Op::None => (rows, cols),
            Op::Trans => (cols, rows),
        }
    }
}

/// Computes `C = alpha op_a(A) op_b(B) + beta C`, with `C` `m x n`, `op_a(A)` `m x k`, `op_b(B)`
/// `k x n`.
///
/// As in the BLAS, `C` is not read when `beta` is zero, and `A`, `B` are not read when `alpha` is
/// zero or `k` is zero.
///
/// # Errors
/// [`KernelError::Shape`] when the shapes do not fit; `C` is then untouched.
pub fn gemm<T: Scalar>(
    alpha: T,
    a: MatRef<'_, T>,
    op_a: Op,
    b: MatRef<'_, T>,
    op_b: Op,
    beta: T,
    c: MatMut<'_, T>,
) -> Result<(), KernelError> {
    let (m, k) = op_a.shape(a.shape());
    let want_b = op_b.shape((k, op_b.shape(b.shape()).1));
    check_shape("gemm", "B", b.shape(), want_b)?;
    check_shape("gemm", "C", c.shape(), (m, op_b.shape(b.shape()).1))?;
    product(alpha, a, op_a, b, op_b, beta, c);
    Ok(())
}

/// [`gemm`] for operands whose shapes are known to fit.
pub(crate) fn product<T: Scalar>(
    alpha: T,
    a: MatRef<'_, T>,
    op_a: Op,
    b: MatRef<'_, T>,
    op_b: Op,
    beta: T,
    mut c: MatMut<'_, T>,
) {
    let (m, k) = op_a.shape(a.shape());
    let (kb, n) = op_b.shape(b.shape());
    assert!(kb == k && c.shape() == (m, n), "product of unequal shapes");
    if c.is_empty() {
        return;
    }
    if k == 0 || alpha == T::ZERO {
        scale(beta, c);
        return;
    }
    // Strides (column, row) of op(X): transposing swaps them.
    let strides = |ld: usize, op: Op| match op {
        Op::None => (ld as isize, 1),
        Op::Trans => (1, ld as isize),
    };
    let (a_cs, a_rs) = strides(a.ld(), op_a);
    let (b_cs, b_rs) = strides(b.ld(), op_b);
    let c_cs = c.ld() as isize;
    // SAFETY: the assertion above makes op(A) m x k, op(B) k x n and C m x n, and the view types
    // guarantee that each view's elements (i, j), at i + j ld, are valid to read (and, for C, to
    // write by nobody else) during this call. No view is empty here, so all pointers point at
    // elements. T is f32 or f64 (sealed), which the callee accepts.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            c_cs,
            1,
            beta != T::ZERO,
            a.as_ptr(),
            a_cs,
            a_rs,
            b.as_ptr(),
            b_cs,
            b_rs,
            beta,
            alpha,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

/// `C = beta C`, without reading `C` when `beta` is zero.
pub(crate) fn scale<T: Scalar>(beta: T, mut c: MatMut<'_, T>) {
    if beta == T::ONE {
        return;
    }
    for j in 0..c.cols() {
        scale_slice(beta, c.col_mut(j));
    }
}

/// [`scale`] for one column.
pub(crate) fn scale_slice<T: Scalar>(beta: T, x: &mut [T]) {
    if beta == T::ZERO {
        x.fill(T::ZERO);
    } else if beta != T::ONE {
        x.iter_mut().for_each(|x| *x *= beta);
    }
}
