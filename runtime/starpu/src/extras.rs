//! Task lists, bundles, transactions, functions on each worker, numbers of tasks and interfaces.

use std::ffi::{c_int, c_long, c_uint, c_ulong, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use parking_lot::Mutex;
use zellige_runtime::internal::handle;
use zellige_runtime::internal::untyped::{self, Token, TokenAccess, Untyped, UntypedOptions};
use zellige_runtime::{Handle, Mode, TaskError};

use crate::data::Carried;
use crate::gpus::{Gpu, gpu_of};
use crate::instance::{Signal, complain, must_not_wait, needed};
use crate::types::*;

/// Function that runs on one worker.
struct OnWorker {
    worker: usize,
    call: Box<dyn Fn() + Send + Sync>,
    done: Arc<Signal>,
}

impl Untyped for OnWorker {
    fn accesses(&self) -> &[TokenAccess] {
        &[]
    }

    fn can_execute(&self, worker: usize) -> bool {
        worker == self.worker
    }

    fn run(&self, worker: usize) -> Result<(), TaskError> {
        gpu_of(worker).into_iter().for_each(Gpu::make_current);
        (self.call)();
        self.done.set();
        Ok(())
    }
}

unsafe fn on_workers(
    function: starpu_callback_t,
    argument: *mut c_void,
    workers: impl Iterator<Item = usize>,
) {
    let Some(instance) = needed("starpu_execute_on_each_worker") else { return };
    let Some(function) = function else { return };
    if must_not_wait("starpu_execute_on_each_worker") {
        return;
    }
    let argument = Carried(argument);
    let submitted = |worker| {
        let done = Arc::new(Signal::default());
        // SAFETY: the application's function with its argument, while the call waits for it.
        let call = Box::new(move || unsafe { function(argument.get()) });
        let task = OnWorker { worker, call, done: Arc::clone(&done) };
        let options = UntypedOptions {
            name: "execute_on_each_worker",
            restricted: true,
            priority: c_int::MAX,
            ..UntypedOptions::default()
        };
        match untyped::submit(&instance.rt, options, task) {
            Ok(_) => Some(done),
            Err(error) => {
                complain(format_args!("starpu_execute_on_each_worker: {error}"));
                None
            }
        }
    };
    let all: Vec<_> = workers.filter_map(submitted).collect();
    all.iter().for_each(|done| done.wait(instance));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_execute_on_each_worker(
    function: starpu_callback_t,
    argument: *mut c_void,
    place: u32,
) {
    let is_meant =
        |&worker: &usize| place & if gpu_of(worker).is_some() { STARPU_CUDA } else { STARPU_CPU } != 0;
    on_workers(function, argument, (0..crate::instance::workers()).filter(is_meant));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_execute_on_each_worker_ex(
    function: starpu_callback_t,
    argument: *mut c_void,
    place: u32,
    _name: *const std::ffi::c_char,
) {
    starpu_execute_on_each_worker(function, argument, place);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_execute_on_specific_workers(
    function: starpu_callback_t,
    argument: *mut c_void,
    count: c_uint,
    workers: *mut c_uint,
    _name: *const std::ffi::c_char,
) {
    let known = crate::instance::workers();
    let chosen = (0..count as usize).map(|at| *workers.add(at) as usize).filter(|&worker| worker < known);
    on_workers(function, argument, chosen.collect::<Vec<_>>().into_iter());
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_data_interface_get_next_id() -> c_int {
    static NEXT: AtomicI32 = AtomicI32::new(STARPU_MAX_INTERFACE_ID);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_get_job_id(task: *mut starpu_task) -> c_ulong {
    crate::state::state(task).number as c_ulong
}

/// A sequence of epochs, each of which runs or not as the application decides at its begin.
pub struct Transaction {
    token: Handle<Token>,
    begin: Option<unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int>,
    /// The current epoch in the order of submission: true once it is known to run.
    epoch: Mutex<Arc<AtomicBool>>,
}

/// Part of a task of a transaction.
pub struct InEpoch {
    pub access: TokenAccess,
    pub runs: Arc<AtomicBool>,
}

/// Returns the epoch of a task that is being submitted, if it belongs to a transaction.
pub unsafe fn epoch(task: *mut starpu_task) -> Option<InEpoch> {
    let transaction = (*task).transaction.cast::<Transaction>().as_ref()?;
    let access = TokenAccess { handle: transaction.token.clone(), mode: Mode::Read, ordered: true };
    Some(InEpoch { access, runs: Arc::clone(&transaction.epoch.lock()) })
}

impl Transaction {
    /// Begins an epoch after all tasks of the one before.
    unsafe fn next(&self, argument: *mut c_void) {
        let Some(instance) = needed("starpu_transaction_next_epoch") else { return };
        let runs = Arc::new(AtomicBool::new(true));
        *self.epoch.lock() = Arc::clone(&runs);
        let (begin, argument) = (self.begin, Carried(argument));
        let access = TokenAccess { handle: self.token.clone(), mode: Mode::Update, ordered: true };
        crate::reduction::submit(instance, "epoch", vec![access], move || {
            if let Some(begin) = begin {
                // SAFETY: the application's function with its argument.
                let decision = unsafe { begin(ptr::null_mut(), argument.get()) };
                runs.store(decision != 0, Ordering::Release);
            }
        });
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_transaction_open(
    begin: Option<unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int>,
    argument: *mut c_void,
) -> *mut c_void {
    if needed("starpu_transaction_open").is_none() {
        return ptr::null_mut();
    }
    let epoch = Mutex::new(Arc::default());
    let made = Box::new(Transaction { token: handle(Some(Token)), begin, epoch });
    made.next(argument);
    Box::into_raw(made).cast()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_transaction_next_epoch(transaction: *mut c_void, argument: *mut c_void) {
    (*transaction.cast::<Transaction>()).next(argument);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_transaction_close(transaction: *mut c_void) {
    drop(Box::from_raw(transaction.cast::<Transaction>()));
}

/// Creates a bundle. It is a hint, and the policies here take none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_bundle_create(bundle: *mut starpu_task_bundle_t) {
    *bundle = ptr::dangling_mut::<c_void>();
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_bundle_insert(
    bundle: starpu_task_bundle_t,
    task: *mut starpu_task,
) -> c_int {
    (*task).bundle = bundle;
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_bundle_remove(
    _bundle: starpu_task_bundle_t,
    task: *mut starpu_task,
) -> c_int {
    (*task).bundle = ptr::null_mut();
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_task_bundle_close(_bundle: starpu_task_bundle_t) {}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_list_init(list: *mut starpu_task_list) {
    (*list).head = ptr::null_mut();
    (*list).tail = ptr::null_mut();
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_list_empty(list: *const starpu_task_list) -> c_int {
    c_int::from((*list).head.is_null())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_list_push_front(list: *mut starpu_task_list, task: *mut starpu_task) {
    (*task).prev = ptr::null_mut();
    (*task).next = (*list).head;
    match (*list).head.as_mut() {
        Some(head) => head.prev = task,
        None => (*list).tail = task,
    }
    (*list).head = task;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_list_push_back(list: *mut starpu_task_list, task: *mut starpu_task) {
    (*task).next = ptr::null_mut();
    (*task).prev = (*list).tail;
    match (*list).tail.as_mut() {
        Some(tail) => tail.next = task,
        None => (*list).head = task,
    }
    (*list).tail = task;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_list_erase(list: *mut starpu_task_list, task: *mut starpu_task) {
    match (*task).prev.as_mut() {
        Some(before) => before.next = (*task).next,
        None => (*list).head = (*task).next,
    }
    match (*task).next.as_mut() {
        Some(after) => after.prev = (*task).prev,
        None => (*list).tail = (*task).prev,
    }
    (*task).prev = ptr::null_mut();
    (*task).next = ptr::null_mut();
}

unsafe fn pop(list: *mut starpu_task_list, task: *mut starpu_task) -> *mut starpu_task {
    if !task.is_null() {
        starpu_task_list_erase(list, task);
    }
    task
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_list_pop_front(list: *mut starpu_task_list) -> *mut starpu_task {
    pop(list, (*list).head)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_list_pop_back(list: *mut starpu_task_list) -> *mut starpu_task {
    pop(list, (*list).tail)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_list_front(list: *const starpu_task_list) -> *mut starpu_task {
    (*list).head
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_list_back(list: *const starpu_task_list) -> *mut starpu_task {
    (*list).tail
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_list_begin(list: *const starpu_task_list) -> *mut starpu_task {
    (*list).head
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_task_list_end(_list: *const starpu_task_list) -> *mut starpu_task {
    ptr::null_mut()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_list_next(task: *const starpu_task) -> *mut starpu_task {
    (*task).next
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_list_ismember(
    list: *const starpu_task_list,
    task: *const starpu_task,
) -> c_int {
    let mut at = (*list).head.cast_const();
    while !at.is_null() && at != task {
        at = (*at).next;
    }
    c_int::from(!at.is_null())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_task_list_move(to: *mut starpu_task_list, from: *mut starpu_task_list) {
    while let Some(task) = starpu_task_list_pop_front(from).as_mut() {
        starpu_task_list_push_back(to, task);
    }
}

/// Number of a task, given when its state is made.
pub fn next_number() -> c_long {
    static NEXT: std::sync::atomic::AtomicI64 = std::sync::atomic::AtomicI64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

unsafe extern "C" fn nothing(_buffers: *mut *mut c_void, _argument: *mut c_void) {}

/// A codelet that does nothing.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "StarPU's name")]
pub static mut starpu_codelet_nop: starpu_codelet = {
    // SAFETY: all zeros is a codelet without functions.
    let mut codelet: starpu_codelet = unsafe { std::mem::zeroed() };
    codelet.cpu_funcs[0] = Some(nothing);
    codelet
};

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_worker_get_id_check() -> c_uint {
    crate::workers::_starpu_worker_get_id_check(c"the program".as_ptr(), 0)
}

/// Gives an interface of the application a number, unless it has one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_register_ops(ops: *mut starpu_data_interface_ops) -> c_int {
    if (*ops).interfaceid == STARPU_UNKNOWN_INTERFACE_ID {
        (*ops).interfaceid = starpu_data_interface_get_next_id();
    }
    (*ops).interfaceid
}

/// Defines functions that tell a policy about kinds of device, which models say here.
macro_rules! devices_are_alike {
    ($($name:ident($($type:ty),*);)*) => {
        $(#[unsafe(no_mangle)]
        pub extern "C" fn $name($(_: $type),*) {})*
    };
}

devices_are_alike! {
    starpu_heteroprio_set_nb_prios(c_uint, starpu_worker_archtype, c_uint);
    starpu_heteroprio_set_mapping(c_uint, starpu_worker_archtype, c_uint, c_uint);
    starpu_heteroprio_set_faster_arch(c_uint, starpu_worker_archtype, c_uint);
    starpu_heteroprio_set_arch_slow_factor(c_uint, starpu_worker_archtype, c_uint, f32);
    starpu_syclblas_init();
    starpu_syclblas_shutdown();
}

/// Defines functions of policies that fetch data ahead: values move when a task needs them.
macro_rules! nothing_to_fetch {
    ($($name:ident($($type:ty),*);)*) => {
        $(#[unsafe(no_mangle)]
        pub extern "C" fn $name(_task: *mut starpu_task $(, _: $type)*) -> c_int {
            0
        })*
    };
}

nothing_to_fetch! {
    starpu_prefetch_task_input_on_node(c_uint);
    starpu_prefetch_task_input_on_node_prio(c_uint, c_int);
    starpu_prefetch_task_input_for(c_uint);
    starpu_prefetch_task_input_for_prio(c_uint, c_int);
    starpu_idle_prefetch_task_input_on_node(c_uint);
    starpu_idle_prefetch_task_input_on_node_prio(c_uint, c_int);
    starpu_idle_prefetch_task_input_for(c_uint);
    starpu_idle_prefetch_task_input_for_prio(c_uint, c_int);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_cpy_priority(
    target: starpu_data_handle_t,
    source: starpu_data_handle_t,
    asynchronous: c_int,
    callback: starpu_callback_t,
    argument: *mut c_void,
    _priority: c_int,
) -> c_int {
    crate::task::starpu_data_cpy(target, source, asynchronous, callback, argument)
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_wake_all_blocked_workers() {
    crate::policy::starpu_wake_workers();
}
