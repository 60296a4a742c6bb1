//! The measurements in sequence.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Instant;

use zellige_app::json::Provenance;
use zellige_app::text::bytes;
use zellige_cuda::Gpu;
use zellige_dense::{Rule, TileScalar, capability_for};
use zellige_files::observe::Observer;
use zellige_gpu::{Driver, Library, LibraryState};
use zellige_kernels::GemmPrecision;
use zellige_runtime::model::Models;
use zellige_sim::platform::Platform;

use super::budget::Budget;
use super::figures::{
    Figures, MemoryFigures, ProductFigures, SeveralFigures, SizeFigures, TiledFigures, WithCpuFigures,
};
use super::rates::{GpuBench, PeakRate, Routine, TiledBench, TiledRun, WholeFactor};
use super::{Part, Sizes};
use crate::calibrate::host_conversions;
use crate::{Error, Watch, check};

/// The rule of the factorisations in little memory.
const MEMORY_RULE: &str = "hp1:band=2";
/// Number of launches for the host's times.
const LATENCIES: usize = 1000;
/// Rules of the factorisations with CPU workers: the one that gains most, and the one for which a
/// wrong decision costs most.
const WITH_CPU_RULES: [&str; 2] = ["fp32", MEMORY_RULE];

/// Callbacks of measurements: `progress` receives the progress, `save` the figures whenever there
/// are more, `watch` tasks that may be cancelled. `run` describes the run that the figures belong
/// to.
#[derive(Clone, Copy)]
pub struct Listeners<'a> {
    /// Receiver of the progress.
    pub progress: &'a dyn Observer,
    /// The figures so far.
    pub save: &'a dyn Fn(&Figures),
    /// Tasks that may be cancelled.
    pub watch: Watch<'a>,
    /// Place and time of the measurement.
    pub run: &'a Provenance,
}

/// Measures everything on one GPU. Measurements that do not fit or fail are lines of the figures.
/// The second value is the reason of an early end, e.g. [`Error::Cancelled`]; the figures are then
/// not complete.
///
/// # Errors
/// [`Error::NoGpu`].
pub fn measure(
    driver: &Arc<dyn Driver>,
    number: u32,
    sizes: &Sizes,
    listeners: Listeners<'_>,
) -> Result<(Figures, Result<(), Error>), Error> {
    let info = driver.gpus().get(number as usize).ok_or(Error::NoGpu(number))?;
    let (driver, repeats, least_seconds) = (Arc::clone(driver), sizes.repeats.into(), sizes.seconds);
    let mut figures = Figures::new(number, info, libraries(&*driver), sizes);
    if let Err(error) = driver.gauges(number) {
        figures.left_out.push(format!("clock rates and power: {error}"));
    }
    let bench = GpuBench { driver, number, repeats, least_seconds };
    let (budget, models) = (Budget::new(sizes.budget), Arc::new(Models::new()));
    let (ran, capability) = (Vec::new(), info.compute_capability);
    let mut run = GpuRun { bench, sizes, listeners, capability, figures, budget, models, ran };
    let measured = run.everything();
    run.figures.complete = measured.is_ok();
    run.figures.seconds = Some(run.budget.spent().as_secs_f64());
    Ok((run.figures, measured))
}

/// Libraries and their versions.
fn libraries(driver: &dyn Driver) -> Vec<(&'static str, String)> {
    let version = |library: Library| match driver.library(library) {
        LibraryState::There(version) => Some((library.name(), version)),
        LibraryState::Missing(_) => None,
    };
    Library::ALL.into_iter().filter_map(version).collect()
}

/// State of the measurements.
pub(super) struct GpuRun<'a> {
    pub(super) bench: GpuBench,
    pub(super) sizes: &'a Sizes,
    pub(super) listeners: Listeners<'a>,
    pub(super) capability: (u32, u32),
    pub(super) figures: Figures,
    pub(super) budget: Budget,
    /// Models from the tiled factorisations.
    models: Arc<Models>,
    /// These factorisations, in the order of the figures.
    ran: Vec<(TiledBench, TiledRun)>,
}

