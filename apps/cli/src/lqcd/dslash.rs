//! `zellige lqcd dslash`.

use zellige_app::table::{Side, Table};
use zellige_lqcd::Geometry;
use zellige_lqcd::pipeline::dslash::{dslash, random_links};
use zellige_lqcd::pipeline::results::DslashResult;

use super::failed;
use crate::args::LqcdDslash;
use crate::results::page_of;
use crate::{interrupt, out};

/// Measures the operator.
///
/// # Errors
/// A lattice that cannot be, an output that cannot be written, Ctrl-C.
pub fn run(args: &LqcdDslash) -> anyhow::Result<()> {
    let geometry = Geometry::new(args.size.0)?;
    let rt = args.outputs.runtime(args.workers)?;
    let armed = interrupt::cancels(rt.canceller());
    let links = random_links(geometry, !args.naive, 1);
    let (columns, repeats) = (args.columns.into(), args.repeat.into());
    let mut results = Vec::new();
    for &precision in &args.precision {
        results.push(dslash(&rt, &links, precision, columns, repeats).map_err(failed)?);
    }
    drop(armed);
    let (trace, title) = (args.outputs.recorded(&rt)?, "The staggered operator");
    args.outputs.write(title, trace.as_ref(), &results, || page_of(title, &results), || text(&results))
}

fn text(results: &[DslashResult]) -> String {
    let names = ["precision", "columns", "ns/site", "bytes/site", "GB/s", "of GB/s", "Gflop/s"];
    let side = |name| if name == names[0] { Side::Left } else { Side::Right };
    let mut table = Table::new(&names.map(|name| (name, side(name))));
    for result in results {
        table.row([
            result.precision.clone(),
            result.columns.to_string(),
            format!("{:.1}", result.nanoseconds),
            format!("{:.0}", result.bytes),
            format!("{:.2}", result.rate),
            format!("{:.2}", result.bandwidth),
            format!("{:.2}", result.gflops),
        ]);
    }
    table.render(out::colours(&std::io::stdout()))
}
