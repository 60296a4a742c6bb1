//! `zellige tor info`.

use zellige_files::memory::Bytes;
use zellige_tor::params::Input;
use zellige_tor::pipeline::{self, InfoResult, MemoryPlan, Options, PlannedRun, Silent, TileChoice, Tiling};
use zellige_tor::report::text;

use crate::args::InfoArgs;
use crate::results::{is_stdout, write_json};
use crate::{devices, interrupt, out};

/// Prints the size and the needs of the system.
///
/// # Errors
/// Bad parameters, or an output that cannot be written.
pub fn info(args: &InfoArgs) -> anyhow::Result<()> {
    let input = super::read(&args.system)?;
    let info = zellige_tor::pipeline::info(&input.system, &input.atmosphere)?;
    let mut tiling = Tiling::new(&info, super::tile(args.tile, TileChoice::Auto))?;
    let rules = super::run::rules(&args.precision);
    let options = Options {
        rules: rules.clone(),
        tile: super::tile(args.tile, TileChoice::Auto),
        workers: args.workers.map(usize::from),
        ..Options::default()
    };
    let plan = match pipeline::precheck(&input, &options) {
        Ok(plan) => Some(plan),
        Err(pipeline::PipelineError::Memory(refused)) => {
            // A system that does not fit this machine may fit another, so its description is still
            // printed.
            out::note(&format!("warning: {refused}"));
            None
        }
        Err(other) => return Err(other.into()),
    };
    if plan.is_some() {
        tiling.advice += &rule_advice(&input, &options, info.measurements)?;
    }
    let memory = plan.as_ref().map(|plan| &plan.memory);
    let run = PlannedRun {
        rules,
        memory: memory.map_or(Vec::new(), |memory| memory.items.clone()),
        memory_bytes: memory.map(MemoryPlan::total),
        trace_bytes: plan.as_ref().map(|plan| plan.trace_bytes),
        available_bytes: memory.and_then(|memory| memory.available),
        fits: plan.is_some(),
    };
    let figures = InfoResult { info: info.clone(), tiling, run };
    write_json(args.json.as_ref(), &[&figures])?;
    if is_stdout(args.json.as_ref()) {
        return Ok(());
    }
    let run = plan.map_or(String::new(), |plan| {
        let (memory, trace) = (&plan.memory, Bytes(plan.trace_bytes));
        format!(
            "run              {memory} with {}; a trace (--trace, --report) needs {trace} more\n",
            figures.run.rules.join(", ")
        )
    });
    out::print(&format!("{info}\n{run}{}", text::of_tiling(&figures.tiling)))
}

/// Recommends a precision rule, from its effect on a sample of the tiles.
fn rule_advice(input: &Input, options: &Options, measurements: usize) -> anyhow::Result<String> {
    let rt = devices::builder().build()?;
    let _armed = interrupt::cancels(rt.canceller());
    let found = pipeline::recommend(&rt, input, options, &Silent)?;
    let refused: Vec<String> = found.refused.iter().map(|rule| format!("{rule} does not")).collect();
    let whole = if found.rows == measurements { "all" } else { "a sample" };
    Ok(format!(
        "; {} keeps the matrix positive definite, from {whole} of its tiles ({} measurements){}",
        found.rule,
        found.rows,
        refused.iter().map(|text| format!(", {text}")).collect::<String>()
    ))
}
