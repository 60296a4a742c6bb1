//! Detection of a fork: a child has the memory of its parent and none of the parent's other
//! threads.

use std::sync::atomic::{AtomicU32, Ordering};

/// Number of forks, in this process and its ancestors, since workers were started.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Counts forks from now on. In a child, locks that other threads of the parent held stay locked,
/// so it has to detect the fork before it takes one. A system call at each submission would cost
/// too much.
#[cfg(unix)]
fn count_forks() {
    unsafe extern "C" {
        fn pthread_atfork(
            prepare: Option<extern "C" fn()>,
            parent: Option<extern "C" fn()>,
            child: Option<extern "C" fn()>,
        ) -> i32;
    }
    extern "C" fn in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: `in_child` does nothing but count, which is allowed in a child before anything
        // else.
        let error = unsafe { pthread_atfork(None, None, Some(in_child)) };
        if error != 0 {
            tracing::warn!(error, "forked processes will not be recognised");
        }
    });
}

#[cfg(not(unix))]
fn count_forks() {}

/// The process that starts workers.
pub(in crate::engine) struct Process {
    forks: u32,
    id: u32,
}

impl Process {
    /// Returns the calling process.
    pub(in crate::engine) fn this() -> Self {
        count_forks();
        Process { forks: FORKS.load(Ordering::Relaxed), id: std::process::id() }
    }

    pub(in crate::engine) fn is_this(&self) -> bool {
        self.forks == FORKS.load(Ordering::Relaxed)
    }

    pub(in crate::engine) fn id(&self) -> u32 {
        self.id
    }
}
