//! Preparation of a system: matching, order, scaling and null space, and their inverse on an
//! answer.

mod check;
mod scaling;
mod storage;

use std::borrow::Cow;

pub use check::has_constant_null_space;
pub(super) use check::{check_finite, check_symmetry};
pub(super) use scaling::{ScaledMethod, Scales};
pub(super) use storage::StoredMatrices;

use zellige_krylov::method::norm;
use zellige_krylov::{Error, Space};

use self::check::{check_constant, check_matrix, check_options};
use super::options::{Inner, MethodChoice, Options, PreconditionerChoice, ScalingChoice};
use crate::csr::{Csr, abs_sum};
use crate::matching::Matching;
use crate::reorder::Permutation;

/// A matrix in the order and with the scales in which its systems are solved.
pub(super) struct PreparedSystem<'a> {
    /// The matrix with rows permuted by `matching` and then `order`, and columns by `order` only.
    a: Cow<'a, Csr>,
    matching: Option<Permutation>,
    order: Option<Permutation>,
    /// True if constants are in the null space.
    without_constant: bool,
    scales: Option<Scales>,
    /// The scaled matrix, if there are scales.
    scaled: Option<Csr>,
    space: Space,
}

/// A right-hand side and an initial guess in the order of the matrix.
pub(super) struct PreparedVectors {
    pub(super) b: Vec<f64>,
    pub(super) x: Vec<f64>,
    /// Norm of the part of `b` that was removed.
    pub(super) removed: f64,
}

