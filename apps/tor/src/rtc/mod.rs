//! Products of reconstructors with slopes in real time, a frame at a time.
//!
//! A [`Packed`] reconstructor is stored in the order in which it is read. An [`Rtc`] multiplies it
//! by the slopes of a frame on a few threads that wait for nothing but slopes: a group of columns
//! as soon as its slopes are there. No frame on CPUs allocates memory or takes a lock, except for
//! a short lock in the first frame of a new reconstructor. A [`Swapper`] replaces it between two
//! frames.
//! A GPU can multiply instead ([`Rtc::on_gpu`]), with the same commands.
//! A [`Link`] makes frames of [packets](packet), and counts what is lost.

mod arrivals;
mod control;
mod gpu;
mod link;
mod packed;
pub mod packet;
mod port;
mod product;
mod run;
mod swap;
mod threads;

pub use gpu::GpuPlace;
pub use link::{FrameTimes, IncompleteFrame, Link, Losses};
pub use packed::Packed;
pub use port::{Port, RingPort, UdpPort};
pub use product::Rtc;
pub use run::{BIN, Latencies, LatencyBin, RtcResult, RtcSetting, run};
pub use swap::Swapper;
