//! Implementations of a vector task.

use std::cell::RefCell;
use std::sync::Arc;

use smallvec::SmallVec;
use zellige_cuda::CUDA;
use zellige_runtime::codelet::DeviceTable;
use zellige_runtime::{Codelet, Cpu, Operands, TaskContext, TaskError};

use super::program::Program;
use crate::gpu::{self, GpuViews, VectorKernel, VectorOperands};
use crate::scalar::Scalar;
use crate::task_scope::TaskScope;

/// A vector task for one part, or for several.
pub(super) struct VectorCodelet<E: Scalar> {
    pub(super) name: &'static str,
    /// Rows of each part, and the first row of the first one.
    pub(super) rows: SmallVec<[usize; 1]>,
    pub(super) first: usize,
    pub(super) program: Arc<Program<E>>,
    /// The program for GPUs, if they support it.
    pub(super) kernel: Option<Arc<VectorKernel>>,
    pub(super) scope: TaskScope,
}

impl<E: Scalar> VectorCodelet<E> {
    fn cuda(&self, views: GpuViews<'_, VectorOperands>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let kernel = self.kernel.as_ref().expect("tasks with a program for GPUs are sent there");
        gpu::run_vectors(kernel, &self.rows, views, cx)
    }
}

impl<E: Scalar> Codelet for VectorCodelet<E> {
    type Operands = VectorOperands;

    fn name(&self) -> &'static str {
        self.name
    }

    fn cpu(
        &self,
        (numbers, read, updated, sums): <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        let program = &*self.program;
        let active = program.active(numbers);
        if !active.contains(&true) {
            return Ok(());
        }
        let read: SmallVec<[&[f64]; 8]> = read.iter().map(|part| part.slice()).collect();
        let (mut updated, mut sums) = (updated, sums.into_iter());
        let (of_read, of_updated) = (program.read.len(), program.updated.len());
        let mut run = || {
            SCRATCH.with_borrow_mut(|scratch| {
                let mut first = self.first;
                for (part, &rows) in self.rows.iter().enumerate() {
                    let read = &read[part * of_read..][..of_read];
                    let updated = &mut updated[part * of_updated..][..of_updated];
                    program.run((first, rows), numbers, &active, read, updated, sums.next(), scratch);
                    first += rows;
                }
            });
        };
        self.scope.run(&mut run);
        Ok(())
    }

    /// Reads nothing that is known at the ends of other tasks.
    fn needs_ends(&self) -> bool {
        false
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        if self.kernel.is_some() {
            table.add(*CUDA, Self::cuda);
        }
    }
}

thread_local! {
    /// Buffers of a worker's vector tasks, which are made once.
    static SCRATCH: RefCell<Vec<f64>> = const { RefCell::new(Vec::new()) };
}
