//! Scheduling policies: zellige's by StarPU's names, and those that the application brings.

use std::ffi::{CStr, c_int, c_uint};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering};

use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, RwLock};
use zellige_runtime::internal::policies::by_name;
use zellige_runtime::internal::untyped;
use zellige_runtime::sched::{Policy, ReadyTask, SchedView, Wake};

use crate::data::Carried;
use crate::functions;
use crate::gpu_view::with_gpus;
use crate::gpus;
use crate::held;
use crate::instance::{Instance, complain, get, is_worker};
use crate::profiling;
use crate::state::state;
use crate::types::*;
use crate::work::{self, Work};

static PAUSED: AtomicUsize = AtomicUsize::new(0);
/// Number of tasks that a policy has got, and of those that it has handed out.
static PUSHED: CachePadded<AtomicUsize> = CachePadded::new(AtomicUsize::new(0));
static POPPED: CachePadded<AtomicUsize> = CachePadded::new(AtomicUsize::new(0));
static MIN: AtomicI32 = AtomicI32::new(c_int::MIN);
static MAX: AtomicI32 = AtomicI32::new(c_int::MAX);
/// The application's policy, while it runs.
static OWN: AtomicPtr<starpu_sched_policy> = AtomicPtr::new(std::ptr::null_mut());
/// True between the policy's first and last hook.
static STARTED: AtomicBool = AtomicBool::new(false);
/// Held for reading while a worker is in the policy, so that its last hook comes after all others.
static IN_POLICY: RwLock<()> = RwLock::new(());
/// Tasks that a policy of the application has put into the queue of one worker.
static LOCAL: Mutex<Vec<(usize, Carried<starpu_task>)>> = Mutex::new(Vec::new());

/// Returns the application's policy, if it has one.
fn own() -> Option<&'static starpu_sched_policy> {
    // SAFETY: the application keeps the structure until `starpu_shutdown` returns.
    unsafe { OWN.load(Ordering::Acquire).as_ref() }
}

/// Calls the hook of the application's policy for a task that is submitted.
pub unsafe fn at_submit(task: *mut starpu_task) {
    if let Some(hook) = own().and_then(|policy| policy.submit_hook) {
        hook(task);
    }
}

/// Calls the hook of the application's policy before a task runs.
pub unsafe fn at_start(task: *mut starpu_task) {
    if let Some(hook) = own().and_then(|policy| policy.pre_exec_hook) {
        hook(task, 0);
    }
}

/// Calls the hook of the application's policy after a task has run.
pub unsafe fn at_end(task: *mut starpu_task) {
    if let Some(hook) = own().and_then(|policy| policy.post_exec_hook) {
        hook(task, 0);
    }
}

/// Number of tasks that a policy has.
pub fn ready() -> usize {
    let popped = POPPED.load(Ordering::SeqCst);
    PUSHED.load(Ordering::SeqCst).saturating_sub(popped)
}

/// Returns the range of priorities.
pub fn priority_range() -> (c_int, c_int) {
    (MIN.load(Ordering::Relaxed), MAX.load(Ordering::Relaxed))
}

/// The lowest and the highest priority that tasks have.
static CAPS: (AtomicI32, AtomicI32) = (AtomicI32::new(c_int::MIN), AtomicI32::new(c_int::MAX));

pub fn caps() -> (c_int, c_int) {
    (CAPS.0.load(Ordering::Relaxed), CAPS.1.load(Ordering::Relaxed))
}

pub fn set_caps(min: c_int, max: c_int) {
    CAPS.0.store(min, Ordering::Relaxed);
    CAPS.1.store(max, Ordering::Relaxed);
}

/// Returns the priority that a task has.
pub fn capped(priority: c_int) -> c_int {
    let (min, max) = caps();
    priority.max(min).min(max)
}

