//! Waits that must not hang: recursion, cycles, guards, groups, scopes.

mod cycles;
mod guards;
mod priorities;
mod recursion;
mod scopes;

use std::io::Write;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use zellige_runtime::Runtime;

/// Runs `test`; a hang aborts the process.
pub fn within_seconds(limit: u64, test: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        // The receiver is gone only if the process is ending.
        let _ = done.send(());
    });
    if wait.recv_timeout(Duration::from_secs(limit)) == Err(mpsc::RecvTimeoutError::Timeout) {
        // Not eprintln: the test harness would capture the message, and lose it.
        let _ = writeln!(std::io::stderr(), "not done after {limit} s: a hang");
        std::process::abort();
    }
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Returns a runtime with this number of workers.
pub fn rt(workers: usize) -> Arc<Runtime> {
    Arc::new(Runtime::builder().workers(workers).build().unwrap())
}
