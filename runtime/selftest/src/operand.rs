//! Operands whose number, types and accesses are known only when a case is generated: each is one
//! of the crate's own types.

use zellige_runtime::codelet::{DeviceKind, OnDevice, Operand};
use zellige_runtime::internal::{Accesses, Env, Formats, Metas, Refusal, Wanted, handle as handle_of};
use zellige_runtime::{
    Choice, Commute, Cpu, Data, Handle, Operands, Read, ReadList, Reduce, TaskError, Update, Write, commute,
    read, reads, reduce, update, write,
};

use super::case::{Access, Kind, Start};
use super::words::{Sample, Words};

/// A handle of any of the types.
#[derive(Clone)]
pub(super) enum AnyHandle {
    Words(Handle<Words<true>>),
    Local(Handle<Words<false>>),
    Plain(Handle<Vec<u64>>),
}

/// Any access to one type.
pub(super) enum One<D: Data> {
    Read(Read<D>),
    List(ReadList<D>),
    Update(Update<D>),
    Write(Write<D>),
    Commute(Commute<D>),
    Reduce(Reduce<D>),
}

/// The held state of an operand.
pub(super) enum OneHeld<D: Data> {
    Read(<Read<D> as Operand>::Held),
    List(<ReadList<D> as Operand>::Held),
    Update(<Update<D> as Operand>::Held),
    Write(<Write<D> as Operand>::Held),
    Commute(<Commute<D> as Operand>::Held),
    Reduce(<Reduce<D> as Operand>::Held),
}

/// The held state of an operand on a GPU, which runs no reductions.
pub(super) enum OneOnDevice<D: Data> {
    Read(<Read<D> as Operand>::DeviceHeld),
    List(<ReadList<D> as Operand>::DeviceHeld),
    Update(<Update<D> as Operand>::DeviceHeld),
    Write(<Write<D> as Operand>::DeviceHeld),
    Commute(<Commute<D> as Operand>::DeviceHeld),
}

/// The view of an operand in a body.
pub(super) enum OneView<'v, D: Data, K: DeviceKind = Cpu> {
    Ref(K::Ref<'v, D>),
    List(K::List<'v, D>),
    Mut(K::Mut<'v, D>),
    Slot(K::Slot<'v, D>),
}

macro_rules! each_access {
    ($one:expr, $operand:ident => $answer:expr) => {
        match $one {
            One::Read($operand) => $answer,
            One::List($operand) => $answer,
            One::Update($operand) => $answer,
            One::Write($operand) => $answer,
            One::Commute($operand) => $answer,
            One::Reduce($operand) => $answer,
        }
    };
}

impl<D: Data> One<D> {
    fn of(access: &Access, handles: &[Handle<D>]) -> Self {
        let first = &handles[0];
        match access {
            Access::Read { format, .. } => One::Read(read(first).as_format(*format)),
            Access::List { format, .. } => One::List(reads(handles).as_format(*format)),
            Access::Update { format, .. } => One::Update(update(first).as_format(*format)),
            Access::Write { .. } => One::Write(write(first)),
            Access::Commute { .. } => One::Commute(commute(first)),
            Access::Reduce { .. } => One::Reduce(reduce(first)),
        }
    }

    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        each_access!(self, operand => operand.declare(out));
    }

    fn formats(&self, wanted: Wanted, out: &mut Formats) {
        each_access!(self, operand => operand.formats(wanted, out));
    }

    fn metas<'e>(&'e self, env: &mut Env<'e>, out: &mut Metas) -> Result<(), Refusal> {
        each_access!(self, operand => operand.metas(env, out))
    }

    fn acquire<'e>(&'e self, env: &mut Env<'e>, wanted: Wanted) -> Result<OneHeld<D>, Refusal> {
        Ok(match self {
            One::Read(operand) => OneHeld::Read(operand.acquire(env, wanted)?),
            One::List(operand) => OneHeld::List(operand.acquire(env, wanted)?),
            One::Update(operand) => OneHeld::Update(operand.acquire(env, wanted)?),
            One::Write(operand) => OneHeld::Write(operand.acquire(env, wanted)?),
            One::Commute(operand) => OneHeld::Commute(operand.acquire(env, wanted)?),
            One::Reduce(operand) => OneHeld::Reduce(operand.acquire(env, wanted)?),
        })
    }
}

impl<D: Data> One<D> {
    fn acquire_on_device<'e>(&'e self, env: &mut Env<'e>) -> Result<OneOnDevice<D>, Refusal> {
        Ok(match self {
            One::Read(operand) => OneOnDevice::Read(operand.acquire_on_device(env)?),
            One::List(operand) => OneOnDevice::List(operand.acquire_on_device(env)?),
            One::Update(operand) => OneOnDevice::Update(operand.acquire_on_device(env)?),
            One::Write(operand) => OneOnDevice::Write(operand.acquire_on_device(env)?),
            One::Commute(operand) => OneOnDevice::Commute(operand.acquire_on_device(env)?),
            One::Reduce(operand) => match operand.acquire_on_device(env)? {},
        })
    }
}

