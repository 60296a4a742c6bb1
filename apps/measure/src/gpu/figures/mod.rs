//! Results as written to JSON.

mod tables;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use zellige_app::json::Provenance;
use zellige_app::text::digits;
use zellige_dense::{GemmPrecision, Rule, Work};
use zellige_gpu::GpuInfo;

use super::Sizes;
use super::rates::{
    CodeletTime, Conditions, Latencies, LinkRates, PeakRate, ProductRate, ReplayTimes, RoutineRate, TiledRun,
    TimeSplit, WholeFactor,
};
use super::reconstructors::TorFigures;
use super::sparse::SparseFigures;

/// Results of all measurements on a GPU.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Figures {
    /// True if every requested measurement was made, except those listed in `left_out` and
    /// `failed`.
    pub complete: bool,
    gpu: GpuFigures,
    /// Available libraries with their versions.
    libraries: BTreeMap<&'static str, String>,
    tile: u32,
    /// Most products on one tile in one task.
    fuse_updates: u8,
    /// Triangular solves by inverses of diagonal blocks.
    by_inverses: bool,
    /// Precision rule of the solves of reconstructors; `null`: that of the factorisation.
    solve_precision: Option<String>,
    /// Streams for bodies, without the urgent one.
    streams: usize,
    /// True if there is an additional stream for urgent bodies.
    urgent_stream: bool,
    /// Calls of bodies that the GPU is given before the first of them has ended; `null`: as its
    /// memory suggests.
    depth: Option<usize>,
    /// Requested parts.
    parts: Vec<&'static str>,
    repeats: u16,
    /// Time for all of it.
    budget_seconds: u64,
    /// Time that it took; `null`: it goes on.
    pub(super) seconds: Option<f64>,
    pub(super) products: Vec<ProductFigures>,
    pub(super) copies: Option<LinkRates>,
    /// `null`: it failed, or was not reached.
    pub(super) replays: Option<ReplayTimes>,
    /// Single routines over their order.
    pub(super) routines: Vec<RoutineRate>,
    /// `null`: they failed, or were not reached.
    pub(super) latencies: Option<Latencies>,
    pub(super) cholesky: Vec<SizeFigures>,
    pub(super) memory: Vec<MemoryFigures>,
    pub(super) with_cpu: Vec<WithCpuFigures>,
    /// Several GPUs together; empty if there is only one.
    pub(super) several: Vec<SeveralFigures>,
    /// Products of sparse matrices.
    pub(super) sparse: Vec<SparseFigures>,
    pub(super) tor: Vec<TorFigures>,
    /// The GPU as factorisations in tiles have measured it, as `zellige simulate --platform` reads
    /// it; `null`: none ran.
    pub platform: Option<String>,
    /// Measurements that do not fit or are not possible, a line each.
    pub(super) left_out: Vec<String>,
    /// Errors, a line each.
    pub failed: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct GpuFigures {
    number: u32,
    name: String,
    uuid: String,
    memory: u64,
    compute_capability: String,
    multiprocessors: u32,
}

/// Products of tiles, 2 tile^3 flop each, compared with the library's.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ProductFigures {
    #[serde(flatten)]
    pub(super) rate: ProductRate,
    /// The library's product of large matrices; `null` if there is not enough memory, or if it
    /// failed.
    peak: Option<PeakRate>,
    /// The most that the library's products reached, large or of tiles.
    pub(super) peak_tflops: f64,
    pub(super) fraction_of_peak: f64,
}

impl ProductFigures {
    pub(super) fn new(rate: ProductRate, peak: Option<PeakRate>) -> Self {
        let plain = rate.plain_tflops;
        let peak_tflops = peak.map_or(plain, |peak| peak.tflops.max(plain));
        ProductFigures { rate, peak, peak_tflops, fraction_of_peak: rate.tflops / peak_tflops }
    }
}

/// Factorisations of one order, n^3 / 3 flop; `null`: left out or failed.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SizeFigures {
    pub(super) n: u32,
    pub(super) cusolver_f32: Option<WholeFactor>,
    pub(super) cusolver_f64: Option<WholeFactor>,
    pub(super) tiled: Vec<TiledFigures>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct TiledFigures {
    pub(super) rule: String,
    pub(super) seconds: f64,
    pub(super) tflops: f64,
    /// Least time at the measured peaks of products.
    pub(super) limit_seconds: Option<f64>,
    pub(super) fraction_of_limit: Option<f64>,
    /// Speedup over cuSOLVER in f32.
    pub(super) x_cusolver_f32: Option<f64>,
    pub(super) bytes_moved: u64,
    pub(super) evictions: u64,
    /// Times by codelet, of the last run.
    codelets: Vec<CodeletTime>,
    /// Share of the time in which the GPU's worker was in no body.
    pub(super) idle_share: f64,
    /// Time split of the last run.
    #[serde(flatten)]
    pub(super) split: TimeSplit,
    /// Times of the larger bound of the same bodies.
    pub(super) over_bound: f64,
    /// Prediction in virtual time on the measured platform; `null` if it lacks models.
    predicted_seconds: Option<f64>,
    pub(super) predicted_by_measured: Option<f64>,
    #[serde(flatten)]
    pub(super) conditions: Conditions,
}

