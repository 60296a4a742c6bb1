//! `zellige tor cov`.

use std::time::Instant;

use zellige_tor::pipeline::{self, CovarianceResult, Options};
use zellige_tor::report::text;

use super::files;
use crate::args::CovArgs;
use crate::devices::Needs;
use crate::results::page_of;
use crate::run::Setup;

/// Computes the covariance matrices and writes them to a file.
///
/// # Errors
/// Bad parameters, or an output that cannot be written.
pub fn cov(args: &CovArgs) -> anyhow::Result<()> {
    let setup = Setup::new(&args.execution, &Needs::default(), &args.outputs)?;
    let input = super::read(&args.system)?;
    let run = setup.start()?;
    let begin = Instant::now();
    let all =
        run.work(|progress| pipeline::covariance(run.runtime(), &input, &Options::default(), progress))?;
    let seconds = begin.elapsed().as_secs_f64();
    let results = [CovarianceResult::new(&all, seconds, pipeline::devices(run.runtime()))];
    let title = format!("Covariance matrices of {}", args.system.system.display());
    let text = |_| text::of_covariances(&results[0], seconds);
    run.write(&title, &results, || page_of(&title, &results), text)?;
    let written = all.write(&args.output, files::order(args.slope_order))?;
    files::print_written(args.outputs.is_quiet(), &written)
}
