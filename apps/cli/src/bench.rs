//! `zellige bench ...`.

pub mod gpu;
pub mod memory;

use schemars::JsonSchema;
use serde::Serialize;
use zellige_kernels::StorageFormat;
use zellige_linalg::bench::{CholeskyBench, cholesky_rate};
use zellige_runtime::bench::{TaskBench, TaskCosts};

use crate::args::{Bench, BenchCholesky, BenchTasks, Number};
use crate::devices;
use crate::out;
use crate::results::{is_stdout, write_json};
use crate::table::{Side, Table, digits};

/// Measures, prints, writes.
///
/// # Errors
/// The measurement fails, or the output cannot be written.
pub fn run(verb: &Bench) -> anyhow::Result<()> {
    match verb {
        Bench::Tasks(args) => tasks(args),
        Bench::Cholesky(args) => cholesky(args),
        Bench::Memory(args) => memory::run(args),
        Bench::Gpu(args) => gpu::run(args),
    }
}

#[derive(Serialize, JsonSchema)]
pub struct TaskFigures<'a> {
    workers: u16,
    policy: &'a str,
    tasks: u32,
    repeats: u16,
    /// CPU time of the whole process.
    us_per_task: TaskCosts,
}

fn tasks(args: &BenchTasks) -> anyhow::Result<()> {
    let workers = devices::workers(args.workers);
    let bench = TaskBench {
        workers: workers.into(),
        policy: args.sched.clone(),
        tasks: args.tasks as usize,
        repeats: args.repeats.into(),
    };
    let costs = bench.run()?;
    let figures = TaskFigures {
        workers,
        policy: &args.sched,
        tasks: args.tasks,
        repeats: args.repeats,
        us_per_task: costs,
    };
    write_json(args.json.as_ref(), &[&figures])?;
    if is_stdout(args.json.as_ref()) {
        return Ok(());
    }
    let mut table = Table::new(&[("case", Side::Left), ("us/task", Side::Right), ("what", Side::Left)]);
    for (case, cost, what) in [
        ("independent", costs.independent, "no operands"),
        ("chain", costs.chain, "one handle that every task updates"),
        ("graph3", costs.graph3, "two tiles read and one updated, on a grid"),
        ("cholesky_empty", costs.cholesky_empty, "64 x 64 tiles, 45 760 tasks"),
        ("replay", costs.replay, "graph3 recorded and replayed"),
        ("replay_cholesky", costs.replay_cholesky, "cholesky_empty recorded and replayed"),
    ] {
        table.row([case.into(), format!("{cost:.3}"), what.into()]);
    }
    out::print(&table.render(out::colours(&std::io::stdout())))?;
    out::print(&format!(
        "process CPU time, all threads; {} worker(s), {}, median of {}; the submitting thread is no worker\n",
        workers, args.sched, args.repeats
    ))
}

#[derive(Serialize, JsonSchema)]
pub struct CholeskyFigures<'a> {
    n: u32,
    tile: u32,
    /// Most products in one task.
    fuse_updates: u8,
    format: &'a str,
    workers: u16,
    policy: &'a str,
    repeats: u16,
    /// Median time of a factorisation.
    seconds: f64,
    /// n^3 / 3 by that time.
    gflops: f64,
    /// The product of one tile, on as many threads, in the same run.
    gemm_gflops_same_tile: f64,
    /// Their ratio, run by run; and by CPU time instead of the wall clock.
    ratio: f64,
    ratio_cpu: f64,
    /// Time in kernels by the workers' time; and by the CPU time of the process.
    kernel_share: f64,
    kernel_share_cpu: f64,
    /// Of runs with the trace on; the bound is the larger of area and critical path.
    makespan_over_bound: f64,
}

fn cholesky(args: &BenchCholesky) -> anyhow::Result<()> {
    let (format, name) = match args.format {
        Number::F32 => (StorageFormat::F32, "f32"),
        Number::F64 => (StorageFormat::F64, "f64"),
    };
    let workers = devices::workers(args.workers);
    let rate = cholesky_rate(&CholeskyBench {
        n: args.n as usize,
        tile: args.tile as usize,
        fuse_updates: args.fuse_updates.into(),
        format,
        workers: workers.into(),
        repeats: args.repeats.into(),
        sched: args.sched.clone(),
    })?;
    let figures = CholeskyFigures {
        n: args.n,
        tile: args.tile,
        fuse_updates: args.fuse_updates,
        format: name,
        workers,
        policy: &args.sched,
        repeats: args.repeats,
        seconds: rate.seconds,
        gflops: rate.gflops,
        gemm_gflops_same_tile: rate.gemm_gflops_same_tile,
        ratio: rate.ratio,
        ratio_cpu: rate.ratio_cpu,
        kernel_share: rate.kernel_share,
        kernel_share_cpu: rate.kernel_share_cpu,
        makespan_over_bound: rate.over_bound,
    };
    write_json(args.json.as_ref(), &[&figures])?;
    if is_stdout(args.json.as_ref()) {
        return Ok(());
    }
    let share = |x: f64| format!("{:.1} %", 100.0 * x);
    out::print(&format!(
        "Cholesky n = {}, tile {}, {name}, {} worker(s), {}, median of {}\n\
         factorisation   {} s, {} GFLOP/s\n\
         tile product    {} GFLOP/s on as many threads; the whole reaches {} of it ({} by CPU time)\n\
         kernels         {} of the workers' time ({} of the CPU time)\n\
         schedule        makespan / bound {}\n",
        args.n,
        args.tile,
        workers,
        args.sched,
        args.repeats,
        digits(rate.seconds),
        digits(rate.gflops),
        digits(rate.gemm_gflops_same_tile),
        share(rate.ratio),
        share(rate.ratio_cpu),
        share(rate.kernel_share),
        share(rate.kernel_share_cpu),
        digits(rate.over_bound),
    ))
}
