//! Operations of a vector task on the operands of its tasks.

use std::ops::Range;
use std::sync::Arc;

use super::term::Coefficient;
use crate::scalar::Scalar;
use crate::storage::Storage;

/// Numbers of a vector that are processed at a time: all vectors of a task stay in the nearest
/// cache.
pub(super) const AT_ONCE: usize = 512;

/// Terms of an assignment at most.
pub(super) const MOST_TERMS: usize = 3;

/// Place of an operand among those of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Read(usize),
    Updated(usize),
}

#[derive(Debug)]
pub(super) struct PlacedTerm<E> {
    pub(super) coefficient: Coefficient<E>,
    pub(super) diagonal: Option<Place>,
    pub(super) v: Place,
}

#[derive(Debug)]
pub(super) struct Assignment<E> {
    pub(super) target: usize,
    pub(super) terms: Vec<PlacedTerm<E>>,
}

#[derive(Debug)]
pub(super) struct Dot {
    pub(super) x: Place,
    pub(super) with: DotFactor,
    pub(super) at: usize,
}

/// Second factor of a dot product.
#[derive(Clone, Copy, Debug)]
pub(super) enum DotFactor {
    Vector(Place),
    /// The change of the vector, by its index among all changes.
    Change(usize),
}

#[derive(Debug)]
pub(super) struct Operand<E: Scalar> {
    pub(super) columns: usize,
    pub(super) storage: Arc<dyn Storage<E>>,
}

impl<E: Scalar> Operand<E> {
    /// Returns numbers `at`, borrowed from plain storage or decoded into a buffer.
    pub(super) fn decoded<'b>(&self, words: &'b [f64], at: Range<usize>, buffer: &'b mut [E]) -> &'b [E] {
        if self.storage.is_plain() {
            return &E::of_words(words)[at];
        }
        self.storage.decode(words, at.start, buffer);
        buffer
    }
}

/// Operations of a vector task on a part.
#[derive(Debug)]
pub(super) struct Program<E: Scalar> {
    pub(super) columns: usize,
    /// Rows that are processed at a time: whole groups of lanes, and of rows that are encoded as a
    /// group.
    pub(super) rows_at_once: usize,
    /// Rows of a reduction block.
    pub(super) reduction_rows: usize,
    pub(super) read: Vec<Operand<E>>,
    pub(super) updated: Vec<Operand<E>>,
    pub(super) assignments: Vec<Assignment<E>>,
    pub(super) dots: Vec<Dot>,
    /// Vectors whose change is needed, by their index among the updated ones.
    pub(super) changes: Vec<usize>,
    /// Sums of a reduction block and column.
    pub(super) width: usize,
    /// A scalar that is zero for the columns that are worked on.
    pub(super) unless: Option<usize>,
}
