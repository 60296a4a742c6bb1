//! Storage of nonzeros in the precision that their magnitude requires.
//!
//! A product `A x` to a relative accuracy `eps` needs no digits of a nonzero beyond `eps` times a
//! norm: small nonzeros need fewer digits, and the smallest none. [`Adaptation`] defines the format
//! of each nonzero. [`ThesisMatrix`] stores them in the layout of the thesis,
//! [`TiledMatrix`] for fast products. [`auto`] selects the fastest layout, and a [`StoragePolicy`]
//! chooses formats block by block. [`error_bound`] bounds the error of the product.
//!
//! After Molina, "Mixed precision for High Performance Computing, application to low energy gamma
//! radiation measurements" (thesis, 2024), chapters 3 and 4; Graillat, Jézéquel, Mary and Molina,
//! "Adaptive precision sparse matrix-vector product and its application to Krylov solvers", SIAM J.
//! Sci. Comput. (2024).

mod accuracy;
mod bound;
mod cost;
mod set;
mod thesis;
mod thresholds;
mod tiled;

pub use accuracy::Accuracy;
pub use bound::error_bound;
pub use cost::{Choice, SETS, auto, fastest, is_faster, multiply_panels, shares};
pub use set::{FormatSet, UnknownSet};
pub use thesis::ThesisMatrix;
pub use thresholds::Criterion;
pub(crate) use tiled::MOST_COLUMNS;
pub use tiled::{BlockNorms, StoragePolicy, TiledMatrix};

use zellige_kernels::packed::Rounding;

pub use crate::concurrent::{concurrent_map, in_turns};
use crate::csr::{Csr, abs_sum};
use zellige_krylov::Error;

/// Rules that decide the format of each nonzero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adaptation<'x> {
    /// The formats there are.
    pub set: FormatSet,
    /// Criterion that magnitudes are compared with.
    pub criterion: Criterion<'x>,
    /// The requested accuracy of products.
    pub accuracy: Accuracy,
    /// Rounding of values to their formats.
    pub rounding: Rounding,
    /// True if negligible nonzeros are dropped instead of stored in the narrowest format.
    pub drops: bool,
    /// True if magnitudes are compared with the smaller scale of row and column. Tiles of a
    /// symmetric matrix are then bitwise symmetric, as methods for symmetric matrices require.
    pub symmetric: bool,
}

impl<'x> Adaptation<'x> {
    /// Creates an adaptation that rounds to nearest and drops negligible nonzeros.
    pub fn new(set: FormatSet, criterion: Criterion<'x>, accuracy: Accuracy) -> Self {
        Adaptation { set, criterion, accuracy, rounding: Rounding::Nearest, drops: true, symmetric: false }
    }

    /// Stores all nonzeros in `f64`, unchanged.
    pub fn double() -> Self {
        let accuracy = Accuracy::DOUBLE;
        Adaptation { drops: false, ..Adaptation::new(FormatSet::Fp64, Criterion::Normwise, accuracy) }
    }

    /// Stores all nonzeros rounded to `f32`, like [`Adaptation::uniform`].
    pub fn single() -> Self {
        Adaptation::uniform(FormatSet::Fp32)
    }

    /// Stores all nonzeros in the most accurate format of a set. Rows outside its range get their
    /// own powers of two as scales.
    pub fn uniform(set: FormatSet) -> Self {
        if set == FormatSet::Fp64 {
            return Adaptation::double();
        }
        let accuracy = Accuracy::of_format(set.formats()[0]);
        Adaptation { drops: false, ..Adaptation::new(set, Criterion::Componentwise, accuracy) }
    }

    /// Stores nonzeros as [`Adaptation::new`] does, or all in the one format of a set.
    pub fn of_set(set: FormatSet, criterion: Criterion<'x>, accuracy: Accuracy) -> Self {
        match set.is_uniform() {
            true => Adaptation::uniform(set),
            false => Adaptation::new(set, criterion, accuracy),
        }
    }

