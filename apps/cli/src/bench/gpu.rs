//! `zellige bench gpu`. It knows the GPU's driver and nothing of CUDA.

mod figures;
mod reconstructors;

use std::fmt::Display;
use std::sync::Arc;

use anyhow::Context;
use zellige_gpu::cuda::Cuda;
use zellige_gpu::{Driver, Library, LibraryState};
use zellige_kernels::GemmPrecision;
use zellige_linalg::bench::gpu::{GpuBench, TiledBench};
use zellige_linalg::{Rule, capability_for};
use zellige_runtime::{Gpu, Topology};
use zellige_tor::pipeline::Observer;

use crate::args::{BenchGpu, Tile};
use crate::devices;
use crate::exit::CommandError;
use crate::interrupt;
use crate::out::{self, Target};
use crate::progress::Progress;
use crate::table::bytes;
use figures::{
    Figures, MemoryFigures, ProductFigures, SizeFigures, TiledFigures, TogetherFigures, WholeFigures,
};
use reconstructors::TorSize;

/// The rule of the factorisations in little memory.
const MEMORY_RULE: &str = "hp1:band=2";
/// Rules of the factorisations in which CPU workers help: where they can most, and where a wrong decision costs most.
const TOGETHER_RULES: [&str; 2] = ["fp32", MEMORY_RULE];

/// How much is measured.
#[derive(Clone, Debug)]
struct Sizes {
    n: Vec<u32>,
    tile: u32,
    rules: Vec<Rule>,
    out_of_core: u32,
    /// CPU workers that help.
    workers: usize,
    tor: Vec<TorSize>,
    tor_tile: Tile,
    repeats: u16,
    /// Bytes of the tiles of products, more than caches hold.
    spread: u64,
    /// Bytes of one copy.
    copy: usize,
    /// Least time of the products of one run.
    seconds: f64,
}

impl Sizes {
    /// What the options ask for.
    fn of(args: &BenchGpu) -> Result<Self, CommandError> {
        if !args.tile.is_multiple_of(16) {
            let problem = format!("{} is no multiple of 16, as tensor cores want it", args.tile);
            return Err(CommandError::option("--tile", problem));
        }
        let usual: &[u32] = if args.quick { &[8192, 16_384] } else { &[16_384, 32_768, 65_536, 100_352] };
        let across: &[u16] = if args.quick { &[41] } else { &[47, 67, 86] };
        Ok(Sizes {
            n: if args.n.is_empty() { usual.to_vec() } else { args.n.clone() },
            tile: args.tile,
            rules: args.rule.clone(),
            out_of_core: args.out_of_core.unwrap_or(if args.quick { 16_384 } else { 32_768 }),
            workers: Topology::discover().cores.len(),
            tor: TorSize::all(if args.tor.is_empty() { across } else { &args.tor }),
            tor_tile: args.tor_tile,
            repeats: args.repeats,
            spread: 512 << 20,
            copy: 256 << 20,
            seconds: 0.2,
        })
    }
}

/// Measures, prints, writes.
///
/// # Errors
/// [`CommandError::NoDevice`] without the GPU or its libraries; something could not be measured; the output cannot be written.
pub fn run(args: &BenchGpu) -> anyhow::Result<()> {
    let sizes = Sizes::of(args)?;
    let target = args.json.as_deref().map(|path| Target::new("--json", path)).transpose()?;
    let driver = open(args.gpu)?;
    let progress = Progress::new();
    let figures = measure(&driver, args.gpu, &sizes, &progress)?;
    drop(progress);
    if let Some(target) = &target {
        target.write_json(&figures)?;
    }
    if !target.as_ref().is_some_and(Target::is_stdout) {
        out::print(&figures.text(out::colours(&std::io::stdout())))?;
    }
    verdict(&figures)
}

fn open(number: u32) -> Result<Arc<dyn Driver>, CommandError> {
    let refused = |problem| CommandError::NoDevice { device: format!("cuda:{number}"), problem };
    let driver = Cuda::open().map_err(|error| refused(error.to_string()))?;
    let problems = devices::problems(&driver, number);
    if problems.is_empty() { Ok(Arc::new(driver)) } else { Err(refused(problems.join("\n  "))) }
}

