//! Results of a search.

use serde::Serialize;

use crate::measures::Measures;
use crate::space::Assignment;
use crate::trials::Data;

/// Judgement of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The acceptance holds.
    Accepted,
    /// The acceptance does not hold, with the comparison that decides.
    Rejected(String),
    /// The trial failed, with the reason.
    Failed(String),
}

/// One trial with its verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Trial {
    /// Data of the trial.
    pub data: Data,
    /// Formats by item.
    pub formats: Assignment,
    /// Cost; none if the trial failed.
    pub cost: Option<f64>,
    /// Distance from the limit of the acceptance: 1 for the reference, 0 at the limit, negative
    /// beyond. None for trials that failed, and for an acceptance that is not an expression.
    pub quality: Option<f64>,
    /// Judgement.
    pub verdict: Verdict,
    /// Measures; empty if the trial failed.
    pub measures: Measures,
    /// Wall-clock time in seconds.
    pub seconds: f64,
    /// Whether the trial was read from the log instead of run.
    pub logged: bool,
}

impl Trial {
    /// Returns whether the acceptance holds.
    pub fn is_accepted(&self) -> bool {
        self.verdict == Verdict::Accepted
    }
}

/// Reason for the end of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// No single item can be lowered further.
    Minimal,
    /// The baseline has made its trials; nothing is known of items that could be lowered.
    Complete,
    /// The budget of trials is spent.
    Trials,
    /// The budget of seconds is spent.
    Seconds,
}

/// Outcome of a search. Indices are those of [`Outcome::trials`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Outcome {
    /// Index of the chosen trial: the cheapest accepted one, which is also verified if requested.
    pub best: usize,
    /// Index of the reference.
    pub reference: usize,
    /// Indices of trials that no other one surpasses in cost and quality, from cheap to dear.
    pub front: Vec<usize>,
    /// All trials of the search in its order, and then those of the verification.
    pub trials: Vec<Trial>,
    /// Reason for the end. [`Ended::Minimal`] speaks of the cheapest accepted trial.
    pub ended: Ended,
    /// Index of the trial of [`Outcome::best`] on unseen data, if requested.
    pub verified: Option<usize>,
    /// Number of runs whose result the search did not need, because they ran ahead.
    pub unused: usize,
}

impl Outcome {
    /// Returns the chosen trial.
    pub fn best(&self) -> &Trial {
        &self.trials[self.best]
    }

    /// Returns the trial of the reference.
    pub fn reference(&self) -> &Trial {
        &self.trials[self.reference]
    }
}

/// Indices of the trials of the search that no other one surpasses in cost and quality.
pub(crate) fn front(trials: &[Trial]) -> Vec<usize> {
    let mut points: Vec<(usize, f64, f64)> = Vec::new();
    for (at, trial) in trials.iter().enumerate().filter(|(_, trial)| trial.data == Data::Search) {
        let quality = trial.quality.or(trial.is_accepted().then_some(0.0));
        if let (Some(cost), Some(quality)) = (trial.cost, quality) {
            points.push((at, cost, quality));
        }
    }
    points.sort_by(|a, b| a.1.total_cmp(&b.1).then(b.2.total_cmp(&a.2)));
    let mut best = f64::NEG_INFINITY;
    points.retain(|&(_, _, quality)| {
        let is_better = quality > best;
        best = best.max(quality);
        is_better
    });
    points.into_iter().map(|(at, _, _)| at).collect()
}