/// Returns zellige's policy that does what StarPU's policy of this name does.
pub fn equivalent(name: &str) -> Option<&'static str> {
    let modular = name.strip_prefix("modular-").unwrap_or(name);
    Some(match modular {
        "lws" | "ws" | "ws-" => "lws",
        "prio" | "prio-prefetching" | "eager-prio" | "pheft" | "peager" | "parallel-heft" => "prio",
        "eager" | "eager-prefetching" | "no-prio" => "eager",
        "random" | "random-prio" | "random-prefetching" | "random-prio-prefetching" => "random",
        "dm" | "heft-prio" => "dm",
        "dmda" | "heft" | "heft2" | "dmdap" => "dmda",
        "dmdar" => "dmdar",
        "dmdas" | "dmdasd" | "darts" => "dmdas",
        "heteroprio" => "heteroprio",
        _ if name.starts_with("modular-") => "lws",
        _ => return None,
    })
}

/// Sets the range of priorities as the policy of this name has it.
pub fn sets_range(name: &str) {
    let wide = matches!(name, "prio" | "lws" | "ws" | "dmdas");
    MIN.store(if wide { c_int::MIN } else { 0 }, Ordering::Relaxed);
    MAX.store(if wide { c_int::MAX } else { 0 }, Ordering::Relaxed);
}

/// One of zellige's policies, which pauses, and which tells the ends of tasks.
pub struct Wrapped {
    inner: Box<dyn Policy>,
}

impl Wrapped {
    pub fn new(name: &str, workers: usize) -> Option<Wrapped> {
        Some(Wrapped { inner: by_name(name, workers).ok()? })
    }
}

fn is_paused() -> bool {
    PAUSED.load(Ordering::Acquire) > 0
}

impl Policy for Wrapped {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn push(&self, view: &SchedView<'_>, task: ReadyTask, from: Option<usize>) -> Wake {
        PUSHED.fetch_add(1, Ordering::Relaxed);
        if profiling::is_collecting()
            && let Some(work) = untyped::untyped::<Work>(&task)
        {
            // SAFETY: the task has not ended.
            unsafe { profiling::at_ready(work.task) };
        }
        let wake = with_gpus(view, |view| self.inner.push(view, task, from));
        if held::is_any()
            && let Some(instance) = get()
        {
            // The one that would be woken may be held.
            wake_all(instance);
        }
        wake
    }

    fn pop(&self, view: &SchedView<'_>, worker: usize) -> Option<ReadyTask> {
        is_worker(worker);
        work::tell_ends();
        if !held::may_take(worker) {
            return None;
        }
        // Workers run before the instance is complete, and a policy looks at their kinds once.
        let is_early = gpus::is_any() && get().is_none();
        let task =
            if is_early || is_paused() { None } else { with_gpus(view, |view| self.inner.pop(view, worker)) };
        held::took(worker, task.is_some());
        if task.is_some() {
            POPPED.fetch_add(1, Ordering::Relaxed);
        }
        task
    }

    fn exchange(&self, view: &SchedView<'_>, worker: usize, task: ReadyTask) -> Result<ReadyTask, ReadyTask> {
        // The task that released this one has given up its data.
        work::tell_ends();
        if is_paused() || held::is_any() || profiling::is_collecting() {
            return Err(task);
        }
        with_gpus(view, |view| self.inner.exchange(view, worker, task))
    }

    fn sort_again(&self) {
        self.inner.sort_again();
    }

    fn follows(&self) -> bool {
        self.inner.follows()
    }

    fn began(&self, view: &SchedView<'_>, worker: usize, task: &ReadyTask) {
        with_gpus(view, |view| self.inner.began(view, worker, task));
    }

    fn ended(&self, view: &SchedView<'_>, worker: usize, id: u64) {
        with_gpus(view, |view| self.inner.ended(view, worker, id));
    }
}

/// A policy of the application. Tasks of the interface itself go past it.
pub struct OfApplication {
    policy: starpu_sched_policy,
    internal: Mutex<std::collections::VecDeque<ReadyTask>>,
}

impl OfApplication {
    /// Creates a driver of the application's policy.
    ///
    /// # Safety
    /// The structure is a valid one.
    pub unsafe fn new(policy: *mut starpu_sched_policy) -> Self {
        OWN.store(policy, Ordering::Release);
        OfApplication { policy: *policy, internal: Mutex::default() }
    }
}

// SAFETY: functions of the application, which StarPU calls from all workers, too.
unsafe impl Send for OfApplication {}
// SAFETY: as above.
unsafe impl Sync for OfApplication {}

impl Policy for OfApplication {
    fn name(&self) -> &str {
        "application"
    }

