//! Dependencies: who must be complete before whom. See `README.md` beside this file for the protocol.

mod chain;
mod links;
mod standing;

pub(crate) use chain::{Chain, Group, Linker};
pub(crate) use links::{Edge, Successors, UpTo};
pub use standing::Standing;
