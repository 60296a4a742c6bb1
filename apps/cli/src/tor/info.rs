//! `zellige tor info`.

use zellige_tor::params::Input;
use zellige_tor::pipeline::{self, InfoResult, Need, Options, PlannedRun, Silent, TileChoice, Tiling};

use crate::args::InfoArgs;
use crate::results::{is_stdout, write_json};
use crate::table::bytes;
use crate::{devices, interrupt, out};

/// Says how large the system is.
///
/// # Errors
/// Bad parameters, or an output that cannot be written.
pub fn info(args: &InfoArgs) -> anyhow::Result<()> {
    let input = super::read(&args.system)?;
    let info = zellige_tor::info(&input.system, &input.atmosphere)?;
    let mut tiling = Tiling::new(&info, super::tile(args.tile, TileChoice::Auto))?;
    let rules = super::run::rules(&args.precision);
    let options = Options {
        rules: rules.clone(),
        tile: super::tile(args.tile, TileChoice::Auto),
        ..Options::default()
    };
    let need = match pipeline::precheck(&input, &options) {
        Ok(plan) => Some(plan.memory),
        Err(pipeline::Error::Memory(text)) => {
            // What does not fit here may fit elsewhere: the description stands.
            out::note(&format!("warning: {text}"));
            None
        }
        Err(other) => return Err(other.into()),
    };
    if need.is_some() {
        tiling.advice += &rule_advice(&input, &options, info.measurements)?;
    }
    let run = PlannedRun {
        rules,
        memory: need.as_ref().map_or(Vec::new(), |need| need.items.clone()),
        memory_bytes: need.as_ref().map(Need::total),
        available_bytes: need.as_ref().and_then(|need| need.available),
        fits: need.is_some(),
    };
    let figures = InfoResult { info: info.clone(), tiling, run };
    write_json(args.json.as_ref(), &[&figures])?;
    if is_stdout(args.json.as_ref()) {
        return Ok(());
    }
    let run = need.map_or(String::new(), |need| {
        format!("run              {need} with {}\n", figures.run.rules.join(", "))
    });
    out::print(&format!("{info}\n{run}{}", text(&figures.tiling)))
}

/// Which rule to take, by what a sample of the tiles does with it.
fn rule_advice(input: &Input, options: &Options, measurements: usize) -> anyhow::Result<String> {
    let rt = devices::builder().build()?;
    let _armed = interrupt::cancels(rt.canceller());
    let found = pipeline::recommend(&rt, input, options, &Silent).map_err(super::pipeline_error)?;
    let refused: Vec<String> = found.refused.iter().map(|rule| format!("{rule} would not")).collect();
    let whole = if found.rows == measurements { "all" } else { "a sample" };
    Ok(format!(
        "; {} keeps it positive definite, by {whole} of its tiles ({} measurements){}",
        found.rule,
        found.rows,
        refused.iter().map(|text| format!(", {text}")).collect::<String>()
    ))
}

/// Tiles in words.
fn text(tiling: &Tiling) -> String {
    format!(
        "tiles            {} x {}, at most {} rows ({} in float32), {} tasks to factorise\nadvice           {}\n",
        tiling.tiles,
        tiling.tiles,
        tiling.largest,
        bytes(4 * (tiling.largest as u64).pow(2)),
        tiling.factor_tasks,
        tiling.advice
    )
}
