//! `zellige lqcd invert`.

use zellige_kernels::sites::SiteFormat;
use zellige_lqcd::files;
use zellige_lqcd::pipeline::{Deflation, Mixed, Options, invert_with};
use zellige_lqcd::report::{self, text};

use super::options as options_of_system;
use crate::args::{Deflate, Device, LqcdInvert};
use crate::devices::Needs;
use crate::exit::CommandError;
use crate::run::Setup;

/// Computes a propagator and writes its results.
///
/// # Errors
/// A file that cannot be read or holds no gauge field, invalid options, a residual that stays above
/// the tolerance, an output that cannot be written, Ctrl-C.
pub fn run(args: &LqcdInvert) -> anyhow::Result<()> {
    let gauge = files::read(&args.system.lattice)?.gauge;
    let options = options(args);
    if args.execution.device != Device::Cpu && options.solver.precision != Mixed::Double {
        let problem = "GPUs compute with vectors in float64 only: use double";
        return Err(CommandError::option("--precision", problem).into());
    }
    if args.execution.device != Device::Cpu && args.deflate.is_some() {
        let problem = "eigenvectors are for CPU workers: use --device cpu";
        return Err(CommandError::option("--deflate", problem).into());
    }
    let deflation = args.deflate.as_ref().map(|deflate| match deflate {
        Deflate::Count(count) => Deflation::Compute(*count, SiteFormat::Fp32),
        Deflate::File(path) => Deflation::Read(path),
    });
    let run = Setup::new(&args.execution, &Needs::default(), &args.outputs)?.start()?;
    let (result, histories) =
        run.work(|progress| invert_with(run.runtime(), &gauge, &options, deflation, progress))?;
    let name = args.system.lattice.display().to_string();
    let page = || Ok(report::of_inverted(&name, &result, &histories));
    run.write(&name, &[&result], page, |_| text::of_inverted(&result))?;
    match result.converged {
        true => Ok(()),
        false => Err(CommandError::NotConverged(text::advice(&result, &options)).into()),
    }
}

/// Converts the options of a propagator.
pub(crate) fn options(args: &LqcdInvert) -> Options {
    Options {
        solver: args.solver.solver(args.method),
        heavy_quark: args.heavy_quark_tol,
        ..options_of_system(&args.system, args.tol)
    }
}
