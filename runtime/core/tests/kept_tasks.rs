//! Memory cost of kept tasks, in a binary of its own with a counting allocator.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

use zellige_runtime::{Runtime, Submit, TaskRef, read, update};

struct Counting;

/// Allocated bytes.
static BYTES: AtomicIsize = AtomicIsize::new(0);

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: as the caller says of its layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: as the caller says of the memory and its layout.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn a_kept_task_costs_100_bytes() {
    const TASKS: usize = 20_000;
    let rt = Runtime::builder().workers(2).build().unwrap();
    let (x, y) = (rt.register(1u64), rt.register(0u64));
    let mut kept: Vec<TaskRef> = Vec::new();
    let submit = |kept: &mut Vec<TaskRef>| {
        for _ in 0..TASKS {
            let add = rt.task("add").operands((read(&x), update(&y)));
            kept.push(add.cpu(|(x, y)| *y += x).submit().unwrap());
        }
        rt.wait_all().unwrap();
    };
    // Growing tables grow now.
    submit(&mut kept);
    let first = std::mem::take(&mut kept);
    let before = BYTES.load(Ordering::Relaxed);
    submit(&mut kept);
    kept.shrink_to_fit();
    let bytes = BYTES.load(Ordering::Relaxed) - before;
    println!("{bytes} bytes for {TASKS} tasks");
    assert!(bytes <= 100 * TASKS as isize, "{bytes} bytes for {TASKS} tasks");
    assert!(first.iter().chain(&kept).all(TaskRef::is_done));
    assert_eq!(rt.take(y).unwrap(), 2 * TASKS as u64);
}
