//! `zellige selftest`: kernels compared with float64, random task graphs compared with a sequential run, and everything that a GPU computes
//! compared with the CPU.

mod applications;
mod cpu;
mod gpu;
mod graphs;
mod outcome;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use zellige_gpu::Driver;
use zellige_gpu::cuda::Cuda;
use zellige_selftest::FuzzReport;

use crate::args::SelftestArgs;
use crate::exit::CommandError;
use crate::interrupt;
use crate::out;
use crate::progress::Progress;
use crate::results::{is_stdout, write_json};
use outcome::{FactorRow, GpuReport, KernelRow, factor_table};

/// All that was found; GPUs where they are requested.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Report {
    passed: bool,
    /// On CPU workers.
    kernels: Vec<KernelRow>,
    gpus: Vec<GpuReport>,
    /// Factorisations on several GPUs at once; none where there is one GPU.
    multi_gpu: Vec<FactorRow>,
    #[serde(flatten)]
    graphs: FuzzReport,
}

/// Runs the checks, prints, writes.
///
/// # Errors
/// A check failed, or the output cannot be written; [`CommandError::NoDevice`] for GPUs that are not there.
pub fn run(args: &SelftestArgs) -> anyhow::Result<()> {
    if let Some(number) = args.faulty_kernel {
        return out::print(&format!("{}\n", gpu::fault_here(&open()?, number)?));
    }
    let report = check(args)?;
    write_json(args.json.as_ref(), &[&report])?;
    if !is_stdout(args.json.as_ref()) {
        print(&report)?;
    }
    verdict(args, &report)
}

/// Runs the checks.
///
/// # Errors
/// [`CommandError::NoDevice`] for GPUs that are not there; a check that cannot run; Ctrl-C.
pub fn check(args: &SelftestArgs) -> anyhow::Result<Report> {
    let driver = if args.cuda { Some(open()?) } else { None };
    let progress = Progress::new();
    let kernels = if args.only_graphs { Vec::new() } else { cpu::kernels(args, &progress)? };
    let checked = driver.as_ref().filter(|_| !args.only_graphs);
    let gpus = checked.map_or(Ok(Vec::new()), |driver| all_gpus(args, driver, &progress))?;
    let extents = gpu::Extents::of(args);
    let multi_gpu = checked.map_or(Ok(Vec::new()), |driver| gpu::together(driver, &extents, &progress))?;
    let graphs = graphs::run(args, driver.clone(), &progress);
    drop(progress);
    interrupt::check()?;
    let passed = graphs.failures.is_empty()
        && gpus.iter().all(GpuReport::passed)
        && multi_gpu.iter().all(|row| row.passed)
        && kernels.iter().all(|row| row.passed);
    Ok(Report { passed, kernels, gpus, multi_gpu, graphs })
}

fn open() -> Result<Arc<dyn Driver>, CommandError> {
    match Cuda::open() {
        Ok(driver) => Ok(Arc::new(driver)),
        Err(error) => Err(CommandError::NoDevice { device: "cuda".into(), problem: error.to_string() }),
    }
}

fn all_gpus(
    args: &SelftestArgs,
    driver: &Arc<dyn Driver>,
    progress: &Progress,
) -> anyhow::Result<Vec<GpuReport>> {
    let numbers = 0..driver.gpus().len() as u32;
    numbers
        .map(|number| gpu::check(driver, number, &gpu::Extents::of(args), &gpu::fault_in_child, progress))
        .collect()
}

/// Prints what was found.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(report: &Report) -> anyhow::Result<()> {
    let colours = out::colours(&std::io::stdout());
    if !report.kernels.is_empty() {
        out::print(&format!("{}\n", cpu::table(&report.kernels).render(colours)))?;
    }
    for gpu in &report.gpus {
        out::print(&gpu.text(colours))?;
    }
    if !report.multi_gpu.is_empty() {
        out::print(&format!("all GPUs at once\n{}\n", factor_table(&report.multi_gpu).render(colours)))?;
    }
    out::print(&graphs::text(&report.graphs, colours))
}

/// An error for failures.
///
/// # Errors
/// A check failed.
pub fn verdict(args: &SelftestArgs, report: &Report) -> anyhow::Result<()> {
    let failed = report.kernels.iter().filter(|row| !row.passed).count();
    anyhow::ensure!(
        failed == 0,
        "{failed} checks of kernels on CPU workers failed: the rows that say FAILED"
    );
    let multi_gpu = report.multi_gpu.iter().filter(|row| !row.passed).count();
    let failed = multi_gpu + report.gpus.iter().map(GpuReport::failures).sum::<usize>();
    anyhow::ensure!(failed == 0, "{failed} checks of GPUs failed: the rows that say FAILED");
    graphs::verdict(args, &report.graphs)
}
