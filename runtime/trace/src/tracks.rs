//! Tracks, one per worker: its bodies, the nesting of bodies, and its state in between.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{IdleEvent, IdleState, TaskEvent, Trace, TraceWorker};

/// A body on a track.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    /// Position of its record in [`Trace::tasks`].
    pub task: usize,
    /// Number of bodies of the same worker around it.
    pub depth: usize,
    /// Start of the body (ns).
    pub start: u64,
    /// End of the body (ns): never after that of the body around it.
    pub end: u64,
}

/// A period on a track without a body, never of length zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rest {
    /// State of the worker.
    pub state: IdleState,
    /// Start of the period (ns).
    pub start: u64,
    /// End of the period (ns).
    pub end: u64,
}

/// The bodies of one worker.
#[derive(Clone, Debug)]
pub(super) struct Track {
    /// The worker's number.
    pub worker: u32,
    /// Its name.
    pub name: String,
    /// Its kind of device.
    pub kind: String,
    /// Its memory node.
    pub node: u32,
    /// Its bodies by start time, an outer one before those inside it.
    pub slices: Vec<Slice>,
}

impl Track {
    /// Returns the time that the worker was inside at least one body (ns).
    ///
    /// A body that waits for others may run them inside itself: time is counted once.
    pub fn busy(&self) -> u64 {
        let outer = self.slices.iter().filter(|slice| slice.depth == 0);
        outer.fold(0, |sum, slice| sum.saturating_add(slice.end - slice.start))
    }

    /// Returns, per slice, the time that the worker was in its body and in none inside it (ns); the
    /// sum is [`busy`](Track::busy).
    pub fn own_times(&self) -> Vec<u64> {
        let mut own: Vec<u64> = self.slices.iter().map(|slice| slice.end - slice.start).collect();
        let mut around: Vec<usize> = Vec::new();
        for (place, slice) in self.slices.iter().enumerate() {
            around.truncate(slice.depth);
            if let Some(&outer) = around.last() {
                own[outer] -= slice.end - slice.start;
            }
            around.push(place);
        }
        own
    }

    /// Returns the parts of `idle`, records of this worker by start time, within the window (ns)
    /// and outside of bodies. The idle periods follow one another.
    pub fn rests(&self, idle: &[&IdleEvent], window: (u64, u64)) -> Vec<Rest> {
        let mut rests: Vec<Rest> = Vec::new();
        let mut bodies = self.slices.iter().filter(|slice| slice.depth == 0).peekable();
        let mut free = window.0;
        for event in idle {
            let end = event.end_ns.min(window.1);
            free = free.max(event.start_ns);
            while free < end {
                while bodies.next_if(|body| body.end <= free).is_some() {}
                let (pause, next) = match bodies.peek() {
                    Some(body) if body.start < end => (body.start, body.end),
                    _ => (end, end),
                };
                if free < pause {
                    rests.push(Rest { state: event.state, start: free, end: pause });
                }
                free = next;
            }
        }
        rests
    }

    /// Returns the nesting depth of bodies: 1 if none is inside another.
    pub fn levels(&self) -> usize {
        self.slices.iter().map(|slice| slice.depth + 1).max().unwrap_or(1)
    }
}

impl Trace {
    /// Returns the tracks: every named worker, then every other one that a record names.
    ///
    /// One worker does one thing at a time, so its bodies nest or follow one another. A record that
    /// violates this is cut at the end of the body around it: readers of traces refuse slices that
    /// overlap.
    pub(super) fn tracks(&self) -> Vec<Track> {
        let track = |worker: u32, of: TraceWorker| Track {
            worker,
            name: of.name,
            kind: of.kind,
            node: of.node,
            slices: vec![],
        };
        let unknown = |worker: u32| {
            track(worker, TraceWorker { name: format!("worker {worker}"), ..TraceWorker::default() })
        };
        let mut tracks: BTreeMap<u32, Track> =
            (0u32..).zip(&self.workers).map(|(worker, of)| (worker, track(worker, of.clone()))).collect();
        for event in &self.idle {
            tracks.entry(event.worker).or_insert_with(|| unknown(event.worker));
        }
        for (task, event) in self.tasks.iter().enumerate() {
            let track = tracks.entry(event.worker).or_insert_with(|| unknown(event.worker));
            let end = event.end_ns.max(event.start_ns);
            track.slices.push(Slice { task, depth: 0, start: event.start_ns, end });
        }
        let mut tracks: Vec<Track> = tracks.into_values().collect();
        tracks.iter_mut().for_each(nest);
        tracks
    }

