//! Tasks and handles: a handle's chain names the tasks that access it, and a task's body names
//! handles. Bodies, environments and what the engine keeps for each task.

mod accesses;
mod batch;
mod body;
mod cell;
mod choice;
mod context;
mod env;
mod handle;
mod implementations;
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

pub use accesses::{Accesses, Declared, Formats, Metas};
pub(crate) use batch::{Member, Site};
pub use body::{Body, Busy, Refusal};
pub(crate) use body::{Ended, LaunchedBody, Payload, Ran, Resource, resolved};
pub(crate) use cell::{Header, Role, Task, TaskCell};
pub use choice::{Apart, Choice, MAX_OPERAND_FORMATS};
pub use context::TaskContext;
pub use env::Env;
pub(crate) use env::{Bound, Call, Notes, TaskPlacement, WorkerLocal};
pub(crate) use handle::{
    Ahead, AnyHandle, CarryError, Forgotten, HandleBase, HandleCore, Lending, Lent, NoReplica, Onto,
    Placeholder,
};
pub use handle::{Arrival, Elsewhere, Handle};
pub(crate) use implementations::{Asked, Implementations, registered_bytes};
pub(crate) use lost::{LostTasks, discard, is_alive};
pub(crate) use nodes::{Predecessor, Successor, TaskChain, TaskGroup};
pub use place::DeviceInfo;
pub(crate) use place::Only;
pub(crate) use plan::PlanCell;
pub(crate) use pointer::TaskPtr;
pub(crate) use range::Range;
pub use ready::ReadyTask;
pub(crate) use ready::{ReplayRun, ReplayTask, Work};
pub(crate) use services::{GiveBack, Runner, Services};
pub(crate) use slot::ReplaySlot;
pub(crate) use spec::Options;
pub use spec::Spec;
pub(crate) use stage::StageCell;
pub(crate) use tally::Tally;
pub use ticket::TaskRef;
