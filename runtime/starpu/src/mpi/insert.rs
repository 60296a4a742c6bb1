//! Tasks from lists of arguments that run on one of several processes.
//!
//! All processes make the same calls. A task runs on the owner of what it writes; before it, data
//! that it reads are sent there, and after it, data of other owners are sent back.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use ::mpi::ffi::MPI_Comm;

use super::collect;
use super::messages::{End, receive_detached, send_detached};
use super::owners::{self, PER_NODE, is_mpi_redux, rank_of, source_of, tag_of, unregistered};
use super::policies;
use super::world::needed;
use crate::data::data;
use crate::insert::{Item, marker, zellige_starpu_build, zellige_starpu_insert};
use crate::instance::{complain, errno};
use crate::types::*;

const NAME: &str = "starpu_mpi_task_insert";

/// The place where a task runs, and its data.
struct Placement {
    raw: MPI_Comm,
    me: c_int,
    node: c_int,
    priority: c_int,
    data: Vec<starpu_data_descr>,
}

/// The function that is called with each task before it is submitted.
static HOOK: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

#[unsafe(no_mangle)]
pub extern "C" fn starpu_mpi_pre_submit_hook_register(
    hook: Option<unsafe extern "C" fn(*mut starpu_task)>,
) -> c_int {
    let pointer = hook.map_or(ptr::null_mut(), |hook| hook as *mut c_void);
    if HOOK.compare_exchange(ptr::null_mut(), pointer, Ordering::AcqRel, Ordering::Acquire).is_err() {
        complain(format_args!("starpu_mpi_pre_submit_hook_register: unregister the one that is there first"));
        return -errno::EINVAL;
    }
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_mpi_pre_submit_hook_unregister() -> c_int {
    HOOK.store(ptr::null_mut(), Ordering::Release);
    0
}

unsafe fn call_hook(task: *mut starpu_task) {
    let hook = HOOK.load(Ordering::Acquire);
    if !hook.is_null() {
        let hook = std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut starpu_task)>(hook);
        hook(task);
    }
}

/// Mode of a codelet for its buffer `i`.
unsafe fn mode_of(cl: *const starpu_codelet, i: usize) -> starpu_data_access_mode {
    if cl.is_null() {
        STARPU_NONE
    } else if !(*cl).dyn_modes.is_null() {
        *(*cl).dyn_modes.add(i)
    } else {
        (*cl).modes.get(i).copied().unwrap_or(STARPU_NONE)
    }
}

/// The data in a list of arguments, with their modes.
unsafe fn data_of(cl: *const starpu_codelet, items: &[Item]) -> Vec<starpu_data_descr> {
    let mut all: Vec<starpu_data_descr> = Vec::new();
    for item in items {
        let n = item.number.max(0) as usize;
        if item.marker < STARPU_ACCESS_MODE_MAX as c_int {
            all.push(starpu_data_descr {
                handle: item.pointer.cast(),
                mode: item.marker as starpu_data_access_mode,
            });
            continue;
        }
        match item.marker >> marker::SHIFT {
            marker::DATA_ARRAY => {
                let handles = item.pointer.cast::<starpu_data_handle_t>();
                for k in 0..n {
                    let mode = mode_of(cl, all.len());
                    all.push(starpu_data_descr { handle: *handles.add(k), mode });
                }
            }
            marker::DATA_MODE_ARRAY => {
                let descrs = item.pointer.cast::<starpu_data_descr>();
                all.extend((0..n).map(|k| *descrs.add(k)));
            }
            _ => {}
        }
    }
    all
}

/// Owner of what is written, if there is one owner.
unsafe fn owner_of_written(all: &[starpu_data_descr]) -> Result<Option<c_int>, c_int> {
    let mut owner = None;
    let mut differs = false;
    for one in all.iter().filter(|one| one.mode & (STARPU_W | STARPU_REDUX) != 0) {
        if one.handle.is_null() {
            // A process that is told nothing of the data takes no part in the task.
            return Err(-errno::EINVAL);
        }
        let Some(rank) = rank_of(one.handle) else { return Err(unregistered(NAME, data(one.handle))) };
        match owner {
            None => owner = Some(rank),
            Some(before) if before == rank => {}
            Some(before) if before == PER_NODE || rank == PER_NODE => {
                complain(format_args!(
                    "{NAME}: a task writes data of one rank and data of which each rank has its own: these need two tasks"
                ));
                return Err(-errno::EINVAL);
            }
            Some(_) => differs = true,
        }
    }
    Ok(if differs { None } else { owner })
}

