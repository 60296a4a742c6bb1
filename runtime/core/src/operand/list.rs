//! A list of handles as one operand: their values, or their metadata.

use std::sync::Arc;

use super::held::{HeldRef, hold, meta};
use super::on_device::DeviceHeld;
use super::{Mode, Operand, Update, Wanted, Write, update, write};
use crate::error::TaskError;
use crate::format::Format;
use crate::operand::{Cpu, DeviceKind, OnDevice};
use crate::task::{Accesses, AnyHandle, Declared, Env, Formats, Handle, HandleCore, Metas, Refusal};
use crate::value::{Data, DeviceList, Kind, Meta};

/// Operand that reads a list of handles; see [`reads`].
///
/// ```
/// use zellige_runtime::{ReadList, Runtime, Submit, reads, update};
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let (parts, sum) = ([rt.register(1i32), rt.register(2i32)], rt.register(0i32));
/// let all: ReadList<i32> = reads(&parts);
/// rt.task("sum").operands((all, update(&sum))).cpu(|(parts, sum)| *sum = parts.iter().sum()).submit()?;
/// assert_eq!(rt.take(sum)?, 3);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
pub struct ReadList<D: Data> {
    cores: Vec<Arc<HandleCore<D>>>,
    format: Format,
}

/// Creates an operand that reads every handle of a list, of any length: the body sees a [`List`].
///
/// ```
/// use zellige_runtime::{Handle, List, ReadList, Runtime, Submit, reads, write};
///
/// let rt = Runtime::new()?;
/// let parts: Vec<Handle<f64>> = (1..=4).map(|i| rt.register(f64::from(i))).collect();
/// let sum = rt.register(0.0f64);
/// let all: ReadList<f64> = reads(&parts);
/// let add = |parts: List<'_, f64>| parts.iter().sum();
/// rt.task("add").operands((all, write(&sum))).cpu(move |(parts, mut sum)| sum.put(add(parts))).submit()?;
/// assert_eq!(rt.take(sum)?, 10.0);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
pub fn reads<'h, D: Data>(handles: impl IntoIterator<Item = &'h Handle<D>>) -> ReadList<D> {
    let cores = handles.into_iter().map(|handle| Arc::clone(handle.core())).collect();
    ReadList { cores, format: Format::NATIVE }
}

impl<D: Data> ReadList<D> {
    /// Requests every value in another format.
    #[must_use]
    pub fn as_format(self, format: Format) -> Self {
        ReadList { format, ..self }
    }
}

/// View of the values of a list of handles.
///
/// ```
/// use zellige_runtime::{List, Runtime, Submit, reads, update};
///
/// fn largest(parts: List<'_, Vec<f64>>) -> f64 {
///     parts.iter().flatten().copied().fold(0.0, f64::max)
/// }
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let (parts, most) = ([rt.register(vec![1.0f64, 7.0]), rt.register(vec![5.0f64])], rt.register(0.0f64));
/// rt.task("largest").operands((reads(&parts), update(&most))).cpu(|(parts, most)| *most = largest(parts)).submit()?;
/// assert_eq!(rt.take(most)?, 7.0);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
pub struct List<'v, D: Data>(&'v [HeldRef<D>]);

impl<'v, D: Data> List<'v, D> {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the value of handle `i`.
    ///
    /// # Panics
    /// If `i >= len()`.
    pub fn get(&self, i: usize) -> D::Ref<'v> {
        self.0[i].view()
    }

    /// Returns an iterator over the values.
    pub fn iter(&self) -> impl Iterator<Item = D::Ref<'v>> + use<'v, D> {
        self.0.iter().map(HeldRef::view)
    }
}

