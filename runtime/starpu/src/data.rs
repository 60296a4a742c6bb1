//! Data handles: registration, the order of accesses, memory, and release.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard};
use zellige_runtime::internal::handle;
use zellige_runtime::internal::untyped::{self, Token, TokenAccess};
use zellige_runtime::{Handle, Mode};

use crate::acquire::Held;
use crate::gpus::is_node;
use crate::instance::{Instance, Signal, Users};
use crate::partition::{self, Partitions};
use crate::reduction::{self, Reduction};
use crate::residency::Residency;
use crate::types::*;

/// A registered piece of data.
pub struct Data {
    /// Orders the tasks that access it.
    pub token: Handle<Token>,
    pub ops: *mut starpu_data_interface_ops,
    interfaces: *mut u8,
    pub home: AtomicI32,
    /// Address under which it is looked up; 0: under none.
    pub address: AtomicUsize,
    /// Memory nodes that have its value.
    pub residency: Residency,
    /// State in the order of submission; see [`order`](Data::order).
    order: Mutex<Order>,
    /// True while an access that is no reduction needs no preparation.
    usual: AtomicBool,
    /// True once a task without sequential consistency was submitted: others exclude it by turns.
    pub takes_turns: AtomicBool,
    /// Number of accesses without an order: by tasks without sequential consistency, as scratch.
    ///
    /// The handle itself counts as one. It is shared: who counts one less may do so while another
    /// thread destroys the handle.
    pub users: Arc<Users>,
    pub held: Mutex<Vec<Held>>,
    /// Copies of workers, for scratch.
    pub scratch: Mutex<HashMap<usize, starpu_data_handle_t>>,
    /// The handle of which it is a part, with the number of the plan, or of none.
    pub parent: Option<(starpu_data_handle_t, Option<u64>)>,
    pub settings: Settings,
    /// Its owner among several processes.
    #[cfg(feature = "mpi")]
    pub mpi: crate::mpi::Owned,
}

/// Settings of a handle by the application.
pub struct Settings {
    pub ordered: AtomicBool,
    pub user: AtomicPtr<c_void>,
    pub sched: AtomicPtr<c_void>,
    pub name: Mutex<Option<CString>>,
    pub coordinates: Mutex<Vec<c_int>>,
    pub evictable: AtomicBool,
    pub lazy_mask: AtomicU32,
}

/// State of a handle in the order in which tasks are submitted.
#[derive(Default)]
pub struct Order {
    /// True once it has a value, or a task that writes one was submitted.
    pub initialized: bool,
    pub reduction: Reduction,
    pub parts: Partitions,
}

// SAFETY: the pointers are the application's, which promises to keep what they point to while the
// handle exists; what is mutable is behind locks.
unsafe impl Send for Data {}
// SAFETY: as above.
unsafe impl Sync for Data {}

/// A pointer that is handed to another thread.
pub struct Carried<T>(pub *mut T);

impl<T> Clone for Carried<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Carried<T> {}

// SAFETY: the receiver uses it as the interface of C allows: from any thread.
unsafe impl<T> Send for Carried<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Carried<T> {}

impl<T> Carried<T> {
    /// Returns the pointer; closures capture the whole value by this.
    pub fn get(self) -> *mut T {
        self.0
    }
}

/// Returns the data behind a handle.
pub unsafe fn data<'a>(handle: starpu_data_handle_t) -> &'a Data {
    &*handle.cast::<Data>().cast_const()
}

pub static DEFAULT_ORDERED: AtomicBool = AtomicBool::new(true);

/// The first handle that was registered on each pointer.
static BY_POINTER: OnceLock<Mutex<HashMap<usize, Carried<_starpu_data_state>>>> = OnceLock::new();

pub fn by_pointer() -> &'static Mutex<HashMap<usize, Carried<_starpu_data_state>>> {
    BY_POINTER.get_or_init(Mutex::default)
}

