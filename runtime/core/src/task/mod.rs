//! Tasks: codelets with operands; their description, submission, execution and completion.

mod batch;
mod body;
mod cell;
mod codelet;
mod context;
mod env;
mod implementations;
mod launch;
mod nodes;
mod place;
mod pointer;
mod range;
mod spec;
mod tally;
mod ticket;

pub(crate) use batch::{Member, Site};
pub use body::{Body, Busy, Closure, Refusal, TypedBody};
pub(crate) use body::{ClosureFn, Payload};
pub(crate) use body::{Ended, LaunchedBody, Ran, Resource, resolved};
pub(crate) use cell::{Header, Role, Task, TaskCell, format_coords};
pub use codelet::{
    Apart, Batch, Choice, Codelet, Cpu, DeviceBatch, DeviceBatchFunction, DeviceFunction, DeviceKind,
    DeviceMember, DeviceTable, DeviceViews, MAX_OPERAND_FORMATS, Outcome,
};
pub use context::TaskContext;
pub use env::Env;
pub(crate) use env::{Bound, Call, Notes, TaskPlacement, WorkerLocal};
pub(crate) use implementations::{Asked, Implementations, registered_bytes};
pub(crate) use nodes::{Predecessor, Successor, TaskChain, TaskGroup};
pub use place::DeviceInfo;
pub(crate) use place::Only;
pub(crate) use pointer::TaskPtr;
use range::Range;
pub(crate) use spec::Options;
pub use spec::Spec;
pub(crate) use tally::Tally;
pub use ticket::TaskRef;
