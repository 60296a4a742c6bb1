//! Products of sparse matrices.

use std::ops::Range;

use zellige_files::memory::{NotEnoughMemory, with_capacity};

use crate::concurrent::concurrent_map;
use crate::csr::Csr;
use zellige_krylov::Error;

/// Rows of a matrix that is being made.
#[derive(Default)]
pub struct RowBuilder {
    /// End of each row.
    ends: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<f64>,
    /// Bytes that the system refused: later entries are not stored.
    refused: Option<u64>,
}

impl RowBuilder {
    /// Appends the next nonzero of the row.
    pub fn push(&mut self, column: u32, value: f64) {
        if self.columns.len() == self.columns.capacity() || self.values.len() == self.values.capacity() {
            self.grow();
        }
        if self.refused.is_none() {
            self.columns.push(column);
            self.values.push(value);
        }
    }

    /// Doubles the capacity, if there is memory for it.
    #[cold]
    fn grow(&mut self) {
        let more = self.columns.len().max(FEW);
        let is_there = self.columns.try_reserve(more).is_ok() && self.values.try_reserve(more).is_ok();
        if !is_there {
            self.refused = Some(more as u64 * NONZERO);
        }
    }

    pub fn end_row(&mut self) {
        self.ends.push(self.columns.len());
    }
}

/// Minimum number of rows for a thread.
const FEW: usize = 4096;
/// Bytes of a nonzero: its column and its value.
const NONZERO: u64 = 12;

/// Builds a matrix whose rows `make` computes, with this number of threads; the result does not
/// depend on it.
///
/// # Errors
/// [`Error::Memory`] if the system has no memory for them; those of [`Csr::new`].
pub fn by_rows(
    threads: usize,
    [rows, columns]: [usize; 2],
    make: impl Fn(Range<usize>, &mut RowBuilder) + Sync,
) -> Result<Csr, Error> {
    // Several for each thread, since some are more work.
    let parts = (rows / FEW).clamp(1, if threads > 1 { 4 * threads } else { 1 });
    let ranges = (0..parts).map(|part| part * rows / parts..(part + 1) * rows / parts);
    let made = concurrent_map(threads, ranges, |range| {
        let mut made = RowBuilder::default();
        make(range, &mut made);
        made
    });
    if let Some(bytes) = made.iter().find_map(|part| part.refused) {
        return Err(no_memory(bytes));
    }
    let nonzeros: usize = made.iter().map(|part| part.columns.len()).sum();
    let refused = |_| no_memory(nonzeros as u64 * NONZERO + 8 * rows as u64);
    let mut starts = with_capacity(rows + 1).map_err(refused)?;
    let (mut all_columns, mut all_values) =
        (with_capacity(nonzeros).map_err(refused)?, with_capacity(nonzeros).map_err(refused)?);
    starts.push(0);
    for part in made {
        let before = all_columns.len();
        starts.extend(part.ends.iter().map(|end| end + before));
        all_columns.extend(part.columns);
        all_values.extend(part.values);
    }
    Csr::new(columns, starts, all_columns, all_values)
}

/// Returns the error for bytes that the system refused.
fn no_memory(bytes: u64) -> Error {
    NotEnoughMemory::refused("a coarser level of amg", bytes, zellige_runtime::topology::available_memory())
        .into()
}

/// Returns `A B`, computed row by row (Gustavson 1978).
///
/// # Errors
/// [`Error::Shape`] if the columns of `A` are not the rows of `B`.
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
