//! Scheduling contexts: sets of workers with a name and data of the program's.
//!
//! All tasks run under the policy of the start, on any worker, whatever context they are submitted
//! to. What a program asks of a context is answered from what it said of it.

mod answers;

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;

use parking_lot::Mutex;

use crate::c;
use crate::instance::errno::EINVAL;
use crate::instance::{self, complain};
use crate::types::*;
use crate::workers::{delete_collection, print};

/// The context that all workers are in.
const MAIN: usize = 0;
const MOST: usize = STARPU_NMAX_SCHED_CTXS as usize;

/// A function that is called when a context is closed.
type CloseCallback = Option<unsafe extern "C" fn(c_uint, *mut c_void)>;

struct Context {
    name: String,
    workers: Vec<c_int>,
    inheritor: c_uint,
    level: c_uint,
    user: *mut c_void,
    policy_data: *mut c_void,
    least: Option<c_int>,
    most: Option<c_int>,
    collection: Option<Box<starpu_worker_collection>>,
    close: CloseCallback,
    close_argument: *mut c_void,
}

// SAFETY: the pointers are kept for the program and never followed here, but for the collection,
// which this owns.
unsafe impl Send for Context {}

impl Context {
    fn new(name: String, workers: Vec<c_int>) -> Context {
        Context {
            name,
            workers,
            inheritor: MAIN as c_uint,
            level: 0,
            user: ptr::null_mut(),
            policy_data: ptr::null_mut(),
            least: None,
            most: None,
            collection: None,
            close: None,
            close_argument: ptr::null_mut(),
        }
    }

