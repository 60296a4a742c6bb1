//! Report of a run: its distance from the best schedule, the cost of its codelets, the use of its
//! workers' time, and its transfers.

use std::collections::HashMap;
use std::time::Duration;

use super::classes::ClassTimes;
use super::nodes::{LinkReport, NodeReport, link_reports, node_reports};
use super::path::critical_path;
use super::tracks::{Track, nanos, span};
use super::{IdleState, Trace};

/// Statistics of the runs of one codelet.
#[derive(Clone, Debug, PartialEq)]
pub struct CodeletReport {
    /// Its name.
    pub name: &'static str,
    /// Number of runs.
    pub count: usize,
    /// The sum of its bodies' durations.
    pub total: Duration,
    /// The mean duration.
    pub mean: Duration,
    /// The median duration (of an even number of runs: the mean of the middle two).
    pub median: Duration,
    /// The shortest duration.
    pub min: Duration,
    /// The longest duration.
    pub max: Duration,
    /// The standard deviation over all its runs (division by `count`).
    pub stdev: Duration,
    /// The sum of its floating-point operations, as declared by the codelet.
    pub flops: f64,
    /// Runs whose time was predicted.
    pub predicted: usize,
    /// Measured time of these runs.
    pub predicted_took: Duration,
    /// Predicted time of these runs.
    pub predicted_total: Duration,
}

impl CodeletReport {
    /// Returns its rate per worker while its bodies ran in Gflop/s; 0 if it declared no operations
    /// or took no time.
    pub fn gflops(&self) -> f64 {
        rate(self.flops, self.total)
    }

    /// Measured / predicted time over the runs that had a prediction; `None` if none had.
    pub fn measured_over_predicted(&self) -> Option<f64> {
        (self.predicted > 0).then(|| self.predicted_took.as_secs_f64() / self.predicted_total.as_secs_f64())
    }

    /// True if it took at least 4 times as long as predicted, over at least 8 runs: one possible
    /// reason is subnormal numbers.
    pub fn is_below_model(&self) -> bool {
        self.predicted >= ENOUGH && self.measured_over_predicted().is_some_and(|ratio| ratio >= FAR)
    }
}

/// Factor over the predicted time from which a kernel is far below its model: more than noise and
/// caches explain.
const FAR: f64 = 4.0;

/// Minimum number of predicted runs for a meaningful ratio.
const ENOUGH: usize = 8;

/// Statistics of the workers of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindReport {
    /// The kind of device, e.g. `cpu`.
    pub kind: String,
    /// Number of its workers.
    pub workers: usize,
    /// Tasks that they ran.
    pub tasks: usize,
    /// Time that they spent in bodies.
    pub busy: Duration,
    /// Time between the first body's start and the last one's end that they spent otherwise, in the
    /// order of [`IdleState::ALL`]. Time without a record is in neither: see
    /// [`Report::idle_split`].
    pub idle: [Duration; IdleState::ALL.len()],
}

/// Summary of a [`Trace`].
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Tasks that ran.
    pub tasks: usize,
    /// Tasks among them that failed.
    pub failed: usize,
    /// Records that did not fit: the other fields do not include them.
    pub lost: u64,
    /// Time from the first body's start to the last body's end.
    pub makespan: Duration,
    /// Time that workers spent in bodies, added over the workers. A body that ran inside another
    /// one is counted once.
    pub busy: Duration,
    /// Floating-point operations of all tasks.
    pub flops: f64,
    /// Area bound: see [`Bounds::area`](crate::Bounds::area), with the mean times of the run
    /// ([`Trace::bounds`]). For workers of one kind it is `busy` divided by their number: no
    /// schedule of the same bodies on as many workers is shorter.
    pub area_bound: Duration,
    /// Critical-path bound: the longest path over the dependencies. Each task counts with its
    /// measured time, or the time of its class on another kind of worker if that is shorter. No
    /// number of workers makes the run shorter.
    pub critical_path_bound: Duration,
    /// The tasks on that path, from first to last.
    pub critical_path: Vec<u64>,
    /// Dependencies that are part of a cycle, which the critical path excludes. Always 0 for a
    /// trace that a runtime recorded.
    pub cyclic_edges: usize,
    /// For each worker the share of the makespan, 0 to 1, outside of bodies.
    pub idle: Vec<f64>,
    /// Statistics per kind of worker, in the order of the workers.
    pub kinds: Vec<KindReport>,
    /// The program's phases, each with its length.
    pub phases: Vec<(String, Duration)>,
    /// Per codelet, the one with the most time first.
    pub codelets: Vec<CodeletReport>,
    /// Per memory node; empty if the run used only the host's memory.
    pub nodes: Vec<NodeReport>,
    /// Per link with transfers.
    pub links: Vec<LinkReport>,
}

