#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod cluster;
mod distribution;
mod error;
mod journal;
mod local;
mod progress;
mod remote;
mod transport;
mod wire;

pub use cluster::Cluster;
pub use distribution::{BlockCyclic, Contiguous, Distribution};
pub use error::{ClusterError, RemoteError};
pub use local::{Local, run_local};
pub use progress::Traffic;
pub use transport::{Transport, TransportError, Waker};
