//! StarPU's C interface on the zellige runtime.
//!
//! Programs written for StarPU 1.4 are compiled against `include/starpu.h` without a change and run
//! on the engine of `zellige-runtime`. The interface is the documented one of StarPU; everything
//! behind it is this project's. `src/variadic.c` holds the functions with variable arguments, which
//! only C can define; it hands them over as an array.

#![allow(
    unsafe_op_in_unsafe_fn,
    clippy::missing_safety_doc,
    missing_docs,
    reason = "the functions are C's: each trusts the pointers that StarPU's documentation asks for"
)]

mod acquire;
mod c;
mod cuda_libraries;
mod data;
mod extras;
mod filters;
mod fortran;
mod functions;
mod gate;
mod gpu_view;
mod gpus;
mod handles;
mod held;
mod init;
mod insert;
mod instance;
mod interface;
#[cfg(test)]
mod layout;
mod memory;
#[cfg(feature = "mpi")]
mod mpi;
mod names;
mod partition;
mod perfmodel;
mod policy;
mod pool;
mod profiling;
mod reduction;
mod residency;
mod sched_ctx;
mod state;
mod submission;
mod tags;
mod task;
mod types;
mod util;
mod variadic;
mod work;
mod workers;
