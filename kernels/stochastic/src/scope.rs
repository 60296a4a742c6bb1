//! A scope: settings of the perturbation, and the instabilities of everything that ran in it.

use core::cell::RefCell;
use core::fmt;
use core::sync::atomic::AtomicU64;
use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::instability::{Categories, Category, Place, Site};
use crate::perturbation::Perturbation;
use crate::state::{self, Mode, Record};

/// Settings of random rounding, and the instabilities of all code that runs in it.
///
/// Random bits depend on the seed, the task, its replay, the element and the operation within it:
/// never on the thread. Scopes nest; an operation counts in the innermost one. Outside of all
/// scopes numbers are perturbed with seed 0 and nothing is counted.
///
/// ```
/// use zellige_stochastic::{Category, Scope, Stochastic};
///
/// let scope = Scope::new(7);
/// let difference = scope.run(|| {
///     let third = Stochastic::<f64>::new(1.0) / 3.0;
///     third * 3.0 - (third + third + third)
/// });
/// assert!(difference.is_zero());
/// assert_eq!(scope.report().count(Category::Cancellation), 1);
/// ```
///
/// A clone is the same scope.
#[derive(Clone, Debug)]
pub struct Scope {
    mode: Mode,
    /// Another rank counts what all ranks repeat.
    is_repeated: bool,
    pub(crate) shared: Arc<Shared>,
}

/// State that all threads of a scope share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    sites: Mutex<Vec<Site>>,
    /// Tasks that were submitted so far.
    pub(crate) submitted: AtomicU64,
    /// Digits of numbers that are followed, in the order of their computation.
    pub(crate) followed: Mutex<BTreeMap<&'static str, Vec<u8>>>,
}

thread_local! {
    static CURRENT: RefCell<Option<Scope>> = const { RefCell::new(None) };
}

/// The innermost scope of this thread.
pub(crate) fn current() -> Option<Scope> {
    CURRENT.with_borrow(Clone::clone)
}

impl Scope {
    /// A scope with random rounding, which counts all categories.
    pub fn new(seed: u64) -> Scope {
        Scope::with(seed, Perturbation::Random, Categories::ALL)
    }

    /// A scope with a perturbation and the categories that it counts.
    pub fn with(seed: u64, perturbation: Perturbation, categories: Categories) -> Scope {
        let mode = Mode { seed, perturbation, categories };
        Scope { mode, is_repeated: false, shared: Arc::default() }
    }

    /// The scope of one of several ranks. Ranks share tasks, and repeat what is between them:
    /// only the first rank counts that, so that [merged](Report::merge) reports are those of one
    /// process.
    #[must_use]
    pub fn on_rank(self, rank: usize) -> Scope {
        Scope { is_repeated: rank > 0, ..self }
    }

    /// Runs `f` on this thread as task 0, which all ranks repeat.
    pub fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        self.repeated(0, 0, f)
    }

    /// Runs `f` as [`task`](Scope::task) does, on all ranks: only the first one counts.
    pub fn repeated<R>(&self, task: u64, replay: u64, f: impl FnOnce() -> R) -> R {
        let categories = if self.is_repeated { Categories::NONE } else { self.mode.categories };
        self.within(Mode { categories, ..self.mode }, task, replay, f)
    }

    /// Runs `f` on this thread as task number `task`, in submission order, of replay `replay`.
    ///
    /// A panic of `f` passes through; what was counted before it stays.
    pub fn task<R>(&self, task: u64, replay: u64, f: impl FnOnce() -> R) -> R {
        self.within(self.mode, task, replay, f)
    }

    fn within<R>(&self, mode: Mode, task: u64, replay: u64, f: impl FnOnce() -> R) -> R {
        struct Leave<'a>(&'a Scope, Option<state::Saved>, Option<Scope>);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                if let Some(saved) = self.1.take() {
                    self.0.count(&state::leave(saved));
                }
                CURRENT.replace(self.2.take());
            }
        }
        let outer = CURRENT.replace(Some(self.clone()));
        let _leave = Leave(self, Some(state::enter(mode, task, replay)), outer);
        f()
    }

    fn count(&self, records: &[Record]) {
        if records.is_empty() {
            return;
        }
        let mut sites = self.shared.sites.lock();
        for record in records {
            let site = Site {
                category: record.category,
                place: Place::from(record.place),
                count: record.count,
                first: record.first,
            };
            merge(&mut sites, &site);
        }
    }

    /// Instabilities of the tasks that have ended.
    pub fn report(&self) -> Report {
        let mut sites = self.shared.sites.lock().clone();
        sort(&mut sites);
        Report { sites }
    }
}

fn merge(sites: &mut Vec<Site>, other: &Site) {
    match sites.iter_mut().find(|site| site.category == other.category && site.place == other.place) {
        Some(site) => site.add(other.count, other.first),
        None => sites.push(other.clone()),
    }
}

/// By category, then by first occurrence: the same order on any number of threads and ranks.
fn sort(sites: &mut [Site]) {
    sites.sort_by(|a, b| (a.category, a.first, &a.place).cmp(&(b.category, b.first, &b.place)));
}

/// Instabilities of a run by category and place in the source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Report {
    /// Places, by category and first occurrence.
    pub sites: Vec<Site>,
}

impl Report {
    /// Instabilities of one category.
    pub fn count(&self, category: Category) -> u64 {
        self.sites.iter().filter(|site| site.category == category).map(|site| site.count).sum()
    }

    /// Whether no instability was counted.
    pub fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// Whether estimates of digits hold: no unstable division, multiplication or power was counted,
    /// in which errors of second order dominate.
    pub fn is_valid(&self) -> bool {
        !self.sites.iter().any(|site| site.category.invalidates())
    }

    /// Adds the instabilities of another part of the same run, as of another rank.
    pub fn merge(&mut self, other: &Report) {
        other.sites.iter().for_each(|site| merge(&mut self.sites, site));
        sort(&mut self.sites);
    }
}

/// Places of a category that a report prints.
const SHOWN: usize = 5;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return writeln!(f, "no instability detected");
        }
        for category in Category::ALL {
            let sites: Vec<&Site> = self.sites.iter().filter(|site| site.category == category).collect();
            if sites.is_empty() {
                continue;
            }
            writeln!(f, "{:>9} {}", self.count(category), category.name())?;
            for site in sites.iter().take(SHOWN) {
                writeln!(f, "{:>9} at {}", site.count, site.place)?;
            }
            if sites.len() > SHOWN {
                writeln!(f, "{:>9} other places", sites.len() - SHOWN)?;
            }
        }
        if !self.is_valid() {
            writeln!(
                f,
                "warning: numbers without an exact digit were multiplied, divided by or raised to a power; \
                 the digits of results may be overestimated"
            )?;
        }
        Ok(())
    }
}
