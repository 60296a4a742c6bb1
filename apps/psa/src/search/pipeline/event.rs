//! Events as received, and their answers.

use crate::channels::Segment;
use crate::search::matching::Match;

/// An event as received.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Time of the event (ns).
    pub timestamp: u64,
    /// Segment and energy (keV) of the hit, if they are known. `None` if the signals are those of
    /// all 37 channels.
    pub hit: Option<(Segment, f64)>,
    /// Signals (keV) by channel and sample, positive where charge is collected. They are those of
    /// the compared channels if the hit is known, otherwise of all channels.
    pub signals: Vec<f32>,
    /// Indices of samples that are known to be clipped. Others are found by the flat tops of their
    /// traces ([`find`](super::saturation::find)).
    pub saturated: Vec<u32>,
}

/// Answer for an event: its hits with their positions.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Number of events before it.
    pub number: u64,
    /// Time of the event (ns).
    pub timestamp: u64,
    /// Hits in descending order of the collected charge; none for an event that was passed over.
    pub hits: Vec<LocatedHit>,
    /// Shift of the event in samples; positive is later.
    pub shift: f64,
    /// Number of its clipped samples.
    pub saturated: usize,
}

/// One hit of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LocatedHit {
    /// Segment of the hit.
    pub segment: Segment,
    /// Collected energy (keV), corrected for trapped charge ([`trapping`](super::Rules::trapping)).
    pub energy: f64,
    /// Answer of the search; its indices are those of points of the basis.
    pub best: Match,
    /// Position of the best point (mm).
    pub position: [f32; 3],
}
