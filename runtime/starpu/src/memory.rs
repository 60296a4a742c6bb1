//! Memory from the library: allocation, and how much of a node is in use.
//!
//! Only allocations that ask for it (`STARPU_MALLOC_COUNT`, and all for data) count towards the
//! limit that `STARPU_LIMIT_CPU_MEM` sets, in MiB. The limit is read at the first use of a
//! node, and again when the library starts.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};

use crate::c::{free, malloc, posix_memalign};
use crate::gpus;
use crate::instance::errno::{EINVAL, ENOMEM};
use crate::types::*;

const PINNED: c_int = 1 << 1;
const COUNT: c_int = 1 << 2;
const NORECLAIM: c_int = 1 << 3;
const WAIT: c_int = 1 << 4;
const OVERFLOW: c_int = 1 << 5;

/// State of the memory of one node.
struct Node {
    used: usize,
    /// Bytes that may be in use, once the environment was read.
    limit: Option<usize>,
    was_read: bool,
}

struct Memory {
    nodes: Mutex<[Node; STARPU_MAXNODES]>,
    freed: Condvar,
}

static MEMORY: Memory = Memory {
    nodes: Mutex::new([const { Node { used: 0, limit: None, was_read: false } }; STARPU_MAXNODES]),
    freed: Condvar::new(),
};

/// Reads the limits from the environment again; the start of the library calls it.
pub(crate) fn read_limits() {
    let mut nodes = MEMORY.nodes.lock();
    for node in 0..STARPU_MAXNODES {
        read_limit(&mut nodes, node);
    }
}

fn read_limit(nodes: &mut [Node; STARPU_MAXNODES], node: usize) {
    let number = |name: &str| std::env::var(name).ok()?.trim().parse::<usize>().ok();
    let mib = number(&format!("STARPU_LIMIT_CPU_NUMA_{node}_MEM"));
    let mib = match node {
        0 => mib.or_else(|| number("STARPU_LIMIT_CPU_NUMA_MEM")).or_else(|| number("STARPU_LIMIT_CPU_MEM")),
        _ => mib,
    };
    nodes[node].limit = match gpus::on_node(node) {
        Some(gpu) => {
            let own = number(&format!("STARPU_LIMIT_CUDA_{}_MEM", gpu.number()));
            let mib = own.or_else(|| number("STARPU_LIMIT_CUDA_MEM"));
            Some(mib.map_or(gpu.memory_for_data() as usize, |mib| mib << 20))
        }
        None => mib.map(|mib| mib << 20),
    };
    nodes[node].was_read = true;
}

/// The node with its limit known.
fn node_of(nodes: &mut [Node; STARPU_MAXNODES], node: usize) -> &mut Node {
    if !nodes[node].was_read {
        read_limit(nodes, node);
    }
    &mut nodes[node]
}

/// Bytes of the machine's memory, or -1 where the system doesn't say.
fn memory_of_the_machine() -> starpu_ssize_t {
    #[cfg(target_os = "linux")]
    {
        unsafe extern "C" {
            fn sysconf(name: c_int) -> std::ffi::c_long;
        }
        const PAGESIZE: c_int = 30;
        const PHYS_PAGES: c_int = 85;
        // SAFETY: `sysconf` takes any number.
        let (pages, size) = unsafe { (sysconf(PHYS_PAGES), sysconf(PAGESIZE)) };
        if pages > 0 && size > 0 {
            return (pages * size) as starpu_ssize_t;
        }
    }
    -1
}

/// Bytes of a node: the limit where one is set, else the memory of the machine; -1 for other nodes.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_memory_get_total(node: c_uint) -> starpu_ssize_t {
    if node as usize >= STARPU_MAXNODES {
        return -1;
    }
    match node_of(&mut MEMORY.nodes.lock(), node as usize).limit {
        Some(limit) => limit as starpu_ssize_t,
        None if node == STARPU_MAIN_RAM as c_uint => memory_of_the_machine(),
        None => -1,
    }
}

/// Bytes of a node that are in use, of those that count.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_memory_get_used(node: c_uint) -> usize {
    MEMORY.nodes.lock().get(node as usize).map_or(0, |node| node.used)
}

/// Bytes of a node that are left.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_memory_get_available(node: c_uint) -> starpu_ssize_t {
    match starpu_memory_get_total(node) {
        -1 => -1,
        total => (total - starpu_memory_get_used(node) as starpu_ssize_t).max(0),
    }
}

/// Bytes of all nodes.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_memory_get_total_all_nodes() -> starpu_ssize_t {
    gpus::nodes().map(|node| starpu_memory_get_total(node as c_uint).max(0)).sum()
}

/// Bytes of all nodes that are left.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_memory_get_available_all_nodes() -> starpu_ssize_t {
    gpus::nodes().map(|node| starpu_memory_get_available(node as c_uint).max(0)).sum()
}

/// Bytes of all nodes that are in use.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_memory_get_used_all_nodes() -> usize {
    MEMORY.nodes.lock().iter().map(|node| node.used).sum()
}

