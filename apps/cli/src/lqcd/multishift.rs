//! `zellige lqcd multishift`.

use zellige_app::table::{Side, Table};
use zellige_app::text::digits;
use zellige_lqcd::pipeline::results::MultishiftResult;
use zellige_lqcd::pipeline::{Method, Options, Shift, Solver, multishift};
use zellige_lqcd::{files, report};

use super::{failed, options};
use crate::args::LqcdMultishift;
use crate::exit::CommandError;
use crate::progress::Progress;
use crate::{interrupt, out};

/// Solves for all shifts and writes the results.
///
/// # Errors
/// A file that cannot be read or holds no gauge field, invalid options, a residual that stays above
/// its tolerance, an output that cannot be written, Ctrl-C.
pub fn run(args: &LqcdMultishift) -> anyhow::Result<()> {
    let shifts = shifts(args)?;
    let gauge = files::read(&args.system.lattice)?.gauge;
    let options = Options { solver: args.solver.solver(Method::Cg), ..options(&args.system) };
    let refinement = Solver { precision: args.refine.unwrap_or(options.solver.precision), ..options.solver };
    let rt = args.outputs.runtime(args.workers)?;
    let (armed, progress) = (interrupt::cancels(rt.canceller()), Progress::of(&rt));
    let (result, histories) =
        multishift(&rt, &gauge, &options, &shifts, &refinement, &progress).map_err(failed)?;
    drop((progress, armed));
    let name = args.system.lattice.display().to_string();
    let (results, trace) = ([result], args.outputs.recorded(&rt)?);
    let page = || Ok(report::of_shifts(&name, &results[0], &histories));
    args.outputs.write(&name, trace.as_ref(), &results, page, || text(&results[0]))?;
    let [result] = results;
    match result.shifts.iter().find(|shift| !shift.converged) {
        None => Ok(()),
        Some(shift) => {
            let remedy = match result.iterations + shift.iterations >= args.system.max_steps {
                true => "use a larger --max-steps or a larger tolerance",
                false => "it does not decrease further: use a larger tolerance",
            };
            Err(CommandError::NotConverged(format!(
                "shift {}: the relative residual is {:.2e} after {} shared iterations and {} separate ones, above the tolerance {:.0e}: {remedy}",
                shift.shift, shift.true_residual, result.iterations, shift.iterations, shift.tolerance
            ))
            .into())
        }
    }
}

fn shifts(args: &LqcdMultishift) -> Result<Vec<Shift>, CommandError> {
    let tolerances = match args.tols.len() {
        0 => vec![args.system.tol; args.shifts.len()],
        count if count == args.shifts.len() => args.tols.clone(),
        count => {
            let problem =
                format!("{count} tolerances for {} shifts: give one for each shift", args.shifts.len());
            return Err(CommandError::option("--tols", problem));
        }
    };
    Ok(args.shifts.iter().zip(tolerances).map(|(&shift, tolerance)| Shift { shift, tolerance }).collect())
}

fn text(result: &MultishiftResult) -> String {
    let names = ["shift", "shared", "after shared", "iterations", "residual", "tolerance"];
    let mut table = Table::new(&names.map(|name| (name, Side::Right)));
    for one in &result.shifts {
        table.row([
            one.shift.to_string(),
            one.shared_iterations.to_string(),
            format!("{:.2e}", one.shared_residual),
            one.iterations.to_string(),
            format!("{:.2e}", one.true_residual),
            format!("{:.0e}", one.tolerance),
        ]);
    }
    format!(
        "{} shared iterations in {}, then {}; {} applications in all\n{}{} s to smear, {} s to solve\n",
        result.iterations,
        result.precision,
        result.refinement,
        result.applications,
        table.render(out::colours(&std::io::stdout())),
        digits(result.seconds.smear),
        digits(result.seconds.solve)
    )
}
