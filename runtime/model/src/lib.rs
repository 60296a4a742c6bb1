//! Performance models: the expected time of a codelet on a kind of device, and of a transfer on a
//! link.
//!
//! A task is identified by its *footprint*: codelet, implementation, label (the precision) and
//! shape. For each footprint and kind of device the last times are kept (64, once there are more
//! every eighth of them). The mean of those near their median is the estimate once there are five
//! ([`Source::History`]). Before that, and for sizes that never ran, a regression over the other
//! sizes of the codelet and label is used ([`Source::Regression`]). The user's estimate
//! ([`TaskInfo::cost`]) comes between the two. `docs/explanation/models.md` describes the
//! measurements, the storage and the trust rules.
//!
//! ```
//! use std::time::Duration;
//! use zellige_model::{Models, Source, TaskInfo};
//!
//! let models = Models::new();
//! let cpu = models.kind("cpu");
//! let tile = |n: u32| TaskInfo { flops: 2.0 * f64::from(n).powi(3), label: "f32", shape: [n; 3], ..Default::default() };
//! for n in [64, 128] {
//!     let gemm = models.id("gemm", &tile(n));
//!     for _ in 0..6 {
//!         let time = Duration::from_nanos(50 * u64::from(n).pow(3) / 1000);
//!         models.record(gemm, cpu, tile(n).flops, 0, time);
//!     }
//! }
//! let known = models.estimate(models.id("gemm", &tile(128)), cpu, &tile(128), 0).unwrap();
//! assert_eq!((known.time.as_micros(), known.source), (104, Source::History));
//! let unseen = models.estimate(models.id("gemm", &tile(256)), cpu, &tile(256), 0).unwrap();
//! assert_eq!((unseen.time.as_micros(), unseen.source), (838, Source::Regression));
//! ```

#![forbid(unsafe_code)]

mod cache;
mod family;
mod fit;
mod history;
mod identity;
mod link;
mod median;
mod sampler;
mod table;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use serde::Serialize;

pub use cache::{CacheError, Loaded, default_path};
pub use identity::{Identity, processor};
pub use link::{LinkError, LinkModel};
pub use median::{Midpoint, median};
pub use sampler::Sampler;

use table::{Footprint, Table};

/// Description of a task at submission: for models, policies and traces.
///
/// ```
/// use zellige_model::TaskInfo;
///
/// // A product of three matrices of order 256.
/// let info = TaskInfo { flops: 2.0 * 256f64.powi(3), shape: [256; 3], label: "fp32", ..TaskInfo::default() };
/// assert!(info.cost.is_none()); // learnt by the models
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskInfo {
    /// Floating-point operations.
    pub flops: f64,
    /// The user's own estimate of the body's time on one core, if there is one.
    pub cost: Option<Duration>,
    /// Position in the algorithm, e.g. tile (i, j, k).
    pub coords: Option<[u32; 3]>,
    /// Short label for traces, e.g. the precision. Together with codelet and shape it identifies a
    /// task in a performance model.
    pub label: &'static str,
    /// Size of the task, e.g. (m, n, k) of a tile product; zeros if unspecified.
    pub shape: [u32; 3],
}

impl TaskInfo {
    /// True if performance models do not distinguish the two, as tasks of one codelet and
    /// implementation.
    pub fn has_same_footprint(&self, other: &TaskInfo) -> bool {
        Footprint::new("", "", self) == Footprint::new("", "", other)
    }
}

/// Name under which models keep a worker's overhead per task; the first number of the shape is the
/// number of workers at the time of all measurements.
pub const OVERHEAD: &str = "overhead";

/// A footprint's number, valid for the [`Models`] that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ModelId(u32);

impl ModelId {
    /// Number of footprints that the table had no room for: nothing is ever known of them.
    const NONE: ModelId = ModelId(u32::MAX);
}

/// The number of one footprint, stored with its owner: later queries need no lookup by name.
#[derive(Debug, Default)]
pub struct CachedId(AtomicU64);

/// A kind of device's number, valid for the [`Models`] that gave it.
#[derive(Default, Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KindId(u32);

/// Origin of an [`Estimate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The user's own formula, [`TaskInfo::cost`].
    User,
    /// Times of the same footprint.
    History,
    /// Times of other sizes.
    Regression,
}

/// The expected time of a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Time from the start to the end of the body; never 0.
    pub time: Duration,
    /// Number of its samples: of the footprint, of all sizes for a regression, 0 for the user's
    /// formula.
    pub samples: u32,
    /// Origin of the estimate.
    pub source: Source,
}

