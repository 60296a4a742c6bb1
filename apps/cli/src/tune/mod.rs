//! `zellige tune ...`.

mod command;
mod lqcd;
mod psa;
mod solve;
mod spmv;
mod tor;

use zellige_app::tune::{TuneResult, page, text};
use zellige_tune::{Acceptance, Assignment, Expression, Measures, Options, Outcome, Search, Space, Trials};

use crate::args::{TuneSearch, TuneVerb};
use crate::run::Run;

/// Runs a verb of `zellige tune`.
///
/// # Errors
/// The errors of the verb; a reference that fails or is not accepted, a wrong name in `--accept`,
/// a file of trials that belongs to another search.
pub fn run(verb: &TuneVerb) -> anyhow::Result<()> {
    match verb {
        TuneVerb::Command(args) => command::run(args),
        TuneVerb::Psa(args) => psa::run(args),
        TuneVerb::Solve(args) => solve::run(args),
        TuneVerb::Spmv(args) => spmv::run(args),
        TuneVerb::Lqcd(args) => lqcd::run(args),
        TuneVerb::Tor(args) => tor::run(args),
    }
}

/// Returns the options of a search; `subject` names the computation and its data.
fn limits(options: &TuneSearch, subject: String, verify: bool) -> Options {
    Options {
        max_trials: options.max_trials.map(|most| usize::try_from(most).unwrap_or(usize::MAX)),
        max_seconds: options.max_time,
        seed: options.seed,
        method: options.strategy.into(),
        log: options.trials.clone(),
        subject,
        verify,
    }
}

/// Checks the names in `--accept` and `--cost` before the first trial.
///
/// # Errors
/// [`zellige_tune::Error::UnknownMeasure`] with all names.
fn check(search: &TuneSearch, cost: &Expression, names: &[&str]) -> Result<(), zellige_tune::Error> {
    let mut measures = Measures::default();
    names.iter().for_each(|&name| measures.insert(name, 0.0, 0.0));
    cost.check(&measures)?;
    search.accept.as_ref().map_or(Ok(()), |accept| accept.check(&measures))
}

/// Returns whether `--accept` or `--cost` has one of some names.
fn has(search: &TuneSearch, cost: &Expression, names: &[&str]) -> bool {
    let accept = search.accept.as_ref();
    names.iter().any(|name| cost.has(name) || accept.is_some_and(|accept| accept.has(name)))
}

/// A search that a verb has prepared.
pub struct Tuning<'a> {
    /// Items and formats.
    pub space: &'a Space,
    /// Acceptance if `--accept` is not given.
    pub accept: &'a Acceptance,
    /// Unit of the cost.
    pub unit: &'a str,
    /// Cost of a trial, e.g. `&|formats, _| formats.cost()`.
    pub cost: &'a dyn Fn(&Assignment, &Measures) -> f64,
    /// Text that names the computation and its data; the trials of another one are refused.
    pub subject: String,
    /// Whether the result is checked on data that the search has not seen.
    pub verify: bool,
}

impl Tuning<'_> {
    fn accept<'s>(&'s self, options: &'s TuneSearch) -> &'s Acceptance {
        options.accept.as_ref().unwrap_or(self.accept)
    }

    /// Searches, and shows the progress meanwhile.
    ///
    /// # Errors
    /// The errors of [`Search::run`]; Ctrl-C.
    pub fn search(&self, run: &Run<'_>, options: &TuneSearch, trials: Trials<'_>) -> anyhow::Result<Outcome> {
        let limits = limits(options, self.subject.clone(), self.verify);
        run.work(|progress| {
            let search = Search::new(self.space, trials, self.accept(options)).cost(self.cost);
            search.observer(progress).run(&limits)
        })
    }

    /// Finishes a run: writes the formats of the result and the requested outputs, and prints the
    /// text. `repeat` is the command that runs the result again.
    ///
    /// # Errors
    /// The errors of [`Run::write`]; formats that cannot be written.
    pub fn write(
        &self,
        run: Run<'_>,
        options: &TuneSearch,
        title: &str,
        outcome: Outcome,
        repeat: Option<String>,
    ) -> anyhow::Result<()> {
        if let Some(output) = &options.output {
            output.write_json(&outcome.best().formats)?;
        }
        let result = TuneResult::new(self.space, self.accept(options).text(), self.unit, outcome, repeat);
        let text = |colour| match options.output.as_ref().is_some_and(|output| output.is_stdout()) {
            true => String::new(),
            false => text(&result, colour),
        };
        run.write(title, &[&result], || Ok(page(title, &result)), text)
    }
}
