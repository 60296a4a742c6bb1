//! A process that was forked has no workers: waits are refused there. A process of its own, since it forks
//! with no other test beside it.

#![cfg(unix)]

use zellige_runtime::{Error, Runtime, Submit, update};

unsafe extern "C" {
    fn fork() -> i32;
    fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(code: i32) -> !;
}

/// What the child does: 0 if all is refused as it should be.
fn in_child(rt: Runtime) -> i32 {
    let x = rt.register(1u32);
    let Ok(task) = rt.task("add").operands((update(&x),)).cpu(|(x,)| *x += 1).submit() else { return 1 };
    let refused = |result: Result<(), Error>| matches!(result, Err(Error::Forked { .. }));
    if !refused(rt.wait(&task)) || !refused(rt.wait_all()) || !refused(rt.read(&x).map(drop)) {
        return 2;
    }
    drop(rt);
    0
}

#[test]
fn a_forked_child_gets_an_error_instead_of_a_hang() {
    let rt = Runtime::builder().workers(1).watchdog(None).build().unwrap();
    let y = rt.register(1u32);
    assert_eq!(*rt.read(&y).unwrap(), 1);
    // SAFETY: the other threads of this process are its idle worker and the test harness; the child takes no
    // lock of theirs and ends by `_exit`.
    let child = unsafe { fork() };
    assert!(child >= 0, "no process can be forked");
    if child == 0 {
        let code = in_child(rt);
        // SAFETY: it ends the process at once.
        unsafe { _exit(code) };
    }
    let mut status = -1;
    // SAFETY: the child is this process's, and the status lies on this stack.
    assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child's exit status");
    assert_eq!(rt.take(y).unwrap(), 1);
}