    fn push(&self, _view: &SchedView<'_>, ready: ReadyTask, _from: Option<usize>) -> Wake {
        let Some(task) = untyped::untyped::<Work>(&ready).map(|work| work.task) else {
            self.internal.lock().push_back(ready);
            // The one worker that may run it may not be the one that would wake.
            get().into_iter().for_each(wake_all);
            return Wake::Any;
        };
        PUSHED.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the task has not ended, so its structure and its state exist.
        unsafe {
            *state(task).ready.lock() = Some(ready);
            match self.policy.push_task {
                Some(push) => {
                    if push(task) != 0 {
                        complain(format_args!("push_task of the scheduling policy refused a task"));
                    }
                }
                None => complain(format_args!("the scheduling policy has no push_task")),
            }
        }
        if let Some(instance) = get() {
            wake_all(instance);
        }
        Wake::Any
    }

    fn pop(&self, view: &SchedView<'_>, worker: usize) -> Option<ReadyTask> {
        is_worker(worker);
        work::tell_ends();
        if let Some(task) = self.pop_internal(view, worker) {
            return Some(task);
        }
        if !held::may_take(worker) {
            return None;
        }
        let task = self.pop_of_application(worker);
        held::took(worker, task.is_some());
        task
    }
}

impl OfApplication {
    /// Takes the first task of the interface itself that a worker may run.
    fn pop_internal(&self, view: &SchedView<'_>, worker: usize) -> Option<ReadyTask> {
        let mut internal = self.internal.lock();
        let at = internal.iter().position(|task| view.can_run(task, worker))?;
        internal.remove(at)
    }

    fn pop_of_application(&self, worker: usize) -> Option<ReadyTask> {
        let _inside = IN_POLICY.read();
        if is_paused() || !STARTED.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: the task that it returns is one that it got and has not returned before.
        unsafe {
            let task = local(worker).or_else(|| Some(self.policy.pop_task?(0)))?;
            if task.is_null() {
                return None;
            }
            if !functions::has_function(task, worker) {
                // The policy looks at no kinds of workers: another one may come for the task.
                self.policy.push_task.map(|push| push(task));
                get().into_iter().for_each(wake_all);
                return None;
            }
            let found = state(task).ready.lock().take();
            if found.is_none() {
                complain(format_args!("pop_task of the scheduling policy returned a task that is not ready"));
            } else {
                POPPED.fetch_add(1, Ordering::Relaxed);
            }
            found
        }
    }
}

fn wake_all(instance: &Instance) {
    untyped::wake(&instance.rt);
}

/// Calls the hooks with which the application's policy begins.
///
/// # Safety
/// Called once, by `starpu_init`.
pub unsafe fn begin(instance: &Instance) {
    let Some(policy) = own() else { return };
    if let Some(init) = policy.init_sched {
        init(0);
    }
    if let Some(add) = policy.add_workers {
        let mut workers: Vec<c_int> = (0..instance.workers as c_int).collect();
        add(0, workers.as_mut_ptr(), workers.len() as c_uint);
    }
    STARTED.store(true, Ordering::Release);
}

