//! The driver that runs tasks on threads: workers and their sleep, the window on tasks in flight,
//! waiting, and the watchdog. See `README.md`.

mod blocked;
pub(super) mod current;
mod fork;
mod sleep;
mod slot;
mod wait;
mod waits;
mod watchdog;
mod window;
mod worker;

pub(super) use blocked::BlockedThreads;
pub(crate) use blocked::{Target, WaitKind};
pub(super) use fork::Process;
pub(super) use sleep::Sleep;
pub(super) use slot::ThreadSlot;
pub(super) use waits::{Counted, Waits};
pub(super) use watchdog::LiveTasks;
pub(crate) use watchdog::{Running, Watchdog};
pub(crate) use window::{DEFAULT_WINDOW, Window};
pub(crate) use worker::spawn_workers;
