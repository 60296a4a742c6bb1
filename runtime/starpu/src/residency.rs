//! The memory nodes that have a handle's value, and its way from one to another.
//!
//! A task or the application that has its turn on a handle asks for the value on a node. One that
//! writes leaves it on that node alone. Several that read may ask at the same time.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU16, Ordering};

use parking_lot::{Mutex, MutexGuard};

use crate::data::{Data, data};
use crate::gpus::{self, Eviction};
use crate::instance::{complain, errno};
use crate::types::*;

/// Bit of the host's memory.
const HOST: u8 = 1;

/// The memory nodes of a handle.
pub struct Residency {
    state: Mutex<NodeSets>,
    /// Nodes with memory in the low byte, those with the value in the high one, to be read without
    /// the lock.
    seen: AtomicU16,
}

/// Returns the bit of a node; 0 for one that cannot be.
fn bit(node: usize) -> u8 {
    1u8.checked_shl(node as u32).unwrap_or(0)
}

/// The memory nodes of a handle, a bit each.
struct NodeSets {
    /// Nodes with memory for it.
    allocated: u8,
    /// Those of them whose memory was allocated here.
    owned: u8,
    /// Nodes that have its value, if it has one.
    valid: u8,
}

impl Residency {
    /// Returns the state of a handle with memory of the application's on `home`, or without.
    pub fn new(home: c_int) -> Residency {
        let home = usize::try_from(home).ok().map(|home| if home <= gpus::all().len() { home } else { 0 });
        let allocated = home.map_or(0, |home| 1 << home);
        let valid = home.map_or(HOST, |home| 1 << home);
        Residency {
            state: Mutex::new(NodeSets { allocated, owned: 0, valid }),
            seen: AtomicU16::new(u16::from_le_bytes([allocated, valid])),
        }
    }

    /// Lets others see a changed state.
    fn tell(&self, state: &NodeSets) {
        self.seen.store(u16::from_le_bytes([state.allocated, state.valid]), Ordering::Release);
    }

    /// Returns true while its memory on the host is there and no GPU has its value.
    #[inline]
    fn is_on_host_alone(&self) -> bool {
        let [allocated, valid] = self.seen.load(Ordering::Acquire).to_le_bytes();
        allocated & HOST != 0 && valid == HOST
    }

    /// Returns true if there is memory for it on a node.
    pub fn is_allocated(&self, node: usize) -> bool {
        let [allocated, _] = self.seen.load(Ordering::Acquire).to_le_bytes();
        allocated & bit(node) != 0
    }

    /// Returns true if a node has the value, should there be one.
    pub fn is_valid(&self, node: usize) -> bool {
        let [allocated, valid] = self.seen.load(Ordering::Acquire).to_le_bytes();
        allocated & valid & bit(node) != 0
    }

    /// Notes that there is memory of the application's on a node.
    pub fn has_memory(&self, node: usize) {
        let mut state = self.state.lock();
        state.allocated |= bit(node);
        self.tell(&state);
    }

    /// Calls `f` while no other thread changes where the value is.
    pub fn still<R>(&self, f: impl FnOnce() -> R) -> R {
        let _state = self.state.lock();
        f()
    }
}

impl Data {
    /// Returns the interface of the value in the host's memory, to be read and written.
    #[inline]
    pub unsafe fn value(&self) -> *mut c_void {
        self.value_for(|| STARPU_RW)
    }

    /// Returns the interface of the value in the host's memory, for an access of this mode.
    #[inline]
    pub unsafe fn value_for(&self, mode: impl FnOnce() -> starpu_data_access_mode) -> *mut c_void {
        if !self.residency.is_on_host_alone() {
            self.bring(0, mode());
        }
        self.interface(0)
    }

    /// Returns the interface of the value in the memory of a node, for an access of this mode.
    pub unsafe fn value_on(&self, node: usize, mode: starpu_data_access_mode) -> *mut c_void {
        if node == 0 {
            return self.value_for(|| mode);
        }
        self.bring(node, mode);
        self.interface(node)
    }

