//! Choice of vector tasks that GPUs run, and their programs there.

use zellige_kernels::RealNumber;
use zellige_kernels::cuda::{Factor, VectorProgram};

use super::program::{DotFactor, Operand, Place, PlacedTerm, Program};
use super::term::Coefficient;
use crate::gpu::VectorKernel;
use crate::scalar::Scalar;
use crate::steps::Steps;

impl<E: Scalar> Program<E> {
    /// Returns true if a single task, for a GPU, is to process all parts.
    pub(super) fn goes_at_once(&self, steps: &Steps<'_, E>) -> bool {
        let of = |operands: &[Operand<E>]| operands.iter().map(|one| one.columns).sum::<usize>();
        steps.executor().goes_at_once(steps.space().bytes(of(&self.read) + of(&self.updated)))
    }

    /// Returns the program for the kernel; `None` if it exceeds the kernel's limits, or for other
    /// numbers and storages.
    pub(super) fn kernel(&self) -> Option<VectorKernel> {
        let is_plain = |operands: &[Operand<E>]| operands.iter().all(|one| one.storage.is_plain());
        if !E::HAS_KERNELS || !is_plain(&self.read) || !is_plain(&self.updated) {
            return None;
        }
        let mut terms = self.assignments.iter().flat_map(|assignment| &assignment.terms);
        let is_real = |term: &PlacedTerm<E>| match term.coefficient {
            Coefficient::Constant(constant) => constant == E::from_real(constant.real()),
            Coefficient::Number(_) | Coefficient::Negative(_) => true,
        };
        if !terms.all(is_real) {
            return None;
        }
        let at = |place: Place| match place {
            Place::Read(at) => at,
            Place::Updated(at) => self.read.len() + at,
        };
        let mut program = if E::PARTS == 1 { VectorProgram::default() } else { VectorProgram::complex() };
        for assignment in &self.assignments {
            let terms = assignment.terms.iter();
            let terms = terms.map(|term| (factor(term.coefficient), term.diagonal.map(at), at(term.v)));
            program.assign(at(Place::Updated(assignment.target)), terms);
        }
        for dot in &self.dots {
            match dot.with {
                DotFactor::Vector(y) => program.dot(at(dot.x), at(y), dot.at),
                DotFactor::Change(_) => program.dot_change(at(dot.x), dot.at),
            }
        }
        program.fits().then_some(VectorKernel {
            program,
            columns: self.columns,
            block: self.reduction_rows,
            width: self.width,
            unless: self.unless,
            read: self.read.len(),
            updated: self.updated.len(),
        })
    }
}

fn factor<E: Scalar>(coefficient: Coefficient<E>) -> Factor {
    match coefficient {
        Coefficient::Constant(constant) => Factor::Constant(constant.real().value()),
        Coefficient::Number(number) => Factor::Number(number),
        Coefficient::Negative(number) => Factor::Negative(number),
    }
}
