//! Launches of copies, formulas and vector tasks on GPUs: for vectors in float64, real or complex,
//! with the bits of the CPU.
//!
//! This is the only module of the crate with `unsafe`: a launch names the memory of its task's
//! operands and nothing else.
#![allow(unsafe_code)]

use zellige_cuda::{GpuContext, GpuTask};
use zellige_kernels::cuda::{
    EncodedFormulas, FormulasAt, Launch, Loaded, PARTS, SPARSE_SOURCES, VectorPart, VectorProgram, VectorsAt,
    formulas_task, gather, source_with, vector_task,
};
use zellige_kernels::formulas::word::OWN;
use zellige_runtime::codelet::OnDevice;
use zellige_runtime::data::Chunk;
use zellige_runtime::{Operands, Read, ReadList, TaskContext, TaskError, Update};

/// Views of operands on a GPU.
pub(crate) type GpuViews<'v, O> = <O as Operands>::Views<'v, OnDevice>;

/// Operands of a copy: numbers, and those that they are copied to.
pub(crate) type CopyOperands = (Read<Vec<f64>>, Update<Vec<f64>>);

/// Operands of formulas: the partial sums of each part, and the method's numbers.
pub(crate) type FormulaOperands = (ReadList<Vec<f64>>, Update<Vec<f64>>);

/// Operands of a vector task: the method's numbers, vectors that are read, vectors that are
/// updated, and the sums, if there are any: part after part.
pub(crate) type VectorOperands =
    (Read<Vec<f64>>, ReadList<Chunk<f64>>, Vec<Update<Chunk<f64>>>, Vec<Update<Vec<f64>>>);

/// A vector task as the kernel runs it.
#[derive(Debug)]
pub(crate) struct VectorKernel {
    pub(crate) program: VectorProgram,
    pub(crate) columns: usize,
    /// Rows of a reduction block.
    pub(crate) block: usize,
    /// Sums of a reduction block and column.
    pub(crate) width: usize,
    /// A scalar that is zero for the columns that are worked on.
    pub(crate) unless: Option<usize>,
    /// Number of vectors that are read, and of those that are updated.
    pub(crate) read: usize,
    pub(crate) updated: usize,
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

/// Runs a vector task on parts of these numbers of rows.
pub(crate) fn run_vectors(
    kernel: &VectorKernel,
    rows: &[usize],
    (numbers, read, updated, sums): GpuViews<'_, VectorOperands>,
    cx: &mut TaskContext<'_>,
) -> Result<(), TaskError> {
    let gpu = cx.gpu();
    let (numbers, bytes) = numbers.part(0);
    let mut of_read = read.iter().map(|part| part.part(0));
    let mut of_updated = updated.iter().map(|part| part.part(0));
    let of_part = |_: &usize| -> Vec<_> {
        of_read.by_ref().take(kernel.read).chain(of_updated.by_ref().take(kernel.updated)).collect()
    };
    let vectors: Vec<_> = rows.iter().map(of_part).collect();
    let parts = rows.iter().zip(&vectors).enumerate();
    let parts: Vec<_> = parts
        .map(|(k, (&rows, vectors))| VectorPart { rows, vectors, sums: sums.get(k).map(|sums| sums.part(0)) })
        .collect();
    let at = VectorsAt {
        columns: kernel.columns,
        grain: kernel.block,
        numbers,
        stride: bytes as usize / size_of::<f64>() / kernel.columns,
        own: OWN,
        unless: kernel.unless,
        width: kernel.width,
        read: kernel.read,
        updated: kernel.updated,
        parts: &parts,
    };
    for launch in vector_task(&kernel.program, &at)? {
        // SAFETY: the launch names only memory of the body's operands; the body has exclusive
        // access to the updated ones, and `vector_task` accesses no more of each than its length.
        unsafe { put(&gpu, &launch)? };
    }
    Ok(())
}

/// Copies numbers.
pub(crate) fn copy_numbers(
    (from, to): GpuViews<'_, CopyOperands>,
    cx: &mut TaskContext<'_>,
) -> Result<(), TaskError> {
    let gpu = cx.gpu();
    for launch in gather(to.part(0), &[from.part(0)])? {
        // SAFETY: the launch names the two operands of the body; one is read and one is updated.
        unsafe { put(&gpu, &launch)? };
    }
    Ok(())
}

/// Adds up partial sums of `width` words a column, and runs formulas for each column.
pub(crate) fn run_formulas(
    formulas: &EncodedFormulas,
    [columns, width]: [usize; 2],
    (partial, numbers): GpuViews<'_, FormulaOperands>,
    cx: &mut TaskContext<'_>,
) -> Result<(), TaskError> {
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
    let at = FormulasAt { columns, numbers: numbers.part(0), width, sums: &sums };
    let launch = formulas_task(formulas, &at)?;
    // SAFETY: the launch names only memory of the body's operands; the body has exclusive access to
    // the numbers, which are updated, and `formulas_task` accesses no more of each than its length.
    unsafe { put(&gpu, &launch)? };
    Ok(())
}
