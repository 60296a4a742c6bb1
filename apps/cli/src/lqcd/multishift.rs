//! `zellige lqcd multishift`.

use zellige_lqcd::files;
use zellige_lqcd::pipeline::{Method, Options, Shift, Solver, multishift};
use zellige_lqcd::report::{self, text};

use super::options;
use crate::args::LqcdMultishift;
use crate::exit::CommandError;
use crate::run::Run;

/// Solves for all shifts and writes the results.
///
/// # Errors
/// A file that cannot be read or holds no gauge field, invalid options, a residual that stays above
/// its tolerance, an output that cannot be written, Ctrl-C.
pub fn run(args: &LqcdMultishift) -> anyhow::Result<()> {
    let shifts = shifts(args)?;
    let gauge = files::read(&args.system.lattice)?.gauge;
    let options =
        Options { solver: args.solver.solver(Method::Cg), ..options(&args.system, shifts[0].tolerance) };
    let refinement = Solver { precision: args.refine.unwrap_or(options.solver.precision), ..options.solver };
    let run = Run::on_cpu(args.workers, &args.outputs)?;
    let (result, histories) =
        run.work(|progress| multishift(run.runtime(), &gauge, &options, &shifts, &refinement, progress))?;
    let name = args.system.lattice.display().to_string();
    let page = || Ok(report::of_shifts(&name, &result, &histories));
    run.write(&name, &[&result], page, |colours| text::of_shifts(&result, colours))?;
    match text::advice_on_shifts(&result, &options) {
        None => Ok(()),
        Some(advice) => Err(CommandError::NotConverged(advice).into()),
    }
}

fn shifts(args: &LqcdMultishift) -> Result<Vec<Shift>, CommandError> {
    let tolerance = |at: usize| match args.tol[..] {
        [tolerance] => tolerance,
        _ => args.tol[at],
    };
    if ![1, args.shifts.len()].contains(&args.tol.len()) {
        let (count, shifts) = (args.tol.len(), args.shifts.len());
        let problem = format!("{count} tolerances for {shifts} shifts: give one, or one for each shift");
        return Err(CommandError::option("--tol", problem));
    }
    let shifts = args.shifts.iter().enumerate();
    Ok(shifts.map(|(at, &shift)| Shift { shift, tolerance: tolerance(at) }).collect())
}
