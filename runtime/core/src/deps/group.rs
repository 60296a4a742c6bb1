//! Groups of submitted tasks.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use super::Successors;
use crate::sync::{AtomicU32, Ordering};

/// Callback for the end of a group, see [`AccessGroup::open`].
pub(crate) type AtEnd = Box<dyn Fn() + Send + Sync>;

/// Concurrent accesses of one kind, which need no order among themselves.
///
/// A group holds a reference to itself until all members have left, so that members need not count
/// references in addition.
pub(crate) struct AccessGroup<T> {
    /// Number of the group in the edges of a trace.
    pub(crate) id: u64,
    at_end: Option<AtEnd>,
    /// Number of members that have not left, plus one for the chain while the group is open.
    members: AtomicU32,
    pub(crate) successors: Successors<T>,
}

/// A task's membership in a group. The group lives until all members have left.
pub(crate) struct Membership<T>(NonNull<AccessGroup<T>>);

impl<T: Copy> AccessGroup<T> {
    /// Creates an open group; `at_end` is called when all members have left, before the successors
    /// are handed out.
    pub(crate) fn open(id: u64, at_end: Option<AtEnd>) -> Arc<Self> {
        let members = AtomicU32::new(1);
        let group = Arc::new(AccessGroup { id, at_end, members, successors: Successors::new() });
        // The group's own reference; `complete` takes it over.
        std::mem::forget(Arc::clone(&group));
        group
    }

    /// Adds a member; only while the chain's lock is held and the group is open.
    pub(crate) fn join(self: &Arc<Self>) -> Membership<T> {
        self.members.fetch_add(1, Ordering::Relaxed);
        Membership(NonNull::from(&**self))
    }

    /// Returns true if only the chain holds the group open.
    fn is_idle(&self) -> bool {
        self.members.load(Ordering::Acquire) == 1
    }

    /// Closes the group, under the chain's lock: nobody joins any more. Returns true if all members
    /// have left; the caller then must `complete` the group once no chain is locked.
    pub(crate) fn close(self: &Arc<Self>) -> bool {
        // Nobody can join while the chain is locked, so an idle group stays idle, and the next
        // access needs no edge. A group that reduces must combine its partial results first, which
        // is user code and must not run under the chain's lock.
        if self.is_idle() && self.at_end.is_none() {
            // SAFETY: everybody has left but the chain, which does now.
            unsafe { Self::complete(Arc::as_ptr(self), |_| unreachable!("an open group has no successors")) };
            return false;
        }
        self.members.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Hands out the successors of a group that all members have left, after combining its partial
    /// results, and drops the group's reference to itself.
    ///
    /// # Safety
    /// The caller is the last member that left, or [`close`](Self::close) returned true; nobody
    /// else calls this.
    pub(crate) unsafe fn complete(group: *const Self, each: impl FnMut(T)) {
        // SAFETY: the group's own reference, which `open` forgot, is taken over once.
        let group = unsafe { Arc::from_raw(group) };
        if let Some(at_end) = &group.at_end {
            at_end();
        }
        group.successors.close(each);
    }
}

/// Removes one member; returns true for the last one.
fn counts_out<T>(group: NonNull<AccessGroup<T>>) -> bool {
    // SAFETY: the group is alive until the count has changed. No reference to it as a whole is
    // made, since that would have to stay valid until this returns; the one to the counter need
    // not, since a counter is changed through shared references.
    unsafe { (*group.as_ptr()).members.fetch_sub(1, Ordering::AcqRel) == 1 }
}

impl<T: Copy> Membership<T> {
    /// Leaves the group when the member's task completes: the last member completes the group, and
    /// `each` gets the successors.
    pub(crate) fn leave(self, each: impl FnMut(T)) {
        let Membership(group) = *ManuallyDrop::new(self);
        if counts_out(group) {
            // SAFETY: this was the last.
            unsafe { AccessGroup::complete(group.as_ptr(), each) };
        }
    }

    /// Calls `each` with the tasks that wait for the group.
    ///
    /// # Safety
    /// The member's task does not complete meanwhile.
    pub(crate) unsafe fn each_after(&self, each: impl FnMut(T)) {
        // SAFETY: a group does not complete before its members, by the caller's promise.
        unsafe { self.0.as_ref().successors.look(None, each) };
    }
}

impl<T> Drop for Membership<T> {
    /// A member that is dropped never completes, since the runtime is broken: neither does the
    /// group, but its memory is freed.
    fn drop(&mut self) {
        if counts_out(self.0) {
            // SAFETY: everybody has left: the group's own reference is taken over once.
            drop(unsafe { Arc::from_raw(self.0.as_ptr()) });
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::deps::Edge;
    /// A member that moves to the thread on which it leaves.
    struct Moved(Membership<*const u32>);

    // SAFETY: a group is counted by atomic operations, and alive while a member has not left.
    unsafe impl Send for Moved {}

    /// Two members leave while the chain closes the group and a task comes after it: that task is
    /// notified exactly once or needs no edge.
    #[test]
    fn a_group_is_completed_once() {
        loom::model(|| {
            let told = loom::sync::Arc::new(AtomicU32::new(0));
            let group = AccessGroup::<*const u32>::open(0, None);
            let members = [group.join(), group.join()];
            let members = members.map(|member| {
                let told = loom::sync::Arc::clone(&told);
                let member = Moved(member);
                loom::thread::spawn(move || {
                    let member: Moved = member;
                    member.0.leave(|_| {
                        told.fetch_add(1, Ordering::Relaxed);
                    });
                })
            });
            if group.close() {
                // SAFETY: everybody has left.
                unsafe {
                    AccessGroup::complete(Arc::as_ptr(&group), |_| unreachable!("nothing has been pushed"))
                };
            }
            let mut edge = Box::new(Edge::new(std::ptr::null()));
            // SAFETY: the edge outlives the members, which are joined below.
            let pushed = unsafe { group.successors.push(&raw mut *edge) };
            members.into_iter().for_each(|member| member.join().unwrap());
            assert_eq!(told.load(Ordering::Relaxed), u32::from(pushed));
            assert_eq!(Arc::strong_count(&group), 1, "the group has given up its own reference");
        });
    }
}
