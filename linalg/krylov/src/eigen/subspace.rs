//! Vectors that span a subspace, and products with all of them.

use std::ops::Range;
use std::sync::Arc;

use zellige_runtime::{reads, updates};

use crate::error::Error;
use crate::executor::Executor;
use crate::numbers::{NumbersHandle, columns_of};
use crate::scalar::Scalar;
use crate::space::Space;
use crate::steps::Steps;
use crate::storage::Storage;
use crate::vector::MultiVector;

/// Number of rows that are decoded at a time, less for groups that do not divide it.
const AT_ONCE: usize = 480;
/// Number of vectors that are processed together.
const TOGETHER: usize = 4;

/// Vectors of one column each over a space, all in the same storage.
///
/// ```
/// use std::sync::Arc;
/// use zellige_krylov::{MultiVector, Packed, Space, Subspace};
/// use zellige_runtime::Runtime;
///
/// let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(3, 0));
/// let one = MultiVector::from_column(&rt, &space, &[1.0, 0.0, 0.0]);
/// let narrow = Subspace::new(vec![one])?.stored(&rt, Arc::new(Packed::SINGLE))?;
/// assert_eq!(narrow.vectors()[0].column(&rt, 0)?, [1.0, 0.0, 0.0]);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Subspace<E: Scalar = f64> {
    vectors: Vec<MultiVector<E>>,
}

/// Decoder of rows of vectors of one column.
#[derive(Clone)]
struct Rows<E: Scalar> {
    storage: Arc<dyn Storage<E>>,
    /// Rows of a reduction block, and of a piece of it.
    block: usize,
    piece: usize,
}

impl<E: Scalar> Rows<E> {
    fn new(space: &Space, storage: &Arc<dyn Storage<E>>) -> Self {
        let piece = (AT_ONCE / space.multiple()).max(1) * space.multiple();
        Rows { storage: Arc::clone(storage), block: space.reduction_rows(), piece }
    }

    /// Returns these rows, borrowed or decoded into the buffer.
    fn of<'b>(&self, words: &'b [f64], at: Range<usize>, buffer: &'b mut [E]) -> &'b [E] {
        if self.storage.is_plain() {
            return &E::of_words(words)[at];
        }
        let decoded = &mut buffer[..at.len()];
        self.storage.decode(words, at.start, decoded);
        decoded
    }

    /// Calls a function for each piece of `rows` rows, with the index of its reduction block.
    fn each(&self, rows: usize, mut f: impl FnMut(usize, Range<usize>)) {
        for (block, start) in (0..rows).step_by(self.block).enumerate() {
            let end = rows.min(start + self.block);
            (start..end).step_by(self.piece).for_each(|first| f(block, first..end.min(first + self.piece)));
        }
    }

    /// Calls a function for the rows `at` of groups of vectors, with the index of the first.
    fn together(&self, vectors: &[&[f64]], at: &Range<usize>, mut f: impl FnMut(usize, &[&[E]])) {
        let mut buffers = vec![E::default(); TOGETHER * self.piece];
        for (group, words) in vectors.chunks(TOGETHER).enumerate() {
            let of = buffers.chunks_mut(self.piece).zip(words);
            let decoded: Vec<&[E]> = of.map(|(buffer, words)| self.of(words, at.clone(), buffer)).collect();
            f(group * TOGETHER, &decoded);
        }
    }
}

/// Computes `w += sum_k h_k v_k`.
fn add_all<E: Scalar>(w: &mut [E], v: &[&[E]], h: impl Fn(usize) -> E) {
    match v {
        [a, b, c, d] => E::subtract(w, [-h(0), -h(1), -h(2), -h(3)], [a, b, c, d]),
        _ => v.iter().enumerate().for_each(|(k, v)| E::subtract(w, [-h(k)], [v])),
    }
}