/// Reads where a task runs out of its list of arguments.
///
/// # Errors
/// The error number, after a message.
unsafe fn plan(
    raw: MPI_Comm,
    cl: *mut starpu_codelet,
    items: *const Item,
    n: usize,
    unknown: c_int,
) -> Result<Placement, c_int> {
    if unknown != 0 {
        return Err(zellige_starpu_insert(cl, items, n, unknown));
    }
    let items = slice(items, n);
    let Some((_, comm)) = needed(NAME, raw) else { return Err(-errno::EINVAL) };
    let (me, ranks) = (comm.me as c_int, comm.members.len() as c_int);
    let mut data = data_of(cl, items);
    let (mut asked, mut policy, mut priority) = (None, policies::CURRENT, 0);
    for item in items {
        match item.marker >> marker::SHIFT {
            _ if item.marker < STARPU_ACCESS_MODE_MAX as c_int => {}
            marker::EXECUTE_ON_NODE if item.number != -1 => asked = Some(item.number),
            marker::EXECUTE_ON_DATA if !item.pointer.is_null() => match rank_of(item.pointer.cast()) {
                Some(rank) => asked = Some(rank),
                None => return Err(unregistered(NAME, crate::data::data(item.pointer.cast()))),
            },
            marker::NODE_SELECTION_POLICY => policy = item.number,
            marker::PRIORITY => priority = item.number,
            _ => {}
        }
    }
    if let Some(rank) = asked.filter(|&rank| rank != PER_NODE && comm.member(rank).is_none()) {
        complain(format_args!("{NAME}: there is no rank {rank} in a communicator of {ranks}"));
        return Err(-errno::EINVAL);
    }
    let node = match (asked, owner_of_written(&data)?) {
        (Some(rank), _) | (None, Some(rank)) => rank,
        (None, None) => policies::choose(policy, me, ranks, &mut data),
    };
    Ok(Placement { raw, me, node, priority, data })
}

impl Placement {
    fn executes(&self) -> bool {
        self.node == PER_NODE || self.node == self.me
    }

    /// Brings what the task reads to where it runs; true if this process takes part in that.
    unsafe fn before(&self) -> Result<bool, c_int> {
        let mut takes_part = false;
        for one in self.data.iter().filter(|one| !one.handle.is_null()) {
            takes_part |= bring(self.raw, one.handle, one.mode, self.me, self.node)?;
        }
        Ok(takes_part)
    }

    /// Brings what the task has written to its owners, and drops copies.
    unsafe fn after(&self) -> Result<(), c_int> {
        for one in self.data.iter().filter(|one| !one.handle.is_null() && one.mode & STARPU_MPI_SAME == 0) {
            bring_back(self.raw, one.handle, one.mode, self.me, self.node)?;
            owners::after_task(one.handle, one.mode, self.executes(), self.me);
        }
        Ok(())
    }
}

/// Sends or receives data that a task on `node` reads.
unsafe fn bring(
    raw: MPI_Comm,
    handle: starpu_data_handle_t,
    mode: starpu_data_access_mode,
    me: c_int,
    node: c_int,
) -> Result<bool, c_int> {
    let reduces = mode & STARPU_REDUX != 0 || is_mpi_redux(mode);
    let executes = node == PER_NODE || node == me;
    if reduces {
        // The copy of another rank begins anew: what it has received before is no part of the sum.
        if executes && rank_of(handle) != Some(me) && collect::is_first(handle, me) {
            owners::starpu_mpi_cached_receive_clear(handle);
            crate::handles::starpu_data_invalidate_submit(handle);
        }
        return Ok(true);
    }
    collect::finish(handle);
    if mode & STARPU_R == 0 {
        let owner = rank_of(handle);
        return Ok(owner.is_some_and(|owner| (owner == me) != executes && owner != PER_NODE));
    }
    let Some(owner) = rank_of(handle) else { return Err(unregistered(NAME, data(handle))) };
    if node == PER_NODE && owner != PER_NODE {
        complain(format_args!(
            "{NAME}: a task on every rank reads {}, which belongs to rank {owner}: register it with STARPU_MPI_PER_NODE",
            data(handle).token_name()
        ));
        return Err(-errno::EINVAL);
    }
    if owner == PER_NODE {
        return Ok(false);
    }
    let source = source_of(handle, node).unwrap_or(owner);
    let synchronous = mode & STARPU_SSEND != 0;
    check(owners::copy_to(NAME, raw, handle, (source, node), me, synchronous, End::default()))?;
    Ok(source != node && (me == source || me == node))
}

