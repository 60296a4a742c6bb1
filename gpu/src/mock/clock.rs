//! What is ordered before what (vector clocks: Fidge 1988, Mattern 1989).

use std::collections::BTreeMap;

/// An item of a stream; those of one stream are numbered from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) stream: u64,
    pub(super) item: u64,
}

/// For each stream, up to which item everything has happened before.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock(BTreeMap<u64, u64>);

impl Clock {
    pub(super) fn knows(&self, at: Point) -> bool {
        self.0.get(&at.stream).is_some_and(|item| *item >= at.item)
    }

    pub(super) fn learn(&mut self, at: Point) {
        let item = self.0.entry(at.stream).or_default();
        *item = at.item.max(*item);
    }

    pub(super) fn join(&mut self, other: &Clock) {
        for (&stream, &item) in &other.0 {
            self.learn(Point { stream, item });
        }
    }

    /// Drops what everybody knows anyway.
    pub(super) fn forget(&mut self, known: &Clock) {
        self.0.retain(|&stream, item| !known.knows(Point { stream, item: *item }));
    }
}
