//! The search and its options.

use std::path::PathBuf;

use zellige_files::observe::{Observer, Silent};

use crate::acceptance::Acceptance;
use crate::error::Error;
use crate::exchange::Exchange;
use crate::ledger::{Ledger, Stop};
use crate::measures::Measures;
use crate::outcome::{Ended, Outcome, front};
use crate::space::{Assignment, Space};
use crate::trials::{Data, Trials};
use crate::{baselines, minimal};

pub(crate) type Cost<'s> = dyn Fn(&Assignment, &Measures) -> f64 + 's;

/// Most assignments that are verified before the reference is taken.
const VERIFIED: usize = 10;

/// Method of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Delta debugging over groups, exchanges of items, and a proof that no item can be lowered.
    /// With measured costs, a dearer format of a single item may cost less: each is tried.
    #[default]
    Delta,
    /// A baseline: each item in turn is lowered as far as it goes, those that save most first.
    Greedy,
    /// A baseline: random assignments.
    Random,
}

/// Options of a search.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Largest number of trials of the search; none: no limit. Verification and trials that run
    /// ahead come on top.
    pub max_trials: Option<usize>,
    /// Time after which no further trial of the search starts, in seconds; none: no limit.
    pub max_seconds: Option<f64>,
    /// Seed of [`Method::Random`].
    pub seed: u64,
    /// Method.
    pub method: Method,
    /// File to which each trial is appended, and from which a search goes on.
    pub log: Option<PathBuf>,
    /// Text that names the computation and its data, so that the log of another one is refused.
    pub subject: String,
    /// Whether the result is checked on [`Data::Verify`]. If it is not accepted there, the next
    /// dearer accepted assignment is checked, and so on.
    pub verify: bool,
}

/// A search for the cheapest accepted assignment of a space.
pub struct Search<'s, 't> {
    space: &'s Space,
    trials: Trials<'t>,
    acceptance: &'s Acceptance,
    cost: Box<Cost<'s>>,
    observer: &'s dyn Observer,
}

impl<'s, 't> Search<'s, 't> {
    /// Describes a search. Costs are sums of predicted costs.
    pub fn new(space: &'s Space, trials: Trials<'t>, acceptance: &'s Acceptance) -> Self {
        let cost = Box::new(|formats: &Assignment, _: &Measures| formats.cost());
        Search { space, trials, acceptance, cost, observer: &Silent }
    }

    /// Sets the cost of a trial, e.g. a measured time. Predicted costs then only order the search,
    /// and single items are raised, too, where that costs less. A cost that is not finite rejects
    /// the trial.
    #[must_use]
    pub fn cost(mut self, cost: impl Fn(&Assignment, &Measures) -> f64 + 's) -> Self {
        self.cost = Box::new(cost);
        self
    }

    /// Sets an observer, which learns the number of trials and may cancel the search.
    #[must_use]
    pub fn observer(mut self, observer: &'s dyn Observer) -> Self {
        self.observer = observer;
        self
    }

    /// Runs the search.
    ///
    /// The same trials, options and seed give the same outcome, also if trials run at once, unless
    /// the budget of seconds ends it.
    ///
    /// # Errors
    /// A reference that fails or is not accepted, names of measures that it does not have, a log
    /// that cannot be used, [`Error::Cancelled`].
    pub fn run(self, options: &Options) -> Result<Outcome, Error> {
        let Search { space, trials, acceptance, cost, observer } = self;
        let mut ledger = Ledger::new(trials, acceptance, &*cost, observer, space, options)?;
        let bound = limit(space).min(options.max_trials.unwrap_or(usize::MAX));
        observer.stage("trials", bound as u64);
        let reference = ledger.judge_reference(Data::Search, &space.reference())?;
        let ended = match by_method(space, &mut ledger, options) {
            Ok(ended) | Err(Stop::Budget(ended)) => ended,
            Err(Stop::Failed(error)) => return Err(error),
        };
        let (best, verified) = match options.verify {
            false => (ledger.cheapest(), None),
            true => {
                observer.stage("verification", VERIFIED as u64);
                verify(space, &mut ledger, reference)?
            }
        };
        let unused = ledger.unused();
        let trials = ledger.list;
        Ok(Outcome { best, reference, front: front(&trials), trials, ended, verified, unused })
    }
}

/// Number of trials after which no exchanges are tried, of `n` items with up to `k + 1` formats:
/// `3 k n log2 n`, at most `n^2 + 3 n`.
pub(crate) fn limit(space: &Space) -> usize {
    let n = space.items().len();
    linear(space).min(n * n + 3 * n)
}

/// `3 k n log2 n`, at least as many trials as there are changes of single items.
pub(crate) fn linear(space: &Space) -> usize {
    let n = space.items().len() as f64;
    (3.0 * space.depth() as f64 * n * n.log2().max(1.0)) as usize
}

fn by_method(space: &Space, ledger: &mut Ledger<'_, '_>, options: &Options) -> Result<Ended, Stop> {
    match options.method {
        Method::Greedy => baselines::greedy(space, ledger),
        Method::Random => baselines::random(space, ledger, options.seed),
        Method::Delta => {
            minimal::lower_groups(space, ledger)?;
            minimal::lower_items(space, ledger)?;
            let mut exchange = Exchange::new(space);
            while exchange.improve(ledger)? || minimal::raise_item(space, ledger)? {
                minimal::lower_items(space, ledger)?;
            }
            Ok(Ended::Minimal)
        }
    }
}

/// Index of the cheapest accepted trial that is also accepted on unseen data, and of its
/// verification.
fn verify(
    space: &Space,
    ledger: &mut Ledger<'_, '_>,
    reference: usize,
) -> Result<(usize, Option<usize>), Error> {
    let of_reference = ledger.judge_reference(Data::Verify, &space.reference())?;
    for at in ledger.accepted_by_cost().into_iter().take(VERIFIED) {
        let formats = ledger.list[at].formats.clone();
        let verified = ledger.verify(&formats)?;
        if ledger.is_accepted(verified) {
            return Ok((at, Some(verified)));
        }
    }
    Ok((reference, Some(of_reference)))
}
