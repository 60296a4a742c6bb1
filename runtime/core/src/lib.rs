//! Tasks over data, on every core of a machine.
//!
//! A program gives its data *handles* and submits *tasks* that name handles and how they access them. The runtime derives
//! the dependencies from the order of submission, runs what is ready on its workers, and hands the data back.
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
//! | take a vector or matrix apart | [`Submit::split`], [`Submit::views`], [`Block`]; without copies [`Chunk`] |
//! | write tasks | [`Submit::task`], [`Codelet`] |
//! | have several ways to do one thing | [`Codelet::IMPLEMENTATIONS`] |
//! | run many small tasks in one call | [`Codelet::batch`] |
//! | decide where they run | [`Policy`], [`CodeletBuilder::on_worker`], [`Codelet::can_execute`] |
//! | give devices memory of their own | [`RuntimeBuilder::device`], [`Emulated`], [`Portable`], [`Runtime::memory`] |
//! | have arithmetic flush subnormal numbers to zero | [`RuntimeBuilder::subnormals`], [`Codelet::SUBNORMALS`] |
//! | work on more than fits in memory | [`RuntimeBuilder::host_memory`], [`RuntimeBuilder::swap`] |
//! | record and replay | [`Runtime::record`], [`Graph`], [`Runtime::replay`] |
//! | see what happened | [`Runtime::take_trace`], [`Trace`] |
//!
//! Wrong use does not compile where the types can tell. A view cannot outlive its body:
//!
//! ```compile_fail,E0521
//! use zellige_runtime::{Runtime, Submit, read};
//! let rt = Runtime::new().unwrap();
//! let x = rt.register(vec![1.0f32]);
//! let leak: std::sync::Mutex<Option<&'static [f32]>> = Default::default();
//! rt.task("leak").operands((read(&x),)).cpu(move |(x,)| *leak.lock().unwrap() = Some(x)).submit().unwrap();
//! ```
#![allow(private_bounds, reason = "what bodies of tasks there are is this crate's own")]

mod buffer;
mod clock;
mod data;
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
mod sched;
mod split;
mod splitmix;
mod submit;
mod subnormals;
mod swap;
mod sync;
mod task;
mod topology;
mod trace_recorder;
mod virtual_time;

pub use buffer::{Buffer, Element};
pub use data::{
    BorrowedSlice, Chunk, ChunkRef, Conversion, ConversionTable, Data, Handle, Meta, Portability, Portable,
    ReadGuard, SliceMut, SliceRef, WriteGuard,
};
pub use device::{DeviceScratch, Emulated};
pub use engine::graph::{Bindings, DeviceGraphs, Graph, GraphNode, Recorder};
pub use engine::transfer::{Candidate, NodeUse};
pub use error::{Cause, DeviceError, Error, Failure, TaskError};
pub use format::Format;
pub use operand::{
    Commute, DeviceContext, DeviceList, DeviceMut, DeviceRef, DeviceSlot, List, MetaList, Mode, NewValue,
    OnDevice, Operand, Operands, Read, ReadList, Reduce, Scratch, Slot, Update, Write, commute, metas, read,
    reads, reduce, scratch, update, updates, write, writes,
};
pub use runtime::{Canceller, Group, Runtime, RuntimeBuilder, Scope, WORKER_BYTES};
pub use sched::{
    Eager, Lws, POLICIES, Policy, Prio, ReadyTask, SchedView, TaskQueue, Wake, uses_performance_models,
};
pub use split::{Block, Region, Split, Splittable, split_evenly};
pub use submit::{CodeletBuilder, NamedTask, Submit, TaskBuilder};
pub use subnormals::Subnormals;
pub use task::{
    Apart, Batch, Choice, Codelet, Cpu, DeviceBatch, DeviceBatchFunction, DeviceFunction, DeviceInfo,
    DeviceKind, DeviceMember, DeviceTable, DeviceViews, MAX_OPERAND_FORMATS, Outcome, Spec, TaskContext,
    TaskRef,
};
pub use topology::{CoreInfo, Topology, available_memory, cpu_limit};
pub use zellige_model as model;
pub use zellige_model::TaskInfo;
pub use zellige_trace as trace;
pub use zellige_trace::Trace;
