//! Whether this process was forked: a child has the memory of its parent and none of the parent's
//! other threads.

use std::sync::atomic::{AtomicU32, Ordering};

/// How often this process or one that it descends from was forked after it had started workers.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Has forks counted from now on. In a child, locks that other threads of the parent held stay
/// locked, so that it has to learn what it is before it takes one; and asking the system at each
/// submission would cost too much.
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
    /// The calling one.
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
