//! A job's body on a GPU: a sequence of launches with the effect of the body on a CPU.
//!
//! This is the only module of this crate with `unsafe`: a launch names the memory of its task's
//! operands and working space, and nothing else.
#![allow(unsafe_code)]

use std::panic::resume_unwind;
use std::sync::Arc;

use zellige_cuda::GpuContext;
use zellige_gpu::GpuError;
use zellige_gpu::mock::{Fault as GpuFault, Mock};
use zellige_gpu::source::{Launch, Loaded};
use zellige_runtime::codelet::DeviceContext;
use zellige_runtime::codelet::{DeviceMut, DeviceRef, NewValue, OnDevice};
use zellige_runtime::{Format, TaskContext, TaskError};

use super::case::{Access, Fault, Job, Machine};
use super::kernels::{self, Array, Digest, NORM_BYTES, loaded};
use super::operand::{AnyView, OneView, Typed, each_type};
use super::rng::blend;
use super::words::Sample;

/// Memory of a GPU, more than any case needs: the capacity of each device limits the runtime.
const MEMORY: u64 = 64 << 20;

/// Creates mock GPUs for the devices of a machine that are GPUs.
pub(super) fn mock(machine: &Machine) -> Arc<Mock> {
    let builder = Mock::builder()
        .gpus(machine.gpus.iter().flatten().map(|gpu| gpu.number + 1).max().unwrap_or(0))
        .memory(MEMORY)
        .seed(machine.gpu_seed);
    let mock = kernels::on_host(builder).build();
    for gpu in machine.gpus.iter().flatten() {
        if let Some(operation) = gpu.fails_at {
            // The GPU exists: the driver was made for it.
            let _ = mock.inject(gpu.number, GpuFault::Operation(operation + 1));
        }
    }
    Arc::new(mock)
}

fn of_ref<D: Sample>(value: DeviceRef<'_, D>) -> Array {
    let (format, len) = D::shape(value.header());
    Array { format, len, part: value.part(0) }
}

fn of_mut<D: Sample>(value: &DeviceMut<'_, D>) -> Array {
    let (format, len) = D::shape(value.header());
    Array { format, len, part: value.part(0) }
}

/// The launches of a body: all inputs go into its digest before anything is written.
struct Plan {
    digest: Digest,
    looks: Vec<Launch>,
    acts: Vec<Launch>,
}

impl Plan {
    /// Adds the operations of the job on a view; returns the value that it writes.
    fn add<'v, D: Sample>(
        &mut self,
        view: OneView<'v, D, OnDevice>,
        (number, access): (usize, &Access),
        cx: &DeviceContext<'_>,
    ) -> Result<Option<DeviceMut<'v, D>>, TaskError> {
        Ok(match (view, access) {
            (OneView::Ref(value), _) => {
                self.looks.push(self.digest.look(of_ref(value)));
                None
            }
            (OneView::List(list), _) => {
                self.looks.extend(list.iter().map(|value| self.digest.look(of_ref(value))));
                None
            }
            (OneView::Mut(value), Access::Update { becomes, .. }) => {
                self.looks.push(self.digest.look(of_mut(&value)));
                self.acts.push(self.digest.mix(of_mut(&value), number));
                Some(self.become_format(value, *becomes, cx)?)
            }
            (OneView::Mut(value), _) => {
                self.acts.push(self.digest.add(of_mut(&value), number));
                Some(value)
            }
            (OneView::Slot(slot), Access::Write { format, len, .. }) => {
                let value = slot.put(D::fresh(*format, *len, 0).header(), cx)?;
                self.acts.push(self.digest.fresh(of_mut(&value), number));
                Some(value)
            }
            (OneView::Slot(_), _) => unreachable!("only writes have slots"),
        })
    }

    fn become_format<'v, D: Sample>(
        &mut self,
        mut value: DeviceMut<'v, D>,
        format: Option<Format>,
        cx: &DeviceContext<'_>,
    ) -> Result<DeviceMut<'v, D>, TaskError> {
        if let Some(format) = format {
            let (before, mut after) = (of_mut(&value), D::blank(value.header()));
            D::become_format(&mut after.view_mut(), format);
            value.replace(after.header(), cx)?;
            self.acts.push(kernels::convert(before, of_mut(&value)));
        }
        Ok(value)
    }
}