    /// Makes a collection that the program has say what this says.
    fn refresh(&mut self) {
        if let Some(list) = &mut self.collection {
            let list = &raw mut **list;
            // SAFETY: the collection was prepared when it was made; its functions are its own.
            unsafe {
                for worker in 0..STARPU_NMAXWORKERS as c_int {
                    let function = if self.workers.contains(&worker) { (*list).add } else { (*list).remove };
                    if let Some(function) = function {
                        function(list, worker);
                    }
                }
            }
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if let Some(list) = self.collection.take() {
            delete_collection(list);
        }
    }
}

static CONTEXTS: Mutex<[Option<Context>; MOST]> = Mutex::new([const { None }; MOST]);

thread_local! {
    /// The context that the thread submits tasks to; `STARPU_NMAX_SCHED_CTXS` if it has named none.
    static CURRENT: Cell<c_uint> = const { Cell::new(STARPU_NMAX_SCHED_CTXS) };
}

fn everyone() -> Vec<c_int> {
    (0..instance::workers() as c_int).collect()
}

/// Forgets all contexts but the first, which gets all workers. To be called when the library
/// starts, before a policy does.
pub(crate) fn at_init() {
    let mut contexts = CONTEXTS.lock();
    contexts.iter_mut().for_each(|context| *context = None);
    contexts[MAIN] = Some(Context::new("main".into(), everyone()));
}

/// Calls `f` with a context, the first one where none was named; `None` if there is no such one.
fn with<R>(context: c_uint, f: impl FnOnce(&mut Context) -> R) -> Option<R> {
    let at = if context == STARPU_NMAX_SCHED_CTXS { MAIN } else { context as usize };
    let mut contexts = CONTEXTS.lock();
    let place = contexts.get_mut(at)?;
    if at == MAIN && place.is_none() {
        *place = Some(Context::new("main".into(), everyone()));
    }
    place.as_mut().map(f)
}

/// As `with`, and says so if there is no such context.
fn needed<R>(function: &str, context: c_uint, f: impl FnOnce(&mut Context) -> R) -> Option<R> {
    let result = with(context, f);
    if result.is_none() {
        complain(format_args!("{function}: there is no scheduling context {context}"));
    }
    result
}

/// A list of workers of C.
///
/// # Safety
///
/// `workers` points at `count` numbers.
unsafe fn list<'a>(workers: *const c_int, count: usize) -> &'a [c_int] {
    // SAFETY: as the caller vouches.
    if workers.is_null() { &[] } else { unsafe { std::slice::from_raw_parts(workers, count) } }
}

/// The options of a new context: `struct options` of `src/lists.c`.
#[repr(C)]
pub struct Options {
    policy_name: *const c_char,
    policy: *mut starpu_sched_policy,
    init: Option<unsafe extern "C" fn(c_uint)>,
    user_data: *mut c_void,
    least: c_int,
    most: c_int,
    level: c_uint,
    sets_least: c_int,
    sets_most: c_int,
    unknown: c_int,
}

/// Makes a context. A null list of workers with a negative number means all of them.
///
/// # Safety
///
/// `workers` points at `count` numbers or is null, `name` is a text of C or null, `options` is
/// valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zellige_context_create(
    workers: *const c_int,
    count: c_int,
    name: *const c_char,
    options: *const Options,
) -> c_uint {
    // SAFETY: as the caller vouches.
    let (options, workers, name) = unsafe {
        let workers = match usize::try_from(count) {
            Ok(count) => list(workers, count).to_vec(),
            Err(_) => everyone(),
        };
        let name = if name.is_null() {
            "unnamed".into()
        } else {
            CStr::from_ptr(name).to_string_lossy().into_owned()
        };
        (&*options, workers, name)
    };
    if options.unknown != 0 {
        complain(format_args!(
            "starpu_sched_ctx_create: {} is no option of a scheduling context; it and those after it are ignored",
            options.unknown
        ));
    }
    let mut context = Context::new(name, Vec::new());
    for worker in workers {
        if worker >= 0 && (worker as usize) < instance::workers() && !context.workers.contains(&worker) {
            context.workers.push(worker);
        }
    }
    context.user = options.user_data;
    context.level = options.level;
    context.least = (options.sets_least != 0).then_some(options.least);
    context.most = (options.sets_most != 0).then_some(options.most);
    let at = {
        let mut contexts = CONTEXTS.lock();
        let Some(at) = (MAIN + 1..MOST).find(|&at| contexts[at].is_none()) else {
            complain(format_args!(
                "starpu_sched_ctx_create: there are {MOST} scheduling contexts, the most there can be"
            ));
            return STARPU_NMAX_SCHED_CTXS;
        };
        contexts[at] = Some(context);
        at as c_uint
    };
    if let Some(init) = options.init {
        // SAFETY: the program's function for this.
        unsafe { init(at) };
    }
    at
}

/// Makes a context of some number of workers.
///
/// # Safety
///
/// Both names are texts of C or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_sched_ctx_create_inside_interval(
    policy_name: *const c_char,
    name: *const c_char,
    min_cpus: c_int,
    max_cpus: c_int,
    _min_gpus: c_int,
    _max_gpus: c_int,
    _overlap: c_uint,
) -> c_uint {
    let cores = crate::workers::starpu_cpu_worker_get_count() as c_int;
    let count = max_cpus.max(min_cpus).clamp(0, cores);
    let options = Options {
        policy_name,
        policy: ptr::null_mut(),
        init: None,
        user_data: ptr::null_mut(),
        least: 0,
        most: 0,
        level: 0,
        sets_least: 0,
        sets_most: 0,
        unknown: 0,
    };
    // SAFETY: as the caller vouches.
    unsafe { zellige_context_create(everyone().as_ptr(), count, name, &raw const options) }
}

/// Calls what is to be told when a context is closed, once.
fn close(context: c_uint) {
    let told = with(context, |context| (context.close.take(), context.close_argument));
    if let Some((Some(close), argument)) = told {
        // SAFETY: the program's function and argument for this.
        unsafe { close(context, argument) };
    }
}

