//! The matrix as methods multiply with it: in FP64, and in lower precision.

use std::time::Duration;

use zellige_kernels::packed::Rounding;
use zellige_kernels::sell::EDGES;
use zellige_krylov::{Error, Executor, Operator, Space};

use super::PreparedSystem;
use super::scaling::Unscaled;
use crate::adaptive::{Accuracy, Adaptation, FormatSet, SETS, TiledMatrix, fastest, is_faster};
use crate::csr::Csr;
use crate::stored::{Stored, check_copy};
use crate::system::options::{CriterionChoice, Inner, MethodChoice, Options};

/// A prepared matrix, stored as an operator in every precision that its options name.
pub struct StoredMatrices {
    /// The copy in use; the result of the selection if `inner` is automatic.
    pub chosen: Inner,
    /// The matrix in `f64`.
    exact: ExactMatrix,
    /// A copy that is narrow, or scaled so that the matrix is not known from it to the last bit.
    inner: Option<Stored>,
    /// Relaxed copies, of decreasing accuracy.
    relaxed: Vec<Stored>,
    /// Matrix for residuals during the iteration, if it is neither of the first two: in `f64`, with
    /// the scales of the copy.
    scaled_exact: Option<Stored>,
    /// Factor by which a method may reduce its residual before it is recomputed.
    pub reduction: f64,
}

/// The matrix in `f64`.
enum ExactMatrix {
    /// Unscaled.
    Plain(Stored),
    /// Scaled, as methods multiply with it.
    Scaled(Unscaled),
}

impl ExactMatrix {
    fn stored(&self) -> &Stored {
        match self {
            ExactMatrix::Plain(stored) => stored,
            ExactMatrix::Scaled(unscaled) => unscaled.stored(),
        }
    }
}

impl StoredMatrices {
    /// Stores the copies that the options request.
    ///
    /// # Errors
    /// Those of [`Stored::new`].
    pub fn new(
        rt: &dyn Executor,
        prepared: &PreparedSystem<'_>,
        options: &Options,
    ) -> Result<StoredMatrices, Error> {
        let (a, matrix) = (prepared.matrix(), prepared.scaled_matrix());
        // Scaling does not change the blocks.
        let (space, scales, block_size) = (prepared.space(), prepared.scales(), a.block_size());
        let x = vector_of(options, prepared);
        // Other methods do with thresholds of each row, and fewer bytes.
        let needs_symmetry =
            !matches!(options.method, MethodChoice::Gmres { .. } | MethodChoice::BiCgStab { .. });
        let is_symmetric = needs_symmetry && matrix.is_symmetric();
        let narrow = |inner: &Inner| {
            let adaptation = adaptation_of(inner, &x, is_symmetric);
            let fitting = if adaptation.set.has_scales() { 1 } else { block_size };
            Stored::new(rt, space, matrix, inner.block_size().unwrap_or(fitting), &adaptation)
        };
        let (chosen, timed) = match options.inner {
            Inner::Auto { criterion, accuracy } => {
                fastest_copy(rt, space, (matrix, is_symmetric), (criterion, accuracy), &x)?
            }
            other => (other, None),
        };
        let double = |a: &Csr| Stored::new(rt, space, a, block_size, &Adaptation::double());
        let inner = match (chosen, scales) {
            (_, _) if timed.is_some() => timed,
            (Inner::Exact, Some(scales)) if !scales.can_be_undone(a, matrix) => Some(double(matrix)?),
            (Inner::Exact, _) => None,
            (inner, _) => Some(narrow(&inner)?),
        };
        // Methods multiply with the scaled matrix in `f64`.
        let is_needed = inner.is_none() || options.reliable.is_some();
        let (exact, scaled_exact) = match scales {
            Some(scales) if is_needed && scales.can_be_undone(a, matrix) => {
                (ExactMatrix::Scaled(Unscaled::new(rt, space, double(matrix)?, scales)), None)
            }
            Some(_) if is_needed => (ExactMatrix::Plain(double(a)?), Some(double(matrix)?)),
            _ => (ExactMatrix::Plain(double(a)?), None),
        };
        let relaxed = options.relaxed.iter().map(narrow).collect::<Result<_, _>>()?;
        // Residuals that are replaced on the way lead to the goal without another run.
        let accuracy =
            if options.reliable.is_some() { 0.0 } else { inner.as_ref().map_or(0.0, Stored::accuracy) };
        let reduction = reduction(accuracy);
        Ok(StoredMatrices { chosen, exact, inner, relaxed, scaled_exact, reduction })
    }

    /// Returns the operator that recomputes residuals.
    pub fn exact(&self) -> &dyn Operator {
        match &self.exact {
            ExactMatrix::Plain(stored) => stored,
            ExactMatrix::Scaled(unscaled) => unscaled,
        }
    }

