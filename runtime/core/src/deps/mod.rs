//! Dependencies: who must be complete before whom. See `README.md` beside this file for the protocol.

mod chain;
mod group;
mod links;
mod order;
mod standing;

pub(crate) use chain::{Chain, Linker};
pub(crate) use group::Group;
pub(crate) use links::{Edge, Successors, UpTo};
pub(crate) use order::{Links, Node, Order};
pub use standing::Standing;
