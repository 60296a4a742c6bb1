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
//! | [`Match`] | an answer |
//! | [`PairSearch`] | two hits in one segment |
//! | [`Searcher`] | segments of a crystal on a runtime: queues, batches, tasks |
//! | [`EventPipeline`] | events of a crystal in order, with hits in several segments and shifts in time |
//! | [`crosstalk`] | cross-talk between segments |
//! | [`saturation`] | clipped samples |
//! | [`StochasticMatch`] | an answer with the exact digits of its figure of merit |
//!
//! Each folder imports only folders above it:
//!
//! | folder | content |
//! |---|---|
//! | `segment` | data of one segment, and figures of merit in `f64` |
//! | `proof` | error bounds of quick sums, and proofs |
//! | `matching` | search of one segment, also in stochastic arithmetic |
//! | `batch` | searches of many hits on a runtime, and GPUs |
//! | `pipeline` | events of a crystal |

mod batch;
mod matching;
mod pipeline;
mod proof;
mod segment;

pub use batch::{Batching, EnergyClass, Hit, Query, SearchRule, Searcher};
pub(crate) use matching::StochasticSearch;
pub use matching::{
    ChannelDigits, Flags, Match, Method, PairMatch, PairPlan, PairSearch, Plan, PowerTable, Precision,
    Prepared, Screen, StochasticMatch, search,
};
pub(crate) use pipeline::single_hits;
pub use pipeline::{Answer, Event, EventPipeline, LocatedHit, Rules, crosstalk, saturation};
pub(crate) use segment::PointGrid;
pub use segment::{Block, SampleFormat, SegmentEvents};
