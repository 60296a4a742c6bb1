//! Parts that tests of all crates share: external data and numbers of random cases.
//!
//! The tests of this crate itself run the runtime under stress against a sequential oracle, with
//! user-defined policies, and compare the bits of results across schedules.
#![forbid(unsafe_code)]

mod data;
mod scale;

pub use data::{data, skipped};
pub use scale::{amount, cases, every};

/// The programs of the documentation are tests.
#[cfg(doctest)]
mod documentation {
    #[doc = include_str!("../../README.md")]
    struct Readme;
    #[doc = include_str!("../../docs/tutorials/task-graph.md")]
    struct TaskGraph;
    #[doc = include_str!("../../docs/tutorials/sparse-system.md")]
    struct SparseSystem;
    #[doc = include_str!("../../docs/tutorials/ranks.md")]
    struct Ranks;
    #[doc = include_str!("../../docs/how-to/install.md")]
    struct Install;
    #[doc = include_str!("../../docs/how-to/from-starpu.md")]
    struct FromStarpu;
    #[doc = include_str!("../../docs/how-to/out-of-core.md")]
    struct OutOfCore;
    #[doc = include_str!("../../docs/how-to/tune.md")]
    struct Tune;
    #[doc = include_str!("../../docs/explanation/simulation.md")]
    struct VirtualTime;
    #[doc = include_str!("../../docs/cookbook/task-graphs.md")]
    struct TaskGraphs;
    #[doc = include_str!("../../docs/cookbook/commute-and-reduce.md")]
    struct CommuteAndReduce;
    #[doc = include_str!("../../docs/cookbook/partitions.md")]
    struct Partitions;
    #[doc = include_str!("../../docs/cookbook/recorded-graphs.md")]
    struct RecordedGraphs;
    #[doc = include_str!("../../docs/cookbook/formats-and-precision.md")]
    struct FormatsAndPrecision;
    #[doc = include_str!("../../docs/cookbook/devices.md")]
    struct Devices;
    #[doc = include_str!("../../docs/cookbook/failures.md")]
    struct Failures;
    #[doc = include_str!("../../docs/cookbook/ranks.md")]
    struct CookbookRanks;
}
