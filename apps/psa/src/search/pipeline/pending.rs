//! Events in flight, and the tickets of their searches.

use std::fmt;

use super::hit_search::{HitRequest, HitSearch};
use crate::search::batch::Hit;

/// An event in flight.
pub(super) struct PendingEvent {
    pub timestamp: u64,
    /// Searches of the event, one for each shift; only the best one during the search for pairs.
    pub searches: Vec<HitSearch>,
    pub searches_pairs: bool,
    /// Number of clipped samples, and a bit for each channel that has some.
    pub saturated: usize,
    pub clipped: u64,
}

impl PendingEvent {
    pub fn is_answered(&self) -> bool {
        self.searches.iter().all(HitSearch::is_done)
    }

    /// Removes and returns the search with the smallest sum of figures of merit, the first of equal
    /// ones.
    pub fn best(&mut self) -> HitSearch {
        let better = |best: HitSearch, other: HitSearch| if other.sum() < best.sum() { other } else { best };
        std::mem::take(&mut self.searches).into_iter().reduce(better).expect("one search at least")
    }
}

/// Identifies a hit in flight: the number of the event, the index of its shift, and the index of
/// the hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket {
    pub event: u64,
    pub variant: usize,
    pub hit: usize,
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.event)
    }
}

/// Returns the searcher's hit of a request.
pub(super) fn hit(event: u64, variant: usize, request: &HitRequest) -> Hit<Ticket> {
    let ticket = Ticket { event, variant, hit: request.hit };
    let (segment, energy) = request.charge;
    Hit { ticket, segment, energy, coarse_only: request.coarse_only }
}
