//! What a run will need, known before anything is allocated.

use super::{Error, Options, TileChoice, Xray, cee, memory, peak};
use crate::geometry;
use crate::image::size as image_size;
use crate::info::{Info, info};
use crate::params::{Input, System};
use std::fmt;
use zellige_kernels::StorageFormat;
use zellige_linalg::{Block, GemmPrecision, PrecisionPolicy, Rule, Test, TileGrid};
use zellige_runtime::WORKER_BYTES;

/// Largest tile of automatic edges.
pub const LARGEST_TILE: usize = 512;
/// Largest tiles of automatic edges for GPUs, in the order in which they are tried. Products of 2048 are near a GPU's peak and take it long enough for
/// the host to have the next ones ready.
const GPU_TILES: [usize; 3] = [2048, 1024, LARGEST_TILE];
/// Edges for GPUs are multiples of it: columns begin where tensor cores take them as they lie.
const GPU_STEP: usize = 16;
/// Fewest tiles along a matrix for GPUs: with fewer there are too few products beside each panel.
const GPU_FEWEST: usize = 12;
/// Tiles of `f32` for which each GPU must have room: operands of several tasks, their narrow forms, and what comes next.
const GPU_ROOM: u64 = 64;
/// Largest order whose eigenvalues are computed without being asked for.
pub const XRAY_UP_TO: usize = 4096;
/// Products of tiles that a factorisation may have: about an hour of task overhead.
const MOST_PRODUCTS: f64 = 2e9;

/// A checked run: sizes, tiles, rules, memory.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Sizes and work of the system.
    pub info: Info,
    /// Edges of the tiles of `Cmm`.
    pub grid: TileGrid,
    /// The rules, parsed.
    pub rules: Vec<Rule>,
    /// The solve's rule, parsed.
    pub solve_rule: Option<Rule>,
    /// Memory of the run's largest moment.
    pub memory: Need,
    /// What the user should know, e.g. that the edges need a certain kind of rule.
    pub advice: Vec<String>,
}

/// Pages of the program and its libraries that are in memory, and small tables.
const PROGRAM: f64 = 40e6;
/// Arrays of `f64` of an image's size that there are at once: spectra have two for each.
const IMAGE_ARRAYS: f64 = 9.0;
/// Tiles of working space that a worker may have for products of split operands, and what products pack.
const WORK_TILES: f64 = 4.0;

/// Memory by purpose.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Need {
    /// What for, and how many bytes.
    pub items: Vec<(String, u64)>,
    /// Bytes that are there, where the system tells.
    pub available: Option<u64>,
}

impl Need {
    pub(super) fn add(&mut self, what: impl Into<String>, bytes: f64) {
        self.items.push((what.into(), bytes as u64));
    }

    /// Bytes in all.
    pub fn total(&self) -> u64 {
        self.items.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Nothing yet, but for what every run takes: the program, and so many workers.
    pub(super) fn begin(limit: Option<u64>, workers: usize) -> Need {
        let mut need = Need { items: Vec::new(), available: memory::limit(limit) };
        need.add("program", PROGRAM);
        need.add(format!("{workers} worker(s)"), workers as f64 * WORKER_BYTES as f64);
        need
    }

    /// The image of one target.
    pub(super) fn image(&mut self, system: &System) {
        self.add("image", IMAGE_ARRAYS * 8.0 * (image_size(system) as f64).powi(2));
    }

    /// The residual of one target, per worker a block and the panels of a term, and the terms that wait for their turn.
    pub(super) fn evaluation(&mut self, n: f64, m: f64, workers: usize) {
        let (workers, width) = (workers as f64, cee::panel_width(n as usize) as f64);
        let terms = m * m * (cee::WAITING as f64 + 6.0);
        self.add("evaluation", 8.0 * (m * n + workers * width * (width + 2.0 * m) + terms));
    }

    /// Refuses what does not fit.
    pub(super) fn check(&self, remedy: &str) -> Result<(), Error> {
        match self.available {
            Some(available) if self.total() > available => Err(Error::Memory(format!(
                "not enough memory: {self}, {} available; {remedy}",
                Gigabytes(available)
            ))),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} needed (", Gigabytes(self.total()))?;
        for (k, (what, bytes)) in self.items.iter().enumerate() {
            write!(f, "{}{what} {}", if k == 0 { "" } else { " + " }, Gigabytes(*bytes))?;
        }
        write!(f, ")")
    }
}

struct Gigabytes(u64);

impl fmt::Display for Gigabytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gb = self.0 as f64 / 1e9;
        if gb >= 0.1 { write!(f, "{gb:.1} GB") } else { write!(f, "{:.1} MB", gb * 1e3) }
    }
}

