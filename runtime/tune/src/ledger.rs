//! Trials of a search: each runs once, within a budget, and is judged.

use std::collections::HashMap;
use std::time::Instant;

use zellige_files::observe::Observer;

use crate::acceptance::Acceptance;
use crate::error::Error;
use crate::log::{Log, Subject};
use crate::measures::Measures;
use crate::outcome::{Ended, Trial, Verdict};
use crate::search::{Cost, Options};
use crate::space::{Assignment, Space};
use crate::trials::{Data, Run, Trials};

/// Largest relative difference of two sums of the same costs.
const ROUNDING: f64 = 1e-9;

/// End of a search before its method is complete.
pub(crate) enum Stop {
    Budget(Ended),
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

pub(crate) struct Ledger<'s, 't> {
    trials: Trials<'t>,
    acceptance: &'s Acceptance,
    cost: &'s Cost<'s>,
    observer: &'s dyn Observer,
    begin: Instant,
    max_trials: usize,
    max_seconds: f64,
    log: Option<Log>,
    /// Runs that have ended, and whether the log had them.
    runs: HashMap<(Data, Assignment), (Run, bool)>,
    /// Indices of judged trials.
    judged: HashMap<(Data, Assignment), usize>,
    pub list: Vec<Trial>,
    reference: HashMap<Data, Measures>,
    /// Rejected assignments of the search.
    rejected: Vec<Assignment>,
    /// Index of the trial that was last proved minimal.
    minimal: Option<usize>,
}

impl<'s, 't> Ledger<'s, 't> {
    pub fn new(
        trials: Trials<'t>,
        acceptance: &'s Acceptance,
        cost: &'s Cost<'s>,
        observer: &'s dyn Observer,
        space: &Space,
        options: &Options,
    ) -> Result<Self, Error> {
        let (log, logged) = match &options.log {
            Some(path) => {
                let (log, runs) = Log::open(path, &options.subject, space)?;
                (Some(log), runs)
            }
            None => (None, Vec::new()),
        };
        let known = |(data, subject, run)| match subject {
            Subject::Formats(formats) => Some(((data, formats), (run, true))),
            Subject::Other(_) => None,
        };
        Ok(Ledger {
            trials,
            acceptance,
            cost,
            observer,
            begin: Instant::now(),
            max_trials: options.max_trials.unwrap_or(usize::MAX),
            max_seconds: options.max_seconds.unwrap_or(f64::INFINITY),
            log,
            runs: logged.into_iter().filter_map(known).collect(),
            judged: HashMap::new(),
            list: Vec::new(),
            reference: HashMap::new(),
            rejected: Vec::new(),
            minimal: None,
        })
    }

    /// Judges the reference on some data. It must be accepted.
    pub fn judge_reference(&mut self, data: Data, reference: &Assignment) -> Result<usize, Error> {
        self.run_wave(data, std::slice::from_ref(reference))?;
        let (run, _) = &self.runs[&(data, reference.clone())];
        let measures = run.result.clone().map_err(|reason| Error::Reference(format!("failed: {reason}")))?;
        self.acceptance.check(&measures)?;
        self.reference.insert(data, measures);
        let at = self.record(data, reference);
        match &self.list[at].verdict {
            Verdict::Accepted => Ok(at),
            Verdict::Rejected(reason) | Verdict::Failed(reason) => {
                let place = if data == Data::Verify { " on the data of the verification" } else { "" };
                Err(Error::Reference(format!("is not accepted{place}: {reason}")))
            }
        }
    }

    /// Judges an assignment of the search. With trials at once, those of `ahead` run meanwhile.
    pub fn judge(
        &mut self,
        formats: &Assignment,
        ahead: impl IntoIterator<Item = Assignment>,
    ) -> Result<usize, Stop> {
        let data = Data::Search;
        if let Some(&at) = self.judged.get(&(data, formats.clone())) {
            return Ok(at);
        }
        if self.list.len() >= self.max_trials {
            return Err(Stop::Budget(Ended::Trials));
        }
        if self.begin.elapsed().as_secs_f64() >= self.max_seconds {
            return Err(Stop::Budget(Ended::Seconds));
        }
        if !self.runs.contains_key(&(data, formats.clone())) {
            let mut wave = vec![formats.clone()];
            if self.trials.at_once() > 1 {
                // A bound, since most of what comes next may have run already.
                for next in ahead.into_iter().take(64 * self.trials.at_once()) {
                    if wave.len() == self.trials.at_once() {
                        break;
                    }
                    if !self.runs.contains_key(&(data, next.clone())) && !wave.contains(&next) {
                        wave.push(next);
                    }
                }
            }
            self.run_wave(data, &wave)?;
        }
        Ok(self.record(data, formats))
    }

    /// Judges an assignment on data that the search has not seen, outside of the budget.
    pub fn verify(&mut self, formats: &Assignment) -> Result<usize, Error> {
        self.run_wave(Data::Verify, std::slice::from_ref(formats))?;
        Ok(self.record(Data::Verify, formats))
    }

