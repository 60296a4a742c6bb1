//! Plan of a run: its needs, known before anything is allocated.

use super::{Options, PipelineError, TileChoice, Xray, cee, memory, peak};
use crate::covariance::worth_keeping;
use crate::geometry;
use crate::image::size as image_size;
use crate::params::Input;
use crate::pipeline::info::{Info, info};
use crate::pipeline::ranks::share;
use crate::system::{MirrorModel, System};
use std::fmt;
use zellige_dense::{Block, GemmPrecision, PrecisionPolicy, Rule, Test, TileGrid, refine_bytes, residual};
use zellige_files::memory::{Bytes, MemoryPlan};
use zellige_kernels::StorageFormat;
use zellige_runtime::WORKER_BYTES;
use zellige_runtime::trace::{IdleEvent, TaskEvent};

/// Largest automatic tile size.
pub const LARGEST_TILE: usize = 512;
/// Largest automatic tile sizes for GPUs, in the order of the trials. In products of f16 with a
/// result in f32, an H200 does 520 Tflop/s with tiles of 2048, 640 with 3072 and 700 with 4096.
/// With larger tiles, solves and diagonal tiles take more of the time.
const GPU_TILES: [usize; 4] = [3072, 2048, 1024, LARGEST_TILE];
/// Alignment of tile boundaries for GPUs, so that tensor cores can load columns directly.
const GPU_STEP: usize = 16;
/// Minimum number of tiles along a matrix for GPUs. With fewer there are too few products per
/// panel.
const GPU_FEWEST: usize = 12;
/// Number of `f32` tiles that must fit each GPU: operands of several tasks, their low-precision
/// copies, and prefetched tiles.
const GPU_ROOM: u64 = 64;
/// Largest order for which eigenvalues are computed by default.
pub const XRAY_UP_TO: usize = 4096;
/// Maximum number of tile products of a factorisation: about an hour of task overhead.
const MOST_PRODUCTS: f64 = 2e9;

/// A checked run: sizes, tiles, rules, memory.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Sizes and work of the system.
    pub info: Info,
    /// Boundaries of the tiles of `Cmm`.
    pub grid: TileGrid,
    /// Parsed rules.
    pub rules: Vec<Rule>,
    /// Parsed rule of the solve.
    pub solve_rule: Option<Rule>,
    /// Memory at the peak of the run.
    pub memory: MemoryPlan,
    /// Bytes of covariances that are kept from one stage to the next; part of `memory`.
    pub(super) kept_bytes: u64,
    /// Number of records that a trace of the run needs for each worker.
    pub trace_records: usize,
    /// Bytes of these records; part of `memory` if [`Options::trace`] is set.
    pub trace_bytes: u64,
    /// Notes for the user, e.g. that the tile boundaries require a certain kind of rule.
    pub advice: Vec<String>,
}

/// Bytes of the resident pages of the program and its libraries, and of small tables.
const PROGRAM: u64 = 40_000_000;
/// Number of concurrent `f64` arrays of an image's size: spectra have two for each.
const IMAGE_ARRAYS: f64 = 9.0;
/// Number of tiles of working space per worker, for products of split operands and for packed
/// panels.
const WORK_TILES: f64 = 4.0;

/// Number of rows of `Cmm` in a product with a given reconstructor.
pub(super) const GIVEN_PANEL: usize = 512;

/// Returns a plan with the needs of every run: the program, and so many workers.
pub(super) fn memory_of_workers(limit: Option<u64>, workers: usize) -> MemoryPlan {
    let mut memory = MemoryPlan::new(memory::limit(limit));
    memory.add("program", PROGRAM);
    memory.add(format!("{workers} worker(s)"), workers as u64 * WORKER_BYTES);
    memory
}

/// Minimum capacity of a trace in records, on all workers.
const TRACE_LEAST: usize = 1 << 17;
/// Minimum and maximum capacity of a trace in records, on one worker.
const TRACE_RECORDS: std::ops::RangeInclusive<usize> = 1 << 10..=1 << 20;

/// Returns the records on each worker that hold all tasks of a run with so many rules.
fn trace_records(grid: &TileGrid, rules: usize, workers: usize) -> usize {
    let tasks = rules.saturating_mul(grid.tiles().saturating_pow(3) / 2);
    // The load of workers may be unequal.
    let each = tasks.saturating_mul(4).max(TRACE_LEAST) / workers.max(1);
    each.clamp(*TRACE_RECORDS.start(), *TRACE_RECORDS.end())
}