impl Data {
    pub unsafe fn new(
        ops: *mut starpu_data_interface_ops,
        home: c_int,
        parent: Option<(starpu_data_handle_t, Option<u64>)>,
    ) -> Box<Data> {
        let interfaces = alloc_zeroed(layout(ops));
        let data = Box::new(Data {
            token: handle(Some(Token)),
            ops,
            interfaces,
            home: AtomicI32::new(home),
            address: AtomicUsize::new(0),
            residency: Residency::new(home),
            order: Mutex::new(Order { initialized: home >= 0, ..Order::default() }),
            usual: AtomicBool::new(false),
            takes_turns: AtomicBool::new(false),
            users: Arc::default(),
            held: Mutex::default(),
            scratch: Mutex::default(),
            parent,
            settings: Settings {
                ordered: AtomicBool::new(DEFAULT_ORDERED.load(Ordering::Relaxed)),
                user: AtomicPtr::default(),
                sched: AtomicPtr::default(),
                name: Mutex::default(),
                coordinates: Mutex::default(),
                evictable: AtomicBool::new(true),
                lazy_mask: AtomicU32::new(0),
            },
            #[cfg(feature = "mpi")]
            mpi: crate::mpi::Owned::default(),
        });
        data.users.add();
        if let Some(init) = (*ops).init {
            (0..STARPU_MAXNODES).for_each(|node| init(data.interface(node)));
        }
        data
    }

    /// Locks the state in the order of submission. The next access looks at it anew.
    pub fn order(&self) -> MutexGuard<'_, Order> {
        let order = self.order.lock();
        self.usual.store(false, Ordering::Relaxed);
        order
    }

    /// Returns the interface on a memory node.
    pub fn interface(&self, node: usize) -> *mut c_void {
        // SAFETY: the allocation has room for one interface on each node.
        unsafe { self.interfaces.add(node.min(STARPU_MAXNODES - 1) * (*self.ops).interface_size).cast() }
    }

    pub fn is_ordered(&self) -> bool {
        self.settings.ordered.load(Ordering::Relaxed)
    }

    /// Returns the whole of which it is a part by a plan, and the number of the plan.
    pub fn plan(&self) -> Option<(starpu_data_handle_t, u64)> {
        self.parent.and_then(|(whole, plan)| Some((whole, plan?)))
    }

    /// Returns this as the handle of C.
    pub fn handle(&self) -> starpu_data_handle_t {
        ptr::from_ref(self).cast_mut().cast()
    }

    /// Returns an access to it that orders tasks.
    pub fn access(&self, mode: Mode) -> TokenAccess {
        TokenAccess { handle: self.token.clone(), mode, ordered: true }
    }

    /// Waits until all tasks that were submitted on it have ended.
    pub unsafe fn wait_for_tasks(&self, instance: &Instance) {
        let signal = Arc::new(Signal::default());
        let told = Arc::clone(&signal);
        let turn = untyped::hold(&instance.rt, vec![self.access(Mode::Update)], &[], move || told.set());
        if turn.is_ok() {
            signal.wait(instance);
        }
        drop(turn);
        untyped::rouse(&instance.rt);
        self.users.wait(1);
    }
}

unsafe fn layout(ops: *mut starpu_data_interface_ops) -> Layout {
    let size = (*ops).interface_size.max(1) * STARPU_MAXNODES;
    Layout::from_size_align(size, 16).expect("a small size")
}

/// Counts one user less; the last one destroys the handle.
pub unsafe fn leave(handle: starpu_data_handle_t) {
    let users = Arc::clone(&data(handle).users);
    if users.remove() == 0 {
        destroy(handle);
    }
}

