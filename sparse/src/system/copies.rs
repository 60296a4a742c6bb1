//! Copies of the matrix.

use std::time::Duration;

use zellige_runtime::Runtime;

use super::scaled::{Scales, Unscaled};
use super::{Inner, Options, ScalingChoice};
use crate::adaptive::Adaptation;
use crate::csr::Csr;
use crate::error::Error;
use crate::krylov::{Operator, Stored, best_edge};
use crate::space::Space;

/// The matrix as methods see it.
pub struct Copies {
    /// Where vectors are cut.
    pub space: Space,
    /// In `f64`.
    exact: Exact,
    /// A copy that is narrow, or scaled so that the matrix is not known from it to the last bit.
    inner: Option<Stored>,
    /// What rows and columns of it were multiplied by.
    pub scales: Option<Scales>,
    /// The matrix that preconditioners are of, if it is not the one that was given.
    pub scaled: Option<Csr>,
    /// By how much a method may reduce its residual before the true one is looked at.
    pub reduction: f64,
}

/// The matrix in `f64`.
enum Exact {
    /// As it is.
    Plain(Stored),
    /// As methods multiply with it.
    Scaled(Unscaled),
}

impl Exact {
    fn stored(&self) -> &Stored {
        match self {
            Exact::Plain(stored) => stored,
            Exact::Scaled(unscaled) => unscaled.stored(),
        }
    }
}

impl Copies {
    /// Makes those that the options ask for.
    ///
    /// # Errors
    /// Those of [`Stored::new`], and [`Error::Shape`] for elements that become infinite.
    pub fn new(rt: &Runtime, a: &Csr, options: &Options) -> Result<Copies, Error> {
        let space = Space::new(a.rows(), a.bytes());
        // Scaling leaves blocks where they are.
        let edge = best_edge(a);
        let scales = match (options.scaling, options.inner) {
            (ScalingChoice::None, _) => None,
            (ScalingChoice::Auto, Inner::Exact) if !has_large_rows(a) => None,
            (ScalingChoice::Rows, _) => Some(Scales::of_rows(a)),
            (ScalingChoice::Both, _) | (ScalingChoice::Auto, _) => Some(Scales::of_both(a)),
        };
        let scaled = scales.as_ref().map(|scales| scales.matrix(a)).transpose()?;
        let matrix = scaled.as_ref().unwrap_or(a);
        let adaptation = options.inner.adaptation();
        let double = |a: &Csr| Stored::new(rt, &space, a, edge, &Adaptation::double());
        let (exact, inner) = match (options.inner, &scales) {
            (Inner::Exact, None) => (Exact::Plain(double(a)?), None),
            (Inner::Exact, Some(scales)) if scales.can_be_undone(a, matrix) => {
                (Exact::Scaled(Unscaled::new(rt, &space, double(matrix)?, scales)), None)
            }
            _ => {
                let edge = if adaptation.set.has_scales() { 1 } else { edge };
                let inner = Stored::new(rt, &space, matrix, edge, &adaptation)?;
                (Exact::Plain(double(a)?), Some(inner))
            }
        };
        let reduction = reduction(inner.as_ref().map_or(0.0, Operator::accuracy));
        Ok(Copies { space, exact, inner, scales, scaled, reduction })
    }

    /// What true residuals are computed with.
    pub fn exact(&self) -> &dyn Operator {
        match &self.exact {
            Exact::Plain(stored) => stored,
            Exact::Scaled(unscaled) => unscaled,
        }
    }

    /// What methods multiply with.
    pub fn inner(&self) -> &Stored {
        self.inner.as_ref().unwrap_or(self.exact.stored())
    }

    /// How long workers have been busy with products so far, added up.
    pub fn busy(&self) -> Duration {
        self.exact.stored().busy() + self.inner.as_ref().map_or(Duration::ZERO, Stored::busy)
    }

    /// Bytes of the matrix, and of the copy.
    pub fn bytes(&self) -> [u64; 2] {
        [self.exact.stored().bytes(), self.inner.as_ref().map_or(0, Operator::bytes)]
    }
}

/// Rows that are larger than others by more than this (`2^20`) are of other units.
const LARGE: f64 = 1_048_576.0;

fn has_large_rows(a: &Csr) -> bool {
    let sums = || a.iter().map(|(_, value)| crate::csr::abs_sum(value));
    sums().fold(0.0, f64::max) > LARGE * sums().fold(f64::INFINITY, f64::min)
}

/// By how much a method may reduce its residual before the true one is looked at: products that are accurate to `eps` support little more.
fn reduction(accuracy: f64) -> f64 {
    if accuracy <= f64::EPSILON { 0.0 } else { (64.0 * accuracy).min(0.1) }
}
