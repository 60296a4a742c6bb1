//! Inverses of small blocks, and how accurately they are stored.

use std::ops::Range;

use faer::Mat;
use zellige_kernels::packed::PackedFormat;

use crate::csr::Csr;
use zellige_krylov::Error;

/// The inverse of a block.
pub struct Inverse {
    pub rows: usize,
    /// Column by column.
    pub elements: Vec<f64>,
    pub format: PackedFormat,
}

/// A roundoff times the condition number that leaves a digit of the block (Anzt et al., section
/// 3.3, "tau").
const LEAVES_A_DIGIT: f64 = 0.1;

/// The formats, narrowest first.
const FORMATS: [PackedFormat; 7] = [
    PackedFormat::Rp16,
    PackedFormat::Rp24,
    PackedFormat::Fp32,
    PackedFormat::Rp40,
    PackedFormat::Rp48,
    PackedFormat::Rp56,
    PackedFormat::Fp64,
];

/// Inverts the block of these rows and columns.
///
/// # Errors
/// [`Error::Unsolvable`] if the inverse has non-finite entries.
pub fn of_block(a: &Csr, block: Range<usize>) -> Result<Inverse, Error> {
    let n = block.len();
    let mut dense = Mat::<f64>::zeros(n, n);
    for i in block.clone() {
        let (column, value) = a.row(i);
        let first = column.partition_point(|&j| (j as usize) < block.start);
        for (&j, &value) in
            column[first..].iter().zip(&value[first..]).take_while(|(j, _)| block.contains(&(**j as usize)))
        {
            dense[(i - block.start, j as usize - block.start)] = value;
        }
    }
    let is_symmetric = (0..n).all(|i| (0..i).all(|j| dense[(i, j)] == dense[(j, i)]));
    let mut inverse = zellige_faer::inverse(dense.as_ref());
    if is_symmetric {
        // Methods for symmetric matrices need it to the last bit.
        for i in 0..n {
            for j in 0..i {
                inverse[(i, j)] = inverse[(j, i)];
            }
        }
    }
    let condition = norm(&dense) * norm(&inverse);
    if !condition.is_finite() || condition * f64::EPSILON > 1.0 {
        let problem =
            format!("the block of rows {} to {} is singular: take ilu0 or amg", block.start + 1, block.end);
        return Err(Error::unsolvable("preconditioner", problem));
    }
    let is_enough = |format: &PackedFormat| condition * format.unit_roundoff() <= LEAVES_A_DIGIT;
    let format = FORMATS.into_iter().find(is_enough).unwrap_or(PackedFormat::Fp64);
    let elements = (0..n).flat_map(|j| (0..n).map(move |i| (i, j))).map(|at| inverse[at]).collect();
    Ok(Inverse { rows: n, elements, format })
}

/// Returns the largest sum of magnitudes of a column.
fn norm(matrix: &Mat<f64>) -> f64 {
    let sum = |j: usize| (0..matrix.nrows()).map(|i| matrix[(i, j)].abs()).sum::<f64>();
    // max() would ignore NaN.
    (0..matrix.ncols()).map(sum).fold(0.0, |most, sum| if sum > most || sum.is_nan() { sum } else { most })
}