/// Takes note that memory is in use; -ENOMEM says that there is not as much left.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_memory_allocate(node: c_uint, size: usize, flags: c_int) -> c_int {
    if node as usize >= STARPU_MAXNODES {
        return -EINVAL;
    }
    let mut nodes = MEMORY.nodes.lock();
    loop {
        let node = node_of(&mut nodes, node as usize);
        let fits = node.limit.is_none_or(|limit| node.used.saturating_add(size) <= limit);
        // Memory that can never be free is not waited for.
        let in_vain = node.limit.is_some_and(|limit| size > limit);
        if fits || flags & OVERFLOW != 0 {
            node.used += size;
            return 0;
        }
        if flags & WAIT == 0 || in_vain {
            return -ENOMEM;
        }
        MEMORY.freed.wait(&mut nodes);
    }
}

/// Takes note that memory is no longer in use.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_memory_deallocate(node: c_uint, size: usize) {
    if let Some(node) = MEMORY.nodes.lock().get_mut(node as usize) {
        node.used = node.used.saturating_sub(size);
    }
    MEMORY.freed.notify_all();
}

/// Waits until that much memory is left, or returns at once where it never can be.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_memory_wait_available(node: c_uint, size: usize) {
    if node as usize >= STARPU_MAXNODES {
        return;
    }
    let mut nodes = MEMORY.nodes.lock();
    loop {
        let node = node_of(&mut nodes, node as usize);
        match node.limit {
            Some(limit) if size <= limit && node.used + size > limit => MEMORY.freed.wait(&mut nodes),
            _ => return,
        }
    }
}

// ---- Allocation --------------------------------------------------------------------------------

/// Allocates `size` bytes on a node into the pointer; 0 or an error.
pub type MallocHook = Option<unsafe extern "C" fn(c_uint, *mut *mut c_void, usize, c_int) -> c_int>;
/// Frees what the other hook allocated.
pub type FreeHook = Option<unsafe extern "C" fn(c_uint, *mut c_void, usize, c_int) -> c_int>;

static HOOKS: Mutex<(MallocHook, FreeHook)> = Mutex::new((None, None));
static ALIGN: AtomicUsize = AtomicUsize::new(0);
static DEFAULT_FLAGS: Mutex<[c_int; STARPU_MAXNODES]> = Mutex::new([PINNED | COUNT; STARPU_MAXNODES]);

/// Lets functions of the program allocate and free from now on.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_malloc_set_hooks(malloc_hook: MallocHook, free_hook: FreeHook) {
    *HOOKS.lock() = (malloc_hook, free_hook);
}

/// Sets the alignment of all further allocations, a power of two.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_malloc_set_align(align: usize) {
    if align.is_power_of_two() {
        ALIGN.fetch_max(align, Ordering::Relaxed);
    } else {
        crate::variadic::report("starpu_malloc_set_align", &format!("{align} is no power of two"));
    }
}

/// Allocates with flags; 0, or -ENOMEM where the node's memory is used up.
///
/// # Safety
/// `pointer` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_malloc_flags(pointer: *mut *mut c_void, size: usize, flags: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { allocate(STARPU_MAIN_RAM as c_uint, pointer, size, flags) }
}

/// # Safety
/// `pointer` is valid.
unsafe fn allocate(node: c_uint, pointer: *mut *mut c_void, size: usize, flags: c_int) -> c_int {
    if flags & COUNT != 0 {
        // Who doesn't want memory to be made free for it takes what is there, beyond the limit,
        // too.
        let beyond = if flags & NORECLAIM != 0 { OVERFLOW } else { 0 };
        let refused = starpu_memory_allocate(node, size, flags | beyond);
        if refused != 0 {
            // SAFETY: the caller's promise.
            unsafe { *pointer = std::ptr::null_mut() };
            return refused;
        }
    }
    if let Some(gpu) = gpus::on_node(node as usize) {
        let at = gpu.allocate(size);
        if at.is_none() && flags & COUNT != 0 {
            starpu_memory_deallocate(node, size);
        }
        // SAFETY: the caller's promise.
        unsafe { *pointer = at.unwrap_or(0) as *mut c_void };
        return if at.is_some() { 0 } else { -ENOMEM };
    }
    let hook = HOOKS.lock().0;
    let align = ALIGN.load(Ordering::Relaxed);
    // SAFETY: the caller's promise; a size of 0 gives a pointer too.
    let result = unsafe {
        match hook {
            Some(hook) => hook(node, pointer, size, flags),
            None if align > 2 * size_of::<usize>() => -posix_memalign(pointer, align, size.max(1)),
            None => {
                *pointer = malloc(size.max(1));
                if (*pointer).is_null() { -ENOMEM } else { 0 }
            }
        }
    };
    if result != 0 && flags & COUNT != 0 {
        starpu_memory_deallocate(node, size);
    }
    result
}

/// Frees what was allocated with the same size and flags.
///
/// # Safety
/// `pointer` is from an allocation of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_free_flags(pointer: *mut c_void, size: usize, flags: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { release(STARPU_MAIN_RAM as c_uint, pointer, size, flags) }
}