/// An error for what failed.
fn verdict(figures: &Figures) -> anyhow::Result<()> {
    let failed = figures.failed.len();
    anyhow::ensure!(failed == 0, "{failed} measurements failed: the lines that say so");
    Ok(())
}

/// Measures everything on one GPU; what does not fit and what fails are lines of the figures.
///
/// # Errors
/// Ctrl-C; the driver says nothing of the GPU.
fn measure(
    driver: &Arc<dyn Driver>,
    number: u32,
    sizes: &Sizes,
    progress: &dyn Observer,
) -> anyhow::Result<Figures> {
    let info = driver.gpus().get(number as usize).context("there is no such GPU")?;
    let (driver, repeats, least_seconds) = (Arc::clone(driver), sizes.repeats.into(), sizes.seconds);
    let mut figures = Figures::new(number, info, libraries(&*driver), sizes);
    if let Err(error) = driver.gauges(number) {
        figures.left_out.push(format!("clock rates and power: {error}"));
    }
    let bench = GpuBench { driver, number, repeats, least_seconds };
    let mut run = Run { bench, sizes, progress, capability: info.compute_capability, figures };
    run.products()?;
    run.links()?;
    run.factorisations()?;
    run.little_memory()?;
    run.together()?;
    run.reconstructors()?;
    Ok(run.figures)
}

/// Libraries and their versions.
fn libraries(driver: &dyn Driver) -> Vec<(&'static str, String)> {
    let version = |library: Library| match driver.library(library) {
        LibraryState::There(version) => Some((library.name(), version)),
        LibraryState::Missing(_) => None,
    };
    Library::ALL.into_iter().filter_map(version).collect()
}

/// What is being measured, and what has been.
struct Run<'a> {
    bench: GpuBench,
    sizes: &'a Sizes,
    progress: &'a dyn Observer,
    capability: (u32, u32),
    figures: Figures,
}

