//! `zellige tor run`.

use zellige_dense::Rule;
use zellige_tor::files::SlopeOrder;
use zellige_tor::pipeline::{self, Options};
use zellige_tor::report::{self, text};

use super::files;
use crate::args::{RunArgs, Xray};
use crate::devices::Needs;
use crate::results::is_stdout;
use crate::run::Setup;

/// Default rules of a comparison.
const USUAL_RULES: [&str; 2] = ["fp32", "hp1:operand=1e-2"];

/// Runs all stages for every rule.
///
/// # Errors
/// The errors of the pipeline; outputs that cannot be written; no surviving rule.
pub fn run(args: &RunArgs) -> anyhow::Result<()> {
    let asked = args.precision.iter().chain(&args.factor.solve_precision);
    let setup = Setup::on_ranks(&args.execution, &Needs::of_rules(asked), &args.outputs)?;
    let output = &args.output;
    let norms = &args.norms;
    let input = super::read(&args.system)?;
    let options = Options {
        rules: rules(&args.precision),
        xray: match args.xray {
            Xray::Full => pipeline::Xray::Full,
            // The spectra are visible in a report only.
            Xray::Auto if args.outputs.has_report() => pipeline::Xray::Auto,
            Xray::Auto | Xray::Off => pipeline::Xray::Off,
        },
        keep_reconstructors: output.is_some(),
        keep_norms: norms.is_some(),
        rounding: args.rounding.format(),
        ..super::options(&args.factor, &args.execution, &setup)
    };
    let run = super::start(setup, &input, &options)?;
    super::announce_judgement(&input, options.rules.len(), run.runtime(), "; zellige tor build omits this")?;
    let outcome = run.work(|progress| {
        super::reconstruct_rounded(run.session(), &input, &options, &args.rounding, progress)
    })?;
    let Some(finished) = run.finish()? else { return Ok(()) };
    let title = format!("zellige tor run {}", args.system.system.display());
    let quiet = args.outputs.is_quiet() || is_stdout(norms.as_ref());
    let text = |colours| if quiet { String::new() } else { text::of_run(&outcome, colours) };
    finished.write(&title, &outcome.results, || Ok(report::page(&outcome)?), text)?;
    let survivor = outcome.results.iter().find(|r| r.measured.is_some());
    if let (Some(target), Some(norms)) = (norms, survivor.and_then(|r| r.extras.norms.as_ref())) {
        target.write_json(norms)?;
    }
    if let (Some(output), Some(survivor)) = (output, survivor) {
        let written = pipeline::write_reconstructors(output, &outcome, survivor, SlopeOrder::Xxyy)?;
        files::print_written(quiet, &written)?;
    }
    super::check_survivors(&outcome)
}

/// Returns the text of the given rules, or the default rules if none is given.
pub fn rules(given: &[Rule]) -> Vec<String> {
    if given.is_empty() {
        USUAL_RULES.map(String::from).to_vec()
    } else {
        given.iter().map(Rule::to_string).collect()
    }
}
