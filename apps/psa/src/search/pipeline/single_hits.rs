//! Events with one hit, prepared for a search outside of the pipeline.

use std::collections::BTreeMap;

use super::crystal_basis::CrystalBasis;
use super::event::Event;
use super::hit_search::HitSearch;
use super::prepare::PreparedEvent;
use super::rules::Rules;
use super::statistics::ChargeStatistics;
use crate::Error;
use crate::basis::{Basis, SegmentBasis};
use crate::channels::Segment;
use crate::search::batch::Hit;

/// Points of segments, and hits with the samples that are compared.
pub(crate) type SegmentsAndHits = (BTreeMap<Segment, SegmentBasis>, Vec<(Hit, Vec<f64>)>);

/// Returns the segments of a crystal and the hits of the events that have exactly one, with the
/// samples that the first search of [`EventPipeline`](super::EventPipeline) compares. The tickets
/// are the numbers of the events.
///
/// # Errors
/// As [`EventPipeline::new`](super::EventPipeline::new) and
/// [`EventPipeline::push`](super::EventPipeline::push).
pub(crate) fn single_hits(
    basis: &Basis,
    rules: Rules,
    events: impl IntoIterator<Item = Event>,
) -> Result<SegmentsAndHits, Error> {
    let mut segments = BTreeMap::new();
    let crystal = CrystalBasis::new(basis, rules, |segment, basis| {
        segments.insert(segment, basis.clone());
        Ok(())
    })?;
    let (mut hits, mut statistics) = (Vec::new(), ChargeStatistics::default());
    for (ticket, event) in events.into_iter().enumerate() {
        let PreparedEvent { signals, channels, hits: charges, .. } =
            PreparedEvent::new(event, &crystal, &mut statistics)?;
        let &[(segment, energy)] = &charges[..] else { continue };
        let mut search = HitSearch::new(&crystal, signals, channels, charges, 0);
        let hit = Hit { ticket, segment, energy, coarse_only: false };
        hits.extend(search.start(&crystal).into_iter().map(|request| (hit, request.samples)));
    }
    Ok((segments, hits))
}