/// Destroys a handle that no task uses any more.
pub unsafe fn destroy(handle: starpu_data_handle_t) {
    let data = Box::from_raw(handle.cast::<Data>());
    for (_, copy) in data.scratch.lock().drain() {
        destroy(copy);
    }
    reduction::drop_copies(&data);
    let home = data.home.load(Ordering::Relaxed);
    if home >= 0 && data.parent.is_none() {
        // The application finds the value where it has registered the data.
        let home = home as usize;
        data.value_on(if is_node(home) { home } else { 0 }, STARPU_R);
    }
    data.free_memory();
    if let Some(unregister) = (*data.ops).unregister_data_handle {
        unregister(handle);
    }
    let address = data.address.load(Ordering::Relaxed);
    if address != 0 {
        by_pointer().lock().remove(&address);
    }
    dealloc(data.interfaces, layout(data.ops));
}

/// Returns the address of the data on a memory node; null if there is none.
pub unsafe fn pointer_of(data: &Data, node: usize) -> *mut c_void {
    match ((*data.ops).to_pointer, (*data.ops).handle_to_pointer) {
        (Some(f), _) => f(data.interface(node), node as u32),
        (None, Some(f)) => f(data.handle(), node as u32),
        (None, None) => ptr::null_mut(),
    }
}

/// Mode of an access in the order of tasks; `None` for one that orders nothing.
pub fn mode_of(mode: starpu_data_access_mode) -> Option<Mode> {
    if mode & STARPU_SCRATCH != 0 {
        None
    } else if mode & STARPU_REDUX != 0 {
        // Workers have copies of their own, which a task adds before an access of another kind.
        Some(Mode::Read)
    } else if mode & STARPU_W != 0 {
        Some(if mode & STARPU_COMMUTE != 0 { Mode::Commute } else { Mode::Update })
    } else {
        Some(Mode::Read)
    }
}

/// Prepares a handle for an access that is being submitted: partitions are begun and ended, partial
/// results are added, a first value is made.
///
/// # Errors
/// The reason why the access is not possible.
#[inline]
pub unsafe fn prepare(
    instance: &Instance,
    handle: starpu_data_handle_t,
    mode: starpu_data_access_mode,
) -> Result<(), String> {
    if handle.is_null() {
        return Err("a data handle is NULL: it was not registered".into());
    }
    let data = data(handle);
    let is_usual = mode & (STARPU_SCRATCH | STARPU_REDUX) == 0 && data.usual.load(Ordering::Relaxed);
    if is_usual { Ok(()) } else { prepare_unusual(instance, data, mode) }
}

#[inline(never)]
unsafe fn prepare_unusual(
    instance: &Instance,
    data: &Data,
    mode: starpu_data_access_mode,
) -> Result<(), String> {
    if mode & STARPU_SCRATCH != 0 {
        return Ok(());
    }
    if let Some((parent, plan)) = data.plan() {
        partition::begin(instance, parent, plan, mode & (STARPU_W | STARPU_REDUX) != 0);
    }
    let mut order = data.order();
    if order.parts.is_split() {
        return Err(format!("{} is partitioned: use its parts, or unpartition it first", data.token_name()));
    }
    partition::end_for_access(instance, data, &mut order, mode & (STARPU_W | STARPU_REDUX) != 0);
    if mode & STARPU_REDUX != 0 {
        return reduction::begin(&mut order);
    }
    reduction::finish(instance, data, &mut order);
    if mode & STARPU_R != 0 && !order.initialized && !reduction::initialize(instance, data, &mut order) {
        return Err(format!(
            "{} is read before it was written: give it a home node with a value, write it, or set an init codelet",
            data.token_name()
        ));
    }
    if mode & STARPU_W != 0 {
        order.initialized = true;
    }
    let usual = order.initialized && !order.parts.are_planned() && data.plan().is_none();
    data.usual.store(usual, Ordering::Relaxed);
    Ok(())
}

impl Data {
    /// Returns its name for messages.
    pub fn token_name(&self) -> String {
        match &*self.settings.name.lock() {
            Some(name) => format!("the data {}", name.to_string_lossy()),
            None => "a data handle".into(),
        }
    }
}
