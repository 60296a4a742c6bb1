//! Products of sparse matrices.

use std::ops::Range;

use crate::csr::Csr;
use crate::error::Error;
use crate::side_by_side::side_by_side;

/// Rows of a matrix that is being made.
#[derive(Default)]
pub struct Rows {
    /// Where each ends.
    ends: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f64>,
}

impl Rows {
    /// The next element of the row.
    pub fn push(&mut self, column: u32, value: f64) {
        self.columns.push(column);
        self.values.push(value);
    }

    pub fn end_row(&mut self) {
        self.ends.push(self.columns.len());
    }
}

/// The least rows that are worth a thread.
const FEW: usize = 4096;

/// A matrix whose rows `make` makes, some by each of so many threads; it is the same for any number of them.
///
/// # Errors
/// Those of [`Csr::new`].
pub fn by_rows(
    threads: usize,
    [rows, columns]: [usize; 2],
    make: impl Fn(Range<usize>, &mut Rows) + Sync,
) -> Result<Csr, Error> {
    // Several for each thread, since some are more work.
    let parts = (rows / FEW).clamp(1, if threads > 1 { 4 * threads } else { 1 });
    let ranges = (0..parts).map(|part| part * rows / parts..(part + 1) * rows / parts);
    let made = side_by_side(threads, ranges, |range| {
        let mut made = Rows::default();
        make(range, &mut made);
        made
    });
    let mut all = made.into_iter();
    let mut whole = all.next().unwrap_or_default();
    for part in all {
        let before = whole.columns.len();
        whole.ends.extend(part.ends.iter().map(|end| end + before));
        whole.columns.extend(part.columns);
        whole.values.extend(part.values);
    }
    let starts = std::iter::once(0).chain(whole.ends).collect();
    Csr::new(columns, starts, whole.columns, whole.values)
}

/// `A B`, row by row (Gustavson 1978).
///
/// # Errors
/// [`Error::Shape`] where the columns of `A` are not the rows of `B`.
pub fn product(threads: usize, a: &Csr, b: &Csr) -> Result<Csr, Error> {
    if a.columns() != b.rows() {
        let problem = format!("{} columns of the left one, {} rows of the right one", a.columns(), b.rows());
        return Err(Error::shape("matrices of a product", problem));
    }
    by_rows(threads, [a.rows(), b.columns()], |range, made| {
        let mut sum = vec![0.0; b.columns()];
        let mut seen = vec![u32::MAX; b.columns()];
        let mut row: Vec<u32> = Vec::new();
        for i in range {
            row.clear();
            let (column, value) = a.row(i);
            for (&k, a) in column.iter().zip(value) {
                let (column, value) = b.row(k as usize);
                for (&j, b) in column.iter().zip(value) {
                    if seen[j as usize] != i as u32 {
                        seen[j as usize] = i as u32;
                        sum[j as usize] = 0.0;
                        row.push(j);
                    }
                    sum[j as usize] += a * b;
                }
            }
            row.sort_unstable();
            row.iter().for_each(|&j| made.push(j, sum[j as usize]));
            made.end_row();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_act_as_their_factors_do() -> Result<(), Error> {
        let triplets = |rows: u32, columns: u32, step: u32| {
            let of_row =
                move |i| (0..3).map(move |k| (i, (i * step + 5 * k) % columns, f64::from(i + k) - 7.0));
            (0..rows).flat_map(of_row).collect::<Vec<_>>()
        };
        let a = Csr::from_triplets(20, 30, &triplets(20, 30, 2))?;
        let b = Csr::from_triplets(30, 10, &triplets(30, 10, 3))?;
        let ab = product(2, &a, &b)?;
        let x: Vec<f64> = (0..10).map(f64::from).collect();
        let (mut bx, mut abx, mut direct) = (vec![0.0; 30], vec![0.0; 20], vec![0.0; 20]);
        b.multiply(&x, &mut bx)?;
        a.multiply(&bx, &mut abx)?;
        ab.multiply(&x, &mut direct)?;
        assert_eq!(abx, direct);
        assert!(product(1, &a, &a).is_err());
        Ok(())
    }
}
