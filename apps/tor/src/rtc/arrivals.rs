//! Slopes of a frame that have arrived.

use std::ops::Range;

/// Marks of the slopes of a frame, and the number that each group of columns waits for.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// Number of the frame, counted from 1 on.
    frame: u32,
    /// Frame in which each slope came last.
    came: Vec<u32>,
    /// Number of slopes that each group waits for.
    waiting: Vec<u32>,
    /// Number of slopes that have not come.
    missing: usize,
}

impl Arrivals {
    /// Makes marks for this number of slopes. Groups may change from frame to frame.
    pub(super) fn new(slopes: usize) -> Self {
        Arrivals { frame: 0, came: vec![0; slopes], waiting: Vec::with_capacity(slopes), missing: slopes }
    }

    /// Begins a frame whose groups of slopes have these edges.
    pub(super) fn begin(&mut self, edges: &[usize]) {
        self.frame = self.frame.wrapping_add(1);
        self.waiting.clear();
        self.waiting.extend(edges.windows(2).map(|pair| (pair[1] - pair[0]) as u32));
        self.missing = self.came.len();
    }

    pub(super) fn frame(&self) -> u32 {
        self.frame
    }

    pub(super) fn missing(&self) -> usize {
        self.missing
    }

    /// Marks the slopes `range`. Calls `new` for each that had not come, and `complete` for each
    /// run of groups that are complete with them.
    pub(super) fn mark(
        &mut self,
        edges: &[usize],
        range: Range<usize>,
        mut new: impl FnMut(usize),
        mut complete: impl FnMut(Range<usize>),
    ) {
        let first = edges.partition_point(|&edge| edge <= range.start) - 1;
        let (mut group, mut run) = (first, first..first);
        for j in range {
            if edges[group + 1] == j {
                group += 1;
            }
            if self.came[j] == self.frame {
                continue;
            }
            self.came[j] = self.frame;
            self.missing -= 1;
            self.waiting[group] -= 1;
            new(j);
            if self.waiting[group] == 0 {
                if run.end != group {
                    flush(&run, &mut complete);
                    run = group..group;
                }
                run.end = group + 1;
            }
        }
        flush(&run, &mut complete);
    }

    /// Calls `complete` for each run of groups that wait for slopes, which they get no more.
    pub(super) fn give_up(&mut self, mut complete: impl FnMut(Range<usize>)) {
        let mut run = 0..0;
        for group in 0..self.waiting.len() {
            if std::mem::take(&mut self.waiting[group]) > 0 {
                if run.end != group {
                    flush(&run, &mut complete);
                    run = group..group;
                }
                run.end = group + 1;
            }
        }
        flush(&run, &mut complete);
    }
}

fn flush(run: &Range<usize>, complete: &mut impl FnMut(Range<usize>)) {
    if !run.is_empty() {
        complete(run.clone());
    }
}
