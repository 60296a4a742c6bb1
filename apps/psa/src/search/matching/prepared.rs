//! Searches on the calling thread.

use super::best_match::Match;
use super::engine::Engine;
use super::plan::{Metrics, Plan, Stage};
use crate::Error;
use crate::basis::SegmentBasis;
use crate::search::proof::Proof;
use crate::search::segment::{Block, PointGrid, SegmentEvents};

/// Searches for events of one segment on the calling thread, without a runtime.
///
/// # Errors
/// [`Error::Parameter`] for an invalid plan, [`Error::Shape`] if events have other channels or
/// samples than the basis.
pub fn search(
    plan: &Plan,
    basis: &SegmentBasis,
    events: &SegmentEvents,
    coarse_only: &[bool],
) -> Result<Vec<Match>, Error> {
    Prepared::new(plan, basis)?.search(events, coarse_only)
}

/// A segment that is prepared for searches on the calling thread.
#[derive(Clone, Debug)]
pub struct Prepared {
    plan: Plan,
    metrics: Metrics,
    grid: PointGrid,
    blocks: [Block; 2],
    proof: Option<Proof>,
}

impl Prepared {
    /// Prepares a segment for a plan.
    ///
    /// # Errors
    /// [`Error::Parameter`] for an invalid plan, [`Error::Shape`] for a segment without points or
    /// samples.
    pub fn new(plan: &Plan, basis: &SegmentBasis) -> Result<Prepared, Error> {
        plan.check()?;
        let block = Block::new(basis)?;
        let proof = plan.proves().then(|| Proof::new(plan.p, block.shape()));
        let in_format = |stage| block.to_format(plan.format(stage)).expect("a block in f32 has every format");
        let (stages, metrics) = ([Stage::First, Stage::Last], Metrics::default());
        let blocks = stages.map(in_format);
        for (stage, block) in stages.into_iter().zip(&blocks) {
            metrics.of(plan, stage, block.scale());
        }
        Ok(Prepared { plan: *plan, metrics, grid: PointGrid::new(basis.positions()), blocks, proof })
    }

    /// Returns the answer for each event. `coarse_only` marks the events for which only coarse
    /// points are compared, if the method has coarse points (empty: no event).
    ///
    /// # Errors
    /// [`Error::Shape`] if events have other channels or samples than the basis, or there is not
    /// one `coarse_only` for each.
    pub fn search(&self, events: &SegmentEvents, coarse_only: &[bool]) -> Result<Vec<Match>, Error> {
        let [first, last] = &self.blocks;
        if events.shape() != first.shape() {
            let problem = format!("{:?}, {:?} in the basis", events.shape(), first.shape());
            return Err(Error::shape("events", problem));
        }
        if !coarse_only.is_empty() && coarse_only.len() != events.len() {
            let problem = format!("{} for {} events", coarse_only.len(), events.len());
            return Err(Error::shape("coarse_only", problem));
        }
        let none = vec![false; if coarse_only.is_empty() { events.len() } else { 0 }];
        let coarse_only = if coarse_only.is_empty() { &none } else { coarse_only };
        let mut engine =
            Engine::new(&self.plan, &self.metrics, &self.grid, [first, last], self.proof.as_ref());
        Ok(engine.run(events.all(), coarse_only))
    }
}
