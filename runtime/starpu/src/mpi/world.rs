//! Start and end of the use of MPI, and communicators.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use ::mpi::ffi::{
    MPI_Comm, MPI_Comm_create_keyval, MPI_Comm_group, MPI_Comm_rank, MPI_Comm_set_attr, MPI_Comm_size,
    MPI_Finalize, MPI_Group, MPI_Group_free, MPI_Group_translate_ranks, MPI_Init_thread, MPI_Initialized,
    MPI_Query_thread, MPI_TAG_UB, RSMPI_COMM_WORLD, RSMPI_THREAD_FUNNELED, RSMPI_THREAD_MULTIPLE,
    RSMPI_UNDEFINED,
};
use parking_lot::Mutex;
use zellige_mpi::Mpi;

use super::link::{self, Link};
use super::{collect, messages, owners};
use crate::instance::{complain, errno};
use crate::types::*;

/// A communicator of the program.
pub struct Comm {
    /// Number that means this communicator in messages.
    pub id: u64,
    /// Ranks in the communicator of the start, by ranks in this one.
    pub members: Vec<usize>,
    /// This process' rank in it.
    pub me: usize,
}

impl Comm {
    /// Returns a member's rank in the communicator of the start.
    pub fn member(&self, rank: c_int) -> Option<usize> {
        usize::try_from(rank).ok().and_then(|rank| self.members.get(rank).copied())
    }
}

/// State between `starpu_mpi_init` and `starpu_mpi_shutdown`.
#[derive(Default)]
struct World {
    comms: Vec<(Raw, Arc<Comm>)>,
    /// Communicators by the hash of their members.
    of_hash: HashMap<u64, u64>,
    start: Option<Raw>,
    finalizes: bool,
    shuts_down: bool,
    rank: c_int,
    ranks: c_int,
}

/// A communicator as the program knows it.
#[derive(Clone, Copy, PartialEq)]
struct Raw(MPI_Comm);

// SAFETY: a handle of MPI, which any thread may use.
unsafe impl Send for Raw {}

static WORLD: Mutex<Option<World>> = Mutex::new(None);
/// Key of the attribute by which MPI tells that a communicator is freed; -1: not made.
static KEY: AtomicI32 = AtomicI32::new(-1);

unsafe extern "C" fn copies_nothing(
    _comm: MPI_Comm,
    _key: c_int,
    _extra: *mut c_void,
    _value: *mut c_void,
    _copy: *mut c_void,
    copies: *mut c_int,
) -> c_int {
    *copies = 0;
    0
}

unsafe extern "C" fn forgets(comm: MPI_Comm, _key: c_int, _value: *mut c_void, _extra: *mut c_void) -> c_int {
    if let Some(world) = &mut *WORLD.lock() {
        world.comms.retain(|known| known.0 != Raw(comm));
    }
    0
}

/// Returns what is known of a communicator, and looks at it if that is nothing.
pub unsafe fn comm(comm: MPI_Comm) -> Option<Arc<Comm>> {
    let (start, known) = {
        let world = WORLD.lock();
        let world = world.as_ref()?;
        (
            world.start?,
            world.comms.iter().find(|known| known.0 == Raw(comm)).map(|known| Arc::clone(&known.1)),
        )
    };
    if known.is_some() {
        return known;
    }
    let (mut size, mut me) = (0, 0);
    let (mut group, mut all) = (std::mem::zeroed::<MPI_Group>(), std::mem::zeroed::<MPI_Group>());
    MPI_Comm_size(comm, &raw mut size);
    MPI_Comm_rank(comm, &raw mut me);
    MPI_Comm_group(comm, &raw mut group);
    MPI_Comm_group(start.0, &raw mut all);
    let ranks: Vec<c_int> = (0..size).collect();
    let mut members = vec![0; ranks.len()];
    MPI_Group_translate_ranks(group, size, ranks.as_ptr(), all, members.as_mut_ptr());
    MPI_Group_free(&raw mut group);
    MPI_Group_free(&raw mut all);
    if members.contains(&RSMPI_UNDEFINED) {
        complain(format_args!(
            "a communicator has processes that are not in the one of starpu_mpi_init_conf: give that the larger one"
        ));
        return None;
    }
    let members: Vec<usize> = members.into_iter().map(|rank| rank as usize).collect();
    MPI_Comm_set_attr(comm, KEY.load(Ordering::Relaxed), ptr::null_mut());
    let mut world = WORLD.lock();
    let world = world.as_mut()?;
    let mut hasher = DefaultHasher::new();
    members.hash(&mut hasher);
    let hash = hasher.finish();
    let before = world.of_hash.entry(hash).or_default();
    let id = if comm == start.0 { 0 } else { hash.wrapping_add(*before).max(1) };
    *before += 1;
    let made = Arc::new(Comm { id, members, me: me as usize });
    world.comms.push((Raw(comm), Arc::clone(&made)));
    Some(made)
}

