//! Stack of successors of one node: submitters push to it, and the thread that completes the node
//! closes it once.

use std::ptr;

use crate::sync::{AtomicPtr, Ordering};

/// One dependency, stored in the successor, which stays alive until it has been counted down.
pub(crate) struct Edge<T> {
    next: *mut Edge<T>,
    target: T,
}

// SAFETY: an Edge is plain data; it is written before it is published and read by the one thread
// that closed the stack.
unsafe impl<T: Send> Send for Edge<T> {}
// SAFETY: it is written before it is published, and afterwards only read.
unsafe impl<T: Sync> Sync for Edge<T> {}

impl<T> Edge<T> {
    /// Creates an edge to `target`, in no stack yet.
    pub(crate) fn new(target: T) -> Self {
        Edge { next: ptr::null_mut(), target }
    }
}

/// Position in a node's stack of successors at some moment.
pub(crate) struct UpTo<T>(*mut Edge<T>);

// SAFETY: an address, which only `look` dereferences.
unsafe impl<T: Send> Send for UpTo<T> {}

/// The successors of a node that has not completed, or the mark that it has.
pub(crate) struct Successors<T>(AtomicPtr<Edge<T>>);

impl<T: Copy> Successors<T> {
    pub(crate) fn new() -> Self {
        Successors(AtomicPtr::new(ptr::null_mut()))
    }

    fn closed() -> *mut Edge<T> {
        ptr::without_provenance_mut(1)
    }

    /// Adds `edge`; returns false if the node has completed, and then does not use the edge.
    ///
    /// # Safety
    /// `edge` is valid, in no stack, touched by nobody else, and stays where it is until its target
    /// is yielded by `close`.
    pub(crate) unsafe fn push(&self, edge: *mut Edge<T>) -> bool {
        let mut head = self.0.load(Ordering::Relaxed);
        loop {
            if head == Self::closed() {
                // Everything that the completed node wrote must be visible to the task that needs
                // no edge.
                self.0.load(Ordering::Acquire);
                return false;
            }
            // SAFETY: nobody else touches the edge before the exchange below publishes it.
            unsafe { (*edge).next = head };
            match self.0.compare_exchange_weak(head, edge, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => head = now,
            }
        }
    }

    /// Returns true if the node has completed; all its writes are visible then.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.load(Ordering::SeqCst) == Self::closed()
    }

    /// Calls `each` with the targets of the existing edges, latest first: all of them, or those
    /// that existed when `as_of` was returned.
    ///
    /// # Safety
    /// The node does not complete meanwhile.
    pub(crate) unsafe fn look(&self, as_of: Option<UpTo<T>>, mut each: impl FnMut(T)) -> UpTo<T> {
        let first = as_of.unwrap_or_else(|| UpTo(self.0.load(Ordering::Acquire)));
        let mut edge = first.0;
        while !edge.is_null() {
            // SAFETY: published by `push` (Release) before the head was read (Acquire), and not
            // changed since; its owner is alive until the node completes, which it does not.
            let (next, target) = unsafe { ((*edge).next, (*edge).target) };
            each(target);
            edge = next;
        }
        first
    }

    /// Marks the node complete and hands out every successor's target, latest first.
    pub(crate) fn close(&self, mut each: impl FnMut(T)) {
        let mut edge = self.0.swap(Self::closed(), Ordering::SeqCst);
        if edge == Self::closed() {
            return;
        }
        while !edge.is_null() {
            // SAFETY: published by `push` (Release) and taken by the swap (Acquire); its owner is
            // alive until `each` has been called with its target, so it is read first.
            let (next, target) = unsafe { ((*edge).next, (*edge).target) };
            each(target);
            edge = next;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn hands_out_what_was_pushed_and_refuses_afterwards() {
        let (a, b, c) = (1u32, 2u32, 3u32);
        let mut edges = [&raw const a, &raw const b, &raw const c].map(Edge::new);
        let stack = Successors::new();
        let first = edges.as_mut_ptr();
        // SAFETY: distinct edges of an array that outlives the stack.
        unsafe {
            assert!(stack.push(first));
            assert!(stack.push(first.add(1)));
        }
        let mut seen = Vec::new();
        // SAFETY: the node is completed below.
        unsafe {
            let up_to = stack.look(None, |t| seen.push(*t));
            assert!(stack.push(first.add(2)));
            stack.look(Some(up_to), |t| seen.push(*t));
        }
        assert_eq!(seen, [2, 1, 2, 1], "the first two, twice");
        seen.clear();
        // SAFETY: the targets are the locals above.
        stack.close(|t| seen.push(unsafe { *t }));
        assert_eq!(seen, [3, 2, 1]);
        // SAFETY: the edge is in no stack any more.
        assert!(!unsafe { stack.push(first) });
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// A task is counted down exactly once, by the completing predecessor or by its submitter.
    #[test]
    fn an_edge_is_refused_or_counted_down_once() {
        loom::model(|| {
            let stack = Arc::new(Successors::<*const AtomicU32>::new());
            let pending = Arc::new(AtomicU32::new(2));
            let completer = {
                let stack = Arc::clone(&stack);
                loom::thread::spawn(move || {
                    stack.close(|target| {
                        // SAFETY: the main thread keeps the counter alive until it joins.
                        unsafe { &*target }.fetch_sub(1, Ordering::AcqRel);
                    });
                })
            };
            let mut edge = Box::new(Edge::new(Arc::as_ptr(&pending)));
            // SAFETY: the edge is boxed and outlives the completer, which is joined below.
            if !unsafe { stack.push(&raw mut *edge) } {
                pending.fetch_sub(1, Ordering::AcqRel);
            }
            completer.join().unwrap();
            stack.close(|target| {
                // SAFETY: the counter is in an Arc of this thread's.
                unsafe { &*target }.fetch_sub(1, Ordering::AcqRel);
            });
            assert_eq!(pending.load(Ordering::Relaxed), 1);
        });
    }
}
