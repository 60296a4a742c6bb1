//! The instance of the runtime between `starpu_init` and `starpu_shutdown`, and what a thread does
//! in it.

use std::cell::Cell;
use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use parking_lot::{Condvar, Mutex};
use zellige_runtime::Runtime;
use zellige_runtime::internal::untyped;

use crate::gpus::Gpu;
use crate::tags::Tags;
use crate::types::starpu_task;

/// The runtime of the process, and what StarPU's interface counts beside it.
pub struct Instance {
    pub rt: Runtime,
    /// Number of workers, those of GPUs last.
    pub workers: usize,
    pub gpus: Vec<Gpu>,
    /// Tasks that have been submitted and have not ended with their callbacks.
    pub unfinished: Unfinished,
    pub tags: Tags,
}

/// Threads that wait until a counter has fallen.
#[derive(Default)]
struct Waiting {
    count: AtomicUsize,
    lock: Mutex<()>,
    fell: Condvar,
}

impl Waiting {
    /// Tells that the counter has fallen.
    #[inline]
    fn tell(&self) {
        if self.count.load(Ordering::SeqCst) > 0 {
            drop(self.lock.lock());
            self.fell.notify_all();
        }
    }

    fn wait(&self, is_over: impl Fn() -> bool) {
        self.count.fetch_add(1, Ordering::SeqCst);
        let mut lock = self.lock.lock();
        while !is_over() {
            self.fell.wait(&mut lock);
        }
        drop(lock);
        self.count.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The users of something; threads wait for them.
#[derive(Default)]
pub struct Users {
    count: AtomicUsize,
    waiting: Waiting,
}

impl Users {
    pub fn add(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub fn get(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Counts one less, and returns how many are left.
    pub fn remove(&self) -> usize {
        let left = self.count.fetch_sub(1, Ordering::SeqCst) - 1;
        self.waiting.tell();
        left
    }

    /// Waits until at most `most` are left.
    pub fn wait(&self, most: usize) {
        self.waiting.wait(|| self.get() <= most);
    }
}

/// Tasks that have been submitted and have not ended. Threads that submit write one half of it and
/// workers the other one, each in a cache line of its own.
#[derive(Default)]
pub struct Unfinished {
    begun: CachePadded<AtomicUsize>,
    ended: CachePadded<AtomicUsize>,
    waiting: CachePadded<Waiting>,
}

impl Unfinished {
    #[inline]
    pub fn add(&self) {
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    pub fn get(&self) -> usize {
        // In this order: what has ended had begun.
        let ended = self.ended.load(Ordering::SeqCst);
        self.begun.load(Ordering::SeqCst) - ended
    }

    #[inline]
    pub fn remove(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
        self.waiting.tell();
    }

    /// Waits until at most `most` are left.
    pub fn wait(&self, most: usize) {
        self.waiting.wait(|| self.get() <= most);
    }
}

/// An event that one thread waits for.
#[derive(Default)]
pub struct Signal {
    set: Mutex<bool>,
    changed: Condvar,
}

impl Signal {
    pub fn set(&self) {
        *self.set.lock() = true;
        self.changed.notify_all();
    }

    pub fn is_set(&self) -> bool {
        *self.set.lock()
    }

    /// Waits until it is set; workers look for tasks at once.
    pub fn wait(&self, instance: &Instance) {
        untyped::rouse(&instance.rt);
        let mut set = self.set.lock();
        while !*set {
            self.changed.wait(&mut set);
        }
    }
}

static CURRENT: AtomicPtr<Instance> = AtomicPtr::new(ptr::null_mut());

/// Returns the instance, if StarPU is initialised. It lives until `starpu_shutdown`, during which
/// no other function may be called.
pub fn get() -> Option<&'static Instance> {
    // SAFETY: the pointer comes from Box::into_raw and is freed by `end` alone.
    unsafe { CURRENT.load(Ordering::Acquire).as_ref() }
}

/// Returns the instance, or reports that `function` was called without one.
pub fn needed(function: &str) -> Option<&'static Instance> {
    let found = get();
    if found.is_none() {
        complain(format_args!("{function}: StarPU is not initialised: call starpu_init first"));
    }
    found
}

pub fn begin(instance: Instance) {
    CURRENT.store(Box::into_raw(Box::new(instance)), Ordering::Release);
}

pub fn end() {
    let instance = CURRENT.load(Ordering::Acquire);
    if !instance.is_null() {
        // SAFETY: from Box::into_raw. The workers that still look at it end with its runtime.
        let instance = unsafe { Box::from_raw(instance) };
        let Instance { rt, tags, gpus, .. } = *instance;
        drop(rt);
        CURRENT.store(ptr::null_mut(), Ordering::Release);
        drop((tags, gpus));
    }
}

/// Returns the number of workers; 0 without an instance.
pub fn workers() -> usize {
    get().map_or(0, |instance| instance.workers)
}

/// Calls `f` with the runtime, if there is one.
pub fn with_runtime<R>(f: impl FnOnce(&Runtime) -> R) -> Option<R> {
    get().map(|instance| f(&instance.rt))
}

/// Prints a message on the error stream.
pub fn complain(message: std::fmt::Arguments<'_>) {
    eprintln!("zellige-starpu: {message}");
}

/// The worker that a thread is, and the task whose code it runs.
struct Here {
    worker: Cell<Option<usize>>,
    task: Cell<*mut starpu_task>,
}

thread_local! {
    static HERE: Here = const { Here { worker: Cell::new(None), task: Cell::new(ptr::null_mut()) } };
}

/// Returns the worker that the calling thread is.
pub fn current_worker() -> Option<usize> {
    HERE.with(|here| here.worker.get())
}

/// Notes that the calling thread is this worker.
pub fn is_worker(worker: usize) {
    HERE.with(|here| here.worker.set(Some(worker)));
}

/// Returns the task whose code the calling thread runs, or null.
pub fn current_task() -> *mut starpu_task {
    HERE.with(|here| here.task.get())
}

/// Calls `f` as code of `task`.
pub fn as_task<R>(task: *mut starpu_task, f: impl FnOnce() -> R) -> R {
    HERE.with(|here| {
        let outer = here.task.replace(task);
        let result = f();
        here.task.set(outer);
        result
    })
}

/// Calls `f` as code of `task` on the thread of a worker.
pub fn as_task_of<R>(worker: usize, task: *mut starpu_task, f: impl FnOnce() -> R) -> R {
    is_worker(worker);
    as_task(task, f)
}

/// Returns true, and reports it, if the calling thread is a worker, which must not wait.
pub fn must_not_wait(function: &str) -> bool {
    let on_worker = current_worker().is_some();
    if on_worker {
        complain(format_args!(
            "{function}: a codelet or callback must not wait for tasks or data; submit a task, or use a function with a callback"
        ));
    }
    on_worker
}

/// Error numbers of the interface, which are negative.
pub mod errno {
    use super::c_int;

    pub const ENOMEM: c_int = 12;
    #[cfg(feature = "mpi")]
    pub const EIO: c_int = 5;
    #[cfg(feature = "mpi")]
    pub const ENOSYS: c_int = 38;
    pub const EAGAIN: c_int = 11;
    pub const ENODEV: c_int = 19;
    pub const EINVAL: c_int = 22;
    pub const EDEADLK: c_int = 35;
}
