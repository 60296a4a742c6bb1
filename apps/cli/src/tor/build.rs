//! `zellige tor build`.

use std::iter;
use std::sync::Arc;

use zellige_tor::pipeline::{self, Foreign, Observer, Options};
use zellige_tor::report::{self, text};

use super::files;
use crate::args::BuildArgs;
use crate::devices::Needs;
use crate::run::Setup;

/// Computes a reconstructor for every target, or rounds a given one, and writes it to a file. The
/// reconstructor is not judged, because that takes much longer than its computation.
///
/// # Errors
/// The errors of the pipeline; outputs that cannot be written; a rule that does not survive.
pub fn build(args: &BuildArgs) -> anyhow::Result<()> {
    let rules = iter::once(&args.precision).chain(&args.factor.solve_precision);
    let setup = Setup::on_ranks(&args.execution, &Needs::of_rules(rules), &args.outputs)?;
    let input = super::read(&args.system)?;
    let (given, notes) = match args.rec.as_deref() {
        None => (None, Vec::new()),
        Some(path) => {
            let foreign = Foreign { reconstructor: path.to_path_buf(), ..Foreign::default() };
            let (matrices, notes) =
                pipeline::read_reconstructors(&input.system, &input.atmosphere, &foreign)?;
            (Some(matrices.into_iter().map(Arc::new).collect()), notes)
        }
    };
    let options = Options {
        given,
        rules: vec![args.precision.to_string()],
        judge: false,
        keep_reconstructors: true,
        rounding: args.rounding.format(),
        ..super::options(&args.factor, &args.execution, &setup)
    };
    let run = super::start(setup, &input, &options)?;
    let outcome = run.work(|progress| {
        notes.iter().for_each(|note| progress.warn(note));
        super::reconstruct_rounded(run.session(), &input, &options, &args.rounding, progress)
    })?;
    let Some(finished) = run.finish()? else { return Ok(()) };
    let title = format!("Reconstructor of {}", args.system.system.display());
    let page = || Ok(report::page(&outcome)?);
    finished.write(&title, &outcome.results, page, |colours| text::of_build(&outcome, colours))?;
    super::check_survivors(&outcome)?;
    let order = files::order(args.slope_order);
    let written = pipeline::write_reconstructors(&args.output, &outcome, &outcome.results[0], order)?;
    files::print_written(args.outputs.is_quiet(), &written)
}