    /// Returns the copy that methods multiply with.
    pub fn inner(&self) -> &Stored {
        self.inner.as_ref().unwrap_or(self.exact.stored())
    }

    /// Returns the operators of relaxed products, for the later steps of GMRES.
    pub fn relaxed(&self) -> Vec<&dyn Operator> {
        self.relaxed.iter().map(|stored| stored as &dyn Operator).collect()
    }

    /// Returns the operator for residual replacement: the matrix in `f64`, with the scales that
    /// methods see.
    pub fn of_residuals(&self) -> &dyn Operator {
        self.scaled_exact.as_ref().unwrap_or(self.exact.stored())
    }

    /// Returns all stored copies.
    fn all(&self) -> impl Iterator<Item = &Stored> {
        std::iter::once(self.exact.stored()).chain(self.narrow())
    }

    fn narrow(&self) -> impl Iterator<Item = &Stored> {
        self.inner.iter().chain(&self.relaxed).chain(&self.scaled_exact)
    }

    /// Returns the total busy time of workers in products so far.
    pub fn busy(&self) -> Duration {
        self.all().map(Stored::busy).sum()
    }

    /// Bytes of the matrix, and of its copies.
    pub fn bytes(&self) -> [u64; 2] {
        [self.exact.stored().bytes(), self.narrow().map(Stored::bytes).sum()]
    }
}

/// Returns the adaptation of a copy, symmetric for a symmetric matrix if possible.
fn adaptation_of<'x>(inner: &Inner, x: &'x [f64], is_symmetric: bool) -> Adaptation<'x> {
    Adaptation { symmetric: is_symmetric && inner.keeps_symmetry(), ..inner.adaptation(x) }
}

/// Returns the layout with the fastest products, and the matrix stored in it; the matrix itself if
/// that is not slower.
fn fastest_copy(
    rt: &dyn Executor,
    space: &Space,
    (a, is_symmetric): (&Csr, bool),
    (criterion, accuracy): (CriterionChoice, Accuracy),
    x: &[f64],
) -> Result<(Inner, Option<Stored>), Error> {
    let is_fit = |set: &FormatSet| {
        !is_symmetric || Inner::Adaptive { set: *set, criterion, accuracy, block_size: None }.keeps_symmetry()
    };
    let sets: Vec<FormatSet> = SETS.into_iter().filter(is_fit).collect();
    let (workers, is_first) = (rt.runtime().workers(), rt.rank() == 0);
    // The first rank's clock decides for all.
    let own = if is_first {
        let choice = fastest(a, (&EDGES, &sets), criterion.of(x), accuracy, Rounding::Nearest, workers)?;
        let set = sets.iter().position(|set| *set == choice.set).unwrap_or_default();
        (set << u8::BITS) as u64 | choice.block_size as u64
    } else {
        0
    };
    let agreed = rt.agree(own)? as usize;
    let (set, block_size) = (sets[agreed >> u8::BITS], agreed & usize::from(u8::MAX));
    if set == FormatSet::Fp64 {
        return Ok((Inner::Exact, None));
    }
    let chosen = Inner::Adaptive { set, criterion, accuracy, block_size: Some(block_size) };
    let adaptation = adaptation_of(&chosen, x, is_symmetric);
    check_copy(a)?;
    let narrow = TiledMatrix::cut(a, block_size, &adaptation, space, workers)?;
    // The alternative to multiply with.
    check_copy(a)?;
    let double = TiledMatrix::cut(a, a.block_size(), &Adaptation::double(), space, workers)?;
    let is_faster = is_first && is_faster(&narrow, &double, workers);
    Ok(match rt.agree(is_faster.into())? {
        1.. => (chosen, Some(Stored::of(rt, [space, space], narrow, &adaptation))),
        0 => (Inner::Exact, None),
    })
}

/// Returns the vector that formats are chosen for, in the matrix' order and divided by the column
/// scales; weights of rows are in the order alone.
fn vector_of(options: &Options, prepared: &PreparedSystem<'_>) -> Vec<f64> {
    let Some(x) = &options.x_for else { return Vec::new() };
    if options.inner.has_row_weights() {
        return prepared.ordered_rows(x);
    }
    let x = prepared.ordered(x);
    match prepared.scales() {
        Some(scales) => x.iter().zip(&scales.columns).map(|(x, scale)| x / scale).collect(),
        None => x,
    }
}

/// Returns the factor by which a method may reduce its residual before it is recomputed: products
/// that are accurate to `eps` support little more.
fn reduction(accuracy: f64) -> f64 {
    if accuracy <= f64::EPSILON { 0.0 } else { (64.0 * accuracy).min(0.1) }
}
