//! Exchanges: from a minimal assignment to a cheaper one that is not below it.

use crate::ledger::{Ledger, Stop};
use crate::search::limit;
use crate::space::{Assignment, Space};

/// Most assignments of a space that are searched for one that could be cheaper.
const SMALL: usize = 1 << 14;
/// Least share of the allowance that a format is taken to use.
const LEAST: f64 = 1e-12;

/// Search for cheaper assignments. Nothing is tried below a rejected assignment: it is taken to be
/// rejected too.
pub(crate) struct Exchange<'s> {
    space: &'s Space,
    /// Number of trials after which none begins, so that enough are left to prove a result minimal.
    most_trials: usize,
    /// Share of the allowance that each item uses in each format, alone; empty if not measured.
    used: Vec<Vec<f64>>,
    is_measured: bool,
}

/// Step of an item to a lower format, with what it saves for what it uses.
struct Step {
    item: usize,
    level: usize,
    worth: f64,
}

impl<'s> Exchange<'s> {
    pub fn new(space: &'s Space) -> Self {
        let steps: usize = space.items().iter().map(|item| item.formats.len() - 1).sum();
        Exchange {
            space,
            most_trials: limit(space).saturating_sub(steps),
            used: Vec::new(),
            is_measured: false,
        }
    }

    /// Looks for a cheaper accepted assignment; returns whether there is one.
    pub fn improve(&mut self, ledger: &mut Ledger<'_, '_>) -> Result<bool, Stop> {
        let before = ledger.cheapest();
        if !self.could_gain(ledger) {
            return Ok(false);
        }
        if !self.is_measured && ledger.list[before].quality.is_some() {
            self.is_measured = true;
            self.follow_path(ledger)?;
        }
        if self.is_cheaper(ledger, before) {
            return Ok(true);
        }
        let state = ledger.list[before].formats.clone();
        for item in self.raised(&state) {
            self.exchange(ledger, &state, item)?;
            if self.is_cheaper(ledger, before) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_cheaper(&self, ledger: &Ledger<'_, '_>, before: usize) -> bool {
        ledger.list[ledger.cheapest()].cost < ledger.list[before].cost
    }

    fn may_try(&self, ledger: &Ledger<'_, '_>) -> bool {
        ledger.list.len() < self.most_trials
    }

    /// Whether some assignment is cheaper and not below a rejected one; true for large spaces.
    fn could_gain(&self, ledger: &Ledger<'_, '_>) -> bool {
        let formats = |at: usize| self.space.items()[at].formats.len();
        let items = self.space.items().len();
        let size = (0..items).try_fold(1usize, |size, at| size.checked_mul(formats(at)));
        let Some(size) = size.filter(|&size| size <= SMALL) else { return true };
        let cost = ledger.list[ledger.cheapest()].formats.cost();
        (0..size).any(|mut code| {
            let mut candidate = self.space.cheapest();
            for at in 0..items {
                candidate = candidate.with(at, code % formats(at));
                code /= formats(at);
            }
            candidate.cost() < cost && !ledger.is_below_rejected(&candidate)
        })
    }

    /// Measures what each item uses in each format alone, takes the steps that save most for what
    /// they use, as many as are accepted, and then others.
    fn follow_path(&mut self, ledger: &mut Ledger<'_, '_>) -> Result<(), Stop> {
        let reference = self.space.reference();
        let pairs: Vec<(usize, usize)> = (0..self.space.items().len())
            .flat_map(|item| (0..reference.level(item)).map(move |level| (item, level)))
            .collect();
        if ledger.list.len() + pairs.len() + pairs.len().checked_ilog2().unwrap_or(0) as usize
            > self.most_trials
        {
            return Ok(());
        }
        let mut used: Vec<Vec<f64>> =
            self.space.items().iter().map(|item| vec![0.0; item.formats.len()]).collect();
        let singles: Vec<Assignment> =
            pairs.iter().map(|&(item, level)| reference.with(item, level)).collect();
        for (at, &(item, level)) in pairs.iter().enumerate() {
            let trial = ledger.judge(&singles[at], singles[at + 1..].iter().cloned())?;
            let quality = ledger.list[trial].quality.unwrap_or(f64::NEG_INFINITY);
            used[item][level] = (1.0 - quality).max(LEAST);
        }
        self.used = used;
        let path = self.path();
        let prefix = |count: usize| {
            path[..count].iter().fold(reference.clone(), |state, step| state.with(step.item, step.level))
        };
        let (mut accepted, mut rejected) = (0, path.len() + 1);
        while rejected - accepted > 1 {
            let middle = accepted.midpoint(rejected);
            if self.try_one(ledger, &prefix(middle))? {
                accepted = middle;
            } else {
                rejected = middle;
            }
        }
        self.fill(ledger, prefix(accepted), None, f64::INFINITY)
    }

    /// Steps of all items along their convex hulls of cost and use, the worthiest first.
    fn path(&self) -> Vec<Step> {
        let mut path = Vec::new();
        for item in 0..self.space.items().len() {
            let mut state = self.space.reference();
            while let Some(step) = (0..state.level(item))
                .map(|level| self.step(&state, item, level))
                .max_by(|a, b| a.worth.total_cmp(&b.worth).then(a.level.cmp(&b.level)))
            {
                state = state.with(item, step.level);
                path.push(step);
            }
        }
        path.sort_by(|a, b| b.worth.total_cmp(&a.worth));
        path
    }

    fn step(&self, state: &Assignment, item: usize, level: usize) -> Step {
        let gain = state.gain(item, level);
        let worth = match self.used.get(item) {
            Some(used) => gain / (used[level] - used[state.level(item)]).max(LEAST),
            None => gain,
        };
        Step { item, level, worth }
    }

    /// Items that could be raised, those first that free most of the allowance for what they cost.
    fn raised(&self, state: &Assignment) -> Vec<usize> {
        let reference = self.space.reference();
        let worth = |item: usize| {
            let raised = state.with(item, state.level(item) + 1);
            self.step(&raised, item, state.level(item)).worth
        };
        let lowered = (0..self.space.items().len()).filter(|&item| state.level(item) < reference.level(item));
        let mut items: Vec<(f64, usize)> = lowered.map(|item| (worth(item), item)).collect();
        items.sort_by(|a, b| a.0.total_cmp(&b.0));
        items.into_iter().map(|(_, item)| item).collect()
    }

    /// Raises an item by one format, and lowers others.
    fn exchange(&self, ledger: &mut Ledger<'_, '_>, state: &Assignment, item: usize) -> Result<(), Stop> {
        let raised = state.with(item, state.level(item) + 1);
        self.fill(ledger, raised, Some(item), state.cost())
    }

    /// Lowers items but one, step by step, while the sum of costs can still fall below a limit.
    fn fill(
        &self,
        ledger: &mut Ledger<'_, '_>,
        mut state: Assignment,
        without: Option<usize>,
        below: f64,
    ) -> Result<(), Stop> {
        let others = || (0..self.space.items().len()).filter(|&item| Some(item) != without);
        let step_of = |state: &Assignment, item: usize| {
            (state.level(item) > 0).then(|| self.step(state, item, state.level(item) - 1))
        };
        let mut steps: Vec<Step> = others().filter_map(|item| step_of(&state, item)).collect();
        while !steps.is_empty() {
            let could_save: f64 = steps.iter().map(|step| state.gain(step.item, 0)).sum();
            if state.cost() - could_save >= below {
                break;
            }
            let best = (0..steps.len()).reduce(|a, b| if steps[b].worth > steps[a].worth { b } else { a });
            let step = steps.swap_remove(best.expect("there are steps"));
            let candidate = state.with(step.item, step.level);
            if self.try_one(ledger, &candidate)? {
                state = candidate;
                steps.extend(step_of(&state, step.item));
            }
        }
        Ok(())
    }

    /// Whether an assignment is accepted; false without a trial below a rejected one, and if too
    /// few trials are left.
    fn try_one(&self, ledger: &mut Ledger<'_, '_>, candidate: &Assignment) -> Result<bool, Stop> {
        if !self.may_try(ledger) || ledger.is_below_rejected(candidate) {
            return Ok(false);
        }
        let at = ledger.judge(candidate, [])?;
        Ok(ledger.is_accepted(at))
    }
}
