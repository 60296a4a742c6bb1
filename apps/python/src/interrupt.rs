//! Waiting without the interpreter's lock that still reacts to Ctrl-C.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread::Builder;
use std::time::Duration;

use pyo3::prelude::*;

/// Interval between checks for signals.
const EVERY: Duration = Duration::from_millis(50);

/// Runs `work` with the interpreter's lock released. On the interpreter's main thread, the only one
/// that receives signals, it runs on a separate thread. Ctrl-C then calls `cancel` until `work`
/// ends, and is raised afterwards. On other threads, including workers of a runtime, it runs on the
/// calling thread.
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
            let run = move || {
                // The receiver is gone only if its thread panics.
                let _ = done.send(work());
            };
            let worker = Builder::new()
                .spawn_scoped(scope, run)
                .map_err(|error| crate::error(format_args!("cannot start a thread: {error}")))?;
            let mut interrupted = None;
            loop {
                match wait.recv_timeout(EVERY) {
                    Ok(result) => return interrupted.map_or(Ok(result), Err),
                    Err(RecvTimeoutError::Timeout) => {
                        if interrupted.is_none() {
                            interrupted = Python::attach(|py| py.check_signals()).err();
                        }
                        // The cancellation is repeated, because `work` may submit more tasks.
                        if interrupted.is_some() {
                            cancel();
                        }
                    }
                    Err(RecvTimeoutError::Disconnected) => {
                        // Joining here keeps the panic from reaching the scope.
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