/// Adds `v_k . w` to sums.
fn project_all<E: Scalar>(w: &[E], v: &[&[E]], sums: &mut [E]) {
    let mut add = |k: usize, one: E| sums[k] = sums[k] + one;
    match v {
        [a, b, c, d] => {
            E::projections(w, [a, b, c, d]).into_iter().enumerate().for_each(|(k, one)| add(k, one));
        }
        _ => v.iter().enumerate().for_each(|(k, v)| add(k, E::projections(w, [v])[0])),
    }
}

/// Copies a column of interleaved ones into a buffer.
fn gather<E: Scalar>(w: &[E], at: &Range<usize>, [column, columns]: [usize; 2], to: &mut [E]) {
    let rows = w[at.start * columns..at.end * columns].chunks_exact(columns);
    to.iter_mut().zip(rows).for_each(|(to, row)| *to = row[column]);
}

impl<E: Scalar> Subspace<E> {
    /// Makes a subspace of these vectors.
    ///
    /// # Errors
    /// [`Error::Shape`] unless there is at least one vector, and all have one column, the same
    /// space and the same storage.
    pub fn new(vectors: Vec<MultiVector<E>>) -> Result<Self, Error> {
        let first = vectors.first().ok_or_else(|| Error::shape("subspace", "it has no vectors"))?;
        let is_like = |v: &MultiVector<E>| {
            v.columns() == 1 && v.space() == first.space() && v.storage().name() == first.storage().name()
        };
        match vectors.iter().position(|v| !is_like(v)) {
            Some(at) => {
                let problem =
                    format!("vector {at} has several columns, or another space or storage than the first");
                Err(Error::shape("subspace", problem))
            }
            None => Ok(Subspace { vectors }),
        }
    }

    /// Returns the vectors.
    pub fn vectors(&self) -> &[MultiVector<E>] {
        &self.vectors
    }

    /// Returns the storage of the vectors.
    pub fn storage(&self) -> &Arc<dyn Storage<E>> {
        self.vectors[0].storage()
    }

    /// Returns the bytes of all vectors.
    pub fn bytes(&self) -> u64 {
        let words = |rows: Range<usize>| self.storage().words(rows.len());
        let of_vector: usize = self.vectors[0].space().ranges().map(words).sum();
        (self.vectors.len() * of_vector * size_of::<f64>()) as u64
    }

    /// Returns the first vectors.
    pub(super) fn first(&self, count: usize) -> Subspace<E> {
        Subspace { vectors: self.vectors[..count].to_vec() }
    }

    /// Returns copies of the vectors in another storage.
    ///
    /// # Errors
    /// Errors of tasks.
    pub fn stored(&self, rt: &dyn Executor, storage: Arc<dyn Storage<E>>) -> Result<Subspace<E>, Error> {
        let numbers = NumbersHandle::<E>::new(rt, 1, 0);
        let space = self.vectors[0].space();
        let made = |_: &MultiVector<E>| MultiVector::stored(rt, space, 1, Arc::clone(&storage));
        let copies: Vec<MultiVector<E>> = self.vectors.iter().map(made).collect();
        rt.record(|graph| {
            let steps = Steps::new(rt, graph, space, &numbers);
            let each = copies.iter().zip(&self.vectors);
            each.into_iter().try_for_each(|(to, from)| steps.task("subspace.store").copy(to, from).submit())
        })?
        .run()?;
        Subspace::new(copies)
    }

    fn of_part(
        &self,
        i: usize,
    ) -> impl Iterator<Item = &zellige_runtime::Handle<zellige_runtime::data::Chunk<f64>>> {
        self.vectors.iter().map(move |v| &v.parts()[i])
    }

