//! Tasks: codelets with operands; their description, submission, execution and completion.

mod batch;
mod body;
mod cell;
mod codelet;
mod context;
mod env;
mod implementations;
mod launch;
mod lost;
mod nodes;
mod place;
pub(crate) mod plan;
mod pointer;
mod range;
mod ready;
mod services;
mod slot;
mod spec;
pub(crate) mod stage;
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
pub(crate) use lost::{LostTasks, discard, is_alive};
pub(crate) use nodes::{Predecessor, Successor, TaskChain, TaskGroup};
pub use place::DeviceInfo;
pub(crate) use place::Only;
pub(crate) use plan::PlanCell;
pub(crate) use pointer::TaskPtr;
use range::Range;
pub use ready::ReadyTask;
pub(crate) use ready::{ReplayRun, ReplayTask, Work};
pub(crate) use services::{GiveBack, Runner, Services};
pub(crate) use slot::ReplaySlot;
pub(crate) use spec::Options;
pub use spec::Spec;
pub(crate) use stage::StageCell;
pub(crate) use tally::Tally;
pub use ticket::TaskRef;
