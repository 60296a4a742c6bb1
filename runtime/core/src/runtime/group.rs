//! Groups of tasks that are waited for together.

use std::fmt;
use std::sync::Arc;

use super::Runtime;
use crate::error::Error;
use crate::submit::Submit;
use crate::task::{Body, Spec, Tally, TaskRef};

/// A group of tasks that are waited for together, like OpenMP's `taskgroup`: the tasks that are
/// submitted through it.
///
/// ```
/// use zellige_runtime::{Runtime, Submit, update};
///
/// let rt = Runtime::builder().workers(2).build()?;
/// let (x, other) = (rt.register(1u32), rt.register(1u32));
/// let group = rt.group();
/// group.task("double").operands((update(&x),)).cpu(|(x,)| *x *= 2).submit()?;
/// rt.task("later").operands((update(&other),)).cpu(|(x,)| *x += 1).submit()?;
/// group.wait()?; // not for "later"
/// assert_eq!(*rt.read(&x)?, 2);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
///
/// Dropping it does not wait.
pub struct Group<'rt> {
    runtime: &'rt Runtime,
    tally: Arc<Tally>,
}

impl<'rt> Group<'rt> {
    pub(super) fn new(runtime: &'rt Runtime) -> Self {
        Group { runtime, tally: Tally::within(runtime.engine.tally_of_body()) }
    }

    /// Waits until all tasks that have been submitted to the group so far are complete.
    ///
    /// # Errors
    /// [`Error::Failed`] with the first failure among them, and those of [`Runtime::wait`].
    pub fn wait(&self) -> Result<(), Error> {
        self.runtime.engine.wait_for_tally(&self.tally)
    }
}

impl Submit for Group<'_> {
    fn owner(&self) -> Option<u32> {
        Some(self.runtime.engine.id)
    }

    fn submit_spec<B: Body + 'static>(&self, spec: Spec<B>) -> Result<TaskRef, Error> {
        self.runtime.engine.submit_in(spec, Some(Arc::clone(&self.tally)))
    }

    fn announce_step(&self, tasks: usize) {
        self.runtime.engine.announce_step(tasks);
    }
}

impl fmt::Debug for Group<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Group")
    }
}