impl<D: Data> Operand for ReadList<D> {
    type View<'v, K: DeviceKind> = K::List<'v, D>;
    type Held = Vec<HeldRef<D>>;

    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        out.extend(self.cores.iter().map(|core| (core, Mode::Read).into()));
    }

    fn formats(&self, wanted: Wanted, out: &mut Formats) {
        out.extend((0..self.cores.len()).map(|at| wanted.of_element(at).or(self.format)));
    }

    fn metas<'e>(&'e self, env: &mut Env<'e>, out: &mut Metas) -> Result<(), Refusal> {
        for core in &self.cores {
            let core = env.resolve(core);
            env.check(&core.base)?;
            out.push(meta(core));
        }
        Ok(())
    }

    fn acquire<'e>(&'e self, env: &mut Env<'e>, wanted: Wanted) -> Result<Vec<HeldRef<D>>, Refusal> {
        let hold = |(at, core)| {
            let core = env.resolve(core);
            hold(core, wanted.of_element(at).or(self.format), env)
        };
        self.cores.iter().enumerate().map(hold).collect()
    }

    fn view<'v>(held: &'v mut Vec<HeldRef<D>>) -> List<'v, D> {
        List(held)
    }

    fn release(_held: Vec<HeldRef<D>>, _env: &mut Env<'_>, _ok: bool) -> Result<(), TaskError> {
        Ok(())
    }

    type DeviceHeld = Vec<DeviceHeld>;

    fn acquire_on_device<'e>(&'e self, env: &mut Env<'e>) -> Result<Vec<DeviceHeld>, Refusal> {
        self.cores
            .iter()
            .map(|core| {
                let core = env.resolve(core);
                DeviceHeld::existing(core, env, Kind::Shared)
            })
            .collect()
    }

    fn view_on_device(held: &mut Vec<DeviceHeld>) -> DeviceList<'_, D> {
        DeviceList(held.iter().map(DeviceHeld::view).collect())
    }
}

/// Creates an operand that updates every handle of a list, of any length: the body sees a `Vec` of
/// the views of one [`update`] each.
///
/// ```
/// use zellige_runtime::{Runtime, Submit, updates};
///
/// let rt = Runtime::new()?;
/// let column: Vec<_> = (0..12).map(|row| rt.register(vec![f64::from(row); 4])).collect();
/// // The rows of the first and the last tile of a column change places.
/// rt.task("swap")
///     .operands((updates(&column),))
///     .cpu(|(mut tiles,)| {
///         let (first, rest) = tiles.split_first_mut().expect("there are twelve");
///         first.swap_with_slice(rest[10]);
///     })
///     .submit()?;
/// assert_eq!(rt.read(&column[0])?[0], 11.0);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
pub fn updates<'h, D: Data>(handles: impl IntoIterator<Item = &'h Handle<D>>) -> Vec<Update<D>> {
    handles.into_iter().map(update).collect()
}

/// Creates an operand that writes every handle of a list, of any length, without reading it: the
/// body sees a `Vec` of [`Slot`](super::Slot)s.
///
/// ```
/// use zellige_runtime::{Handle, Runtime, Submit, writes};
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let parts: Vec<Handle<Vec<u32>>> = (0..3).map(|_| rt.register_empty()).collect();
/// rt.task("deal")
///     .operands((writes(&parts),))
///     .cpu(|(slots,)| slots.into_iter().enumerate().for_each(|(i, mut slot)| slot.put(vec![i as u32; 2])))
///     .submit()?;
/// assert_eq!(*rt.read(&parts[2])?, [2, 2]);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
pub fn writes<'h, D: Data>(handles: impl IntoIterator<Item = &'h Handle<D>>) -> Vec<Write<D>> {
    handles.into_iter().map(write).collect()
}

