//! Error bounds of results against exact ones, and against each other.

use zellige_kernels::GemmPrecision;

use super::dense::Dense;

/// Roundoffs of a precision, relative to the rounded values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roundoffs {
    /// Roundoff of each operand.
    pub operand: f64,
    /// Roundoff of the sum, per term. Tensor cores hold sums in f32 and truncate them within a
    /// product, so two bits fewer than those of f32 are assumed (Fasi, Higham, Mikaitis and Pranesh
    /// 2021; for `X3` Ootomo and Yokota 2022, who lose them otherwise). For sums of 8-bit products
    /// 13 bits are assumed, as measured on Hopper (DeepSeek-V3 technical report, section 3.5.2).
    pub sum: f64,
    /// Roundoff of C, before and after.
    pub result: f64,
    /// Largest difference between the roundings of the same operand on two devices. Hardware may
    /// truncate TF32 where the CPU rounds, ties included. Stored values are the same on both.
    pub differs: f64,
    /// Error of small entries, relative to the largest of their tile: those below the smallest
    /// numbers of a format at the tile's scale.
    pub small: f64,
}

impl Roundoffs {
    /// Returns the roundoffs of a product.
    pub fn of(precision: GemmPrecision) -> Self {
        use GemmPrecision::{Bf1, Dp, Fp8, Hp1, Hp2, Hp3, Sp, Tf32, X3};
        let bits = |bits: i32| 2f64.powi(-bits);
        let (operand, sum, result, small) = match precision {
            Dp => (0.0, bits(53), 0.0, 0.0),
            Sp => (0.0, bits(24), 0.0, 0.0),
            Tf32 => (bits(10), bits(22), 0.0, 0.0),
            // Both halves, and the product of the low ones.
            X3 => (1.5 * bits(22), bits(22), 0.0, bits(39)),
            Hp1 => (bits(11), bits(22), 0.0, bits(25)),
            Bf1 => (bits(8), bits(22), 0.0, 0.0),
            // Half of the smallest step, 2^-9, where the largest is at least 224.
            Fp8 => (bits(4), bits(13), 0.0, bits(10) / 224.0),
            Hp2 => (bits(11), bits(22), bits(11), bits(25)),
            Hp3 => (bits(11), bits(11), bits(11), bits(25)),
        };
        let differs = if precision == Tf32 { operand } else { 0.0 };
        Roundoffs { operand, sum, result, differs, small }
    }

    /// The largest errors of the entries of `C - A op(B)`.
    pub(super) fn error(&self, p: &Product<'_>) -> Dense {
        let Roundoffs { operand, small, .. } = *self;
        let operands = p.size.scaled(operand * (2.0 + operand));
        // Each small entry of one meets all entries of the other.
        let lost = small * p.inner as f64 * p.a.largest() * p.b.largest() * 2.0;
        self.apart(p).plus(&operands).plus(&constant(p.size, lost))
    }

    /// The largest differences between two results of the same rounded operands.
    pub(super) fn apart(&self, p: &Product<'_>) -> Dense {
        let Roundoffs { sum, result, differs, small, .. } = *self;
        let both = p.size.plus(&p.c.abs());
        // Roundings add up as their squares do, up to factors that no sum of this many random terms
        // has come near. For coarse roundings the worst-case bound would be useless.
        let terms = (p.inner + 2) as f64;
        let steps = terms.min(8.0 * terms.sqrt());
        let sums = both.scaled(2.0 * sum * steps).plus(&p.size.scaled(2.0 * differs));
        let lost = if result > 0.0 { 4.0 * small * both.largest() } else { 0.0 };
        sums.plus(&both.scaled(4.0 * result)).plus(&constant(p.size, lost))
    }
}

fn constant(like: &Dense, value: f64) -> Dense {
    Dense::from_fn(like.rows, like.cols, |_, _| value)
}

/// Quantities that a bound depends on.
pub(super) struct Product<'d> {
    pub(super) a: &'d Dense,
    pub(super) b: &'d Dense,
    pub(super) c: &'d Dense,
    /// `|A| |op(B)|`.
    pub(super) size: &'d Dense,
    /// Inner length.
    pub(super) inner: usize,
}
