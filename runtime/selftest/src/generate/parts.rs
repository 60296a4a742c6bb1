//! Vectors that are split, shown in views and joined.

use std::ops::Range;

use zellige_runtime::Format;

use super::{Generator, Role};
use crate::case::{Kind, Parts, Start, Step};

/// Residues modulo 8 of seeds without parts, views and hints: those of seeds that have once found
/// an error.
const WITHOUT_PARTS: [u64; 2] = [0, 3];

/// True if the case of this seed has them.
pub(super) fn are_there(seed: u64) -> bool {
    !WITHOUT_PARTS.contains(&(seed % 8))
}

impl Generator {
    /// Splits a plain vector, or makes views of parts of it. Its copies are made by tasks for CPUs.
    pub(super) fn add_parts(&mut self) {
        // A handle that was registered empty has no length for a check.
        let has_length = |&handle: &usize| match self.roles[handle] {
            Role::Own => !self.data[handle].empty,
            Role::Part => true,
            Role::View => false,
        };
        let is_one = |handle: &usize| self.oracle.kind(*handle) == Kind::Plain && has_length(handle);
        let able: Vec<usize> = self.live.iter().copied().filter(is_one).collect();
        if able.is_empty() || self.taste.cpus == 0 {
            return;
        }
        let handle = self.rng.pick(&able);
        let shown = self.rng.chance(40);
        let regions = self.regions(handle, shown);
        let parts = Parts { handle, first: self.data.len(), regions };
        self.tasks += parts.regions.len();
        for region in &parts.regions {
            let (kind, format, seed) = (Kind::Plain, Format::NATIVE, 0);
            let start = Start { kind, format, len: region.len(), seed, empty: true };
            self.add(start, if shown { Role::View } else { Role::Part });
        }
        if shown {
            return self.push(Step::Views(parts));
        }
        self.live.retain(|&other| other != handle);
        self.out.push(parts.clone());
        self.push(Step::Split(parts));
    }

    /// Draws regions of a vector, sometimes with a gap; those of views may overlap.
    fn regions(&mut self, handle: usize, may_overlap: bool) -> Vec<Range<usize>> {
        let registered = self.data[handle].len;
        let now = self.oracle.length(handle).unwrap_or(registered);
        let length = if self.rng.chance(90) { registered.min(now) } else { registered };
        let count = self.rng.within(1, 4);
        if may_overlap {
            let mut region = || {
                let start = self.rng.within(0, length);
                start..self.rng.within(start, length)
            };
            return (0..count).map(|_| region()).collect();
        }
        let mut cuts: Vec<usize> = (1..count).map(|_| self.rng.within(0, length)).collect();
        cuts.extend([0, length]);
        cuts.sort_unstable();
        let mut regions: Vec<Range<usize>> = cuts.windows(2).map(|cut| cut[0]..cut[1]).collect();
        if count > 1 && self.rng.chance(30) {
            // Elements of no region.
            let at = self.rng.below(count);
            regions.remove(at);
        }
        regions
    }

    /// Joins one of the split vectors without split parts.
    pub(super) fn join_one(&mut self) {
        let whole = |parts: &Parts| parts.handles().all(|part| self.live.contains(&part));
        let able: Vec<usize> = (0..self.out.len()).filter(|&at| whole(&self.out[at])).collect();
        let at = self.rng.pick(&able);
        self.join(at);
    }

    /// Reads the remaining views: they cannot be taken.
    pub(super) fn end_views(&mut self) {
        let views: Vec<usize> = self.live.iter().copied().filter(|&handle| self.is_view(handle)).collect();
        for handle in views {
            self.push(Step::Read { handle, across: false });
            self.push(Step::Drop { handle });
        }
    }

    pub(super) fn join(&mut self, at: usize) {
        let parts = self.out.remove(at);
        self.live.retain(|handle| !parts.handles().contains(handle));
        self.live.push(parts.handle);
        self.tasks += parts.regions.len();
        self.push(Step::Join(parts));
    }
}
