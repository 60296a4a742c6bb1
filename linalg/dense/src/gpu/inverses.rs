//! Inverses of the diagonal blocks of a factor, and how solves use them.

use zellige_gpu::{Compute, Element, Factors, GpuError};
use zellige_kernels::Op;
use zellige_kernels::cuda::{INVERTED, copy, invert_blocks, zero_upper};

use super::ops::Form;
use super::product::{Factored, gemm};
use super::view::View;
use super::{OnGpu, Ops};

/// Columns that are multiplied with one inverse: with fewer, products are too narrow for a GPU.
pub(super) const SOLVED: u32 = 512;

/// Returns the first column and the width of each diagonal block of a factor of this order.
fn diagonal_blocks(n: u32) -> impl ExactSizeIterator<Item = (u32, u32)> {
    (0..n.div_ceil(SOLVED)).map(move |at| (at * SOLVED, SOLVED.min(n - at * SOLVED)))
}

/// The diagonal blocks of a factor, zero above the diagonal, and their inverses, each in contiguous
/// columns.
#[derive(Clone, Copy)]
pub(super) struct Diagonals {
    pub(super) inverses: View,
    blocks: View,
}

impl Diagonals {
    /// Returns the inverse and the block from column `j` on.
    pub(super) fn of(&self, j: u32, width: u32) -> [View; 2] {
        [self.inverses, self.blocks].map(|all| all.block((0, j), (width, width)))
    }
}

/// Returns the diagonals of a factor in `f32`, cached with the factor as far as memory allows.
pub(super) fn diagonals(ops: &Ops<'_>, l: &OnGpu) -> Result<Diagonals, GpuError> {
    let n = l.shape.1;
    let rows = SOLVED.min(n);
    let halves = |all: View| {
        let [inverses, blocks] = [0, n].map(|from| all.block((0, from), (rows, n)));
        Diagonals { inverses, blocks }
    };
    let all = ops.cached_operand(l, Form::Diagonals, ((rows, 2 * n), Element::F32), |out| {
        ops.zero(out)?;
        let out = halves(out);
        for (j, width) in diagonal_blocks(n) {
            let from = l.values.block((j, j), (width, width));
            let [inverse, block] = out.of(j, width);
            ops.launch(copy((width, width), *from, *block))?;
            // Numbers above the diagonal do not belong to the factor.
            ops.launch(zero_upper(width, *block))?;
            invert(ops, block, inverse)?;
        }
        Ok(())
    })?;
    Ok(halves(all))
}

/// Computes the inverse of a lower triangle, in place of zeros: first of small blocks, then of
/// blocks of twice the size, `[A 0; B C]^-1 = [A^-1 0; -C^-1 B A^-1 C^-1]`.
fn invert(ops: &Ops<'_>, l: View, out: View) -> Result<(), GpuError> {
    let n = l.shape().0;
    ops.launch(invert_blocks(n, *l, *out))?;
    let product = |a, b, alpha| Factored {
        a,
        b,
        op_b: Op::None,
        factors: Factors::Host { alpha, beta: 0.0 },
        compute: Compute::F32,
    };
    let between = ops.scratch_matrix((n.div_ceil(2).max(INVERTED), n), Element::F32)?;
    let mut width = INVERTED;
    while width < n {
        for j in (0..n - width).step_by(2 * width as usize) {
            let (below, rows) = (j + width, width.min(n - j - width));
            let (a, c) = (out.block((j, j), (width, width)), out.block((below, below), (rows, rows)));
            let between = between.block((0, 0), (rows, width));
            gemm(ops, product(l.block((below, j), (rows, width)), a, 1.0), between)?;
            gemm(ops, product(c, between, -1.0), out.block((below, j), (rows, width)))?;
        }
        width *= 2;
    }
    Ok(())
}

/// Returns the limit of roundoff times `|L_jj| |L_jj^-1|` (Frobenius) up to which columns are
/// multiplied with the inverse of their block of this width. If a few singular values are large and
/// most are small, as for covariances, that product is about the square root of the order times the
/// condition number, which then is 256 at most. With a larger condition number the error of a solve
/// exceeds that of substitution.
fn benign(width: u32) -> f64 {
    f64::from(width).sqrt() / 65536.0
}

/// Fraction of the limit up to which a product in X3, whose roundoff is four times that of `f32`,
/// is as accurate.
const IN_X3: f64 = 0.25;
/// Factor on the limit if one step of iterative refinement follows, which squares that excess
/// (Higham 2002, chapter 12): up to a condition number of 4096 the error equals that of
/// substitution again.
const REFINED: f64 = 16.0;