/// Returns the bytes of a trace with room for so many records on each worker, as in the runtime's
/// recorder. Each task has two idle times, four dependencies, and a word of the queue for each of
/// these.
fn trace_bytes(workers: usize, records: usize) -> u64 {
    let each = size_of::<TaskEvent>()
        + 2 * size_of::<IdleEvent>()
        + 4 * size_of::<(u64, u64)>()
        + 7 * size_of::<usize>();
    (each as u64).saturating_mul(workers as u64).saturating_mul(records as u64)
}

/// Returns the bytes of the image of one target.
pub(super) fn image_bytes(system: &System) -> u64 {
    let size = image_size(system) as f64;
    // Sampled influence functions at the pixels of the pupil, a third of the image across, and as
    // many modes.
    let functions = match &system.mirror {
        MirrorModel::Sampled(functions) => {
            functions.bytes() as f64 + 16.0 * functions.actuators() as f64 * (size / 3.0).powi(2)
        }
        MirrorModel::Gaussian { .. } => 0.0,
    };
    (IMAGE_ARRAYS * 8.0 * size.powi(2) + functions) as u64
}

/// Returns the bytes of the residual of one target, of a block and the panels of a term for each
/// worker, and of the terms that wait for their addition.
pub(super) fn evaluation_bytes(n: f64, m: f64, workers: usize) -> u64 {
    let (workers, width) = (workers as f64, cee::panel_width(n as usize) as f64);
    let terms = m * m * (cee::WAITING as f64 + 6.0);
    (8.0 * (m * n + workers * width * (width + 2.0 * m) + terms)) as u64
}

/// Returns the system with the targets of the options.
pub(super) fn with_targets(input: &Input, options: &Options) -> System {
    let mut system = input.system.clone();
    if let Some(targets) = &options.targets {
        system.targets.clone_from(targets);
    }
    system
}

/// Returns the tile boundaries for an option.
///
/// # Errors
/// A tile size of 0.
pub fn grid(info: &Info, tile: TileChoice) -> Result<TileGrid, PipelineError> {
    match tile {
        TileChoice::Auto => Ok(TileGrid::auto(&blocks(info), LARGEST_TILE)?),
        TileChoice::AutoGpu { memory } => {
            // Rounding enlarges tiles by less than a step.
            let largest = gpu_tile(info.measurements, memory) - GPU_STEP;
            Ok(TileGrid::auto(&blocks(info), largest)?.rounded(GPU_STEP))
        }
        TileChoice::Uniform(0) => {
            Err(PipelineError::Options("a tile size of 0: give at least 1, or auto".into()))
        }
        TileChoice::Uniform(size) => Ok(TileGrid::uniform(info.measurements, size)?),
    }
}

fn blocks(info: &Info) -> Vec<Block> {
    info.blocks.iter().map(|b: &geometry::Block| Block { len: b.len, group: b.wfs }).collect()
}

/// Returns the largest tile size for GPUs with so much memory each, for a matrix of order `n`.
fn gpu_tile(n: usize, memory: u64) -> usize {
    let fits = |&&tile: &&usize| n >= GPU_FEWEST * tile && memory >= GPU_ROOM * 4 * (tile * tile) as u64;
    GPU_TILES.iter().find(fits).copied().unwrap_or(LARGEST_TILE)
}

impl TileChoice {
    /// Returns the alignment of tile boundaries.
    pub(super) fn step(self) -> usize {
        match self {
            TileChoice::AutoGpu { .. } => GPU_STEP,
            // Tensor cores run at half the rate with operands that are not aligned.
            TileChoice::Uniform(tile) if tile.is_multiple_of(GPU_STEP) => GPU_STEP,
            TileChoice::Auto | TileChoice::Uniform(_) => 1,
        }
    }
}

/// Checks the system, rules and tiles, and whether the run fits the memory. Nothing large is
/// allocated.
///
/// # Errors
/// A parameter, a rule or an option is wrong; the memory is too small, with the sum in the message.
pub fn precheck(input: &Input, options: &Options) -> Result<Plan, PipelineError> {
    let plan = plan(input, options)?;
    plan.memory.check(&remedy(&plan.info, &plan.rules, options))?;
    Ok(plan)
}