/// Sends data that a task on `node` has written to their owner.
unsafe fn bring_back(
    raw: MPI_Comm,
    handle: starpu_data_handle_t,
    mode: starpu_data_access_mode,
    me: c_int,
    node: c_int,
) -> Result<(), c_int> {
    if mode & STARPU_REDUX != 0 || is_mpi_redux(mode) {
        collect::contributes(raw, handle, node);
        return Ok(());
    }
    if mode & STARPU_W == 0 {
        return Ok(());
    }
    let Some(owner) = rank_of(handle) else { return Err(unregistered(NAME, data(handle))) };
    if owner == PER_NODE || node == PER_NODE || owner == node || (me != node && me != owner) {
        return Ok(());
    }
    let tag = tag_of(handle).ok_or_else(|| unregistered(NAME, data(handle)))?;
    if me == node {
        check(send_detached(NAME, handle, owner, tag, raw, mode & STARPU_SSEND != 0, End::default()))
    } else {
        check(receive_detached(NAME, handle, node, tag, raw, true, End::default()))
    }
}

fn check(result: c_int) -> Result<(), c_int> {
    if result == 0 { Ok(()) } else { Err(result) }
}

fn code(result: Result<(), c_int>) -> c_int {
    result.err().unwrap_or(0)
}

unsafe fn slice<'a>(items: *const Item, n: usize) -> &'a [Item] {
    if n == 0 { &[] } else { std::slice::from_raw_parts(items, n) }
}

/// Submits the task of a list on the process that runs it.
unsafe fn submit(cl: *mut starpu_codelet, items: *const Item, n: usize, unknown: c_int) -> c_int {
    if HOOK.load(Ordering::Acquire).is_null() {
        return zellige_starpu_insert(cl, items, n, unknown);
    }
    let task = zellige_starpu_build(cl, items, n, unknown);
    if task.is_null() {
        return -errno::EINVAL;
    }
    call_hook(task);
    let result = crate::task::starpu_task_submit(task);
    if result != 0 {
        (*task).destroy = 0;
        crate::task::starpu_task_destroy(task);
    }
    result
}

/// Inserts a task on the process that it belongs to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zellige_starpu_mpi_insert(
    raw: MPI_Comm,
    cl: *mut starpu_codelet,
    items: *const Item,
    n: usize,
    unknown: c_int,
) -> c_int {
    let plan = match plan(raw, cl, items, n, unknown) {
        Ok(plan) => plan,
        Err(error) => return error,
    };
    if let Err(error) = plan.before() {
        return error;
    }
    let result = if plan.executes() { submit(cl, items, n, unknown) } else { 0 };
    let after = code(plan.after());
    if result != 0 { result } else { after }
}

/// Makes the task of a list on the process that it belongs to; null on the others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zellige_starpu_mpi_build(
    raw: MPI_Comm,
    cl: *mut starpu_codelet,
    items: *const Item,
    n: usize,
    unknown: c_int,
) -> *mut starpu_task {
    match plan(raw, cl, items, n, unknown) {
        Ok(plan) if plan.before().is_ok() && plan.executes() => zellige_starpu_build(cl, items, n, unknown),
        _ => ptr::null_mut(),
    }
}

/// Sends back what the task of a list has written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zellige_starpu_mpi_post_build(
    raw: MPI_Comm,
    cl: *mut starpu_codelet,
    items: *const Item,
    n: usize,
    unknown: c_int,
) -> c_int {
    match plan(raw, cl, items, n, unknown) {
        Ok(plan) => code(plan.after()),
        Err(error) => error,
    }
}

/// Inserts the same task on several processes, each of which keeps what its own has written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zellige_starpu_mpi_insert_on(
    raw: MPI_Comm,
    cl: *mut starpu_codelet,
    count: c_int,
    nodes: *const c_int,
    items: *const Item,
    n: usize,
    unknown: c_int,
) -> c_int {
    let mut plan = match plan(raw, cl, items, n, unknown) {
        Ok(plan) => plan,
        Err(error) => return error,
    };
    plan.data
        .iter_mut()
        .filter(|one| one.mode & STARPU_RW == STARPU_RW)
        .for_each(|one| one.mode |= STARPU_MPI_SAME);
    let mut result = 0;
    for &node in std::slice::from_raw_parts(nodes, count.max(0) as usize) {
        plan.node = node;
        if let Err(error) = plan.before() {
            return error;
        }
        if plan.executes() {
            result = submit(cl, items, n, unknown);
        }
    }
    for &node in std::slice::from_raw_parts(nodes, count.max(0) as usize) {
        plan.node = node;
        if let Err(error) = plan.after() {
            return error;
        }
    }
    result
}

