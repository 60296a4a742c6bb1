//! Owners and tags of data, and who has a copy of them.
//!
//! Every process notes for each of its data to whom it has sent them and whether it has a copy of
//! what another one owns, until a task writes them.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{c_char, c_int};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use ::mpi::ffi::MPI_Comm;
use parking_lot::Mutex;

use super::messages::{End, MessageCallback, receive_detached, send_detached, wait_for, when_ready};
use super::types::Datatype;
use super::world::{comm, needed, starpu_mpi_world_size};
use crate::data::{Data, data};
use crate::handles::starpu_data_invalidate_submit;
use crate::instance::{complain, errno};
use crate::types::*;

/// Rank of data of which each process has its own.
pub const PER_NODE: c_int = -2;

/// State of data that several processes use.
#[derive(Default)]
pub struct OwnedState {
    rank: Option<c_int>,
    tag: Option<i64>,
    /// True if this process has a copy of data of another one.
    received: bool,
    /// Ranks in the communicator of the start that have a copy.
    sent: BTreeSet<usize>,
    /// Ranks whose tasks have added to the data since the last reduction.
    pub contributors: BTreeSet<c_int>,
    /// The same as an array of flags for the program.
    map: Vec<c_char>,
    /// Ranks that send in the place of the owner, by receiver.
    sources: HashMap<c_int, c_int>,
    pub datatype: Option<Datatype>,
}

/// The state of one handle; empty for data of this process alone.
#[derive(Default)]
pub struct Owned(Mutex<Option<Box<OwnedState>>>);

impl Owned {
    /// Changes the state, which is made if it is not there.
    pub fn set<R>(&self, change: impl FnOnce(&mut OwnedState) -> R) -> R {
        change(self.0.lock().get_or_insert_default())
    }

    fn get<R>(&self, look: impl FnOnce(&OwnedState) -> Option<R>) -> Option<R> {
        self.0.lock().as_deref().and_then(look)
    }

    /// Forgets the owner of data that are unregistered.
    pub fn forget(&self, handle: starpu_data_handle_t) {
        let taken = self.0.lock().take();
        if let Some(state) = taken {
            let mut all = ALL.lock();
            if let Some(tag) = state.tag
                && all.by_tag.get(&tag) == Some(&(handle as usize))
            {
                all.by_tag.remove(&tag);
            }
            all.copied.remove(&(handle as usize));
        }
    }
}

#[derive(Default)]
struct All {
    by_tag: HashMap<i64, usize>,
    /// Handles with a copy here or elsewhere.
    copied: BTreeSet<usize>,
}

static ALL: LazyLock<Mutex<All>> = LazyLock::new(Mutex::default);
static CACHES: AtomicBool = AtomicBool::new(true);

/// Reads the settings of the environment.
pub fn at_init() {
    let off = std::env::var("STARPU_MPI_CACHE").is_ok_and(|text| text.trim() == "0");
    CACHES.store(!off, Ordering::Relaxed);
}

/// Forgets what the handles that are left have.
pub fn at_shutdown() {
    *ALL.lock() = All::default();
}

/// Returns what `look` says of data that have an owner or a datatype.
pub unsafe fn with_owned<R>(
    handle: starpu_data_handle_t,
    look: impl FnOnce(&OwnedState) -> Option<R>,
) -> Option<R> {
    data(handle).mpi.get(look)
}

/// Returns the rank of the owner.
pub unsafe fn rank_of(handle: starpu_data_handle_t) -> Option<c_int> {
    if handle.is_null() { None } else { with_owned(handle, |owned| owned.rank) }
}

/// Returns the tag.
pub unsafe fn tag_of(handle: starpu_data_handle_t) -> Option<i64> {
    with_owned(handle, |owned| owned.tag)
}

