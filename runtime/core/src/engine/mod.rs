//! The life of a task, from its submission to its end, and the driver that runs tasks on threads. See `README.md`.

mod batch;
mod complete;
mod leave;
mod shared;
mod submit;
mod threads;
mod work;

pub(crate) use complete::{Ready, discard};
pub(crate) use shared::{Parts, Shared, WorkerSlot, is_alive};
pub(crate) use submit::{Retired, by_handle, check_access, check_aliases};
pub(crate) use threads::current::{drops_guard, enter, holds_guard, on_device};
pub(crate) use threads::{DEFAULT_WINDOW, Manner, Target, Watchdog, Window, spawn_workers};
pub(crate) use work::Told;