impl GpuRun<'_> {
    fn everything(&mut self) -> Result<(), Error> {
        let parts: Vec<Part> = Part::ALL.into_iter().filter(|part| self.sizes.parts.contains(part)).collect();
        let (all, mut until) = (parts.iter().map(|part| part.share()).sum::<f64>(), 0.0);
        for part in parts {
            until += part.share();
            self.budget.part((until / all).min(1.0));
            match part {
                // Each order is factored in both ways before the next, so that a time-out leaves
                // whole rows.
                Part::Cusolver if self.sizes.parts.contains(&Part::Cholesky) => Ok(()),
                Part::Products => self.products(),
                Part::Copies => self.links(),
                Part::Replays => self.replays(),
                Part::Routines => self.routines(),
                Part::Cusolver | Part::Cholesky => self.factorisations(),
                Part::Memory => self.little_memory(),
                Part::WithCpu => self.with_cpu(),
                Part::Several => self.several(),
                Part::Sparse => self.sparse(),
                Part::Tor => self.reconstructors(),
            }?;
        }
        Ok(())
    }

    /// The GPU that is measured, as runtimes drive it.
    pub(super) fn gpu(&self) -> Gpu {
        self.numbered(self.bench.number)
    }

    fn numbered(&self, number: u32) -> Gpu {
        self.sizes.tuning.of(Gpu::new(Arc::clone(&self.bench.driver), number))
    }

    /// Returns the number of runs of this kind and size for which there is time after the uncounted
    /// ones. Adds a line if there are fewer than requested, or none.
    pub(super) fn affordable(&mut self, what: &str, kind: &str, size: f64, uncounted: usize) -> Option<u16> {
        let most = usize::from(self.sizes.repeats.max(1));
        let repeats = self.budget.repeats(kind, size, most, uncounted);
        let line = match repeats {
            Some(repeats) if repeats == most => None,
            Some(repeats) => Some(format!("{what}: {} of {most} runs", most - repeats)),
            None => Some(what.into()),
        };
        if let Some(line) = line {
            let seconds = self.sizes.budget.as_secs();
            self.figures.left_out.push(format!("{line}: the time budget is used up (--budget {seconds})"));
        }
        repeats.and_then(|repeats| u16::try_from(repeats).ok())
    }

    /// Reports the number of completed measurements of this part, and saves the figures, since the
    /// process may end later.
    pub(super) fn done(&self, measurements: u64) {
        self.listeners.progress.advance(measurements);
        (self.listeners.save)(&self.figures);
    }

    /// Returns the result of a measurement. A failure is a line, a cancellation by Ctrl-C is an
    /// error.
    pub(super) fn tried<T>(
        &mut self,
        what: &str,
        measured: Result<T, impl Display>,
    ) -> Result<Option<T>, Error> {
        check(self.listeners.progress)?;
        match measured {
            Ok(measured) => Ok(Some(measured)),
            Err(error) => {
                self.figures.failed.push(format!("{what}: {error}"));
                Ok(None)
            }
        }
    }

    /// Returns the free bytes of the GPU's memory, except a twentieth. Adds a line if they are not
    /// known.
    fn usable(&mut self, what: &str) -> Result<Option<u64>, Error> {
        let memory = self.bench.driver.memory(self.bench.number);
        Ok(self.tried(what, memory)?.map(|(free, total)| free.saturating_sub(total / 20)))
    }

    /// Returns true if this number of bytes fits the free memory, and adds a line if not.
    pub(super) fn fits(&mut self, what: &str, needed: u64) -> Result<bool, Error> {
        let Some(usable) = self.usable(what)? else { return Ok(false) };
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

    fn products(&mut self) -> Result<(), Error> {
        self.listeners.progress.stage("products", GemmPrecision::ALL.len() as u64);
        for (done, precision) in (1u64..).zip(GemmPrecision::ALL) {
            let what = format!("{precision} products");
            if let Some(why) = self.impossible(precision) {
                self.figures.left_out.push(format!("{what}: {why}"));
                continue;
            }
            if self.affordable(&what, "products", 1.0, 1).is_none() {
                continue;
            }
            let measured = self.bench.products(precision, self.sizes.tile, self.sizes.spread);
            if let Some(rate) = self.tried(&what, measured)? {
                let peak = self.peak(precision)?;
                self.figures.products.push(ProductFigures::new(rate, peak));
            }
            self.done(done);
        }
        Ok(())
    }

    /// Measures the library's product of the largest matrices that fit in memory: of the requested
    /// order, half of it, or a quarter.
    fn peak(&mut self, precision: GemmPrecision) -> Result<Option<PeakRate>, Error> {
        let what = format!("a large product, {precision}");
        let Some(usable) = self.usable(&what)? else { return Ok(None) };
        let half = |order: &u32| (order / 2).next_multiple_of(16);
        let orders = std::iter::successors(Some(self.sizes.peak), |order| Some(half(order))).take(3);
        let needed = |order: &u32| self.bench.peak_bytes(precision, *order);
        let Some(order) = orders.into_iter().find(|order| needed(order) <= usable) else {
            self.figures.left_out.push(format!("{what}: the GPU has {}", bytes(usable)));
            return Ok(None);
        };
        let measured = self.bench.peak(precision, order);
        self.tried(&what, measured)
    }

    fn links(&mut self) -> Result<(), Error> {
        self.listeners.progress.stage("copies", 1);
        let measured = self.bench.links(self.sizes.copy);
        self.figures.copies = self.tried("copies", measured)?;
        self.done(1);
        Ok(())
    }

    fn replays(&mut self) -> Result<(), Error> {
        self.listeners.progress.stage("replays", 1);
        let measured = self.bench.replays(self.sizes.replays);
        self.figures.replays = self.tried("replays", measured)?;
        self.done(1);
        Ok(())
    }

    /// Single routines, the smallest first, and what launches cost.
    fn routines(&mut self) -> Result<(), Error> {
        let all = Routine::ALL.len() * self.sizes.routines.len();
        self.listeners.progress.stage("routines", 1 + all as u64);
        let latencies = self.bench.latencies(LATENCIES);
        self.figures.latencies = self.tried("latencies", latencies)?;
        self.done(1);
        let mut done = 1;
        for &order in &self.sizes.routines {
            for routine in Routine::ALL {
                let what = format!("{routine:?} of order {order}");
                let kind = format!("routine {routine:?}");
                if self.fits(&what, GpuBench::routine_bytes(routine, order))?
                    && let Some(repeats) = self.affordable(&what, &kind, f64::from(order), 1)
                {
                    let start = Instant::now();
                    let bench = GpuBench { repeats: repeats.into(), ..self.bench.clone() };
                    let measured = bench.routine(routine, order);
                    if measured.is_ok() {
                        self.budget.took(&kind, order.into(), usize::from(repeats) + 1, start.elapsed());
                    }
                    let measured = self.tried(&what, measured)?;
                    self.figures.routines.extend(measured);
                }
                done += 1;
                self.done(done);
            }
        }
        Ok(())
    }

    fn factorisations(&mut self) -> Result<(), Error> {
        let has = |part| self.sizes.parts.contains(&part);
        let (by_library, in_tiles) = (has(Part::Cusolver), has(Part::Cholesky));
        let rules = if in_tiles { &self.sizes.rules[..] } else { &[] };
        let each = 2 + rules.len() as u64;
        self.listeners.progress.stage("factorisations", each * self.sizes.n.len() as u64);
        for (at, &n) in (0u64..).zip(&self.sizes.n) {
            let cusolver_f32 = if by_library { self.whole::<f32>(n)? } else { None };
            let cusolver_seconds = cusolver_f32.as_ref().map(|whole| whole.seconds);
            self.figures.cholesky.push(SizeFigures {
                n,
                cusolver_f32,
                cusolver_f64: None,
                tiled: Vec::new(),
            });
            self.done(each * at + 1);
            let cusolver_f64 = if by_library { self.whole::<f64>(n)? } else { None };
            self.of_last_size(|size| size.cusolver_f64 = cusolver_f64);
            self.done(each * at + 2);
            for (done, rule) in (1u64..).zip(rules) {
                let tiled = self.tiled(n, rule, cusolver_seconds)?;
                self.of_last_size(|size| size.tiled.extend(tiled));
                self.done(each * at + 2 + done);
            }
        }
        self.predictions()?;
        (self.listeners.save)(&self.figures);
        Ok(())
    }

    /// Predicts each tiled factorisation in virtual time, on the platform of their measurements.
    fn predictions(&mut self) -> Result<(), Error> {
        if self.ran.is_empty() {
            return Ok(());
        }
        host_conversions(&self.models);
        let gpu = self.gpu();
        let platform = Platform::measured(Arc::clone(&self.models), 0, &[gpu.into()]);
        let mut platform = match platform {
            Ok(platform) => platform,
            // A link that is not believed, for one.
            Err(error) => {
                self.figures.left_out.push(format!("predictions: {error}"));
                return Ok(());
            }
        };
        let description = self.figures.origin("bench gpu", self.listeners.run);
        (platform.name, platform.description) = ("measured".into(), description);
        let text = platform.to_toml();
        self.figures.platform = self.tried("the measured platform", text)?;
        let predicted: Vec<Result<f64, String>> = self
            .ran
            .iter()
            .map(|(bench, run)| bench.predicted(run, &platform).map_err(|error| error.to_string()))
            .collect();
        let tiled = self.figures.cholesky.iter_mut().flat_map(|size| {
            let n = size.n;
            size.tiled.iter_mut().map(move |row| (n, row))
        });
        for ((n, row), predicted) in tiled.zip(predicted) {
            match predicted {
                Ok(seconds) => row.predict(seconds),
                // A codelet that ran too seldom to be known, for one.
                Err(why) => {
                    self.figures.left_out.push(format!("prediction of n = {n}, {}: {why}", row.rule));
                }
            }
        }
        Ok(())
    }

    fn of_last_size(&mut self, set: impl FnOnce(&mut SizeFigures)) {
        if let Some(size) = self.figures.cholesky.last_mut() {
            set(size);
        }
    }

    fn whole<T: TileScalar>(&mut self, n: u32) -> Result<Option<WholeFactor>, Error> {
        let what = format!("cuSOLVER n = {n}, {}", T::FULL);
        let n = n as usize;
        let needed = self.bench.whole_bytes::<T>(n);
        let Some(needed) = self.tried(&what, needed)? else { return Ok(None) };
        if !self.fits(&what, needed)? {
            return Ok(None);
        }
        let (kind, size) = (format!("cuSOLVER {}", T::FULL), n as f64);
        let Some(repeats) = self.affordable(&what, &kind, size, 1) else { return Ok(None) };
        let start = Instant::now();
        let measured = GpuBench { repeats: repeats.into(), ..self.bench.clone() }.whole::<T>(n);
        if measured.is_ok() {
            self.budget.took(&kind, size, usize::from(repeats) + 1, start.elapsed());
        }
        self.tried(&what, measured)
    }

    fn tiled(
        &mut self,
        n: u32,
        rule: &Rule,
        whole_seconds: Option<f64>,
    ) -> Result<Option<TiledFigures>, Error> {
        let what = format!("tiled n = {n}, {rule}");
        let bench = self.tiled_bench(n, rule.clone(), false);
        let bench = TiledBench { models: Some(Arc::clone(&self.models)), ..bench };
        if !self.fits(&what, bench.bytes()?)? {
            return Ok(None);
        }
        let gpu = self.gpu();
        let Some(run) = self.factored(&what, &bench, &[gpu])? else { return Ok(None) };
        let limit_seconds = self.figures.least_seconds(&run.work);
        let figures = TiledFigures::new(rule, &run, limit_seconds, whole_seconds);
        self.ran.push((bench, run));
        Ok(Some(figures))
    }

    fn tiled_bench(&self, n: u32, rule: Rule, fingerprint: bool) -> TiledBench {
        let (tile, repeats) = (self.sizes.tile as usize, self.sizes.repeats.into());
        let fuse_updates = self.sizes.fuse_updates.into();
        let by_inverses = self.sizes.by_inverses;
        TiledBench {
            n: n as usize,
            tile,
            rule,
            repeats,
            workers: 0,
            fingerprint,
            fuse_updates,
            by_inverses,
            models: None,
        }
    }

    /// Runs a tiled factorisation as often as there is time for. Returns `None` and adds a line if
    /// it did not run.
    fn factored(&mut self, what: &str, bench: &TiledBench, gpus: &[Gpu]) -> Result<Option<TiledRun>, Error> {
        // Transfers and CPU workers change its time.
        let least = gpus.iter().map(Gpu::bytes).min().unwrap_or(0);
        let kind = match bench.bytes() {
            Ok(whole) if least < whole => format!("tiled {} in {least} of {whole}", bench.rule),
            _ => format!("tiled {}, {} GPUs, {} workers", bench.rule, gpus.len(), bench.workers),
        };
        let (size, uncounted) = (bench.n as f64, 1 + usize::from(bench.workers > 0));
        let Some(repeats) = self.affordable(what, &kind, size, uncounted) else { return Ok(None) };
        let start = Instant::now();
        let bench = TiledBench { repeats: repeats.into(), ..bench.clone() };
        let measured = bench.run(gpus, self.listeners.watch);
        if measured.is_ok() {
            self.budget.took(&kind, size, usize::from(repeats) + uncounted, start.elapsed());
        }
        self.tried(what, measured)
    }

    /// Factors in its whole memory, in 30 % of the bytes of the matrix, and on parts of the GPU:
    /// the bits are the same.
    fn little_memory(&mut self) -> Result<(), Error> {
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
        self.listeners.progress.stage("little memory", cases.len() as u64);
        let mut first = None;
        for (done, (case, parts, memory)) in (1u64..).zip(cases) {
            let gpu = self.gpu().memory(memory);
            let what = format!("n = {n}, {MEMORY_RULE} {case}");
            if let Some(run) = self.factored(&what, &bench, &vec![gpu; parts])? {
                let same_bits = *first.get_or_insert(run.fingerprint) == run.fingerprint;
                if !same_bits {
                    self.figures.failed.push(format!("{what}: the factor has other bits"));
                }
                let beyond = whole.saturating_sub(memory * parts as u64);
                let limit = self.figures.least_seconds_with_copies(&run.work, beyond);
                let row = MemoryFigures::new((what, case), parts, memory, same_bits, &run, limit);
                self.figures.memory.push(row);
            }
            self.done(done);
        }
        Ok(())
    }

    /// CPU workers and the GPU compared with the GPU alone.
    fn with_cpu(&mut self) -> Result<(), Error> {
        let n = self.sizes.out_of_core;
        self.listeners.progress.stage("CPU and GPU", 2 * WITH_CPU_RULES.len() as u64);
        for (at, text) in (0u64..).zip(WITH_CPU_RULES) {
            let what = format!("CPU and GPU, n = {n}, {text}");
            let alone = self.tiled_bench(n, text.parse()?, false);
            if !self.fits(&what, alone.bytes()?)? {
                continue;
            }
            let with_cpu = TiledBench { workers: self.sizes.workers, ..alone.clone() };
            let gpu = [self.gpu()];
            let alone = self.factored(&what, &alone, &gpu)?;
            self.listeners.progress.advance(2 * at + 1);
            let Some(alone) = alone else { continue };
            if let Some(with_cpu) = self.factored(&what, &with_cpu, &gpu)? {
                let figures = WithCpuFigures::new(n, text, self.sizes.workers, &alone, &with_cpu);
                self.figures.with_cpu.push(figures);
            }
            self.done(2 * at + 2);
        }
        Ok(())
    }
}