/// Returns what is known of a communicator, or says that `function` cannot use it.
pub unsafe fn needed(function: &str, raw: MPI_Comm) -> Option<(Arc<Link>, Arc<Comm>)> {
    let Some(link) = link::get() else {
        complain(format_args!("{function}: call starpu_mpi_init_conf first"));
        return None;
    };
    Some((link, comm(raw)?))
}

/// Initialises MPI if `initialize` says so, and warns if its level of threads is too low.
unsafe fn start_mpi(argc: *mut c_int, argv: *mut *mut *mut c_char, initialize: bool) -> Result<(), c_int> {
    let (mut level, mut is_there) = (0, 0);
    MPI_Initialized(&raw mut is_there);
    if initialize {
        if is_there != 0 {
            complain(format_args!("starpu_mpi_init: MPI is initialised: pass 0 as initialize_mpi"));
            return Err(-errno::EINVAL);
        }
        let failed = MPI_Init_thread(argc, argv, RSMPI_THREAD_MULTIPLE, &raw mut level);
        if failed != 0 {
            complain(format_args!("starpu_mpi_init: MPI_Init_thread returned {failed}"));
            return Err(-errno::EINVAL);
        }
    } else if is_there == 0 {
        complain(format_args!(
            "starpu_mpi_init: MPI is not initialised: call MPI_Init_thread, or pass 1 as initialize_mpi"
        ));
        return Err(-errno::EINVAL);
    } else {
        MPI_Query_thread(&raw mut level);
    }
    if level <= RSMPI_THREAD_FUNNELED {
        complain(format_args!(
            "MPI was initialised for one thread: do not call it while messages are in transit, or initialise it with MPI_THREAD_MULTIPLE"
        ));
    }
    Ok(())
}