    /// Returns the idle periods of each track, within the window (ns).
    pub(super) fn rests(&self, tracks: &[Track], window: (u64, u64)) -> Vec<Vec<Rest>> {
        let mut idle: Vec<&IdleEvent> = self.idle.iter().collect();
        idle.sort_by_key(|event| (event.worker, event.start_ns, event.end_ns, event.state));
        let of = |worker: u32| {
            let start = idle.partition_point(|event| event.worker < worker);
            let end = idle.partition_point(|event| event.worker <= worker);
            &idle[start..end]
        };
        tracks.iter().map(|track| track.rests(of(track.worker), window)).collect()
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

/// Returns the duration of a body (ns); 0 for a record that ends before it starts.
pub(super) fn nanos(event: &TaskEvent) -> u64 {
    event.end_ns.saturating_sub(event.start_ns)
}

/// Returns the first body's start and the last one's end (ns), which span the makespan.
pub(super) fn span(trace: &Trace) -> (u64, u64) {
    let start = trace.tasks.iter().map(|task| task.start_ns).min().unwrap_or(0);
    let end = trace.tasks.iter().map(|task| task.end_ns.max(task.start_ns)).max().unwrap_or(0);
    (start, end)
}

/// Returns the first and the last moment of all records except idle ones (ns).
pub(super) fn extent(trace: &Trace) -> (u64, u64) {
    let tasks = trace.tasks.iter().map(|task| (task.start_ns, task.end_ns));
    let transfers = trace.transfers.iter().map(|transfer| (transfer.start_ns, transfer.end_ns));
    let memory = trace.memory.iter().map(|event| (event.at_ns, event.at_ns));
    let evictions = trace.evictions.iter().map(|event| (event.at_ns, event.at_ns));
    let all = tasks.chain(transfers).chain(memory).chain(evictions);
    let extent =
        all.fold((u64::MAX, 0), |(first, last), (start, end)| (first.min(start), last.max(start).max(end)));
    if extent.0 > extent.1 { (0, 0) } else { extent }
}

/// Colours for codelets, distinguishable with any colour vision (Okabe and Ito's, then Tol's muted
/// ones), as RGB.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::samples::{diamond, event, traces};

    fn idle(start: u64, end: u64, state: IdleState) -> IdleEvent {
        IdleEvent { worker: 1, start_ns: 1000 * start, end_ns: 1000 * end, state }
    }

    #[test]
    fn idle_stretches_are_cut_at_bodies_at_one_another_and_at_the_window() {
        let mut trace = diamond();
        trace.idle = vec![
            idle(0, 10, IdleState::Sleeping),
            idle(8, 14, IdleState::Searching),
            idle(40, 70, IdleState::WaitingForData),
        ];
        trace.tasks.push(event(1, 5, "short", 50, 50));
        let tracks = trace.tracks();
        let found = &trace.rests(&tracks, span(&trace))[1];
        let rest = |state, start: u64, end: u64| Rest { state, start: 1000 * start, end: 1000 * end };
        let expected = [
            rest(IdleState::Sleeping, 5, 10),
            rest(IdleState::Searching, 10, 14),
            rest(IdleState::WaitingForData, 45, 50),
            rest(IdleState::WaitingForData, 50, 55),
        ];
        assert_eq!(found[..], expected);
    }

    proptest! {
        #[test]
        fn a_worker_is_in_one_body_or_at_one_rest(trace in traces()) {
            let window = extent(&trace);
            let tracks = trace.tracks();
            for (track, rests) in tracks.iter().zip(trace.rests(&tracks, window)) {
                prop_assert_eq!(track.own_times().iter().sum::<u64>(), track.busy());
                let bodies = track.slices.iter().filter(|slice| slice.depth == 0).map(|s| (s.start, s.end));
                let mut times: Vec<(u64, u64)> = rests.iter().map(|rest| (rest.start, rest.end)).collect();
                prop_assert!(times.iter().all(|time| time.0 < time.1));
                times.extend(bodies);
                times.sort_unstable();
                prop_assert!(times.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{times:?}");
                prop_assert!(times.iter().all(|time| window.0 <= time.0 && time.1 <= window.1));
            }
        }

        #[test]
        fn no_time_that_a_worker_rested_is_left_out(trace in traces()) {
            // Checked at every moment: idle time is covered by a record and by no body.
            let window = extent(&trace);
            let tracks = trace.tracks();
            for (track, rests) in tracks.iter().zip(trace.rests(&tracks, window)) {
                let covered = |at: u64| {
                    let mut idle = trace.idle.iter().filter(|event| event.worker == track.worker);
                    idle.any(|event| event.start_ns <= at && at < event.end_ns)
                        && !track.slices.iter().any(|slice| slice.start <= at && at < slice.end)
                };
                let expected = (window.0..window.1).filter(|&at| covered(at)).count() as u64;
                prop_assert_eq!(rests.iter().map(|rest| rest.end - rest.start).sum::<u64>(), expected);
            }
        }
    }
}
