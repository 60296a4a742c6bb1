//! The classes of tasks in a trace, and their times on each kind of worker.

use std::collections::HashMap;

use super::tracks::Track;
use super::{Bounds, Trace};

/// Times of the classes of a trace (codelet and label) on its kinds of workers.
pub(super) struct ClassTimes {
    /// Each kind with its number of workers.
    pub kinds: Vec<(String, usize)>,
    /// Per track: its kind.
    pub kind_of: Vec<usize>,
    classes: Vec<(&'static str, &'static str, u64)>,
    /// Per task: its class.
    class_of: Vec<usize>,
    /// Per kind and class the mean time (ns).
    times: Vec<Vec<Option<f64>>>,
}

impl ClassTimes {
    /// Computes the mean times of the tasks that ran; for other classes, it takes the times given
    /// in the trace. The time of a body that ran inside another one is not part of that one's time.
    pub fn new(trace: &Trace, tracks: &[Track]) -> ClassTimes {
        let mut kinds: Vec<(String, usize)> = Vec::new();
        let mut kind_of = Vec::with_capacity(tracks.len());
        for track in tracks {
            let kind = kinds.iter().position(|kind| kind.0 == track.kind).unwrap_or_else(|| {
                kinds.push((track.kind.clone(), 0));
                kinds.len() - 1
            });
            kinds[kind].1 += 1;
            kind_of.push(kind);
        }
        let mut classes: Vec<(&'static str, &'static str, u64)> = Vec::new();
        let mut known: HashMap<(&str, &str), usize> = HashMap::new();
        let mut class_of = Vec::with_capacity(trace.tasks.len());
        for task in &trace.tasks {
            let class = *known.entry((task.name, task.label)).or_insert_with(|| {
                classes.push((task.name, task.label, 0));
                classes.len() - 1
            });
            classes[class].2 += 1;
            class_of.push(class);
        }
        let mut sums = vec![vec![(0.0, 0u64); classes.len()]; kinds.len()];
        for (track, &kind) in tracks.iter().zip(&kind_of) {
            for (slice, own) in track.slices.iter().zip(track.own_times()) {
                let sum = &mut sums[kind][class_of[slice.task]];
                *sum = (sum.0 + own as f64, sum.1 + 1);
            }
        }
        let mean = |(time, runs): (f64, u64)| (runs > 0).then(|| time / runs as f64);
        let mut times: Vec<Vec<Option<f64>>> =
            sums.into_iter().map(|row| row.into_iter().map(mean).collect()).collect();
        for given in &trace.given {
            let class = known.get(&(given.name, given.label));
            let kind = kinds.iter().position(|kind| kind.0 == given.kind);
            if let (Some(&class), Some(kind)) = (class, kind) {
                times[kind][class].get_or_insert(given.time_ns as f64);
            }
        }
        ClassTimes { kinds, kind_of, classes, class_of, times }
    }

    /// Returns the least time of a task of the trace (ns): its measured time, or its class' time on
    /// another kind if that is shorter.
    pub fn at_least(&self, task: usize, took: u64, ran_on: usize) -> u64 {
        let class = self.class_of[task];
        let others = self.times.iter().enumerate().filter(|&(kind, _)| kind != ran_on);
        others.filter_map(|(_, row)| row[class]).fold(took, |least, time| least.min(time as u64))
    }

    pub fn bounds(&self) -> Bounds {
        let name = |&(name, label, tasks): &(&str, &str, u64)| {
            (format!("{name} {label}").trim_end().to_string(), tasks)
        };
        Bounds {
            kinds: self.kinds.clone(),
            classes: self.classes.iter().map(name).collect(),
            times: self.times.clone(),
        }
    }
}

impl Trace {
    /// Returns the run's kinds of workers, its classes of tasks (`codelet label`), and the mean
    /// time of each class on each kind. They serve for bounds that need more information than a
    /// trace has, such as [`Bounds::mixed`].
    ///
    /// A class that never ran on a kind cannot run there, unless [`given`](Trace::given) has its
    /// time. The bounds are strict if the tasks of a class are alike; a class of unlike tasks
    /// counts as the same number of average ones.
    pub fn bounds(&self) -> Bounds {
        ClassTimes::new(self, &self.tracks()).bounds()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::GivenTime;
    use crate::samples::diamond;

    #[test]
    fn a_trace_runs_a_class_where_it_ran_or_where_a_time_is_given() {
        let mut trace = diamond();
        trace.workers[1].kind = "gpu".into();
        let bounds = trace.bounds();
        assert_eq!(bounds.kinds(), [("cpu".to_string(), 1), ("gpu".to_string(), 1)]);
        assert_eq!(bounds.classes(), [("potrf f32".to_string(), 2), ("trsm f32".to_string(), 2)]);
        // potrf (10 µs) ran on the core only, trsm on the core (20 µs) and the GPU (30 µs):
        // 20 + 20 s = 30 (2 - s), s = 0.8.
        assert_eq!(bounds.area(), Duration::from_micros(36));
        // Both potrf on the GPU at 1 µs: 20 s = 2 + 30 (2 - s), s = 1.24.
        let given = |time_ns| GivenTime { name: "potrf", label: "f32", kind: "gpu".into(), time_ns };
        trace.given.push(given(1_000));
        assert_eq!(trace.bounds().area(), Duration::from_nanos(24_800));
        // A measured time has precedence over a given one.
        trace.given.push(GivenTime { kind: "cpu".into(), ..given(1) });
        assert_eq!(trace.bounds().area(), Duration::from_nanos(24_800));
    }
}