/// Ends a context; its workers go to the one that inherits them.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_delete(context: c_uint) {
    if context == MAIN as c_uint || context == STARPU_NMAX_SCHED_CTXS {
        return complain(format_args!("starpu_sched_ctx_delete: the first scheduling context stays"));
    }
    let Some(heir) = needed("starpu_sched_ctx_delete", context, |context| {
        (context.inheritor, std::mem::take(&mut context.workers))
    }) else {
        return;
    };
    close(context);
    drop(CONTEXTS.lock()[context as usize].take());
    give(heir.0, &heir.1);
    if CURRENT.get() == context {
        CURRENT.set(STARPU_NMAX_SCHED_CTXS);
    }
}

/// Gives workers to a context.
fn give(context: c_uint, workers: &[c_int]) {
    with(context, |context| {
        for &worker in workers {
            if worker >= 0 && (worker as usize) < instance::workers() && !context.workers.contains(&worker) {
                context.workers.push(worker);
            }
        }
        context.refresh();
    });
}

/// Notes what is to be called when a context is closed.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_register_close_callback(
    context: c_uint,
    callback: CloseCallback,
    argument: *mut c_void,
) {
    needed("starpu_sched_ctx_register_close_callback", context, |context| {
        (context.close, context.close_argument) = (callback, argument);
    });
}

/// Gives workers to a context.
///
/// # Safety
///
/// `workers` points at `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_sched_ctx_add_workers(workers: *mut c_int, count: c_uint, context: c_uint) {
    // SAFETY: as the caller vouches.
    give(context, unsafe { list(workers, count as usize) });
}

/// Takes workers from a context.
///
/// # Safety
///
/// `workers` points at `count` numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_sched_ctx_remove_workers(
    workers: *mut c_int,
    count: c_uint,
    context: c_uint,
) {
    // SAFETY: as the caller vouches.
    let workers = unsafe { list(workers, count as usize) };
    needed("starpu_sched_ctx_remove_workers", context, |context| {
        context.workers.retain(|worker| !workers.contains(worker));
        context.refresh();
    });
}

/// Prints the workers of a context.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_display_workers(context: c_uint, stream: *mut FILE) {
    let text = needed("starpu_sched_ctx_display_workers", context, |of| {
        let mut text = format!("context {context} ({}): {} workers\n", of.name, of.workers.len());
        of.workers.iter().for_each(|worker| text.push_str(&format!("\tCPU {worker}\n")));
        text
    });
    print(stream, &text.unwrap_or_default());
}

/// Says which context gets the workers of another one at its end.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_set_inheritor(context: c_uint, inheritor: c_uint) {
    needed("starpu_sched_ctx_set_inheritor", context, |context| context.inheritor = inheritor);
}

/// Returns the context that gets the workers of another one at its end.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_get_inheritor(context: c_uint) -> c_uint {
    with(context, |context| context.inheritor).unwrap_or(STARPU_NMAX_SCHED_CTXS)
}

/// Returns the level of a context in a hierarchy.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_get_hierarchy_level(context: c_uint) -> c_uint {
    with(context, |context| context.level).unwrap_or(0)
}

/// Says which context the calling thread submits tasks to; a null pointer means none.
///
/// # Safety
///
/// `context` is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_sched_ctx_set_context(context: *mut c_uint) {
    // SAFETY: as the caller vouches.
    CURRENT.set(unsafe { context.as_ref() }.copied().unwrap_or(STARPU_NMAX_SCHED_CTXS));
}

/// Returns the context that the calling thread submits tasks to; `STARPU_NMAX_SCHED_CTXS` if it has
/// named none.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_get_context() -> c_uint {
    CURRENT.get()
}

/// Returns the context of a task: the one that it names, or else that of the calling thread, or the
/// first.
///
/// # Safety
///
/// `task` is a task.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_sched_ctx_get_ctx_for_task(task: *mut starpu_task) -> c_uint {
    // SAFETY: as the caller vouches.
    let named = unsafe { (*task).sched_ctx };
    [named, CURRENT.get(), MAIN as c_uint]
        .into_iter()
        .find(|&context| context != STARPU_NMAX_SCHED_CTXS)
        .unwrap_or(MAIN as c_uint)
}

/// Does nothing: no context waits for the end of submissions.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_stop_task_submission() {}

