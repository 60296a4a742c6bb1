//! `zellige bench memory`.

use zellige_app::table::{Side, Table};
use zellige_app::text::{bytes, digits};
use zellige_measure::memory::{HostLimit, MemoryBench, MemoryBenchFigures, MemoryRun};
use zellige_runtime::sched::POLICIES;

use crate::args::BenchMemory;
use crate::devices;
use crate::interrupt;
use crate::nodes;
use crate::out;
use crate::progress::Progress;
use crate::results::{is_stdout, write_json};

/// Bandwidth of the link of each emulated device, in each direction (bytes per second).
const LINK: f64 = 1e10;

/// Runs the measurement, prints the figures and writes them.
///
/// # Errors
/// A factorisation fails or gives other bits, or the output cannot be written.
pub fn run(args: &BenchMemory) -> anyhow::Result<()> {
    let limit = |share| HostLimit { share, folder: args.swap.clone().unwrap_or_else(std::env::temp_dir) };
    let workers = devices::workers(args.workers);
    let bench = MemoryBench {
        n: args.n as usize,
        tile: args.tile as usize,
        rule: args.precision.clone(),
        workers: workers.into(),
        devices: args.devices.into(),
        share: args.device_memory,
        bandwidth: LINK,
        host: args.host_memory.map(limit),
    };
    let policies: Vec<&str> = match &args.sched[..] {
        [] => POLICIES.iter().map(|(name, _)| *name).collect(),
        some => some.iter().map(String::as_str).collect(),
    };
    let (reference, runs) = bench.compare(&policies, &Progress::new(), &interrupt::watch)?;
    let figures = MemoryBenchFigures::new(&bench, &reference, &policies, &runs)?;
    write_json(args.json.as_ref(), &[&figures])?;
    if is_stdout(args.json.as_ref()) {
        return Ok(());
    }
    print(args, &figures, &policies, &runs)
}

fn print(
    args: &BenchMemory,
    figures: &MemoryBenchFigures,
    policies: &[&str],
    runs: &[MemoryRun],
) -> anyhow::Result<()> {
    let colours = out::colours(&std::io::stdout());
    let table = if args.devices == 0 { table_of_disk(policies, runs) } else { table(policies, runs) };
    out::print(&table.render(colours))?;
    if let Some(share) = args.host_memory {
        let (holds, tiles) = (bytes(figures.host_capacity.unwrap_or(0)), digits(100.0 * share));
        out::print(&format!(
            "host memory for tiles: {holds}, {tiles} % of the lower triangle; the rest is in a swap file\n"
        ))?;
    }
    let devices = match args.devices {
        0 => String::new(),
        count => format!(
            ", {count} device(s) of {}: {} % of the lower triangle in all",
            bytes(figures.capacity),
            digits(100.0 * args.device_memory)
        ),
    };
    out::print(&format!(
        "Cholesky n = {}, tile {}, {}, {} worker(s){devices}\n\
         in host memory {} s, backward error {:.1e}; every factor has the same bits\n",
        args.n,
        args.tile,
        figures.rule,
        figures.workers,
        digits(figures.reference.seconds),
        figures.reference.backward_error,
    ))?;
    if args.stats {
        for (policy, run) in policies.iter().zip(runs) {
            out::print(&format!("\n{policy}\n{}", nodes::text(&run.nodes, colours)))?;
        }
    }
    Ok(())
}

fn table_of_disk(policies: &[&str], runs: &[MemoryRun]) -> Table {
    let mut table = Table::new(&[
        ("policy", Side::Left),
        ("seconds", Side::Right),
        ("x bound", Side::Right),
        ("to disk", Side::Right),
        ("from disk", Side::Right),
        ("peak", Side::Right),
        ("hits", Side::Right),
        ("misses", Side::Right),
        ("evictions", Side::Right),
        ("written back", Side::Right),
    ]);
    for (policy, run) in policies.iter().zip(runs) {
        let Some(host) = run.nodes.first() else { continue };
        table.row([
            (*policy).into(),
            digits(run.seconds),
            digits(run.makespan_over_bound),
            bytes(run.to_disk),
            bytes(run.from_disk),
            bytes(host.peak),
            host.hits.to_string(),
            host.misses.to_string(),
            host.evictions.to_string(),
            host.written_back.to_string(),
        ]);
    }
    table
}

fn table(policies: &[&str], runs: &[MemoryRun]) -> Table {
    let mut table = Table::new(&[
        ("policy", Side::Left),
        ("seconds", Side::Right),
        ("x bound", Side::Right),
        ("on devices", Side::Right),
        ("to devices", Side::Right),
        ("to host", Side::Right),
        ("between", Side::Right),
        ("x must", Side::Right),
        ("x loads", Side::Right),
        ("hits", Side::Right),
        ("misses", Side::Right),
        ("evictions", Side::Right),
        ("written back", Side::Right),
        ("conversions", Side::Right),
    ]);
    for (policy, run) in policies.iter().zip(runs) {
        let sum = |count: &dyn Fn(&zellige_runtime::NodeUse) -> u64| {
            run.nodes.iter().skip(1).map(count).sum::<u64>().to_string()
        };
        table.row([
            (*policy).into(),
            digits(run.seconds),
            digits(run.makespan_over_bound),
            format!("{:.0} %", 100.0 * run.device_share),
            bytes(run.to_devices),
            bytes(run.to_host),
            bytes(run.between),
            digits(run.over_compulsory()),
            digits(run.over_bound()),
            sum(&|node| node.hits),
            sum(&|node| node.misses),
            sum(&|node| node.evictions),
            sum(&|node| node.written_back),
            sum(&|node| node.conversions),
        ]);
    }
    table
}
