//! Gates: what a tag or a task waits for before each of its runs.
//!
//! Each predecessor that was declared has to fire once for every run.

use std::ffi::c_int;

use smallvec::SmallVec;
use zellige_runtime::internal::ranks::Event;

use crate::instance::{Instance, get};
use crate::submission::{Bare, Submission};

/// A predecessor of a tag or task.
#[derive(Clone)]
pub struct Edge<T> {
    /// The tag or task that waits for it.
    pub of: T,
    /// Its number among what that waits for.
    pub at: u32,
}

/// A run that waits behind a gate.
pub enum Parked {
    /// The event behind which a task has been submitted.
    Event(#[allow(dead_code, reason = "dropped to let the event occur")] Event),
    /// A task without data, which has not been submitted to the runtime.
    Task(Box<Submission>),
    /// The same for one that has nothing else to keep.
    Bare(Bare),
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
            // SAFETY: as above.
            Parked::Bare(bare) => unsafe { Submission::from(bare).advance(instance) }?,
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
    fired: SmallVec<[u32; 4]>,
    parked: Option<Parked>,
}

impl Gate {
    /// True if nothing waits and nothing was declared.
    pub fn is_unused(&self) -> bool {
        self.fired.is_empty() && self.parked.is_none()
    }

    /// Adds a predecessor and returns its number.
    pub fn declare(&mut self) -> u32 {
        self.fired.push(0);
        self.fired.len() as u32 - 1
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
    pub fn fire(&mut self, at: u32) -> Option<Parked> {
        // A tag that was removed meanwhile has fewer.
        *self.fired.get_mut(at as usize)? += 1;
        if self.parked.is_some() && self.passes() { self.parked.take() } else { None }
    }
}