impl TiledFigures {
    /// Creates a row with the ratios to the least time and to cuSOLVER's time in f32.
    pub(super) fn new(
        rule: &Rule,
        run: &TiledRun,
        limit_seconds: Option<f64>,
        cusolver_f32: Option<f64>,
    ) -> Self {
        TiledFigures {
            rule: rule.to_string(),
            seconds: run.seconds,
            tflops: run.tflops,
            limit_seconds,
            fraction_of_limit: limit_seconds.map(|limit| limit / run.seconds),
            x_cusolver_f32: cusolver_f32.map(|whole| whole / run.seconds),
            bytes_moved: run.bytes_moved,
            evictions: run.evictions,
            codelets: run.trace.codelets.clone(),
            idle_share: run.trace.idle_share,
            split: run.trace.split,
            over_bound: run.trace.over_bound,
            predicted_seconds: None,
            predicted_by_measured: None,
            conditions: run.conditions.unwrap_or_default(),
        }
    }

    /// Adds the predicted time.
    pub(super) fn predict(&mut self, seconds: f64) {
        self.predicted_seconds = Some(seconds);
        self.predicted_by_measured = Some(seconds / self.seconds);
    }
}

/// A factorisation on several GPUs.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct SeveralFigures {
    n: u32,
    rule: &'static str,
    pub(super) gpus: usize,
    seconds: f64,
    tflops: f64,
    /// Speedup over one GPU; `null` if that was not measured.
    pub(super) x_one: Option<f64>,
    bytes_moved: u64,
    idle_share: f64,
    #[serde(flatten)]
    split: TimeSplit,
    /// Conditions on the first GPU.
    #[serde(flatten)]
    conditions: Conditions,
}

impl SeveralFigures {
    pub(super) fn new(n: u32, rule: &'static str, gpus: usize, run: &TiledRun, one: Option<f64>) -> Self {
        SeveralFigures {
            n,
            rule,
            gpus,
            seconds: run.seconds,
            tflops: run.tflops,
            x_one: one.map(|one| one / run.seconds),
            bytes_moved: run.bytes_moved,
            idle_share: run.trace.idle_share,
            split: run.trace.split,
            conditions: run.conditions.unwrap_or_default(),
        }
    }

    /// Returns the main figures in one line.
    pub(super) fn in_short(&self) -> String {
        let x_one = self.x_one.map_or_else(String::new, |x| format!(", {} x one", digits(x)));
        format!("{} on {}: {} s{x_one}", self.rule, self.gpus, digits(self.seconds))
    }
}

/// A factorisation in so much memory; the first row is the one whose bits the others must have.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct MemoryFigures {
    /// The end of `what`.
    #[serde(skip)]
    pub(super) case: &'static str,
    pub(super) what: String,
    devices: usize,
    /// Bytes of each device's memory.
    memory_each: u64,
    pub(super) seconds: f64,
    tflops: f64,
    pub(super) bytes_moved: u64,
    evictions: u64,
    same_bits: bool,
    idle_share: f64,
    #[serde(flatten)]
    split: TimeSplit,
    /// Least time at the measured peaks of products, and of copies for the data that do not fit.
    limit_seconds: Option<f64>,
    fraction_of_limit: Option<f64>,
    #[serde(flatten)]
    conditions: Conditions,
}