unsafe fn start(
    argc: *mut c_int,
    argv: *mut *mut *mut c_char,
    initialize: bool,
    raw: MPI_Comm,
    shuts_down: bool,
) -> c_int {
    if WORLD.lock().is_some() {
        complain(format_args!("starpu_mpi_init was called twice without starpu_mpi_shutdown between"));
        return -errno::EINVAL;
    }
    if let Err(error) = start_mpi(argc, argv, initialize) {
        return error;
    }
    if KEY.load(Ordering::Relaxed) == -1 {
        let mut key = 0;
        MPI_Comm_create_keyval(Some(copies_nothing), Some(forgets), &raw mut key, ptr::null_mut());
        KEY.store(key, Ordering::Relaxed);
    }
    // The transport keeps a copy of the communicator; nothing else of this is needed.
    let transport = match Mpi::of_program(raw).and_then(|mpi| mpi.transport()) {
        Ok(transport) => transport,
        Err(error) => {
            complain(format_args!("starpu_mpi_init: {error}"));
            return -errno::EINVAL;
        }
    };
    let (mut rank, mut ranks) = (0, 0);
    MPI_Comm_rank(raw, &raw mut rank);
    MPI_Comm_size(raw, &raw mut ranks);
    *WORLD.lock() = Some(World {
        start: Some(Raw(raw)),
        finalizes: initialize,
        shuts_down,
        rank,
        ranks,
        ..World::default()
    });
    owners::at_init();
    link::begin(transport);
    comm(raw);
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_init_conf(
    argc: *mut c_int,
    argv: *mut *mut *mut c_char,
    initialize_mpi: c_int,
    comm: MPI_Comm,
    conf: *mut starpu_conf,
) -> c_int {
    let result = crate::init::starpu_init(conf);
    if result != 0 {
        return result;
    }
    let result = start(argc, argv, initialize_mpi != 0, comm, true);
    if result != 0 {
        crate::init::starpu_shutdown();
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_init_comm(
    argc: *mut c_int,
    argv: *mut *mut *mut c_char,
    initialize_mpi: c_int,
    comm: MPI_Comm,
) -> c_int {
    start(argc, argv, initialize_mpi != 0, comm, false)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_init(
    argc: *mut c_int,
    argv: *mut *mut *mut c_char,
    initialize_mpi: c_int,
) -> c_int {
    start(argc, argv, initialize_mpi != 0, RSMPI_COMM_WORLD, false)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_initialize() -> c_int {
    starpu_mpi_init(ptr::null_mut(), ptr::null_mut(), 0)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_initialize_extended(rank: *mut c_int, size: *mut c_int) -> c_int {
    let result = starpu_mpi_init(ptr::null_mut(), ptr::null_mut(), 1);
    if result == 0 {
        *rank = starpu_mpi_world_rank();
        *size = starpu_mpi_world_size();
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_shutdown_comm(_comm: MPI_Comm) -> c_int {
    let Some(link) = link::get() else {
        complain(format_args!("starpu_mpi_shutdown: call starpu_mpi_init_conf first"));
        return -errno::EINVAL;
    };
    collect::finish_all();
    messages::wait_for_all(&link);
    owners::at_shutdown();
    link::end(&link);
    let world = WORLD.lock().take();
    let Some(world) = world else { return -errno::EINVAL };
    if world.shuts_down {
        crate::init::starpu_shutdown();
    }
    if world.finalizes {
        MPI_Finalize();
        KEY.store(-1, Ordering::Relaxed);
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_shutdown() -> c_int {
    starpu_mpi_shutdown_comm(RSMPI_COMM_WORLD)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_comm_register(raw: MPI_Comm) -> c_int {
    match needed("starpu_mpi_comm_register", raw) {
        Some(_) => 0,
        None => -errno::EINVAL,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_comm_size(comm: MPI_Comm, size: *mut c_int) -> c_int {
    MPI_Comm_size(comm, size)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_comm_rank(comm: MPI_Comm, rank: *mut c_int) -> c_int {
    MPI_Comm_rank(comm, rank)
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_mpi_world_rank() -> c_int {
    WORLD.lock().as_ref().map_or(-1, |world| world.rank)
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_mpi_world_size() -> c_int {
    WORLD.lock().as_ref().map_or(-1, |world| world.ranks)
}

/// The largest tag of data, which is more than that of MPI.
static LARGEST_TAG: i64 = i64::MAX;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_comm_get_attr(
    _comm: MPI_Comm,
    key: c_int,
    value: *mut c_void,
    found: *mut c_int,
) -> c_int {
    // Other attributes are those of MPI, which a program asks MPI for.
    let is_known = key == MPI_TAG_UB as c_int;
    if is_known {
        *value.cast::<*const i64>() = &raw const LARGEST_TAG;
    }
    *found = c_int::from(is_known);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_mpi_get_thread_cpuid() -> c_int {
    // The thread of messages is bound to no core.
    -1
}

/// Messages have numbers in the place of tags of MPI, so this one is not used.
static COMMUNICATION_TAG: Mutex<i64> = Mutex::new(0);

#[unsafe(no_mangle)]
pub extern "C" fn starpu_mpi_get_communication_tag() -> i64 {
    *COMMUNICATION_TAG.lock()
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_mpi_set_communication_tag(tag: i64) {
    *COMMUNICATION_TAG.lock() = tag;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_barrier(raw: MPI_Comm) -> c_int {
    if messages::may_not_wait("starpu_mpi_barrier") {
        return -errno::EDEADLK;
    }
    match needed("starpu_mpi_barrier", raw) {
        Some((link, comm)) => link.barrier(&comm),
        None => -errno::EINVAL,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_wait_for_all(raw: MPI_Comm) -> c_int {
    if messages::may_not_wait("starpu_mpi_wait_for_all")
        || crate::instance::must_not_wait("starpu_mpi_wait_for_all")
    {
        return -errno::EDEADLK;
    }
    match needed("starpu_mpi_wait_for_all", raw) {
        Some((link, _)) => {
            collect::finish_all();
            messages::wait_for_all(&link);
            0
        }
        None => -errno::EINVAL,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_wait_for_all_in_ctx(raw: MPI_Comm, _context: c_uint) -> c_int {
    starpu_mpi_wait_for_all(raw)
}

/// Says that a function of StarPU is absent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zellige_starpu_mpi_absent(function: *const c_char) -> c_int {
    let function = std::ffi::CStr::from_ptr(function).to_string_lossy();
    complain(format_args!("{function} does nothing: this library has no checkpoints and no load balancer"));
    -errno::ENOSYS
}