/// One row of the models: a footprint on a kind of device.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The codelet's name.
    pub codelet: String,
    /// The implementation; empty if the codelet has only one.
    pub implementation: String,
    /// The kind of device.
    pub kind: String,
    /// The label, e.g. the precision.
    pub label: String,
    /// (m, n, k); zeros if the codelet gives none.
    pub shape: [u32; 3],
    /// Floating-point operations of the last sample.
    pub flops: f64,
    /// Bytes of its operands; 0 if unknown.
    pub bytes: u64,
    /// Samples so far, excluding the first, which does not count.
    pub samples: u64,
    /// Median of the kept samples; `None` if there are none.
    pub median: Option<Duration>,
    /// Standard deviation about the median without the lowest and the highest tenth of the samples.
    pub spread: Duration,
    /// The estimate with its origin; `None` while there is none.
    pub estimate: Option<Estimate>,
}

impl Row {
    /// Returns the rate of the expected time [Gflop/s]; `None` without flops or estimate.
    pub fn gflops(&self) -> Option<f64> {
        let time = self.estimate?.time.as_secs_f64();
        (self.flops > 0.0).then(|| self.flops / time * 1e-9)
    }
}

/// The performance models of a machine. Share them in an `Arc`: any number of threads may record
/// and query at once.
pub struct Models {
    /// Distinguishes the models of one process.
    number: u32,
    table: Table,
    kinds: RwLock<Vec<String>>,
    links: RwLock<BTreeMap<(String, String), LinkModel>>,
}

impl Default for Models {
    fn default() -> Self {
        Models::new()
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Models").field("footprints", &self.table.len()).finish_non_exhaustive()
    }
}

impl Models {
    /// Creates empty models.
    pub fn new() -> Models {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Models { number, table: Table::new(), kinds: RwLock::default(), links: RwLock::default() }
    }

    /// Returns the number of a kind of device, e.g. `cpu` or `h200`. Devices of one kind share
    /// their models.
    pub fn kind(&self, name: &str) -> KindId {
        let find = |kinds: &[String]| kinds.iter().position(|kind| kind == name);
        if let Some(at) = find(&self.kinds.read()) {
            return KindId(at as u32);
        }
        let mut kinds = self.kinds.write();
        let at = find(&kinds).unwrap_or_else(|| {
            kinds.push(name.into());
            kinds.len() - 1
        });
        KindId(at as u32)
    }

    /// Returns the number of a task's footprint: codelet, label and shape. Tasks without a shape
    /// are distinguished by their flops, in classes 7 % wide. Query once per task and keep the
    /// number: only this call looks up names.
    ///
    /// There is room for 65 536 footprints; nothing is ever known of further ones.
    pub fn id(&self, codelet: &str, info: &TaskInfo) -> ModelId {
        self.id_of(codelet, info, "")
    }

    /// Returns the footprint's number, as [`id`](Models::id) does, for tasks that run one of
    /// several implementations: each has footprints of its own.
    pub fn id_of(&self, codelet: &str, info: &TaskInfo, implementation: &str) -> ModelId {
        let footprint = Footprint::new(codelet, implementation, info);
        self.table.number(footprint).map_or(ModelId::NONE, ModelId)
    }

    /// Returns the footprint's number, as [`id`](Models::id) does, for tasks that always have the
    /// same footprint: it is looked up at the first query of these models.
    pub fn cached_id(&self, cached: &CachedId, codelet: &str, info: &TaskInfo) -> ModelId {
        let known = cached.0.load(Ordering::Relaxed);
        if (known >> 32) as u32 == self.number {
            return ModelId(known as u32);
        }
        let id = self.id(codelet, info);
        cached.0.store(u64::from(self.number) << 32 | u64::from(id.0), Ordering::Relaxed);
        id
    }

    /// Records that a task took `time` on a device of kind `kind` with its operands in place.
    /// `bytes`: of its operands; 0 if they are not counted.
    ///
    /// Costs some tens of nanoseconds; for tasks of microseconds a [`Sampler`] per worker is
    /// cheaper.
    pub fn record(&self, id: ModelId, kind: KindId, flops: f64, bytes: u64, time: Duration) {
        self.add(id, kind, flops, bytes, &[nanoseconds(time)]);
    }

    fn add(&self, id: ModelId, kind: KindId, flops: f64, bytes: u64, times: &[u64]) {
        let Some(entry) = self.table.get(id.0) else {
            return;
        };
        entry.cells.get_or_insert(kind).add(count(flops), bytes, times);
        entry.family.count(kind, times.len());
    }