impl<D: Data> OneOnDevice<D> {
    fn view(&mut self) -> OneView<'_, D, OnDevice> {
        match self {
            OneOnDevice::Read(held) => OneView::Ref(<Read<D> as Operand>::view_on_device(held)),
            OneOnDevice::List(held) => OneView::List(<ReadList<D> as Operand>::view_on_device(held)),
            OneOnDevice::Update(held) => OneView::Mut(<Update<D> as Operand>::view_on_device(held)),
            OneOnDevice::Write(held) => OneView::Slot(<Write<D> as Operand>::view_on_device(held)),
            OneOnDevice::Commute(held) => OneView::Mut(<Commute<D> as Operand>::view_on_device(held)),
        }
    }

    fn release(self, env: &mut Env<'_>, ok: bool) -> Result<(), TaskError> {
        match self {
            OneOnDevice::Read(held) => <Read<D> as Operand>::release_on_device(held, env, ok),
            OneOnDevice::List(held) => <ReadList<D> as Operand>::release_on_device(held, env, ok),
            OneOnDevice::Update(held) => <Update<D> as Operand>::release_on_device(held, env, ok),
            OneOnDevice::Write(held) => <Write<D> as Operand>::release_on_device(held, env, ok),
            OneOnDevice::Commute(held) => <Commute<D> as Operand>::release_on_device(held, env, ok),
        }
    }
}

impl<D: Data> OneHeld<D> {
    fn view(&mut self) -> OneView<'_, D> {
        match self {
            OneHeld::Read(held) => OneView::Ref(<Read<D> as Operand>::view(held)),
            OneHeld::List(held) => OneView::List(<ReadList<D> as Operand>::view(held)),
            OneHeld::Update(held) => OneView::Mut(<Update<D> as Operand>::view(held)),
            OneHeld::Write(held) => OneView::Slot(<Write<D> as Operand>::view(held)),
            OneHeld::Commute(held) => OneView::Mut(<Commute<D> as Operand>::view(held)),
            OneHeld::Reduce(held) => OneView::Mut(<Reduce<D> as Operand>::view(held)),
        }
    }

    fn release(self, env: &mut Env<'_>, ok: bool) -> Result<(), TaskError> {
        match self {
            OneHeld::Read(held) => <Read<D> as Operand>::release(held, env, ok),
            OneHeld::List(held) => <ReadList<D> as Operand>::release(held, env, ok),
            OneHeld::Update(held) => <Update<D> as Operand>::release(held, env, ok),
            OneHeld::Write(held) => <Write<D> as Operand>::release(held, env, ok),
            OneHeld::Commute(held) => <Commute<D> as Operand>::release(held, env, ok),
            OneHeld::Reduce(held) => <Reduce<D> as Operand>::release(held, env, ok),
        }
    }
}

/// An access to any of the types, or data that belong to one.
pub(super) enum Typed<W, L, P> {
    Words(W),
    Local(L),
    Plain(P),
}

macro_rules! each_type {
    ($typed:expr, $inner:ident => $answer:expr) => {
        match $typed {
            Typed::Words($inner) => $answer,
            Typed::Local($inner) => $answer,
            Typed::Plain($inner) => $answer,
        }
    };
}
pub(super) use each_type;

type AnyOne = Typed<One<Words<true>>, One<Words<false>>, One<Vec<u64>>>;
type AnyHeld = Typed<OneHeld<Words<true>>, OneHeld<Words<false>>, OneHeld<Vec<u64>>>;
type AnyOnDevice = Typed<OneOnDevice<Words<true>>, OneOnDevice<Words<false>>, OneOnDevice<Vec<u64>>>;
/// The view of one operand in a body.
pub(super) type AnyView<'v, K = Cpu> =
    Typed<OneView<'v, Words<true>, K>, OneView<'v, Words<false>, K>, OneView<'v, Vec<u64>, K>>;

/// A job's operands.
pub(super) struct Bundle(Vec<AnyOne>);

impl Bundle {
    pub(super) fn new(accesses: &[Access], handle: impl Fn(usize) -> AnyHandle) -> Self {
        let one = |access: &Access| {
            let handles = || access.handles().iter().map(|&at| handle(at));
            // All handles of a list have one type.
            match handle(access.handles()[0]) {
                AnyHandle::Words(_) => {
                    let only = |h| if let AnyHandle::Words(h) = h { Some(h) } else { None };
                    Typed::Words(One::of(access, &handles().filter_map(only).collect::<Vec<_>>()))
                }
                AnyHandle::Local(_) => {
                    let only = |h| if let AnyHandle::Local(h) = h { Some(h) } else { None };
                    Typed::Local(One::of(access, &handles().filter_map(only).collect::<Vec<_>>()))
                }
                AnyHandle::Plain(_) => {
                    let only = |h| if let AnyHandle::Plain(h) = h { Some(h) } else { None };
                    Typed::Plain(One::of(access, &handles().filter_map(only).collect::<Vec<_>>()))
                }
            }
        };
        Bundle(accesses.iter().map(one).collect())
    }

