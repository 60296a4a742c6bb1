//! A job as a codelet.

use std::panic::resume_unwind;
use std::sync::Arc;

use zellige_cuda::{CUDA, GpuTask};
use zellige_runtime::codelet::{DeviceBatch, DeviceMember, DeviceTable, DeviceViews};
use zellige_runtime::{Batch, Choice, Codelet, Cpu, Meta, Operands, TaskContext, TaskError};

use super::accelerator::Accelerator;
use super::case::{Access, Fault, Job};
use super::choice::choose;
use super::gpu;
use super::kernels::loaded;
use super::operand::{Bundle, OneView, Typed, each_type};
use super::rng::blend;
use super::words::Sample;

/// See the module.
pub(super) struct Fuzzed {
    pub(super) job: Arc<Job>,
    /// The operands without formats.
    pub(super) plain: Vec<bool>,
    /// Device kind with a further implementation.
    pub(super) accelerator: Option<Accelerator>,
}

impl Codelet for Fuzzed {
    type Operands = Bundle;

    fn name(&self) -> &'static str {
        "fuzz"
    }

    fn selects(&self) -> bool {
        self.job.late
    }

    fn select(&self, metas: &[Meta]) -> Choice {
        if self.job.fault == Some(Fault::Choice) {
            // Unlike `panic!`, this prints nothing.
            resume_unwind(Box::new("the choice panics on purpose"));
        }
        let at = |access: &Access| self.job.accesses.iter().position(|other| std::ptr::eq(other, access));
        choose(&self.job, |access| !at(access).is_some_and(|at| self.plain[at]), metas)
    }

    fn batch(&self) -> usize {
        match self.job.fault {
            // A failing body would take others of its batch with it.
            Some(Fault::Before | Fault::After | Fault::Panic) => 1,
            _ => [1, 2, 7][(self.job.seed % 3) as usize],
        }
    }

    fn cpu_batch(batch: Batch<'_, Self>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        // The order within a batch must not matter.
        batch.into_iter().rev().try_for_each(|(codelet, views)| codelet.cpu(views, cx))
    }

    fn needs_ends(&self) -> bool {
        // Its kernels read the numbers in place; norms only matter for selections.
        false
    }

    fn cpu(
        &self,
        mut views: <Bundle as Operands>::Views<'_, Cpu>,
        cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        if self.job.fault == Some(Fault::Before) {
            return Err("it fails before it writes, on purpose".into());
        }
        let mut digest = blend(self.job.seed, cx.variant().into());
        for (view, access) in views.iter_mut().zip(&self.job.accesses) {
            if access.is_chosen_for() {
                digest = each_type!(view, view => look(view, digest));
            }
        }
        for (number, (view, access)) in views.into_iter().zip(&self.job.accesses).enumerate() {
            each_type!(view, view => act(view, access, blend(digest, number as u64)));
        }
        match self.job.fault {
            Some(Fault::After) => Err("it fails after it has written, on purpose".into()),
            Some(Fault::Panic) => resume_unwind(Box::new("the body panics on purpose")),
            _ => Ok(()),
        }
    }

    fn on_devices(&self, table: &mut DeviceTable<Self>) {
        let most = if self.job.seed >> 8 & 1 == 0 { self.batch() } else { 1 };
        table.add_batched(*CUDA, Self::cuda, most, Self::cuda_batch);
        if let Some(accelerator) = self.accelerator {
            table.add(accelerator.arch, Self::launch);
        }
    }
}

impl Fuzzed {
    fn cuda(&self, views: DeviceViews<'_, Self>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let gpu = cx.gpu();
        let kernels = loaded(gpu.driver(), gpu.gpu())?;
        gpu::launch(&self.job, views, cx, |launch| gpu::put(&kernels, gpu, launch))
    }

    fn launch(&self, views: DeviceViews<'_, Self>, cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        let accelerator = self.accelerator.expect("it named the function");
        gpu::launch(&self.job, views, cx, |launch| (accelerator.launch)(cx.device(), launch))
    }

    fn cuda_batch(batch: DeviceBatch<'_, '_, Self>) -> Vec<Result<(), TaskError>> {
        batch.into_iter().map(|DeviceMember { codelet, views, cx }| codelet.cuda(views, cx)).collect()
    }
}

/// Adds the inputs of the job in this view to `digest`.
fn look<D: Sample>(view: &OneView<'_, D>, digest: u64) -> u64 {
    match view {
        OneView::Ref(view) => blend(digest, D::digest(view)),
        OneView::Mut(view) => blend(digest, D::digest_mut(view)),
        OneView::List(list) => list.iter().fold(digest, |sum, view| blend(sum, D::digest(&view))),
        OneView::Slot(_) => digest,
    }
}

/// Writes the output of the job in this view.
fn act<D: Sample>(view: OneView<'_, D>, access: &Access, seed: u64) {
    match (view, access) {
        (OneView::Mut(mut view), Access::Update { becomes, .. }) => {
            D::mix(&mut view, seed);
            if let Some(format) = becomes {
                D::become_format(&mut view, *format);
            }
        }
        (OneView::Mut(mut view), _) => D::add(&mut view, seed),
        (OneView::Slot(mut slot), Access::Write { format, len, .. }) => {
            slot.put(D::fresh(*format, *len, seed))
        }
        _ => {}
    }
}
