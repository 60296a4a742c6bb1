//! Random task graphs ([`graphs`]), their expected results ([`oracle`]), scheduling policies, and
//! [`within`], which turns a hang into a failure.

pub mod graphs;
pub mod oracle;
pub mod policies;

use std::io::Write;
use std::sync::mpsc;
use std::time::Duration;

use zellige_tests::amount;

/// Runs `body`. If it is not done in time, the whole process ends with a message that names `what`:
/// a hang is a failure, and its threads cannot be ended one by one. If `ZELLIGE_TEST_SCALE` extends
/// the tests, the time limit is extended by the same factor.
///
/// # Panics
/// If `body` panics.
pub fn within<R: Send + 'static>(
    what: &str,
    limit: Duration,
    body: impl FnOnce() -> R + Send + 'static,
) -> R {
    let limit = limit * u32::try_from(amount(1)).unwrap_or(u32::MAX);
    let (done, wait) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let result = body();
        // Nobody waits any more only if the process is ending.
        let _ = done.send(());
        result
    });
    if wait.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
        // Not eprintln: the test harness would keep the message, and end with it.
        let _ = writeln!(std::io::stderr(), "{what}: not done after {} s: a hang", limit.as_secs());
        std::process::abort();
    }
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
