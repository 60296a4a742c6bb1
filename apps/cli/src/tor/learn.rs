//! `zellige tor learn`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use zellige_tor::geometry::Geometry;
use zellige_tor::learn::{self, LearnOptions};
use zellige_tor::report::text;

use super::files;
use crate::args::LearnArgs;
use crate::devices::Needs;
use crate::out;
use crate::results::page_of;
use crate::run::Setup;

/// Learns the turbulence profile from slopes.
///
/// # Errors
/// Bad parameters, slopes that do not fit the system, no convergence, outputs that cannot be
/// written.
pub fn learn(args: &LearnArgs) -> anyhow::Result<()> {
    let setup = Setup::new(&args.execution, &Needs::default(), &args.outputs)?;
    let input = super::read(&args.system)?;
    let geometry = Geometry::new(&input.system)?;
    let names: Vec<PathBuf> = args.slopes.iter().map(|file| file.to_path_buf()).collect();
    let measured = learn::read_slopes(&names, &geometry, files::order(args.slope_order))?;
    let options = LearnOptions {
        frame_time: args.frame_ms.map(|ms| 1e-3 * ms).or(measured.frame_time),
        lag: args.wind_lag.map(|lag| lag as usize),
        search: args.search_wind,
    };
    let run = setup.start()?;
    let learnt =
        run.work(|progress| learn::learn(run.runtime(), &input, measured.slopes, &options, progress))?;
    let title = format!("Profile of {}", args.system.system.display());
    let results = [&learnt];
    let text = |colours| text::of_learnt(&learnt, colours);
    run.write(&title, &results, || page_of(&title, &results), text)?;
    let Some(output) = &args.output else { return Ok(()) };
    let (system, zenith) = (&args.system.system, input.system.zenith_angle);
    let atmosphere = learnt.atmosphere();
    let is_own = system.extension().is_some_and(|end| end.eq_ignore_ascii_case("toml"));
    let content = if is_own {
        let given = std::fs::read_to_string(&**system).with_context(|| system.display().to_string())?;
        learn::with_profile(system, &given, &atmosphere, zenith)?
    } else {
        out::note(&format!("the profile alone goes to {}: give it as --atm", output.display()));
        learn::profile_toml(&atmosphere, zenith)
    };
    output.write(|to| to.write_all(content.as_bytes()))?;
    files::print_written(args.outputs.is_quiet(), &[Path::to_path_buf(output)])
}
