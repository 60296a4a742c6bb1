//! `zellige lqcd dslash`.

use zellige_lqcd::pipeline::dslash::{dslash, dslash_of_wilson, random_links};
use zellige_lqcd::report::text;
use zellige_lqcd::{Action, Geometry};

use crate::args::{Device, LqcdDslash};
use crate::devices::Needs;
use crate::exit::CommandError;
use crate::results::page_of;
use crate::run::Setup;

/// Measures the rate of the operator of staggered or Wilson quarks.
///
/// # Errors
/// An impossible lattice, an output that cannot be written, Ctrl-C.
pub fn run(args: &LqcdDslash) -> anyhow::Result<()> {
    let geometry = Geometry::new(args.size.0)?;
    let is_on_gpus = args.execution.device != Device::Cpu;
    if is_on_gpus && let Some(other) = args.precision.iter().find(|one| !one.has_gpu_kernels()) {
        let problem = format!(
            "{other}: GPUs have kernels for uncompressed links and double, single, half, int20 and int30"
        );
        return Err(CommandError::option("--precision", problem).into());
    }
    if is_on_gpus && args.action == Action::Wilson {
        let problem = "wilson: GPUs have kernels for staggered quarks: use --device cpu";
        return Err(CommandError::option("--action", problem).into());
    }
    let setup = Setup::new(&args.execution, &Needs::default(), &args.outputs)?;
    let bandwidth = setup.devices.copy_rate().map(|rate| rate / 1e9);
    let run = setup.start()?;
    let links = random_links(geometry, !matches!(args.action, Action::Naive | Action::Wilson), 1);
    let (columns, repeats) = (args.columns.into(), args.repeats.into());
    let rate = |&precision| match args.action {
        Action::Wilson => dslash_of_wilson(run.runtime(), &links.fat, precision, columns, repeats, bandwidth),
        _ => dslash(run.runtime(), &links, precision, columns, repeats, bandwidth),
    };
    let results = run.work(|_| args.precision.iter().map(rate).collect::<Result<Vec<_>, _>>())?;
    let is_wilson = args.action == Action::Wilson;
    let title = if is_wilson { "The hopping term of Wilson quarks" } else { "The staggered operator" };
    run.write(title, &results, || page_of(title, &results), |colours| text::of_rates(&results, colours))
}
