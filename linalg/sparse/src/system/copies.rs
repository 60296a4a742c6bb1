//! Copies of the matrix.

use std::time::Duration;

use zellige_kernels::packed::Rounding;
use zellige_kernels::sell::EDGES;

use super::scaled::{Scales, Unscaled};
use super::{CriterionChoice, Inner, MethodChoice, Options, ScalingChoice};
use crate::adaptive::{Accuracy, Adaptation, FormatSet, SETS, TiledMatrix, fastest, is_faster};
use crate::csr::Csr;
use crate::reorder::Permutation;
use crate::stored::{Stored, check_copy};
use zellige_krylov::{Error, Executor, Operator, Space};

/// The matrix in the way methods see it, before it is stored for them.
pub struct Plan {
    /// Partition of the vectors.
    pub space: Space,
    /// Block size of the matrix.
    block_size: usize,
    /// Row and column scales.
    pub scales: Option<Scales>,
    /// The scaled matrix, if there are scales.
    pub scaled: Option<Csr>,
}

impl Plan {
    /// Scales a matrix if the options request it or the matrix needs it; `matched` are the scales
    /// of a matching.
    ///
    /// # Errors
    /// [`Error::Shape`] for values that become infinite.
    pub fn new(a: &Csr, options: &Options, matched: Option<Scales>) -> Result<Plan, Error> {
        let is_narrow = options.inner != Inner::Exact || !options.relaxed.is_empty();
        let scales = match (options.scaling, is_narrow) {
            _ if matched.is_some() => matched,
            (ScalingChoice::None | ScalingChoice::Matching, _) => None,
            (ScalingChoice::Auto, false) if !has_large_rows(a) => None,
            (ScalingChoice::Rows, _) => Some(Scales::of_rows(a)),
            (ScalingChoice::Both, _) | (ScalingChoice::Auto, _) => Some(Scales::of_both(a)),
        };
        let scaled = scales.as_ref().map(|scales| scales.matrix(a)).transpose()?;
        // Scaling does not change the blocks.
        Ok(Plan { space: Space::new(a.rows(), a.bytes()), block_size: a.block_size(), scales, scaled })
    }

    /// Returns the matrix that preconditioners are made from.
    pub fn matrix<'a>(&'a self, a: &'a Csr) -> &'a Csr {
        self.scaled.as_ref().unwrap_or(a)
    }
}

/// The stored copies of a matrix that a plan is of.
pub struct Copies {
    /// The copy in use; the result of the selection if `inner` is automatic.
    pub chosen: Inner,
    /// The matrix in `f64`.
    exact: Exact,
    /// A copy that is narrow, or scaled so that the matrix is not known from it to the last bit.
    inner: Option<Stored>,
    /// Further copies with decreasing accuracy.
    relaxed: Vec<Stored>,
    /// Matrix for residuals during the iteration, if it is neither of the first two: in `f64`, with
    /// the scales of the copy.
    scaled_exact: Option<Stored>,
    /// Factor by which a method may reduce its residual before it is recomputed.
    pub reduction: f64,
}

