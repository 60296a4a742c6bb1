//! `zellige trust solve`.

use zellige_files::observe::Observer;
use zellige_solve::trust;

use super::{merged, options, write};
use crate::args::{SolveArgs, Trusted};
use crate::devices::Needs;
use crate::exit::CommandError;
use crate::run::Setup;
use crate::solve;

/// Judges the solution of a system.
///
/// # Errors
/// Files with other content, invalid combinations of options, systems that are not judged, an
/// output that cannot be written.
pub fn run(args: &Trusted<SolveArgs>) -> anyhow::Result<()> {
    let Trusted { sampling, verb: args } = args;
    let setup = Setup::on_ranks(&args.execution, &Needs::default(), &args.outputs)?;
    let (a, columns) = solve::square(args)?;
    let [b] = &columns[..] else {
        let problem = "one right-hand side is judged: name a file with one column";
        return Err(CommandError::option("--rhs", problem).into());
    };
    let solver = solve::options(args, a.columns())?;
    let run = setup.start()?;
    let mut trust = run.work(|progress| {
        progress.stage("solving", 0);
        trust::solve(run.session().executor(), &a, b, &solver, &options(*sampling))
    })?;
    trust.instabilities = merged(run.session(), trust.instabilities)?;
    write(run, &format!("zellige trust solve {}", args.matrix.display()), &trust)
}