    /// Returns the expected time of a task on a device of kind `kind` with its operands in place;
    /// `None` while nothing is known.
    ///
    /// The first available source is used: the footprint's own times (5 at least), the user's
    /// `info.cost`, a regression over the other sizes of codelet and label. So a wrong guess of the
    /// user's lasts for six tasks, and a model never overrules the user by extrapolation. Omit
    /// `info.cost` for devices that it was not meant for. `bytes` 0: unknown, the regression is
    /// over flops alone.
    pub fn estimate(&self, id: ModelId, kind: KindId, info: &TaskInfo, bytes: u64) -> Option<Estimate> {
        self.estimate_with(id, kind, info, || bytes)
    }

    /// Returns the expected time, as [`estimate`](Models::estimate) does; the bytes are requested
    /// only for a regression.
    pub fn estimate_with(
        &self,
        id: ModelId,
        kind: KindId,
        info: &TaskInfo,
        bytes: impl FnOnce() -> u64,
    ) -> Option<Estimate> {
        if let Some(known) = self.known(id, kind) {
            return Some(known);
        }
        if let Some(cost) = info.cost {
            return Some(Estimate { time: not_zero(cost), samples: 0, source: Source::User });
        }
        let entry = self.table.get(id.0)?;
        let (time, samples) = entry.family.estimate(&self.table, kind, count(info.flops), bytes())?;
        let time = not_zero(Duration::from_nanos(time.round() as u64));
        Some(Estimate {
            time,
            samples: u32::try_from(samples).unwrap_or(u32::MAX),
            source: Source::Regression,
        })
    }

    /// Returns the estimate from the footprint's own times; `None` while there are too few.
    pub fn known(&self, id: ModelId, kind: KindId) -> Option<Estimate> {
        let (expected, samples) = self.table.get(id.0)?.cells.get(kind)?.expected();
        let time = not_zero(Duration::from_nanos(expected));
        (samples >= history::ENOUGH).then_some(Estimate { time, samples, source: Source::History })
    }

    /// True once the footprint has enough times of its own on this kind of device.
    pub fn is_calibrated(&self, id: ModelId, kind: KindId) -> bool {
        self.known(id, kind).is_some()
    }

    /// Returns the number of tasks that still have to run on this kind of device until the
    /// footprint is calibrated; 0 if it is, and for footprints that the table had no room for. For
    /// policies that explore.
    pub fn needs_exploration(&self, id: ModelId, kind: KindId) -> u32 {
        let Some(entry) = self.table.get(id.0) else {
            return 0;
        };
        if self.is_calibrated(id, kind) {
            return 0;
        }
        // Plus one for the first, which does not count.
        let wanted = u64::from(history::ENOUGH) + 1;
        let seen = entry.cells.get(kind).map_or(0, |cell| cell.seen());
        wanted.saturating_sub(seen) as u32
    }

    /// Sets the model of the link between two memory nodes, by name, e.g. `host` and `h200 0`.
    pub fn set_link(&self, from: &str, to: &str, link: LinkModel) {
        self.links.write().insert((from.into(), to.into()), link);
    }

    /// Returns the model of the link between two memory nodes, if there is one.
    pub fn link(&self, from: &str, to: &str) -> Option<LinkModel> {
        self.links.read().get(&(from.to_string(), to.to_string())).copied()
    }

    /// Returns all links: from, to, model.
    pub fn links(&self) -> Vec<(String, String, LinkModel)> {
        self.links.read().iter().map(|((from, to), &link)| (from.clone(), to.clone(), link)).collect()
    }

    /// Returns all records, by codelet, kind, label, implementation and shape.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for entry in self.table.entries() {
            let footprint = entry.footprint();
            for (kind, cell) in entry.cells.iter() {
                let Some(name) = self.kinds.read().get(kind.0 as usize).cloned() else {
                    continue;
                };
                let known = cell.summary();
                let info = TaskInfo { flops: known.flops, ..TaskInfo::default() };
                rows.push(Row {
                    codelet: footprint.codelet.into(),
                    implementation: footprint.implementation.into(),
                    kind: name,
                    label: footprint.label.into(),
                    shape: footprint.shape,
                    flops: known.flops,
                    bytes: known.bytes,
                    samples: known.count,
                    median: known.median.map(Duration::from_nanos),
                    spread: known.spread,
                    estimate: self.estimate(entry.id(), kind, &info, known.bytes),
                });
            }
        }
        let order = |row: &Row| {
            let names = [&row.codelet, &row.kind, &row.label, &row.implementation].map(String::clone);
            (names, row.shape, row.flops.to_bits())
        };
        rows.sort_by_cached_key(order);
        rows
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns a positive time: policies divide by it.
fn not_zero(time: Duration) -> Duration {
    time.max(Duration::from_nanos(1))
}

/// Rounds a number of operations to a whole number; invalid or negative ones count as 0.
fn count(flops: f64) -> f64 {
    if flops.is_finite() { flops.max(0.0).round() } else { 0.0 }
}

#[cfg(test)]
mod tests;
