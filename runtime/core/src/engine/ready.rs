//! Ready tasks as scheduling policies see them.

use std::any::Any;
use std::fmt;

use zellige_model::TaskInfo;

use super::Job;
use crate::task::{ReadyTask, Work};

impl ReadyTask {
    /// True if not every worker may run it: a policy then has to
    /// [ask](crate::sched::SchedView::can_run), even if all workers are alike.
    pub fn is_restricted(&self) -> bool {
        match self.work() {
            // Its header is cold memory.
            Work::Replay(task) => task.is_restricted(),
            work => work.header().only.is_some(),
        }
    }

    /// Returns its priority; a higher one comes first. A task that a body has submitted has at
    /// least that body's priority while the body waits, so the result may
    /// [change](crate::sched::Policy::sort_again).
    pub fn priority(&self) -> i32 {
        self.work().priority()
    }

    /// Returns the codelet's name.
    pub fn codelet(&self) -> &'static str {
        self.work().header().name
    }

    /// Returns cost, coordinates and label.
    pub fn info(&self) -> &TaskInfo {
        &self.work().header().info
    }

    /// Returns the maximum number of tasks in one call of its codelet, on a device or on a CPU; 0
    /// or 1: it runs alone.
    pub(crate) fn batch(&self, on_device: bool) -> usize {
        let batch = match self.work() {
            Work::Task(task) => task.header.implementations.together(on_device),
            Work::Replay(task) => task.batch(on_device),
        };
        batch as usize
    }

    /// True if the two can run in one call: they have the same codelet, which accepts
    /// [several](crate::Codelet::batch), and the same label and shape.
    pub fn is_like(&self, other: &ReadyTask) -> bool {
        let (ours, theirs) = (self.work().header(), other.work().header());
        self.batch(true) > 1
            && other.batch(true) > 1
            && self.runtime() == other.runtime()
            && ours.name == theirs.name
            && ours.info.has_same_footprint(&theirs.info)
            && is_same_type(self.work().body().as_any(), other.work().body().as_any())
    }

    /// Returns the task's number.
    pub fn id(&self) -> u64 {
        self.work().id()
    }
}

fn is_same_type(a: Option<&dyn Any>, b: Option<&dyn Any>) -> bool {
    a.zip(b).is_some_and(|(a, b)| a.type_id() == b.type_id())
}

#[cfg(test)]
impl ReadyTask {
    /// Creates a task that belongs to no runtime and does nothing.
    pub(crate) fn mock(id: u64, name: &'static str, priority: i32, info: TaskInfo) -> Self {
        use crate::task::{Accesses, Body, Env, Header, Implementations, Ran, Role, TaskCell};
        use zellige_model::CachedId;

        struct Nothing;
        impl Body for Nothing {
            fn run<'e>(&'e self, _env: &mut Env<'e>) -> Ran {
                Ran::Done
            }
            fn as_any(&self) -> Option<&dyn Any> {
                Some(self)
            }
            fn declare<'a>(&'a self, _out: &mut Accesses<'a>) {}
            fn clear(&self) {}
        }
        let implementations = Implementations { batch: u32::MAX, ..Implementations::default() };
        let header = Header {
            id,
            runtime: u32::MAX,
            name,
            priority,
            info,
            only: None,
            model: CachedId::default(),
            implementations,
            tally: None,
        };
        ReadyTask::new(Work::Task(TaskCell::make(header, Role::Work, Nothing)))
    }
}

impl fmt::Debug for ReadyTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadyTask({} #{})", self.work().header().title(), self.id())
    }
}