/// Duties of a process for a task, for programs that make tasks by themselves.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct starpu_mpi_task_exchange_params {
    do_execute: c_int,
    xrank: c_int,
    priority: c_int,
    me: c_int,
    exchange_needed: c_int,
}

unsafe fn exchange_before(
    raw: MPI_Comm,
    task: *mut starpu_task,
    descrs: *mut starpu_data_descr,
    params: *mut starpu_mpi_task_exchange_params,
    node: Option<c_int>,
) -> c_int {
    let Some((_, comm)) = needed("starpu_mpi_task_exchange_data_before_execution", raw) else {
        return -errno::EINVAL;
    };
    let cl = (*task).cl;
    let varies = cl.is_null() || (*cl).nbuffers == STARPU_VARIABLE_NBUFFERS;
    let count = if varies { (*task).nbuffers } else { (*cl).nbuffers }.max(0) as usize;
    for i in 0..count {
        let handle =
            if (*task).dyn_handles.is_null() { (*task).handles[i] } else { *(*task).dyn_handles.add(i) };
        let mode = if !varies {
            mode_of(cl, i)
        } else if (*task).dyn_modes.is_null() {
            (*task).modes[i]
        } else {
            *(*task).dyn_modes.add(i)
        };
        *descrs.add(i) = starpu_data_descr { handle, mode };
    }
    let descrs = std::slice::from_raw_parts_mut(descrs, count);
    let (me, ranks) = (comm.me as c_int, comm.members.len() as c_int);
    let written = match owner_of_written(descrs) {
        Ok(written) => written,
        Err(error) => return error,
    };
    let node = match node.or(written) {
        Some(node) => node,
        None => policies::choose(policies::CURRENT, me, ranks, descrs),
    };
    let plan = Placement { raw, me, node, priority: (*task).priority, data: descrs.to_vec() };
    match plan.before() {
        Ok(takes_part) => {
            *params = starpu_mpi_task_exchange_params {
                do_execute: c_int::from(plan.executes()),
                xrank: node,
                priority: plan.priority,
                me,
                exchange_needed: c_int::from(takes_part),
            };
            0
        }
        Err(error) => error,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_task_exchange_data_before_execution(
    raw: MPI_Comm,
    task: *mut starpu_task,
    descrs: *mut starpu_data_descr,
    params: *mut starpu_mpi_task_exchange_params,
) -> c_int {
    exchange_before(raw, task, descrs, params, None)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_task_exchange_data_before_execution_on_node(
    raw: MPI_Comm,
    task: *mut starpu_task,
    descrs: *mut starpu_data_descr,
    params: *mut starpu_mpi_task_exchange_params,
    node: c_int,
) -> c_int {
    exchange_before(raw, task, descrs, params, Some(node))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_task_exchange_data_after_execution(
    raw: MPI_Comm,
    descrs: *mut starpu_data_descr,
    count: u32,
    params: starpu_mpi_task_exchange_params,
) -> c_int {
    let data = std::slice::from_raw_parts(descrs, count as usize).to_vec();
    let plan = Placement { raw, me: params.me, node: params.xrank, priority: params.priority, data };
    code(plan.after())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_exchange_data_before_execution(
    raw: MPI_Comm,
    handle: starpu_data_handle_t,
    mode: starpu_data_access_mode,
    params: *mut starpu_mpi_task_exchange_params,
) -> c_int {
    if handle.is_null() {
        return 0;
    }
    match bring(raw, handle, mode, (*params).me, (*params).xrank) {
        Ok(takes_part) => {
            (*params).exchange_needed |= c_int::from(takes_part);
            0
        }
        Err(error) => error,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_exchange_data_after_execution(
    raw: MPI_Comm,
    handle: starpu_data_handle_t,
    mode: starpu_data_access_mode,
    params: starpu_mpi_task_exchange_params,
) -> c_int {
    if handle.is_null() { 0 } else { code(bring_back(raw, handle, mode, params.me, params.xrank)) }
}