/// Plans a run as [`precheck`] does, without the check of the memory.
///
/// # Errors
/// A parameter, a rule or an option is wrong.
pub fn plan(input: &Input, options: &Options) -> Result<Plan, PipelineError> {
    let system = with_targets(input, options);
    system.check()?;
    if system.targets.is_empty() {
        return Err(PipelineError::Options("no target: give at least one".into()));
    }
    if options.rules.is_empty() {
        return Err(PipelineError::Options("no precision rule: give at least one, e.g. fp32".into()));
    }
    let rules: Vec<Rule> = options.rules.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    let solve_rule: Option<Rule> = options.solve_rule.as_ref().map(|text| text.parse()).transpose()?;
    let double = |rule: &Rule| rule.element() == StorageFormat::F64;
    if let Some(rule) = &solve_rule
        && let Some(other) = rules.iter().find(|r| double(r) != double(rule))
    {
        return Err(PipelineError::Options(format!(
            "solve rule {rule} cannot be combined with {other}: fp64 tiles need fp64 products, fp32 tiles all others"
        )));
    }
    check_rounding(options)?;
    let info = info(&system, &input.atmosphere)?;
    let grid = grid(&info, options.tile)?;
    rules.iter().chain(&solve_rule).try_for_each(|rule| rule.check(grid.tiles()))?;
    let products = (grid.tiles() as f64).powi(3) / 6.0;
    if products > MOST_PRODUCTS {
        return Err(PipelineError::Options(format!(
            "tiles of at most {} make {products:.1e} tile products: choose larger ones",
            grid.max_width()
        )));
    }
    let mut memory = need(&system, &info, &grid, &rules, options);
    let kept_bytes = kept_bytes(&system, &rules, options, &memory)?;
    if kept_bytes > 0 {
        memory.add("kept covariances", kept_bytes);
    }
    let advice = advice(&grid, &rules);
    let workers = workers(options);
    let trace_records = trace_records(&grid, rules.len(), workers);
    let trace_bytes = trace_bytes(workers, trace_records);
    Ok(Plan { info, grid, rules, solve_rule, memory, kept_bytes, trace_records, trace_bytes, advice })
}

/// Checks that reconstructors can be rounded within the solve.
fn check_rounding(options: &Options) -> Result<(), PipelineError> {
    let refused = match options.rounding {
        None => return Ok(()),
        Some(_) if options.refine > 0 => {
            "refinement would undo the rounding of the reconstructor: leave out one of them"
        }
        Some(_) if options.ranks > 1 => {
            "reconstructors are rounded on one rank only: run one process, or do not round"
        }
        Some(_) => return Ok(()),
    };
    Err(PipelineError::Options(refused.into()))
}

/// Returns the bytes of one entry of `L` in its main format and in its replicas of other formats.
fn bytes_of(rule: &Rule) -> (f64, f64) {
    let Some(mut products) = rule.precisions() else {
        return (4.0, 4.0);
    };
    products.push(rule.panel().gemm(GemmPrecision::Sp));
    let mut formats: Vec<StorageFormat> = products.into_iter().map(GemmPrecision::operand_format).collect();
    formats.retain(|format| !matches!(format, StorageFormat::F64 | StorageFormat::F32));
    formats.sort_unstable();
    formats.dedup();
    let replicas = formats.iter().map(|format| format.bytes() as f64).sum();
    (rule.element().bytes() as f64, replicas)
}

/// Lists ways to make a run smaller that are still possible for this one.
fn remedy(info: &Info, rules: &[Rule], options: &Options) -> String {
    let mut list = Vec::new();
    if info.targets > 1 {
        list.push("fewer targets");
    }
    if options.keep_reconstructors && rules.len() > 1 {
        list.push("one rule at a time");
    }
    if rules.iter().any(|rule| bytes_of(rule) != (4.0, 0.0)) {
        list.push("fp32 alone, which needs no replicas and no float64 tiles");
    }
    list.push("a larger machine");
    format!("take {}", list.join(", or "))
}

