//! Codelets and closures with their operands: the bodies of tasks.

mod batch;
mod definition;
mod launch;
mod spec;
mod typed;
mod untyped;

pub use definition::{
    Batch, Codelet, DeviceBatch, DeviceBatchFunction, DeviceFunction, DeviceMember, DeviceTable, DeviceViews,
    Outcome,
};
pub(crate) use typed::ClosureFn;
pub use typed::{Closure, TypedBody};
pub use untyped::{Token, TokenAccess, Untyped};
pub(crate) use untyped::{UntypedBody, declare as declare_tokens};
