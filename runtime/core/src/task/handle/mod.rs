//! Handles: the application's names for pieces of data.

mod lending;
mod placeholder;
mod places;
mod replicas;

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

pub(crate) use lending::{Lending, Lent};
pub(crate) use placeholder::Placeholder;
pub(crate) use places::{Ahead, CarryError, Forgotten, Onto};
use places::{Managed, Places};
pub(crate) use replicas::NoReplica;
use replicas::Replicas;
pub use replicas::{Arrival, Elsewhere};

use super::{ReadyTask, Resource, Services, TaskChain, is_alive};
use crate::deps::AccessRights;
use crate::error::{Cause, Failure, caught};
use crate::format::Format;
use crate::memory::BufferId;
use crate::sync;
use crate::value::{Data, Kind, Meta, ValueCell, Version, View, Viewer, WrongGrant, granted};

/// State common to all handles, independent of the data type. Fields that running tasks read are
/// separate from the chain, which submitters write concurrently.
#[repr(C)]
pub(crate) struct HandleBase {
    pub(crate) id: u64,
    /// Views of a slice that a scope has borrowed.
    lending: OnceLock<Arc<Lending>>,
    poisoned: AtomicBool,
    /// True if not all tasks may name it (any more); the chain has the access rights.
    restricted: AtomicBool,
    /// True if there are replicas in other formats, or the value is in another process.
    pub(super) has_replicas: AtomicBool,
    pub(super) version: Version,
    poison: Mutex<Option<Arc<Failure>>>,
    commuting: Mutex<Parking>,
    name: OnceLock<String>,
    /// The runtime that registered it or used it first, plus one; 0 before. Written under the
    /// chain's lock.
    owner: AtomicU32,
    pub(crate) chain: sync::Mutex<TaskChain>,
}

impl<T> ValueCell<T> {
    /// Counts a view of this value of `base` until the returned object is dropped.
    #[inline]
    pub(crate) fn view(&self, kind: Kind, base: &HandleBase, by: Viewer) -> Result<View, WrongGrant> {
        self.views().begin(kind, (&base.version, || base.name()), by)
    }
}

/// A resource that one task uses while others are parked on it.
#[derive(Default)]
pub(crate) struct Parking {
    busy: bool,
    parked: Vec<ReadyTask>,
}

impl HandleBase {
    pub(super) fn new(written: bool) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        HandleBase {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            name: OnceLock::new(),
            owner: AtomicU32::new(0),
            chain: sync::Mutex::new(TaskChain::new(written)),
            poisoned: AtomicBool::new(false),
            restricted: AtomicBool::new(false),
            has_replicas: AtomicBool::new(false),
            poison: Mutex::new(None),
            commuting: Mutex::default(),
            lending: OnceLock::new(),
            version: Version::default(),
        }
    }

    /// Marks it as a slice that is borrowed for a scope.
    pub(crate) fn is_lent_in(&self, lending: Arc<Lending>) {
        // Set once, at registration.
        let _ = self.lending.set(lending);
    }

    #[inline]
    pub(crate) fn lending(&self) -> Option<&Arc<Lending>> {
        self.lending.get()
    }

    /// Assigns it to `runtime`; returns false if it belongs to another runtime that has not ended.
    /// The caller holds the chain's lock.
    #[inline]
    pub(crate) fn belongs_to(&self, runtime: u32) -> bool {
        self.owner.load(Ordering::Relaxed) == runtime + 1 || self.is_given_to(runtime)
    }

    fn is_given_to(&self, runtime: u32) -> bool {
        let owner = self.owner.load(Ordering::Relaxed);
        let free = owner == 0 || !is_alive(owner - 1);
        if free {
            self.owner.store(runtime + 1, Ordering::Relaxed);
        }
        free
    }

    /// Returns its access rights.
    #[inline]
    pub(crate) fn rights(&self) -> AccessRights {
        if self.restricted.load(Ordering::Acquire) { self.chain.lock().rights } else { AccessRights::Open }
    }

    /// Changes its access rights.
    pub(crate) fn change_rights<R>(&self, change: impl FnOnce(&mut AccessRights) -> R) -> R {
        let mut chain = self.chain.lock();
        let changed = change(&mut chain.rights);
        self.restricted.store(chain.rights != AccessRights::Open, Ordering::Release);
        changed
    }

    /// Returns the name given to it, or its number.
    pub(crate) fn name(&self) -> String {
        self.name.get().cloned().unwrap_or_else(|| format!("handle #{}", self.id))
    }

    #[inline]
    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Acquire)
    }

    pub(crate) fn poison(&self, failure: &Arc<Failure>) {
        *self.poison.lock() = Some(Arc::clone(failure));
        self.poisoned.store(true, Ordering::Release);
    }

    pub(crate) fn clear_poison(&self) {
        if self.is_poisoned() {
            *self.poison.lock() = None;
            self.poisoned.store(false, Ordering::Release);
        }
    }

    /// Returns the failure that poisoned it.
    #[inline]
    pub(crate) fn failure(&self) -> Option<Arc<Failure>> {
        if self.is_poisoned() { self.poison.lock().clone() } else { None }
    }

    /// Acquires the right to commute; returns false while another task has it.
    pub(crate) fn try_commute(&self) -> bool {
        !std::mem::replace(&mut self.commuting.lock().busy, true)
    }

    /// Parks a task until the right is released; returns the task if it is free already.
    pub(super) fn park_commuting(&self, task: ReadyTask) -> Result<(), ReadyTask> {
        let mut parking = self.commuting.lock();
        if !parking.busy {
            return Err(task);
        }
        parking.parked.push(task);
        Ok(())
    }

    /// Calls `each` with the tasks that are parked until the right is released.
    pub(crate) fn each_parked(&self, each: impl FnMut(&ReadyTask)) {
        self.commuting.lock().parked.iter().for_each(each);
    }

    /// Releases the right; the returned tasks, which were parked, may try again.
    pub(crate) fn end_commute(&self) -> Vec<ReadyTask> {
        let mut parking = self.commuting.lock();
        parking.busy = false;
        std::mem::take(&mut parking.parked)
    }
}

