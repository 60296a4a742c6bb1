//! What a matrix is like, before anything is done with it.

use crate::csr::{Csr, abs_sum};

/// A matrix in figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// Rows and columns.
    pub shape: (usize, usize),
    /// Elements that are stored, and how many of them are zero.
    pub nonzeros: (usize, usize),
    /// Elements of the shortest and the longest row.
    pub row_nonzeros: (usize, usize),
    /// The largest distance of an element from the diagonal.
    pub bandwidth: usize,
    /// Whether every `a_ij` has an `a_ji`, and whether they are equal.
    pub symmetric: (bool, bool),
    /// Rows whose diagonal element is zero or not stored; those of a matrix that is not square are not counted.
    pub zero_diagonals: usize,
    /// The smallest and the largest magnitude that is not zero; zeros where there is none.
    pub magnitudes: (f64, f64),
    /// Elements by `floor(log10 |a_ij|)`, lowest first, without gaps.
    pub decades: Vec<(i32, u64)>,
    /// `max_i sum_j |a_ij|`, and the same of the row where it is least.
    pub norm_inf: (f64, f64),
    /// Bytes by rows in `f64`.
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
        nonzeros: (a.elements(), values().filter(|&value| value == 0.0).count()),
        row_nonzeros: (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0)),
        bandwidth: a.iter().enumerate().map(distance).max().unwrap_or(0),
        symmetric: symmetry(a),
        zero_diagonals: if is_square { (0..a.rows()).filter(|&i| a.get(i, i) == 0.0).count() } else { 0 },
        magnitudes: (least(&mut nonzero()), nonzero().fold(0.0, f64::max)),
        decades: decades(nonzero()),
        norm_inf: (a.norm_inf(), least(&mut sums())),
        bytes: a.bytes(),
    }
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
        let empty = describe(&Csr::from_triplets(0, 2, &[]).unwrap());
        assert_eq!((empty.magnitudes, empty.decades.len(), empty.symmetric), ((0.0, 0.0), 0, (false, false)));
    }
}
