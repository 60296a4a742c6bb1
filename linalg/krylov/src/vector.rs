//! Vectors of one or several columns.

use std::sync::Arc;

use zellige_runtime::data::Chunk;
use zellige_runtime::{Handle, Read, Update, read, update};

use crate::error::Error;
use crate::executor::Executor;
use crate::scalar::Scalar;
use crate::space::Space;
use crate::storage::{Plain, Storage};

/// A multi-vector of `k >= 1` columns over a [`Space`], with one handle for each part. The numbers
/// of a row are contiguous: `[row][column]`. A clone is the same vector.
///
/// ```
/// use zellige_krylov::{MultiVector, Space};
/// use zellige_runtime::Runtime;
///
/// let (rt, space) = (Runtime::new()?, Space::new(3, 0));
/// let v = MultiVector::from_columns(&rt, &space, &[&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]]);
/// assert_eq!(v.column(&rt, 1)?, [4.0, 5.0, 6.0]);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct MultiVector<E: Scalar = f64> {
    space: Space,
    columns: usize,
    storage: Arc<dyn Storage<E>>,
    parts: Arc<[Handle<Chunk<f64>>]>,
}

impl<E: Scalar> MultiVector<E> {
    /// Creates columns of zeros in plain storage.
    pub fn zeros(rt: &dyn Executor, space: &Space, columns: usize) -> Self {
        MultiVector::stored(rt, space, columns, Arc::new(Plain))
    }

    /// Columns of zeros in this storage.
    pub fn stored(rt: &dyn Executor, space: &Space, columns: usize, storage: Arc<dyn Storage<E>>) -> Self {
        let sizes: Vec<usize> = space.ranges().map(|range| storage.words(range.len() * columns)).collect();
        MultiVector::of_words(rt, space, columns, storage, vec![0.0; sizes.iter().sum()], &sizes)
    }

    /// Creates a vector with one column of these numbers.
    ///
    /// # Panics
    /// If it has another length than the space.
    pub fn from_column(rt: &dyn Executor, space: &Space, column: &[E]) -> Self {
        MultiVector::from_columns(rt, space, &[column])
    }

    /// Creates a vector with these columns.
    ///
    /// # Panics
    /// If one has another length than the space.
    pub fn from_columns(rt: &dyn Executor, space: &Space, columns: &[&[E]]) -> Self {
        assert!(columns.iter().all(|column| column.len() == space.len()), "a vector of another space");
        let count = columns.len();
        let words = match columns {
            [column] => E::words(column).to_vec(),
            _ => {
                let mut words = vec![0.0; space.len() * count * E::WORDS];
                for (i, row) in E::of_words_mut(&mut words).chunks_exact_mut(count).enumerate() {
                    row.iter_mut().zip(columns).for_each(|(to, column)| *to = column[i]);
                }
                words
            }
        };
        let sizes: Vec<usize> = space.ranges().map(|range| range.len() * count * E::WORDS).collect();
        MultiVector::of_words(rt, space, count, Arc::new(Plain), words, &sizes)
    }

    fn of_words(
        rt: &dyn Executor,
        space: &Space,
        columns: usize,
        storage: Arc<dyn Storage<E>>,
        words: Vec<f64>,
        sizes: &[usize],
    ) -> Self {
        let ends = sizes.iter().scan(0, |end, size| {
            *end += size;
            Some(*end)
        });
        let inner: Vec<usize> = ends.take(sizes.len() - 1).collect();
        let parts = Chunk::cut(words, &inner).into_iter().enumerate();
        let parts = parts.map(|(i, part)| rt.part_on(space.rank_of(i, rt.ranks()), part)).collect();
        MultiVector { space: space.clone(), columns, storage, parts }
    }

    /// Returns the partition.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Returns the number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Returns the storage format.
    pub fn storage(&self) -> &Arc<dyn Storage<E>> {
        &self.storage
    }

    /// Returns true for the same vector, not only an equal one.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.parts, &other.parts)
    }

    /// Returns the handles of its parts.
    pub fn parts(&self) -> &[Handle<Chunk<f64>>] {
        &self.parts
    }

    /// Returns part `i`, for a task that reads it.
    pub fn read(&self, i: usize) -> Read<Chunk<f64>> {
        read(&self.parts[i])
    }

    /// Returns part `i`, for a task that updates it.
    pub fn update(&self, i: usize) -> Update<Chunk<f64>> {
        update(&self.parts[i])
    }

    /// Returns the numbers of a column, after all submitted tasks on them.
    ///
    /// # Errors
    /// Errors of those tasks.
    pub fn column(&self, rt: &dyn Executor, column: usize) -> Result<Vec<E>, Error> {
        let mut numbers = Vec::with_capacity(self.space.len());
        let mut decoded = Vec::new();
        for (handle, range) in self.parts.iter().zip(self.space.ranges()) {
            rt.look_at_part(handle, &mut |words| {
                if self.columns == 1 && self.storage.is_plain() {
                    numbers.extend_from_slice(E::of_words(words));
                    return;
                }
                decoded.resize(range.len() * self.columns, E::default());
                self.storage.decode(words, 0, &mut decoded);
                numbers.extend(decoded.iter().skip(column).step_by(self.columns));
            })?;
        }
        Ok(numbers)
    }

    /// Overwrites the numbers of a column, after all submitted tasks on them.
    ///
    /// # Errors
    /// Errors of those tasks.
    ///
    /// # Panics
    /// If `numbers` has another length.
    pub fn set_column(&self, rt: &dyn Executor, column: usize, numbers: &[E]) -> Result<(), Error> {
        assert_eq!(numbers.len(), self.space.len(), "a vector of another space");
        for (handle, range) in self.parts.iter().zip(self.space.ranges()) {
            let (storage, columns, numbers) =
                (Arc::clone(&self.storage), self.columns, numbers[range].to_vec());
            let set = move |words: &mut [f64]| {
                if columns == 1 {
                    return storage.encode(&numbers, 0, words);
                }
                let mut decoded = vec![E::default(); numbers.len() * columns];
                storage.decode(words, 0, &mut decoded);
                let places = decoded.iter_mut().skip(column).step_by(columns);
                places.zip(&numbers).for_each(|(to, from)| *to = *from);
                storage.encode(&decoded, 0, words);
            };
            rt.change_part(handle, Box::new(set))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use num_complex::Complex;
    use zellige_runtime::Runtime;

    use super::*;
    use crate::storage::Packed;

    #[test]
    fn columns_are_read_as_they_were_written() -> Result<(), Error> {
        let (rt, space) = (Runtime::new()?, Space::cut_at(&[0, 96, 192], 250)?);
        let first: Vec<f64> = (0..250).map(f64::from).collect();
        let second: Vec<f64> = first.iter().map(|x| -x).collect();
        let v = MultiVector::from_columns(&rt, &space, &[&first, &second]);
        assert_eq!((v.column(&rt, 0)?, v.column(&rt, 1)?), (first.clone(), second.clone()));
        v.set_column(&rt, 0, &second)?;
        assert_eq!((v.column(&rt, 0)?, v.column(&rt, 1)?), (second.clone(), second));
        let narrow = MultiVector::<Complex<f64>>::stored(&rt, &space, 2, Arc::new(Packed::SINGLE));
        let complex: Vec<_> = first.iter().map(|x| Complex::new(*x, 0.5 - x)).collect();
        narrow.set_column(&rt, 1, &complex)?;
        assert_eq!(narrow.column(&rt, 1)?, complex);
        assert!(narrow.column(&rt, 0)?.iter().all(|x| *x == Complex::default()));
        Ok(())
    }
}
