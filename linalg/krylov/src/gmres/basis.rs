//! The vectors of a Krylov space, stored in few bits.

use std::marker::PhantomData;
use std::ops::Range;

use zellige_runtime::{Handle, Read, Runtime, Submit, read, update};

use crate::error::Error;
use crate::numbers::columns_of;
use crate::scalar::Scalar;
use crate::space::{GRAIN, Space};
use crate::steps::Steps;
use crate::storage::{Packed, Storage};
use crate::vector::MultiVector;

/// Numbers that are decoded at a time: they stay in the nearest cache. A whole number of them is a grain, and whole blocks are one of them.
pub(super) const PIECE: usize = GRAIN / 8;

/// Vectors `v_0, v_1, ...`: those of a part in one handle, so that a step has the same operands whichever they are (compressed basis: Aliaga, Anzt,
/// Grützmacher, Quintana-Ortí and Tomás 2022).
pub(super) struct Basis<E> {
    pub(super) format: Packed,
    /// Of each part, vector after vector: the words of their codes.
    parts: Vec<Handle<Vec<f64>>>,
    bytes: u64,
    scalar: PhantomData<E>,
}

/// The codes of the vectors of a part.
#[derive(Clone, Copy)]
pub(super) struct Codes<'v, E> {
    format: Packed,
    all: &'v [f64],
    /// Numbers of a vector.
    len: usize,
    scalar: PhantomData<E>,
}

impl<'v, E: Scalar> Codes<'v, E> {
    /// Vectors of `len` numbers.
    pub(super) fn new(format: Packed, all: &'v [f64], len: usize) -> Self {
        Codes { format, all, len, scalar: PhantomData }
    }

    /// Numbers `at` of vector `k`; `at` begins at a multiple of [`PIECE`]. `buffer` is where they are decoded.
    pub(super) fn piece(&self, k: usize, at: Range<usize>, buffer: &'v mut [E]) -> &'v [E] {
        let words = words::<E>(self.format, self.len);
        let of_vector = &self.all[k * words..(k + 1) * words];
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
    pub(super) fn new(rt: &Runtime, space: &Space, vectors: usize, format: Packed) -> Self {
        let of_part = |range: Range<usize>| rt.register(vec![0.0; vectors * words::<E>(format, range.len())]);
        let parts = space.ranges().map(of_part).collect();
        let of = |range: Range<usize>| (vectors * format.bytes(range.len() * E::WORDS)) as u64;
        let bytes = space.ranges().map(of).sum();
        Basis { format, parts, bytes, scalar: PhantomData }
    }

    /// Bytes of the vectors, as they are stored.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Part `i` of all vectors, for a task that reads some.
    pub(super) fn read(&self, i: usize) -> Read<Vec<f64>> {
        read(&self.parts[i])
    }

    /// Records `v_j = w / s[norm]`, with `j` the steps that have been made; `last` is the same vector as it is read back.
    pub(super) fn store(
        &self,
        steps: &Steps<'_, E>,
        w: &MultiVector<E>,
        norm: usize,
        last: &MultiVector<E>,
    ) -> Result<(), Error> {
        let format = self.format;
        let name = if format.is_plain() { "gmres.normalise" } else { "gmres.compress" };
        steps.each(
            name,
            |i| (steps.numbers().read(), w.read(i), update(&self.parts[i]), last.update(i)),
            move |(numbers, w, all, v)| {
                let s = first::<E>(numbers);
                let (w, v) = (E::of_words(&w), E::of_words_mut(v));
                let words = words::<E>(format, w.len());
                let codes = &mut all[s.steps() * words..(s.steps() + 1) * words];
                for (piece, (v, w)) in v.chunks_mut(PIECE).zip(w.chunks(PIECE)).enumerate() {
                    let start = piece * PIECE;
                    v.iter_mut().zip(w).for_each(|(v, w)| *v = *w / s[norm]);
                    Storage::<E>::encode(&format, v, start, codes);
                    if !format.is_plain() {
                        Storage::<E>::decode(&format, codes, start, v);
                    }
                }
            },
        )
    }

    /// Records that vector `j`, the number of steps that have been made, is `z`.
    pub(super) fn keep(&self, steps: &Steps<'_, E>, z: &MultiVector<E>) -> Result<(), Error> {
        let format = self.format;
        steps.each(
            "gmres.keep",
            |i| (steps.numbers().read(), z.read(i), update(&self.parts[i])),
            move |(numbers, z, all)| {
                let (j, z) = (first::<E>(numbers).steps(), E::of_words(&z));
                let words = words::<E>(format, z.len());
                Storage::<E>::encode(&format, z, 0, &mut all[j * words..(j + 1) * words]);
            },
        )
    }
}

/// The numbers of the one column.
pub(super) fn first<E: Scalar>(words: &[f64]) -> crate::Numbers<E, &[f64]> {
    columns_of(words, 1).next().expect("one column")
}
