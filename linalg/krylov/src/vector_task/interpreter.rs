//! Running the program of a vector task on a CPU.

use std::ops::Range;

use smallvec::SmallVec;
use zellige_kernels::RealNumber;
use zellige_kernels::vectors::LANES;

use super::program::{Assignment, DotFactor, MOST_TERMS, Place, Program};
use crate::numbers::{Numbers, columns_of};
use crate::reduction::finish;
use crate::scalar::Scalar;

/// Buffers of the terms of an assignment, and one for the columns that stay as they are.
const TERM_BUFFERS: usize = MOST_TERMS + 1;

/// Buffers of a task.
struct Buffers<'s, E> {
    /// Buffer for decoded vectors: those that are read, then those that are updated.
    decoded: &'s mut [E],
    /// Buffer for terms that are not a vector in plain storage.
    terms: &'s mut [E],
    /// Buffer for the previous values of vectors.
    changes: &'s mut [E],
    /// For each assignment and term, the coefficient for each column; then the factor of its
    /// diagonal.
    coefficients: &'s mut [E],
    scales: &'s mut [E],
    /// For each dot product, the sums of the lanes.
    lanes: &'s mut [E],
    /// Length of a buffer of each vector.
    len: usize,
}

impl<E: Scalar> Program<E> {
    fn buffers<'s>(&self, scratch: &'s mut Vec<f64>) -> Buffers<'s, E> {
        let len = self.rows_at_once * self.columns;
        let coefficients = self.assignments.iter().map(|one| one.terms.len()).sum::<usize>() * self.columns;
        let sizes = [
            (self.read.len() + self.updated.len()) * len,
            TERM_BUFFERS * len,
            self.changes.len() * len,
            coefficients,
            coefficients,
            self.dots.len() * LANES * self.columns,
        ];
        let words = sizes.iter().sum::<usize>() * E::WORDS;
        if scratch.len() < words {
            scratch.resize(words, 0.0);
        }
        let mut rest = E::of_words_mut(&mut scratch[..words]);
        let [decoded, terms, changes, coefficients, scales, lanes] = sizes.map(|size| {
            let (one, others) = std::mem::take(&mut rest).split_at_mut(size);
            rest = others;
            one
        });
        Buffers { decoded, terms, changes, coefficients, scales, lanes, len }
    }

    /// Runs the program on the rows of a part, of which the first one in the space is `origin`.
    pub(super) fn run(
        &self,
        (origin, rows): (usize, usize),
        numbers: &[f64],
        active: &[bool],
        read: &[&[f64]],
        updated: &mut [&mut [f64]],
        sums: Option<&mut [f64]>,
        scratch: &mut Vec<f64>,
    ) {
        let mut buffers = self.buffers(scratch);
        self.resolve(numbers, &mut buffers);
        let mut sums = sums.map(E::of_words_mut);
        for (block, start) in (0..rows).step_by(self.reduction_rows).enumerate() {
            let end = rows.min(start + self.reduction_rows);
            buffers.lanes.fill(E::default());
            for first in (start..end).step_by(self.rows_at_once) {
                let rows = first..end.min(first + self.rows_at_once);
                let is_last = rows.end == end;
                E::Real::begin((origin + first) as u64);
                self.run_rows(rows, is_last, (read, &mut *updated), active, &mut buffers);
            }
            if let Some(sums) = &mut sums {
                self.store_sums(sums, block, active, buffers.lanes);
            }
        }
    }

    /// Returns the columns that are processed.
    pub(super) fn active(&self, numbers: &[f64]) -> SmallVec<[bool; 8]> {
        let is_open = |at: usize, numbers: &Numbers<E, &[f64]>| numbers[at] == E::default();
        columns_of::<E>(numbers, self.columns)
            .map(|one| !one.is_done() && self.unless.is_none_or(|at| is_open(at, &one)))
            .collect()
    }

    /// Computes the coefficients of all terms. The coefficient of a term with a diagonal is applied
    /// when the term is computed, so 1 remains.
    fn resolve(&self, numbers: &[f64], buffers: &mut Buffers<'_, E>) {
        let terms = self.assignments.iter().flat_map(|assignment| &assignment.terms);
        for (t, term) in terms.enumerate() {
            for (c, numbers) in columns_of::<E>(numbers, self.columns).enumerate() {
                let (at, coefficient) = (t * self.columns + c, term.coefficient.of(|at| numbers[at]));
                buffers.scales[at] = coefficient;
                let is_made = term.diagonal.is_some();
                buffers.coefficients[at] = if is_made { E::from_real(1.0) } else { coefficient };
            }
        }
    }

    fn store_sums(&self, sums: &mut [E], block: usize, active: &[bool], lanes: &[E]) {
        let of_block = &mut sums[block * self.columns * self.width..][..self.columns * self.width];
        for (dot, lanes) in self.dots.iter().zip(lanes.chunks_exact(LANES * self.columns)) {
            for c in (0..self.columns).filter(|c| active[*c]) {
                of_block[c * self.width + dot.at] = lanes[c];
            }
        }
    }

    /// Executes all operations for some rows, the last of a reduction block or not.
    fn run_rows(
        &self,
        rows: Range<usize>,
        is_last: bool,
        (read, updated): (&[&[f64]], &mut [&mut [f64]]),
        active: &[bool],
        buffers: &mut Buffers<'_, E>,
    ) {
        let (of_read, of_updated) = buffers.decoded.split_at_mut(read.len() * buffers.len);
        let mut decoded: SmallVec<[&[E]; 8]> = SmallVec::new();
        let mut of_read = of_read.chunks_exact_mut(buffers.len);
        for (words, operand) in read.iter().zip(&self.read) {
            let at = rows.start * operand.columns..rows.end * operand.columns;
            let buffer = &mut of_read.next().expect("one for each vector")[..at.len()];
            decoded.push(operand.decoded(words, at, buffer));
        }
        let at = rows.start * self.columns..rows.end * self.columns;
        let mut of_updated = of_updated.chunks_exact_mut(buffers.len);
        let mut encoded: SmallVec<[Option<&mut [f64]>; 4]> = SmallVec::new();
        let mut targets: SmallVec<[&mut [E]; 4]> = SmallVec::new();
        for (words, operand) in updated.iter_mut().zip(&self.updated) {
            let buffer = &mut of_updated.next().expect("one for each vector")[..at.len()];
            if operand.storage.is_plain() {
                targets.push(&mut E::of_words_mut(words)[at.clone()]);
                encoded.push(None);
            } else {
                operand.storage.decode(words, at.start, buffer);
                targets.push(buffer);
                encoded.push(Some(words));
            }
        }
        for (buffer, target) in buffers.changes.chunks_exact_mut(buffers.len).zip(&self.changes) {
            buffer[..at.len()].copy_from_slice(targets[*target]);
        }
        let mut first = 0;
        for assignment in &self.assignments {
            let target = assignment.target;
            let y = std::mem::take(&mut targets[target]);
            let (coefficients, scales) = (&*buffers.coefficients, &*buffers.scales);
            let input = Input { read: &decoded, updated: &targets, coefficients, scales, active };
            self.assign(y, first, assignment, &input, buffers.terms);
            // Later assignments and sums use the stored, rounded values.
            if let Some(words) = &mut encoded[target] {
                let storage = &self.updated[target].storage;
                storage.encode(y, at.start, words);
                storage.decode(words, at.start, y);
            }
            targets[target] = y;
            first += assignment.terms.len() * self.columns;
        }
        let of = |place: Place| match place {
            Place::Read(at) => decoded[at],
            Place::Updated(at) => &*targets[at],
        };
        for (buffer, target) in buffers.changes.chunks_exact_mut(buffers.len).zip(&self.changes) {
            buffer.iter_mut().zip(&*targets[*target]).for_each(|(old, new)| *old = *new - *old);
        }
        let of_change = |change: usize| &buffers.changes[change * buffers.len..][..at.len()];
        for (dot, lanes) in self.dots.iter().zip(buffers.lanes.chunks_exact_mut(LANES * self.columns)) {
            let x = of(dot.x);
            let y = match dot.with {
                DotFactor::Vector(place) => of(place),
                DotFactor::Change(change) => of_change(change),
            };
            let whole = x.len() / lanes.len() * lanes.len();
            E::accumulate(&x[..whole], &y[..whole], lanes);
            if is_last {
                finish(lanes, &x[whole..], &y[whole..]);
            }
        }
    }

    /// Computes `y = sum of the terms`, for the active columns.
    fn assign(&self, y: &mut [E], at: usize, assignment: &Assignment<E>, of: &Input<'_, E>, terms: &mut [E]) {
        let columns = self.columns;
        let mut buffers = terms.chunks_exact_mut(terms.len() / TERM_BUFFERS);
        let kept = &mut buffers.next().expect("one for what stays")[..y.len()];
        let some_are_done = of.active.contains(&false);
        if some_are_done {
            kept.copy_from_slice(y);
        }
        let mut vectors: SmallVec<[Option<&[E]>; MOST_TERMS]> = SmallVec::new();
        for (t, term) in assignment.terms.iter().enumerate() {
            let is_target = term.v == Place::Updated(assignment.target);
            let Some(diagonal) = term.diagonal else {
                vectors.push((!is_target).then(|| of.get(term.v)));
                continue;
            };
            let buffer = &mut buffers.next().expect("one for each term")[..y.len()];
            let scales = &of.scales[at + t * columns..][..columns];
            E::scale_rows(buffer, scales, of.get(diagonal), if is_target { y } else { of.get(term.v) });
            vectors.push(Some(buffer));
        }
        match vectors.len() {
            0 => y.fill(E::default()),
            terms => E::combine(y, columns, &of.coefficients[at..at + terms * columns], &vectors),
        }
        if some_are_done {
            for (i, (y, kept)) in y.iter_mut().zip(kept).enumerate() {
                if !of.active[i % columns] {
                    *y = *kept;
                }
            }
        }
    }
}

/// Input of the assignments to some rows.
struct Input<'b, E> {
    read: &'b [&'b [E]],
    updated: &'b [&'b mut [E]],
    /// For each term and column, its coefficient and the factor of its diagonal.
    coefficients: &'b [E],
    scales: &'b [E],
    /// The columns that are not done.
    active: &'b [bool],
}

impl<E> Input<'_, E> {
    fn get(&self, place: Place) -> &[E] {
        match place {
            Place::Read(at) => self.read[at],
            Place::Updated(at) => &*self.updated[at],
        }
    }
}
