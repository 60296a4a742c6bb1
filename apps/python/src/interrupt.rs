//! Waiting without the interpreter's lock, and without missing Ctrl-C.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;

use pyo3::prelude::*;

/// How often a wait looks for signals.
const EVERY: Duration = Duration::from_millis(50);

/// Runs `work` with the interpreter's lock released. On the interpreter's main thread, the only one
/// that signals reach, it runs on a thread of its own, and Ctrl-C calls `cancel` until `work` ends,
/// and is raised then. On other threads, workers of a runtime among them, it runs where it is.
pub fn detached<R: Send>(
    py: Python<'_>,
    cancel: impl Fn() + Send + Sync,
    work: impl FnOnce() -> R + Send,
) -> PyResult<R> {
    let threading = py.import("threading")?;
    if !threading.call_method0("current_thread")?.is(&threading.call_method0("main_thread")?) {
        return Ok(py.detach(work));
    }
    py.detach(|| {
        std::thread::scope(|scope| {
            let (done, wait) = sync_channel(1);
            let worker = scope.spawn(move || {
                // The other end is gone only where this thread panics.
                let _ = done.send(work());
            });
            let mut interrupted = None;
            loop {
                match wait.recv_timeout(EVERY) {
                    Ok(result) => return interrupted.map_or(Ok(result), Err),
                    Err(RecvTimeoutError::Timeout) => {
                        if interrupted.is_none() {
                            interrupted = Python::attach(|py| py.check_signals()).err();
                        }
                        // Again and again: `work` may submit more.
                        if interrupted.is_some() {
                            cancel();
                        }
                    }
                    Err(RecvTimeoutError::Disconnected) => {
                        // Joined here, its panic is not one of the scope's.
                        drop(worker.join());
                        return Err(crate::error(
                            "the calculation panicked; its message is on standard error",
                        ));
                    }
                }
            }
        })
    })
}
