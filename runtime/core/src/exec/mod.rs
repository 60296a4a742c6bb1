//! The thread driver: workers, sleeping, the window on tasks in flight, waiting, and the watchdog. See `README.md`.

mod batch;
mod blocked;
mod complete;
mod current;
mod fork;
mod leave;
mod shared;
mod simulated;
mod sleep;
mod slot;
mod submit;
mod wait;
mod watchdog;
mod window;
mod work;
mod worker;

pub(crate) use blocked::{Manner, Target};
pub(crate) use complete::{Ready, discard};
pub(crate) use current::{drops_guard, enter, holds_guard, on_device};
pub(crate) use shared::{Parts, Shared, WorkerSlot, is_alive};
pub(crate) use submit::{Retired, by_handle, check_access, check_aliases};
pub(crate) use watchdog::Watchdog;
pub(crate) use window::{DEFAULT_WINDOW, Window};
pub(crate) use work::Told;
pub(crate) use worker::spawn_workers;
