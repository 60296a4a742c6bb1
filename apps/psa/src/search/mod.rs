//! Searches of the basis for the point whose signals fit an event best.
//!
//! The figure of merit of a point `i` is `sum over channels s and samples t of |V_m[s][t] -
//! V_r[i][s][t]|^p` with the measured signals `V_m` and the point's `V_r`, both for a charge
//! of 1000. The smallest one wins, and of equal ones the lowest number.
//! `docs/explanation/psa-search.md` describes the methods, the precisions and their costs.
//!
//! | item | content |
//! |---|---|
//! | [`Plan`] | method, exponent, precision, tables |
//! | [`search`], [`Prepared`] | one segment on the calling thread |
//! | [`Searcher`] | segments of a crystal on a runtime: queues, batches, tasks |
//! | [`Flow`] | events of a crystal in order, with hits in several segments and shifts in time |
//! | [`PairSearch`] | two hits in one segment |
//! | [`crosstalk`] | cross-talk between segments |
//! | [`Found`] | an answer |
//! | [`saturation`] | clipped samples |
//! | [`Proof`], [`Bound`] | proofs from the sums of a screen |

mod batches;
mod best;
mod block;
mod bound;
mod course;
pub mod crosstalk;
mod device;
mod engine;
mod events;
mod flow;
mod found;
mod input;
mod lattice;
mod nearest;
mod pair;
mod pairs;
mod parts;
mod plan;
mod prepared;
mod proof;
mod queue;
mod reference;
pub mod saturation;
mod searcher;
mod tasks;

pub use block::{Block, BlockHeader, SampleFormat, THOUSAND};
pub use bound::Bound;
pub use engine::Map;
pub use events::Events;
pub use flow::{Answer, Event, Flow, Place};
pub use found::{Flags, Found};
pub use input::{Files, Input};
pub use lattice::Lattice;
pub use pair::{PairFound, PairPlan, PairSearch};
pub use parts::Rules;
pub use plan::{Method, Plan, Precision, Screen, Table};
pub use prepared::{Prepared, search};
pub use proof::Proof;
pub use queue::{EnergyClass, Key, Queue};
pub use searcher::{Batching, Hit, Query, SearchRule, Searcher};
