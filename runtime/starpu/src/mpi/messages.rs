//! Sends and receives of data, in the order of the tasks on them.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ::mpi::ffi::{
    MPI_Comm, MPI_Status, MPI_Status_set_elements, RSMPI_COMM_WORLD, RSMPI_STATUS_IGNORE, RSMPI_UINT8_T,
};

use super::link::{self, ANSWERED, DATA, FAILED, HEAD, Key, Link, head};
use super::world::{Comm, needed};
use super::{owners, types};
use crate::acquire::{release_now, request};
use crate::data::{Carried, data, prepare};
use crate::instance::{self, complain, errno};
use crate::tags::starpu_tag_notify_from_apps;
use crate::types::*;

type Callback = Option<unsafe extern "C" fn(*mut c_void)>;

/// A send or receive for which the program waits.
pub struct Request {
    done: AtomicBool,
    failed: AtomicBool,
    bytes: AtomicUsize,
    with: c_int,
    tag: i64,
}

/// What follows the end of a send or receive.
#[derive(Default)]
pub struct End {
    request: Option<Arc<Request>>,
    callback: Option<Box<dyn FnOnce() + Send>>,
}

impl End {
    /// Calls a function of the program, if it gives one.
    pub fn calls(callback: Callback, argument: *mut c_void) -> End {
        let argument = Carried(argument);
        let callback = callback.map(|callback| {
            // SAFETY: the program's function with its argument.
            Box::new(move || unsafe { callback(argument.get()) }) as Box<dyn FnOnce() + Send>
        });
        End { request: None, callback }
    }

    fn notifies(tag: starpu_tag_t) -> End {
        let callback = move || starpu_tag_notify_from_apps(tag);
        End { request: None, callback: Some(Box::new(callback)) }
    }

    fn comes(self, link: &Link, bytes: usize, failed: bool) {
        if let Some(request) = &self.request {
            request.bytes.store(bytes, Ordering::Relaxed);
            request.failed.store(failed, Ordering::Relaxed);
            request.done.store(true, Ordering::Release);
        }
        link.completes(self.callback);
    }
}

/// Where a message goes to or comes from.
pub struct Route {
    link: Arc<Link>,
    key: Key,
}

impl Route {
    /// Finds the other process.
    pub fn new(function: &str, link: Arc<Link>, comm: &Comm, rank: c_int, tag: i64) -> Option<Route> {
        let Some(with) = comm.member(rank) else {
            complain(format_args!(
                "{function}: there is no rank {rank} in a communicator of {}",
                comm.members.len()
            ));
            return None;
        };
        Some(Route { link, key: Key { comm: comm.id, with, tag } })
    }

    unsafe fn of(function: &str, raw: MPI_Comm, rank: c_int, tag: i64) -> Option<Route> {
        let (link, comm) = needed(function, raw)?;
        Route::new(function, link, &comm, rank, tag)
    }
}

fn refused(function: &str, why: &str) -> c_int {
    complain(format_args!("{function}: {why}"));
    -errno::EINVAL
}

/// Sends data when the tasks before are done. With `synchronous` the end comes when the data were
/// received.
pub unsafe fn send(
    function: &str,
    handle: starpu_data_handle_t,
    route: Route,
    synchronous: bool,
    end: End,
) -> c_int {
    let Some(instance) = instance::needed(function) else { return -errno::EINVAL };
    let Route { link, key } = route;
    let number = link.number_of_send(key);
    if let Err(why) = prepare(instance, handle, STARPU_R) {
        // The receiver would wait.
        let mut message = head(FAILED, key.comm, key.tag, number).to_vec();
        message.extend_from_slice(why.as_bytes());
        link.post(key, number, message, None);
        return refused(function, &why);
    }
    let kind = if synchronous { ANSWERED } else { DATA };
    let carried = Carried(handle);
    link.begins();
    let here = Arc::clone(&link);
    let taken = move || {
        let target = data(carried.get());
        let message = types::packed(target, &head(kind, key.comm, key.tag, number));
        release_now(target);
        let bytes = message.len() - HEAD;
        if synchronous {
            let there = Arc::clone(&here);
            let answered = Box::new(move || end.comes(&there, bytes, false));
            here.post(key, number, message, Some(answered));
        } else {
            here.post(key, number, message, None);
            end.comes(&here, bytes, false);
        }
    };
    match request(instance, handle, STARPU_R, true, taken) {
        Ok(()) => 0,
        Err(why) => {
            link.completes(None);
            refused(function, &why)
        }
    }
}

