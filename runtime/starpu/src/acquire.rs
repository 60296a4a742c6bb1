//! Access to data from the application: acquire and release.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

use parking_lot::Mutex;
use zellige_runtime::TaskRef;
use zellige_runtime::internal::untyped::{self, Hold, TokenAccess, Untyped, UntypedOptions};

use crate::data::{Carried, Data, data, leave, mode_of, prepare};
use crate::instance::{Instance, Signal, complain, errno, must_not_wait, needed};
use crate::types::*;

/// A turn on data that may be released before the call that made it returns.
#[derive(Clone, Default)]
pub struct Slot(Arc<Mutex<SlotState>>);

#[derive(Default)]
enum SlotState {
    #[default]
    Empty,
    Kept(#[allow(dead_code, reason = "dropped to end the turn")] Hold),
    Released,
}

impl Slot {
    /// Keeps the turn until it is released.
    pub fn keep(&self, hold: Hold) {
        let mut state = self.0.lock();
        if matches!(*state, SlotState::Released) {
            drop(state);
            drop(hold);
        } else {
            *state = SlotState::Kept(hold);
        }
    }

    pub fn release(&self) {
        let kept = std::mem::replace(&mut *self.0.lock(), SlotState::Released);
        drop(kept);
    }
}

/// Data that the application has acquired.
pub enum Held {
    /// A turn in the order of tasks, which writes or only reads. Behind one that writes is a turn
    /// that reads, which the application may step down to.
    Turn { turn: Slot, writes: bool, behind: Slot },
    /// The exclusive turn of data without sequential consistency.
    Exclusive,
}

/// Task that takes the exclusive turn of a handle without sequential consistency.
struct TakeTurn {
    accesses: [TokenAccess; 1],
    taken: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

// SAFETY: the closure is behind a lock.
unsafe impl Sync for TakeTurn {}

impl Untyped for TakeTurn {
    fn accesses(&self) -> &[TokenAccess] {
        &self.accesses
    }

    fn keeps_turns(&self) -> bool {
        true
    }

