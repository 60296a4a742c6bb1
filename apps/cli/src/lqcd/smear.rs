//! `zellige lqcd smear`.

use std::time::Instant;

use zellige_lqcd::files;
use zellige_lqcd::pipeline::results::SmearResult;
use zellige_lqcd::report::text;
use zellige_lqcd::smear::smear;

use crate::args::LqcdSmear;
use crate::results::page_of;
use crate::run::Run;

/// Smears the links of a gauge field and prints their observables.
///
/// # Errors
/// A file that cannot be read or holds no gauge field, links without a nearest unitary matrix, an
/// output that cannot be written, Ctrl-C.
pub fn run(args: &LqcdSmear) -> anyhow::Result<()> {
    let gauge = files::read(&args.lattice)?.gauge;
    let run = Run::on_cpu(args.workers, &args.outputs)?;
    let begin = Instant::now();
    let mut links = gauge.clone();
    links.reunitarise();
    let smeared = run.work(|_| smear(run.runtime(), &links, args.action))?;
    let results = [SmearResult::of(args.action, &gauge, &smeared, begin.elapsed().as_secs_f64())];
    let title = format!("{}: {}", args.lattice.display(), args.action);
    run.write(&title, &results, || page_of(&title, &results), |_| text::of_smeared(&results[0]))
}
