//! Statistics of a matrix.

use crate::csr::{Csr, abs_sum};

/// A matrix in figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Rows and columns.
    pub shape: (usize, usize),
    /// Number of stored entries, and the number of zeros among them.
    pub nonzeros: (usize, usize),
    /// Number of entries of the shortest and of the longest row.
    pub row_nonzeros: (usize, usize),
    /// The largest distance of an entry from the diagonal.
    pub bandwidth: usize,
    /// True if values are complex.
    pub complex: bool,
    /// True if the pattern is symmetric, and true if the values are.
    pub symmetric: (bool, bool),
    /// True if every `a_ij` is the complex conjugate of `a_ji`; for a real matrix, true if it is
    /// symmetric.
    pub hermitian: bool,
    /// Number of rows with a zero or missing diagonal entry; 0 for a matrix that is not square.
    pub zero_diagonals: usize,
    /// The smallest and the largest nonzero magnitude; zeros if there is none.
    pub magnitudes: (f64, f64),
    /// Number of entries by `floor(log10 |a_ij|)`, lowest first, without gaps.
    pub decades: Vec<(i32, u64)>,
    /// `max_i sum_j |a_ij|` and `min_i sum_j |a_ij|`.
    pub norm_inf: (f64, f64),
    /// Bytes in CSR with `f64` values.
    pub bytes: u64,
}

/// Describes a matrix.
pub fn describe(a: &Csr) -> Description {
    let values = || a.iter().flat_map(|(_, value)| value.iter().map(|value| value.abs()));
    let nonzero = || values().filter(|&value| value > 0.0);
    let lengths = || a.iter().map(|(column, _)| column.len());
    let sums = || a.iter().map(|(_, value)| abs_sum(value));
    let distance = |(i, (column, _)): (usize, (&[u32], &[f64]))| {
        let ends = [column.first(), column.last()].into_iter().flatten();
        ends.map(|&j| i.abs_diff(j as usize)).max().unwrap_or(0)
    };
    let is_square = a.rows() == a.columns();
    let least = |values: &mut dyn Iterator<Item = f64>| values.reduce(f64::min).unwrap_or(0.0);
    Description {
        shape: (a.rows(), a.columns()),
        nonzeros: (a.nonzeros(), values().filter(|&value| value == 0.0).count()),
        row_nonzeros: (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0)),
        bandwidth: a.iter().enumerate().map(distance).max().unwrap_or(0),
        complex: false,
        symmetric: symmetry(a),
        hermitian: a.is_symmetric(),
        zero_diagonals: if is_square { (0..a.rows()).filter(|&i| a.get(i, i) == 0.0).count() } else { 0 },
        magnitudes: (least(&mut nonzero()), nonzero().fold(0.0, f64::max)),
        decades: decades(nonzero()),
        norm_inf: (a.norm_inf(), least(&mut sums())),
        bytes: a.bytes(),
    }
}

/// Describes the complex matrix that a real one of twice the size stands for (see
/// [`market`](crate::files::market)); bytes are those of the real one.
///
/// # Panics
/// For a matrix with an odd number of rows or columns.
pub fn describe_complex(a: &Csr) -> Description {
    assert!(a.rows().is_multiple_of(2) && a.columns().is_multiple_of(2), "blocks of two rows and columns");
    let (magnitudes, symmetric) = (magnitudes(a), is_complex_symmetric(a));
    let d = describe(&magnitudes);
    let is_symmetric = d.symmetric.0 && symmetric;
    Description {
        complex: true,
        symmetric: (d.symmetric.0, is_symmetric),
        hermitian: a.is_symmetric(),
        bytes: a.bytes(),
        ..d
    }
}