impl Report {
    /// Returns the kernels' share: time in bodies / (workers x makespan), 0 to 1; 0 if nothing ran.
    pub fn kernels_share(&self) -> f64 {
        (ratio(self.busy, self.makespan) / self.idle.len().max(1) as f64).min(1.0)
    }

    /// Returns the larger bound.
    pub fn bound(&self) -> Duration {
        self.area_bound.max(self.critical_path_bound)
    }

    /// Returns makespan / the larger bound: 1 is a schedule that cannot be improved; 0 if nothing
    /// ran.
    pub fn over_bound(&self) -> f64 {
        ratio(self.makespan, self.bound())
    }

    /// Returns the shares of a kind's worker time, 0 to 1, in the order of [`IdleState::ALL`]. The
    /// last entry is the time without a record: the runtime's own work, or lost records.
    pub fn idle_split(&self, kind: &KindReport) -> [f64; IdleState::ALL.len() + 1] {
        let share = |time: Duration| ratio(time, self.makespan) / kind.workers.max(1) as f64;
        let known = kind.idle.map(share);
        let rest = 1.0 - share(kind.busy) - known.iter().sum::<f64>();
        std::array::from_fn(|place| known.get(place).copied().unwrap_or(rest.clamp(0.0, 1.0)))
    }

    /// Returns the larger bound / makespan: 1 is a schedule that cannot be improved; 0 if nothing
    /// ran.
    pub fn efficiency(&self) -> f64 {
        ratio(self.bound(), self.makespan)
    }

    /// Returns the rate of the whole run in Gflop/s; 0 if it took no time.
    pub fn gflops(&self) -> f64 {
        rate(self.flops, self.makespan)
    }
}

impl Trace {
    /// Computes codelet statistics, bounds and idle shares of the run.
    pub fn report(&self) -> Report {
        let (start, end) = span(self);
        let makespan = end - start;
        let tracks = self.tracks();
        let busy: Vec<u64> = tracks.iter().map(|track| track.busy()).collect();
        let total: u128 = busy.iter().map(|&ns| u128::from(ns)).sum();
        let times = ClassTimes::new(self, &tracks);
        let path = critical_path(self, &least_times(self, &tracks, &times));
        let (nodes, links) = (self.memory_nodes(), self.links());
        let idle = busy.iter().map(|&ns| 1.0 - fraction(ns, makespan)).collect();
        Report {
            tasks: self.tasks.len(),
            failed: self.tasks.iter().filter(|task| task.failed).count(),
            lost: self.lost,
            makespan: Duration::from_nanos(makespan),
            busy: duration(total),
            flops: self.tasks.iter().map(|task| task.flops).filter(|f| f.is_finite()).sum(),
            area_bound: times.bounds().area(),
            critical_path_bound: duration(path.length),
            critical_path: path.tasks,
            cyclic_edges: path.cyclic_edges,
            idle,
            kinds: kinds(self, &tracks, &times, (start, end)),
            phases: self
                .phase_spans()
                .iter()
                .map(|phase| (phase.name.into(), Duration::from_nanos(phase.end - phase.start)))
                .collect(),
            codelets: codelets(self),
            nodes: node_reports(self, &nodes),
            links: link_reports(self, &nodes, &links),
        }
    }
}

/// Returns the least time of each task on any kind (ns).
fn least_times(trace: &Trace, tracks: &[Track], times: &ClassTimes) -> Vec<u64> {
    let mut least = vec![0; trace.tasks.len()];
    for (track, &kind) in tracks.iter().zip(&times.kind_of) {
        for slice in &track.slices {
            least[slice.task] = times.at_least(slice.task, nanos(&trace.tasks[slice.task]), kind);
        }
    }
    least
}

fn kinds(trace: &Trace, tracks: &[Track], times: &ClassTimes, window: (u64, u64)) -> Vec<KindReport> {
    let nothing = |(kind, workers): &(String, usize)| KindReport {
        kind: kind.clone(),
        workers: *workers,
        tasks: 0,
        busy: Duration::ZERO,
        idle: Default::default(),
    };
    let mut kinds: Vec<KindReport> = times.kinds.iter().map(nothing).collect();
    for ((track, rests), &kind) in tracks.iter().zip(trace.rests(tracks, window)).zip(&times.kind_of) {
        let kind = &mut kinds[kind];
        kind.tasks += track.slices.len();
        kind.busy += Duration::from_nanos(track.busy());
        for rest in rests {
            kind.idle[rest.state as usize] += Duration::from_nanos(rest.end - rest.start);
        }
    }
    kinds
}

