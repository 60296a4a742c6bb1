//! What the crates beside this one need of its inside. No part of its interface: it may change with any version.

use crate::data::{Data, Handle};
use crate::runtime::Runtime;

pub use crate::error::panic_message;
pub use crate::mutant::mutant;
pub use crate::operand::{Accesses, Formats, Metas, Wanted};
pub use crate::splitmix::{STEP, scramble};
pub use crate::task::{Env, Refusal};

/// A handle that belongs to the first runtime or recorder that uses it.
pub fn handle<D: Data>(value: Option<D>) -> Handle<D> {
    Handle::new(value)
}

/// True once a device has failed.
pub fn has_lost_a_device(rt: &Runtime) -> bool {
    rt.has_lost_a_device()
}