/// Launches a conversion: part 0 of `value` in format `from` becomes part 0 of `made` in format
/// `to`.
pub(super) fn convert<D: Sample>(
    value: DeviceRef<'_, D>,
    made: &NewValue<D>,
    cx: GpuContext<'_>,
) -> Result<(), GpuError> {
    let (format, len) = D::shape(made.header());
    let launch = kernels::convert(of_ref(value), Array { format, len, part: made.part(0) });
    // SAFETY: the arrays are the value that is to be converted and the one that has just been made
    // for it.
    unsafe { loaded(cx.driver(), cx.gpu())?.launch(&**cx.driver(), cx.stream(), &launch) }
}

/// Launches the job's body.
pub(super) fn launch(
    job: &Job,
    views: Vec<AnyView<'_, OnDevice>>,
    cx: &TaskContext<'_>,
    put: impl Fn(&Launch) -> Result<(), TaskError>,
) -> Result<(), TaskError> {
    if job.fault == Some(Fault::Before) {
        return Err("it fails before it writes, on purpose".into());
    }
    let seed = blend(job.seed, cx.variant().into());
    let device = cx.device();
    let digest = Digest(device.scratch(Digest::BYTES)?.at.into());
    let mut plan = Plan { digest, looks: vec![digest.begin(seed)], acts: Vec::new() };
    let mut written = Vec::new();
    for (view, access) in views.into_iter().zip(job.accesses.iter().enumerate()) {
        match view {
            Typed::Words(view) => written.extend(plan.add(view, access, device)?.map(Typed::Words)),
            Typed::Local(view) => written.extend(plan.add(view, access, device)?.map(Typed::Local)),
            Typed::Plain(view) => written.extend(plan.add(view, access, device)?.map(Typed::Plain)),
        }
    }
    plan.looks.iter().chain(&plan.acts).try_for_each(&put)?;
    for value in &written {
        each_type!(value, value => measure(value, device, &put)?);
    }
    let failed = || Err("it fails after it has written, on purpose".into());
    match job.fault {
        // For half of them when their operations have ended, so that stream-ordered successors
        // detect it.
        Some(Fault::After) if seed.is_multiple_of(2) => {
            device.at_end(failed);
            Ok(())
        }
        Some(Fault::After) => failed(),
        Some(Fault::Panic) => resume_unwind(Box::new("the body panics on purpose")),
        _ => Ok(()),
    }
}

/// Makes the norm of the output known at the end. Plain vectors have none.
fn measure<D: Sample>(
    value: &DeviceMut<'_, D>,
    device: &DeviceContext<'_>,
    put: impl Fn(&Launch) -> Result<(), TaskError>,
) -> Result<(), TaskError> {
    let array = of_mut(value);
    if array.format == Format::NATIVE {
        return Ok(());
    }
    let norm = device.scratch(NORM_BYTES as u64)?.at;
    put(&kernels::norm(array, norm.into()))?;
    // SAFETY: working space of the task's own.
    unsafe {
        value.read_back(device, (norm, NORM_BYTES), |bytes, _, meta| {
            meta.norm = f64::from_le_bytes(bytes.try_into().unwrap_or_default());
        })?;
    }
    Ok(())
}

/// Launches one of a body's kernels on a GPU.
pub(super) fn put(kernels: &Loaded, gpu: GpuContext<'_>, launch: &Launch) -> Result<(), TaskError> {
    // SAFETY: the arrays are the task's operands and its working space.
    unsafe { kernels.launch(&**gpu.driver(), gpu.stream(), launch)? };
    Ok(())
}
