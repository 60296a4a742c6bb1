//! Compilation of the operations of a vector task to a program.

use std::sync::Arc;

use super::program::{AT_ONCE, Assignment, Dot, DotFactor, Operand, Place, PlacedTerm, Program};
use super::term::Term;
use crate::scalar::Scalar;
use crate::space::Space;
use crate::vector::MultiVector;

/// Operations in the order of their execution.
pub(super) struct Operations<E: Scalar> {
    /// Each target with the terms of its sum.
    pub(super) assignments: Vec<(MultiVector<E>, Vec<Term<E>>)>,
    /// Both factors of each product, and the index of its sum.
    pub(super) dots: Vec<(MultiVector<E>, MultiVector<E>, usize)>,
    /// Vectors whose change is multiplied, and the index of the sum.
    pub(super) changes: Vec<(MultiVector<E>, usize)>,
    /// A scalar that is zero for the columns that are worked on.
    pub(super) unless: Option<usize>,
}

impl<E: Scalar> Default for Operations<E> {
    fn default() -> Self {
        let (assignments, dots, changes) = Default::default();
        Operations { assignments, dots, changes, unless: None }
    }
}

impl<E: Scalar> Operations<E> {
    /// Returns true if products are summed.
    pub(super) fn has_sums(&self) -> bool {
        !(self.dots.is_empty() && self.changes.is_empty())
    }

    /// Returns the program for vectors of a space, with `width` sums, and its operands.
    pub(super) fn compile(
        &self,
        space: &Space,
        columns: usize,
        width: usize,
    ) -> (Program<E>, OperandList<E>) {
        let mut vectors = OperandList { parts: space.parts(), updated: Vec::new(), read: Vec::new() };
        // The updated vectors are known once all assignments are.
        self.assignments.iter().for_each(|(y, _)| add_once(&mut vectors.updated, y));
        let mut assignments = Vec::with_capacity(self.assignments.len());
        for (y, terms) in &self.assignments {
            let term = |term: &Term<E>| PlacedTerm {
                coefficient: term.coefficient,
                diagonal: term.diagonal.as_ref().map(|diagonal| vectors.place(diagonal, 1)),
                v: vectors.place(&term.v, columns),
            };
            let terms = terms.iter().map(term).collect();
            assignments.push(Assignment { target: vectors.target(y), terms });
        }
        let dot = |(x, y, at): &(MultiVector<E>, MultiVector<E>, usize)| Dot {
            x: vectors.place(x, columns),
            with: DotFactor::Vector(vectors.place(y, columns)),
            at: *at,
        };
        let mut dots: Vec<Dot> = self.dots.iter().map(dot).collect();
        dots.extend(self.changes.iter().enumerate().map(|(change, (y, at))| Dot {
            x: vectors.place(y, columns),
            with: DotFactor::Change(change),
            at: *at,
        }));
        let changes = self.changes.iter().map(|(y, _)| vectors.target(y)).collect();
        let [read, updated] = [&vectors.read, &vectors.updated].map(|vectors| operands(vectors));
        let rows_at_once = (AT_ONCE / columns / space.multiple()).max(1) * space.multiple();
        let reduction_rows = space.reduction_rows();
        let unless = self.unless;
        let program = Program {
            columns,
            rows_at_once,
            reduction_rows,
            read,
            updated,
            assignments,
            dots,
            changes,
            width,
            unless,
        };
        (program, vectors)
    }
}

/// The vectors of a task, each once.
pub(super) struct OperandList<E: Scalar> {
    /// Number of parts of each vector.
    parts: usize,
    pub(super) updated: Vec<MultiVector<E>>,
    pub(super) read: Vec<MultiVector<E>>,
}

impl<E: Scalar> OperandList<E> {
    /// Returns the index of a vector that is assigned to among those that are updated.
    fn target(&self, y: &MultiVector<E>) -> usize {
        self.updated.iter().position(|one| one.is(y)).expect("a vector that is assigned to")
    }

    /// Returns the place of a vector of `columns` columns among those that are updated or read.
    fn place(&mut self, v: &MultiVector<E>, columns: usize) -> Place {
        assert_eq!(v.parts().len(), self.parts, "a vector of another space");
        assert_eq!(v.columns(), columns, "a vector of other columns");
        if let Some(at) = self.updated.iter().position(|one| one.is(v)) {
            return Place::Updated(at);
        }
        add_once(&mut self.read, v);
        Place::Read(self.read.iter().position(|one| one.is(v)).expect("it was added"))
    }
}

fn add_once<E: Scalar>(vectors: &mut Vec<MultiVector<E>>, v: &MultiVector<E>) {
    if !vectors.iter().any(|one| one.is(v)) {
        vectors.push(v.clone());
    }
}

fn operands<E: Scalar>(vectors: &[MultiVector<E>]) -> Vec<Operand<E>> {
    vectors.iter().map(|v| Operand { columns: v.columns(), storage: Arc::clone(v.storage()) }).collect()
}