/// A handle with an erased data type.
pub(crate) trait AnyHandle: Places + Send + Sync {
    fn base(&self) -> &HandleBase;
    /// Returns a reference that keeps it alive.
    fn arc(&self) -> Arc<dyn AnyHandle>;
    /// Returns true if it was registered with a reduction.
    fn has_reduction(&self) -> bool;
    fn as_any(&self) -> &dyn Any;
    /// Returns the meta with which the handle was registered: that of its first value, or the
    /// expected one of a value that does not exist yet (see `Submit::register_planned` and
    /// `Submit::register_sized`).
    fn registered(&self) -> Option<Meta>;
    /// Returns true if it was registered with a value, or with a planned one.
    fn began_written(&self) -> bool;
    /// Returns the size in a format, see [`Data::size_as`].
    fn size_as(&self, meta: &Meta, to: Format) -> Option<usize>;
    /// Returns the name of a format, see [`Data::format_name`].
    fn format_name(&self, format: Format) -> &'static str;

    /// Adds the workers' partial results to the value, in the order of workers: the value in place
    /// `at`, or the handle's own. No task may access the handle meanwhile. If the memory manager
    /// has the value, only it calls this (with `at`).
    fn combine_partials(&self, at: Option<BufferId>);
    /// Adds them to a copy of the value in place `from`, or to the value itself if it cannot be
    /// copied and nothing reads it; `make` creates a place for the sum.
    fn combine_apart(&self, from: BufferId, make: &mut dyn FnMut(Meta) -> BufferId);
    /// Returns true if there are partial results that have not been added.
    fn has_partials(&self) -> bool;
    /// Parks `task` until `resource` is free; returns the task if it is free already.
    fn park(&self, resource: Resource, task: ReadyTask) -> Result<(), ReadyTask>;
    /// Handles the failure of its writer: nobody reads the previous version any more.
    fn is_lost(&self, failure: &Arc<Failure>) {
        self.base().poison(failure);
    }
    /// Announces a task that will read it in a format: a value in another process is requested in
    /// it. Returns tasks that were parked on another form instead.
    fn is_wanted(&self, services: &dyn Services, format: Format) -> Vec<ReadyTask> {
        let (_, _) = (services, format);
        Vec::new()
    }
    /// Refuses further accesses; returns true if it had been retired before.
    fn retire(&self) -> bool {
        let before = self.base().change_rights(|rights| std::mem::replace(rights, AccessRights::Gone));
        before == AccessRights::Gone
    }
}

type Neutral<D> = Box<dyn Fn(&D) -> D + Send + Sync>;
type Combine<D> = Box<dyn Fn(&mut D, &D) + Send + Sync>;

/// Neutral element and combination of a reduction.
pub(crate) struct Reduction<D> {
    pub(crate) neutral: Neutral<D>,
    pub(crate) combine: Combine<D>,
}

/// A handle's data and state.
#[repr(C)]
pub(crate) struct HandleCore<D: Data> {
    pub(crate) base: HandleBase,
    pub(crate) cell: ValueCell<D>,
    registered: Option<Meta>,
    began_written: bool,
    me: Weak<HandleCore<D>>,
    pub(super) replicas: Mutex<Replicas<D>>,
    pub(crate) reduction: OnceLock<Reduction<D>>,
    has_partials: AtomicBool,
    partials: Mutex<Vec<Option<D>>>,
    /// Places of the values while a runtime with several memory nodes manages the handle; the cell
    /// is empty then.
    pub(super) managed: Mutex<Option<Box<Managed<D>>>>,
}

