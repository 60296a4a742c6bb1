//! All checks in sequence.

use std::cell::Cell;
use std::sync::Arc;

use crate::{Watch, builder, check};
use schemars::JsonSchema;
use serde::Serialize;
use zellige_files::observe::Observer;
use zellige_gpu::Driver;
use zellige_selftest::{Fuzz, FuzzReport};

use super::gpu::{self, Extents, Fault};
use super::kernels::{self, Extent};
use super::outcome::{CHECKS, FactorRow, GpuReport, KernelRow};
use crate::Error;

/// Selection of the checks.
pub struct Checks {
    /// Random graphs, on these GPUs.
    pub fuzz: Fuzz,
    /// GPUs.
    pub driver: Option<Arc<dyn Driver>>,
    /// Fewer and smaller tiles.
    pub quick: bool,
    /// Runs only the random graphs.
    pub only_graphs: bool,
}

/// Results of all checks, with GPUs if they are requested.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Report {
    /// True if all checks passed.
    pub passed: bool,
    /// Kernels on CPU workers.
    pub kernels: Vec<KernelRow>,
    /// Results of each GPU.
    pub gpus: Vec<GpuReport>,
    /// Factorisations on several GPUs together; empty if there is only one GPU.
    pub multi_gpu: Vec<FactorRow>,
    /// Random graphs.
    #[serde(flatten)]
    pub graphs: FuzzReport,
}

/// CPU workers lack no precision.
const EVERYTHING: (u32, u32) = (u32::MAX, 0);

impl Checks {
    /// Runs the checks; `fault` has a kernel fault in another process.
    ///
    /// # Errors
    /// A runtime that cannot be built; [`Error::Cancelled`].
    pub fn run(&self, observer: &dyn Observer, watch: Watch<'_>, fault: Fault<'_>) -> Result<Report, Error> {
        let kernels = if self.only_graphs { Vec::new() } else { self.on_cpu(observer, watch)? };
        let (extents, mut gpus, mut multi_gpu) =
            (Extents::new(self.quick, self.fuzz.seed), Vec::new(), Vec::new());
        if let Some(driver) = self.driver.as_ref().filter(|_| !self.only_graphs) {
            for number in 0..driver.gpus().len() as u32 {
                gpus.push(gpu::check(driver, number, &extents, fault, observer)?);
            }
            multi_gpu = gpu::on_several(driver, &extents, observer)?;
        }
        observer.stage("graphs", self.fuzz.graphs);
        let graphs = self.fuzz.run(|done, failure| {
            // Reported immediately: a long run may not come to its end.
            if let Some(failure) = failure {
                observer.warn(&format!("a graph failed: {failure}"));
            }
            observer.advance(done);
            !observer.cancelled()
        });
        check(observer)?;
        let passed = graphs.failures.is_empty()
            && gpus.iter().all(GpuReport::passed)
            && multi_gpu.iter().all(|row| row.passed)
            && kernels.iter().all(|row| row.passed);
        Ok(Report { passed, kernels, gpus, multi_gpu, graphs })
    }

    /// Runs every kernel in every precision on random tiles, by CPU workers.
    fn on_cpu(&self, observer: &dyn Observer, watch: Watch<'_>) -> Result<Vec<KernelRow>, Error> {
        let (tiles, largest) = if self.quick { (20, 64) } else { (100, 96) };
        let extent = Extent { tiles, largest, seed: self.fuzz.seed };
        observer.stage("kernels on CPU workers", CHECKS);
        let (rt, alone) = (builder().build()?, builder().workers(1).build()?);
        let _watched = watch(rt.canceller());
        let done = Cell::new(0);
        let checks = kernels::kernels(&rt, &alone, &extent, EVERYTHING, &|_| {
            done.set(done.get() + 1);
            observer.advance(done.get());
        });
        check(observer)?;
        Ok(checks.iter().map(|check| KernelRow::new(check, EVERYTHING)).collect())
    }
}