impl<'a> PreparedSystem<'a> {
    /// Matches, orders and scales a matrix as its options request, or as it needs.
    ///
    /// # Errors
    /// [`Error::Parameter`] for incompatible options; [`Error::Unsolvable`] for a matrix that
    /// cannot be solved with; [`Error::Shape`] for scaled values that become infinite.
    pub(super) fn new(a: &'a Csr, options: &Options) -> Result<PreparedSystem<'a>, Error> {
        check_options(options)?;
        check_matrix(a)?;
        if let Some(x) = options.x_for.as_ref().filter(|x| x.len() != a.columns()) {
            return Err(Error::shape("x-for", format!("{} elements for {} columns", x.len(), a.columns())));
        }
        if options.without_constant {
            check_constant(a)?;
        }
        check_vectors(a)?;
        let (mut a, mut matching, mut scales) = (Cow::Borrowed(a), None, None);
        if needs_matching(&a, options) {
            let Matching { row_of, rows, columns } = Matching::new(&a)?;
            let order = Permutation::of(row_of);
            scales = Some(Scales { rows: order.vector(&rows), columns });
            a = Cow::Owned(order.rows(&a)?);
            matching = Some(order);
        }
        let order = options.reorder.then(|| Permutation::reverse_cuthill_mckee(&a)).transpose()?;
        if let Some(order) = &order {
            scales = scales.map(|Scales { rows, columns }| Scales {
                rows: order.vector(&rows),
                columns: order.vector(&columns),
            });
            a = Cow::Owned(order.matrix(&a)?);
        }
        check_vectors(&a)?;
        let scales = scales.or_else(|| scales_of(&a, options));
        let scaled = scales.as_ref().map(|scales| scales.matrix(&a)).transpose()?;
        let space = Space::new(a.rows(), a.bytes());
        let without_constant = options.without_constant;
        Ok(PreparedSystem { a, matching, order, without_constant, scales, scaled, space })
    }

    /// Returns the permuted matrix without scales.
    pub(super) fn matrix(&self) -> &Csr {
        &self.a
    }

    /// Returns the matrix that methods and preconditioners see, with scales.
    pub(super) fn scaled_matrix(&self) -> &Csr {
        self.scaled.as_ref().unwrap_or(&self.a)
    }

    /// Returns the scales, if there are any.
    pub(super) fn scales(&self) -> Option<&Scales> {
        self.scales.as_ref()
    }

    /// Returns the partition of the vectors.
    pub(super) fn space(&self) -> &Space {
        &self.space
    }

    /// Returns true if constants are in the null space.
    pub(super) fn without_constant(&self) -> bool {
        self.without_constant
    }

    /// Returns the bytes of the permuted matrix and of the scaled one, where they were made.
    pub(super) fn rearranged_bytes(&self) -> u64 {
        let permuted = if matches!(self.a, Cow::Owned(_)) { self.a.memory() } else { 0 };
        permuted + self.scaled.as_ref().map_or(0, Csr::memory)
    }

    /// Returns a right-hand side and an initial guess as methods see them.
    ///
    /// # Errors
    /// [`Error::Shape`] for vectors of other lengths, [`Error::Unsolvable`] for non-finite values.
    pub(super) fn vectors(&self, b: &[f64], x: &[f64]) -> Result<PreparedVectors, Error> {
        self.a.check_vectors(x, b)?;
        check_finite("right-hand side", b)?;
        check_finite("initial guess", x)?;
        let (mut b, mut x, mut removed) = (b.to_vec(), x.to_vec(), 0.0);
        if self.without_constant {
            removed = subtract_mean(&mut b);
        }
        if let Some(matching) = &self.matching {
            b = matching.vector(&b);
        }
        if let Some(order) = &self.order {
            (b, x) = (order.vector(&b), order.vector(&x));
        }
        Ok(PreparedVectors { b, x, removed })
    }

    /// Returns a vector of the rows or columns of the given matrix in the order of this one,
    /// without matching.
    pub(super) fn ordered(&self, v: &[f64]) -> Vec<f64> {
        self.order.as_ref().map_or_else(|| v.to_vec(), |order| order.vector(v))
    }

    /// Returns a vector of the rows of the given matrix in the order of this one.
    pub(super) fn ordered_rows(&self, v: &[f64]) -> Vec<f64> {
        match &self.matching {
            Some(matching) => self.ordered(&matching.vector(v)),
            None => self.ordered(v),
        }
    }

    /// Puts an answer into the order of the given matrix.
    pub(super) fn restore(&self, x: &[f64], out: &mut [f64]) {
        match &self.order {
            Some(order) => order.put_back(x, out),
            None => out.copy_from_slice(x),
        }
    }

    /// Returns the norm of `b - A x`.
    pub(super) fn residual(&self, b: &[f64], x: &[f64]) -> f64 {
        let row = |((column, value), b): ((&[u32], &[f64]), &f64)| {
            b - column.iter().zip(value).map(|(&j, a)| a * x[j as usize]).sum::<f64>()
        };
        norm(&self.a.iter().zip(b).map(row).collect::<Vec<_>>())
    }
}

/// Subtracts the mean of a vector; returns the norm of the subtracted part.
pub(super) fn subtract_mean(v: &mut [f64]) -> f64 {
    let mean = v.iter().sum::<f64>() / v.len() as f64;
    v.iter_mut().for_each(|v| *v -= mean);
    mean.abs() * (v.len() as f64).sqrt()
}

/// Returns the scales of a matrix that has none from a matching, if it needs some.
fn scales_of(a: &Csr, options: &Options) -> Option<Scales> {
    let is_narrow = options.inner != Inner::Exact || !options.relaxed.is_empty();
    match options.scaling {
        ScalingChoice::None | ScalingChoice::Matching => None,
        ScalingChoice::Auto if !is_narrow && !has_large_rows(a) => None,
        ScalingChoice::Rows => Some(Scales::of_rows(a)),
        ScalingChoice::Both | ScalingChoice::Auto => Some(Scales::of_both(a)),
    }
}

/// Refuses a matrix whose vectors do not fit the memory: positions in its rows, exponents, their
/// changes, and the scales of rows and columns. Small ones are checked, too: a matrix that was just
/// read, or copied, may have left nothing.
fn check_vectors(a: &Csr) -> Result<(), Error> {
    let bytes = (24 * a.rows().max(a.columns()) as u64).max(1 << 20);
    Error::if_too_large(|| format!("scales of a matrix of {} rows", a.rows()), bytes)
}

/// Returns true if rows of the matrix should be permuted and scaled so that its diagonal is large:
/// preconditioners that divide by the diagonal need it, and methods for any matrix are not
/// affected.
fn needs_matching(a: &Csr, options: &Options) -> bool {
    use MethodChoice::{Auto, BiCgStab, Gmres};
    use PreconditionerChoice::{BlockJacobi, Ilu0, Jacobi, Lu, SingleLu};
    if options.scaling != ScalingChoice::Auto {
        return options.scaling == ScalingChoice::Matching;
    }
    let is_for_any_matrix = matches!(options.method, Auto | BiCgStab { .. } | Gmres { .. });
    let divides = PreconditionerChoice::Auto == options.preconditioner
        || matches!(options.preconditioner, Ilu0 | Jacobi | BlockJacobi { .. } | Lu | SingleLu);
    if !(is_for_any_matrix && divides) {
        return false;
    }
    let is_zero = |i: usize| a.get(i, i) == 0.0;
    (0..a.rows()).any(is_zero) || !a.is_symmetric() && (has_large_rows(a) || has_small_diagonal(a))
}

/// Relative threshold (`2^-20`) below which a diagonal entry counts as zero, compared with the
/// largest entries of its row and of its column.
const SMALL: f64 = 1.0 / 1_048_576.0;

fn has_small_diagonal(a: &Csr) -> bool {
    let mut of_columns = vec![0.0f64; a.columns()];
    for (column, value) in a.iter() {
        for (&j, value) in column.iter().zip(value) {
            let most = &mut of_columns[j as usize];
            *most = most.max(value.abs());
        }
    }
    let is_small = |(i, (_, value)): (usize, (&[u32], &[f64]))| {
        let of_row = value.iter().fold(0.0, |most: f64, value| most.max(value.abs()));
        a.get(i, i).abs() < SMALL * of_row.min(of_columns[i])
    };
    a.iter().enumerate().any(is_small)
}

/// Rows that are larger than others by more than this (`2^20`) are of other units.
const LARGE: f64 = 1_048_576.0;

fn has_large_rows(a: &Csr) -> bool {
    let sums = || a.iter().map(|(_, value)| abs_sum(value));
    sums().fold(0.0, f64::max) > LARGE * sums().fold(f64::INFINITY, f64::min)
}