impl<D: Data> HandleCore<D> {
    /// Creates the state for a value, or for no value; `expected` is then its known meta, and
    /// `written` tells if the handle counts as written.
    pub(crate) fn new(value: Option<D>, expected: Option<Meta>, written: bool) -> Arc<Self> {
        let registered = expected.or_else(|| value.as_ref().map(Data::meta));
        Arc::new_cyclic(|me| HandleCore {
            me: Weak::clone(me),
            base: HandleBase::new(written),
            registered,
            began_written: written,
            cell: ValueCell::new(value),
            replicas: Mutex::default(),
            reduction: OnceLock::new(),
            has_partials: AtomicBool::new(false),
            partials: Mutex::default(),
            managed: Mutex::new(None),
        })
    }

    /// Returns a reference that keeps it alive, for a caller that holds one.
    pub(super) fn itself(&self) -> Arc<Self> {
        self.me.upgrade().expect("whoever asks holds it")
    }

    /// Takes `worker`'s partial result, if it has one.
    pub(crate) fn take_partial(&self, worker: usize) -> Option<D> {
        self.partials.lock().get_mut(worker).and_then(Option::take)
    }

    /// Stores `worker`'s partial result until the reduction is combined.
    pub(crate) fn put_partial(&self, worker: usize, partial: D) {
        let mut partial = partial;
        // A task that waited inside its body ran another one, which left a partial result of its
        // own. Combining is user code, and must not run under the lock.
        while let Some(mut other) = self.take_partial(worker) {
            if let Some(reduction) = self.reduction.get() {
                (reduction.combine)(&mut other, &partial);
            }
            partial = other;
        }
        let mut partials = self.partials.lock();
        if partials.len() <= worker {
            partials.resize_with(worker + 1, || None);
        }
        partials[worker] = Some(partial);
        drop(partials);
        self.has_partials.store(true, Ordering::Release);
    }
}

impl<D: Data> HandleCore<D> {
    /// Creates a view for adding partial results.
    fn sums(&self, cell: &ValueCell<D>, kind: Kind) -> View {
        granted(cell.view(kind, &self.base, Viewer::runtime("the sum of a reduction")))
    }

    /// Adds the partial results; a combination that panics poisons the handle.
    fn add_partials(&self, value: &mut D) {
        let partials = std::mem::take(&mut *self.partials.lock());
        let reduction = self.reduction.get().expect("checked when the tasks were submitted");
        let combined = caught(|| {
            for partial in partials.into_iter().flatten() {
                (reduction.combine)(value, &partial);
                if crate::mutant::mutant(9) {
                    (reduction.combine)(value, &partial);
                }
            }
        });
        if let Err(message) = combined {
            let cause = Cause::Panic(message);
            let operands = vec![self.base.name()];
            self.base.poison(&Arc::new(Failure { task: "combining a reduction".into(), operands, cause }));
        }
    }
}

impl<D: Data> AnyHandle for HandleCore<D> {
    fn base(&self) -> &HandleBase {
        &self.base
    }

    fn arc(&self) -> Arc<dyn AnyHandle> {
        self.itself()
    }

    fn has_reduction(&self) -> bool {
        self.reduction.get().is_some()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn registered(&self) -> Option<Meta> {
        self.registered
    }

    fn began_written(&self) -> bool {
        self.began_written
    }

    fn size_as(&self, meta: &Meta, to: Format) -> Option<usize> {
        D::size_as(meta, to)
    }

    fn format_name(&self, format: Format) -> &'static str {
        D::format_name(format)
    }

    fn combine_partials(&self, at: Option<BufferId>) {
        if !self.has_partials() || (at.is_none() && self.datum().is_some()) {
            return;
        }
        let place = at.map(|buffer| self.place(buffer));
        self.drop_replicas();
        let cell = place.as_deref().unwrap_or(&self.cell);
        let view = self.sums(cell, Kind::Exclusive);
        // SAFETY: the group of reducing tasks is complete, nobody else has accessed the value
        // since, and nothing reads its place.
        let value = unsafe { cell.exclusive() };
        if let Some(value) = value {
            self.add_partials(value);
        }
        view.end();
        if let Some(buffer) = at {
            self.settle(buffer);
        }
        self.has_partials.store(false, Ordering::Release);
    }

