//! Failures of one runtime: those of tasks, kept for later queries, and a panic outside of any
//! body.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::error::{Cause, Error, Failure};

/// Maximum number of failures that are kept for a later query.
const MOST_FAILURES: usize = 1000;

/// Failures other than cancellations.
#[derive(Default)]
pub(crate) struct Failures {
    noted: Mutex<Noted>,
    /// Set when a worker died: the message of its panic.
    broken: OnceLock<String>,
}

#[derive(Default)]
struct Noted {
    /// Failures since the last query.
    list: Vec<Arc<Failure>>,
    /// The first since the last wait for all tasks.
    first: Option<Arc<Failure>>,
}

impl Failures {
    /// Notes the failure of a task, once for all tasks to which it spreads.
    pub(super) fn note(&self, failure: &Arc<Failure>) {
        if matches!(failure.cause, Cause::Cancelled) {
            return;
        }
        let mut noted = self.noted.lock();
        if noted.list.iter().any(|other| Arc::ptr_eq(other, failure)) {
            return;
        }
        noted.first.get_or_insert_with(|| Arc::clone(failure));
        if noted.list.len() < MOST_FAILURES {
            noted.list.push(Arc::clone(failure));
        }
    }

    /// Returns the failures since the last call.
    pub(crate) fn take(&self) -> Vec<Arc<Failure>> {
        std::mem::take(&mut self.noted.lock().list)
    }

    /// Returns the first failure since the last call.
    pub(crate) fn take_first(&self) -> Option<Arc<Failure>> {
        self.noted.lock().first.take()
    }

    /// Notes a panic outside of any body. The first is the cause of all that follow.
    pub(super) fn set_broken(&self, message: String) {
        tracing::error!("the runtime is broken: {message}");
        let _ = self.broken.set(message);
    }

    /// Returns an error once a worker has died: queued tasks will never run.
    pub(crate) fn check_broken(&self) -> Result<(), Error> {
        match self.broken.get() {
            Some(cause) => Err(Error::Broken { cause: cause.clone() }),
            None => Ok(()),
        }
    }
}
