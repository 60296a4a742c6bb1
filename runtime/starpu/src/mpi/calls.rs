//! The functions of the program that send and receive data.

use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ::mpi::ffi::{MPI_Comm, MPI_Status, MPI_Status_set_elements, RSMPI_STATUS_IGNORE, RSMPI_UINT8_T};

use super::link;
use super::messages::{
    End, MessageCallback, Request, Route, may_not_wait, receive, receive_detached, refused, send,
    send_detached, wait_for,
};
use super::owners;
use super::world::needed;
use crate::instance::{self, errno};
use crate::tags::starpu_tag_notify_from_apps;
use crate::types::*;

unsafe fn begin(
    function: &str,
    request: *mut *mut c_void,
    with: c_int,
    tag: i64,
    call: impl FnOnce(End) -> c_int,
) -> c_int {
    if request.is_null() {
        return refused(function, "the request is a null pointer");
    }
    let made = Request::new(with, tag);
    let result = call(End::of(Arc::clone(&made)));
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

/// Defines the four forms of a send; priorities have no effect.
macro_rules! sends {
    ($synchronous:literal: $plain:ident $prio:ident $detached:ident $detached_prio:ident) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $plain(
            handle: starpu_data_handle_t,
            request: *mut *mut c_void,
            to: c_int,
            tag: i64,
            comm: MPI_Comm,
        ) -> c_int {
            isend(stringify!($plain), handle, request, to, tag, comm, $synchronous)
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $prio(
            handle: starpu_data_handle_t,
            request: *mut *mut c_void,
            to: c_int,
            tag: i64,
            _priority: c_int,
            comm: MPI_Comm,
        ) -> c_int {
            $plain(handle, request, to, tag, comm)
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $detached(
            handle: starpu_data_handle_t,
            to: c_int,
            tag: i64,
            comm: MPI_Comm,
            callback: MessageCallback,
            argument: *mut c_void,
        ) -> c_int {
            let end = End::calls(callback, argument);
            send_detached(stringify!($detached), handle, to, tag, comm, $synchronous, end)
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $detached_prio(
            handle: starpu_data_handle_t,
            to: c_int,
            tag: i64,
            _priority: c_int,
            comm: MPI_Comm,
            callback: MessageCallback,
            argument: *mut c_void,
        ) -> c_int {
            $detached(handle, to, tag, comm, callback, argument)
        }
    };
}

sends! {
    false: starpu_mpi_isend starpu_mpi_isend_prio starpu_mpi_isend_detached starpu_mpi_isend_detached_prio
}
sends! {
    true: starpu_mpi_issend starpu_mpi_issend_prio starpu_mpi_issend_detached starpu_mpi_issend_detached_prio
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
pub unsafe extern "C" fn starpu_mpi_irecv_detached(
    handle: starpu_data_handle_t,
    from: c_int,
    tag: i64,
    comm: MPI_Comm,
    callback: MessageCallback,
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
    callback: MessageCallback,
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
    callback: MessageCallback,
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
    if count == 0 {
        starpu_tag_notify_from_apps(unlocked);
    }
    let left = Arc::new(AtomicUsize::new(count as usize));
    for at in 0..count as usize {
        let left = Arc::clone(&left);
        let callback = Box::new(move || {
            if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                starpu_tag_notify_from_apps(unlocked);
            }
        });
        let result = begin(at, End::runs(callback));
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
    callback: MessageCallback,
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

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_mpi_data_cpy_priority(
    to: starpu_data_handle_t,
    from: starpu_data_handle_t,
    comm: MPI_Comm,
    asynchronous: c_int,
    callback: MessageCallback,
    argument: *mut c_void,
    _priority: c_int,
) -> c_int {
    starpu_mpi_data_cpy(to, from, comm, asynchronous, callback, argument)
}