    fn combine_apart(&self, from: BufferId, make: &mut dyn FnMut(Meta) -> BufferId) {
        let from = self.place(from);
        let travel = D::portability();
        let view = self.sums(&from, if travel.is_some() { Kind::Shared } else { Kind::Exclusive });
        let sum = match travel {
            // SAFETY: the group of reducing tasks is complete, and nobody writes the value before
            // this has returned.
            Some(travel) => unsafe { from.engine() }.map(|value| (travel.duplicate)(value)),
            // SAFETY: the group of reducing tasks is complete; the memory manager says that nothing
            // reads or writes the place.
            None => unsafe { from.exclusive() }.take(),
        };
        view.end();
        let Some(mut value) = sum else { return };
        self.add_partials(&mut value);
        let buffer = make(value.meta());
        let place = self.place(buffer);
        // SAFETY: the place is new.
        *unsafe { place.exclusive() } = Some(value);
        self.settle(buffer);
        // Last: a reader that finds no partial results uses the new place and its meta.
        self.has_partials.store(false, Ordering::Release);
    }

    fn has_partials(&self) -> bool {
        self.has_partials.load(Ordering::Acquire)
    }

    fn is_lost(&self, failure: &Arc<Failure>) {
        self.drop_replicas();
        self.base.poison(failure);
    }

    fn is_wanted(&self, services: &dyn Services, format: Format) -> Vec<ReadyTask> {
        let mut woken = Vec::new();
        // A later reader gets the outcome of this request.
        let _ = self.meta_elsewhere().map(|_| self.received(services, format, &mut woken));
        woken
    }

    fn park(&self, resource: Resource, task: ReadyTask) -> Result<(), ReadyTask> {
        match resource {
            Resource::Commute => self.base.park_commuting(task),
            Resource::Replica(to) => self.replicas.lock().park(to, task),
        }
    }
}

/// The application's name for one piece of data of type `D`.
///
/// Clones name the same data. The data live until the last clone is dropped and the last task on
/// them has run, or until [`Runtime::take`](crate::Runtime::take) moves them out.
///
/// ```
/// use zellige_runtime::{Handle, Runtime, Submit, read, update};
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let x: Handle<Vec<f64>> = rt.register(vec![1.0f64, 2.0]).named("x");
/// let sum: Handle<f64> = rt.register(0.0f64);
/// rt.task("sum").operands((read(&x), update(&sum))).cpu(|(x, sum)| *sum = x.iter().sum()).submit()?;
/// assert_eq!((x.name().as_str(), *rt.read(&sum)?), ("x", 3.0));
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
pub struct Handle<D: Data>(Arc<HandleCore<D>>);

impl<D: Data> Handle<D> {
    /// Assigns the handle to the runtime with this number, if one is given.
    pub(crate) fn owned_by(self, runtime: Option<u32>) -> Self {
        if let Some(runtime) = runtime {
            // Nobody else knows the handle yet.
            self.core().base().belongs_to(runtime);
        }
        self
    }

    pub(crate) fn new(value: Option<D>) -> Self {
        let written = value.is_some();
        Handle(HandleCore::new(value, None, written))
    }

    pub(crate) fn planned(meta: Meta) -> Self {
        Handle(HandleCore::new(None, Some(meta), true))
    }

    pub(crate) fn sized(meta: Meta) -> Self {
        Handle(HandleCore::new(None, Some(meta), false))
    }

    pub(crate) fn core(&self) -> &Arc<HandleCore<D>> {
        &self.0
    }

    pub(crate) fn from_core(core: Arc<HandleCore<D>>) -> Self {
        Handle(core)
    }

    /// Gives the handle a name for errors, graphs and traces; only the first call has an effect.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        // A second name is not an error: names are for human readers.
        let _ = self.0.base.name.set(name.into());
        self
    }

    /// Defines how reductions into this handle start (`neutral`, from the current value) and
    /// combine (`combine`).
    ///
    /// Partial results are kept per worker and combined in the order of workers. The assignment of
    /// tasks to partial results depends on the schedule, so the result of a floating-point
    /// reduction may differ between runs in its last bits.
    #[must_use]
    pub fn with_reduction(
        self,
        neutral: impl Fn(&D) -> D + Send + Sync + 'static,
        combine: impl Fn(&mut D, &D) + Send + Sync + 'static,
    ) -> Self {
        let reduction = Reduction { neutral: Box::new(neutral), combine: Box::new(combine) };
        // The first reduction stays: tasks may already use it.
        let _ = self.0.reduction.set(reduction);
        self
    }

    /// Returns the name given with [`named`](Handle::named), or the handle's number.
    pub fn name(&self) -> String {
        self.0.base.name()
    }
}

impl<D: Data> Clone for Handle<D> {
    fn clone(&self) -> Self {
        Handle(Arc::clone(&self.0))
    }
}

impl<D: Data> fmt::Debug for Handle<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handle({})", self.name())
    }
}
