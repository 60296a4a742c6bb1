//! Events that wait for others of their segment and energy class: batches are what makes a search
//! fast.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::channels::Segment;

/// The energy of a hit, roughly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EnergyClass {
    /// Below 50 keV.
    Tiny,
    /// From 50 to 200 keV.
    Low,
    /// From 200 keV to 1 MeV.
    Middle,
    /// From 1 MeV on.
    High,
}

impl EnergyClass {
    /// All, by energy.
    pub const ALL: [EnergyClass; 4] =
        [EnergyClass::Tiny, EnergyClass::Low, EnergyClass::Middle, EnergyClass::High];

    /// That of an energy (keV).
    pub fn of(energy: f64) -> Self {
        match energy {
            energy if energy < 50.0 => EnergyClass::Tiny,
            energy if energy < 200.0 => EnergyClass::Low,
            energy if energy < 1000.0 => EnergyClass::Middle,
            _ => EnergyClass::High,
        }
    }

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            EnergyClass::Tiny => "< 50 keV",
            EnergyClass::Low => "50-200 keV",
            EnergyClass::Middle => "0.2-1 MeV",
            EnergyClass::High => ">= 1 MeV",
        }
    }
}

/// What events of one queue have in common.
pub type Key = (Segment, EnergyClass);

/// Things that wait, by segment and energy class, until there are enough of one kind or the first
/// has waited too long. It reads no clock: callers say what time it is.
#[derive(Clone, Debug)]
pub struct Queue<T> {
    size: usize,
    patience: Duration,
    waiting: BTreeMap<Key, (Instant, Vec<T>)>,
}

impl<T> Queue<T> {
    /// Batches have `size` members (one at least), or less where the first has waited for
    /// `patience`.
    pub fn new(size: usize, patience: Duration) -> Self {
        Queue { size: size.max(1), patience, waiting: BTreeMap::new() }
    }

    /// Adds one; a batch, where this completes it.
    pub fn push(&mut self, key: Key, item: T, now: Instant) -> Option<Vec<T>> {
        let (_, waiting) = self.waiting.entry(key).or_insert_with(|| (now, Vec::new()));
        waiting.push(item);
        let full = waiting.len() >= self.size;
        if full { self.waiting.remove(&key).map(|(_, batch)| batch) } else { None }
    }

    /// The batches whose first member has waited too long.
    pub fn due(&mut self, now: Instant) -> Vec<(Key, Vec<T>)> {
        let patience = self.patience;
        let late = |since: Instant| now.saturating_duration_since(since) >= patience;
        self.waiting
            .extract_if(.., |_, (since, _)| late(*since))
            .map(|(key, (_, batch))| (key, batch))
            .collect()
    }

    /// Everything that is left.
    pub fn drain(&mut self) -> Vec<(Key, Vec<T>)> {
        std::mem::take(&mut self.waiting).into_iter().map(|(key, (_, batch))| (key, batch)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_leave_when_they_are_full_or_late() {
        let [first, second] = [0, 1].map(|i| Segment::from_index(i).expect("a segment"));
        let (begin, second_long) = (Instant::now(), Duration::from_secs(1));
        let mut queue = Queue::new(2, second_long);
        let class = EnergyClass::of(100.0);
        assert_eq!(queue.push((first, class), 1, begin), None);
        assert_eq!(queue.push((second, class), 2, begin + second_long / 2), None);
        assert_eq!(queue.push((first, class), 3, begin), Some(vec![1, 3]));
        assert_eq!(queue.push((first, EnergyClass::of(2000.0)), 4, begin), None, "another class");
        assert!(queue.due(begin + second_long / 2).is_empty());
        assert_eq!(queue.due(begin + second_long), [((first, EnergyClass::High), vec![4])]);
        assert_eq!(queue.drain(), [((second, EnergyClass::Low), vec![2])]);
    }
}
