//! Searches of the basis for the point whose signals are most like those of an event.
//!
//! The figure of merit of a point `i` is `sum over channels s and samples t of |V_m[s][t] - V_r[i][s][t]|^p` with the measured signals `V_m`, the point's `V_r`, both for a
//! charge of 1000; the smallest wins, and of equal ones the lowest number. `docs/psa.md` has the methods, the precisions and what they cost.
//!
//! | item | what it is |
//! |---|---|
//! | [`Plan`] | method, exponent, precision, tables |
//! | [`search`], [`Prepared`] | one segment on the calling thread |
//! | [`Searcher`] | segments of a crystal on a runtime: queues, batches, tasks |
//! | [`Crystal`] | events with hits in several segments |
//! | [`search_shifted`], [`crosstalk`] | events that begin early or late; cross-talk between segments |
//! | [`Found`] | an answer |
//! | [`Proof`], [`Bound`] | what a screen's sums prove |
//! | [`arrays`] | npy files |

pub mod arrays;
mod best;
mod block;
mod bound;
pub mod crosstalk;
mod device;
mod engine;
mod events;
mod found;
mod input;
mod lattice;
mod nearest;
mod plan;
mod proof;
mod queue;
mod reference;
mod several;
mod shift;
mod tasks;

pub use block::{Block, BlockHeader, SampleFormat, THOUSAND};
pub use bound::Bound;
pub use engine::Map;
pub use events::Events;
pub use found::{Flags, Found};
pub use input::{Files, Input};
pub use lattice::Lattice;
pub use plan::{Method, Plan, Precision, Screen, Table};
pub use proof::Proof;
pub use queue::{EnergyClass, Key, Queue};
pub use several::{Crystal, Place};
pub use shift::{Shifted, search_shifted};
pub use tasks::{Batching, Hit, Prepared, Query, SearchRule, Searcher, search};
