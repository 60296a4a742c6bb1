//! `zellige tor cov`.

use std::time::Instant;

use zellige_app::text::{bytes, digits};
use zellige_tor::pipeline::{self, CovarianceResult, Options};

use super::files;
use crate::args::CovArgs;
use crate::devices::{Devices, Needs};
use crate::interrupt;
use crate::progress::Progress;
use crate::results::page_of;

/// Computes the covariance matrices and writes them to a file.
///
/// # Errors
/// Bad parameters, or an output that cannot be written.
pub fn cov(args: &CovArgs) -> anyhow::Result<()> {
    let devices = Devices::open(&args.execution, &Needs::default())?;
    let input = super::read(&args.system)?;
    let rt = args.outputs.traced(devices.runtime(&args.execution)).build()?;
    let armed = interrupt::cancels(rt.canceller());
    let progress = Progress::of(&rt);
    let begin = Instant::now();
    let all =
        pipeline::covariance(&rt, &input, &Options::default(), &progress).map_err(super::pipeline_error)?;
    let seconds = begin.elapsed().as_secs_f64();
    drop(progress);
    drop(armed);
    interrupt::check()?;
    devices.done(&args.execution, &rt);
    let figures = CovarianceResult::new(&all, seconds, pipeline::devices(&rt));
    let text = || {
        format!(
            "Cmm {0} x {0} ({1} in float64), Ctm {2} x {0} of {3} target(s), Ctt {2} x {2}: computed in {4} s\n",
            figures.n,
            bytes(8 * (figures.n as u64).pow(2)),
            figures.m,
            figures.targets,
            digits(seconds)
        )
    };
    let title = format!("Covariance matrices of {}", args.system.system.display());
    let results = [&figures];
    let trace = args.outputs.recorded(&rt)?;
    args.outputs.write(&title, trace.as_ref(), &results, || page_of(&title, &results), text)?;
    let written = all.write(&args.output, files::order(args.slope_order))?;
    files::print_written(args.outputs.is_quiet(), &written)
}
