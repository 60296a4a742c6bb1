//! `zellige lqcd dslash`.

use zellige_app::table::{Side, Table};
use zellige_lqcd::Geometry;
use zellige_lqcd::pipeline::dslash::{dslash, random_links};
use zellige_lqcd::pipeline::results::DslashResult;

use super::failed;
use crate::args::{Device, LqcdDslash};
use crate::devices::{Devices, Needs};
use crate::exit::CommandError;
use crate::results::page_of;
use crate::{interrupt, out};

/// Measures the rate of the staggered operator.
///
/// # Errors
/// An impossible lattice, an output that cannot be written, Ctrl-C.
pub fn run(args: &LqcdDslash) -> anyhow::Result<()> {
    let geometry = Geometry::new(args.size.0)?;
    let is_on_gpus = args.execution.device != Device::Cpu;
    if is_on_gpus && let Some(other) = args.precision.iter().find(|one| !one.has_gpu_kernels()) {
        let problem = format!("{other}: GPUs have no kernels for compressed links");
        return Err(CommandError::option("--precision", problem).into());
    }
    let devices = Devices::open(&args.execution, &Needs::default())?;
    let bandwidth = devices.copy_rate().map(|rate| rate / 1e9);
    let rt = args.outputs.traced(devices.runtime(&args.execution)).build()?;
    let armed = interrupt::cancels(rt.canceller());
    let links = random_links(geometry, !args.naive, 1);
    let (columns, repeats) = (args.columns.into(), args.repeat.into());
    let mut results = Vec::new();
    for &precision in &args.precision {
        results.push(dslash(&rt, &links, precision, columns, repeats, bandwidth).map_err(failed)?);
    }
    drop(armed);
    devices.done(&args.execution, &rt);
    let (trace, title) = (args.outputs.recorded(&rt)?, "The staggered operator");
    args.outputs.write(title, trace.as_ref(), &results, || page_of(title, &results), || text(&results))
}

fn text(results: &[DslashResult]) -> String {
    let names = ["precision", "columns", "device", "ns/site", "bytes/site", "GB/s", "of GB/s", "Gflop/s"];
    let side = |name| if [names[0], names[2]].contains(&name) { Side::Left } else { Side::Right };
    let mut table = Table::new(&names.map(|name| (name, side(name))));
    for result in results {
        table.row([
            result.precision.clone(),
            result.columns.to_string(),
            result.device.clone(),
            format!("{:.3}", result.nanoseconds),
            format!("{:.0}", result.bytes),
            format!("{:.2}", result.rate),
            format!("{:.2}", result.bandwidth),
            format!("{:.2}", result.gflops),
        ]);
    }
    table.render(out::colours(&std::io::stdout()))
}