    /// Checks that the options are compatible with each other and with the matrix.
    ///
    /// # Errors
    /// [`Error::Parameter`], or [`Error::Shape`] for a vector of another length.
    pub fn check(&self, a: &Csr) -> Result<(), Error> {
        let has_scales = self.set.has_scales();
        if let Criterion::ComponentwiseFor(x) = self.criterion {
            if x.len() != a.columns() {
                return Err(Error::shape("length of x", format!("{} for {} columns", x.len(), a.columns())));
            }
            if has_scales {
                let problem = format!(
                    "cw-exact compares a_ij x_j, but {} stores a_ij with one scale for each row: use ap7",
                    self.set
                );
                return Err(Error::parameter("criterion", problem));
            }
        }
        if let Criterion::Rows(weights) = self.criterion
            && weights.len() != a.rows()
        {
            let problem = format!("{} for {} rows", weights.len(), a.rows());
            return Err(Error::shape("number of weights", problem));
        }
        if self.symmetric && has_scales && self.criterion != Criterion::Normwise {
            let problem = format!(
                "{} stores a scale for each row, so that the copy is not symmetric: use ap7, or nw",
                self.set
            );
            return Err(Error::parameter("criterion", problem));
        }
        if self.symmetric && a.rows() != a.columns() {
            return Err(Error::shape("matrix", "it is not square, so that it is not symmetric"));
        }
        if !self.drops && has_scales {
            let problem = format!(
                "{} has no code for nonzeros below its thresholds: take ap2, ap3, ap4 or ap7",
                self.set
            );
            return Err(Error::parameter("dropping", problem));
        }
        Ok(())
    }
}

/// Powers of two that bring the matrix, or each of its rows, to norms in `[1/2, 1)`: formats with
/// few bits of exponent reach no other.
#[derive(Clone, Debug, PartialEq)]
struct Scaling {
    /// Exponent for the whole matrix.
    exponent: i32,
    /// Additional exponents of the rows, if they need their own.
    of_rows: Option<Vec<i16>>,
}

/// Rows that are smaller than the matrix by more than this power of two need an exponent of their
/// own: `f32` ends at `2^-126`.
const SMALL_ROW: i32 = 60;

impl Scaling {
    /// Returns the scaling of a matrix; `each_row` says that every row needs its own exponent under
    /// a criterion of rows.
    fn of(a: &Csr, criterion: Criterion<'_>, each_row: bool) -> Scaling {
        let exponent = to_one(a.norm_inf());
        let beside_whole = |(_, value): (&[u32], &[f64])| match abs_sum(value) {
            0.0 => 0,
            norm => to_one(norm) - exponent,
        };
        let by_rows = criterion != Criterion::Normwise
            && (each_row || a.iter().map(beside_whole).any(|e| e > SMALL_ROW));
        Scaling { exponent, of_rows: by_rows.then(|| a.iter().map(|row| beside_whole(row) as i16).collect()) }
    }

    /// Returns the exponent of the power of two that row `i` is multiplied by.
    fn of_row(&self, i: usize) -> i32 {
        self.exponent + self.of_rows.as_ref().map_or(0, |rows| i32::from(rows[i]))
    }
}

/// Returns `x` times `2^exponent`, rounded once.
fn ldexp(x: f64, exponent: i32) -> f64 {
    // A product with a number that is a power of two is rounded once, too, and takes a tenth of the
    // time.
    match exponent {
        -1022..=1023 => x * f64::from_bits(((exponent + 1023) as u64) << 52),
        _ => libm::ldexp(x, exponent),
    }
}

/// Returns the exponent of the power of two that brings a number into `[1/2, 1)`; 0 for 0.
fn to_one(norm: f64) -> i32 {
    if norm == 0.0 { 0 } else { -libm::frexp(norm).1 }
}

#[cfg(test)]
mod tests;