impl MemoryFigures {
    pub(super) fn new(
        (what, case): (String, &'static str),
        devices: usize,
        memory_each: u64,
        same_bits: bool,
        run: &TiledRun,
        limit_seconds: Option<f64>,
    ) -> Self {
        let &TiledRun { seconds, tflops, bytes_moved, evictions, conditions, .. } = run;
        let conditions = conditions.unwrap_or_default();
        MemoryFigures {
            case,
            what,
            devices,
            memory_each,
            seconds,
            tflops,
            bytes_moved,
            evictions,
            same_bits,
            idle_share: run.trace.idle_share,
            split: run.trace.split,
            limit_seconds,
            fraction_of_limit: limit_seconds.map(|limit| limit / seconds),
            conditions,
        }
    }
}

/// A factorisation by the GPU alone, and by it and CPU workers.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct WithCpuFigures {
    n: u32,
    pub(super) rule: &'static str,
    workers: usize,
    alone_seconds: f64,
    with_cpu_seconds: f64,
    /// The former by the latter.
    pub(super) ratio: f64,
    /// Idle share of all workers, in the run with CPU workers.
    idle_share: f64,
    #[serde(flatten)]
    split: TimeSplit,
    #[serde(flatten)]
    conditions: Conditions,
}

impl WithCpuFigures {
    pub(super) fn new(
        n: u32,
        rule: &'static str,
        workers: usize,
        alone: &TiledRun,
        together: &TiledRun,
    ) -> Self {
        WithCpuFigures {
            n,
            rule,
            workers,
            alone_seconds: alone.seconds,
            with_cpu_seconds: together.seconds,
            ratio: alone.seconds / together.seconds,
            idle_share: together.trace.idle_share,
            split: together.trace.split,
            conditions: together.conditions.unwrap_or_default(),
        }
    }
}

impl Figures {
    /// Creates figures without measurements.
    pub(super) fn new(
        number: u32,
        info: &GpuInfo,
        libraries: Vec<(&'static str, String)>,
        sizes: &Sizes,
    ) -> Self {
        let (major, minor) = info.compute_capability;
        let gpu = GpuFigures {
            number,
            name: info.name.clone(),
            uuid: info.uuid.clone(),
            memory: info.memory,
            compute_capability: format!("{major}.{minor}"),
            multiprocessors: info.multiprocessors,
        };
        Figures {
            complete: false,
            gpu,
            libraries: libraries.into_iter().collect(),
            tile: sizes.tile,
            fuse_updates: sizes.fuse_updates,
            by_inverses: sizes.by_inverses,
            solve_precision: sizes.solve_rule.as_ref().map(Rule::to_string),
            streams: sizes.tuning.streams,
            urgent_stream: sizes.tuning.urgent,
            depth: sizes.tuning.depth.map(|depth| depth.launched),
            parts: sizes.parts.iter().map(|part| part.name()).collect(),
            repeats: sizes.repeats,
            budget_seconds: sizes.budget.as_secs(),
            seconds: None,
            products: Vec::new(),
            copies: None,
            replays: None,
            routines: Vec::new(),
            latencies: None,
            cholesky: Vec::new(),
            memory: Vec::new(),
            with_cpu: Vec::new(),
            several: Vec::new(),
            sparse: Vec::new(),
            tor: Vec::new(),
            platform: None,
            left_out: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Describes where and when a platform was measured.
    pub(super) fn origin(&self, by: &str, run: &Provenance) -> String {
        format!(
            "{}, measured by zellige {} {by} on {}, {}, with tiles of {}. A link's two directions are as fast as the slower one.",
            self.gpu.name, run.zellige.version, run.host.name, run.date, self.tile
        )
    }

    /// Returns the time of the factorisation of this size and rule on one GPU.
    pub(super) fn seconds_of(&self, n: u32, rule: &str) -> Option<f64> {
        let rule = rule.parse::<Rule>().ok()?.to_string();
        let size = self.cholesky.iter().find(|size| size.n == n)?;
        size.tiled.iter().find(|row| row.rule == rule).map(|row| row.seconds)
    }

    /// The rate of copies within the GPU's memory.
    pub(super) fn within(&self) -> Option<f64> {
        self.copies.as_ref().map(|copies| copies.within)
    }

    /// Returns the least time of some work: each operation at the highest rate of the library's
    /// products of its precision, or of ours if that is higher.
    pub(super) fn least_seconds(&self, work: &Work) -> Option<f64> {
        work.seconds(|precision| {
            let row = self.products.iter().find(|row| row.rate.precision == precision)?;
            // Its plain product is one of three.
            let peak = if precision == GemmPrecision::X3 { row.peak_tflops / 3.0 } else { row.peak_tflops };
            Some(peak.max(row.rate.tflops))
        })
    }

    /// Returns the least time if `bytes` bytes have to come from the host and as many to go there.
    pub(super) fn least_seconds_with_copies(&self, work: &Work, bytes: u64) -> Option<f64> {
        let copies = self.copies.as_ref()?;
        let link = bytes as f64 / copies.to_gpu.min(copies.to_host);
        Some(self.least_seconds(work)?.max(link))
    }
}