fn need(system: &System, info: &Info, grid: &TileGrid, rules: &[Rule], options: &Options) -> MemoryPlan {
    let (n, m, targets) = (info.measurements as f64, info.truth_slopes as f64, info.targets as f64);
    let workers = workers(options);
    let mut memory = memory_of_workers(options.memory_limit, workers);
    let mut add = |what: String, bytes: f64| memory.add(what, bytes as u64);
    let most = |part: fn((f64, f64)) -> f64| rules.iter().map(|r| part(bytes_of(r))).fold(0.0, f64::max);
    let part = share(options.ranks);
    let triangle = part * triangle(grid);
    let master = most(|b| b.0);
    let both = rules.iter().any(|r| bytes_of(r).0 == 8.0) && rules.iter().any(|r| bytes_of(r).0 == 4.0);
    add(format!("triangle of Cmm, n = {n}"), triangle * if both { 12.0 } else { master });
    if most(|b| b.1) > 0.0 {
        add("narrow replicas".into(), triangle * most(|b| b.1));
    }
    add("reconstructors in tiles".into(), part * targets * n * m * (master + most(|b| b.1)));
    let kept = if options.keep_reconstructors { rules.len() as f64 * targets } else { targets };
    add("reconstructors in float64".into(), 8.0 * kept * n * m);
    if options.rounding.is_some() {
        add("reconstructors in few bits".into(), 4.0 * targets * n * m);
    }
    if options.given.is_some() {
        let panel = GIVEN_PANEL as f64 + m;
        add("given reconstructors".into(), 8.0 * targets * n * m);
        add("their products with Cmm".into(), 8.0 * workers as f64 * panel * grid.max_width() as f64);
    }
    if options.refine > 0 {
        add("refinement".into(), targets * n * m * 24.0);
    }
    let tile = (grid.max_width() as f64).powi(2) * master;
    add("working space".into(), workers as f64 * WORK_TILES * tile);
    add("measuring products".into(), peak::tiles(workers) as f64 * tile);
    if options.judge {
        add("image".into(), image_bytes(system) as f64);
        add("evaluation".into(), evaluation_bytes(n, m, workers) as f64);
    }
    let tiles = grid.tiles() as f64;
    add("handles and tasks".into(), 600.0 * tiles * tiles + 200e6_f64.min(1e3 * tiles.powi(3)));
    if options.xray == Xray::Full || options.xray == Xray::Auto && info.measurements <= XRAY_UP_TO {
        add("X-ray".into(), 24.0 * n * n);
    }
    if options.trace {
        add(
            "records of the trace".into(),
            trace_bytes(workers, trace_records(grid, rules.len(), workers)) as f64,
        );
    }
    memory
}

/// Returns the bytes of covariances to keep: as many as fit into the free memory, and none if the
/// matrices are generated only once.
fn kept_bytes(
    system: &System,
    rules: &[Rule],
    options: &Options,
    memory: &MemoryPlan,
) -> Result<u64, PipelineError> {
    if !options.judge && options.refine == 0 && rules.len() == 1 {
        return Ok(0);
    }
    let free = memory.available.map_or(u64::MAX, |available| available.saturating_sub(memory.total()));
    Ok(worth_keeping(system)?.min(free))
}

/// Returns the number of workers of a run with these options.
fn workers(options: &Options) -> usize {
    options.workers.unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from))
}

/// Returns the number of entries in the tiles on and below the diagonal.
fn triangle(grid: &TileGrid) -> f64 {
    (0..grid.tiles()).map(|i| grid.width(i) as f64 * grid.range(i).end as f64).sum()
}

/// Returns advice on tile boundaries, which decide on the success of low-precision factorisations.
/// If a block of one sensor and axis has more than two parts, the products of two parts contain the
/// tip-tilt constant of the laser stars twice.
fn advice(grid: &TileGrid, rules: &[Rule]) -> Vec<String> {
    let mut advice = Vec::new();
    let parts = grid.parts_of_largest();
    if parts > 2 {
        let weak = |rule: &&Rule| match rule.parts() {
            Some((GemmPrecision::Dp | GemmPrecision::Sp | GemmPrecision::X3, _, _)) | None => false,
            Some((_, Test::Always | Test::Band(0 | 1), _)) => true,
            Some(_) => false,
        };
        let who: Vec<String> = rules.iter().filter(weak).map(Rule::to_string).collect();
        let named = if who.is_empty() { String::new() } else { format!(" (here: {})", who.join(", ")) };
        advice.push(format!(
            "{parts} tiles per axis block of a sensor: rules of low precision without a condition may lose positive definiteness{named}; \
             use band=2 or an operand rule"
        ));
    }
    advice
}

/// Host memory that the tasks of a stage need at once.
struct StageNeed {
    stage: String,
    bytes: u64,
}

impl Plan {
    /// Checks, before the first task, that every task of every stage can have its operands in the
    /// host memory of `capacity` bytes. `rows` are the boundaries of the stacked rows of all
    /// targets. If GPUs take products, the runtime finds out whether these fit.
    ///
    /// # Errors
    /// [`PipelineError::HostMemory`] with the stage that needs the most.
    pub(super) fn check_host(
        &self,
        rows: &TileGrid,
        options: &Options,
        capacity: Option<u64>,
        with_gpus: bool,
    ) -> Result<(), PipelineError> {
        let Some(capacity) = capacity else { return Ok(()) };
        let needs = self.rules.iter().flat_map(|rule| self.stage_needs(rule, rows, options, with_gpus));
        match needs.max_by_key(|need| need.bytes) {
            Some(StageNeed { stage, bytes }) if bytes > capacity => {
                Err(PipelineError::HostMemory { stage, bytes, capacity })
            }
            _ => Ok(()),
        }
    }