impl Run<'_> {
    /// What a measurement gave; one that failed is a line, one that Ctrl-C ended is an error.
    fn tried<T>(&mut self, what: &str, measured: Result<T, impl Display>) -> Result<Option<T>, CommandError> {
        interrupt::check()?;
        match measured {
            Ok(measured) => Ok(Some(measured)),
            Err(error) => {
                self.figures.failed.push(format!("{what}: {error}"));
                Ok(None)
            }
        }
    }

    /// Whether so many bytes fit the GPU's memory, but for a twentieth; a line, if they do not.
    fn fits(&mut self, what: &str, needed: u64) -> anyhow::Result<bool> {
        let (free, total) = self.bench.driver.memory(self.bench.number)?;
        let usable = free.saturating_sub(total / 20);
        if needed > usable {
            let line = format!("{what}: needs {}, the GPU has {}", bytes(needed), bytes(usable));
            self.figures.left_out.push(line);
        }
        Ok(needed <= usable)
    }

    /// Why a precision is not possible here.
    fn impossible(&self, precision: GemmPrecision) -> Option<String> {
        let ((major, minor), has) = (capability_for(precision), self.capability);
        if has < (major, minor) {
            return Some(format!("needs {major}.{minor}, this GPU is {}.{}", has.0, has.1));
        }
        match self.bench.driver.library(Library::CublasLt) {
            LibraryState::Missing(why) if precision == GemmPrecision::Fp8 => {
                Some(format!("{} is missing: {why}", Library::CublasLt))
            }
            _ => None,
        }
    }

    fn products(&mut self) -> anyhow::Result<()> {
        self.progress.stage("products", GemmPrecision::ALL.len() as u64);
        for (done, precision) in (1u64..).zip(GemmPrecision::ALL) {
            let what = format!("{precision} products");
            if let Some(why) = self.impossible(precision) {
                self.figures.left_out.push(format!("{what}: {why}"));
                continue;
            }
            let measured = self.bench.products(precision, self.sizes.tile, self.sizes.spread);
            if let Some(rate) = self.tried(&what, measured)? {
                self.figures.products.push(ProductFigures::from(&rate));
            }
            self.progress.advance(done);
        }
        Ok(())
    }

    fn links(&mut self) -> anyhow::Result<()> {
        self.progress.stage("copies", 1);
        let measured = self.bench.links(self.sizes.copy);
        self.figures.copies = self.tried("copies", measured)?.map(Into::into);
        Ok(())
    }

    fn factorisations(&mut self) -> anyhow::Result<()> {
        let each = 2 + self.sizes.rules.len() as u64;
        self.progress.stage("factorisations", each * self.sizes.n.len() as u64);
        for (at, &n) in (0u64..).zip(&self.sizes.n) {
            let mut size = SizeFigures {
                n,
                cusolver_f32: self.whole::<f32>(n)?,
                cusolver_f64: self.whole::<f64>(n)?,
                tiled: Vec::new(),
            };
            self.progress.advance(each * at + 2);
            for (done, rule) in (1u64..).zip(&self.sizes.rules) {
                size.tiled.extend(self.tiled(n, rule, size.cusolver_f32.as_ref())?);
                self.progress.advance(each * at + 2 + done);
            }
            self.figures.cholesky.push(size);
        }
        Ok(())
    }

    fn whole<T: zellige_linalg::TileScalar>(&mut self, n: u32) -> anyhow::Result<Option<WholeFigures>> {
        let what = format!("cuSOLVER n = {n}, {}", T::FULL);
        let n = n as usize;
        let needed = self.bench.whole_bytes::<T>(n);
        let Some(needed) = self.tried(&what, needed)? else { return Ok(None) };
        if !self.fits(&what, needed)? {
            return Ok(None);
        }
        let measured = self.bench.whole::<T>(n);
        Ok(self.tried(&what, measured)?.map(Into::into))
    }

    fn tiled(
        &mut self,
        n: u32,
        rule: &Rule,
        whole: Option<&WholeFigures>,
    ) -> anyhow::Result<Option<TiledFigures>> {
        let what = format!("tiled n = {n}, {rule}");
        let bench = self.tiled_bench(n, rule.clone(), false);
        if !self.fits(&what, bench.bytes()?)? {
            return Ok(None);
        }
        let gpu = Gpu::new(Arc::clone(&self.bench.driver), self.bench.number);
        let measured = bench.run(&[gpu], interrupt::cancels);
        let Some(run) = self.tried(&what, measured)? else { return Ok(None) };
        let limit_seconds = self.figures.least_seconds(&run.work);
        Ok(Some(TiledFigures {
            rule: rule.to_string(),
            seconds: run.seconds,
            tflops: run.tflops,
            limit_seconds,
            fraction_of_limit: limit_seconds.map(|limit| limit / run.seconds),
            x_cusolver_f32: whole.map(|whole| whole.seconds / run.seconds),
            bytes_moved: run.bytes_moved,
            evictions: run.evictions,
            conditions: run.conditions.map(Into::into).unwrap_or_default(),
        }))
    }

    fn tiled_bench(&self, n: u32, rule: Rule, fingerprint: bool) -> TiledBench {
        let (tile, repeats) = (self.sizes.tile as usize, self.sizes.repeats.into());
        TiledBench { n: n as usize, tile, rule, repeats, workers: 0, fingerprint }
    }

    /// In its whole memory, in 30 % of what the matrix takes, and on parts of the GPU: the same bits.
    fn little_memory(&mut self) -> anyhow::Result<()> {
        let n = self.sizes.out_of_core;
        let bench = self.tiled_bench(n, MEMORY_RULE.parse()?, true);
        let whole = bench.bytes()?;
        if !self.fits(&format!("little memory, n = {n}"), 2 * whole)? {
            return Ok(());
        }
        let cases = [
            ("in memory", 1, 2 * whole),
            ("in 30 % of its size", 1, whole * 3 / 10),
            ("on 2 parts of the GPU", 2, whole),
            ("on 4 parts of the GPU", 4, whole / 2),
        ];
        self.progress.stage("little memory", cases.len() as u64);
        let mut first = None;
        for (done, (what, parts, memory)) in (1u64..).zip(cases) {
            let gpu = Gpu::new(Arc::clone(&self.bench.driver), self.bench.number).memory(memory);
            let measured = bench.run(&vec![gpu; parts], interrupt::cancels);
            let what = format!("n = {n}, {MEMORY_RULE} {what}");
            if let Some(run) = self.tried(&what, measured)? {
                let same_bits = *first.get_or_insert(run.fingerprint) == run.fingerprint;
                if !same_bits {
                    self.figures.failed.push(format!("{what}: the factor has other bits"));
                }
                let beyond = whole.saturating_sub(memory * parts as u64);
                let limit = self.figures.least_seconds_with_copies(&run.work, beyond);
                self.figures.memory.push(MemoryFigures::new(what, parts, memory, same_bits, &run, limit));
            }
            self.progress.advance(done);
        }
        Ok(())
    }

    /// CPU workers and the GPU beside the GPU alone.
    fn together(&mut self) -> anyhow::Result<()> {
        let n = self.sizes.out_of_core;
        self.progress.stage("CPU and GPU", 2 * TOGETHER_RULES.len() as u64);
        for (at, text) in (0u64..).zip(TOGETHER_RULES) {
            let what = format!("CPU and GPU, n = {n}, {text}");
            let alone = self.tiled_bench(n, text.parse()?, false);
            if !self.fits(&what, alone.bytes()?)? {
                continue;
            }
            let together = TiledBench { workers: self.sizes.workers, ..alone.clone() };
            let gpu = [Gpu::new(Arc::clone(&self.bench.driver), self.bench.number)];
            let alone = alone.run(&gpu, interrupt::cancels);
            self.progress.advance(2 * at + 1);
            let Some(alone) = self.tried(&what, alone)? else { continue };
            let together = together.run(&gpu, interrupt::cancels);
            self.progress.advance(2 * at + 2);
            let Some(together) = self.tried(&what, together)? else { continue };
            self.figures.together.push(TogetherFigures::new(n, text, self.sizes.workers, &alone, &together));
        }
        Ok(())
    }
}

