//! Submissions and waits in a forked process, which has no workers, are refused. This is a binary
//! of its own, so that it forks without concurrent tests.

#![cfg(unix)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use zellige_runtime::{Error, Runtime, Submit, TaskRef, update};

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(code: i32) -> !;
}

/// Returns the exit status of a child process that runs `body`.
fn in_child(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child does what is allowed with locks that other threads may have held, allocates
    // through the C library, which frees its own locks in children, and ends by `_exit`.
    let child = unsafe { fork() };
    assert!(child >= 0, "no process can be forked");
    if child == 0 {
        let code = body();
        // SAFETY: it ends the process at once.
        unsafe { _exit(code) };
    }
    let mut status = -1;
    // SAFETY: the child is this process's, and the status lies on this stack.
    assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
    status
}

/// Returns 0 if all uses are refused as they should be.
fn uses_of(rt: &Runtime, before: &TaskRef) -> i32 {
    let x = rt.register(1u32);
    let refused = |result: Result<(), Error>| matches!(result, Err(Error::Forked { .. }));
    if !refused(rt.task("add").operands((update(&x),)).cpu(|(x,)| *x += 1).submit().map(drop)) {
        return 1;
    }
    let waits = before.is_done() || refused(rt.wait(before));
    if waits && refused(rt.read(&x).map(drop)) { 0 } else { 2 }
}

#[test]
fn a_forked_child_gets_an_error_instead_of_a_hang() {
    let rt = Runtime::builder().workers(2).watchdog(None).build().unwrap();
    let x = rt.register(0u32);
    let add = || rt.task("add").operands((update(&x),)).cpu(|(x,)| *x += 1).submit().unwrap();
    let stop = AtomicBool::new(false);
    // Another thread submits meanwhile, so that locks are held when the process is forked.
    let added: u32 = thread::scope(|scope| {
        let submitter =
            scope.spawn(|| (0..).map(|_| add()).take_while(|_| !stop.load(Ordering::Relaxed)).count());
        for _ in 0..30 {
            let before = add();
            assert_eq!(in_child(|| uses_of(&rt, &before)), 0, "the child's exit status");
        }
        stop.store(true, Ordering::Relaxed);
        submitter.join().unwrap() as u32 + 31
    });
    // Without tasks in flight: the runtime is dropped in a child, and goes on here.
    rt.wait_all().unwrap();
    let status = in_child(|| {
        let all = matches!(rt.wait_all(), Ok(()) | Err(Error::Forked { .. }));
        // SAFETY: the child ends before it uses the runtime again, which is its own copy.
        drop(unsafe { std::ptr::read(&raw const rt) });
        i32::from(!all)
    });
    assert_eq!(status, 0, "the child's exit status");
    assert_eq!(rt.take(x).unwrap(), added);
}