/// Receives data when the tasks before are done; those after it wait.
pub unsafe fn receive(
    function: &str,
    handle: starpu_data_handle_t,
    route: Route,
    ordered: bool,
    end: End,
) -> c_int {
    let Some(instance) = instance::needed(function) else { return -errno::EINVAL };
    if let Err(why) = prepare(instance, handle, STARPU_W) {
        return refused(function, &why);
    }
    let Route { link, key } = route;
    let number = link.number_of_receive(key);
    let carried = Carried(handle);
    link.begins();
    let here = Arc::clone(&link);
    let taken = move || {
        let there = Arc::clone(&here);
        let take = move |message: Vec<u8>| {
            let target = data(carried.get());
            let result = if link::kind(&message) == FAILED {
                Err(format!("could not be sent: {}", String::from_utf8_lossy(&message[HEAD..])))
            } else {
                types::unpack(target, &message[HEAD..])
            };
            if let Err(why) = &result {
                complain(format_args!(
                    "{} from rank {} with tag {}: {why}",
                    target.token_name(),
                    key.with,
                    key.tag
                ));
            }
            release_now(target);
            let bytes = message.len() - HEAD;
            zellige_mpi::recycle(message);
            end.comes(&there, bytes, result.is_err());
        };
        here.expect(key, number, Box::new(take));
    };
    match request(instance, handle, STARPU_W, ordered, taken) {
        Ok(()) => 0,
        Err(why) => {
            link.completes(None);
            refused(function, &why)
        }
    }
}

/// Waits until all requests and tasks are done, also those that they begin.
pub fn wait_for_all(link: &Link) {
    loop {
        let begun = link.wait_for_requests();
        crate::task::starpu_task_wait_for_all();
        if link.wait_for_requests() == begun {
            return;
        }
    }
}

/// True, and reported, if all messages depend on the calling thread. A codelet may wait for one.
pub fn may_not_wait(function: &str) -> bool {
    let is_driver = link::is_driver();
    if is_driver {
        complain(format_args!(
            "{function}: a callback of a message must not wait for messages; use a function with a callback"
        ));
    }
    is_driver
}

unsafe fn begin(
    function: &str,
    request: *mut *mut c_void,
    with: c_int,
    tag: i64,
    call: impl FnOnce(End) -> c_int,
) -> c_int {
    let made = Arc::new(Request {
        done: AtomicBool::new(false),
        failed: AtomicBool::new(false),
        bytes: AtomicUsize::new(0),
        with,
        tag,
    });
    if request.is_null() {
        return refused(function, "the request is a null pointer");
    }
    let result = call(End { request: Some(Arc::clone(&made)), callback: None });
    *request = if result == 0 { Arc::into_raw(made).cast_mut().cast() } else { ptr::null_mut() };
    result
}

