//! Submission of tasks: what they wait for, and how their data are held.

use std::collections::BTreeMap;
use std::ffi::c_int;

use parking_lot::Mutex;
use zellige_runtime::internal::ranks::Event;
use zellige_runtime::internal::untyped::{self, TokenAccess, UntypedOptions};
use zellige_runtime::{Mode, TaskRef};

use crate::acquire::Slot;
use crate::data::Carried;
use crate::functions::{allowed, is_restricted};
use crate::gate::{Parked, Passage};
use crate::instance::{Instance, as_task, complain, errno, get, must_not_wait, needed};
use crate::state::{begin as begin_run, state};
use crate::types::*;
use crate::work::{Ended, Work, end, end_empty, free_task, name_of};

/// True for a task that no worker runs.
pub unsafe fn is_empty(task: *mut starpu_task) -> bool {
    let codelet = (*task).cl;
    codelet.is_null() || place(task) == STARPU_NOWHERE
}

/// Returns the kinds of worker on which the task may run; 0: those that have a function.
unsafe fn place(task: *mut starpu_task) -> u32 {
    if (*task).where_ >= 0 { (*task).where_ as u32 } else { (*(*task).cl).where_ }
}

/// Returns true if some worker may run the task.
unsafe fn has_worker(instance: &Instance, task: *mut starpu_task) -> bool {
    (0..instance.workers).any(|worker| allowed(task, worker))
}

/// Submits a task. Returns 0 or a negative error number; then nothing has been submitted.
pub unsafe fn submit(task: *mut starpu_task) -> c_int {
    let Some(instance) = needed("starpu_task_submit") else { return -errno::ENODEV };
    let synchronous = (*task).synchronous != 0;
    if synchronous && must_not_wait("starpu_task_submit of a synchronous task") {
        return -errno::EDEADLK;
    }
    let empty = is_empty(task);
    if !empty && !has_worker(instance, task) {
        return -errno::ENODEV;
    }
    let work = match Work::prepare(instance, task) {
        Ok(work) => work,
        Err(why) => {
            complain(format_args!("starpu_task_submit of {}: {why}", name_of(task)));
            return -errno::EINVAL;
        }
    };
    if synchronous {
        (*task).detach = 0;
    }
    let state = begin_run(task);
    crate::profiling::at_submit(task);
    crate::policy::at_submit(task);
    instance.unfinished.add();
    let ends_missing = state.as_ref().is_some_and(|state| state.inner.lock().ends_missing > 0);
    let apart = empty || (*task).prologue_callback_func.is_some() || ends_missing;
    let before = ordered_behind(instance, task);
    let usual = !apart && state.is_none() && (*task).use_tag == 0 && before.is_none();
    let submitted = if usual {
        submit_work(instance, work, &[])
    } else {
        let before = before.into_iter().collect();
        let tag_passed = (*task).use_tag == 0;
        let tasks_passed = state.is_none();
        Submission { work, before, apart, tag_passed, tasks_passed }.advance(instance)
    };
    if let Err(code) = submitted {
        instance.unfinished.remove();
        crate::state::undo(task);
        return code;
    }
    if synchronous {
        crate::state::state(task).wait(instance);
        if (*task).destroy != 0 {
            free_task(task);
        }
    }
    0
}

/// A task that is being submitted, with its declared predecessors.
pub struct Submission {
    work: Work,
    before: Vec<TaskRef>,
    /// True if its data are held apart: for a task that no worker runs, one whose prologue runs
    /// when they are there, and one that ends later than its body.
    apart: bool,
    /// True once it need not wait for other tags.
    tag_passed: bool,
    /// True once it need not wait for declared tasks.
    tasks_passed: bool,
}

/// A task without data or predecessors that the runtime knows, which is being submitted.
pub struct Bare {
    task: Carried<starpu_task>,
    apart: bool,
    tasks_passed: bool,
}

impl From<Bare> for Submission {
    fn from(bare: Bare) -> Submission {
        let Bare { task, apart, tasks_passed } = bare;
        Submission { work: Work::of(task.get()), before: Vec::new(), apart, tag_passed: true, tasks_passed }
    }
}

impl Submission {
    /// Returns it as what a gate keeps.
    fn parked(self) -> Parked {
        if self.work.is_bare() && self.before.is_empty() {
            let task = Carried(self.work.task);
            Parked::Bare(Bare { task, apart: self.apart, tasks_passed: self.tasks_passed })
        } else {
            Parked::Task(Box::new(self))
        }
    }

    /// Submits the task, unless it has no data and has to wait: then it is parked. One with data
    /// takes its place in their order at once, behind events.
    pub unsafe fn advance(mut self, instance: &Instance) -> Result<(), c_int> {
        let task = self.work.task;
        if !self.work.accesses.is_empty() {
            let mut event = |name| {
                let event = Event::of(&instance.rt, name).ok()?;
                self.before.push(event.task().clone());
                Some(Parked::Event(event))
            };
            if !self.tag_passed {
                let _ = instance.tags.give((*task).tag_id, task, || event("tag"));
            }
            if !self.tasks_passed {
                let _ = state(task).inner.lock().gate.arrive(|| event("tasks"));
            }
            return self.submit(instance);
        }
        if !std::mem::replace(&mut self.tag_passed, true) {
            let park = || Some(self.parked());
            return match instance.tags.give((*task).tag_id, task, park) {
                Passage::Parked => Ok(()),
                Passage::Free(park) => park().map_or(Ok(()), |parked| parked.go_on(instance)),
            };
        }
        if !std::mem::replace(&mut self.tasks_passed, true) {
            let park = || Some(self.parked());
            let passage = state(task).inner.lock().gate.arrive(park);
            return match passage {
                Passage::Parked => Ok(()),
                Passage::Free(park) => park().map_or(Ok(()), |parked| parked.go_on(instance)),
            };
        }
        self.submit(instance)
    }