/// The middle of these, NaN of none.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    match (values.len().checked_sub(half + 1), values.get(half)) {
        (Some(below), Some(above)) => f64::midpoint(values[below], *above),
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;
    use zellige_kernels::cuda::SOURCES;
    use zellige_tor::covariance::device::SOURCE;
    use zellige_tor::pipeline::Silent;

    use super::*;

    fn fake(memory: u64, without: Option<Library>) -> Option<Arc<dyn Driver>> {
        let builder = zellige_twins::fake(SOURCES.iter().chain([&SOURCE]))?.memory(memory);
        let builder = without.into_iter().fold(builder, |builder, library| builder.without(library));
        Some(Arc::new(builder.build()))
    }

    fn sizes(n: &[u32]) -> Sizes {
        let rules = ["fp32", "hp1:operand=1e-2,else=x3"].map(|rule| rule.parse().unwrap());
        Sizes {
            n: n.to_vec(),
            tile: 16,
            rules: rules.into(),
            out_of_core: 256,
            workers: 2,
            tor: vec![],
            tor_tile: Tile::Edge(32),
            repeats: 1,
            spread: 4096,
            copy: 100_000,
            seconds: 0.0,
        }
    }

    fn keys(value: &Value) -> BTreeSet<&str> {
        value.as_object().unwrap().keys().map(String::as_str).collect()
    }

    /// Every number in it, by its last key.
    fn numbers<'v>(value: &'v Value, key: &'v str, found: &mut Vec<(&'v str, f64)>) {
        match value {
            Value::Number(x) => found.push((key, x.as_f64().unwrap())),
            Value::Array(all) => all.iter().for_each(|value| numbers(value, key, found)),
            Value::Object(all) => all.iter().for_each(|(key, value)| numbers(value, key, found)),
            _ => {}
        }
    }

    #[test]
    fn everything_is_measured_and_has_the_documented_keys() {
        let Some(driver) = fake(1 << 30, None) else { return };
        let tor = TorSize::all(&[4]);
        let figures = measure(&driver, 0, &Sizes { tor, ..sizes(&[48, 100]) }, &Silent).unwrap();
        assert_eq!((&figures.left_out, &figures.failed), (&vec![], &vec![]));
        verdict(&figures).unwrap();
        let json = serde_json::to_value(&figures).unwrap();
        let wanted =
            "gpu libraries tile repeats products copies cholesky memory together tor left_out failed";
        assert_eq!(keys(&json), wanted.split(' ').collect());
        let part = |key: &str| json[key].as_array().unwrap();
        let wanted = "precision products seconds tflops plain_tflops fraction sm_clock_mhz power_w energy_j watched_seconds";
        assert!(part("products").iter().all(|row| keys(row) == wanted.split(' ').collect()), "{json}");
        assert_eq!((part("products").len(), part("cholesky").len(), part("memory").len()), (9, 2, 4));
        for size in part("cholesky") {
            assert_eq!(keys(size), ["n", "cusolver_f32", "cusolver_f64", "tiled"].into());
            assert_eq!(size["tiled"].as_array().unwrap().len(), 2);
            assert!(size["tiled"][1]["x_cusolver_f32"].as_f64().unwrap() > 0.0, "{size}");
        }
        assert!(part("memory").iter().all(|row| row["same_bits"] == true), "{json}");
        let fraction = |row: &Value| row["fraction_of_limit"].as_f64().unwrap();
        let limited =
            part("cholesky").iter().map(|size| &size["tiled"][1]).chain(part("memory")).chain(part("tor"));
        assert!(limited.into_iter().all(|row| fraction(row) > 0.0), "{json}");
        assert_eq!(part("together").len(), 2);
        assert!(part("together").iter().all(|row| row["ratio"].as_f64().unwrap() > 0.0), "{json}");
        assert!(part("memory")[1]["evictions"].as_u64().unwrap() > 0, "{json}");
        let mut found = Vec::new();
        numbers(&json, "", &mut found);
        let rates = ["seconds", "tflops", "plain_tflops", "fraction", "to_gpu", "to_host"];
        let rates: Vec<_> = found.iter().filter(|(key, _)| rates.contains(key)).collect();
        assert!(rates.len() > 9 * 4 && rates.iter().all(|(_, x)| *x > 0.0), "{rates:?}");
        for rate in part("products").iter().chain([&json["copies"], &json["cholesky"][0]["cusolver_f32"]]) {
            assert_eq!((&rate["sm_clock_mhz"], &rate["power_w"]), (&1500.0.into(), &300.0.into()), "{rate}");
        }
        let tiled = part("cholesky").iter().map(|size| &size["tiled"][0]).chain(part("memory"));
        assert!(
            tiled.into_iter().all(|run| run["sm_clock_mhz"] == 1500.0 && run["energy_j"].is_number()),
            "{json}"
        );
        let text = figures.text(false);
        assert!(text.contains("MHz") && text.contains(" 300"), "{text}");
        assert!(text.contains("cuSOLVER f64") && text.contains("in 30 %") && text.contains("bf1"), "{text}");
    }

    #[test]
    fn without_nvml_rates_are_measured_all_the_same() {
        let Some(driver) = fake(1 << 30, Some(Library::Nvml)) else { return };
        let few = Sizes { out_of_core: 64, ..sizes(&[]) };
        let figures = measure(&driver, 0, &few, &Silent).unwrap();
        let text = figures.text(false);
        assert!(text.contains("left out: clock rates and power: NVML is not usable"), "{text}");
        let json = serde_json::to_value(&figures).unwrap();
        assert!(
            json["products"][0]["power_w"].is_null() && json["products"][0]["tflops"].is_number(),
            "{json}"
        );
    }

    #[test]
    fn what_has_no_room_and_what_fails_are_lines() {
        let Some(driver) = fake(200 << 20, Some(Library::CublasLt)) else { return };
        let figures = measure(&driver, 0, &sizes(&[200_000]), &Silent).unwrap();
        let text = figures.text(false);
        assert!(text.contains("left out: fp8 products: cuBLASLt is missing"), "{text}");
        assert!(text.contains("left out: cuSOLVER n = 200000, fp64: needs"), "{text}");
        assert!(text.contains("left out: tiled n = 200000, fp32: needs"), "{text}");
        assert_eq!((figures.products.len(), figures.failed.len()), (8, 0));
        let few = Sizes { out_of_core: 32, n: vec![], ..sizes(&[]) };
        let figures = measure(&driver, 0, &few, &Silent).unwrap();
        assert!(figures.failed.len() == 4 && figures.memory.is_empty(), "{:?}", figures.failed);
        assert!(figures.failed[1].contains("in 30 %") && figures.failed[1].contains("needs"));
        assert!(verdict(&figures).is_err() && figures.text(false).contains("FAILED: n = 32"));
    }
}
