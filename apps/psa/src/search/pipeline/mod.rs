//! Events of a crystal in order: cross-talk, clipped samples, hits in several segments, shifts in
//! time.

pub mod crosstalk;
mod crystal_basis;
mod event;
mod event_pipeline;
mod hit_search;
mod pending;
mod prepare;
mod restore;
mod rules;
pub mod saturation;
mod single_hits;
mod statistics;

pub use event::{Answer, Event, LocatedHit};
pub use event_pipeline::EventPipeline;
pub use rules::Rules;
pub(crate) use single_hits::single_hits;
