//! Descriptions of tasks for submission.

use std::sync::Arc;

use zellige_model::{CachedId, TaskInfo};

use super::{Header, Implementations, Only, Tally, TaskRef};

/// A task that has been described and not yet submitted: a body of type `B`.
pub struct Spec<B> {
    pub(crate) body: B,
    pub(crate) options: Options,
}

/// Options of a task, in addition to its body.
pub(crate) struct Options {
    pub(crate) name: &'static str,
    pub(crate) info: TaskInfo,
    pub(crate) priority: i32,
    pub(crate) after: Vec<TaskRef>,
    /// Restriction to some workers, if there is one.
    pub(crate) only: Option<Box<Only>>,
    pub(crate) implementations: Implementations,
}

impl<B> Spec<B> {
    /// Returns its name, its coordinates (`u32::MAX` if unused) and its body.
    pub fn parts(&self) -> (&'static str, [u32; 3], &B) {
        (self.options.name, self.options.info.coords.unwrap_or([u32::MAX; 3]), &self.body)
    }
}

impl Options {
    /// Creates options with a name only.
    #[inline]
    pub(crate) fn named(name: &'static str) -> Self {
        Options {
            name,
            info: TaskInfo::default(),
            priority: 0,
            after: Vec::new(),
            only: None,
            implementations: Implementations::default(),
        }
    }

    /// Returns the header of a task with this number in this runtime, and its explicit
    /// predecessors.
    pub(crate) fn into_header(
        self,
        id: u64,
        runtime: u32,
        tally: Option<Arc<Tally>>,
    ) -> (Header, Vec<TaskRef>) {
        let Options { name, info, priority, after, only, implementations } = self;
        let model = CachedId::default();
        (Header { id, runtime, name, priority, info, only, model, implementations, tally }, after)
    }
}