    /// Records that sum `k` becomes `conj(v_k) . w` for each vector and column of `w`, which is
    /// plain. The sums are at least as many as the vectors.
    ///
    /// # Errors
    /// Those of submission.
    pub fn project(&self, steps: &Steps<'_, E>, w: &MultiVector<E>) -> Result<(), Error> {
        let (columns, width) = (steps.columns(), steps.sums().width());
        let rows = Rows::new(steps.space(), self.storage());
        for i in 0..steps.space().parts() {
            let rows = rows.clone();
            let operands = (steps.numbers().read(), reads(self.of_part(i)), w.read(i), steps.sums().of(i));
            steps.one("subspace.project", i, operands, move |(numbers, vectors, w, sums)| {
                let vectors: Vec<&[f64]> = vectors.iter().map(|v| v.slice()).collect();
                let (w, sums) = (E::of_words(&w), E::of_words_mut(sums));
                sums.fill(E::default());
                let mut column = vec![E::default(); rows.piece];
                rows.each(w.len() / columns, |block, at| {
                    rows.together(&vectors, &at, |first, v| {
                        for (c, s) in columns_of::<E>(numbers, columns).enumerate() {
                            if s.is_done() {
                                continue;
                            }
                            let column = &mut column[..at.len()];
                            gather(w, &at, [c, columns], column);
                            let sums = &mut sums[(block * columns + c) * width..][..width];
                            project_all(column, v, &mut sums[first..]);
                        }
                    });
                });
            })?;
        }
        Ok(())
    }

    /// Records `w += sign * sum_k s[first + k] v_k` for each column of `w`, which is plain, with
    /// the method's scalars of that column.
    ///
    /// # Errors
    /// Those of submission.
    pub fn add(
        &self,
        steps: &Steps<'_, E>,
        w: &MultiVector<E>,
        first: usize,
        sign: f64,
    ) -> Result<(), Error> {
        let columns = steps.columns();
        let (rows, sign) = (Rows::new(steps.space(), self.storage()), E::from_real(sign));
        for i in 0..steps.space().parts() {
            let rows = rows.clone();
            let operands = (steps.numbers().read(), reads(self.of_part(i)), w.update(i));
            steps.one("subspace.add", i, operands, move |(numbers, vectors, w)| {
                let vectors: Vec<&[f64]> = vectors.iter().map(|v| v.slice()).collect();
                let w = E::of_words_mut(w);
                let mut column = vec![E::default(); rows.piece];
                rows.each(w.len() / columns, |_, at| {
                    rows.together(&vectors, &at, |group, v| {
                        for (c, s) in columns_of::<E>(numbers, columns).enumerate() {
                            if s.is_done() {
                                continue;
                            }
                            let column = &mut column[..at.len()];
                            gather(w, &at, [c, columns], column);
                            add_all(column, v, |k| sign * s[first + group + k]);
                            let places = w[at.start * columns..at.end * columns].chunks_exact_mut(columns);
                            places.zip(column).for_each(|(row, from)| row[c] = *from);
                        }
                    });
                });
            })?;
        }
        Ok(())
    }

    /// Records that vector `j` becomes `sum_k s[j][k] v_k` for each row of `s`; the others stay.
    ///
    /// # Errors
    /// Those of submission.
    pub(super) fn rotate(&self, steps: &Steps<'_, E>, s: &Arc<Vec<Vec<f64>>>) -> Result<(), Error> {
        let rows = Rows::new(steps.space(), self.storage());
        for (i, range) in steps.space().ranges().enumerate() {
            let (rows, s, count) = (rows.clone(), Arc::clone(s), range.len());
            let operands = (updates(self.of_part(i)),);
            steps.one("subspace.rotate", i, operands, move |(mut vectors,)| {
                rows.each(count, |_, at| {
                    let mut rotated = vec![vec![E::default(); at.len()]; s.len()];
                    let words: Vec<&[f64]> = vectors.iter().map(|v| &**v).collect();
                    rows.together(&words, &at, |group, v| {
                        for (to, s) in rotated.iter_mut().zip(&*s) {
                            add_all(to, v, |k| E::from_real(s[group + k]));
                        }
                    });
                    for (to, from) in vectors.iter_mut().zip(&rotated) {
                        rows.storage.encode(from, at.start, to);
                    }
                });
            })?;
        }
        Ok(())
    }
}
