//! Memory of tasks: those that workers free are created again by the threads that submit.

use std::cell::UnsafeCell;
use std::ptr;

use parking_lot::Mutex;

use crate::c::{free, malloc};
use crate::data::Carried;
use crate::types::starpu_task;

/// Number of tasks that threads hand to each other at once.
const TOGETHER: usize = 64;

/// Tasks that are linked by `next`.
struct List {
    first: *mut starpu_task,
    count: usize,
}

/// Full lists for any thread.
static FULL: Mutex<Vec<Carried<starpu_task>>> = Mutex::new(Vec::new());

impl List {
    unsafe fn push(&mut self, task: *mut starpu_task) {
        if self.count == TOGETHER {
            FULL.lock().push(Carried(std::mem::replace(&mut self.first, ptr::null_mut())));
            self.count = 0;
        }
        (*task).next = self.first;
        self.first = task;
        self.count += 1;
    }

    unsafe fn pop(&mut self) -> *mut starpu_task {
        if self.first.is_null() {
            let Some(full) = FULL.lock().pop() else { return ptr::null_mut() };
            (self.first, self.count) = (full.0, TOGETHER);
        }
        let task = self.first;
        self.first = (*task).next;
        self.count -= 1;
        task
    }
}

unsafe fn free_all(mut first: *mut starpu_task) {
    while !first.is_null() {
        let next = (*first).next;
        free(first.cast());
        first = next;
    }
}

/// The list of a thread, which is freed with it.
struct OfThread(UnsafeCell<List>);

impl Drop for OfThread {
    fn drop(&mut self) {
        // SAFETY: these are nobody's tasks.
        unsafe { free_all(self.0.get_mut().first) };
    }
}

thread_local! {
    static FREE: OfThread = const { OfThread(UnsafeCell::new(List { first: ptr::null_mut(), count: 0 })) };
}

/// Calls `f` with the list of the calling thread, unless the thread ends.
unsafe fn with_list<R>(f: impl FnOnce(&mut List) -> R) -> Option<R> {
    // SAFETY: the list is the thread's alone, and `f` does not come here again.
    FREE.try_with(|list| f(unsafe { &mut *list.0.get() })).ok()
}

/// Returns memory for a task, which holds anything; null: there is none.
pub unsafe fn allocate() -> *mut starpu_task {
    let known = with_list(|list| list.pop()).unwrap_or_default();
    if known.is_null() { malloc(size_of::<starpu_task>()).cast() } else { known }
}

/// Takes memory of a task back that came from [`allocate`] or, since programs may set `destroy` in
/// tasks of their own, from `malloc`.
pub unsafe fn give_back(task: *mut starpu_task) {
    if with_list(|list| list.push(task)).is_none() {
        free(task.cast());
    }
}

/// Frees the tasks that no thread has taken, at the end of an instance.
pub unsafe fn drain() {
    let lists = std::mem::take(&mut *FULL.lock());
    lists.into_iter().for_each(|list| free_all(list.0));
    with_list(|list| free_all(std::mem::replace(list, List { first: ptr::null_mut(), count: 0 }).first));
}
