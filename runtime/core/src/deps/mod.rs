//! Dependencies: who must be complete before whom. See `README.md` beside this file for the protocol.

mod access_rights;
mod chain;
mod group;
mod links;
mod order;

pub use access_rights::AccessRights;
pub(crate) use chain::{Chain, Linker};
pub(crate) use group::{Group, Member};
pub(crate) use links::{Edge, Successors, UpTo};
pub(crate) use order::{Links, Node, Order};
