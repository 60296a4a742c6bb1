//! `zellige lqcd generate`.

use std::time::Instant;

use zellige_lqcd::Geometry;
use zellige_lqcd::files;
use zellige_lqcd::generate::{Quenched, generate};
use zellige_lqcd::pipeline::results::{FieldResult, GenerateResult};
use zellige_lqcd::report::{self, text};

use crate::args::LqcdGenerate;
use crate::run::Run;

/// Generates a gauge field and writes it.
///
/// # Errors
/// An impossible lattice or coupling, a file that cannot be written, Ctrl-C.
pub fn run(args: &LqcdGenerate) -> anyhow::Result<()> {
    let geometry = Geometry::new(args.size.0)?;
    let options = Quenched {
        beta: args.beta,
        trajectories: args.trajectories as usize,
        seed: args.seed,
        ..Quenched::default()
    };
    let run = Run::on_cpu(args.workers, &args.outputs)?;
    let begin = Instant::now();
    let made = run.work(|progress| generate(run.runtime(), geometry, &options, progress))?;
    let stamp = format!("zellige: quenched, beta {}, {} trajectories", args.beta, made.history.len());
    files::write(&args.output, &made.gauge, &stamp, None)?;
    let results = [GenerateResult {
        beta: args.beta,
        overrelaxation: options.overrelaxation,
        seed: args.seed,
        field: FieldResult::of(&made.gauge),
        history: made.history,
        written: args.output.display().to_string(),
        seconds: begin.elapsed().as_secs_f64(),
    }];
    let page = || Ok(report::of_generated(&results[0]));
    run.write("gauge field", &results, page, |_| text::of_generated(&results[0]))
}
