//! The same steps, executed one after the other in the order of submission, on plain values.

use std::ops::Range;
use std::sync::Arc;

use zellige_runtime::{Choice, Meta};

use super::case::{Access, Case, Fault, Job, Kind, Parts, Start, Step};
use super::choice::{choose, wanted};
use super::rng::blend;
use super::value::Value;

/// The result of a step for the submitting thread.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shown {
    Nothing,
    /// The value; `None`: it is poisoned.
    Value(Option<Value>),
    /// True if the job failed.
    Failed(bool),
}

/// The expected result of a case.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    /// One result for each step.
    pub(super) shown: Vec<Shown>,
    /// One entry for each remaining handle that was written: its value, or poison.
    pub(super) left: Vec<Option<Option<Value>>>,
}

/// The group of accesses that is open on a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Other,
    Commute,
    Reduce,
}

/// A handle.
struct Slot {
    kind: Kind,
    /// The current version, or the last one before the handle was poisoned.
    value: Option<Value>,
    poisoned: bool,
    written: bool,
    gone: bool,
    group: Group,
    /// True if some member of the open group writes other handles too.
    shared: bool,
    /// Maximum size of any version (bytes).
    largest: u64,
}

/// All handles.
pub(super) struct Oracle {
    slots: Vec<Slot>,
    /// The largest working set (bytes) of all tasks, and of those that could run on a device.
    largest_set: u64,
}

impl Oracle {
    pub(super) fn new() -> Self {
        Oracle { slots: Vec::new(), largest_set: 0 }
    }

    /// Adds a handle.
    pub(super) fn add(&mut self, start: &Start) {
        let value = Value::first(start);
        let largest = value.as_ref().map_or(0, |value| value.meta().bytes as u64);
        self.slots.push(Slot {
            kind: start.kind,
            written: value.is_some(),
            value,
            poisoned: false,
            gone: false,
            group: Group::Other,
            shared: false,
            largest,
        });
    }

    pub(super) fn kind(&self, handle: usize) -> Kind {
        self.slots[handle].kind
    }

    pub(super) fn is_written(&self, handle: usize) -> bool {
        self.slots[handle].written
    }

    pub(super) fn is_poisoned(&self, handle: usize) -> bool {
        self.slots[handle].poisoned
    }

    /// Returns the largest working set that has to fit at once (bytes).
    pub(super) fn largest_set(&self) -> u64 {
        self.largest_set
    }

    /// Returns the total of all handles at their largest (bytes).
    pub(super) fn everything(&self) -> u64 {
        self.slots.iter().map(|slot| slot.largest).sum()
    }

    /// True if the job has an intentional failure, or one of its inputs is poisoned.
    pub(super) fn would_fail(&self, job: &Job) -> bool {
        job.fault.is_some() || self.is_stopped(job, &|handle| handle)
    }

    fn is_stopped(&self, job: &Job, at: &dyn Fn(usize) -> usize) -> bool {
        let reads = job.accesses.iter().filter(|access| !matches!(access, Access::Write { .. }));
        reads.flat_map(|access| access.handles()).any(|&handle| self.slots[at(handle)].poisoned)
    }

    /// True if the results of the job, and of its neighbours, do not depend on their order. If a
    /// member of a commuting group fails, those after it do not run: that affects their other
    /// outputs.
    pub(super) fn is_certain(&self, job: &Job) -> bool {
        let several = job.written().count() > 1;
        let joins_shared = job.accesses.iter().filter(|access| access.commutes()).any(|access| {
            let slot = &self.slots[access.handles()[0]];
            slot.group == group_of(access) && slot.shared
        });
        !(job.commutes() && self.would_fail(job) && (several || joins_shared))
    }

    /// Runs a step.
    pub(super) fn step(&mut self, step: &Step) -> Shown {
        match step {
            Step::Submit(job) => {
                let failed = self.run(job, &|handle| handle);
                if job.waits && !job.commutes() { Shown::Failed(failed) } else { Shown::Nothing }
            }
            Step::Replay { jobs, times, instead } => {
                self.run_all(jobs, &|handle| handle);
                let (was, is) = instead.unwrap_or((usize::MAX, usize::MAX));
                for _ in 1..*times {
                    self.run_all(jobs, &|handle| if handle == was { is } else { handle });
                }
                Shown::Nothing
            }
            Step::Read { handle, .. } => {
                self.close(*handle);
                self.value(*handle)
            }
            Step::Change { handle, seed } => {
                self.close(*handle);
                let before = self.value(*handle);
                let slot = &mut self.slots[*handle];
                if !slot.poisoned
                    && let Some(value) = &mut slot.value
                {
                    value.mix(*seed);
                }
                before
            }
            Step::Take { handle } => {
                self.slots[*handle].gone = true;
                self.value(*handle)
            }
            Step::Drop { handle } => {
                self.slots[*handle].gone = true;
                Shown::Nothing
            }
            Step::Split(parts) | Step::Views(parts) => {
                parts.each().for_each(|(part, region)| self.cut(parts.handle, part, region));
                Shown::Nothing
            }
            Step::Join(parts) => {
                parts.each().for_each(|(part, region)| self.put_back(parts, part, region));
                Shown::Nothing
            }
            Step::Hint { .. } | Step::Wait => Shown::Nothing,
        }
    }

