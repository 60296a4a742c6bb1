//! The functions of `starpu_mpi.h`: tasks and data of several processes.
//!
//! [`world`] starts and ends the use of MPI and knows communicators; [`link`] has the thread that
//! sends messages, receives them and calls callbacks; [`messages`] sends and receives data, which
//! the program asks for in [`calls`]; [`owners`] knows who owns data and who has a copy; [`insert`]
//! sends data to where a task runs; [`collect`] reduces, scatters and gathers.

mod calls;
mod collect;
mod insert;
mod link;
mod messages;
mod owners;
mod policies;
mod tags;
mod types;
mod world;

pub(crate) use owners::Owned;

/// Ends what other processes take part in before data are unregistered, and forgets their owner.
pub(crate) unsafe fn settle(data: &crate::data::Data) {
    collect::finish(data.handle());
    data.mpi.forget(data.handle());
}