    fn stage_needs(
        &self,
        rule: &Rule,
        rows: &TileGrid,
        options: &Options,
        with_gpus: bool,
    ) -> Vec<StageNeed> {
        let grid = &self.grid;
        let is_double = rule.element() == StorageFormat::F64;
        let master = if is_double { 8 } else { 4 };
        let mut needs = Vec::new();
        let mut add =
            |stage: &str, bytes: u64| needs.push(StageNeed { stage: format!("{rule}: {stage}"), bytes });
        let mut widths: Vec<usize> = (0..grid.tiles()).map(|j| grid.width(j)).collect();
        widths.sort_unstable_by(|a, b| b.cmp(a));
        add("covariances", master * (widths[0] * widths[0].max(rows.max_width())) as u64);
        if !with_gpus {
            // Two of three tile columns make a tile of a product. At least the smallest of these
            // tiles has no low-precision copy.
            if let &[a, b, c, ..] = &widths[..] {
                let narrow =
                    rule.precisions().into_iter().flatten().map(|p| p.operand_format().bytes() as u64);
                let operand = narrow.min().unwrap_or(master);
                let smallest = (master - operand.min(master)) * (b * c) as u64;
                add("factorisation", operand * (a * b + a * c + b * c) as u64 + smallest);
            }
            add("solve", master * (widths[0] * (widths[0] + rows.max_width())) as u64);
        }
        if options.refine > 0 && !is_double {
            add("refinement", refine_bytes(rows.len(), grid));
        }
        if options.judge {
            let of = if is_double { residual::operand_bytes::<f64> } else { residual::operand_bytes::<f32> };
            add("backward error", of(grid));
            add("error covariance", cee::operand_bytes(self.info.measurements, self.info.truth_slopes));
        }
        needs
    }

    /// Returns the number of tiles along one side.
    pub fn tiles(&self) -> usize {
        self.grid.tiles()
    }

    /// Returns the bytes of the tiles of `Cmm` and of all targets' rows, with the low-precision
    /// copies for the rule that needs the most.
    pub fn tile_bytes(&self) -> u64 {
        let rows = (self.info.targets * self.info.truth_slopes * self.info.measurements) as f64;
        let numbers = triangle(&self.grid) + rows;
        let each = self.rules.iter().map(bytes_of).map(|(master, narrow)| master + narrow);
        (numbers * each.fold(0.0, f64::max)) as u64
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.info)?;
        writeln!(
            f,
            "tiles            {} x {}, up to {} wide, {} per axis block at most",
            self.tiles(),
            self.tiles(),
            self.grid.max_width(),
            self.grid.parts_of_largest()
        )?;
        write!(f, "run              {}", self.memory)?;
        if let Some(available) = self.memory.available {
            write!(f, ", {} available", Bytes(available))?;
        }
        for line in &self.advice {
            write!(f, "\nnote             {line}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_for_gpus_grow_with_matrix_and_memory() {
        const GB: u64 = 1_000_000_000;
        let of = |n, memory| gpu_tile(n, memory);
        assert_eq!(
            [of(912, 80 * GB), of(16_384, 80 * GB), of(30_096, 80 * GB), of(100_368, 140 * GB)],
            [512, 1024, 2048, 3072]
        );
        assert_eq!([of(100_368, 500_000_000), of(100_368, 1000), of(0, 0)], [1024, 512, 512]);
    }

    #[test]
    fn edges_for_gpus_are_multiples_near_the_sensors() {
        let input = crate::params::timed_system(41, false).unwrap();
        let info = info(&input.system, &input.atmosphere).unwrap();
        let grid = grid(&info, TileChoice::AutoGpu { memory: 80 << 30 }).unwrap();
        let n = info.measurements;
        assert!(grid.max_width() <= 1024 && grid.max_width() > 512, "{:?}", grid.edges());
        assert!(grid.edges().iter().all(|edge| edge % GPU_STEP == 0 || *edge == n));
        let mut end = 0;
        for block in &info.blocks {
            end += block.len;
            assert!(grid.edges().iter().any(|edge| edge.abs_diff(end) <= GPU_STEP / 2), "{end}");
        }
    }
}