/// Several GPUs.
impl GpuRun<'_> {
    /// Factors the largest matrix on two GPUs and on all, if there are several.
    fn several(&mut self) -> Result<(), Error> {
        let there = self.bench.driver.working();
        let Some(&n) = self.sizes.n.iter().max().filter(|_| there.len() > 1) else { return Ok(()) };
        // The one that is measured comes first, as in its own rows.
        let others = there.iter().copied().filter(|number| *number != self.bench.number);
        let gpus: Vec<Gpu> =
            std::iter::once(self.bench.number).chain(others).map(|number| self.numbered(number)).collect();
        let mut counts = vec![2, gpus.len()];
        counts.dedup();
        let each = WITH_CPU_RULES.len() as u64;
        self.listeners.progress.stage("several GPUs", each * counts.len() as u64);
        let mut done = 0;
        for count in counts {
            for text in WITH_CPU_RULES {
                self.on_several(n, text, &gpus[..count])?;
                done += 1;
                self.done(done);
            }
        }
        Ok(())
    }

    fn on_several(&mut self, n: u32, rule: &'static str, gpus: &[Gpu]) -> Result<(), Error> {
        let what = format!("n = {n}, {rule} on {} GPUs", gpus.len());
        let bench = self.tiled_bench(n, rule.parse()?, false);
        // This assumes that all GPUs have the memory of the first.
        if !self.fits(&what, bench.bytes()? / gpus.len() as u64)? {
            return Ok(());
        }
        if let Some(run) = self.factored(&what, &bench, gpus)? {
            let one = self.figures.seconds_of(n, rule);
            self.figures.several.push(SeveralFigures::new(n, rule, gpus.len(), &run, one));
        }
        Ok(())
    }
}
