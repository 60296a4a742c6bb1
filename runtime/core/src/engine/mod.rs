//! The life of a task, from its submission to its end, and the driver that runs tasks on threads.
//! See `README.md`.

mod end;
mod event;
mod gpu_only;
pub(crate) mod graph;
mod job;
mod policy;
mod ready;
mod run;
mod shared;
mod simulated;
mod stage;
mod submit;
mod threads;
pub(crate) mod transfer;

pub(crate) use end::{Ready, discard};
pub use event::Event;
pub(crate) use event::{gate, when_done};
pub(crate) use graph::ReplaySlot;
pub(crate) use job::{Job, Notified, Work};
pub(crate) use policy::World;
pub use policy::{PerNode, Policy, SchedView, Wake};
pub use ready::ReadyTask;
pub(crate) use shared::{Parts, Shared, WorkerSlot, is_alive};
pub(crate) use stage::{Stage, StageCell};
pub(crate) use submit::{Retired, check_access, check_aliases, sort_by_handle};
pub(crate) use threads::current::{drops_guard, holds_guard, on_device};
pub(crate) use threads::{DEFAULT_WINDOW, Manner, Target, Watchdog, Window, spawn_workers};
