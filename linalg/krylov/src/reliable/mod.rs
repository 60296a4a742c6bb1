//! Reliable updates: the residual of a method is replaced by the recomputed one, without a restart.

mod replacement;
mod settings;
mod updatable;

pub use replacement::Reliable;
pub(crate) use replacement::{Estimated, Projected};
pub use settings::{Stabilisation, Trigger, Updates};
pub use updatable::{ReliableUpdates, Updatable};