/// Returns the rank that sends data to `node`: the owner unless the program says otherwise.
pub unsafe fn source_of(handle: starpu_data_handle_t, node: c_int) -> Option<c_int> {
    with_owned(handle, |owned| owned.sources.get(&node).copied().or(owned.rank))
}

fn caches() -> bool {
    CACHES.load(Ordering::Relaxed)
}

/// Notes that this process gets a copy; returns true if it has one.
pub unsafe fn receives(handle: starpu_data_handle_t) -> bool {
    if !caches() {
        return false;
    }
    ALL.lock().copied.insert(handle as usize);
    data(handle).mpi.set(|owned| std::mem::replace(&mut owned.received, true))
}

/// Notes that a rank of a communicator gets a copy; returns true if it has one.
pub unsafe fn sends_to(handle: starpu_data_handle_t, rank: c_int, raw: MPI_Comm) -> bool {
    let Some(rank) = comm(raw).and_then(|comm| comm.member(rank)).filter(|_| caches()) else {
        return false;
    };
    ALL.lock().copied.insert(handle as usize);
    data(handle).mpi.set(|owned| !owned.sent.insert(rank))
}

/// Drops the copies of data: those elsewhere are no longer counted on, and one here is invalidated.
pub unsafe fn drop_copies(handle: starpu_data_handle_t) {
    if with_owned(handle, |owned| Some(owned.received || !owned.sent.is_empty())) != Some(true) {
        return;
    }
    ALL.lock().copied.remove(&(handle as usize));
    starpu_mpi_cached_send_clear(handle);
    starpu_mpi_cached_receive_clear(handle);
}

/// Drops the copies after a task has used data with this mode.
pub unsafe fn after_task(
    handle: starpu_data_handle_t,
    mode: starpu_data_access_mode,
    executes: bool,
    me: c_int,
) {
    let reduces = is_mpi_redux(mode);
    if caches() {
        if (mode & STARPU_W != 0 && !reduces) || mode & STARPU_REDUX != 0 {
            drop_copies(handle);
        }
    } else if executes && mode & STARPU_R != 0 && !reduces {
        // Received for this task alone.
        let owner = rank_of(handle);
        if owner.is_some_and(|owner| owner != me && owner != PER_NODE) {
            starpu_data_invalidate_submit(handle);
        }
    }
}

