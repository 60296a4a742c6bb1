//! One track per worker: which bodies it ran, and which of them ran inside another one.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{TaskEvent, Trace};

/// A body on a track.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    /// Where its record stands in [`Trace::tasks`].
    pub task: usize,
    /// How many bodies of the same worker it ran inside of.
    pub depth: usize,
    /// When it started [ns].
    pub start: u64,
    /// When it ended [ns]: never after the body around it.
    pub end: u64,
}

/// What one worker ran.
#[derive(Clone, Debug)]
pub(super) struct Track {
    /// The worker's number.
    pub worker: u32,
    /// Its name.
    pub name: String,
    /// Its bodies by start time, an outer one before those inside it.
    pub slices: Vec<Slice>,
}

impl Track {
    /// How long the worker was inside at least one body [ns].
    ///
    /// A body that waits for others may run them inside itself: time is counted once.
    pub fn busy(&self) -> u64 {
        let outer = self.slices.iter().filter(|slice| slice.depth == 0);
        outer.fold(0, |sum, slice| sum.saturating_add(slice.end - slice.start))
    }

    /// How deep bodies are nested: 1 when none is inside another.
    pub fn levels(&self) -> usize {
        self.slices.iter().map(|slice| slice.depth + 1).max().unwrap_or(1)
    }
}

impl Trace {
    /// The tracks: every named worker, then every other one that a record names.
    ///
    /// One worker does one thing at a time, so its bodies nest or follow one another. A record that says otherwise is cut
    /// where the body around it ends: readers of traces refuse slices that overlap.
    pub(super) fn tracks(&self) -> Vec<Track> {
        let mut tracks: BTreeMap<u32, Track> = (0u32..)
            .zip(&self.workers)
            .map(|(worker, name)| (worker, Track { worker, name: name.clone(), slices: vec![] }))
            .collect();
        for (task, event) in self.tasks.iter().enumerate() {
            let track = tracks.entry(event.worker).or_insert_with(|| Track {
                worker: event.worker,
                name: format!("worker {}", event.worker),
                slices: vec![],
            });
            let end = event.end_ns.max(event.start_ns);
            track.slices.push(Slice { task, depth: 0, start: event.start_ns, end });
        }
        let mut tracks: Vec<Track> = tracks.into_values().collect();
        tracks.iter_mut().for_each(nest);
        tracks
    }
}

fn nest(track: &mut Track) {
    track.slices.sort_by_key(|slice| (slice.start, Reverse(slice.end), slice.task));
    let mut around: Vec<u64> = Vec::new();
    for slice in &mut track.slices {
        while around.last().is_some_and(|&end| end <= slice.start) {
            around.pop();
        }
        slice.depth = around.len();
        slice.end = around.last().map_or(slice.end, |&end| slice.end.min(end));
        around.push(slice.end);
    }
}

/// How long a body ran [ns]; 0 for a record that ends before it starts.
pub(super) fn nanos(event: &TaskEvent) -> u64 {
    event.end_ns.saturating_sub(event.start_ns)
}

/// The first start and the last end [ns].
pub(super) fn span(trace: &Trace) -> (u64, u64) {
    let start = trace.tasks.iter().map(|task| task.start_ns).min().unwrap_or(0);
    let end = trace.tasks.iter().map(|task| task.end_ns.max(task.start_ns)).max().unwrap_or(0);
    (start, end)
}

/// Colours for codelets that people with any colour vision tell apart (Okabe and Ito's, then Tol's muted ones), as RGB.
pub(super) const PALETTE: [[u8; 3]; 16] = [
    [0, 114, 178],
    [230, 159, 0],
    [0, 158, 115],
    [204, 121, 167],
    [86, 180, 233],
    [213, 94, 0],
    [240, 228, 66],
    [136, 34, 85],
    [153, 153, 153],
    [204, 102, 119],
    [221, 204, 119],
    [68, 170, 153],
    [170, 68, 153],
    [17, 119, 51],
    [153, 153, 51],
    [51, 34, 136],
];
