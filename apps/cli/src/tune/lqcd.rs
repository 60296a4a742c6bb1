//! `zellige tune lqcd`.

use zellige_lqcd::pipeline::{Options, Solver};
use zellige_lqcd::{files, tune};
use zellige_tune::{Acceptance, Trials};

use super::{Tuning, check};
use crate::args::TuneLqcd;
use crate::exit::CommandError;
use crate::lqcd::options as options_of_system;
use crate::run::Run;

/// Tunes the computation of a propagator.
///
/// # Errors
/// A file that cannot be read or holds no gauge field, invalid options, and the errors of
/// [`super::run`].
pub fn run(args: &TuneLqcd) -> anyhow::Result<()> {
    check(&args.search, &args.cost, &tune::MEASURES)?;
    let gauge = files::read(&args.system.lattice)?.gauge;
    let options = Options {
        solver: Solver { method: args.method, ..Solver::default() },
        heavy_quark: args.heavy_quark_tol,
        ..options_of_system(&args.system, args.tol)
    };
    let run = Run::on_cpu(args.workers, &args.outputs)?;
    let mut search = tune::Tuning::new(run.runtime(), &gauge, options)?;
    let space = search.space().clone();
    let tuning = Tuning {
        space: &space,
        accept: &Acceptance::parse(&search.accept())?,
        unit: args.cost.text(),
        cost: &|_, measures| args.cost.value(measures),
        subject: format!("lqcd {} {options:?} {:?}", args.system.lattice.display(), args.workers),
        verify: args.verify,
    };
    let trials = Trials::in_turn(|formats, data| search.trial(formats, data));
    let outcome = tuning.search(&run, &args.search, trials)?;
    let found = search.solver(&outcome.best().formats).map_err(CommandError::Argument)?;
    drop(search);
    let heavy = args.heavy_quark_tol.map_or_else(String::new, |goal| format!(" --heavy-quark-tol {goal:e}"));
    let system = &args.system;
    let repeat = format!(
        "zellige lqcd invert {} --action {} --mass {} --source {} --bc {} --max-steps {} --tol {:e}{heavy} --method {} {}",
        system.lattice.display(),
        system.action,
        system.mass,
        system.source,
        system.bc,
        system.max_steps,
        args.tol,
        args.method,
        tune::options(&found)
    );
    let title = format!("zellige tune lqcd {}", system.lattice.display());
    tuning.write(run, &args.search, &title, outcome, Some(repeat))
}
