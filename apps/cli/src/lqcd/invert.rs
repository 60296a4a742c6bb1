//! `zellige lqcd invert`.

use zellige_app::text::digits;
use zellige_lqcd::pipeline::results::InvertResult;
use zellige_lqcd::pipeline::{Method, Mixed, Options, invert};
use zellige_lqcd::{files, report};

use super::{failed, options};
use crate::args::{Device, LqcdInvert};
use crate::devices::{Devices, Needs};
use crate::exit::CommandError;
use crate::interrupt;
use crate::progress::Progress;

/// Computes a propagator and writes its results.
///
/// # Errors
/// A file that cannot be read or holds no gauge field, invalid options, a residual that stays above
/// the tolerance, an output that cannot be written, Ctrl-C.
pub fn run(args: &LqcdInvert) -> anyhow::Result<()> {
    let gauge = files::read(&args.system.lattice)?.gauge;
    let options = Options {
        solver: args.solver.solver(args.method),
        heavy_quark: args.heavy_quark_tol,
        ..options(&args.system)
    };
    if args.execution.device != Device::Cpu && options.solver.formats() != Mixed::Double {
        let problem = "GPUs compute with vectors in float64 only: use double";
        return Err(CommandError::option("--precision", problem).into());
    }
    let devices = Devices::open(&args.execution, &Needs::default())?;
    let rt = args.outputs.traced(devices.runtime(&args.execution)).build()?;
    let (armed, progress) = (interrupt::cancels(rt.canceller()), Progress::of(&rt));
    let (result, histories) = invert(&rt, &gauge, &options, &progress).map_err(failed)?;
    drop((progress, armed));
    devices.done(&args.execution, &rt);
    let name = args.system.lattice.display().to_string();
    let (results, trace) = ([result], args.outputs.recorded(&rt)?);
    let page = || Ok(report::of_inverted(&name, &results[0], &histories));
    args.outputs.write(&name, trace.as_ref(), &results, page, || text(&results[0]))?;
    let [result] = results;
    if result.converged {
        return Ok(());
    }
    // NaN counts as worse than any number.
    let worse = |a: f64, b: f64| if a >= b || a.is_nan() { a } else { b };
    let worst_of = |residuals: &[f64]| residuals.iter().copied().fold(0.0, worse);
    let worst = worst_of(&result.true_residual);
    let most_made = result.iterations.iter().max().copied().unwrap_or(0);
    // More iterations help only if the limit was reached.
    let more = |option: &str| match (most_made >= args.system.max_steps, args.method) {
        (true, _) => format!("use a larger --max-steps or a larger {option}"),
        (false, Method::Cg) => format!("it does not decrease further: use a larger {option}"),
        (false, Method::BiCgStab) => {
            format!("it does not decrease further: use --method cg or a larger {option}")
        }
    };
    if let Some(goal) = result.heavy_quark_tolerance.filter(|_| worst <= result.tolerance) {
        return Err(CommandError::NotConverged(format!(
            "the heavy-quark residual is {:.2e} after {most_made} iterations, above the tolerance {goal:.0e}: {}",
            worst_of(&result.heavy_quark_residual),
            more("--heavy-quark-tol"),
        ))
        .into());
    }
    // These formats have no steps in higher precision that continue at their resolution limit.
    let is_narrow = ["half", "int20"].contains(&&*result.precision);
    let remedy = match is_narrow {
        true => format!("use --precision double-{}", result.precision),
        false => more("--tol"),
    };
    Err(CommandError::NotConverged(format!(
        "the relative residual is {worst:.2e} after {most_made} iterations, above the tolerance {:.0e}: {remedy}",
        result.tolerance
    ))
    .into())
}

fn text(result: &InvertResult) -> String {
    let mut text = format!("{}, {}\n", result.method, result.precision);
    for (at, (iterations, residual)) in result.iterations.iter().zip(&result.true_residual).enumerate() {
        text +=
            &format!("right-hand side {at}: {iterations} iterations, recomputed residual {residual:.2e}\n");
    }
    text += &format!(
        "{} s to smear, {} s to solve\n t  C(t)\n",
        digits(result.seconds.smear),
        digits(result.seconds.solve)
    );
    for (t, value) in result.correlator.iter().enumerate() {
        text += &format!("{t:2}  {value:.9e}\n");
    }
    text
}
