//! The runtime as the tasks that it runs see it.

use std::any::Any;
use std::sync::Arc;

use zellige_model::{KindId, Models};

use super::{DeviceInfo, Env, ReadyTask};
use crate::error::Error;
use crate::subnormals::Subnormals;
use crate::value::MemorySource;

/// Function that gives parked tasks back to the runtime.
pub(crate) type GiveBack = Box<dyn Fn(Vec<ReadyTask>) + Send + Sync>;

/// Services of a runtime for its tasks. A task that needs no device calls none of them.
pub(crate) trait Services: Any + MemorySource + Send + Sync {
    /// Notes a bug of the runtime: it runs no further tasks.
    fn break_down(&self, message: String);
    /// Returns a number that no other task or request has.
    fn next_number(&self) -> u64;
    /// Returns the function that gives parked tasks back, as long as the runtime exists.
    fn give_back(&self) -> GiveBack;
    /// Returns a worker's device.
    fn device(&self, worker: usize) -> DeviceInfo<'_>;
    /// Returns the number of a worker's kind of device in the models.
    fn model_kind(&self, worker: usize) -> KindId;
    /// Returns true if the device that a worker drives has failed.
    fn has_lost_device(&self, worker: usize) -> bool;
    /// Waits until all tasks that the calling body has submitted are complete.
    fn wait_for_children(&self) -> Result<(), Error>;
    /// Returns true once a stop of the runtime is requested that includes this task.
    fn is_cancelled(&self, task: u64) -> bool;
    /// Writes a task that ran into the trace.
    fn record(&self, env: &Env<'_>, failed: bool);
}

/// The runtime that runs a body: its services, and the settings that every body needs.
#[derive(Clone, Copy)]
pub(crate) struct Runner<'e> {
    pub(crate) services: &'e dyn Services,
    pub(crate) models: Option<&'e Arc<Models>>,
    /// True if the times of bodies are measured for a trace.
    pub(crate) measures: bool,
    /// Treatment of subnormal numbers in all bodies; `None`: each codelet decides.
    pub(crate) subnormals: Option<Subnormals>,
}

impl Runner<'_> {
    /// Returns the treatment of subnormal numbers in a body whose codelet requests `of_codelet`.
    #[inline]
    pub(crate) fn subnormals(&self, of_codelet: Option<Subnormals>) -> Subnormals {
        self.subnormals.or(of_codelet).unwrap_or_default()
    }
}