    /// Returns, for each operand, whether it is a plain vector, which has no formats.
    pub(super) fn plain(&self) -> Vec<bool> {
        self.0.iter().map(|one| matches!(one, Typed::Plain(_))).collect()
    }
}

/// Releases all of them; the first error counts, and the operands after it are released as failed.
fn release_each<T>(
    held: Vec<T>,
    ok: bool,
    mut release: impl FnMut(T, bool) -> Result<(), TaskError>,
) -> Result<(), TaskError> {
    let mut result = Ok(());
    for one in held {
        let released = release(one, ok && result.is_ok());
        result = result.and(released);
    }
    result
}

impl Operands for Bundle {
    type Views<'v, K: DeviceKind> = Vec<AnyView<'v, K>>;
    type Held = Vec<AnyHeld>;

    fn declare<'a>(&'a self, out: &mut Accesses<'a>) {
        self.0.iter().for_each(|one| each_type!(one, one => one.declare(out)));
    }

    fn formats(&self, choice: &Choice, out: &mut Formats) {
        for (at, one) in self.0.iter().enumerate() {
            each_type!(one, one => one.formats(Wanted::of(choice, at), out));
        }
    }

    fn metas<'e>(&'e self, env: &mut Env<'e>, out: &mut Metas) -> Result<(), Refusal> {
        self.0.iter().try_for_each(|one| each_type!(one, one => one.metas(env, out)))
    }

    fn acquire<'e>(&'e self, env: &mut Env<'e>, choice: &Choice) -> Result<Vec<AnyHeld>, Refusal> {
        let mut held = Vec::with_capacity(self.0.len());
        for (at, one) in self.0.iter().enumerate() {
            let wanted = Wanted::of(choice, at);
            let acquired = match one {
                Typed::Words(one) => one.acquire(env, wanted).map(Typed::Words),
                Typed::Local(one) => one.acquire(env, wanted).map(Typed::Local),
                Typed::Plain(one) => one.acquire(env, wanted).map(Typed::Plain),
            };
            match acquired {
                Ok(one) => held.push(one),
                Err(refusal) => {
                    // Nothing ran: the release cannot fail.
                    let _ = Bundle::release(held, env, false);
                    return Err(refusal);
                }
            }
        }
        Ok(held)
    }

    fn views(held: &mut Vec<AnyHeld>) -> Vec<AnyView<'_>> {
        fn view(held: &mut AnyHeld) -> AnyView<'_> {
            match held {
                Typed::Words(held) => Typed::Words(held.view()),
                Typed::Local(held) => Typed::Local(held.view()),
                Typed::Plain(held) => Typed::Plain(held.view()),
            }
        }
        held.iter_mut().map(view).collect()
    }

    fn release(held: Vec<AnyHeld>, env: &mut Env<'_>, ok: bool) -> Result<(), TaskError> {
        release_each(held, ok, |one, ok| each_type!(one, one => one.release(env, ok)))
    }

    type DeviceHeld = Vec<AnyOnDevice>;

    fn acquire_on_device<'e>(&'e self, env: &mut Env<'e>) -> Result<Vec<AnyOnDevice>, Refusal> {
        self.0
            .iter()
            .map(|one| {
                Ok(match one {
                    Typed::Words(one) => Typed::Words(one.acquire_on_device(env)?),
                    Typed::Local(one) => Typed::Local(one.acquire_on_device(env)?),
                    Typed::Plain(one) => Typed::Plain(one.acquire_on_device(env)?),
                })
            })
            .collect()
    }

    fn views_on_device(held: &mut Vec<AnyOnDevice>) -> Vec<AnyView<'_, OnDevice>> {
        fn view(held: &mut AnyOnDevice) -> AnyView<'_, OnDevice> {
            match held {
                Typed::Words(held) => Typed::Words(held.view()),
                Typed::Local(held) => Typed::Local(held.view()),
                Typed::Plain(held) => Typed::Plain(held.view()),
            }
        }
        held.iter_mut().map(view).collect()
    }

    fn release_on_device(held: Vec<AnyOnDevice>, env: &mut Env<'_>, ok: bool) -> Result<(), TaskError> {
        release_each(held, ok, |one, ok| each_type!(one, one => one.release(env, ok)))
    }
}

impl AnyHandle {
    /// Registers a value, or a handle without one; sums start from zeros.
    pub(super) fn register(start: &Start, name: String) -> Self {
        fn handle<D: Sample>(start: &Start, name: String) -> Handle<D> {
            let value = (!start.empty).then(|| D::fresh(start.format, start.len, start.seed));
            handle_of(value).named(name).with_reduction(D::zeros, D::plus)
        }
        match start.kind {
            Kind::Words => AnyHandle::Words(handle(start, name)),
            Kind::Local => AnyHandle::Local(handle(start, name)),
            Kind::Plain => AnyHandle::Plain(handle(start, name)),
        }
    }
}