    /// Executes a task that copies a region out of a handle; it fails if the value does not have
    /// it.
    fn cut(&mut self, from: usize, part: usize, region: &Range<usize>) {
        self.close(from);
        let slot = &self.slots[from];
        let value = slot.value.as_ref().filter(|_| !slot.poisoned).and_then(|value| value.part(region));
        let to = &mut self.slots[part];
        to.largest = to.largest.max(Value::part_bytes(region));
        (to.written, to.poisoned, to.value) = (true, value.is_none(), value);
        self.note_copy(from, part);
    }

    /// Executes a task that copies a part back; it fails if the part has another length by now, or
    /// the value does not have the region.
    fn put_back(&mut self, parts: &Parts, part: usize, region: &Range<usize>) {
        self.close(part);
        self.close(parts.handle);
        self.note_copy(parts.handle, part);
        self.slots[part].gone = true;
        let from = &self.slots[part];
        let from = from.value.clone().filter(|_| !from.poisoned);
        let to = &mut self.slots[parts.handle];
        let put = match (&from, &mut to.value) {
            (Some(from), Some(to)) => to.put_part(region, from),
            _ => false,
        };
        to.poisoned |= !put;
    }

    /// Notes that both values must fit at once. The task may not run, and is refused for their
    /// stored sizes.
    fn note_copy(&mut self, one: usize, other: usize) {
        self.largest_set = self.largest_set.max(self.slots[one].largest + self.slots[other].largest);
    }

    /// Returns the number of words of a plain vector, if it has a value.
    pub(super) fn length(&self, handle: usize) -> Option<usize> {
        let slot = &self.slots[handle];
        slot.value.as_ref().filter(|_| !slot.poisoned).map(|value| value.meta().bytes / size_of::<u64>())
    }

    fn run_all(&mut self, jobs: &[Arc<Job>], at: &dyn Fn(usize) -> usize) {
        // A replay is one task that accesses all of its handles.
        let handles = || jobs.iter().flat_map(|job| &job.accesses).flat_map(Access::handles);
        handles().for_each(|&handle| self.close(at(handle)));
        for job in jobs {
            self.run(job, at);
        }
        handles().for_each(|&handle| self.close(at(handle)));
    }

    fn close(&mut self, handle: usize) {
        let slot = &mut self.slots[handle];
        (slot.group, slot.shared) = (Group::Other, false);
    }

    fn value(&self, handle: usize) -> Shown {
        let slot = &self.slots[handle];
        Shown::Value(if slot.poisoned { None } else { slot.value.clone() })
    }

    /// Runs a job on the handles that `at` substitutes for its own; true if it failed.
    fn run(&mut self, job: &Job, at: &dyn Fn(usize) -> usize) -> bool {
        self.join_groups(job, at);
        for handle in job.written() {
            self.slots[at(handle)].written = true;
        }
        let planned = matches!(job.fault, Some(Fault::Choice | Fault::Format));
        if self.is_stopped(job, at) || planned {
            self.note_stored(job, at);
            self.poison(job, at);
            return true;
        }
        let choice = if job.late { self.choice(job, at) } else { Choice::default() };
        self.note_set(job, at, &choice);
        if job.late {
            self.note_stored(job, at);
        }
        if job.fault.is_some() {
            self.note_remains(job, at);
            self.poison(job, at);
            return true;
        }
        let digest = self.digest(job, at, &choice);
        for (number, access) in job.accesses.iter().enumerate() {
            let seed = blend(digest, number as u64);
            let slot = &mut self.slots[at(access.handles()[0])];
            match access {
                Access::Read { .. } | Access::List { .. } => continue,
                Access::Update { becomes, .. } => {
                    let old = slot.value.as_ref().expect("not poisoned");
                    let mut value = old.as_format(wanted(access, number, 0, &choice));
                    value.mix(seed);
                    slot.value = Some(becomes.map_or(value.clone(), |format| value.as_format(format)));
                }
                Access::Write { format, len, .. } => {
                    slot.value = Some(Value::fresh(slot.kind, *format, *len, seed));
                    slot.poisoned = false;
                }
                Access::Commute { .. } | Access::Reduce { .. } => {
                    slot.value.as_mut().expect("not poisoned").add(seed);
                }
            }
            let bytes = slot.value.as_ref().map_or(0, |value| value.meta().bytes as u64);
            slot.largest = slot.largest.max(bytes);
        }
        false
    }

