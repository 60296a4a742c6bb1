#![doc = include_str!("../README.md")]
#![cfg_attr(not(feature = "mpi"), forbid(unsafe_code))]
#![deny(unsafe_code)]

mod buffers;
mod cluster;
mod data;
mod deferred;
mod distribution;
mod error;
mod journal;
mod local;
mod planned;
mod progress;
mod recording;
mod remote;
mod session;
mod transport;
mod wire;
#[cfg(feature = "mpi")]
#[allow(unsafe_code)]
mod world;

pub use buffers::{message_buffer, recycle};
pub use cluster::Cluster;
pub use distribution::{BlockCyclic, Contiguous, Distribution};
pub use error::{ClusterError, RemoteError};
pub use local::{Local, run_local};
pub use planned::PlannedRanks;
pub use progress::Traffic;
pub use recording::Recording;
pub use transport::{Sender, Transport, TransportError, Waker};
#[cfg(feature = "mpi")]
pub use world::{Mpi, MpiTransport};