/// The system with the targets of the options.
pub(super) fn with_targets(input: &Input, options: &Options) -> System {
    let mut system = input.system.clone();
    if let Some(targets) = &options.targets {
        system.targets.clone_from(targets);
    }
    system
}

/// The edges that an option asks for.
///
/// # Errors
/// A tile size of 0.
pub fn grid(info: &Info, tile: TileChoice) -> Result<TileGrid, Error> {
    match tile {
        TileChoice::Auto => Ok(TileGrid::auto(&blocks(info), LARGEST_TILE)?),
        TileChoice::AutoGpu { memory } => {
            // Rounding lets tiles grow by less than a step.
            let largest = gpu_tile(info.measurements, memory) - GPU_STEP;
            Ok(TileGrid::auto(&blocks(info), largest)?.rounded(GPU_STEP))
        }
        TileChoice::Uniform(0) => Err(Error::Options("a tile of 0: give at least 1, or auto".into())),
        TileChoice::Uniform(size) => Ok(TileGrid::uniform(info.measurements, size)?),
    }
}

fn blocks(info: &Info) -> Vec<Block> {
    info.blocks.iter().map(|b: &geometry::Block| Block { len: b.len, group: b.wfs }).collect()
}

/// The largest tile for GPUs with so much memory each, for a matrix of order `n`.
fn gpu_tile(n: usize, memory: u64) -> usize {
    let fits = |&&tile: &&usize| n >= GPU_FEWEST * tile && memory >= GPU_ROOM * 4 * (tile * tile) as u64;
    GPU_TILES.iter().find(fits).copied().unwrap_or(LARGEST_TILE)
}

impl TileChoice {
    /// What the edges of tiles are multiples of.
    pub(super) fn step(self) -> usize {
        if matches!(self, TileChoice::AutoGpu { .. }) { GPU_STEP } else { 1 }
    }
}

/// Checks system, rules and tiles, and whether the run fits the memory: nothing large is allocated.
///
/// # Errors
/// A parameter, a rule or an option is wrong; the memory is too small, with the arithmetic in the message.
pub fn precheck(input: &Input, options: &Options) -> Result<Plan, Error> {
    let plan = plan(input, options)?;
    plan.memory.check(&remedy(&plan.info, &plan.rules, options))?;
    Ok(plan)
}

/// As [`precheck`], whatever memory there is.
///
/// # Errors
/// A parameter, a rule or an option is wrong.
pub fn plan(input: &Input, options: &Options) -> Result<Plan, Error> {
    let system = with_targets(input, options);
    system.check()?;
    if system.targets.is_empty() {
        return Err(Error::Options("no target: give at least one".into()));
    }
    if options.rules.is_empty() {
        return Err(Error::Options("no precision rule: give at least one, e.g. fp32".into()));
    }
    let rules: Vec<Rule> = options.rules.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    let solve_rule: Option<Rule> = options.solve_rule.as_ref().map(|text| text.parse()).transpose()?;
    let double = |rule: &Rule| rule.element() == StorageFormat::F64;
    if let Some(rule) = &solve_rule
        && let Some(other) = rules.iter().find(|r| double(r) != double(rule))
    {
        return Err(Error::Options(format!(
            "solve rule {rule} does not go with {other}: fp64 tiles take fp64 products, fp32 tiles all others"
        )));
    }
    let info = info(&system, &input.atmosphere)?;
    let grid = grid(&info, options.tile)?;
    let products = (grid.tiles() as f64).powi(3) / 6.0;
    if products > MOST_PRODUCTS {
        return Err(Error::Options(format!(
            "tiles of at most {} make {products:.1e} tile products: choose larger ones",
            grid.max_width()
        )));
    }
    let memory = need(&system, &info, &grid, &rules, options);
    let advice = advice(&grid, &rules);
    Ok(Plan { info, grid, rules, solve_rule, memory, advice })
}

