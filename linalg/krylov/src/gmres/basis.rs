//! The vectors of a Krylov space, stored in few bits.

use std::marker::PhantomData;
use std::ops::Range;

use zellige_runtime::{Handle, Read, read, update};

use crate::error::Error;
use crate::executor::Executor;
use crate::numbers::{Numbers, columns_of};
use crate::scalar::Scalar;
use crate::space::{REDUCTION_ROWS, Space};
use crate::steps::Steps;
use crate::storage::{Packed, Storage};
use crate::vector::MultiVector;

/// Numbers that are decoded at a time: they stay in the nearest cache. A reduction block is a
/// multiple of this, and this is a multiple of whole blocks.
pub(super) const PIECE: usize = REDUCTION_ROWS / 8;

/// Basis vectors `v_0, v_1, ...` of each column (compressed basis: Aliaga, Anzt, Grützmacher,
/// Quintana-Ortí and Tomás 2022).
///
/// All vectors of a part are in one handle, so that every step has the same operands. The numbers
/// of a column are contiguous, so that they are encoded like those of a single column.
pub(super) struct Basis<E> {
    pub(super) format: Packed,
    /// For each part, the words of the codes: `[vector][column]`.
    parts: Vec<Handle<Vec<f64>>>,
    columns: usize,
    bytes: u64,
    scalar: PhantomData<E>,
}

/// The codes of the vectors of a part and column.
#[derive(Clone, Copy)]
pub(super) struct Codes<'v, E> {
    format: Packed,
    all: &'v [f64],
    of: ColumnOf,
    /// Length of a vector.
    len: usize,
    scalar: PhantomData<E>,
}

/// A column of several.
#[derive(Clone, Copy)]
pub(super) struct ColumnOf {
    pub(super) column: usize,
    pub(super) columns: usize,
}

impl ColumnOf {
    /// Returns the range of vector `k`, if a vector has `words` words.
    fn vector(self, k: usize, words: usize) -> Range<usize> {
        let first = (k * self.columns + self.column) * words;
        first..first + words
    }

    /// Returns these rows of the column, borrowed or gathered into a buffer.
    fn gathered<'b, E: Scalar>(self, v: &'b [E], rows: Range<usize>, buffer: &'b mut [E]) -> &'b [E] {
        if self.columns == 1 {
            return &v[rows];
        }
        let (count, rows) = (rows.len(), v[rows.start * self.columns..rows.end * self.columns].iter());
        let numbers = rows.skip(self.column).step_by(self.columns);
        buffer.iter_mut().zip(numbers).for_each(|(to, from)| *to = *from);
        &buffer[..count]
    }

    /// Changes these rows of the column, in place or in a buffer.
    pub(super) fn change<E: Scalar>(
        self,
        v: &mut [E],
        rows: Range<usize>,
        buffer: &mut [E],
        change: impl FnOnce(&mut [E]),
    ) {
        if self.columns == 1 {
            return change(&mut v[rows]);
        }
        let buffer = &mut buffer[..rows.len()];
        self.gathered(v, rows.clone(), buffer);
        change(buffer);
        let rows = v[rows.start * self.columns..rows.end * self.columns].iter_mut();
        rows.skip(self.column).step_by(self.columns).zip(&*buffer).for_each(|(to, from)| *to = *from);
    }

    /// Returns a buffer for the rows of a column, which is empty if none is needed.
    pub(super) fn buffer<E: Scalar>(columns: usize) -> Vec<E> {
        vec![E::default(); if columns == 1 { 0 } else { PIECE }]
    }
}

/// Returns the row ranges of pieces from `start` to before `end`.
pub(super) fn pieces(start: usize, end: usize) -> impl Iterator<Item = Range<usize>> {
    (start..end).step_by(PIECE).map(move |first| first..end.min(first + PIECE))
}

impl<'v, E: Scalar> Codes<'v, E> {
    /// Vectors of `len` numbers.
    pub(super) fn new(format: Packed, all: &'v [f64], of: ColumnOf, len: usize) -> Self {
        Codes { format, all, of, len, scalar: PhantomData }
    }

