//! Happens-before order (vector clocks: Fidge 1988, Mattern 1989).

/// An item of a stream; those of one stream are numbered from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Point {
    pub(super) stream: u64,
    pub(super) item: u64,
}

/// For each stream, by token, the last item before which everything has happened. There are few
/// streams and a copy for each operation, so a sorted list is faster than a tree.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock(Vec<Point>);

impl Clock {
    fn place(&self, stream: u64) -> Result<usize, usize> {
        self.0.binary_search_by_key(&stream, |point| point.stream)
    }

    pub(super) fn knows(&self, at: Point) -> bool {
        self.place(at.stream).is_ok_and(|place| self.0[place].item >= at.item)
    }

    pub(super) fn learn(&mut self, at: Point) {
        match self.place(at.stream) {
            Ok(place) => self.0[place].item = at.item.max(self.0[place].item),
            Err(place) => self.0.insert(place, at),
        }
    }

    pub(super) fn join(&mut self, other: &Clock) {
        for &point in &other.0 {
            self.learn(point);
        }
    }

    /// Removes the points that `known` contains.
    pub(super) fn forget(&mut self, known: &Clock) {
        self.0.retain(|point| !known.knows(*point));
    }
}
