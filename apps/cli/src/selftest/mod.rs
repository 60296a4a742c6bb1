//! `zellige selftest`: kernels compared with float64, random task graphs compared with a sequential
//! run, and everything that a GPU computes compared with the CPU.

mod graphs;

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use zellige_gpu::Driver;
use zellige_gpu::cuda::folder;
use zellige_measure::selftest::gpu::fault_here;
use zellige_measure::selftest::outcome::{GpuReport, factor_table, kernel_table};
use zellige_measure::selftest::{Checks, Report};
use zellige_selftest::Fuzz;

use crate::args::SelftestArgs;
use crate::devices;
use crate::exit::CommandError;
use crate::interrupt;
use crate::out;
use crate::progress::Progress;
use crate::results::{is_stdout, write_json};

/// Time limit for a process with a faulting kernel.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the checks, prints the report and writes it.
///
/// # Errors
/// A check failed, or the output cannot be written; [`CommandError::NoDevice`] for missing GPUs.
pub fn run(args: &SelftestArgs) -> anyhow::Result<()> {
    if let Some(number) = args.faulty_kernel {
        let said = fault_here(&open()?, number).map_err(anyhow::Error::from_boxed)?;
        return out::print(&format!("{said}\n"));
    }
    let report = check(args)?;
    write_json(args.json.as_ref(), &[&report])?;
    if !is_stdout(args.json.as_ref()) {
        print(&report)?;
    }
    verdict(args, &report)
}

/// Runs the checks and returns their report.
///
/// # Errors
/// [`CommandError::NoDevice`] for missing GPUs; a check that cannot run; Ctrl-C.
pub fn check(args: &SelftestArgs) -> anyhow::Result<Report> {
    let driver = if args.cuda { Some(open()?) } else { None };
    let checks = Checks {
        fuzz: Fuzz {
            graphs: args.fuzz,
            seed: args.seed,
            jobs: args.jobs.into(),
            patience: Duration::from_secs(args.patience.into()),
            deaths: args.device_failures,
            single_threaded: args.single_threaded,
            gpus: driver.clone(),
            ..Fuzz::default()
        },
        driver,
        quick: args.quick,
        only_graphs: args.only.is_some(),
    };
    let in_child = |number| fault_in_child(number).map_err(Into::into);
    Ok(checks.run(&Progress::new(), &interrupt::watch, &in_child)?)
}

fn open() -> Result<Arc<dyn Driver>, CommandError> {
    devices::driver()
        .map_err(|error| CommandError::NoDevice { device: "cuda".into(), problem: error.to_string() })
}

/// Runs a faulting kernel in a separate process, because a process cannot use a GPU after a fault.
fn fault_in_child(number: u32) -> anyhow::Result<String> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut child = Command::new(program)
        .args(["selftest", "--faulty-kernel", &number.to_string()])
        .args(folder().iter().flat_map(|folder| ["--cuda-libs".as_ref(), folder.as_os_str()]))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run this program again")?;
    let start = Instant::now();
    while child.try_wait().context("cannot wait for the process")?.is_none() {
        if start.elapsed() > PATIENCE {
            let _ = child.kill(); // it may have ended just now
            let _ = child.wait();
            anyhow::bail!("the process did not end within {} s: no device was retired", PATIENCE.as_secs());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().context("cannot read the output of the process")?;
    anyhow::ensure!(
        output.status.success(),
        "the process ended with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().into())
}

/// Prints the report.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(report: &Report) -> anyhow::Result<()> {
    let colours = out::colours(&std::io::stdout());
    if !report.kernels.is_empty() {
        out::print(&format!("{}\n", kernel_table(&report.kernels).render(colours)))?;
    }
    for gpu in &report.gpus {
        out::print(&gpu.text(colours))?;
    }
    if !report.multi_gpu.is_empty() {
        out::print(&format!("all GPUs at once\n{}\n", factor_table(&report.multi_gpu).render(colours)))?;
    }
    out::print(&graphs::text(&report.graphs, colours))
}

/// Returns an error if checks failed.
///
/// # Errors
/// A check failed.
pub fn verdict(args: &SelftestArgs, report: &Report) -> anyhow::Result<()> {
    let failed = report.kernels.iter().filter(|row| !row.passed).count();
    anyhow::ensure!(
        failed == 0,
        "{failed} checks of kernels on CPU workers failed; see the rows with FAILED"
    );
    let multi_gpu = report.multi_gpu.iter().filter(|row| !row.passed).count();
    let failed = multi_gpu + report.gpus.iter().map(GpuReport::failures).sum::<usize>();
    anyhow::ensure!(failed == 0, "{failed} checks of GPUs failed; see the rows with FAILED");
    graphs::verdict(args, &report.graphs)
}