/// True if a task adds to a copy of its process, which a reduction adds to the owner's.
pub fn is_mpi_redux(mode: starpu_data_access_mode) -> bool {
    mode & STARPU_MPI_REDUX & !(STARPU_RW | STARPU_COMMUTE) != 0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_data_register_comm(
    handle: starpu_data_handle_t,
    tag: i64,
    rank: c_int,
    raw: MPI_Comm,
) {
    const NAME: &str = "starpu_mpi_data_register";
    if handle.is_null() {
        return complain(format_args!("{NAME}: a data handle is NULL: register it first"));
    }
    if rank != -1 && rank != PER_NODE {
        let Some((_, comm)) = needed(NAME, raw) else { return };
        if comm.member(rank).is_none() {
            return complain(format_args!(
                "{NAME}: there is no rank {rank} in a communicator of {}",
                comm.members.len()
            ));
        }
    }
    let data = data(handle);
    if tag != -1 {
        let mut all = ALL.lock();
        let before = all.by_tag.get(&tag).copied();
        if before.is_some_and(|before| before != handle as usize) {
            return complain(format_args!(
                "{NAME}: tag {tag} belongs to other data: every data handle needs a tag of its own"
            ));
        }
        let old = data.mpi.set(|owned| owned.tag.replace(tag));
        if let Some(old) = old.filter(|&old| old != tag) {
            all.by_tag.remove(&old);
        }
        all.by_tag.insert(tag, handle as usize);
    }
    if rank != -1 {
        data.mpi.set(|owned| owned.rank = Some(rank));
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_data_set_rank_comm(
    handle: starpu_data_handle_t,
    rank: c_int,
    comm: MPI_Comm,
) {
    starpu_mpi_data_register_comm(handle, -1, rank, comm);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_data_set_tag(handle: starpu_data_handle_t, tag: i64) {
    starpu_mpi_data_register_comm(handle, tag, -1, super::messages::world());
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_data_get_rank(handle: starpu_data_handle_t) -> c_int {
    rank_of(handle).unwrap_or(-1)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_data_get_tag(handle: starpu_data_handle_t) -> i64 {
    tag_of(handle).unwrap_or(-1)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_data_get_redux_map(handle: starpu_data_handle_t) -> *mut c_char {
    data(handle).mpi.set(|owned| {
        if owned.contributors.is_empty() {
            return std::ptr::null_mut();
        }
        let ranks = starpu_mpi_world_size().max(0);
        owned.map = (0..ranks).map(|rank| c_char::from(owned.contributors.contains(&rank))).collect();
        owned.map.as_mut_ptr()
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_data_get_source(handle: starpu_data_handle_t, node: c_int) -> c_int {
    source_of(handle, node).unwrap_or(-1)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_data_set_source(
    handle: starpu_data_handle_t,
    node: c_int,
    source: c_int,
) {
    data(handle).mpi.set(|owned| owned.sources.insert(node, source));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_data_reset_source(handle: starpu_data_handle_t, node: c_int) {
    data(handle).mpi.set(|owned| owned.sources.remove(&node));
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_mpi_cache_is_enabled() -> c_int {
    c_int::from(caches())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_cache_set(enabled: c_int) -> c_int {
    if enabled == 0 {
        starpu_mpi_cache_flush_all_data(super::messages::world());
    }
    CACHES.store(enabled != 0, Ordering::Relaxed);
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_cache_flush(_comm: MPI_Comm, handle: starpu_data_handle_t) {
    drop_copies(handle);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_cache_flush_all_data(_comm: MPI_Comm) {
    let copied = ALL.lock().copied.clone();
    copied.into_iter().for_each(|handle| drop_copies(handle as starpu_data_handle_t));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_cached_receive(handle: starpu_data_handle_t) -> c_int {
    c_int::from(with_owned(handle, |owned| Some(owned.received)).unwrap_or(false))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_cached_receive_set(handle: starpu_data_handle_t) -> c_int {
    c_int::from(receives(handle))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_cached_cp_receive_set(handle: starpu_data_handle_t) -> c_int {
    c_int::from(receives(handle))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_cached_receive_clear(handle: starpu_data_handle_t) {
    let had_one = data(handle).mpi.set(|owned| std::mem::replace(&mut owned.received, false));
    if had_one {
        starpu_data_invalidate_submit(handle);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_cached_send_comm(
    handle: starpu_data_handle_t,
    to: c_int,
    raw: MPI_Comm,
) -> c_int {
    let has_one = comm(raw)
        .and_then(|comm| comm.member(to))
        .and_then(|to| with_owned(handle, |owned| Some(owned.sent.contains(&to))));
    c_int::from(has_one.unwrap_or(false))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_cached_send_set_comm(
    handle: starpu_data_handle_t,
    to: c_int,
    comm: MPI_Comm,
) -> c_int {
    c_int::from(sends_to(handle, to, comm))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_cached_send_clear(handle: starpu_data_handle_t) {
    data(handle).mpi.set(|owned| owned.sent.clear());
}

/// Says that data have no owner or tag.
pub fn unregistered(function: &str, of: &Data) -> c_int {
    complain(format_args!(
        "{function}: {} has no rank or no tag: call starpu_mpi_data_register",
        of.token_name()
    ));
    -errno::EINVAL
}

/// Sends data from one rank to another one, on both of them, unless that has a copy. `end` is for
/// the receiver alone.
///
/// # Errors
/// The error number of the message.
pub unsafe fn copy_to(
    function: &str,
    raw: MPI_Comm,
    handle: starpu_data_handle_t,
    (from, to): (c_int, c_int),
    me: c_int,
    synchronous: bool,
    end: End,
) -> c_int {
    if from == to || (me != from && me != to) {
        return if me == to { when_ready(function, handle, end) } else { 0 };
    }
    let Some(tag) = tag_of(handle) else { return unregistered(function, data(handle)) };
    if me == from {
        let has_one = sends_to(handle, to, raw);
        return if has_one {
            0
        } else {
            send_detached(function, handle, to, tag, raw, synchronous, End::default())
        };
    }
    if receives(handle) {
        when_ready(function, handle, end)
    } else {
        receive_detached(function, handle, from, tag, raw, true, end)
    }
}

/// Brings data from their owner to a rank; `end` is for that rank alone.
unsafe fn bring_to(
    function: &str,
    raw: MPI_Comm,
    handle: starpu_data_handle_t,
    node: c_int,
    end: End,
) -> c_int {
    let Some((_, comm)) = needed(function, raw) else { return -errno::EINVAL };
    super::collect::finish(handle);
    let Some(owner) = rank_of(handle) else { return unregistered(function, data(handle)) };
    let owner = if owner == PER_NODE { node } else { owner };
    copy_to(function, raw, handle, (owner, node), comm.me as c_int, false, end)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_get_data_on_node_detached(
    comm: MPI_Comm,
    handle: starpu_data_handle_t,
    node: c_int,
    callback: MessageCallback,
    argument: *mut std::ffi::c_void,
) -> c_int {
    bring_to("starpu_mpi_get_data_on_node_detached", comm, handle, node, End::calls(callback, argument))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_get_data_on_node(
    raw: MPI_Comm,
    handle: starpu_data_handle_t,
    node: c_int,
) -> c_int {
    const NAME: &str = "starpu_mpi_get_data_on_node";
    let result = bring_to(NAME, raw, handle, node, End::default());
    let involved =
        comm(raw).is_some_and(|comm| comm.me as c_int == node || rank_of(handle) == Some(comm.me as c_int));
    if result != 0 || !involved { result } else { wait_for(handle, STARPU_R) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_get_data_on_all_nodes_detached(
    raw: MPI_Comm,
    handle: starpu_data_handle_t,
) {
    let Some(comm) = comm(raw) else { return };
    for node in 0..comm.members.len() as c_int {
        bring_to("starpu_mpi_get_data_on_all_nodes_detached", raw, handle, node, End::default());
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_data_migrate(raw: MPI_Comm, handle: starpu_data_handle_t, to: c_int) {
    const NAME: &str = "starpu_mpi_data_migrate";
    let old = rank_of(handle);
    if old == Some(to) || bring_to(NAME, raw, handle, to, End::default()) != 0 {
        return;
    }
    let Some(comm) = comm(raw) else { return };
    let me = comm.me as c_int;
    // The new owner's copy is the data now, and all others may be forgotten: they would not be told
    // of the next write by the new owner.
    ALL.lock().copied.remove(&(handle as usize));
    let had_one = data(handle).mpi.set(|owned| {
        owned.sent.clear();
        owned.rank = Some(to);
        std::mem::replace(&mut owned.received, false)
    });
    if me != to && (had_one || old == Some(me)) {
        starpu_data_invalidate_submit(handle);
    }
}

/// Whether sends of the same data to several ranks are combined: each is sent by itself here.
static COOPERATES: AtomicBool = AtomicBool::new(true);

#[unsafe(no_mangle)]
pub extern "C" fn starpu_mpi_coop_sends_set_use(uses: c_int) {
    COOPERATES.store(uses != 0, Ordering::Relaxed);
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_mpi_coop_sends_get_use() -> c_int {
    c_int::from(COOPERATES.load(Ordering::Relaxed))
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_mpi_coop_sends_data_handle_nb_sends(_handle: starpu_data_handle_t, _count: c_int) {}