/// Calls the hooks with which the application's policy ends.
///
/// # Safety
/// Called once, by `starpu_shutdown`.
pub unsafe fn finish(workers: usize) {
    let Some(policy) = own() else { return };
    STARTED.store(false, Ordering::Release);
    // Workers that are in the policy leave it first.
    drop(IN_POLICY.write());
    if let Some(remove) = policy.remove_workers {
        let mut workers: Vec<c_int> = (0..workers as c_int).collect();
        remove(0, workers.as_mut_ptr(), workers.len() as c_uint);
    }
    if let Some(deinit) = policy.deinit_sched {
        deinit(0);
    }
    OWN.store(std::ptr::null_mut(), Ordering::Release);
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_pause() {
    PAUSED.fetch_add(1, Ordering::AcqRel);
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_resume() {
    let left = PAUSED.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1));
    if left == Ok(1)
        && let Some(instance) = get()
    {
        wake_all(instance);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_is_paused() -> c_int {
    c_int::from(is_paused())
}

/// Ends all pauses, at shutdown.
pub fn unpause() {
    PAUSED.store(0, Ordering::Release);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_do_schedule() {
    if let Some(schedule) = own().and_then(|policy| policy.do_schedule) {
        schedule(0);
    }
    if let Some(instance) = get() {
        wake_all(instance);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_reset_scheduler() {
    if let Some(reset) = own().and_then(|policy| policy.reset_scheduler) {
        reset(0);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_get_min_priority() -> c_int {
    MIN.load(Ordering::Relaxed)
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_get_max_priority() -> c_int {
    MAX.load(Ordering::Relaxed)
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_set_min_priority(priority: c_int) -> c_int {
    MIN.store(priority, Ordering::Relaxed);
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_set_max_priority(priority: c_int) -> c_int {
    MAX.store(priority, Ordering::Relaxed);
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_worker_can_execute_task(
    worker: c_uint,
    task: *mut starpu_task,
    implementation: c_uint,
) -> c_int {
    let known = (implementation as usize) < STARPU_MAXIMPLEMENTATIONS;
    let has = known
        && !(*task).cl.is_null()
        && functions::function_of(task, worker as usize, implementation as usize).is_some();
    c_int::from(has && functions::allowed(task, worker as usize))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_worker_can_execute_task_first_impl(
    worker: c_uint,
    task: *mut starpu_task,
    implementation: *mut c_uint,
) -> c_int {
    for at in 0..STARPU_MAXIMPLEMENTATIONS as c_uint {
        if starpu_worker_can_execute_task(worker, task, at) != 0 {
            if let Some(place) = implementation.as_mut() {
                *place = at;
            }
            return 1;
        }
    }
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_worker_can_execute_task_impl(
    worker: c_uint,
    task: *mut starpu_task,
    mask: *mut c_uint,
) -> c_int {
    let able = |at: &c_uint| starpu_worker_can_execute_task(worker, task, *at) != 0;
    let found = (0..STARPU_MAXIMPLEMENTATIONS as c_uint).filter(able).fold(0, |mask, at| mask | 1 << at);
    if let Some(place) = mask.as_mut() {
        *place = found;
    }
    c_int::from(found != 0)
}

/// Returns the name of a policy, from the environment or from the configuration.
///
/// # Safety
/// `configured` is null or a string of C.
pub unsafe fn requested(configured: *const std::ffi::c_char) -> Option<String> {
    let from_environment = std::env::var("STARPU_SCHED").ok().filter(|name| !name.is_empty());
    from_environment.or_else(|| {
        (!configured.is_null()).then(|| CStr::from_ptr(configured).to_string_lossy().into_owned())
    })
}

/// Takes a task that was put into the queue of a worker.
fn local(worker: usize) -> Option<*mut starpu_task> {
    let mut all = LOCAL.lock();
    let at = all.iter().position(|(of, _)| *of == worker)?;
    Some(all.remove(at).1.get())
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_push_local_task(
    worker: c_int,
    task: *mut starpu_task,
    first: c_int,
) -> c_int {
    let entry = (worker.max(0) as usize, Carried(task));
    let mut all = LOCAL.lock();
    if first != 0 {
        all.insert(0, entry)
    } else {
        all.push(entry)
    }
    drop(all);
    starpu_wake_workers();
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_push_task_end(_task: *mut starpu_task) -> c_int {
    starpu_wake_workers();
    0
}

/// Wakes the workers: a policy of the application has a task for one of them.
#[unsafe(no_mangle)]
pub extern "C" fn starpu_wake_workers() {
    if let Some(instance) = get() {
        wake_all(instance);
    }
}

/// Defines functions that wake a worker.
macro_rules! wakes {
    ($($name:ident)*) => {
        $(#[unsafe(no_mangle)]
        pub extern "C" fn $name(_worker: c_int) -> c_int {
            starpu_wake_workers();
            1
        })*
    };
}

wakes! {
    starpu_wake_worker starpu_wake_worker_locked starpu_wake_worker_no_relax starpu_wake_worker_relax
    starpu_wake_worker_relax_light
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_get_prefetch_flag() -> c_int {
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_get_sched_policy() -> *mut starpu_sched_policy {
    OWN.load(Ordering::Acquire)
}

#[unsafe(no_mangle)]
pub extern "C" fn starpu_sched_get_sched_policy_in_ctx(_context: c_uint) -> *mut starpu_sched_policy {
    starpu_sched_get_sched_policy()
}