/// Solution method for the columns of a diagonal block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiagonalSolve {
    Substitute,
    Multiply,
    /// Multiplication in X3, if products of the panel are in X3.
    MultiplyInX3,
    Refine,
}

impl DiagonalSolve {
    const ALL: [DiagonalSolve; 4] = [
        DiagonalSolve::Substitute,
        DiagonalSolve::Multiply,
        DiagonalSolve::MultiplyInX3,
        DiagonalSolve::Refine,
    ];

    /// Returns the method for a block of this width, given the norms of itself and of its inverse.
    /// NaN selects substitution.
    fn new(width: u32, [block, inverse]: [f64; 2]) -> DiagonalSolve {
        let excess = f64::from(f32::EPSILON) / 2.0 * block * inverse / benign(width);
        if excess <= IN_X3 {
            DiagonalSolve::MultiplyInX3
        } else if excess <= 1.0 {
            DiagonalSolve::Multiply
        } else if excess <= REFINED {
            DiagonalSolve::Refine
        } else {
            DiagonalSolve::Substitute
        }
    }
}

/// The solves of the diagonal blocks of a tile, two bits for each; blocks beyond the 32nd are
/// substituted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiagonalSolves(pub(crate) u64);

impl DiagonalSolves {
    pub(crate) const NONE: DiagonalSolves = DiagonalSolves(0);

    pub(super) fn of(self, block: u32) -> DiagonalSolve {
        DiagonalSolve::ALL[(self.0.checked_shr(2 * block).unwrap_or_default() & 3) as usize]
    }
}

impl FromIterator<DiagonalSolve> for DiagonalSolves {
    fn from_iter<I: IntoIterator<Item = DiagonalSolve>>(each: I) -> DiagonalSolves {
        let solves = each.into_iter().take(32).enumerate();
        DiagonalSolves(solves.fold(0, |all, (block, method)| all | (method as u64) << (2 * block)))
    }
}

/// Passes the solution methods for the diagonal blocks of a factor in `f32` to `then`, once the
/// body's operations have ended; earlier operations on the stream compute the factor. The inverses
/// are computed for that, and kept for the solves.
pub(super) fn pass_solves(
    ops: &Ops<'_>,
    l: &OnGpu,
    then: impl FnOnce(DiagonalSolves) + Send + 'static,
) -> Result<(), GpuError> {
    let n = l.shape.0;
    // Whoever solves with the factor finds them: it is not written any more.
    let cached = diagonals(ops, &OnGpu { stays: true, ..*l })?;
    let matrices: Vec<View> = diagonal_blocks(n).flat_map(|(j, width)| cached.of(j, width)).collect();
    ops.norms(matrices.into_iter(), move |norms| {
        let (norms, _) = norms.as_chunks::<2>();
        // The inverse comes first; the order does not affect the product.
        then(
            diagonal_blocks(n)
                .zip(norms)
                .map(|((_, width), &both)| DiagonalSolve::new(width, both))
                .collect(),
        );
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bounds of a block of 256 columns: `2^-14`, `2^-12` and `2^-8` by the roundoff `2^-24`.
    #[test]
    fn the_condition_of_a_block_says_how_its_columns_are_solved() {
        let method = |exponent: i32| DiagonalSolve::new(256, [2.0f64.powi(exponent), 1.0]);
        assert_eq!([method(8), method(10)], [DiagonalSolve::MultiplyInX3; 2]);
        assert_eq!([method(11), method(12)], [DiagonalSolve::Multiply; 2]);
        assert_eq!([method(13), method(16)], [DiagonalSolve::Refine; 2]);
        assert_eq!([method(17), method(1000)], [DiagonalSolve::Substitute; 2]);
        assert_eq!(DiagonalSolve::new(256, [f64::NAN, 1.0]), DiagonalSolve::Substitute);
        assert_eq!(DiagonalSolve::new(256, [f64::INFINITY, 0.0]), DiagonalSolve::Substitute);
    }

    #[test]
    fn each_block_has_its_way() {
        let solves: Vec<DiagonalSolve> = DiagonalSolve::ALL.into_iter().cycle().skip(1).take(40).collect();
        let packed: DiagonalSolves = solves.iter().copied().collect();
        for (block, method) in (0..).zip(solves) {
            assert_eq!(
                packed.of(block),
                if block < 32 { method } else { DiagonalSolve::Substitute },
                "{block}"
            );
        }
        assert_eq!(
            [DiagonalSolve::Substitute; 3].into_iter().collect::<DiagonalSolves>(),
            DiagonalSolves::NONE
        );
    }
}
