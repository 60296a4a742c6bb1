//! Random rounding in tasks that are recorded on one thread and run on another.

use zellige_stochastic::SubmittedTask;

use crate::scalar::Scalar;

/// Place of a recorded task in the scope of random rounding that it was recorded in. Numbers of
/// other types have none, and their tasks cost nothing more.
#[derive(Debug)]
pub struct TaskScope(Option<SubmittedTask>);

impl TaskScope {
    /// Returns the place of the task that is recorded next.
    pub fn new<E: Scalar>() -> Self {
        TaskScope(if E::IS_STOCHASTIC { SubmittedTask::next() } else { None })
    }

    /// Returns the place of a task that updates what all ranks have: each of them runs it.
    pub fn on_all_ranks<E: Scalar>() -> Self {
        TaskScope(TaskScope::new::<E>().0.map(SubmittedTask::on_all_ranks))
    }

    /// Runs the body of the task, where it has something to do: bits depend on how often it had.
    pub fn run<R>(&self, body: impl FnOnce() -> R) -> R {
        match &self.0 {
            Some(task) => task.run(body),
            None => body(),
        }
    }
}
