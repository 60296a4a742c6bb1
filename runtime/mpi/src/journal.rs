//! The steps that a rank has submitted. Ranks that submit different steps compare them to find the
//! first difference.

use std::borrow::Cow;
use std::collections::VecDeque;

/// Number of the last steps that are kept.
const KEPT: usize = 1 << 14;

/// Coordinates of a step without any.
pub(crate) const NO_COORDS: [u32; 3] = [u32::MAX; 3];

/// The steps of a rank: registrations, tasks and collective calls.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    /// Number of the first step that is kept.
    first: u64,
    steps: VecDeque<JournalStep>,
}

/// One step.
#[derive(Debug)]
pub(crate) struct JournalStep {
    /// Hash of this step and all before it.
    pub(crate) hash: u64,
    what: Cow<'static, str>,
    coords: [u32; 3],
    on: Option<u64>,
}

impl JournalStep {
    /// Creates a step of another rank.
    pub(crate) fn reported(hash: u64, what: String) -> Self {
        JournalStep { hash, what: what.into(), coords: [u32::MAX; 3], on: None }
    }

    /// Describes the step in words.
    pub(crate) fn describe(&self) -> String {
        let coords: Vec<String> =
            self.coords.iter().filter(|&&c| c != u32::MAX).map(u32::to_string).collect();
        let coords = if coords.is_empty() { String::new() } else { format!("[{}]", coords.join(", ")) };
        let on = self.on.map_or(String::new(), |tag| format!(" (datum {tag})"));
        format!("{}{coords}{on}", self.what)
    }
}

/// Mixes a number into a hash.
pub(crate) fn mix(hash: u64, number: u64) -> u64 {
    (hash.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Mixes a text into a hash.
pub(crate) fn mix_text(hash: u64, text: &str) -> u64 {
    let (words, rest) = text.as_bytes().as_chunks();
    let hash = words.iter().fold(hash, |hash, &word| mix(hash, u64::from_le_bytes(word)));
    rest.iter().fold(mix(hash, text.len() as u64), |hash, &byte| mix(hash, byte.into()))
}

impl Journal {
    /// Creates the journal of another rank, from step `first` on.
    pub(crate) fn of(first: u64, steps: Vec<JournalStep>) -> Self {
        Journal { first, steps: steps.into() }
    }

    /// Adds a step. `hash`: of its properties beyond its name.
    pub(crate) fn record(&mut self, what: &'static str, coords: [u32; 3], on: Option<u64>, hash: u64) {
        let before = self.steps.back().map_or(0, |step| step.hash);
        let coordinates = coords.iter().fold(mix_text(before, what), |hash, &c| mix(hash, c.into()));
        let hash = mix(coordinates, hash);
        if self.steps.len() == KEPT {
            self.steps.pop_front();
            self.first += 1;
        }
        self.steps.push_back(JournalStep { hash, what: what.into(), coords, on });
    }

    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    pub(crate) fn kept(&self) -> impl Iterator<Item = &JournalStep> {
        self.steps.iter()
    }

    /// Returns the number of steps, and their hash.
    pub(crate) fn state(&self) -> (u64, u64) {
        (self.first + self.steps.len() as u64, self.steps.back().map_or(0, |step| step.hash))
    }

    fn step(&self, number: u64) -> Option<&JournalStep> {
        self.steps.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// True if the first `steps` steps of another rank, with this hash, differ from this rank's.
    /// False as well if that is unknown: this rank has not come so far, or has dropped them.
    pub(crate) fn contradicts(&self, steps: u64, hash: u64) -> bool {
        let own = steps.checked_sub(1).and_then(|last| self.step(last));
        own.is_some_and(|own| own.hash != hash)
    }

    /// Returns the first step that both have made and that differs, in the words of both.
    pub(crate) fn first_difference(&self, other: &Journal) -> Option<(u64, String, String)> {
        let from = self.first.max(other.first);
        let pairs = (from..).map_while(|number| Some((number, self.step(number)?, other.step(number)?)));
        let mut different = pairs.filter(|(_, own, others)| own.hash != others.hash);
        different.next().map(|(number, own, others)| (number, own.describe(), others.describe()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_found() {
        let journal = |odd: u64| {
            let mut journal = Journal::default();
            for step in 0..KEPT as u64 + 100 {
                journal.record("task", [step as u32, u32::MAX, u32::MAX], Some(1), u64::from(step == odd));
            }
            journal
        };
        let (same, other) = (journal(u64::MAX), journal(5000));
        assert!(!same.contradicts(5000, other.step(4999).unwrap().hash));
        assert!(same.contradicts(5001, other.step(5000).unwrap().hash));
        // Steps that have not come yet, and dropped ones.
        assert!(!same.contradicts(KEPT as u64 + 101, 0) && !same.contradicts(100, 0));
        assert_eq!(same.first_difference(&journal(u64::MAX)), None);
        let (step, here, there) = same.first_difference(&other).unwrap();
        assert_eq!(
            (step, here.as_str(), there.as_str()),
            (5000, "task[5000] (datum 1)", "task[5000] (datum 1)")
        );
    }
}
