//! `zellige lqcd eigen`.

use zellige_lqcd::files;
use zellige_lqcd::pipeline::{EigenOptions, eigen};
use zellige_lqcd::report::{self, text};

use crate::args::LqcdEigen;
use crate::run::Run;

/// Computes the lowest eigenvalues and writes the results, and the vectors if a file is given.
///
/// # Errors
/// A file that cannot be read or holds no gauge field, invalid options, eigenvalues that do not
/// converge, an output that cannot be written, Ctrl-C.
pub fn run(args: &LqcdEigen) -> anyhow::Result<()> {
    let gauge = files::read(&args.lattice)?.gauge;
    let options = EigenOptions {
        action: args.action,
        boundary: args.bc,
        mass: args.mass,
        count: args.count.into(),
        tolerance: args.tol,
        format: args.vectors,
    };
    let run = Run::on_cpu(args.workers, &args.outputs)?;
    let (mut result, modes) = run.work(|progress| eigen(run.runtime(), &gauge, &options, progress))?;
    if let Some(path) = &args.output {
        files::modes::write(run.runtime(), path, &modes)?;
        result.written = Some(path.display().to_string());
    }
    // Vectors have handles of the runtime, which ends with the run.
    drop(modes);
    let name = args.lattice.display().to_string();
    let page = || Ok(report::of_eigen(&name, &result));
    run.write(&name, &[&result], page, |_| text::of_eigen(&result))
}