/// The matrix in `f64`.
enum Exact {
    /// Unscaled.
    Plain(Stored),
    /// Scaled, as methods multiply with it.
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
    /// Stores the copies that the options request.
    ///
    /// # Errors
    /// Those of [`Stored::new`].
    pub fn new(
        rt: &dyn Executor,
        a: &Csr,
        plan: &Plan,
        options: &Options,
        order: Option<&Permutation>,
    ) -> Result<Copies, Error> {
        let Plan { space, block_size, scales, .. } = plan;
        let (block_size, matrix) = (*block_size, plan.matrix(a));
        let x = vector_of(options, order, scales.as_ref());
        // Other methods do with thresholds of each row, and fewer bytes.
        let needs_symmetry =
            !matches!(options.method, MethodChoice::Gmres { .. } | MethodChoice::BiCgStab { .. });
        let is_symmetric = needs_symmetry && matrix.is_symmetric();
        let narrow = |inner: &Inner| {
            let adaptation = adaptation_of(inner, &x, is_symmetric);
            let fitting = if adaptation.set.has_scales() { 1 } else { block_size };
            Stored::new(rt, space, matrix, inner.block_size().unwrap_or(fitting), &adaptation)
        };
        let (chosen, raced) = match options.inner {
            Inner::Auto { criterion, accuracy } => {
                race(rt, space, (matrix, is_symmetric), (criterion, accuracy), &x)?
            }
            other => (other, None),
        };
        let double = |a: &Csr| Stored::new(rt, space, a, block_size, &Adaptation::double());
        let inner = match (chosen, scales) {
            (_, _) if raced.is_some() => raced,
            (Inner::Exact, Some(scales)) if !scales.can_be_undone(a, matrix) => Some(double(matrix)?),
            (Inner::Exact, _) => None,
            (inner, _) => Some(narrow(&inner)?),
        };
        // Methods want the scaled matrix in `f64`.
        let is_wanted = inner.is_none() || options.reliable.is_some();
        let (exact, scaled_exact) = match scales {
            Some(scales) if is_wanted && scales.can_be_undone(a, matrix) => {
                (Exact::Scaled(Unscaled::new(rt, space, double(matrix)?, scales)), None)
            }
            Some(_) if is_wanted => (Exact::Plain(double(a)?), Some(double(matrix)?)),
            _ => (Exact::Plain(double(a)?), None),
        };
        let relaxed = options.relaxed.iter().map(narrow).collect::<Result<_, _>>()?;
        // Residuals that are replaced on the way lead to the goal without another run.
        let accuracy =
            if options.reliable.is_some() { 0.0 } else { inner.as_ref().map_or(0.0, Stored::accuracy) };
        let reduction = reduction(accuracy);
        Ok(Copies { chosen, exact, inner, relaxed, scaled_exact, reduction })
    }

    /// Returns the operator that recomputes residuals.
    pub fn exact(&self) -> &dyn Operator {
        match &self.exact {
            Exact::Plain(stored) => stored,
            Exact::Scaled(unscaled) => unscaled,
        }
    }

    /// Returns the copy that methods multiply with.
    pub fn inner(&self) -> &Stored {
        self.inner.as_ref().unwrap_or(self.exact.stored())
    }

    /// Less accurate ones, for the later steps of methods that bear them.
    pub fn narrower(&self) -> Vec<&dyn Operator> {
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
fn race(
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
        let way = fastest(a, (&EDGES, &sets), criterion.of(x), accuracy, Rounding::Nearest, workers)?;
        let set = sets.iter().position(|set| *set == way.set).unwrap_or_default();
        (set << u8::BITS) as u64 | way.block_size as u64
    } else {
        0
    };
    let way = rt.agree(own)? as usize;
    let (set, block_size) = (sets[way >> u8::BITS], way & usize::from(u8::MAX));
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
/// scales.
fn vector_of(options: &Options, order: Option<&Permutation>, scales: Option<&Scales>) -> Vec<f64> {
    let Some(x) = &options.x_for else { return Vec::new() };
    let x = order.map_or_else(|| x.clone(), |order| order.vector(x));
    match scales {
        Some(scales) => x.iter().zip(&scales.columns).map(|(x, scale)| x / scale).collect(),
        None => x,
    }
}

/// Rows that are larger than others by more than this (`2^20`) are of other units.
const LARGE: f64 = 1_048_576.0;

pub fn has_large_rows(a: &Csr) -> bool {
    let sums = || a.iter().map(|(_, value)| crate::csr::abs_sum(value));
    sums().fold(0.0, f64::max) > LARGE * sums().fold(f64::INFINITY, f64::min)
}

/// Returns the factor by which a method may reduce its residual before it is recomputed: products
/// that are accurate to `eps` support little more.
fn reduction(accuracy: f64) -> f64 {
    if accuracy <= f64::EPSILON { 0.0 } else { (64.0 * accuracy).min(0.1) }
}
