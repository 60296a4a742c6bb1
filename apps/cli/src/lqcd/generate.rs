//! `zellige lqcd generate`.

use std::time::Instant;

use zellige_app::text::digits;
use zellige_lqcd::files;
use zellige_lqcd::generate::{Quenched, generate};
use zellige_lqcd::pipeline::results::{FieldResult, GenerateResult};
use zellige_lqcd::{Geometry, report};

use super::failed;
use crate::args::LqcdGenerate;
use crate::interrupt;
use crate::progress::Progress;

/// Generates a gauge field and writes it.
///
/// # Errors
/// An impossible lattice or coupling, a file that cannot be written, Ctrl-C.
pub fn run(args: &LqcdGenerate) -> anyhow::Result<()> {
    let geometry = Geometry::new(args.size.0)?;
    let options = Quenched {
        beta: args.beta,
        trajectories: args.trajectories as usize,
        overrelaxation: args.overrelaxation as usize,
        seed: args.seed,
        start: args.start,
    };
    let rt = args.outputs.runtime(args.workers)?;
    let armed = interrupt::cancels(rt.canceller());
    let (progress, begin) = (Progress::new(), Instant::now());
    let made = generate(&rt, geometry, &options, &progress).map_err(failed)?;
    drop((progress, armed));
    interrupt::check()?;
    let stamp = format!("zellige: quenched, beta {}, {} trajectories", args.beta, made.history.len());
    files::write(&args.output, &made.gauge, &stamp)?;
    let result = GenerateResult {
        beta: args.beta,
        overrelaxation: options.overrelaxation,
        seed: args.seed,
        field: FieldResult::of(&made.gauge),
        history: made.history,
        written: args.output.display().to_string(),
        seconds: begin.elapsed().as_secs_f64(),
    };
    let trace = args.outputs.recorded(&rt)?;
    let results = [result];
    let page = || Ok(report::of_generated(&results[0]));
    args.outputs.write("gauge field", trace.as_ref(), &results, page, || text(&results[0]))
}

fn text(result: &GenerateResult) -> String {
    let field = &result.field;
    format!(
        "{} trajectories in {} s\nplaquette {:.6} in space, {:.6} in time; link trace {:.6}\nwritten: {}\n",
        result.history.len(),
        digits(result.seconds),
        field.plaquette.ss,
        field.plaquette.st,
        field.link_trace,
        result.written
    )
}
