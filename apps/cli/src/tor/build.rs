//! `zellige tor build`.

use std::iter;

use zellige_tor::pipeline::{self, Options};
use zellige_tor::report;

use super::{files, results};
use crate::args::BuildArgs;
use crate::devices::{Devices, Needs};
use crate::interrupt;
use crate::out;
use crate::processes::Processes;
use crate::progress::Progress;

/// Note on the figures that the table of a build omits.
const NOT_JUDGED: &str = "backward error and Strehl ratios: not computed; use zellige tor eval\n";

/// Computes a reconstructor for every target and writes it to a file. The reconstructor is not
/// judged, because that takes much longer than its computation.
///
/// # Errors
/// The errors of the pipeline; outputs that cannot be written; a rule that does not survive.
pub fn build(args: &BuildArgs) -> anyhow::Result<()> {
    let processes = Processes::find()?;
    let rules = iter::once(&args.precision).chain(&args.factor.solve_precision);
    let devices = Devices::open(&args.execution, &Needs::of_rules(rules))?;
    let input = super::read(&args.system)?;
    let options = Options {
        rules: vec![args.precision.to_string()],
        judge: false,
        keep_reconstructors: true,
        ..super::options(&args.factor, &args.execution, &devices, &processes)
    };
    let session =
        super::planned_session(&input, &options, &args.execution, &devices, &args.outputs, &processes)?;
    let rt = session.runtime();
    let armed = interrupt::cancels(rt.canceller());
    let progress = Progress::of(rt);
    let outcome = super::reconstruct(&session, &input, &options, &progress)?;
    drop(progress);
    drop(armed);
    interrupt::check()?;
    let trace = session.recorded(&args.outputs)?;
    if !processes.is_first() {
        return Ok(());
    }
    devices.done(&args.execution, rt);

    let title = format!("Reconstructor of {}", args.system.system.display());
    let text = || {
        let note = if outcome.survived() { NOT_JUDGED } else { "" };
        results::table(&outcome).render(out::colours(&std::io::stdout())) + note
    };
    args.outputs.write(&title, trace.as_ref(), &outcome.results, || Ok(report::page(&outcome)?), text)?;
    results::check_survivors(&outcome)?;
    let order = files::order(args.slope_order);
    let written = pipeline::write_reconstructors(&args.output, &outcome, &outcome.results[0], order)?;
    files::print_written(args.outputs.is_quiet(), &written)
}
