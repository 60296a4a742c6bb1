//! Vector tasks and formulas on GPUs: for vectors in float64, real or complex, with the bits of the
//! CPU.
//!
//! This is the only module of the crate with `unsafe`: a launch names the memory of its task's
//! operands and nothing else.
#![allow(unsafe_code)]

use zellige_cuda::{GpuContext, GpuTask};
use zellige_kernels::cuda::{
    Factor, FormulasAt, Launch, Loaded, PARTS, SPARSE_SOURCES, VectorPart, VectorProgram, VectorsAt,
    formulas_task, gather, source_with, vector_task,
};
use zellige_runtime::codelet::DeviceViews;
use zellige_runtime::{TaskContext, TaskError};

use crate::formulas;
use crate::numbers::{Copied, OWN};
use crate::scalar::Scalar;
use crate::vector_task::{Coefficient, Operand, Place, PlacedTerm, Program, Task, With};

/// Returns the program for the kernel; `None` if it exceeds the kernel's limits, or for other
/// numbers and storages.
pub(crate) fn program_of<E: Scalar>(program: &Program<E>) -> Option<VectorProgram> {
    let is_plain = |operands: &[Operand<E>]| operands.iter().all(|one| one.storage.is_plain());
    if !E::HAS_KERNELS || !is_plain(&program.read) || !is_plain(&program.updated) {
        return None;
    }
    let mut terms = program.assignments.iter().flat_map(|assignment| &assignment.terms);
    let is_real = |term: &PlacedTerm<E>| match term.coefficient {
        Coefficient::Constant(constant) => constant == E::from_real(constant.real()),
        Coefficient::Number(_) | Coefficient::Negative(_) => true,
    };
    if !terms.all(is_real) {
        return None;
    }
    let at = |place: Place| match place {
        Place::Read(at) => at,
        Place::Updated(at) => program.read.len() + at,
    };
    let factor = |coefficient: Coefficient<E>| match coefficient {
        Coefficient::Constant(constant) => Factor::Constant(constant.real()),
        Coefficient::Number(number) => Factor::Number(number),
        Coefficient::Negative(number) => Factor::Negative(number),
    };
    let mut of_kernel = if E::WORDS == 1 { VectorProgram::default() } else { VectorProgram::complex() };
    for assignment in &program.assignments {
        let terms = assignment.terms.iter();
        let terms = terms.map(|term| (factor(term.coefficient), term.diagonal.map(at), at(term.v)));
        of_kernel.assign(at(Place::Updated(assignment.target)), terms);
    }
    for dot in &program.dots {
        match dot.with {
            With::Vector(y) => of_kernel.dot(at(dot.x), at(y), dot.at),
            With::Change(_) => of_kernel.dot_change(at(dot.x), dot.at),
        }
    }
    of_kernel.fits().then_some(of_kernel)
}

/// Puts a launch on the stream of a task.
///
/// # Safety
/// As [`Loaded::launch`].
unsafe fn put(gpu: &GpuContext<'_>, launch: &Launch) -> Result<(), TaskError> {
    let source = source_with(SPARSE_SOURCES, launch.kernel);
    let kernels = Loaded::shared(gpu.driver(), gpu.gpu(), source)?;
    // SAFETY: as the caller promises.
    unsafe { kernels.launch(&**gpu.driver(), gpu.stream(), launch)? };
    Ok(())
}

impl<E: Scalar> Task<E> {
    pub(crate) fn cuda(
        &self,
        (numbers, read, updated, sums): DeviceViews<'_, Self>,
        cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        let program = &*self.program;
        let of_kernel = program.of_kernel.as_ref().expect("tasks with a program for GPUs are sent there");
        let gpu = cx.gpu();
        let (numbers, bytes) = numbers.part(0);
        let (of_read, of_updated) = (program.read.len(), program.updated.len());
        let mut read = read.iter().map(|part| part.part(0));
        let mut updated = updated.iter().map(|part| part.part(0));
        let of_part = |_: &usize| -> Vec<_> {
            read.by_ref().take(of_read).chain(updated.by_ref().take(of_updated)).collect()
        };
        let vectors: Vec<_> = self.rows.iter().map(of_part).collect();
        let parts: Vec<_> = self
            .rows
            .iter()
            .zip(&vectors)
            .enumerate()
            .map(|(k, (&rows, vectors))| VectorPart {
                rows,
                vectors,
                sums: sums.get(k).map(|sums| sums.part(0)),
            })
            .collect();
        let at = VectorsAt {
            columns: program.columns,
            grain: program.grain,
            numbers,
            stride: bytes as usize / size_of::<f64>() / program.columns,
            own: OWN,
            unless: program.unless,
            width: program.width,
            read: of_read,
            updated: of_updated,
            parts: &parts,
        };
        for launch in vector_task(of_kernel, &at)? {
            // SAFETY: the launch names only memory of the body's operands; the body has exclusive
            // access to the updated ones, and `vector_task` accesses no more of each than its
            // length.
            unsafe { put(&gpu, &launch)? };
        }
        Ok(())
    }
}

impl Copied {
    pub(crate) fn cuda(
        &self,
        (from, to): DeviceViews<'_, Self>,
        cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        let gpu = cx.gpu();
        for launch in gather(to.part(0), &[from.part(0)])? {
            // SAFETY: the launch names the two operands of the body; one is read and one is
            // updated.
            unsafe { put(&gpu, &launch)? };
        }
        Ok(())
    }
}

impl formulas::Task {
    pub(crate) fn cuda(
        &self,
        (partial, numbers): DeviceViews<'_, Self>,
        cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        let of_kernel = self.of_kernel.as_ref().expect("tasks with a program for GPUs are sent there");
        let gpu = cx.gpu();
        let mut sums: Vec<_> = partial.iter().map(|part| part.part(0)).collect();
        if sums.len() > PARTS {
            let bytes = sums.iter().map(|part| part.1).sum();
            let whole = (gpu.scratch(bytes)?.at, bytes);
            for launch in gather(whole, &sums)? {
                // SAFETY: the launch names memory of the body's operands, which it reads, and its
                // workspace.
                unsafe { put(&gpu, &launch)? };
            }
            sums = vec![whole];
        }
        let at =
            FormulasAt { columns: self.columns, numbers: numbers.part(0), width: self.width, sums: &sums };
        let launch = formulas_task(of_kernel, &at)?;
        // SAFETY: the launch names only memory of the body's operands; the body has exclusive
        // access to the numbers, which are updated, and `formulas_task` accesses no more of each
        // than its length.
        unsafe { put(&gpu, &launch)? };
        Ok(())
    }
}