    unsafe fn submit(self, instance: &Instance) -> Result<(), c_int> {
        if self.apart {
            submit_apart(instance, self.work, &self.before)
        } else {
            submit_work(instance, self.work, &self.before)
        }
    }
}

/// Order of tasks on one worker.
struct WorkerOrder {
    /// Number of the task that runs next.
    next: u32,
    /// Events that tasks with later numbers wait for.
    waiting: BTreeMap<u32, Event>,
}

static ORDER: Mutex<BTreeMap<usize, WorkerOrder>> = Mutex::new(BTreeMap::new());

/// Forgets the orders of tasks on workers, at the end of an instance.
pub fn forget_order() {
    ORDER.lock().clear();
}

/// Returns the predecessor of a task that has a number in the order of its worker, unless it is the
/// next one.
unsafe fn ordered_behind(instance: &Instance, task: *mut starpu_task) -> Option<TaskRef> {
    let number = (*task).workerorder;
    if number == 0 || (*task).execute_on_a_specific_worker == 0 {
        return None;
    }
    let mut order = ORDER.lock();
    let first = || WorkerOrder { next: 1, waiting: BTreeMap::new() };
    let of_worker = order.entry((*task).workerid as usize).or_insert_with(first);
    if number <= of_worker.next {
        return None;
    }
    let event = Event::of(&instance.rt, "order").ok()?;
    let before = event.task().clone();
    of_worker.waiting.insert(number, event);
    Some(before)
}

/// Lets the task that follows in the order of the worker run.
pub unsafe fn next_in_order(task: *mut starpu_task) {
    let number = (*task).workerorder;
    if number == 0 || (*task).execute_on_a_specific_worker == 0 {
        return;
    }
    let released = ORDER.lock().get_mut(&((*task).workerid as usize)).and_then(|of_worker| {
        of_worker.next = of_worker.next.max(number + 1);
        of_worker.waiting.remove(&(number + 1))
    });
    drop(released);
}

/// Submits the part of a task that a worker runs.
unsafe fn submit_work(instance: &Instance, mut work: Work, before: &[TaskRef]) -> Result<(), c_int> {
    let task = work.task;
    let codelet = (*task).cl;
    let restricted = is_restricted(instance, task);
    // A body counts the tasks that are submitted in it, such as those behind its tag.
    work.plain = work.slot().is_none()
        && ((*task).use_tag == 0 || !work.accesses.is_empty())
        && (*task).regenerate == 0
        && (*task).callback_func.is_none()
        && (*codelet).callback_func.is_none();
    let name = name_of(task);
    let options = UntypedOptions {
        name,
        priority: crate::policy::capped((*task).priority),
        after: before,
        restricted,
        flops: (*task).flops,
    };
    match untyped::submit(&instance.rt, options, work) {
        Ok(_) => Ok(()),
        Err(error) => {
            complain(format_args!("starpu_task_submit of {name}: {error}"));
            Err(-errno::EINVAL)
        }
    }
}

/// Submits a task whose data are held apart.
unsafe fn submit_apart(instance: &Instance, mut work: Work, before: &[TaskRef]) -> Result<(), c_int> {
    let slot = Slot::default();
    let mut held = Vec::new();
    for access in std::mem::take(&mut work.accesses) {
        // A turn among tasks that commute is the worker's; its place in the order is held here.
        if access.mode == Mode::Commute || !access.ordered {
            let token = access.handle.clone();
            work.accesses.push(TokenAccess { handle: token, mode: Mode::Commute, ordered: false });
        }
        if access.ordered {
            held.push(access);
        }
    }
    work.hold_apart(slot.clone());
    // SAFETY: the turn has come, and the task has not begun.
    let hold = untyped::hold(&instance.rt, held, before, move || unsafe { begin(work) });
    match hold {
        Ok(hold) => {
            slot.keep(hold);
            Ok(())
        }
        Err(error) => {
            complain(format_args!("starpu_task_submit: {error}"));
            Err(-errno::EINVAL)
        }
    }
}

/// Begins a task whose data are held apart: their turn has come.
unsafe fn begin(work: Work) {
    let (task, slot) = (work.task, work.slot());
    if let Some(prologue) = (*task).prologue_callback_func {
        as_task(task, || prologue((*task).prologue_callback_arg));
    }
    if !is_empty(task) {
        let Some(instance) = get() else { return };
        if submit_work(instance, work, &[]).is_err() {
            end(task, slot);
        }
        return;
    }
    as_task(task, || {
        if let Some(callback) = (*task).prologue_callback_pop_func {
            callback((*task).prologue_callback_pop_arg);
        }
        if let Some(callback) = (*task).epilogue_callback_func {
            callback((*task).epilogue_callback_arg);
        }
    });
    work.undo();
    end_empty(Ended { task, slot });
}