    pub fn is_accepted(&self, at: usize) -> bool {
        self.list[at].is_accepted()
    }

    /// Whether each item has at most the format that it has in some rejected assignment.
    pub fn is_below_rejected(&self, formats: &Assignment) -> bool {
        self.rejected.iter().any(|rejected| formats.is_below(rejected))
    }

    /// Cost of an assignment: that of its trial, if it has one.
    pub fn cost(&self, formats: &Assignment) -> f64 {
        let judged = self.judged.get(&(Data::Search, formats.clone()));
        judged.and_then(|&at| self.list[at].cost).unwrap_or_else(|| formats.cost())
    }

    /// Whether some cost differs from the predicted one by another amount than that of the
    /// reference, the first trial.
    pub fn has_measured_costs(&self) -> bool {
        let apart = |trial: &Trial| trial.cost.map(|cost| cost - trial.formats.cost());
        let Some(constant) = self.list.first().and_then(apart) else { return false };
        let scale = constant.abs() + self.list[0].formats.cost().abs();
        self.list.iter().filter_map(apart).any(|apart| (apart - constant).abs() > ROUNDING * scale)
    }

    /// The accepted trial of the search that costs least; the reference is one.
    pub fn cheapest(&self) -> usize {
        self.accepted_by_cost()[0]
    }

    /// Notes that no single item of an assignment can be lowered.
    pub fn set_minimal(&mut self, formats: &Assignment) {
        self.minimal = self.judged.get(&(Data::Search, formats.clone())).copied();
    }

    /// Accepted trials of the search from cheap to dear; of equal ones the minimal one first.
    pub fn accepted_by_cost(&self) -> Vec<usize> {
        let is_candidate = |trial: &Trial| trial.data == Data::Search && trial.is_accepted();
        let mut accepted: Vec<usize> =
            (0..self.list.len()).filter(|&at| is_candidate(&self.list[at])).collect();
        let cost = |at: usize| self.list[at].cost.unwrap_or(f64::INFINITY);
        let is_other = |at: usize| self.minimal != Some(at);
        accepted.sort_by(|&a, &b| cost(a).total_cmp(&cost(b)).then(is_other(a).cmp(&is_other(b))));
        accepted
    }

    /// Number of runs that nothing was judged by.
    pub fn unused(&self) -> usize {
        let is_unused = |(key, (_, logged)): (&(Data, Assignment), &(Run, bool))| {
            !logged && !self.judged.contains_key(key)
        };
        self.runs.iter().filter(|&run| is_unused(run)).count()
    }

    fn run_wave(&mut self, data: Data, wave: &[Assignment]) -> Result<(), Error> {
        if wave.iter().all(|formats| self.runs.contains_key(&(data, formats.clone()))) {
            return Ok(());
        }
        let (log, runs) = (&mut self.log, &mut self.runs);
        self.trials.run(wave, data, |at, run| {
            // A trial that was cut short has no result to keep.
            if self.observer.cancelled() {
                return Ok(());
            }
            if let Some(log) = log {
                log.write(data, &Subject::Formats(wave[at].clone()), &run)?;
            }
            runs.insert((data, wave[at].clone()), (run, false));
            Ok(())
        })?;
        if self.observer.cancelled() { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Judges a run that has ended.
    fn record(&mut self, data: Data, formats: &Assignment) -> usize {
        let key = (data, formats.clone());
        if let Some(&at) = self.judged.get(&key) {
            return at;
        }
        let (run, logged) = &self.runs[&key];
        let trial = self.judged_trial(data, formats, run, *logged);
        if data == Data::Search && !trial.is_accepted() {
            self.rejected.push(formats.clone());
        }
        self.list.push(trial);
        self.judged.insert(key, self.list.len() - 1);
        self.observer.advance(self.list.len() as u64);
        self.list.len() - 1
    }

    fn judged_trial(&self, data: Data, formats: &Assignment, run: &Run, logged: bool) -> Trial {
        let formats = formats.clone();
        let (seconds, measures) = (run.seconds, run.result.clone().unwrap_or_default());
        let (cost, quality, verdict) = match &run.result {
            Err(reason) => (None, None, Verdict::Failed(reason.clone())),
            Ok(measures) => {
                let decision = self.acceptance.decide(measures, &self.reference[&data]);
                let cost = Some((self.cost)(&formats, measures)).filter(|cost| cost.is_finite());
                let verdict = match (decision.accepted, cost) {
                    (true, Some(_)) => Verdict::Accepted,
                    (true, None) => Verdict::Rejected("its cost is not finite".into()),
                    (false, _) => Verdict::Rejected(decision.reason),
                };
                (cost, decision.margin, verdict)
            }
        };
        Trial { data, formats, cost, quality, verdict, measures, seconds, logged }
    }
}
