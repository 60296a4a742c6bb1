//! Dependencies: who must be complete before whom. See `README.md` beside this file for the protocol.

mod chain;
mod links;

pub(crate) use chain::{Chain, Group, Linker};
pub(crate) use links::{Edge, Successors};
