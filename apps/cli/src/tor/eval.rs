//! `zellige tor eval`.

use std::path::Path;

use zellige_app::table::{Side, Table};
use zellige_tor::pipeline::{self, Foreign, Judgement, Options};

use super::files;
use crate::args::EvalArgs;
use crate::devices::{Devices, Needs};
use crate::interrupt;
use crate::out;
use crate::progress::Progress;
use crate::results::page_of;

/// Judges a reconstructor from a file.
///
/// # Errors
/// Files that cannot be read or do not fit the system.
pub fn eval(args: &EvalArgs) -> anyhow::Result<()> {
    let devices = Devices::open(&args.execution, &Needs::default())?;
    let input = super::read(&args.system)?;
    let foreign = Foreign {
        reconstructor: args.rec.to_path_buf(),
        command_matrix: args.dm.as_deref().map(Path::to_path_buf),
        order: args.slope_order.map(files::order),
    };
    let rt = args.outputs.traced(devices.runtime(&args.execution)).build()?;
    super::announce_judgement(&input, 1, &rt, "")?;
    let armed = interrupt::cancels(rt.canceller());
    let progress = Progress::of(&rt);
    let judgement = pipeline::evaluate(&rt, &input, &Options::default(), &foreign, &progress)
        .map_err(super::pipeline_error)?;
    drop(progress);
    drop(armed);
    interrupt::check()?;
    devices.done(&args.execution, &rt);
    let title = format!("Reconstructor {}", judgement.reconstructor.display());
    let results = [&judgement];
    let trace = args.outputs.recorded(&rt)?;
    args.outputs.write(&title, trace.as_ref(), &results, || page_of(&title, &results), || text(&judgement))
}

fn text(judgement: &Judgement) -> String {
    let made = judgement.rule.as_ref().map_or(String::new(), |rule| format!(", made with {rule}"));
    let mut table = Table::new(&[
        ("target", Side::Left),
        ("trace of Cee", Side::Right),
        ("of Ctt", Side::Right),
        ("Strehl", Side::Right),
        ("exact", Side::Right),
        ("Marechal", Side::Right),
        ("nm rms", Side::Right),
    ]);
    for t in &judgement.targets {
        table.row([
            format!("({}, {})", t.x, t.y),
            format!("{:.6e}", t.trace_cee),
            format!("{:.3} %", 100.0 * t.relative_error),
            format!("{:.6}", t.strehl_moao),
            t.strehl_exact.map_or("-".into(), |s| format!("{s:.6}")),
            format!("{:.6}", t.marechal),
            format!("{:.1}", t.wfe_nm),
        ]);
    }
    format!(
        "{}: {} x {}, slopes {}{made}\n{}",
        judgement.reconstructor.display(),
        judgement.m,
        judgement.n,
        judgement.slope_order.name(),
        table.render(out::colours(&std::io::stdout()))
    )
}