    fn join_groups(&mut self, job: &Job, at: &dyn Fn(usize) -> usize) {
        let several = job.written().count() > 1;
        for access in &job.accesses {
            let group = group_of(access);
            for &handle in access.handles() {
                let slot = &mut self.slots[at(handle)];
                let joins = group != Group::Other && slot.group == group;
                slot.shared = several || (joins && slot.shared);
                slot.group = group;
            }
        }
    }

    fn poison(&mut self, job: &Job, at: &dyn Fn(usize) -> usize) {
        for handle in job.written() {
            self.slots[at(handle)].poisoned = true;
        }
    }

    fn choice(&self, job: &Job, at: &dyn Fn(usize) -> usize) -> Choice {
        let meta =
            |&handle: &usize| self.slots[at(handle)].value.as_ref().map_or(Meta::default(), Value::meta);
        let metas: Vec<Meta> = job.accesses.iter().flat_map(Access::handles).map(meta).collect();
        choose(job, |access| self.kind(at(access.handles()[0])) != Kind::Plain, &metas)
    }

    fn note_set(&mut self, job: &Job, at: &dyn Fn(usize) -> usize, choice: &Choice) {
        let mut bytes = 0;
        for (number, access) in job.accesses.iter().enumerate() {
            for (element, &handle) in access.handles().iter().enumerate() {
                let format = wanted(access, number, element, choice);
                let slot = &mut self.slots[at(handle)];
                // The value left by a failed writer may have any size that the handle ever had.
                let size = match (&slot.value, slot.poisoned) {
                    (Some(value), false) => value.size_as(format),
                    _ => slot.largest,
                };
                // It may be converted in place, and a failing body then leaves that form.
                slot.largest = slot.largest.max(size);
                bytes += size;
            }
        }
        self.largest_set = self.largest_set.max(bytes);
    }

    /// Notes the stored sizes: a task with deferred selection, or one that will not run, may be
    /// refused for the stored size of its operands.
    fn note_stored(&mut self, job: &Job, at: &dyn Fn(usize) -> usize) {
        let stored = |&handle: &usize| self.slots[at(handle)].largest;
        let bytes = job.accesses.iter().flat_map(Access::handles).map(stored).sum();
        self.largest_set = self.largest_set.max(bytes);
    }

    /// Notes the sizes that a failing body leaves in its handles: nobody reads these values, but
    /// the next writer of a handle needs their memory.
    fn note_remains(&mut self, job: &Job, at: &dyn Fn(usize) -> usize) {
        for access in &job.accesses {
            let slot = &mut self.slots[at(access.handles()[0])];
            let bytes = match (access, &slot.value) {
                (Access::Write { format, len, .. }, _) => {
                    Value::fresh(slot.kind, *format, *len, 0).meta().bytes as u64
                }
                (Access::Update { becomes: Some(format), .. }, Some(value)) => value.size_as(*format),
                _ => 0,
            };
            slot.largest = slot.largest.max(bytes);
        }
    }

    /// Returns one number from all inputs of the job.
    fn digest(&self, job: &Job, at: &dyn Fn(usize) -> usize, choice: &Choice) -> u64 {
        let mut digest = blend(job.seed, choice.variant.into());
        for (number, access) in job.accesses.iter().enumerate().filter(|(_, access)| access.is_chosen_for()) {
            for (element, &handle) in access.handles().iter().enumerate() {
                let format = wanted(access, number, element, choice);
                let value = self.slots[at(handle)].value.as_ref().expect("not poisoned");
                digest = blend(digest, value.as_format(format).digest());
            }
        }
        digest
    }

    fn left(self) -> Vec<Option<Option<Value>>> {
        let left = |slot: Slot| {
            (slot.written && !slot.gone).then_some(if slot.poisoned { None } else { slot.value })
        };
        self.slots.into_iter().map(left).collect()
    }
}

fn group_of(access: &Access) -> Group {
    match access {
        Access::Commute { .. } => Group::Commute,
        Access::Reduce { .. } => Group::Reduce,
        _ => Group::Other,
    }
}

/// Returns the expected result of the case.
pub(super) fn expect(case: &Case) -> Expected {
    let mut oracle = Oracle::new();
    case.data.iter().for_each(|start| oracle.add(start));
    let shown = case.steps.iter().map(|step| oracle.step(step)).collect();
    Expected { shown, left: oracle.left() }
}
