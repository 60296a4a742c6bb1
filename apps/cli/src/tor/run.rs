//! `zellige tor run`.

use zellige_app::text::bytes;
use zellige_dense::Rule;
use zellige_tor::files::SlopeOrder;
use zellige_tor::pipeline::{self, Options, Outcome};
use zellige_tor::report;

use super::{files, results};
use crate::args::{RunArgs, Xray};
use crate::devices::{Devices, Needs};
use crate::interrupt;
use crate::out;
use crate::processes::Processes;
use crate::progress::Progress;
use crate::results::is_stdout;

/// Default rules of a comparison.
const USUAL_RULES: [&str; 2] = ["fp32", "hp1:operand=1e-2"];

/// Runs all stages for every rule.
///
/// # Errors
/// The errors of the pipeline; outputs that cannot be written; no surviving rule.
pub fn run(args: &RunArgs) -> anyhow::Result<()> {
    let processes = Processes::find()?;
    let asked = args.precision.iter().chain(&args.factor.solve_precision);
    let devices = Devices::open(&args.execution, &Needs::of_rules(asked))?;
    let output = &args.output;
    let norms = &args.norms_out;
    let input = super::read(&args.system)?;
    let options = Options {
        rules: rules(&args.precision),
        xray: match args.xray {
            Xray::Full => pipeline::Xray::Full,
            // The spectra are visible in a report only.
            Xray::Auto if args.outputs.report.is_some() => pipeline::Xray::Auto,
            Xray::Auto | Xray::Off => pipeline::Xray::Off,
        },
        keep_reconstructors: output.is_some(),
        keep_norms: norms.is_some(),
        ..super::options(&args.factor, &args.execution, &devices, &processes)
    };
    let session =
        super::planned_session(&input, &options, &args.execution, &devices, &args.outputs, &processes)?;
    let rt = session.runtime();
    super::announce_judgement(&input, options.rules.len(), rt, "; zellige tor build omits this")?;
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

    let title = format!("zellige tor run {}", args.system.system.display());
    let quiet = args.outputs.is_quiet() || is_stdout(norms.as_ref());
    let text = || if quiet { String::new() } else { text(&outcome) };
    args.outputs.write(&title, trace.as_ref(), &outcome.results, || Ok(report::page(&outcome)?), text)?;
    let survivor = outcome.results.iter().find(|r| r.measured.is_some());
    if let (Some(target), Some(norms)) = (norms, survivor.and_then(|r| r.extras.norms.as_ref())) {
        target.write_json(norms)?;
    }
    if let (Some(output), Some(survivor)) = (output, survivor) {
        let written = pipeline::write_reconstructors(output, &outcome, survivor, SlopeOrder::Xxyy)?;
        files::print_written(quiet, &written)?;
    }
    results::check_survivors(&outcome)?;
    Ok(())
}

/// Returns the text of the given rules, or the default rules if none is given.
pub fn rules(given: &[Rule]) -> Vec<String> {
    if given.is_empty() {
        USUAL_RULES.map(String::from).to_vec()
    } else {
        given.iter().map(Rule::to_string).collect()
    }
}

fn text(outcome: &Outcome) -> String {
    let info = &outcome.info;
    let tiles = outcome.results.first().map_or(0, |r| r.tiles);
    let devices: Vec<String> =
        outcome.devices.iter().map(|d| format!(", {} ({})", d.device, bytes(d.memory_bytes))).collect();
    let head = format!(
        "n = {}, m = {}, {} target(s), {tiles} x {tiles} tiles, {} worker(s){}\n",
        info.measurements,
        info.truth_slopes,
        info.targets,
        outcome.workers,
        devices.concat()
    );
    let note = match info.targets {
        0 | 1 => "",
        _ => "Strehl ratios of the first target; --json FILE has those of all targets\n",
    };
    [head, results::table(outcome).render(out::colours(&std::io::stdout())), note.into()].concat()
}