    /// Returns numbers `at` of vector `k`; `at` begins at a multiple of [`PIECE`]. They are decoded
    /// into `buffer`.
    pub(super) fn piece(&self, k: usize, at: Range<usize>, buffer: &'v mut [E]) -> &'v [E] {
        let of_vector = &self.all[self.of.vector(k, words::<E>(self.format, self.len))];
        if self.format.is_plain() {
            return &E::of_words(of_vector)[at];
        }
        let decoded = &mut buffer[..at.len()];
        Storage::<E>::decode(&self.format, of_vector, at.start, decoded);
        decoded
    }
}

/// Words of a vector.
fn words<E: Scalar>(format: Packed, numbers: usize) -> usize {
    Storage::<E>::words(&format, numbers)
}

impl<E: Scalar> Basis<E> {
    pub(super) fn new(
        rt: &dyn Executor,
        space: &Space,
        columns: usize,
        vectors: usize,
        format: Packed,
    ) -> Self {
        let size = |range: Range<usize>| vectors * columns * words::<E>(format, range.len());
        let part = |(i, range)| rt.words_on(space.rank_of(i, rt.ranks()), vec![0.0; size(range)]);
        let parts = space.ranges().enumerate().map(part).collect();
        let of = |range: Range<usize>| (vectors * format.bytes(range.len() * E::WORDS)) as u64;
        let bytes = space.ranges().map(of).sum();
        Basis { format, parts, columns, bytes, scalar: PhantomData }
    }

    /// Bytes of the vectors of one column, as they are stored.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns part `i` of all vectors, for a task that reads some.
    pub(super) fn read(&self, i: usize) -> Read<Vec<f64>> {
        read(&self.parts[i])
    }

    /// Records `v_j = w / s[norm]` for each running column, with `j` the number of steps made;
    /// `last` receives the vector as it is read back.
    pub(super) fn store(
        &self,
        steps: &Steps<'_, E>,
        w: &MultiVector<E>,
        norm: usize,
        last: &MultiVector<E>,
    ) -> Result<(), Error> {
        let (format, columns) = (self.format, self.columns);
        let name = if format.is_plain() { "gmres.normalise" } else { "gmres.compress" };
        steps.each(
            name,
            |i| (steps.numbers().read(), w.read(i), update(&self.parts[i]), last.update(i)),
            move |(numbers, w, all, v)| {
                let (w, v) = (E::of_words(&w), E::of_words_mut(v));
                let rows = w.len() / columns;
                let (mut from, mut to) = (ColumnOf::buffer(columns), ColumnOf::buffer(columns));
                for (of, s) in open::<E>(numbers, columns) {
                    let codes = &mut all[of.vector(s.steps(), words::<E>(format, rows))];
                    for at in pieces(0, rows) {
                        let w = of.gathered(w, at.clone(), &mut from);
                        of.change(v, at.clone(), &mut to, |v| {
                            v.iter_mut().zip(w).for_each(|(v, w)| *v = *w / s[norm]);
                            Storage::<E>::encode(&format, v, at.start, codes);
                            if !format.is_plain() {
                                Storage::<E>::decode(&format, codes, at.start, v);
                            }
                        });
                    }
                }
            },
        )
    }

    /// Records that vector `j`, the number of steps made, becomes `z`, for each running column.
    pub(super) fn keep(&self, steps: &Steps<'_, E>, z: &MultiVector<E>) -> Result<(), Error> {
        let (format, columns) = (self.format, self.columns);
        steps.each(
            "gmres.keep",
            |i| (steps.numbers().read(), z.read(i), update(&self.parts[i])),
            move |(numbers, z, all)| {
                let z = E::of_words(&z);
                let (rows, mut buffer) = (z.len() / columns, ColumnOf::buffer(columns));
                for (of, s) in open::<E>(numbers, columns) {
                    let codes = &mut all[of.vector(s.steps(), words::<E>(format, rows))];
                    for at in pieces(0, rows) {
                        let z = of.gathered(z, at.clone(), &mut buffer);
                        Storage::<E>::encode(&format, z, at.start, codes);
                    }
                }
            },
        )
    }
}

/// Returns the running columns, each with its numbers.
pub(super) fn open<E: Scalar>(
    words: &[f64],
    columns: usize,
) -> impl Iterator<Item = (ColumnOf, Numbers<E, &[f64]>)> {
    let each = columns_of(words, columns).enumerate();
    each.map(move |(column, s)| (ColumnOf { column, columns }, s)).filter(|(_, s)| !s.is_done())
}
