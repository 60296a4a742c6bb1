//! Sends and receives of data, in the order of the tasks on them.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ::mpi::ffi::{MPI_Comm, RSMPI_COMM_WORLD};

use super::link::{self, ANSWERED, DATA, FAILED, HEAD, Key, Link, head};
use super::types;
use super::world::{Comm, needed};
use crate::acquire::{release_now, request};
use crate::data::{Carried, data, prepare};
use crate::instance::{self, complain, errno};
use crate::tags::starpu_tag_notify_from_apps;
use crate::types::*;

pub type MessageCallback = Option<unsafe extern "C" fn(*mut c_void)>;

/// A send or receive for which the program waits.
pub struct Request {
    pub done: AtomicBool,
    pub failed: AtomicBool,
    pub bytes: AtomicUsize,
    pub with: c_int,
    pub tag: i64,
}

impl Request {
    /// Makes a request that is not done.
    pub fn new(with: c_int, tag: i64) -> Arc<Request> {
        let flag = || AtomicBool::new(false);
        Arc::new(Request { done: flag(), failed: flag(), bytes: AtomicUsize::new(0), with, tag })
    }
}

/// Actions at the end of a send or receive.
#[derive(Default)]
pub struct End {
    request: Option<Arc<Request>>,
    callback: Option<Box<dyn FnOnce() + Send>>,
}

impl End {
    /// Ends a request.
    pub fn of(request: Arc<Request>) -> End {
        End { request: Some(request), callback: None }
    }

    /// Calls a closure.
    pub fn runs(callback: Box<dyn FnOnce() + Send>) -> End {
        End { request: None, callback: Some(callback) }
    }

    /// Calls a function of the program, if it gives one.
    pub fn calls(callback: MessageCallback, argument: *mut c_void) -> End {
        let argument = Carried(argument);
        let callback = callback.map(|callback| {
            // SAFETY: the program's function with its argument.
            Box::new(move || unsafe { callback(argument.get()) }) as Box<dyn FnOnce() + Send>
        });
        End { request: None, callback }
    }

    /// Notifies a tag.
    pub fn notifies(tag: starpu_tag_t) -> End {
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

/// The other process and the tag of a message.
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

    /// Finds the other process in a communicator of the program.
    pub unsafe fn of(function: &str, raw: MPI_Comm, rank: c_int, tag: i64) -> Option<Route> {
        let (link, comm) = needed(function, raw)?;
        Route::new(function, link, &comm, rank, tag)
    }
}

pub fn refused(function: &str, why: &str) -> c_int {
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

/// Ends when the tasks before have written the data.
pub unsafe fn when_ready(function: &str, handle: starpu_data_handle_t, end: End) -> c_int {
    if end.callback.is_none() {
        return 0;
    }
    let (Some(instance), Some(link)) = (instance::needed(function), link::get()) else {
        return -errno::EINVAL;
    };
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

/// The communicator where none is named.
pub fn world() -> MPI_Comm {
    // SAFETY: a constant of MPI.
    unsafe { RSMPI_COMM_WORLD }
}
