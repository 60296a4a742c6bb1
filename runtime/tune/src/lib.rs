//! Search for the cheapest formats of a computation that still meet a user's criterion.
//!
//! A [`Space`] has named items, each with candidate formats from cheap to dear. A trial runs the
//! computation with one [`Assignment`] and returns [`Measures`]. An [`Acceptance`] judges them,
//! often beside the measures of the reference, in which every item has its dearest format. A
//! [`Search`] finds a cheap accepted assignment in which no single item can be lowered further.
//!
//! ```
//! use zellige_tune::{Acceptance, Item, Measures, Options, Search, Space, Trials};
//!
//! let space = Space::new(vec![
//!     Item::new("matrix", "", [("fp16", 2.0), ("fp32", 4.0), ("fp64", 8.0)]),
//!     Item::new("vector", "", [("fp32", 0.4), ("fp64", 0.8)]),
//! ])?;
//! let trial = Trials::in_turn(|formats, _data| {
//!     let unit = |format: &str| if format == "fp16" { 5e-4 } else { 6e-8 };
//!     Ok(Measures::from([("error", unit(formats.format("matrix")) + unit(formats.format("vector")))]))
//! });
//! let outcome = Search::new(&space, trial, &Acceptance::parse("error <= REF.error + 1e-5")?).run(&Options::default())?;
//! assert_eq!(outcome.best().formats.format("matrix"), "fp32");
//! assert_eq!(outcome.best().formats.format("vector"), "fp32");
//! # Ok::<(), zellige_tune::Error>(())
//! ```
//!
//! The search is delta debugging over groups of items: the whole tree is lowered by one format, and
//! a part that is rejected is split in two. Then each item is tried at each of its lower formats
//! (the result is 1-minimal), and exchanges of items look for a cheaper result. Measured costs may
//! fall with a dearer format: single items are then raised, too. Every trial runs once; a log on
//! disk makes a search resumable.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod acceptance;
mod baselines;
mod error;
mod exchange;
mod expression;
mod ledger;
mod log;
mod measures;
mod minimal;
mod others;
mod outcome;
mod search;
mod space;
mod trials;

pub use acceptance::Acceptance;
pub use error::Error;
pub use expression::Expression;
pub use measures::{Measure, Measures};
pub use others::OtherTrials;
pub use outcome::{Ended, Outcome, Trial, Verdict};
pub use search::{Method, Options, Search};
pub use space::{Assignment, Candidate, Item, Space};
pub use trials::{Data, Trials};
