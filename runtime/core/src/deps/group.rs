//! Groups of submitted tasks.

use std::sync::{Arc, Weak};

use super::Successors;
use crate::data::AnyHandle;
use crate::sync::{AtomicU32, Ordering};
use crate::task::Task;

/// Accesses of one kind that need no order among themselves.
pub(crate) struct Group {
    /// The number that edges in a trace name.
    pub(super) id: u64,
    /// The handle, where completion has partial results to combine. Weak: the handle's chain holds the group. While a member
    /// or a submitter is there the handle is; once it is gone nobody can ask for the sum.
    handle: Option<Weak<dyn AnyHandle>>,
    members: AtomicU32,
    pub(super) successors: Successors<Task>,
}

impl Group {
    pub(super) fn open(id: u64, handle: Option<Weak<dyn AnyHandle>>) -> Arc<Self> {
        let members = AtomicU32::new(1);
        Arc::new(Group { id, handle, members, successors: Successors::new() })
    }

    /// Adds a member; only while the chain's lock is held and the group is open.
    pub(super) fn join(&self) {
        self.members.fetch_add(1, Ordering::Relaxed);
    }

    /// True if nobody but the chain holds the group open.
    fn is_idle(&self) -> bool {
        self.members.load(Ordering::Acquire) == 1
    }

    /// The chain closes the group, under its lock: nobody joins any more. True if everybody has left by now, and whoever called has to
    /// `complete` the group once no chain is locked.
    pub(super) fn close(&self) -> bool {
        // Nobody can join while the chain is locked, so an idle group stays idle: who comes next needs no edge. A group that reduces
        // has partial results to combine first, which is user code and must not run under the chain's lock.
        if self.is_idle() && self.handle.is_none() {
            self.complete(|_| unreachable!("an open group has no successors"));
            return false;
        }
        self.leave()
    }

    /// A member completed, or the chain closed the group; true for whoever comes last and must then `complete` it.
    pub(crate) fn leave(&self) -> bool {
        self.members.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Shows the tasks that wait for the group.
    ///
    /// # Safety
    /// It does not complete meanwhile.
    pub(crate) unsafe fn each_after(&self, each: impl FnMut(*const Task)) {
        // SAFETY: by the caller's promise.
        unsafe { self.successors.look(None, each) };
    }

    /// Hands out the successors of a group that everybody has left, after combining its partial results.
    pub(crate) fn complete(&self, each: impl FnMut(*const Task)) {
        if let Some(handle) = self.handle.as_ref().and_then(Weak::upgrade) {
            handle.combine_partials(None);
        }
        self.successors.close(each);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;

    /// Two members leave while the chain closes the group: it is completed exactly once.
    #[test]
    fn a_group_is_completed_once() {
        loom::model(|| {
            let group = loom::sync::Arc::new(Group {
                id: 0,
                handle: None,
                members: AtomicU32::new(1),
                successors: Successors::new(),
            });
            group.join();
            group.join();
            let members: Vec<_> = (0..2)
                .map(|_| {
                    let group = loom::sync::Arc::clone(&group);
                    loom::thread::spawn(move || group.leave())
                })
                .collect();
            let by_chain = group.is_idle() || group.leave();
            let by_members = members.into_iter().map(|member| member.join().unwrap());
            let completions = by_members.filter(|last| *last).count() + usize::from(by_chain);
            assert_eq!(completions, 1);
        });
    }
}
