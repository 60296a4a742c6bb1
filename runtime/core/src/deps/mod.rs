//! Dependencies between tasks. See `README.md` in this folder for the protocol.

mod access_rights;
mod chain;
mod group;
mod links;
mod mode;
mod order;

pub use access_rights::AccessRights;
pub(crate) use chain::Chain;
pub(crate) use group::{AccessGroup, AtEnd, Membership};
pub(crate) use links::{Edge, Successors, UpTo};
pub use mode::Mode;
pub(crate) use order::{Links, Order, OrderNode};