    /// Allocates memory for the value in the host's memory.
    pub unsafe fn allocate_on_host(&self) {
        let state = self.lock_with_memory(0);
        self.residency.tell(&state);
    }

    /// Allocates memory for the value on a node, if there is any that is free.
    pub unsafe fn try_allocate(&self, node: usize) -> bool {
        let mut state = self.residency.state.lock();
        let is_there = self.allocate(&mut state, node);
        self.residency.tell(&state);
        if let Some(gpu) = gpus::on_node(node).filter(|_| is_there) {
            gpu.holds(self.handle());
        }
        is_there
    }

    #[cold]
    unsafe fn bring(&self, node: usize, mode: starpu_data_access_mode) {
        let mut state = self.lock_with_memory(node);
        let writes_alone = !reads(mode) && mode & (STARPU_W | STARPU_SCRATCH) != 0;
        if !writes_alone && state.valid >> node & 1 == 0 {
            let from = state.valid.trailing_zeros() as usize;
            if !self.allocate(&mut state, from) {
                self.has_no_memory(from);
            }
            if self.can_copy(from, node) {
                self.move_value(from, node);
            } else {
                // By way of the host.
                if !self.allocate(&mut state, 0) {
                    self.has_no_memory(0);
                }
                self.move_value(from, 0);
                state.valid |= HOST;
                self.move_value(0, node);
            }
        }
        if mode & (STARPU_W | STARPU_SCRATCH | STARPU_REDUX) != 0 {
            state.valid = 0;
        }
        state.valid |= 1 << node;
        self.residency.tell(&state);
        // Before others may look for memory that can be freed.
        if let Some(gpu) = gpus::on_node(node) {
            gpu.used(self.handle());
        }
    }

