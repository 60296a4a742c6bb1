//! Operands that name one handle.

use std::convert::Infallible;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use super::held::{HeldMut, HeldRef, guarded, hold, hold_mut, meta};
use super::on_device::DeviceHeld;
use super::{Mode, Operand, Wanted};
use crate::error::TaskError;
use crate::format::Format;
use crate::operand::DeviceKind;
use crate::task::{Accesses, Busy, Env, Formats, Handle, HandleCore, Metas, Refusal, Resource};
use crate::value::{Data, DeviceMut, DeviceRef, DeviceSlot, Kind, Meta};

macro_rules! operand_type {
    ($(#[$doc:meta])* $name:ident, $make:ident, $(#[$fdoc:meta])* {$($field:ident: $value:expr),*}) => {
        $(#[$doc])*
        pub struct $name<D: Data> {
            core: Arc<HandleCore<D>>,
            $($field: Format,)*
        }

        $(#[$fdoc])*
        pub fn $make<D: Data>(handle: &Handle<D>) -> $name<D> {
            $name { core: Arc::clone(handle.core()), $($field: $value,)* }
        }

        impl<D: Data> fmt::Debug for $name<D> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($make), "({})"), self.core.base.name())
            }
        }
    };
}

operand_type!(
    /// Operand that reads a handle; see [`read`].
    Read, read,
    /// Creates an operand that the body reads: its view is `D::Ref`,
    ///
    /// ```
    /// use zellige_runtime::{Read, Runtime, Submit, read, update};
    ///
    /// let rt = Runtime::builder().workers(1).build()?;
    /// let (x, sum) = (rt.register(vec![1.0f32, 2.0]), rt.register(0.0f32));
    /// let operand: Read<Vec<f32>> = read(&x);
    /// rt.task("sum").operands((operand, update(&sum))).cpu(|(x, sum)| *sum = x.iter().sum()).submit()?;
    /// assert_eq!(rt.take(sum)?, 3.0);
    /// # Ok::<(), zellige_runtime::Error>(())
    /// ```
    ///
    /// which cannot be written:
    ///
    /// ```compile_fail,E0594
    /// # use zellige_runtime::{Runtime, Submit, read};
    /// # let rt = Runtime::new().unwrap();
    /// # let x = rt.register(vec![1.0f32]);
    /// rt.task("write").operands((read(&x),)).cpu(|(x,)| x[0] = 2.0).submit().unwrap();
    /// ```
    {format: Format::NATIVE}
);
operand_type!(
    /// Operand that writes a handle; see [`write()`].
    Write, write,
    /// Creates an operand that the body writes without reading it: its view is a [`Slot`].
    ///
    /// ```
    /// use zellige_runtime::{Runtime, Submit, Write, write};
    ///
    /// let rt = Runtime::builder().workers(1).build()?;
    /// let x = rt.register_empty();
    /// let operand: Write<Vec<u8>> = write(&x);
    /// rt.task("fill").operands((operand,)).cpu(|(mut x,)| x.put(vec![7; 3])).submit()?;
    /// assert_eq!(rt.take(x)?, [7; 3]);
    /// # Ok::<(), zellige_runtime::Error>(())
    /// ```
    {}
);
operand_type!(
    /// Operand that updates a handle; see [`update`].
    Update, update,
    /// Creates an operand that the body reads and writes: its view is `D::Mut`.
    ///
    /// ```
    /// use zellige_runtime::{Runtime, Submit, Update, update};
    ///
    /// let rt = Runtime::builder().workers(1).build()?;
    /// let x = rt.register(vec![1.0f32, 2.0]);
    /// let operand: Update<Vec<f32>> = update(&x);
    /// rt.task("double").operands((operand,)).cpu(|(x,)| x.iter_mut().for_each(|x| *x *= 2.0)).submit()?;
    /// assert_eq!(rt.take(x)?, [2.0, 4.0]);
    /// # Ok::<(), zellige_runtime::Error>(())
    /// ```
    {format: Format::NATIVE}
);
operand_type!(
    /// Operand that updates a handle in any order; see [`commute`].
    Commute, commute,
    /// Creates an operand like [`update`] without an order among neighbouring tasks that commute;
    /// they run one at a time.
    ///
    /// ```
    /// use zellige_runtime::{Commute, Runtime, Submit, commute};
    ///
    /// let rt = Runtime::builder().workers(2).build()?;
    /// let histogram = rt.register(vec![0u64; 4]);
    /// for i in 0..10usize {
    ///     let operand: Commute<Vec<u64>> = commute(&histogram);
    ///     rt.task("count").operands((operand,)).cpu(move |(bins,)| bins[i % 4] += 1).submit()?;
    /// }
    /// assert_eq!(rt.take(histogram)?, [3, 3, 2, 2]);
    /// # Ok::<(), zellige_runtime::Error>(())
    /// ```
    {}
);
operand_type!(
    /// Operand that contributes to a reduction; see [`reduce`].
    Reduce, reduce,
    /// Creates an operand whose body adds to a partial result of its worker (`D::Mut`); the partial
    /// results are combined before the next access of another kind. The handle needs
    /// [`with_reduction`](Handle::with_reduction).
    ///
    /// ```
    /// use zellige_runtime::{Runtime, Submit, reduce};
    ///
    /// let rt = Runtime::new()?;
    /// let sum = rt.register(0u64).with_reduction(|_| 0, |sum, part| *sum += part);
    /// for i in 1..=10 {
    ///     rt.task("add").operands((reduce(&sum),)).cpu(move |(sum,)| *sum += i).submit()?;
    /// }
    /// assert_eq!(rt.take(sum)?, 55);
    /// # Ok::<(), zellige_runtime::Error>(())
    /// ```
    {}
);

