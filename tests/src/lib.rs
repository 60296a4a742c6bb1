//! Tests across crates: the runtime under stress against a sequential oracle, user-defined
//! policies, reproducibility of all results.
//!
//! The library has the shared parts of the tests: random graphs ([`graphs`]), their expected
//! results ([`oracle`]), and [`within`], which turns a hang into a failure.
#![forbid(unsafe_code)]

pub mod graphs;
pub mod oracle;
pub mod policies;

use std::io::Write;
use std::sync::mpsc;
use std::time::Duration;

pub use zellige_test_scale::{amount, every};

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

/// The programs of the documentation are tests.
#[cfg(doctest)]
mod documentation {
    #[doc = include_str!("../../README.md")]
    struct Readme;
    #[doc = include_str!("../../docs/tutorials/task-graph.md")]
    struct TaskGraph;
    #[doc = include_str!("../../docs/tutorials/sparse-system.md")]
    struct SparseSystem;
    #[doc = include_str!("../../docs/tutorials/ranks.md")]
    struct Ranks;
    #[doc = include_str!("../../docs/how-to/install.md")]
    struct Install;
    #[doc = include_str!("../../docs/how-to/from-starpu.md")]
    struct FromStarpu;
    #[doc = include_str!("../../docs/how-to/out-of-core.md")]
    struct OutOfCore;
    #[doc = include_str!("../../docs/explanation/simulation.md")]
    struct VirtualTime;
    #[doc = include_str!("../../docs/cookbook/task-graphs.md")]
    struct TaskGraphs;
    #[doc = include_str!("../../docs/cookbook/commute-and-reduce.md")]
    struct CommuteAndReduce;
    #[doc = include_str!("../../docs/cookbook/partitions.md")]
    struct Partitions;
    #[doc = include_str!("../../docs/cookbook/recorded-graphs.md")]
    struct RecordedGraphs;
    #[doc = include_str!("../../docs/cookbook/formats-and-precision.md")]
    struct FormatsAndPrecision;
    #[doc = include_str!("../../docs/cookbook/devices.md")]
    struct Devices;
    #[doc = include_str!("../../docs/cookbook/failures.md")]
    struct Failures;
    #[doc = include_str!("../../docs/cookbook/ranks.md")]
    struct CookbookRanks;
}