    /// Locks the state, with memory for the value on a node. Other handles leave the node if there
    /// is not enough; one that is busy is waited for without the lock, as two GPUs may wait for
    /// each other's.
    unsafe fn lock_with_memory(&self, node: usize) -> MutexGuard<'_, NodeSets> {
        loop {
            let mut state = self.residency.state.lock();
            if self.allocate(&mut state, node) {
                return state;
            }
            match gpus::on_node(node).map_or(Eviction::Nothing, |gpu| gpu.evict(node)) {
                Eviction::Freed => {}
                Eviction::Busy => {
                    drop(state);
                    std::thread::yield_now();
                }
                // The last one may have been freed since.
                Eviction::Nothing if self.allocate(&mut state, node) => return state,
                Eviction::Nothing => self.has_no_memory(node),
            }
        }
    }

    /// Allocates memory for the value on a node; returns false if there is none.
    unsafe fn allocate(&self, state: &mut NodeSets, node: usize) -> bool {
        if state.allocated >> node & 1 != 0 {
            return true;
        }
        if let Some(allocate) = (*self.ops).allocate_data_on_node
            && allocate(self.interface(node), node as u32) < 0
        {
            return false;
        }
        state.owned |= 1 << node;
        state.allocated |= 1 << node;
        true
    }

    fn has_no_memory(&self, node: usize) -> ! {
        let place = gpus::on_node(node).map_or_else(String::new, |gpu| format!(" on GPU {}", gpu.number()));
        complain(format_args!(
            "there is no memory{place} for {}: free other data, or split it",
            self.token_name()
        ));
        std::process::abort()
    }

    /// Copies the value from one node to another; the program ends if that fails.
    unsafe fn move_value(&self, from: usize, to: usize) {
        if self.copy_between(from, self, to) != 0 {
            complain(format_args!(
                "the value of {} did not get from memory node {from} to {to}",
                self.token_name()
            ));
            std::process::abort()
        }
    }

    /// Returns true unless the value goes from one GPU to another by way of the host.
    unsafe fn can_copy(&self, from: usize, to: usize) -> bool {
        let methods = &*(*self.ops).copy_methods;
        let (source, target) = (self.interface(from), self.interface(to));
        let (from, to) = (from as u32, to as u32);
        from == 0
            || to == 0
            || (methods.cuda_to_cuda.is_some()
                || methods.any_to_any.is_some()
                || methods.cuda_to_cuda_async.is_some())
                && methods.can_copy.is_none_or(|can| can(source, from, target, to, to) != 0)
    }

    /// Frees the memory of a node for other handles; the value stays on another node.
    pub unsafe fn leave_node(&self, node: usize) -> Eviction {
        let Some(mut state) = self.residency.state.try_lock() else { return Eviction::Busy };
        match (state.allocated >> node & 1, state.owned >> node & 1) {
            (0, _) => return Eviction::Busy,
            (_, 0) => return Eviction::Nothing,
            (_, _) => {}
        }
        if state.valid == 1 << node {
            if !self.allocate(&mut state, 0) {
                self.has_no_memory(0);
            }
            self.move_value(node, 0);
            state.valid |= HOST;
        }
        self.free_on(&mut state, node);
        self.residency.tell(&state);
        Eviction::Freed
    }

    unsafe fn free_on(&self, state: &mut NodeSets, node: usize) {
        if state.owned >> node & 1 == 0 {
            return;
        }
        if let Some(free) = (*self.ops).free_data_on_node {
            free(self.interface(node), node as u32);
        }
        state.owned &= !(1 << node);
        state.allocated &= !(1 << node);
        state.valid &= !(1 << node);
    }

    /// Frees all memory that was allocated here; the value is lost unless it is elsewhere.
    pub unsafe fn free_memory(&self) {
        let mut state = self.residency.state.lock();
        gpus::nodes().for_each(|node| self.free_on(&mut state, node));
        if state.valid == 0 {
            state.valid = if state.allocated == 0 { HOST } else { state.allocated };
        }
        self.residency.tell(&state);
        drop(state);
        // Until now, GPUs that look for memory have seen that it is being freed.
        gpus::all().iter().for_each(|gpu| gpu.forgets(self.handle()));
    }

    /// Copies the value of this handle on one node into the memory of `to` on another.
    unsafe fn copy_between(&self, from_node: usize, to: &Data, to_node: usize) -> c_int {
        let (source, target) = (self.interface(from_node), to.interface(to_node));
        let (from, to) = (from_node as u32, to_node as u32);
        let methods = &*(*self.ops).copy_methods;
        let (own, on_stream) = match (from_node, to_node) {
            (0, 0) => (methods.ram_to_ram, None),
            (0, _) => (methods.ram_to_cuda, methods.ram_to_cuda_async),
            (_, 0) => (methods.cuda_to_ram, methods.cuda_to_ram_async),
            (_, _) => (methods.cuda_to_cuda, methods.cuda_to_cuda_async),
        };
        let gpu = gpus::on_node(to_node).or_else(|| gpus::on_node(from_node));
        match (own, methods.any_to_any, on_stream.zip(gpu)) {
            (Some(copy), _, _) => copy(source, from, target, to),
            (None, Some(copy), _) => copy(source, from, target, to, ptr::null_mut()),
            (None, None, Some((copy, gpu))) => {
                let result = gpu.with_native_stream(|stream| copy(source, from, target, to, stream));
                // It has ended by now.
                if result == -errno::EAGAIN { 0 } else { result }
            }
            (None, None, None) => {
                complain(format_args!(
                    "a data interface has no copy method for memory nodes {from} to {to}: give it any_to_any"
                ));
                -errno::EINVAL
            }
        }
    }

    /// Copies the value of `from` into the value of this one, on the host.
    pub unsafe fn copy_from(&self, from: &Data) -> c_int {
        from.value_for(|| STARPU_R);
        self.value_for(|| STARPU_W);
        from.copy_between(0, self, 0)
    }
}

/// Returns true if an access of this mode reads the value.
pub fn reads(mode: starpu_data_access_mode) -> bool {
    mode & (STARPU_R | STARPU_REDUX) != 0
}

/// Returns true if a buffer has to be copied to a node for an access of this mode.
///
/// # Safety
/// `handle` is null or registered.
pub unsafe fn is_lacking(handle: starpu_data_handle_t, node: usize, mode: starpu_data_access_mode) -> bool {
    reads(mode) && !handle.is_null() && !data(handle).residency.is_valid(node)
}