impl<D: Data> Read<D> {
    /// Requests the value in another format: a replica, converted once per version.
    #[must_use]
    pub fn as_format(self, format: Format) -> Self {
        Read { format, ..self }
    }
}

impl<D: Data> Update<D> {
    /// Requests a conversion of the value in place before the body runs.
    #[must_use]
    pub fn as_format(self, format: Format) -> Self {
        Update { format, ..self }
    }
}

impl<D: Data> Operand for Read<D> {
    type View<'v, K: DeviceKind> = K::Ref<'v, D>;
    type Held = HeldRef<D>;

    #[inline]
    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        out.push((&self.core, Mode::Read).into());
    }

    fn formats(&self, wanted: Wanted, out: &mut Formats) {
        out.push(wanted.or(self.format));
    }

    fn metas<'e>(&'e self, env: &mut Env<'e>, out: &mut Metas) -> Result<(), Refusal> {
        let core = env.resolve(&self.core);
        env.check(&core.base)?;
        out.push(meta(core));
        Ok(())
    }

    #[inline]
    fn acquire<'e>(&'e self, env: &mut Env<'e>, wanted: Wanted) -> Result<HeldRef<D>, Refusal> {
        let core = env.resolve(&self.core);
        hold(core, wanted.or(self.format), env)
    }

    fn view<'v>(held: &'v mut HeldRef<D>) -> D::Ref<'v> {
        held.view()
    }

    fn release(_held: HeldRef<D>, _env: &mut Env<'_>, _ok: bool) -> Result<(), TaskError> {
        Ok(())
    }

    type DeviceHeld = DeviceHeld;

    fn acquire_on_device<'e>(&'e self, env: &mut Env<'e>) -> Result<DeviceHeld, Refusal> {
        let core = env.resolve(&self.core);
        DeviceHeld::existing(core, env, Kind::Shared)
    }

    fn view_on_device(held: &mut DeviceHeld) -> DeviceRef<'_, D> {
        held.view()
    }
}

impl<D: Data> Operand for Update<D> {
    type View<'v, K: DeviceKind> = K::Mut<'v, D>;
    type Held = HeldMut<D>;

    #[inline]
    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        out.push((&self.core, Mode::Update).into());
    }

    fn formats(&self, wanted: Wanted, out: &mut Formats) {
        out.push(wanted.or(self.format));
    }

    fn metas<'e>(&'e self, env: &mut Env<'e>, out: &mut Metas) -> Result<(), Refusal> {
        let core = env.resolve(&self.core);
        env.check(&core.base)?;
        out.push(meta(core));
        Ok(())
    }

    #[inline]
    fn acquire<'e>(&'e self, env: &mut Env<'e>, wanted: Wanted) -> Result<HeldMut<D>, Refusal> {
        let core = env.resolve(&self.core);
        hold_mut(core, wanted.or(self.format), env)
    }

    fn view<'v>(held: &'v mut HeldMut<D>) -> D::Mut<'v> {
        held.value().as_mut().expect("seen when it was acquired").view_mut()
    }

    fn release(_held: HeldMut<D>, _env: &mut Env<'_>, _ok: bool) -> Result<(), TaskError> {
        Ok(())
    }

    type DeviceHeld = DeviceHeld;

    fn acquire_on_device<'e>(&'e self, env: &mut Env<'e>) -> Result<DeviceHeld, Refusal> {
        let core = env.resolve(&self.core);
        DeviceHeld::existing(core, env, Kind::Exclusive)
    }

    fn view_on_device(held: &mut DeviceHeld) -> DeviceMut<'_, D> {
        held.view_mut()
    }
}