/// Bytes of one element of `L` in its master form and in its replicas of other formats.
fn bytes_of(rule: &Rule) -> (f64, f64) {
    let Some((low, _, otherwise)) = rule.parts() else {
        return (4.0, 4.0);
    };
    let squares = rule.full().gemm(GemmPrecision::Sp);
    let mut formats: Vec<StorageFormat> = [low, otherwise, squares].map(GemmPrecision::operand_format).into();
    formats.retain(|format| !matches!(format, StorageFormat::F64 | StorageFormat::F32));
    formats.sort_unstable();
    formats.dedup();
    let replicas = formats.iter().map(|format| format.bytes() as f64).sum();
    (if low == GemmPrecision::Dp { 8.0 } else { 4.0 }, replicas)
}

/// What would make a run smaller: only what this one can still give up.
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

fn need(system: &System, info: &Info, grid: &TileGrid, rules: &[Rule], options: &Options) -> Need {
    let (n, m, targets) = (info.measurements as f64, info.truth_slopes as f64, info.targets as f64);
    let workers =
        options.workers.unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from));
    let mut need = Need::begin(options.memory_limit, workers);
    let most = |part: fn((f64, f64)) -> f64| rules.iter().map(|r| part(bytes_of(r))).fold(0.0, f64::max);
    let triangle = triangle(grid);
    let master = most(|b| b.0);
    let both = rules.iter().any(|r| bytes_of(r).0 == 8.0) && rules.iter().any(|r| bytes_of(r).0 == 4.0);
    need.add(format!("triangle of Cmm, n = {n}"), triangle * if both { 12.0 } else { master });
    if most(|b| b.1) > 0.0 {
        need.add("narrow replicas", triangle * most(|b| b.1));
    }
    need.add("reconstructors in tiles", targets * n * m * (master + most(|b| b.1)));
    let kept = if options.keep_reconstructors { rules.len() as f64 * targets } else { targets };
    need.add("reconstructors in float64", 8.0 * kept * n * m);
    if options.refine > 0 {
        need.add("refinement", targets * n * m * 24.0);
    }
    let tile = (grid.max_width() as f64).powi(2) * master;
    need.add("working space", workers as f64 * WORK_TILES * tile);
    need.add("measuring products", peak::tiles(workers) as f64 * tile);
    need.image(system);
    need.evaluation(n, m, workers);
    let tiles = grid.tiles() as f64;
    need.add("handles and tasks", 600.0 * tiles * tiles + 200e6_f64.min(1e3 * tiles.powi(3)));
    if options.xray == Xray::Full || options.xray == Xray::Auto && info.measurements <= XRAY_UP_TO {
        need.add("X-ray", 24.0 * n * n);
    }
    need
}

/// Numbers in the tiles on and below the diagonal.
fn triangle(grid: &TileGrid) -> f64 {
    (0..grid.tiles()).map(|i| grid.width(i) as f64 * grid.range(i).end as f64).sum()
}

/// Edges decide which low-precision factorisations succeed: where a block of one sensor and axis has more than two parts, the
/// products of two parts carry the laser stars' tip-tilt constant twice.
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

impl Plan {
    /// Tiles along one side.
    pub fn tiles(&self) -> usize {
        self.grid.tiles()
    }

    /// Bytes of the tiles of `Cmm` and of all targets' rows, with the narrow forms that the most demanding rule reads.
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
            write!(f, ", {} available", Gigabytes(available))?;
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
            [512, 1024, 2048, 2048]
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
