//! `zellige tune solve`.

use zellige_solve::tune;
use zellige_sparse::files;
use zellige_sparse::krylov::Stop;
use zellige_sparse::system::Options;
use zellige_tune::{Acceptance, Trials};

use super::{Tuning, check, has};
use crate::args::{TuneSolve, VectorSource};
use crate::exit::CommandError;
use crate::run::Run;
use crate::vectors;

/// Right-hand side of the verification.
const VERIFY: VectorSource = VectorSource::Random(1);

/// Tunes the solution of a system.
///
/// # Errors
/// Files with other content, a matrix that is not square, and the errors of [`super::run`].
pub fn run(args: &TuneSolve) -> anyhow::Result<()> {
    check(&args.search, &args.cost, &tune::MEASURES)?;
    let a = files::read_real(&args.matrix)?;
    if a.rows() != a.columns() {
        let problem = format!("{}: the matrix is not square", args.matrix.display());
        return Err(CommandError::Argument(problem).into());
    }
    let b = [("--rhs", &args.rhs), ("--verify", &VERIFY)];
    let [b, other] = b.map(|(option, from)| vectors::one(option, from, a.rows()));
    let options = Options {
        method: args.method,
        preconditioner: args.precond,
        stop: vec![Stop::RelativeToRhs(args.tol), Stop::Steps(args.max_steps)],
        ..Options::default()
    };
    let run = Run::on_cpu(args.workers, &args.outputs)?;
    let executor = run.session().executor();
    let (b, other) = (b?, other?);
    let mut search = tune::Tuning::new(executor, &a, [b, other], &options, args.repeats.into())?;
    let has_digits = has(&args.search, &args.cost, &[tune::DIGITS]);
    if has_digits {
        search = search.with_digits();
    }
    let space = search.space().clone();
    let given = format!(
        "{} --method {} --precond {} --tol {:e} --max-steps {}",
        args.matrix.display(),
        args.method,
        args.precond,
        args.tol,
        args.max_steps
    );
    let tuning = Tuning {
        space: &space,
        accept: &Acceptance::parse(&tune::accept(args.tol))?,
        unit: args.cost.text(),
        cost: &|_, measures| args.cost.value(measures),
        // Trials without digits cannot be used again with them.
        subject: format!(
            "solve {given} {:?} {} {:?}{}",
            args.rhs,
            args.repeats,
            args.workers,
            if has_digits { ", digits" } else { "" }
        ),
        verify: args.verify,
    };
    let trials = Trials::in_turn(|formats, data| search.trial(formats, data));
    let outcome = tuning.search(&run, &args.search, trials)?;
    let formats = &outcome.best().formats;
    let found = search.options(formats).map_err(CommandError::Argument)?;
    let repeat = format!(
        "zellige solve {} -b {} --tol {:e} --max-steps {} {}",
        args.matrix.display(),
        args.rhs,
        args.tol,
        args.max_steps,
        tune::options(&found, formats)
    );
    drop(search);
    let title = format!("zellige tune solve {}", args.matrix.display());
    tuning.write(run, &args.search, &title, outcome, Some(repeat))
}
