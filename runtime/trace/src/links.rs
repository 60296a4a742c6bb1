//! Links: one per pair of memory nodes with transfers. The transfers of a link are distributed to
//! lanes, and on one lane they follow one another.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::Trace;

/// A transfer on its link.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkSlice {
    /// Position of its record in [`Trace::transfers`].
    pub transfer: usize,
    /// Its lane.
    pub lane: usize,
    /// Start of the transfer (ns).
    pub start: u64,
    /// End of the transfer (ns): never before its start.
    pub end: u64,
}

/// The transfers from one memory node to another.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// The source memory node.
    pub from: u32,
    /// The destination memory node.
    pub to: u32,
    /// Its transfers by start time.
    pub slices: Vec<LinkSlice>,
    /// Maximum number of simultaneous transfers.
    pub lanes: usize,
}

impl Link {
    /// True if it holds conversions within one memory node.
    pub fn is_within(&self) -> bool {
        self.from == self.to
    }

    /// Returns the time with at least one transfer in progress (ns).
    pub fn busy(&self) -> u64 {
        let mut until = 0;
        let mut busy: u64 = 0;
        for slice in &self.slices {
            busy = busy.saturating_add(slice.end.saturating_sub(slice.start.max(until)));
            until = slice.end.max(until);
        }
        busy
    }

    /// Gives each transfer the lowest lane that is free when it starts: readers of traces refuse
    /// slices that overlap.
    fn spread(&mut self) {
        self.slices.sort_by_key(|slice| (slice.start, slice.end, slice.transfer));
        let mut busy: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        let mut free: BTreeSet<usize> = BTreeSet::new();
        for slice in &mut self.slices {
            while let Some(&Reverse((end, lane))) = busy.peek()
                && end <= slice.start
            {
                busy.pop();
                free.insert(lane);
            }
            slice.lane = free.pop_first().unwrap_or_else(|| {
                self.lanes += 1;
                self.lanes - 1
            });
            busy.push(Reverse((slice.end, slice.lane)));
        }
    }
}

impl Trace {
    /// Returns the links with transfers, by the numbers of their nodes.
    pub(super) fn links(&self) -> Vec<Link> {
        let mut links: BTreeMap<(u32, u32), Link> = BTreeMap::new();
        for (transfer, event) in self.transfers.iter().enumerate() {
            let (from, to) = (event.from, event.to);
            let link = links.entry((from, to)).or_insert_with(|| Link { from, to, slices: vec![], lanes: 0 });
            let end = event.end_ns.max(event.start_ns);
            link.slices.push(LinkSlice { transfer, lane: 0, start: event.start_ns, end });
        }
        let mut links: Vec<Link> = links.into_values().collect();
        links.iter_mut().for_each(Link::spread);
        links
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::samples::{diamond, traces, transfer};

    #[test]
    fn overlapping_transfers_have_lanes_of_their_own() {
        let mut trace = diamond();
        let times = [(5, 10), (7, 20), (10, 12), (11, 11), (12, 30)];
        trace.transfers = times.map(|(start, end)| transfer(0, 1, start, end)).into();
        trace.transfers.push(transfer(1, 0, 5, 6));
        let links = trace.links();
        assert_eq!(
            links.iter().map(|link| (link.from, link.to, link.lanes)).collect::<Vec<_>>(),
            [(0, 1, 3), (1, 0, 1)]
        );
        assert_eq!(links[0].slices.iter().map(|slice| slice.lane).collect::<Vec<_>>(), [0, 1, 0, 2, 0]);
        assert_eq!((links[0].busy(), links[1].busy()), (25_000, 1_000));
    }

    proptest! {
        #[test]
        fn a_link_has_as_many_lanes_as_transfers_at_once(trace in traces()) {
            let links = trace.links();
            prop_assert_eq!(links.iter().map(|link| link.slices.len()).sum::<usize>(), trace.transfers.len());
            for link in links {
                for lane in 0..link.lanes {
                    let on: Vec<_> = link.slices.iter().filter(|slice| slice.lane == lane).collect();
                    prop_assert!(!on.is_empty());
                    prop_assert!(on.windows(2).all(|pair| pair[0].end <= pair[1].start));
                }
                // An instant transfer occupies its start, a longer one the time until its end.
                let at_once = |at: u64| {
                    link.slices.iter().filter(|s| s.start <= at && (at < s.end || s.start == at && s.end == at)).count()
                };
                let most = link.slices.iter().map(|slice| at_once(slice.start)).max().unwrap();
                prop_assert!(link.lanes <= most, "{} lanes, {most} at once", link.lanes);
            }
        }
    }
}
