//! A job's body on a GPU: one launch of a kernel whose host version does to copies of the operands what the body does on a CPU.

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::Arc;

use parking_lot::Mutex;
use zellige_gpu::fake::{Fake, Fault as GpuFault};
use zellige_gpu::twin::TwinArg;
use zellige_gpu::{Address, Arg, GpuError};

use super::case::{Access, Fault, Job, Machine};
use super::operand::{AnyView, OneView, Typed, each_type};
use super::rng::blend;
use super::words::{Sample, Words};
use crate::data::Format;
use crate::error::TaskError;
use crate::gpu::{Cuda, CudaMut, CudaRef, CudaValue, GpuContext};
use crate::task::TaskContext;

const KERNEL: &str = "zellige_fuzz";
const CONVERT: &str = "zellige_fuzz_convert";
/// More than any case asks for: what is let to the runtime is each device's capacity.
const MEMORY: u64 = 64 << 20;

type HostBody = Box<dyn FnOnce(&mut [TwinArg<'_>]) -> Result<(), String> + Send>;

/// Bodies that have been launched and have not run, by the number that is their kernel's first argument.
#[derive(Default)]
pub(super) struct Bodies(Mutex<(u64, HashMap<u64, HostBody>)>);

impl Bodies {
    fn add(&self, body: HostBody) -> u64 {
        let (next, bodies) = &mut *self.0.lock();
        *next += 1;
        bodies.insert(*next, body);
        *next
    }

    fn take(&self, number: u64) -> Option<HostBody> {
        self.0.lock().1.remove(&number)
    }
}

/// GPUs for those of a machine's devices that are to be some, and the bodies that are launched there.
pub(super) fn driver(machine: &Machine) -> (Arc<Fake>, Arc<Bodies>) {
    let bodies = Arc::new(Bodies::default());
    let launched = Arc::clone(&bodies);
    let fake = Fake::builder()
        .gpus(machine.gpus.iter().flatten().map(|gpu| gpu.number + 1).max().unwrap_or(0))
        .memory(MEMORY)
        .seed(machine.gpu_seed)
        .kernel(KERNEL, move |_grid, _block, args| {
            let [TwinArg::U64(number), rest @ ..] = args else {
                return Err("it takes a number first".into());
            };
            let body = launched.take(*number);
            body.ok_or_else(|| format!("body {number} is launched twice"))?(rest)
        })
        .kernel(CONVERT, |_grid, _block, args| match args {
            [TwinArg::U32(from), TwinArg::U32(to), TwinArg::Read(wide), TwinArg::Write(narrow)] => {
                Words::<true>::convert_bytes((Format(*from as u16), wide), (Format(*to as u16), narrow))
            }
            _ => Err("it takes two formats and two arrays".into()),
        })
        .build();
    for gpu in machine.gpus.iter().flatten() {
        if let Some(operation) = gpu.fails_at {
            // It is there: the driver was made for it.
            let _ = fake.inject(gpu.number, GpuFault::Operation(operation + 1));
        }
    }
    (Arc::new(fake), bodies)
}

/// What a body does with one operand, by headers; arguments by their places, `None` for arrays of no bytes.
enum Does<D: Sample> {
    /// Reads values.
    Look(Vec<(D::Header, Option<usize>)>),
    /// Reads one, and writes it back in place or elsewhere.
    Change { before: D::Header, from: Option<usize>, to: Option<usize> },
    /// Writes one.
    Make { to: Option<usize> },
}

/// A launch that is being put together.
struct Launch {
    args: Vec<Arg>,
}

impl Launch {
    fn add(&mut self, (at, bytes): (Address, u64), arg: impl FnOnce(Address, u64) -> Arg) -> Option<usize> {
        (bytes > 0).then(|| {
            self.args.push(arg(at, bytes));
            // Without the number in front.
            self.args.len() - 2
        })
    }

    /// Says what the job does with a view, and where it writes.
    fn plan<'v, D: Sample>(
        &mut self,
        view: OneView<'v, D, Cuda>,
        access: &Access,
        cx: &TaskContext<'_>,
    ) -> Result<(Does<D>, Option<CudaMut<'v, D>>), TaskError> {
        Ok(match (view, access) {
            (OneView::Ref(value), _) => {
                let read = self.add(value.part(0), Arg::Read);
                (Does::Look(vec![(value.header().clone(), read)]), None)
            }
            (OneView::List(list), _) => {
                let read =
                    |value: CudaRef<'v, D>| (value.header().clone(), self.add(value.part(0), Arg::Read));
                (Does::Look(list.iter().map(read).collect()), None)
            }
            (OneView::Mut(mut value), Access::Update { becomes: Some(format), .. }) => {
                let before = value.header().clone();
                let mut after = D::blank(&before);
                D::become_format(&mut after.view_mut(), *format);
                let from = self.add(value.part(0), Arg::Read);
                value.replace(after.header(), cx.gpu())?;
                let to = self.add(value.part(0), Arg::Write);
                (Does::Change { before, from, to }, Some(value))
            }
            (OneView::Mut(value), _) => {
                let at = self.add(value.part(0), Arg::Update);
                (Does::Change { before: value.header().clone(), from: at, to: at }, Some(value))
            }
            (OneView::Slot(slot), Access::Write { format, len, .. }) => {
                let value = slot.put(D::fresh(*format, *len, 0).header(), cx.gpu())?;
                (Does::Make { to: self.add(value.part(0), Arg::Write) }, Some(value))
            }
            (OneView::Slot(_), _) => unreachable!("only writes have slots"),
        })
    }
}

/// Launches a conversion: part 0 of `value` in format `from` becomes part 0 of `made` in format `to`.
pub(super) fn convert<D: Sample>(
    (value, from): (CudaRef<'_, D>, Format),
    (made, to): (&CudaValue<D>, Format),
    cx: &GpuContext<'_>,
) -> Result<(), GpuError> {
    let ((there, bytes), (here, room)) = (value.part(0), made.part(0));
    let driver = cx.driver();
    let kernel = driver.kernel(driver.load(cx.gpu(), b"fuzz")?, CONVERT)?;
    let args =
        [Arg::U32(from.0.into()), Arg::U32(to.0.into()), Arg::Read(there, bytes), Arg::Write(here, room)];
    // SAFETY: the arrays are the value that is to be converted and the one that has just been made for it.
    unsafe { driver.launch(cx.stream(), kernel, [1; 3], [1; 3], 0, &args) }
}

/// Launches the job's body.
pub(super) fn launch(
    job: &Arc<Job>,
    bodies: &Bodies,
    views: Vec<AnyView<'_, Cuda>>,
    cx: &mut TaskContext<'_>,
) -> Result<(), TaskError> {
    if job.fault == Some(Fault::Before) {
        return Err("it fails before it writes, on purpose".into());
    }
    // The number is known once the body is.
    let mut launch = Launch { args: vec![Arg::U64(0)] };
    let (mut does, mut written) = (Vec::new(), Vec::new());
    for (view, access) in views.into_iter().zip(&job.accesses) {
        macro_rules! planned {
            ($view:expr, $typed:path) => {{
                let (done, value) = launch.plan($view, access, cx)?;
                does.push($typed(done));
                written.extend(value.map($typed));
            }};
        }
        match view {
            Typed::Words(view) => planned!(view, Typed::Words),
            Typed::Local(view) => planned!(view, Typed::Local),
            Typed::Plain(view) => planned!(view, Typed::Plain),
        }
    }
    let gpu = cx.gpu();
    // At the end the norm of each value that was written.
    let norms = (written.len() * size_of::<f64>()) as u64;
    let scratch = gpu.scratch(norms.max(8))?;
    launch.args.push(Arg::Write(scratch.at, scratch.bytes));
    let driver = gpu.driver();
    let kernel = driver.kernel(driver.load(gpu.gpu(), b"fuzz")?, KERNEL)?;
    let (seed, job_of_body) = (blend(job.seed, cx.variant().into()), Arc::clone(job));
    launch.args[0] = Arg::U64(bodies.add(Box::new(move |args| run(&job_of_body, seed, does, args))));
    // SAFETY: the arrays are the task's operands and its working space.
    unsafe { driver.launch(gpu.stream(), kernel, [1; 3], [1; 3], 0, &launch.args)? };
    for (at, value) in written.iter().enumerate() {
        let norm = (scratch.at.offset((at * size_of::<f64>()) as u64), size_of::<f64>());
        // SAFETY: working space of this body.
        each_type!(value, value => unsafe {
            value.read_back(gpu, norm, |bytes, _, meta| {
                meta.norm = f64::from_le_bytes(bytes.try_into().unwrap_or_default());
            })?;
        });
    }
    match job.fault {
        Some(Fault::After) => Err("it fails after it has written, on purpose".into()),
        Some(Fault::Panic) => resume_unwind(Box::new("the body panics on purpose")),
        _ => Ok(()),
    }
}

type AnyDoes = Typed<Does<Words<true>>, Does<Words<false>>, Does<Vec<u64>>>;

/// The body on the host: reads all, then writes all, as a body for CPUs does.
fn run(job: &Job, seed: u64, does: Vec<AnyDoes>, args: &mut [TwinArg<'_>]) -> Result<(), String> {
    let mut digest = seed;
    for (does, access) in does.iter().zip(&job.accesses) {
        if access.is_chosen_for() {
            digest = each_type!(does, does => look(does, args, digest)?);
        }
    }
    let mut norms = Vec::new();
    for (number, (does, access)) in does.iter().zip(&job.accesses).enumerate() {
        norms.extend(each_type!(does, does => act(does, access, args, blend(digest, number as u64))?));
    }
    match args.last_mut() {
        Some(TwinArg::Write(to)) => {
            to.fill(0);
            to.chunks_exact_mut(8).zip(norms).for_each(|(to, norm)| to.copy_from_slice(&norm.to_le_bytes()));
            Ok(())
        }
        _ => Err("the norms have no place".into()),
    }
}

fn look<D: Sample>(does: &Does<D>, args: &[TwinArg<'_>], digest: u64) -> Result<u64, String> {
    match does {
        Does::Look(values) => values.iter().try_fold(digest, |digest, (header, at)| {
            Ok(blend(digest, D::digest(&value::<D>(header, *at, args)?.view())))
        }),
        Does::Change { before, from, .. } => {
            Ok(blend(digest, D::digest(&value::<D>(before, *from, args)?.view())))
        }
        Does::Make { .. } => Ok(digest),
    }
}

/// Writes; gives the norm of what was written.
fn act<D: Sample>(
    does: &Does<D>,
    access: &Access,
    args: &mut [TwinArg<'_>],
    seed: u64,
) -> Result<Option<f64>, String> {
    let (value, to) = match (does, access) {
        (Does::Change { before, from, to }, Access::Update { becomes, .. }) => {
            let mut value = value::<D>(before, *from, args)?;
            D::mix(&mut value.view_mut(), seed);
            if let Some(format) = becomes {
                D::become_format(&mut value.view_mut(), *format);
            }
            (value, to)
        }
        (Does::Change { before, from, to }, _) => {
            let mut value = value::<D>(before, *from, args)?;
            D::add(&mut value.view_mut(), seed);
            (value, to)
        }
        (Does::Make { to }, Access::Write { format, len, .. }) => (D::fresh(*format, *len, seed), to),
        _ => return Ok(None),
    };
    if let Some(to) = to {
        match &mut args[*to] {
            TwinArg::Write(bytes) | TwinArg::Update(bytes) => bytes.copy_from_slice(value.parts()[0]),
            other => return Err(format!("{other:?} cannot be written")),
        }
    }
    Ok(Some(value.meta().norm))
}

/// A copy of what an argument holds.
fn value<D: Sample>(header: &D::Header, at: Option<usize>, args: &[TwinArg<'_>]) -> Result<D, String> {
    let mut value = D::blank(header);
    if let Some(at) = at {
        match &args[at] {
            TwinArg::Read(bytes) => value.parts_mut()[0].copy_from_slice(bytes),
            TwinArg::Update(bytes) => value.parts_mut()[0].copy_from_slice(bytes),
            other => return Err(format!("{other:?} cannot be read")),
        }
    }
    Ok(value)
}