/// Any number of operands of one kind as one operand: the body sees a `Vec` of their views.
impl<O: Operand> Operand for Vec<O> {
    type View<'v, K: DeviceKind> = Vec<O::View<'v, K>>;
    type Held = Vec<O::Held>;

    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        self.iter().for_each(|operand| operand.declare(out));
    }

    fn formats(&self, wanted: Wanted, out: &mut Formats) {
        self.iter().enumerate().for_each(|(at, operand)| operand.formats(wanted.of_element(at), out));
    }

    fn metas<'e>(&'e self, env: &mut Env<'e>, out: &mut Metas) -> Result<(), Refusal> {
        self.iter().try_for_each(|operand| operand.metas(env, out))
    }

    fn acquire<'e>(&'e self, env: &mut Env<'e>, wanted: Wanted) -> Result<Vec<O::Held>, Refusal> {
        let mut held = Vec::with_capacity(self.len());
        for (at, operand) in self.iter().enumerate() {
            match operand.acquire(env, wanted.of_element(at)) {
                Ok(one) => held.push(one),
                Err(refusal) => {
                    // Nothing ran: releasing cannot fail.
                    let _ = Self::release(held, env, false);
                    return Err(refusal);
                }
            }
        }
        Ok(held)
    }

    fn view<'v>(held: &'v mut Vec<O::Held>) -> Vec<O::View<'v, Cpu>> {
        held.iter_mut().map(O::view).collect()
    }

    fn release(held: Vec<O::Held>, env: &mut Env<'_>, ok: bool) -> Result<(), TaskError> {
        // Release all of them, also after an error.
        let mut result = Ok(());
        for one in held {
            let released = O::release(one, env, ok && result.is_ok());
            result = result.and(released);
        }
        result
    }

    type DeviceHeld = Vec<O::DeviceHeld>;

    fn acquire_on_device<'e>(&'e self, env: &mut Env<'e>) -> Result<Vec<O::DeviceHeld>, Refusal> {
        self.iter().map(|operand| operand.acquire_on_device(env)).collect()
    }

    fn view_on_device<'v>(held: &'v mut Vec<O::DeviceHeld>) -> Vec<O::View<'v, OnDevice>> {
        held.iter_mut().map(O::view_on_device).collect()
    }

    fn release_on_device(held: Vec<O::DeviceHeld>, env: &mut Env<'_>, ok: bool) -> Result<(), TaskError> {
        let mut result = Ok(());
        for one in held {
            let released = O::release_on_device(one, env, ok && result.is_ok());
            result = result.and(released);
        }
        result
    }
}

/// Operand that reads the metadata of a list of handles; see [`metas`].
pub struct MetaList<D: Data> {
    cores: Vec<Arc<HandleCore<D>>>,
}

/// Creates an operand whose body sees the [`Meta`] of every handle of a list (format, size, norm).
/// It waits for their writers as a reader does, but the values are not transferred.
///
/// ```
/// use zellige_runtime::{Format, Meta, Runtime, Submit, metas, update};
///
/// let rt = Runtime::new()?;
/// let (x, bytes) = (rt.register(vec![0.0f64; 100]), rt.register(0usize));
/// let native = |meta: &Meta| meta.format == Format::NATIVE;
/// rt.task("measure")
///     .operands((metas([&x]), update(&bytes)))
///     .cpu(move |(metas, bytes)| *bytes += metas.iter().filter(|meta| native(meta)).map(|meta| meta.bytes).sum::<usize>())
///     .submit()?;
/// assert_eq!(rt.take(bytes)?, 800);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
pub fn metas<'h, D: Data>(handles: impl IntoIterator<Item = &'h Handle<D>>) -> MetaList<D> {
    MetaList { cores: handles.into_iter().map(|handle| Arc::clone(handle.core())).collect() }
}

impl<D: Data> Operand for MetaList<D> {
    type View<'v, K: DeviceKind> = &'v [Meta];
    type Held = Metas;

    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        out.extend(self.cores.iter().map(|core| Declared { look: true, ..(core, Mode::Read).into() }));
    }

    fn formats(&self, _wanted: Wanted, out: &mut Formats) {
        out.extend(self.cores.iter().map(|_| Format::NATIVE));
    }

    fn metas<'e>(&'e self, env: &mut Env<'e>, out: &mut Metas) -> Result<(), Refusal> {
        for core in &self.cores {
            let core = env.resolve(core);
            env.check(&core.base)?;
            let any: &dyn AnyHandle = core;
            out.push(if env.is_placed() { any.current() } else { meta(core) });
        }
        Ok(())
    }

    fn acquire<'e>(&'e self, env: &mut Env<'e>, _wanted: Wanted) -> Result<Metas, Refusal> {
        let mut metas = Metas::new();
        self.metas(env, &mut metas)?;
        Ok(metas)
    }

    fn view(held: &mut Metas) -> &[Meta] {
        held
    }

    fn release(_held: Metas, _env: &mut Env<'_>, _ok: bool) -> Result<(), TaskError> {
        Ok(())
    }

    type DeviceHeld = Metas;

    fn acquire_on_device<'e>(&'e self, env: &mut Env<'e>) -> Result<Metas, Refusal> {
        self.acquire(env, Wanted::default())
    }

    fn view_on_device(held: &mut Metas) -> &[Meta] {
        held
    }
}