/// Says that no more tasks are submitted to a context; its workers go to the one that inherits
/// them.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_finished_submit(context: c_uint) {
    let heir = needed("starpu_sched_ctx_finished_submit", context, |context| {
        (context.inheritor, context.workers.clone())
    });
    if let Some((heir, workers)) = heir {
        if heir != context {
            give(heir, &workers);
        }
        close(context);
    }
}

/// Points `workers` at a new array of the workers of a context, which the caller frees, and returns
/// their number.
///
/// # Safety
///
/// `workers` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_sched_ctx_get_workers_list(
    context: c_uint,
    workers: *mut *mut c_int,
) -> c_uint {
    let numbers = with(context, |context| context.workers.clone()).unwrap_or_default();
    // SAFETY: as the caller vouches; the array has room for all, or is null.
    unsafe {
        let array = c::calloc(numbers.len().max(1), size_of::<c_int>()).cast::<c_int>();
        workers.write(array);
        if array.is_null() {
            return 0;
        }
        ptr::copy_nonoverlapping(numbers.as_ptr(), array, numbers.len());
    }
    numbers.len() as c_uint
}

/// Points `workers` at the array of the workers of a context, which stays the library's, and
/// returns their number.
///
/// # Safety
///
/// `workers` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_sched_ctx_get_workers_list_raw(
    context: c_uint,
    workers: *mut *mut c_int,
) -> c_uint {
    with(context, |context| {
        // SAFETY: as the caller vouches. The array stays until the context gets or loses a worker.
        unsafe { workers.write(context.workers.as_mut_ptr()) };
        context.workers.len() as c_uint
    })
    .unwrap_or(0)
}

/// Returns the number of workers of a context.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_get_nworkers(context: c_uint) -> c_uint {
    with(context, |context| context.workers.len() as c_uint).unwrap_or(0)
}

/// Returns the number of workers that two contexts share.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_get_nshared_workers(one: c_uint, other: c_uint) -> c_uint {
    let others = with(other, |context| context.workers.clone()).unwrap_or_default();
    with(one, |context| context.workers.iter().filter(|worker| others.contains(worker)).count() as c_uint)
        .unwrap_or(0)
}

/// Returns 1 if a worker is in a context.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_contains_worker(worker: c_int, context: c_uint) -> c_uint {
    c_uint::from(with(context, |context| context.workers.contains(&worker)).unwrap_or(false))
}

/// Returns 1 if a worker of a kind is in a context.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_contains_type_of_worker(
    kind: starpu_worker_archtype,
    context: c_uint,
) -> c_uint {
    let is_that =
        |worker: &c_int| kind == STARPU_ANY_WORKER || crate::workers::starpu_worker_get_type(*worker) == kind;
    c_uint::from(with(context, |context| context.workers.iter().any(is_that)).unwrap_or(false))
}

/// Returns the calling worker if it is in a context; -1 otherwise.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_worker_get_id(context: c_uint) -> c_uint {
    match instance::current_worker() {
        Some(worker) if starpu_sched_ctx_contains_worker(worker as c_int, context) != 0 => worker as c_uint,
        _ => c_uint::MAX,
    }
}

/// Returns the place of the calling worker among those of a context; -1 if it is not in it.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_get_worker_rank(context: c_uint) -> c_int {
    let Some(worker) = instance::current_worker() else { return -1 };
    with(context, |context| context.workers.iter().position(|&other| other == worker as c_int))
        .flatten()
        .map_or(-1, |at| at as c_int)
}

/// Returns `STARPU_NMAX_SCHED_CTXS`: no worker is a stream of a device.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_worker_get_sched_ctx_id_stream(_worker: c_uint) -> c_uint {
    STARPU_NMAX_SCHED_CTXS
}

/// Returns 1 if a worker is in several contexts.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_ctx_overlapping_ctxs_on_worker(worker: c_int) -> c_uint {
    let contexts = CONTEXTS.lock();
    let with_it = contexts.iter().flatten().filter(|context| context.workers.contains(&worker)).count();
    c_uint::from(with_it > 1)
}
