//! Tasks: codelets with operands, how they are described, submitted, run and waited for.

mod body;
mod builder;
mod cell;
mod codelet;
mod context;
mod place;

pub(crate) use body::{Body, Bound, Ended, Placement, Ran, Resource, TypedBody, WorkerLocal, resolved};
pub use body::{Busy, Env, Refusal};
pub use builder::{Closure, CodeletBuilder, NamedTask, Spec, Submit, TaskBuilder};
pub use cell::TaskRef;
pub(crate) use cell::{Header, Role, Task, TaskCell, format_coords};
pub use codelet::{Choice, Codelet, Cpu, DeviceKind, MAX_OPERAND_FORMATS, Outcome, TaskInfo};
pub use context::TaskContext;
pub use place::DeviceInfo;
pub(crate) use place::Only;
