//! `zellige lqcd reproduce`.

use zellige_lqcd::files;
use zellige_lqcd::pipeline::reproduce;
use zellige_lqcd::report::{self, text};

use super::options;
use crate::args::LqcdReproduce;
use crate::run::Run;

/// Repeats the computation of a published figure or table.
///
/// # Errors
/// A file that cannot be read or holds no gauge field, invalid options, an output that cannot be
/// written, Ctrl-C. A residual that stays above the tolerance is a result.
pub fn run(args: &LqcdReproduce) -> anyhow::Result<()> {
    let gauge = files::read(&args.system.lattice)?.gauge;
    let run = Run::on_cpu(args.workers, &args.outputs)?;
    let options = options(&args.system, args.tol);
    let (result, histories) =
        run.work(|progress| reproduce(run.runtime(), &gauge, args.what, &options, progress))?;
    let name = args.system.lattice.display().to_string();
    let page = || Ok(report::of_reproduced(&name, &result, &histories));
    run.write(&name, &[&result], page, |colours| text::of_reproduced(&result, colours))
}
