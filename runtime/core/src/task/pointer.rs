//! Shared pointers to tasks, and their memory.
//!
//! A thread that submits tasks takes their memory from a chunk that holds several: an allocation
//! for each task would cost as much as the analysis of its dependencies. A chunk is freed with the
//! last of its tasks.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::{self, AtomicU32};

use super::{Body, Task, TaskCell};
use crate::sync::Ordering;

/// Size of a chunk of small tasks [bytes]: a page with what the allocator adds. A task that runs
/// for long keeps its chunk.
const CHUNK: usize = (4 << 10) - 16;
/// Size of the largest task that shares a chunk [bytes].
const SMALL: usize = CHUNK / 4;
/// Alignment of chunks, and the largest alignment of a task that shares one.
const ALIGN: usize = 16;
/// Count of a chunk that a thread takes memory from; it is corrected once, when the chunk is full.
const OPEN: u32 = 1 << 30;

/// First bytes of a chunk.
struct TaskChunk {
    /// Number of tasks that have not been freed.
    left: AtomicU32,
    layout: Layout,
}

impl TaskChunk {
    /// Allocates a chunk with room for this layout after its first bytes; returns it with the
    /// offset of the room.
    fn allocate(room: Layout, left: u32) -> (NonNull<TaskChunk>, usize) {
        let (layout, offset) =
            Layout::new::<TaskChunk>().extend(room).expect("a task fits the address space");
        // SAFETY: the layout is not empty.
        let Some(chunk) = NonNull::new(unsafe { alloc(layout) }.cast::<TaskChunk>()) else {
            handle_alloc_error(layout)
        };
        // SAFETY: the first bytes of a new allocation, which has their alignment.
        unsafe { chunk.write(TaskChunk { left: AtomicU32::new(left), layout }) };
        (chunk, offset)
    }

    /// Frees `count` of the chunk's tasks, and the chunk with the last.
    ///
    /// # Safety
    /// They are not used any more, and not freed twice.
    unsafe fn free(this: NonNull<TaskChunk>, count: u32) {
        // SAFETY: by the caller's promise the last caller is the last one with access to it.
        unsafe {
            if this.as_ref().left.fetch_sub(count, Ordering::Release) == count {
                atomic::fence(Ordering::Acquire);
                let layout = this.as_ref().layout;
                dealloc(this.as_ptr().cast(), layout);
            }
        }
    }
}

/// The chunk that a thread takes memory from.
struct Current {
    chunk: Cell<Option<NonNull<TaskChunk>>>,
    used: Cell<usize>,
    /// Number of tasks in it so far.
    tasks: Cell<u32>,
}

impl Current {
    /// Returns a chunk and the offset of memory in it.
    #[inline]
    fn take(&self, layout: Layout) -> (NonNull<TaskChunk>, usize) {
        let offset = self.used.get().next_multiple_of(layout.align());
        let end = offset + layout.size();
        match self.chunk.get() {
            Some(chunk) if end <= CHUNK && layout.align() <= ALIGN => {
                self.used.set(end);
                self.tasks.set(self.tasks.get() + 1);
                (chunk, offset)
            }
            _ => self.take_elsewhere(layout),
        }
    }

    #[cold]
    fn take_elsewhere(&self, layout: Layout) -> (NonNull<TaskChunk>, usize) {
        if layout.size() > SMALL || layout.align() > ALIGN {
            return TaskChunk::allocate(layout, 1);
        }
        self.close();
        let first = size_of::<TaskChunk>().next_multiple_of(ALIGN);
        let room = Layout::from_size_align(CHUNK - first, ALIGN).expect("a power of two");
        let (chunk, offset) = TaskChunk::allocate(room, OPEN);
        self.chunk.set(Some(chunk));
        self.used.set(offset + layout.size());
        self.tasks.set(1);
        (chunk, offset)
    }

    /// Gives up the chunk; its tasks keep it.
    fn close(&self) {
        if let Some(chunk) = self.chunk.take() {
            // SAFETY: the tasks that were not taken are not used.
            unsafe { TaskChunk::free(chunk, OPEN - self.tasks.get()) };
        }
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        self.close();
    }
}

thread_local! {
    static CURRENT: Current =
        const { Current { chunk: Cell::new(None), used: Cell::new(0), tasks: Cell::new(0) } };
}

/// Returns uninitialised memory for a task, and its offset in its chunk.
#[inline]
pub(super) fn allocate<B: Body>() -> (NonNull<TaskCell<B>>, u32) {
    let layout = Layout::new::<TaskCell<B>>();
    // If thread-local variables are gone it is allocated alone.
    let (chunk, offset) =
        CURRENT.try_with(|current| current.take(layout)).unwrap_or_else(|_| TaskChunk::allocate(layout, 1));
    // SAFETY: the offset is within the chunk.
    (unsafe { chunk.byte_add(offset) }.cast(), offset as u32)
}

/// Shared pointer to a task. It differs from an `Arc` in the task's memory.
pub(crate) struct TaskPtr(NonNull<Task>);

// SAFETY: it gives shared access alone, and a task is Send and Sync.
unsafe impl Send for TaskPtr {}
// SAFETY: as above.
unsafe impl Sync for TaskPtr {}

impl TaskPtr {
    /// Returns the address of the task.
    #[inline]
    pub(crate) fn as_ptr(this: &Self) -> *const Task {
        this.0.as_ptr()
    }

    /// Returns the address of the task, which keeps the pointer's share of it.
    #[inline]
    pub(crate) fn into_raw(this: Self) -> *const Task {
        let task = this.0.as_ptr();
        std::mem::forget(this);
        task
    }

    /// Creates a pointer from a share of the task.
    ///
    /// # Safety
    /// The share is that of [`into_raw`](Self::into_raw) or of a new task, and has not been used.
    #[inline]
    pub(crate) unsafe fn from_raw(task: *const Task) -> Self {
        // SAFETY: the address of a task is not null.
        TaskPtr(unsafe { NonNull::new_unchecked(task.cast_mut()) })
    }

    /// Creates another pointer to a task.
    ///
    /// # Safety
    /// The task is alive.
    #[inline]
    pub(crate) unsafe fn share(task: *const Task) -> Self {
        // SAFETY: by the caller's promise.
        unsafe {
            (*task).references.fetch_add(1, Ordering::Relaxed);
            TaskPtr::from_raw(task)
        }
    }

    /// Returns true if both point to one task.
    #[inline]
    pub(crate) fn is(&self, other: &TaskPtr) -> bool {
        ptr::addr_eq(self.0.as_ptr(), other.0.as_ptr())
    }

    /// Drops the task and frees its memory.
    #[inline(never)]
    fn free(&self) {
        atomic::fence(Ordering::Acquire);
        // SAFETY: this was the last pointer to the task. Its address was made from the chunk's.
        unsafe {
            let offset = self.0.as_ref().offset as usize;
            self.0.drop_in_place();
            TaskChunk::free(self.0.cast::<TaskChunk>().byte_sub(offset), 1);
        }
    }
}

impl Clone for TaskPtr {
    #[inline]
    fn clone(&self) -> Self {
        // SAFETY: this pointer keeps it alive.
        unsafe { TaskPtr::share(self.0.as_ptr()) }
    }
}

impl Drop for TaskPtr {
    #[inline]
    fn drop(&mut self) {
        if self.references.fetch_sub(1, Ordering::Release) == 1 {
            self.free();
        }
    }
}

impl Deref for TaskPtr {
    type Target = Task;

    #[inline]
    fn deref(&self) -> &Task {
        // SAFETY: the pointer keeps the task alive.
        unsafe { self.0.as_ref() }
    }
}