fn codelets(trace: &Trace) -> Vec<CodeletReport> {
    #[derive(Default)]
    struct Runs {
        times: Vec<u64>,
        flops: f64,
        predicted: usize,
        took: u128,
        expected: u128,
    }
    let mut runs: HashMap<&'static str, Runs> = HashMap::new();
    for task in &trace.tasks {
        let runs = runs.entry(task.name).or_default();
        runs.times.push(nanos(task));
        runs.flops += if task.flops.is_finite() { task.flops } else { 0.0 };
        if task.predicted_ns > 0 {
            runs.predicted += 1;
            runs.took += u128::from(nanos(task));
            runs.expected += u128::from(task.predicted_ns);
        }
    }
    let mut reports: Vec<CodeletReport> = runs
        .into_iter()
        .map(|(name, Runs { mut times, flops, predicted, took, expected })| {
            times.sort_unstable();
            let count = times.len();
            let total: u128 = times.iter().map(|&ns| u128::from(ns)).sum();
            let mean = total as f64 / count as f64;
            let spread: f64 = times.iter().map(|&ns| (ns as f64 - mean).powi(2)).sum();
            let (low, high) = (times[(count - 1) / 2], times[count / 2]);
            CodeletReport {
                name,
                count,
                total: duration(total),
                mean: duration(total / count as u128),
                median: Duration::from_nanos(low + (high - low) / 2),
                min: Duration::from_nanos(times[0]),
                max: Duration::from_nanos(times[count - 1]),
                stdev: Duration::from_nanos((spread / count as f64).sqrt() as u64),
                flops,
                predicted,
                predicted_took: duration(took),
                predicted_total: duration(expected),
            }
        })
        .collect();
    reports.sort_by(|a, b| b.total.cmp(&a.total).then(a.name.cmp(b.name)));
    reports
}