/// View of a value that a body writes without reading.
///
/// ```
/// use zellige_runtime::{Runtime, Slot, Submit, write};
///
/// fn fill(mut slot: Slot<'_, Vec<f32>>) {
///     slot.put(vec![1.0; 3]);
/// }
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let x = rt.register_empty();
/// rt.task("fill").operands((write(&x),)).cpu(|(slot,)| fill(slot)).submit()?;
/// assert_eq!(rt.take(x)?, [1.0; 3]);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
#[derive(Debug)]
pub struct Slot<'v, D: Data> {
    place: &'v mut Option<D>,
}

impl<'v, D: Data> Slot<'v, D> {
    /// Stores `value`.
    pub fn put(&mut self, value: D) {
        *self.place = Some(value);
    }

    /// Returns the existing storage with unspecified content, to be overwritten; `None` if there is
    /// none yet.
    pub fn old(&mut self) -> Option<D::Mut<'_>> {
        self.place.as_mut().map(Data::view_mut)
    }
}

impl<D: Data> Operand for Write<D> {
    type View<'v, K: DeviceKind> = K::Slot<'v, D>;
    type Held = HeldMut<D>;

    #[inline]
    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        out.push((&self.core, Mode::Write).into());
    }

    fn formats(&self, _wanted: Wanted, out: &mut Formats) {
        out.push(Format::NATIVE);
    }

    fn metas<'e>(&'e self, env: &mut Env<'e>, out: &mut Metas) -> Result<(), Refusal> {
        out.push(meta(env.resolve(&self.core)));
        Ok(())
    }

    fn acquire<'e>(&'e self, env: &mut Env<'e>, _wanted: Wanted) -> Result<HeldMut<D>, Refusal> {
        let core = env.resolve(&self.core);
        core.drop_replicas();
        HeldMut::new(core, env)
    }

    fn view<'v>(held: &'v mut HeldMut<D>) -> Slot<'v, D> {
        Slot { place: held.value() }
    }

    fn release(mut held: HeldMut<D>, env: &mut Env<'_>, ok: bool) -> Result<(), TaskError> {
        if !ok {
            return Ok(());
        }
        match held.value() {
            Some(value) => env.add_bytes(value),
            None => {
                return Err(format!("the body left {} without a value", held.core().base.name()).into());
            }
        }
        held.core().base.clear_poison();
        Ok(())
    }

    type DeviceHeld = DeviceHeld;

    fn acquire_on_device<'e>(&'e self, env: &mut Env<'e>) -> Result<DeviceHeld, Refusal> {
        let core = env.resolve(&self.core);
        Ok(DeviceHeld::any(core, env))
    }

    fn view_on_device(held: &mut DeviceHeld) -> DeviceSlot<'_, D> {
        held.slot()
    }

    fn release_on_device(held: DeviceHeld, env: &mut Env<'_>, ok: bool) -> Result<(), TaskError> {
        if ok { held.written(env) } else { Ok(()) }
    }
}

impl<D: Data> Operand for Commute<D> {
    type View<'v, K: DeviceKind> = K::Mut<'v, D>;
    type Held = HeldMut<D>;

