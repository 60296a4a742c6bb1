//! `zellige bench ...`.

mod gpu;
mod memory;

use zellige_app::table::{Side, Table};
use zellige_app::text::digits;
use zellige_measure::cholesky::{self, CholeskyBench, CholeskyFigures, cholesky_rate};
use zellige_measure::tasks::{TaskBench, TaskFigures};

use crate::args::{Bench, BenchCholesky, BenchTasks, Number};
use crate::devices;
use crate::out;
use crate::results::{is_stdout, write_json};

/// Runs a measurement, prints its figures and writes them.
///
/// # Errors
/// The measurement fails, or the output cannot be written.
pub fn run(verb: &Bench) -> anyhow::Result<()> {
    match verb {
        Bench::Tasks(args) => of_tasks(args),
        Bench::Cholesky(args) => of_cholesky(args),
        Bench::Memory(args) => memory::run(args),
        Bench::Gpu(args) => gpu::run(args),
    }
}

fn of_tasks(args: &BenchTasks) -> anyhow::Result<()> {
    let bench = TaskBench {
        workers: devices::workers(args.workers).into(),
        policy: args.sched.clone(),
        tasks: args.count as usize,
        repeats: args.repeats.into(),
    };
    let us_per_task = bench.run()?;
    let figures = TaskFigures { bench, us_per_task };
    write_json(args.json.as_ref(), &[&figures])?;
    if is_stdout(args.json.as_ref()) {
        return Ok(());
    }
    let TaskFigures { bench, us_per_task: costs } = &figures;
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
        "process CPU time, all threads; {} worker(s), {}, median of {}; the submitting thread is not a worker\n",
        bench.workers, bench.policy, bench.repeats
    ))
}

fn of_cholesky(args: &BenchCholesky) -> anyhow::Result<()> {
    let bench = CholeskyBench {
        n: args.n as usize,
        tile: args.tile as usize,
        fuse_updates: args.fuse_updates.into(),
        format: match args.format {
            Number::F32 => cholesky::Number::F32,
            Number::F64 => cholesky::Number::F64,
        },
        workers: devices::workers(args.workers).into(),
        policy: args.sched.clone(),
        repeats: args.repeats.into(),
    };
    let rate = cholesky_rate(&bench)?;
    let figures = CholeskyFigures { bench, rate };
    write_json(args.json.as_ref(), &[&figures])?;
    if is_stdout(args.json.as_ref()) {
        return Ok(());
    }
    let CholeskyFigures { bench, rate } = &figures;
    let share = |x: f64| format!("{:.1} %", 100.0 * x);
    out::print(&format!(
        "Cholesky n = {}, tile {}, {}, {} worker(s), {}, median of {}\n\
         factorisation   {} s, {} GFLOP/s\n\
         tile product    {} GFLOP/s on as many threads; the whole reaches {} of it ({} by CPU time)\n\
         kernels         {} of the workers' time ({} of the CPU time)\n\
         schedule        makespan / bound {}\n",
        bench.n,
        bench.tile,
        bench.format,
        bench.workers,
        bench.policy,
        bench.repeats,
        digits(rate.seconds),
        digits(rate.gflops),
        digits(rate.gemm_gflops_same_tile),
        share(rate.ratio),
        share(rate.ratio_cpu),
        share(rate.kernel_share),
        share(rate.kernel_share_cpu),
        digits(rate.makespan_over_bound),
    ))
}