fn duration(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

fn fraction(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn ratio(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() { 0.0 } else { part.as_secs_f64() / whole.as_secs_f64() }
}

fn rate(flops: f64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { flops / time.as_secs_f64() / 1e9 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::samples::{diamond, event, gpu, one_kind, traces};

    fn micros(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn the_diamonds_numbers_are_those_found_by_hand() {
        let report = diamond().report();
        assert_eq!(report.makespan, micros(50));
        assert_eq!(report.busy, micros(70));
        assert_eq!(report.area_bound, micros(35));
        assert_eq!(report.critical_path_bound, micros(50));
        assert_eq!(report.critical_path, [1, 3, 4]);
        assert_eq!((report.cyclic_edges, report.lost, report.failed), (0, 0, 0));
        assert!((report.idle[0] - 0.2).abs() < 1e-12 && (report.idle[1] - 0.4).abs() < 1e-12);
        assert!((report.kernels_share() - 0.7).abs() < 1e-12);
        assert_eq!(report.efficiency(), 1.0);
        assert!((report.gflops() - 8000.0 / 50e-6 / 1e9).abs() < 1e-12);
        let trsm = &report.codelets[0];
        assert_eq!((trsm.name, trsm.count, trsm.total), ("trsm", 2, micros(50)));
        assert_eq!((trsm.min, trsm.median, trsm.max), (micros(20), micros(25), micros(30)));
        assert_eq!((trsm.mean, trsm.stdev), (micros(25), micros(5)));
        assert!((trsm.gflops() - 4000.0 / 50e-6 / 1e9).abs() < 1e-12);
        assert_eq!(report.codelets[1].stdev, Duration::ZERO);
    }

    #[test]
    fn the_numbers_of_a_run_with_a_gpu_are_those_found_by_hand() {
        let report = gpu().report();
        // potrf runs on the core only. Of the 2 trsm, s on the core: 20 + 20 s = 30 (2 - s).
        assert_eq!(report.area_bound, micros(36));
        // 3 took 30 µs on the GPU, a core would have taken 20.
        assert_eq!(
            (report.critical_path_bound, report.bound(), report.over_bound()),
            (micros(40), micros(40), 1.25)
        );
        let [cpu, gpu] = &report.kinds[..] else { panic!("{:?}", report.kinds) };
        assert_eq!((&*cpu.kind, cpu.workers, cpu.tasks, cpu.busy), ("cpu", 1, 3, micros(40)));
        assert_eq!(cpu.idle, [micros(8), micros(2), micros(0)]);
        assert_eq!(
            (&*gpu.kind, gpu.busy, gpu.idle),
            ("gpu", micros(30), [micros(10), micros(0), micros(10)])
        );
        let split = report.idle_split(gpu);
        assert!(split.iter().zip([0.2, 0.0, 0.2, 0.0]).all(|(a, b)| (a - b).abs() < 1e-12), "{split:?}");

        let [there, back] = &report.links[..] else { panic!("{:?}", report.links) };
        assert_eq!((&*there.from, &*there.to, there.transfers, there.bytes), ("host", "gpu 0", 2, 96));
        assert_eq!((there.by_reason, there.converted, there.busy), ([64, 0, 32, 0, 0], 1, micros(9)));
        assert_eq!((back.by_reason, back.busy), ([0, 0, 0, 0, 64], micros(5)));
        let node = &report.nodes[1];
        assert_eq!((node.peak, node.capacity, node.evictions, node.evicted_bytes), (96, Some(1000), 1, 64));
        assert_eq!((node.written_back, node.prefetch_used, node.prefetch_unused), (1, 1, 2));
        assert_eq!(report.nodes[0].peak, 0);

        let [trsm, potrf] = &report.codelets[..] else { panic!("{:?}", report.codelets) };
        assert_eq!((trsm.predicted, trsm.measured_over_predicted()), (1, Some(1.2)));
        assert_eq!(potrf.measured_over_predicted(), None);
    }

    #[test]
    fn nothing_ran_is_all_zeroes() {
        let report = Trace::default().report();
        assert_eq!(report.bound(), Duration::ZERO);
        assert_eq!((report.efficiency(), report.kernels_share(), report.gflops()), (0.0, 0.0, 0.0));
        assert_eq!(report.over_bound(), 0.0);
        assert!(report.codelets.is_empty() && report.critical_path.is_empty());
        assert!(report.kinds.is_empty() && report.nodes.is_empty() && report.links.is_empty());
    }

    #[test]
    fn a_body_inside_another_one_is_counted_once() {
        let mut trace = diamond();
        trace.tasks.push(event(1, 5, "inner", 20, 30));
        assert_eq!(trace.report().busy, micros(70));
    }

    proptest! {
            #[test]
    fn workers_of_one_kind_have_the_bounds_of_their_bodies(trace in one_kind(traces())) {
                let report = trace.report();
                let runs = || trace.tasks.iter().map(nanos);
                let path = report.critical_path_bound.as_nanos() as u64;
                prop_assert!(path >= runs().max().unwrap_or(0));
                let even = report.busy.as_nanos() as u64 / report.idle.len().max(1) as u64;
                prop_assert!((report.area_bound.as_nanos() as u64).abs_diff(even) <= 1, "{report:?}");
                // The path's tasks make up its length.
                let of = |id: u64| trace.tasks.iter().filter(|t| t.id == id).map(nanos).max().unwrap();
                prop_assert_eq!(report.critical_path.iter().map(|&id| of(id)).sum::<u64>(), path);
            }

            #[test]
            fn bounds_hold_for_any_records(trace in traces()) {
                let report = trace.report();
                prop_assert!(report.critical_path_bound.as_nanos() as u64 <= trace.tasks.iter().map(nanos).sum());
                prop_assert!(report.area_bound <= report.makespan);
                for kind in &report.kinds {
                    let split = report.idle_split(kind);
                    prop_assert!(split.iter().all(|share| (0.0..=1.0 + 1e-9).contains(share)));
                    let busy = kind.busy.as_secs_f64() / report.makespan.as_secs_f64().max(1e-12) / kind.workers as f64;
                    prop_assert!((split.iter().sum::<f64>() + busy - 1.0).abs() < 1e-9);
                }
                prop_assert_eq!(report.kinds.iter().map(|kind| kind.tasks).sum::<usize>(), trace.tasks.len());
                prop_assert_eq!(report.links.iter().map(|link| link.transfers).sum::<usize>(), trace.transfers.len());
                prop_assert_eq!(report.nodes.iter().map(|node| node.evictions).sum::<usize>(), trace.evictions.len());
                prop_assert!(report.kernels_share() <= 1.0);
                prop_assert!(report.idle.iter().all(|idle| (0.0..=1.0).contains(idle)));
                prop_assert_eq!(report.codelets.iter().map(|c| c.count).sum::<usize>(), trace.tasks.len());
                for codelet in &report.codelets {
                    prop_assert!(codelet.min <= codelet.median && codelet.median <= codelet.max);
                    prop_assert!(codelet.min <= codelet.mean && codelet.mean <= codelet.max);
                    prop_assert!(codelet.flops.is_finite());
                }
            }
        }
}
