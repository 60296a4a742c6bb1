//! Search of one segment for the points that fit an event best, as one hit and as two.

mod best_match;
mod engine;
mod nearest;
mod pair;
mod plan;
mod prepared;
mod scorer;
mod stochastic;

pub(super) use best_match::NUMBERS;
pub use best_match::{Flags, Match};
pub(super) use engine::{Engine, NEAR};
pub use pair::{PairMatch, PairPlan, PairSearch};
pub use plan::{Method, Plan, PowerTable, Precision, Screen};
pub(super) use plan::{Metrics, Stage};
pub use prepared::{Prepared, search};
pub(crate) use stochastic::StochasticSearch;
pub use stochastic::{ChannelDigits, StochasticMatch};
