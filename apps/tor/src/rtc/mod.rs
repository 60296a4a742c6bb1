//! Products of reconstructors with slopes in real time, a frame at a time.
//!
//! A [`Packed`] reconstructor is stored in the order in which it is read. An [`Rtc`] multiplies it
//! by the slopes of a frame on a few threads that wait for nothing but slopes: a group of columns
//! as soon as its slopes are there. No frame allocates memory or takes a lock. A [`Swapper`]
//! replaces the reconstructor between two frames.

mod arrivals;
mod packed;
mod product;
mod swap;
mod threads;

pub use packed::Packed;
pub use product::Rtc;
pub use swap::Swapper;