    fn run(&self, _worker: usize) -> Result<(), zellige_runtime::TaskError> {
        let taken = self.taken.lock().take();
        taken.into_iter().for_each(|taken| taken());
        Ok(())
    }
}

/// Requests data for the application; `taken` is called once they are there, on any thread.
pub unsafe fn request(
    instance: &Instance,
    handle: starpu_data_handle_t,
    mode: starpu_data_access_mode,
    ordered: bool,
    taken: impl FnOnce() + Send + 'static,
) -> Result<(), String> {
    // The application does not take part in reductions: it sees the sum.
    let mode = if mode & (STARPU_SCRATCH | STARPU_REDUX) != 0 { STARPU_RW } else { mode };
    prepare(instance, handle, mode)?;
    let carried = Carried(handle);
    let target = data(handle);
    if !ordered || !target.is_ordered() {
        let taken = move || {
            // SAFETY: the turn keeps the handle.
            unsafe { begins(carried.get(), Held::Exclusive) };
            taken();
        };
        // Tasks from the time when the data had an order come first, unless tasks without one may
        // wait for what comes after this call.
        let ordered = target.users.get() == 1;
        let access = TokenAccess { ordered, ..target.access(zellige_runtime::Mode::Commute) };
        target.users.add();
        let task = TakeTurn { accesses: [access], taken: Mutex::new(Some(Box::new(taken))) };
        let options = UntypedOptions { name: "acquire", ..UntypedOptions::default() };
        return untyped::submit(&instance.rt, options, task).map(drop).map_err(|error| error.to_string());
    }
    let (slot, behind) = (Slot::default(), Slot::default());
    let mode = mode_of(mode & !STARPU_COMMUTE).expect("no scratch");
    let held = Held::Turn { turn: slot.clone(), writes: mode.writes(), behind: behind.clone() };
    let taken = move || {
        // SAFETY: the turn keeps the handle.
        unsafe { begins(carried.get(), held) };
        taken();
    };
    let after: &[TaskRef] = &[];
    let hold = untyped::hold(&instance.rt, vec![target.access(mode)], after, taken);
    slot.keep(hold.map_err(|error| error.to_string())?);
    if mode.writes() {
        keep_to_read(instance, target, &behind);
    }
    Ok(())
}

/// Keeps a turn that reads, behind one that the application has.
fn keep_to_read(instance: &Instance, target: &Data, behind: &Slot) {
    let access = target.access(zellige_runtime::Mode::Read);
    match untyped::hold(&instance.rt, vec![access], &[], || ()) {
        Ok(hold) => behind.keep(hold),
        Err(error) => complain(format_args!("acquire: {error}")),
    }
}

/// Notes that the application has data now.
unsafe fn begins(handle: starpu_data_handle_t, held: Held) {
    let data = data(handle);
    let reads = matches!(held, Held::Turn { writes: false, .. });
    data.value_for(|| if reads { STARPU_R } else { STARPU_RW });
    data.held.lock().push(held);
}

/// Acquires data and waits for them.
pub unsafe fn acquire_now(
    instance: &Instance,
    handle: starpu_data_handle_t,
    mode: starpu_data_access_mode,
) -> Result<(), String> {
    let signal = Arc::new(Signal::default());
    let told = Arc::clone(&signal);
    request(instance, handle, mode, true, move || told.set())?;
    signal.wait(instance);
    Ok(())
}

unsafe fn acquire(function: &str, handle: starpu_data_handle_t, mode: starpu_data_access_mode) -> c_int {
    let Some(instance) = needed(function) else { return -errno::EINVAL };
    if must_not_wait(function) {
        return -errno::EDEADLK;
    }
    refused(function, acquire_now(instance, handle, mode))
}

/// Returns true, and reports it, if a memory node is a device's: data are acquired on the host.
fn is_of_device(function: &str, node: c_int) -> bool {
    if node > 0 {
        complain(format_args!("{function}: node {node} is a device's; data are acquired on node 0"));
    }
    node > 0
}

fn refused(function: &str, result: Result<(), String>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(why) => {
            complain(format_args!("{function}: {why}"));
            -errno::EINVAL
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_acquire(
    handle: starpu_data_handle_t,
    mode: starpu_data_access_mode,
) -> c_int {
    acquire("starpu_data_acquire", handle, mode)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_acquire_on_node(
    handle: starpu_data_handle_t,
    node: c_int,
    mode: starpu_data_access_mode,
) -> c_int {
    if is_of_device("starpu_data_acquire_on_node", node) {
        return -errno::EINVAL;
    }
    acquire("starpu_data_acquire_on_node", handle, mode)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_acquire_try(
    handle: starpu_data_handle_t,
    mode: starpu_data_access_mode,
) -> c_int {
    let Some(instance) = needed("starpu_data_acquire_try") else { return -errno::EINVAL };
    if must_not_wait("starpu_data_acquire_try") {
        return -errno::EDEADLK;
    }
    if let Err(why) = prepare(instance, handle, mode) {
        return refused("starpu_data_acquire_try", Err(why));
    }
    let target = data(handle);
    let mode = mode_of(mode & !(STARPU_COMMUTE | STARPU_SCRATCH | STARPU_REDUX)).expect("no scratch");
    // An access of the application itself must not be waited for, not even in the order of tasks.
    let excludes = |held: &Held| mode.writes() || !matches!(held, Held::Turn { writes: false, .. });
    if target.held.lock().iter().any(excludes) {
        return -errno::EAGAIN;
    }
    let (slot, signal) = (Slot::default(), Arc::new(Signal::default()));
    let told = Arc::clone(&signal);
    let Ok(hold) = untyped::hold(&instance.rt, vec![target.access(mode)], &[], move || told.set()) else {
        return -errno::EINVAL;
    };
    if !signal.is_set() {
        // Dropped: it passes when its turn comes.
        drop(hold);
        return -errno::EAGAIN;
    }
    slot.keep(hold);
    let behind = Slot::default();
    if mode.writes() {
        keep_to_read(instance, target, &behind);
    }
    begins(handle, Held::Turn { turn: slot, writes: mode.writes(), behind });
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_acquire_on_node_try(
    handle: starpu_data_handle_t,
    node: c_int,
    mode: starpu_data_access_mode,
) -> c_int {
    if is_of_device("starpu_data_acquire_on_node_try", node) {
        return -errno::EINVAL;
    }
    starpu_data_acquire_try(handle, mode)
}

unsafe fn acquire_then(
    handle: starpu_data_handle_t,
    mode: starpu_data_access_mode,
    ordered: bool,
    callback: starpu_callback_t,
    argument: *mut c_void,
) -> c_int {
    let Some(instance) = needed("starpu_data_acquire_cb") else { return -errno::EINVAL };
    let argument = Carried(argument);
    instance.unfinished.add();
    let result = request(instance, handle, mode, ordered, move || {
        if let Some(callback) = callback {
            // SAFETY: the application's callback with its argument.
            unsafe { callback(argument.get()) };
        }
        if let Some(instance) = crate::instance::get() {
            instance.unfinished.remove();
        }
    });
    if result.is_err() {
        instance.unfinished.remove();
    }
    refused("starpu_data_acquire_cb", result)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_acquire_cb(
    handle: starpu_data_handle_t,
    mode: starpu_data_access_mode,
    callback: starpu_callback_t,
    argument: *mut c_void,
) -> c_int {
    acquire_then(handle, mode, true, callback, argument)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_acquire_on_node_cb(
    handle: starpu_data_handle_t,
    node: c_int,
    mode: starpu_data_access_mode,
    callback: starpu_callback_t,
    argument: *mut c_void,
) -> c_int {
    if is_of_device("starpu_data_acquire_on_node_cb", node) {
        return -errno::EINVAL;
    }
    acquire_then(handle, mode, true, callback, argument)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_acquire_cb_sequential_consistency(
    handle: starpu_data_handle_t,
    mode: starpu_data_access_mode,
    callback: starpu_callback_t,
    argument: *mut c_void,
    ordered: c_int,
) -> c_int {
    acquire_then(handle, mode, ordered != 0, callback, argument)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_acquire_on_node_cb_sequential_consistency(
    handle: starpu_data_handle_t,
    node: c_int,
    mode: starpu_data_access_mode,
    callback: starpu_callback_t,
    argument: *mut c_void,
    ordered: c_int,
) -> c_int {
    if is_of_device("starpu_data_acquire_on_node_cb_sequential_consistency", node) {
        return -errno::EINVAL;
    }
    acquire_then(handle, mode, ordered != 0, callback, argument)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_get_on_node_cb_prio(
    _handle: starpu_data_handle_t,
    _node: c_int,
    _mode: starpu_data_access_mode,
    callback: starpu_callback_t,
    argument: *mut c_void,
    _prefetch: c_uint,
    _priority: c_int,
) -> c_int {
    // The data have been acquired before, on the host.
    if let Some(callback) = callback {
        callback(argument);
    }
    0
}

/// Ends the newest access of the application to this data.
unsafe fn release(handle: starpu_data_handle_t, function: &str) {
    let Some(instance) = needed(function) else { return };
    let target = data(handle);
    let held = target.held.lock().pop();
    match held {
        None => complain(format_args!("{function}: {} was not acquired", target.token_name())),
        Some(Held::Turn { turn, behind, .. }) => {
            turn.release();
            behind.release();
        }
        Some(Held::Exclusive) => {
            let token = target.token.clone();
            untyped::end_turn(&instance.rt, &token);
            leave(handle);
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_release(handle: starpu_data_handle_t) {
    release(handle, "starpu_data_release");
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_release_on_node(handle: starpu_data_handle_t, _node: c_int) {
    release(handle, "starpu_data_release_on_node");
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_release_to(handle: starpu_data_handle_t, mode: starpu_data_access_mode) {
    if mode == STARPU_NONE {
        return release(handle, "starpu_data_release_to");
    }
    let mut all = data(handle).held.lock();
    let is_over = match all.last_mut() {
        Some(Held::Turn { turn, writes, behind }) if *writes && mode & STARPU_W == 0 => {
            *writes = false;
            Some(std::mem::replace(turn, std::mem::take(behind)))
        }
        _ => None,
    };
    drop(all);
    if let Some(turn) = is_over {
        turn.release();
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_release_to_on_node(
    handle: starpu_data_handle_t,
    mode: starpu_data_access_mode,
    _node: c_int,
) {
    starpu_data_release_to(handle, mode);
}

/// Releases what [`acquire_now`] has acquired last.
pub unsafe fn release_now(target: &Data) {
    release(target.handle(), "release");
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_arbiter_create() -> starpu_arbiter_t {
    // Turns on all data of a task are taken at once or not at all: an arbiter does no more.
    std::ptr::dangling_mut::<c_void>()
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_data_assign_arbiter(_handle: starpu_data_handle_t, _arbiter: starpu_arbiter_t) {}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_arbiter_destroy(_arbiter: starpu_arbiter_t) {}
