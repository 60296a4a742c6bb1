//! The attempts to solve for one right-hand side: their results, and the criteria of the next one.

use std::time::Duration;

use zellige_files::memory::NotEnoughMemory;
use zellige_krylov::method::MemoryUse;
use zellige_krylov::{Error, Reason, Solution, Stop};

use crate::system::answer::Attempt;
use crate::system::options::PreconditionerChoice;

/// The attempts to solve for one right-hand side so far.
#[derive(Default)]
pub(super) struct Attempts {
    pub(super) list: Vec<Attempt>,
    pub(super) solution: Option<Solution>,
    pub(super) steps: usize,
    pub(super) runs: usize,
    /// Number of attempts that met the tolerance by rounding errors of their residual only.
    pub(super) unmet: i32,
    /// The most that one of them kept.
    pub(super) memory: MemoryUse,
    /// The norm of the residual before all attempts, if a criterion uses it.
    pub(super) first: f64,
    /// Setup time of the objects that they used.
    pub(super) setup: Duration,
    /// The first that did not fit the memory.
    refused: Option<NotEnoughMemory>,
}

/// Maximum number of steps of an attempt before the last.
const STEPS_OF_ONE: usize = 2000;

impl Attempts {
    /// Creates an empty list; `first` is the norm of the residual before all attempts, if a
    /// criterion uses it.
    pub(super) fn new(first: f64, setup: Duration) -> Self {
        Attempts { first, setup, ..Attempts::default() }
    }

    /// Adds the result of an attempt.
    pub(super) fn add(
        &mut self,
        method: String,
        preconditioner: PreconditionerChoice,
        result: Result<Solution, Error>,
    ) {
        if let Ok(solution) = &result {
            self.steps += solution.steps;
            self.runs += solution.runs;
            let MemoryUse { basis, vectors } = solution.memory;
            self.memory =
                MemoryUse { basis: self.memory.basis.max(basis), vectors: self.memory.vectors.max(vectors) };
            self.solution = Some(*solution);
        }
        let result = result.map_err(|error| {
            let text = error.to_string();
            if let Error::Memory(refused) = error {
                self.refused.get_or_insert(refused);
            }
            text
        });
        self.list.push(Attempt { method, preconditioner, result });
    }

    /// Returns true if no attempt follows.
    pub(super) fn is_over(&self, stop: &[Stop]) -> bool {
        let last = self.list.last().and_then(|attempt| attempt.result.as_ref().ok());
        last.is_some_and(|solution| {
            let is_out = stop.iter().any(|stop| matches!(*stop, Stop::Steps(most) if most <= self.steps));
            solution.reason.is_converged() || solution.reason == Reason::Time || is_out
        })
    }

    /// Returns the criteria of the next attempt: the remaining steps and time, and only a part of
    /// the steps unless it is the last attempt.
    pub(super) fn stops(&self, stop: &[Stop], elapsed: Duration, is_last: bool) -> Vec<Stop> {
        // Otherwise the next attempt would take the guess for an answer.
        let tighter = 0.1f64.powi(self.unmet);
        let of_rest = |stop: &Stop| match *stop {
            Stop::Steps(most) => Stop::Steps(most.saturating_sub(self.steps)),
            Stop::After(most) => Stop::After(most.saturating_sub(elapsed)),
            // The guess is that of the caller, not the result of the previous attempt.
            Stop::RelativeToFirst(ratio) => Stop::Absolute(tighter * ratio * self.first),
            Stop::RelativeToRhs(ratio) => Stop::RelativeToRhs(tighter * ratio),
            Stop::Absolute(residual) => Stop::Absolute(tighter * residual),
        };
        let own = (!is_last).then_some(Stop::Steps(STEPS_OF_ONE));
        stop.iter().map(of_rest).chain(own).collect()
    }

    /// Returns the solution of the last attempt, with the steps and runs of all. Without an attempt
    /// it returns an error that depends on whether the matrix takes constants to zero.
    pub(super) fn solution(&self, is_constant: impl FnOnce() -> bool) -> Result<Solution, Error> {
        // With more memory there may have been an answer.
        if let (None, Some(refused)) = (&self.solution, &self.refused) {
            return Err(refused.clone().into());
        }
        match self.solution {
            Some(solution) => {
                Ok(Solution { steps: self.steps, runs: self.runs, memory: self.memory, ..solution })
            }
            None => {
                // A text that several attempts share, up to the numbers of handles in it, appears
                // once.
                let mut said: Vec<(Vec<&str>, &str)> = Vec::new();
                for attempt in &self.list {
                    let text = attempt.result.as_ref().err().map_or("", |error| error);
                    match said.iter_mut().find(|(_, other)| without_digits(other).eq(without_digits(text))) {
                        Some((methods, _)) if methods.contains(&&*attempt.method) => {}
                        Some((methods, _)) => methods.push(&attempt.method),
                        None => said.push((vec![&attempt.method], text)),
                    }
                }
                let mut problems: Vec<String> =
                    said.iter().map(|(methods, text)| format!("{}: {text}", methods.join(", "))).collect();
                if is_constant() {
                    problems.push("every row adds up to zero: use --nullspace constant".into());
                }
                Err(Error::unsolvable("system", problems.join("; ")))
            }
        }
    }
}

/// Returns the characters of a text that are no digits.
fn without_digits(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|c| !c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_attempts_have_what_is_left_and_the_goal_of_the_first() {
        let tried = Attempts { first: 8.0, steps: 30, ..Attempts::default() };
        let (goal, steps) = (Stop::RelativeToFirst(0.25), Stop::Steps(100));
        let stop =
            tried.stops(&[goal, steps, Stop::After(Duration::from_secs(3))], Duration::from_secs(1), true);
        assert_eq!(stop, [Stop::Absolute(2.0), Stop::Steps(70), Stop::After(Duration::from_secs(2))]);
        assert_eq!(
            tried.stops(&[goal], Duration::ZERO, false),
            [Stop::Absolute(2.0), Stop::Steps(STEPS_OF_ONE)]
        );
    }

    #[test]
    fn attempts_that_fail_for_one_reason_say_it_once() {
        let failed = |method: &str, text: &str| Attempt {
            method: method.into(),
            preconditioner: PreconditionerChoice::None,
            result: Err(text.into()),
        };
        let list = vec![
            failed("cg", "handle #17 has no value"),
            failed("minres", "handle #33 has no value"),
            failed("gmres(10)", "row 3 has no pivot"),
        ];
        let text = Attempts { list, ..Attempts::default() }.solution(|| false).unwrap_err().to_string();
        assert!(
            text.ends_with("cg, minres: handle #17 has no value; gmres(10): row 3 has no pivot"),
            "{text}"
        );
    }
}