/// Returns the magnitude of each entry of the complex matrix.
fn magnitudes(a: &Csr) -> Csr {
    let (mut starts, mut column, mut value) = (vec![0], Vec::new(), Vec::new());
    for (row, values) in a.iter().step_by(2) {
        let begin = column.len();
        for (&j, &part) in row.iter().zip(values) {
            if column.len() > begin && column.last() == Some(&(j / 2)) {
                let last = value.len() - 1;
                value[last] = f64::hypot(value[last], part);
            } else {
                column.push(j / 2);
                value.push(part.abs());
            }
        }
        starts.push(column.len());
    }
    Csr::new(a.columns() / 2, starts, column, value).expect("what was a matrix is one")
}

/// Returns true if `a_ij` equals `a_ji`: conjugation then equals transposition.
fn is_complex_symmetric(a: &Csr) -> bool {
    let conjugate = a
        .clone()
        .map_nonzeros(|i, j, value| Some(if (i + j as usize).is_multiple_of(2) { value } else { -value }));
    conjugate.transposed() == *a
}

fn symmetry(a: &Csr) -> (bool, bool) {
    if a.rows() != a.columns() {
        return (false, false);
    }
    let t = a.transposed();
    let pattern = (0..a.rows()).all(|i| a.row(i).0 == t.row(i).0);
    (pattern, pattern && t == *a)
}

fn decades(values: impl Iterator<Item = f64>) -> Vec<(i32, u64)> {
    let mut counts = std::collections::BTreeMap::new();
    for value in values {
        *counts.entry(value.log10().floor() as i32).or_insert(0) += 1;
    }
    let (Some((&first, _)), Some((&last, _))) = (counts.first_key_value(), counts.last_key_value()) else {
        return Vec::new();
    };
    (first..=last).map(|decade| (decade, counts.get(&decade).copied().unwrap_or(0))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_small_matrix() {
        let a = Csr::from_triplets(3, 3, &[(0, 0, 2.0), (0, 2, -0.05), (2, 0, 0.05), (1, 1, 0.0)]).unwrap();
        let d = describe(&a);
        assert_eq!((d.shape, d.nonzeros, d.row_nonzeros, d.bandwidth), ((3, 3), (4, 1), (1, 2), 2));
        assert_eq!((d.symmetric, d.zero_diagonals), ((true, false), 2));
        assert_eq!((d.magnitudes, d.norm_inf), ((0.05, 2.0), (2.05, 0.0)));
        assert_eq!(d.decades, [(-2, 2), (-1, 0), (0, 1)]);
        assert!(!d.complex && !d.hermitian);
        let empty = describe(&Csr::from_triplets(0, 2, &[]).unwrap());
        assert_eq!((empty.magnitudes, empty.decades.len(), empty.symmetric), ((0.0, 0.0), 0, (false, false)));
    }
    #[test]
    fn complex_matrices_are_described_as_such() {
        // [4, 3 + 4i; 3 - 4i, 0], and its complex symmetric sister.
        let of = |sign: f64| {
            let place = |i: u32, j: u32, re: f64, im: f64| {
                [
                    (2 * i, 2 * j, re),
                    (2 * i + 1, 2 * j + 1, re),
                    (2 * i, 2 * j + 1, -im),
                    (2 * i + 1, 2 * j, im),
                ]
            };
            let diagonal = [(0, 0, 4.0), (1, 1, 4.0)];
            let all = [&diagonal[..], &place(0, 1, 3.0, 4.0), &place(1, 0, 3.0, sign * 4.0)].concat();
            describe_complex(&Csr::from_triplets(4, 4, &all).unwrap())
        };
        let (hermitian, symmetric) = (of(-1.0), of(1.0));
        assert_eq!((hermitian.symmetric, hermitian.hermitian), ((true, false), true));
        assert_eq!((symmetric.symmetric, symmetric.hermitian), ((true, true), false));
        assert_eq!((hermitian.shape, hermitian.nonzeros, hermitian.zero_diagonals), ((2, 2), (3, 0), 1));
        assert_eq!((hermitian.magnitudes, hermitian.norm_inf), ((4.0, 5.0), (9.0, 5.0)));
        assert!(hermitian.complex && hermitian.bandwidth == 1);
    }
}
