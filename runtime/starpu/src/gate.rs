//! Gates: what a tag or a task waits for before each of its runs.
//!
//! Each predecessor that was declared has to fire once for every run.

use std::ffi::c_int;

use smallvec::SmallVec;
use zellige_runtime::internal::ranks::Event;

use crate::instance::{Instance, get};
use crate::submission::Submission;

/// A predecessor of a tag or task.
#[derive(Clone)]
pub struct Edge<T> {
    /// The tag or task that waits for it.
    pub of: T,
    /// Its number among what that waits for.
    pub at: usize,
}

/// A run that waits behind a gate.
pub enum Parked {
    /// The event behind which a task has been submitted.
    Event(#[allow(dead_code, reason = "dropped to let the event occur")] Event),
    /// A task without data, which has not been submitted to the runtime.
    Task(Box<Submission>),
}

impl Parked {
    pub fn release(self) {
        match self {
            Parked::Event(event) => drop(event),
            parked => {
                if let Some(instance) = get()
                    && parked.go_on(instance).is_err()
                {
                    instance.unfinished.remove();
                }
            }
        }
    }

    /// Goes on with the submission of a task.
    pub fn go_on(self, instance: &Instance) -> Result<(), c_int> {
        match self {
            Parked::Event(event) => drop(event),
            // SAFETY: it was complete when it was parked.
            Parked::Task(submission) => unsafe { submission.advance(instance) }?,
        }
        Ok(())
    }
}

/// Answer of a gate to a run that arrives.
pub enum Passage<F> {
    /// It has to wait, and is parked.
    Parked,
    /// It may go on; what would have made the parked thing is returned.
    Free(F),
}

/// The predecessors of one tag or task: for each, how often it has fired for runs to come.
#[derive(Default)]
pub struct Gate {
    fired: SmallVec<[u32; 2]>,
    parked: Option<Parked>,
}

impl Gate {
    /// Adds a predecessor, which may have fired, and returns its number.
    pub fn declare(&mut self, fired: bool) -> usize {
        self.fired.push(u32::from(fired));
        self.fired.len() - 1
    }

    /// Lets a run pass, if each predecessor has fired for it.
    fn passes(&mut self) -> bool {
        let open = self.fired.iter().all(|&count| count > 0);
        if open {
            self.fired.iter_mut().for_each(|count| *count -= 1);
        }
        open
    }

    /// A run arrives: it passes, or what `park` makes is kept until it may.
    pub fn arrive<F: FnOnce() -> Option<Parked>>(&mut self, park: F) -> Passage<F> {
        if self.passes() {
            return Passage::Free(park);
        }
        self.parked = park();
        Passage::Parked
    }

    /// A predecessor fires: returns what may go on now.
    pub fn fire(&mut self, at: usize) -> Option<Parked> {
        self.fired[at] += 1;
        if self.parked.is_some() && self.passes() { self.parked.take() } else { None }
    }
}