unsafe fn finish(request: *mut *mut c_void, status: *mut MPI_Status) -> c_int {
    let ended = Arc::from_raw((*request).cast::<Request>().cast_const());
    *request = ptr::null_mut();
    if !status.is_null() && !ptr::eq(status, RSMPI_STATUS_IGNORE) {
        (*status).MPI_SOURCE = ended.with;
        (*status).MPI_TAG = ended.tag as c_int;
        (*status).MPI_ERROR = 0;
        let bytes = ended.bytes.load(Ordering::Relaxed);
        MPI_Status_set_elements(status, RSMPI_UINT8_T, c_int::try_from(bytes).unwrap_or(c_int::MAX));
    }
    if ended.failed.load(Ordering::Relaxed) { -errno::EINVAL } else { 0 }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_wait(request: *mut *mut c_void, status: *mut MPI_Status) -> c_int {
    if may_not_wait("starpu_mpi_wait") {
        return -errno::EDEADLK;
    }
    if request.is_null() || (*request).is_null() {
        return refused("starpu_mpi_wait", "there is no such request: it has ended, or was never begun");
    }
    let Some(link) = link::get() else {
        return refused("starpu_mpi_wait", "call starpu_mpi_init_conf first");
    };
    let waited = &*(*request).cast::<Request>();
    if let Some(instance) = instance::get() {
        zellige_runtime::internal::untyped::rouse(&instance.rt);
    }
    let result = link.wait(|| waited.done.load(Ordering::Acquire));
    if result != 0 { result } else { finish(request, status) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_test(
    request: *mut *mut c_void,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    if request.is_null() || (*request).is_null() {
        return refused("starpu_mpi_test", "there is no such request: it has ended, or was never begun");
    }
    let done = (*(*request).cast::<Request>()).done.load(Ordering::Acquire);
    *flag = c_int::from(done);
    if done { finish(request, status) } else { 0 }
}

unsafe fn isend(
    function: &str,
    handle: starpu_data_handle_t,
    request: *mut *mut c_void,
    to: c_int,
    tag: i64,
    comm: MPI_Comm,
    synchronous: bool,
) -> c_int {
    let Some(route) = Route::of(function, comm, to, tag) else { return -errno::EINVAL };
    begin(function, request, to, tag, |end| send(function, handle, route, synchronous, end))
}

unsafe fn irecv(
    function: &str,
    handle: starpu_data_handle_t,
    request: *mut *mut c_void,
    from: c_int,
    tag: i64,
    comm: MPI_Comm,
) -> c_int {
    let Some(route) = Route::of(function, comm, from, tag) else { return -errno::EINVAL };
    begin(function, request, from, tag, |end| receive(function, handle, route, true, end))
}

unsafe fn blocking(
    function: &str,
    status: *mut MPI_Status,
    begin: impl FnOnce(*mut *mut c_void) -> c_int,
) -> c_int {
    if may_not_wait(function) {
        return -errno::EDEADLK;
    }
    let mut request = ptr::null_mut();
    let result = begin(&raw mut request);
    if result != 0 { result } else { starpu_mpi_wait(&raw mut request, status) }
}

/// Sends data; the end is detached: nobody waits for it but `starpu_mpi_wait_for_all`.
pub unsafe fn send_detached(
    function: &str,
    handle: starpu_data_handle_t,
    to: c_int,
    tag: i64,
    comm: MPI_Comm,
    synchronous: bool,
    end: End,
) -> c_int {
    match Route::of(function, comm, to, tag) {
        Some(route) => send(function, handle, route, synchronous, end),
        None => -errno::EINVAL,
    }
}

/// Receives data with a detached end.
pub unsafe fn receive_detached(
    function: &str,
    handle: starpu_data_handle_t,
    from: c_int,
    tag: i64,
    comm: MPI_Comm,
    ordered: bool,
    end: End,
) -> c_int {
    match Route::of(function, comm, from, tag) {
        Some(route) => receive(function, handle, route, ordered, end),
        None => -errno::EINVAL,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_isend(
    handle: starpu_data_handle_t,
    request: *mut *mut c_void,
    to: c_int,
    tag: i64,
    comm: MPI_Comm,
) -> c_int {
    isend("starpu_mpi_isend", handle, request, to, tag, comm, false)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_isend_prio(
    handle: starpu_data_handle_t,
    request: *mut *mut c_void,
    to: c_int,
    tag: i64,
    _priority: c_int,
    comm: MPI_Comm,
) -> c_int {
    isend("starpu_mpi_isend_prio", handle, request, to, tag, comm, false)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_issend(
    handle: starpu_data_handle_t,
    request: *mut *mut c_void,
    to: c_int,
    tag: i64,
    comm: MPI_Comm,
) -> c_int {
    isend("starpu_mpi_issend", handle, request, to, tag, comm, true)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_issend_prio(
    handle: starpu_data_handle_t,
    request: *mut *mut c_void,
    to: c_int,
    tag: i64,
    _priority: c_int,
    comm: MPI_Comm,
) -> c_int {
    isend("starpu_mpi_issend_prio", handle, request, to, tag, comm, true)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_irecv(
    handle: starpu_data_handle_t,
    request: *mut *mut c_void,
    from: c_int,
    tag: i64,
    comm: MPI_Comm,
) -> c_int {
    irecv("starpu_mpi_irecv", handle, request, from, tag, comm)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_send(
    handle: starpu_data_handle_t,
    to: c_int,
    tag: i64,
    comm: MPI_Comm,
) -> c_int {
    const NAME: &str = "starpu_mpi_send";
    blocking(NAME, ptr::null_mut(), |request| isend(NAME, handle, request, to, tag, comm, false))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_send_prio(
    handle: starpu_data_handle_t,
    to: c_int,
    tag: i64,
    _priority: c_int,
    comm: MPI_Comm,
) -> c_int {
    starpu_mpi_send(handle, to, tag, comm)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_recv(
    handle: starpu_data_handle_t,
    from: c_int,
    tag: i64,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    const NAME: &str = "starpu_mpi_recv";
    blocking(NAME, status, |request| irecv(NAME, handle, request, from, tag, comm))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_recv_prio(
    handle: starpu_data_handle_t,
    from: c_int,
    tag: i64,
    _priority: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    starpu_mpi_recv(handle, from, tag, comm, status)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_isend_detached(
    handle: starpu_data_handle_t,
    to: c_int,
    tag: i64,
    comm: MPI_Comm,
    callback: Callback,
    argument: *mut c_void,
) -> c_int {
    let end = End::calls(callback, argument);
    send_detached("starpu_mpi_isend_detached", handle, to, tag, comm, false, end)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_isend_detached_prio(
    handle: starpu_data_handle_t,
    to: c_int,
    tag: i64,
    _priority: c_int,
    comm: MPI_Comm,
    callback: Callback,
    argument: *mut c_void,
) -> c_int {
    starpu_mpi_isend_detached(handle, to, tag, comm, callback, argument)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_issend_detached(
    handle: starpu_data_handle_t,
    to: c_int,
    tag: i64,
    comm: MPI_Comm,
    callback: Callback,
    argument: *mut c_void,
) -> c_int {
    let end = End::calls(callback, argument);
    send_detached("starpu_mpi_issend_detached", handle, to, tag, comm, true, end)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_issend_detached_prio(
    handle: starpu_data_handle_t,
    to: c_int,
    tag: i64,
    _priority: c_int,
    comm: MPI_Comm,
    callback: Callback,
    argument: *mut c_void,
) -> c_int {
    starpu_mpi_issend_detached(handle, to, tag, comm, callback, argument)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_irecv_detached(
    handle: starpu_data_handle_t,
    from: c_int,
    tag: i64,
    comm: MPI_Comm,
    callback: Callback,
    argument: *mut c_void,
) -> c_int {
    starpu_mpi_irecv_detached_sequential_consistency(handle, from, tag, comm, callback, argument, 1)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_irecv_detached_prio(
    handle: starpu_data_handle_t,
    from: c_int,
    tag: i64,
    _priority: c_int,
    comm: MPI_Comm,
    callback: Callback,
    argument: *mut c_void,
) -> c_int {
    starpu_mpi_irecv_detached(handle, from, tag, comm, callback, argument)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_irecv_detached_sequential_consistency(
    handle: starpu_data_handle_t,
    from: c_int,
    tag: i64,
    comm: MPI_Comm,
    callback: Callback,
    argument: *mut c_void,
    ordered: c_int,
) -> c_int {
    let end = End::calls(callback, argument);
    receive_detached("starpu_mpi_irecv_detached", handle, from, tag, comm, ordered != 0, end)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_isend_detached_unlock_tag(
    handle: starpu_data_handle_t,
    to: c_int,
    tag: i64,
    comm: MPI_Comm,
    unlocked: starpu_tag_t,
) -> c_int {
    let end = End::notifies(unlocked);
    send_detached("starpu_mpi_isend_detached_unlock_tag", handle, to, tag, comm, false, end)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_isend_detached_unlock_tag_prio(
    handle: starpu_data_handle_t,
    to: c_int,
    tag: i64,
    _priority: c_int,
    comm: MPI_Comm,
    unlocked: starpu_tag_t,
) -> c_int {
    starpu_mpi_isend_detached_unlock_tag(handle, to, tag, comm, unlocked)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_irecv_detached_unlock_tag(
    handle: starpu_data_handle_t,
    from: c_int,
    tag: i64,
    comm: MPI_Comm,
    unlocked: starpu_tag_t,
) -> c_int {
    let end = End::notifies(unlocked);
    receive_detached("starpu_mpi_irecv_detached_unlock_tag", handle, from, tag, comm, true, end)
}

/// Begins `count` messages, of which the last one to end notifies a tag.
unsafe fn array(count: c_uint, unlocked: starpu_tag_t, begin: impl Fn(usize, End) -> c_int) -> c_int {
    let left = Arc::new(AtomicUsize::new(count as usize));
    for at in 0..count as usize {
        let left = Arc::clone(&left);
        let callback = Box::new(move || {
            if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                starpu_tag_notify_from_apps(unlocked);
            }
        });
        let result = begin(at, End { request: None, callback: Some(callback) });
        if result != 0 {
            return result;
        }
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_isend_array_detached_unlock_tag(
    count: c_uint,
    handles: *mut starpu_data_handle_t,
    to: *mut c_int,
    tags: *mut i64,
    comms: *mut MPI_Comm,
    unlocked: starpu_tag_t,
) -> c_int {
    array(count, unlocked, |at, end| {
        let name = "starpu_mpi_isend_array_detached_unlock_tag";
        send_detached(name, *handles.add(at), *to.add(at), *tags.add(at), *comms.add(at), false, end)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_isend_array_detached_unlock_tag_prio(
    count: c_uint,
    handles: *mut starpu_data_handle_t,
    to: *mut c_int,
    tags: *mut i64,
    _priorities: *mut c_int,
    comms: *mut MPI_Comm,
    unlocked: starpu_tag_t,
) -> c_int {
    starpu_mpi_isend_array_detached_unlock_tag(count, handles, to, tags, comms, unlocked)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_irecv_array_detached_unlock_tag(
    count: c_uint,
    handles: *mut starpu_data_handle_t,
    from: *mut c_int,
    tags: *mut i64,
    comms: *mut MPI_Comm,
    unlocked: starpu_tag_t,
) -> c_int {
    array(count, unlocked, |at, end| {
        let name = "starpu_mpi_irecv_array_detached_unlock_tag";
        receive_detached(name, *handles.add(at), *from.add(at), *tags.add(at), *comms.add(at), true, end)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_mpi_comm_stats_disable() {
    if let Some(link) = link::get() {
        link.set_counting(false);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_mpi_comm_stats_enable() {
    if let Some(link) = link::get() {
        link.set_counting(true);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_comm_stats_retrieve(bytes: *mut usize) {
    if let Some(link) = link::get() {
        for (at, sent) in link.sent_bytes().enumerate() {
            *bytes.add(at) = sent as usize;
        }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_data_cpy(
    to: starpu_data_handle_t,
    from: starpu_data_handle_t,
    comm: MPI_Comm,
    asynchronous: c_int,
    callback: Callback,
    argument: *mut c_void,
) -> c_int {
    const NAME: &str = "starpu_mpi_data_cpy";
    let (source, target) = (owners::rank_of(from), owners::rank_of(to));
    let (Some((_, here)), Some(source), Some(target), Some(tag)) =
        (needed(NAME, comm), source, target, owners::tag_of(to))
    else {
        return refused(NAME, "data without a rank or a tag: call starpu_mpi_data_register");
    };
    let me = here.me as c_int;
    if source == target {
        return if me == source || source == owners::PER_NODE {
            crate::task::starpu_data_cpy(to, from, asynchronous, callback, argument)
        } else {
            0
        };
    }
    if me == source {
        let result = send_detached(NAME, from, target, tag, comm, false, End::default());
        return if result != 0 || asynchronous != 0 { result } else { wait_for(from, STARPU_R) };
    }
    if me == target {
        let end = End::calls(callback, argument);
        let result = receive_detached(NAME, to, source, tag, comm, true, end);
        return if result != 0 || asynchronous != 0 { result } else { wait_for(to, STARPU_R) };
    }
    0
}

/// Ends when the tasks before have written the data.
pub unsafe fn when_ready(function: &str, handle: starpu_data_handle_t, end: End) -> c_int {
    let (Some(instance), Some(link)) = (instance::needed(function), link::get()) else {
        return -errno::EINVAL;
    };
    if end.callback.is_none() {
        return 0;
    }
    link.begins();
    let (here, carried) = (Arc::clone(&link), Carried(handle));
    let result = request(instance, handle, STARPU_R, true, move || {
        release_now(data(carried.get()));
        end.comes(&here, 0, false);
    });
    match result {
        Ok(()) => 0,
        Err(why) => {
            link.completes(None);
            refused(function, &why)
        }
    }
}

/// Waits for the tasks and messages on data.
pub unsafe fn wait_for(handle: starpu_data_handle_t, mode: starpu_data_access_mode) -> c_int {
    let result = crate::acquire::starpu_data_acquire(handle, mode);
    if result == 0 {
        crate::acquire::starpu_data_release(handle);
    }
    result
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_data_cpy_priority(
    to: starpu_data_handle_t,
    from: starpu_data_handle_t,
    comm: MPI_Comm,
    asynchronous: c_int,
    callback: Callback,
    argument: *mut c_void,
    _priority: c_int,
) -> c_int {
    starpu_mpi_data_cpy(to, from, comm, asynchronous, callback, argument)
}

/// The communicator where none is named.
pub fn world() -> MPI_Comm {
    // SAFETY: a constant of MPI.
    unsafe { RSMPI_COMM_WORLD }
}
