//! Queues that collect events of one segment and energy class into batches, which make a search
//! fast.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::channels::Segment;

/// Energy class of a hit.
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
    /// All classes in ascending order of energy.
    pub const ALL: [EnergyClass; 4] =
        [EnergyClass::Tiny, EnergyClass::Low, EnergyClass::Middle, EnergyClass::High];

    /// Returns the class of an energy (keV).
    pub fn of(energy: f64) -> Self {
        match energy {
            energy if energy < 50.0 => EnergyClass::Tiny,
            energy if energy < 200.0 => EnergyClass::Low,
            energy if energy < 1000.0 => EnergyClass::Middle,
            _ => EnergyClass::High,
        }
    }

    /// Returns the name of the class.
    pub fn name(self) -> &'static str {
        match self {
            EnergyClass::Tiny => "< 50 keV",
            EnergyClass::Low => "50-200 keV",
            EnergyClass::Middle => "0.2-1 MeV",
            EnergyClass::High => ">= 1 MeV",
        }
    }
}

/// Key of a queue: the segment and the energy class of its events.
pub type QueueKey = (Segment, EnergyClass);

/// Waiting items by segment and energy class. A batch leaves when it is full or the batching delay
/// of its first item has passed. The queue does not read a clock: callers pass the time.
#[derive(Clone, Debug)]
pub struct Queue<T> {
    size: usize,
    patience: Duration,
    waiting: BTreeMap<QueueKey, (Instant, Vec<T>)>,
}

impl<T> Queue<T> {
    /// Creates a queue. Batches have `size` members (at least one), or fewer if the first has
    /// waited for `patience`.
    pub fn new(size: usize, patience: Duration) -> Self {
        Queue { size: size.max(1), patience, waiting: BTreeMap::new() }
    }

    /// Adds an item; returns the batch if this completes it.
    pub fn push(&mut self, key: QueueKey, item: T, now: Instant) -> Option<Vec<T>> {
        let (_, waiting) = self.waiting.entry(key).or_insert_with(|| (now, Vec::new()));
        waiting.push(item);
        let full = waiting.len() >= self.size;
        if full { self.waiting.remove(&key).map(|(_, batch)| batch) } else { None }
    }

    /// Returns the batches whose first member has waited for the batching delay.
    pub fn due(&mut self, now: Instant) -> Vec<(QueueKey, Vec<T>)> {
        let patience = self.patience;
        let late = |since: Instant| now.saturating_duration_since(since) >= patience;
        self.waiting
            .extract_if(.., |_, (since, _)| late(*since))
            .map(|(key, (_, batch))| (key, batch))
            .collect()
    }

    /// Returns all waiting batches.
    pub fn drain(&mut self) -> Vec<(QueueKey, Vec<T>)> {
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