    #[inline]
    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        out.push((&self.core, Mode::Commute).into());
    }

    fn formats(&self, _wanted: Wanted, out: &mut Formats) {
        out.push(Format::NATIVE);
    }

    fn metas<'e>(&'e self, env: &mut Env<'e>, out: &mut Metas) -> Result<(), Refusal> {
        // A commuting neighbour may be writing: access nothing before the turn has come.
        let core = env.resolve(&self.core);
        env.check(&core.base)?;
        out.push(Meta::default());
        Ok(())
    }

    fn acquire<'e>(&'e self, env: &mut Env<'e>, _wanted: Wanted) -> Result<HeldMut<D>, Refusal> {
        let core = env.resolve(&self.core);
        if env.is_placed() {
            // Its turn was acquired before its operands were gathered.
            return hold_mut(core, Format::NATIVE, env);
        }
        if !core.base.try_commute() {
            return Err(Refusal::Busy(Busy::new(core, Resource::Commute)));
        }
        hold_mut(core, Format::NATIVE, env).inspect_err(|_| env.wake(core.base.end_commute()))
    }

    fn view<'v>(held: &'v mut HeldMut<D>) -> D::Mut<'v> {
        held.value().as_mut().expect("seen when it was acquired").view_mut()
    }

    fn release(held: HeldMut<D>, env: &mut Env<'_>, _ok: bool) -> Result<(), TaskError> {
        let HeldMut { core, view, .. } = held;
        // SAFETY: the operand (or the replay's bindings) keeps the handle alive while the task
        // runs.
        let base = unsafe { &core.as_ref().base };
        if let Some(failure) = env.failed_body() {
            // The next in turn must not see a partial update: poison before the turn is released.
            base.poison(failure);
        }
        // The next in turn may begin at once.
        view.end();
        if !env.is_placed() {
            env.wake(base.end_commute());
        }
        Ok(())
    }

    type DeviceHeld = DeviceHeld;

    fn acquire_on_device<'e>(&'e self, env: &mut Env<'e>) -> Result<DeviceHeld, Refusal> {
        let core = env.resolve(&self.core);
        DeviceHeld::existing(core, env, Kind::Exclusive)
    }

    fn view_on_device(held: &mut DeviceHeld) -> DeviceMut<'_, D> {
        held.view_mut()
    }

    fn release_on_device(held: DeviceHeld, env: &mut Env<'_>, _ok: bool) -> Result<(), TaskError> {
        if let Some(failure) = env.failed_body() {
            // As on the host. The turn itself is released when the task is settled.
            held.poison(failure);
        }
        Ok(())
    }
}

/// A worker's partial result, held by a task that adds to it.
pub struct HeldPartial<D: Data> {
    core: NonNull<HandleCore<D>>,
    partial: D,
}

impl<D: Data> Operand for Reduce<D> {
    type View<'v, K: DeviceKind> = K::Mut<'v, D>;
    type Held = HeldPartial<D>;

    #[inline]
    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        out.push((&self.core, Mode::Reduce).into());
    }

    fn formats(&self, _wanted: Wanted, out: &mut Formats) {
        out.push(Format::NATIVE);
    }

    fn metas<'e>(&'e self, env: &mut Env<'e>, out: &mut Metas) -> Result<(), Refusal> {
        let core = env.resolve(&self.core);
        env.check(&core.base)?;
        out.push(meta(core));
        Ok(())
    }

    fn acquire<'e>(&'e self, env: &mut Env<'e>, _wanted: Wanted) -> Result<HeldPartial<D>, Refusal> {
        let core = env.resolve(&self.core);
        env.check(&core.base)?;
        let place = env.place().map(|buffer| core.place(buffer));
        let cell = place.as_deref().unwrap_or(&core.cell);
        let _view = env.view(&core.base, cell, Kind::Shared);
        // SAFETY: members of a reducing group only read the value; it is combined after they have
        // all completed.
        let Some(value) = (unsafe { cell.engine() }) else {
            return Err(Refusal::unwritten(&core.base));
        };
        let reduction = core.reduction.get().ok_or_else(|| Refusal::Failed("no reduction".into()))?;
        let partial = match core.take_partial(env.worker()) {
            Some(partial) => partial,
            None => guarded(core, "starting a reduction of", || (reduction.neutral)(value))?,
        };
        env.add_bytes(&partial);
        Ok(HeldPartial { core: NonNull::from(core), partial })
    }

    fn view<'v>(held: &'v mut HeldPartial<D>) -> D::Mut<'v> {
        held.partial.view_mut()
    }

    fn release(held: HeldPartial<D>, env: &mut Env<'_>, _ok: bool) -> Result<(), TaskError> {
        // SAFETY: the operand (or the replay's bindings) keeps the handle alive while the task
        // runs.
        unsafe { held.core.as_ref() }.put_partial(env.worker(), held.partial);
        Ok(())
    }

    type DeviceHeld = Infallible;

    fn acquire_on_device<'e>(&'e self, _env: &mut Env<'e>) -> Result<Infallible, Refusal> {
        Err(Refusal::Failed("reductions are on the host".into()))
    }

    fn view_on_device(held: &mut Infallible) -> DeviceMut<'_, D> {
        match *held {}
    }

    fn release_on_device(held: Infallible, _env: &mut Env<'_>, _ok: bool) -> Result<(), TaskError> {
        match held {}
    }
}