/// # Safety
/// `pointer` is null or from [`allocate`].
unsafe fn release(node: c_uint, pointer: *mut c_void, size: usize, flags: c_int) -> c_int {
    let hook = HOOKS.lock().1;
    // SAFETY: the caller's promise.
    let result = unsafe {
        match (gpus::on_node(node as usize), hook) {
            (Some(gpu), _) => {
                gpu.free(pointer as usize);
                0
            }
            (None, Some(hook)) => hook(node, pointer, size, flags),
            (None, None) => {
                free(pointer);
                0
            }
        }
    };
    if flags & COUNT != 0 {
        starpu_memory_deallocate(node, size);
    }
    result
}

/// Allocates memory that devices reach, too; 0 or -ENOMEM.
///
/// # Safety
/// `pointer` is valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_malloc(pointer: *mut *mut c_void, size: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { starpu_malloc_flags(pointer, size, PINNED) }
}

/// Frees what `starpu_malloc` allocated.
///
/// # Safety
/// `pointer` is from `starpu_malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_free(pointer: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { starpu_free_flags(pointer, 0, PINNED) }
}

/// Frees what `starpu_malloc` allocated.
///
/// # Safety
/// `pointer` is from `starpu_malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_free_noflag(pointer: *mut c_void, size: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { starpu_free_flags(pointer, size, PINNED) }
}

/// Allocates on a node with flags; 0 says that there is no memory.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_malloc_on_node_flags(node: c_uint, size: usize, flags: c_int) -> usize {
    let mut pointer = std::ptr::null_mut();
    // SAFETY: the pointer is a local variable.
    if unsafe { allocate(node, &mut pointer, size, flags) } == 0 { pointer as usize } else { 0 }
}

/// Allocates on a node; 0 says that there is no memory.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_malloc_on_node(node: c_uint, size: usize) -> usize {
    starpu_malloc_on_node_flags(node, size, default_flags(node))
}

fn default_flags(node: c_uint) -> c_int {
    DEFAULT_FLAGS.lock().get(node as usize).copied().unwrap_or(PINNED | COUNT)
}

/// Sets the flags of allocations on a node that name none.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_malloc_on_node_set_default_flags(node: c_uint, flags: c_int) {
    if let Some(of_node) = DEFAULT_FLAGS.lock().get_mut(node as usize) {
        *of_node = flags;
    }
}

/// Frees on a node what was allocated with the same size and flags.
///
/// # Safety
/// `address` is from `starpu_malloc_on_node_flags`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_free_on_node_flags(node: c_uint, address: usize, size: usize, flags: c_int) {
    // SAFETY: the caller's promise.
    unsafe { release(node, address as *mut c_void, size, flags) };
}

/// Frees on a node what was allocated with the same size.
///
/// # Safety
/// `address` is from `starpu_malloc_on_node`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_free_on_node(node: c_uint, address: usize, size: usize) {
    // SAFETY: the caller's promise.
    unsafe { starpu_free_on_node_flags(node, address, size, default_flags(node)) };
}

/// Looks whether memory is on a node, which all memory of the host is.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_check_on_node(_node: c_uint, _address: usize, _size: usize) {}

/// Does nothing: copies to devices reach all memory.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_memory_pin(_address: *mut c_void, _size: usize) -> c_int {
    0
}

/// Ends what `starpu_memory_pin` began.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_memory_unpin(_address: *mut c_void, _size: usize) -> c_int {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_counted_allocations_meet_the_limit() {
        // A node that no other test uses.
        const NODE: c_uint = 5;
        // SAFETY: no other test reads or writes the environment of C at the same time by this name.
        unsafe { std::env::set_var("STARPU_LIMIT_CPU_NUMA_5_MEM", "1") };
        let first = starpu_malloc_on_node(NODE, 400_000);
        let second = starpu_malloc_on_node(NODE, 400_000);
        assert!(first != 0 && second != 0);
        assert_eq!(starpu_malloc_on_node(NODE, 400_000), 0);
        assert_eq!(starpu_memory_allocate(NODE, 400_000, 0), -ENOMEM);
        assert_eq!(starpu_memory_get_available(NODE), (1 << 20) - 800_000);
        let uncounted = starpu_malloc_on_node_flags(NODE, 400_000, 0);
        assert_ne!(uncounted, 0);
        // SAFETY: these are from the calls above, with the same sizes and flags.
        unsafe {
            starpu_free_on_node_flags(NODE, uncounted, 400_000, 0);
            starpu_free_on_node(NODE, first, 400_000);
            starpu_free_on_node(NODE, second, 400_000);
        }
        assert_eq!(starpu_memory_get_used(NODE), 0);
    }

    #[test]
    fn nothing_is_a_pointer_too() {
        let mut pointer = std::ptr::null_mut();
        // SAFETY: the pointer is a local variable, and is freed once.
        unsafe {
            assert_eq!(starpu_malloc(&mut pointer, 0), 0);
            assert!(!pointer.is_null());
            assert_eq!(starpu_free_noflag(pointer, 0), 0);
        }
    }
}
