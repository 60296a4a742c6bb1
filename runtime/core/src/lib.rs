//! A task runtime: tasks over data, on every core of a machine and on devices.
//!
//! A program gives its data *handles* and submits *tasks* that name handles and how they access
//! them. The runtime derives the dependencies from the order of submission, runs ready tasks on
//! its workers, and returns the data.
//!
//! ```
//! use zellige_runtime::{Runtime, Submit, read, update};
//!
//! let rt = Runtime::new()?;
//! let x = rt.register(vec![1.0f32; 1000]);
//! let y = rt.register(vec![2.0f32; 1000]);
//! let alpha = 3.0;
//! rt.task("axpy")
//!     .operands((read(&x), update(&y)))
//!     .cpu(move |(x, y)| x.iter().zip(y).for_each(|(x, y)| *y += alpha * x))
//!     .submit()?;
//! let y: Vec<f32> = rt.take(y)?; // waits for what y needs, nothing more
//! assert_eq!(y[0], 5.0);
//! # Ok::<(), zellige_runtime::Error>(())
//! ```
//!
//! | to | see |
//! | --- | --- |
//! | name data | [`Submit::register`], [`Handle`], [`Data`] |
//! | name operands | [`read`], [`write()`], [`update`], [`commute`], [`reduce`], [`reads`], [`metas`], [`scratch`] |
//! | split a vector or matrix into parts | [`Submit::split`], [`Submit::views`], [`split`]; without copies [`data::Chunk`] |
//! | write tasks | [`Submit::task`], [`Codelet`], [`codelet`] |
//! | provide several implementations of a task | [`Codelet::IMPLEMENTATIONS`] |
//! | run many small tasks in one call | [`Codelet::batch`] |
//! | select the workers of tasks | [`sched::Policy`], [`CodeletBuilder::on_worker`], [`Codelet::can_execute`] |
//! | use devices with memory of their own | [`RuntimeBuilder::device`], [`Emulated`], [`data::Portable`], [`Runtime::memory`] |
//! | flush subnormal numbers to zero | [`RuntimeBuilder::subnormals`], [`Codelet::SUBNORMALS`] |
//! | process more data than fit in memory | [`RuntimeBuilder::host_memory`], [`RuntimeBuilder::swap`] |
//! | write programs for one process and for several | [`Session`] |
//! | record and replay | [`Runtime::record`], [`Graph`], [`Runtime::replay`] |
//! | add a device, a scheduling policy, a type of data | [`device`], [`sched`], [`data`] |
//! | trace a run | [`Runtime::take_trace`], [`Trace`] |
//!
//! Wrong use does not compile if the types can express the rule. A view cannot outlive its body:
//!
//! ```compile_fail,E0521
//! use zellige_runtime::{Runtime, Submit, read};
//! let rt = Runtime::new().unwrap();
//! let x = rt.register(vec![1.0f32]);
//! let leak: std::sync::Mutex<Option<&'static [f32]>> = Default::default();
//! rt.task("leak").operands((read(&x),)).cpu(move |(x,)| *leak.lock().unwrap() = Some(x)).submit().unwrap();
//! ```
#![allow(private_bounds, private_interfaces, reason = "what bodies of tasks there are is this crate's own")]

mod body;
mod buffer;
mod clock;
pub mod codelet;
pub mod data;
mod deps;
pub mod device;
mod engine;
mod error;
mod format;
#[doc(hidden)]
pub mod internal;
mod memory;
mod mutant;
mod numbered;
mod operand;
mod runtime;
pub mod sched;
mod splitmix;
mod submit;
mod subnormals;
mod swap;
mod sync;
mod task;
mod thread_start;
pub mod topology;
mod trace_recorder;
mod value;
mod virtual_time;

pub use body::{Batch, Codelet};
pub use buffer::Buffer;
pub use device::Emulated;
pub use engine::graph::{Bindings, DeviceGraphs, Graph, GraphNode, Recorder};
pub use engine::transfer::{Candidate, NodeUse};
pub use error::{Cause, Error, Failure, TaskError};
pub use format::Format;
pub use operand::{
    Commute, Cpu, List, Mode, Operands, Read, ReadList, Reduce, Scratch, Slot, Update, Write, commute, metas,
    read, reads, reduce, scratch, update, updates, write, writes,
};
pub use runtime::{Canceller, Group, Runtime, RuntimeBuilder, Scope, Session, WORKER_BYTES};
pub use submit::{CodeletBuilder, NamedTask, Submit, TaskBuilder, split};
pub use subnormals::Subnormals;
pub use task::{Choice, DeviceInfo, Handle, TaskContext, TaskRef};
pub use value::{Data, Meta};
pub use zellige_model as model;
pub use zellige_model::TaskInfo;
pub use zellige_trace as trace;
pub use zellige_trace::Trace;
