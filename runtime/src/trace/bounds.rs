//! How far a run was from the best schedule: what its codelets cost, and the two bounds that no schedule can beat.

use std::collections::HashMap;
use std::time::Duration;

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use super::Trace;
use super::tracks::{nanos, span};

/// What the runs of one codelet took.
#[derive(Clone, Debug, PartialEq)]
pub struct CodeletReport {
    /// Its name.
    pub name: &'static str,
    /// How often it ran.
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
    /// The sum of its floating-point operations, as the codelet said.
    pub flops: f64,
}

impl CodeletReport {
    /// Rate while its bodies ran, on one worker in Gflop/s; 0 if it said no operations or took no time.
    pub fn gflops(&self) -> f64 {
        rate(self.flops, self.total)
    }
}

/// What a [`Trace`] says about a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Tasks that ran.
    pub tasks: usize,
    /// Tasks among them that failed.
    pub failed: usize,
    /// Records that did not fit: what follows knows nothing of them.
    pub lost: u64,
    /// From the first body's start to the last body's end.
    pub makespan: Duration,
    /// Time that workers spent in bodies, added over the workers. A body that ran inside another one is counted once.
    pub busy: Duration,
    /// Floating-point operations of all tasks.
    pub flops: f64,
    /// Area bound: `busy` divided by the number of workers. No schedule of the same bodies on as many workers is shorter.
    pub area_bound: Duration,
    /// Critical-path bound: the longest path over the dependencies, each task taking as long as it took. No number of workers
    /// makes the run shorter.
    pub critical_path_bound: Duration,
    /// The tasks on that path, from first to last.
    pub critical_path: Vec<u64>,
    /// Dependencies that are part of a cycle: they were left out of the critical path. Always 0 for a trace that a runtime
    /// recorded.
    pub cyclic_edges: usize,
    /// For each worker the share of the makespan, 0 to 1, that it was in no body.
    pub idle: Vec<f64>,
    /// Per codelet, the one with the most time first.
    pub codelets: Vec<CodeletReport>,
}

impl Report {
    /// Kernels' share: time in bodies / (workers x makespan), 0 to 1; 0 if nothing ran.
    pub fn kernels_share(&self) -> f64 {
        ratio(self.area_bound, self.makespan)
    }

    /// The larger bound.
    pub fn bound(&self) -> Duration {
        self.area_bound.max(self.critical_path_bound)
    }

    /// The larger bound / makespan: 1 is a schedule that cannot be improved; 0 if nothing ran.
    pub fn efficiency(&self) -> f64 {
        ratio(self.bound(), self.makespan)
    }

    /// Rate of the whole run in Gflop/s; 0 if it took no time.
    pub fn gflops(&self) -> f64 {
        rate(self.flops, self.makespan)
    }
}

impl Trace {
    /// Codelet statistics, bounds and idle shares of the run.
    pub fn report(&self) -> Report {
        let (start, end) = span(self);
        let makespan = end - start;
        let tracks = self.tracks();
        let busy: Vec<u64> = tracks.iter().map(|track| track.busy()).collect();
        let total: u128 = busy.iter().map(|&ns| u128::from(ns)).sum();
        let path = critical_path(self);
        let idle = busy.iter().map(|&ns| 1.0 - fraction(ns, makespan)).collect();
        Report {
            tasks: self.tasks.len(),
            failed: self.tasks.iter().filter(|task| task.failed).count(),
            lost: self.lost,
            makespan: Duration::from_nanos(makespan),
            busy: duration(total),
            flops: self.tasks.iter().map(|task| task.flops).filter(|f| f.is_finite()).sum(),
            area_bound: duration(total / tracks.len().max(1) as u128),
            critical_path_bound: duration(path.length),
            critical_path: path.tasks,
            cyclic_edges: path.cyclic_edges,
            idle,
            codelets: codelets(self),
        }
    }
}

fn codelets(trace: &Trace) -> Vec<CodeletReport> {
    let mut runs: HashMap<&'static str, (Vec<u64>, f64)> = HashMap::new();
    for task in &trace.tasks {
        let (times, flops) = runs.entry(task.name).or_default();
        times.push(nanos(task));
        *flops += if task.flops.is_finite() { task.flops } else { 0.0 };
    }
    let mut reports: Vec<CodeletReport> = runs
        .into_iter()
        .map(|(name, (mut times, flops))| {
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
            }
        })
        .collect();
    reports.sort_by(|a, b| b.total.cmp(&a.total).then(a.name.cmp(b.name)));
    reports
}

struct Path {
    length: u128,
    tasks: Vec<u64>,
    cyclic_edges: usize,
}

/// The longest path. Components come in an order that follows the edges, so one pass over them is enough; an edge inside a
/// component is part of a cycle and is left out.
fn critical_path(trace: &Trace) -> Path {
    let mut graph: DiGraph<(), ()> = DiGraph::with_capacity(trace.tasks.len(), trace.edges.len());
    let mut nodes: HashMap<u64, NodeIndex> = HashMap::with_capacity(trace.tasks.len());
    // Per node: its number if it is a task's, and its duration.
    let mut weights: Vec<(Option<u64>, u64)> = Vec::with_capacity(trace.tasks.len());
    for task in &trace.tasks {
        let node = *nodes.entry(task.id).or_insert_with(|| {
            weights.push((Some(task.id), 0));
            graph.add_node(())
        });
        let weight = &mut weights[node.index()].1;
        *weight = nanos(task).max(*weight);
    }
    for &(from, to) in &trace.edges {
        let [from, to] = [from, to].map(|id| {
            *nodes.entry(id).or_insert_with(|| {
                weights.push((None, 0));
                graph.add_node(())
            })
        });
        graph.add_edge(from, to, ());
    }

    let components = kosaraju_scc(&graph);
    let mut component = vec![0; graph.node_count()];
    for (number, members) in components.iter().enumerate() {
        members.iter().for_each(|node| component[node.index()] = number);
    }
    // Per node: the longest path that ends before it, and the node that path comes from.
    let mut before: Vec<(u128, Option<NodeIndex>)> = vec![(0, None); graph.node_count()];
    let mut cyclic_edges = 0;
    let mut last: Option<(u128, NodeIndex)> = None;
    for &node in components.iter().rev().flatten() {
        let length = before[node.index()].0 + u128::from(weights[node.index()].1);
        if last.is_none_or(|(longest, _)| length > longest) {
            last = Some((length, node));
        }
        for next in graph.neighbors(node) {
            if component[next.index()] == component[node.index()] {
                cyclic_edges += 1;
            } else if before[next.index()].1.is_none() || length > before[next.index()].0 {
                before[next.index()] = (length, Some(node));
            }
        }
    }

    let mut tasks = Vec::new();
    let mut at = last.map(|(_, node)| node);
    while let Some(node) = at {
        tasks.extend(weights[node.index()].0);
        at = before[node.index()].1;
    }
    tasks.reverse();
    Path { length: last.map_or(0, |(length, _)| length), tasks, cyclic_edges }
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
    use crate::trace::samples::{diamond, event, traces};

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
    fn nothing_ran_is_all_zeroes() {
        let report = Trace::default().report();
        assert_eq!(report.bound(), Duration::ZERO);
        assert_eq!((report.efficiency(), report.kernels_share(), report.gflops()), (0.0, 0.0, 0.0));
        assert!(report.codelets.is_empty() && report.critical_path.is_empty());
    }

    #[test]
    fn a_body_inside_another_one_is_counted_once() {
        let mut trace = diamond();
        trace.tasks.push(event(1, 5, "inner", 20, 30));
        assert_eq!(trace.report().busy, micros(70));
    }

    #[test]
    fn a_cycle_is_left_out_and_what_hangs_on_it_is_not() {
        let mut trace = diamond();
        trace.edges.extend([(2, 2), (4, 3), (4, 1)]);
        // 1, 3, group, 4 are one component now, and 2 is in it, too: only single tasks are left.
        let report = trace.report();
        assert_eq!(report.cyclic_edges, 8);
        assert_eq!((report.critical_path_bound, &report.critical_path[..]), (micros(30), &[3][..]));
        trace.edges.push((4, 6));
        trace.tasks.push(event(0, 6, "after", 55, 56));
        assert_eq!(trace.report().critical_path_bound, micros(30));
        trace.edges.push((3, 6));
        assert_eq!(trace.report().critical_path, [3, 6]);
    }

    /// The longest path, with edges inside a cycle left out, by trying every path.
    fn by_every_path(trace: &Trace) -> u64 {
        let mut ids: Vec<u64> = trace.tasks.iter().map(|task| task.id).collect();
        ids.extend(trace.edges.iter().flat_map(|edge| [edge.0, edge.1]));
        ids.sort_unstable();
        ids.dedup();
        let place = |id: u64| ids.binary_search(&id).unwrap();
        let n = ids.len();
        let mut reach = vec![vec![false; n]; n];
        trace.edges.iter().for_each(|&(a, b)| reach[place(a)][place(b)] = true);
        for k in 0..n {
            for i in 0..n {
                for j in 0..n {
                    reach[i][j] |= reach[i][k] && reach[k][j];
                }
            }
        }
        let mut next = vec![vec![]; n];
        for (a, b) in trace.edges.iter().map(|&(a, b)| (place(a), place(b))) {
            if !reach[b][a] {
                next[a].push(b);
            }
        }
        let weight = |at: usize| {
            let runs = trace.tasks.iter().filter(|task| task.id == ids[at]);
            runs.map(|task| task.end_ns.saturating_sub(task.start_ns)).max().unwrap_or(0)
        };
        fn longest(at: usize, next: &[Vec<usize>], weight: &dyn Fn(usize) -> u64) -> u64 {
            weight(at) + next[at].iter().map(|&to| longest(to, next, weight)).max().unwrap_or(0)
        }
        (0..n).map(|at| longest(at, &next, &weight)).max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn bounds_hold_for_any_records(trace in traces()) {
            let report = trace.report();
            let runs = || trace.tasks.iter().map(nanos);
            let path = report.critical_path_bound.as_nanos() as u64;
            prop_assert!(path >= runs().max().unwrap_or(0));
            prop_assert!(path <= runs().sum());
            prop_assert!(report.area_bound <= report.makespan);
            prop_assert!(report.kernels_share() <= 1.0);
            prop_assert!(report.idle.iter().all(|idle| (0.0..=1.0).contains(idle)));
            prop_assert_eq!(report.codelets.iter().map(|c| c.count).sum::<usize>(), trace.tasks.len());
            for codelet in &report.codelets {
                prop_assert!(codelet.min <= codelet.median && codelet.median <= codelet.max);
                prop_assert!(codelet.min <= codelet.mean && codelet.mean <= codelet.max);
                prop_assert!(codelet.flops.is_finite());
            }
            // The path's tasks make up its length.
            let of = |id: u64| trace.tasks.iter().filter(|t| t.id == id).map(nanos).max().unwrap();
            prop_assert_eq!(report.critical_path.iter().map(|&id| of(id)).sum::<u64>(), path);
        }

        #[test]
        fn the_critical_path_is_the_longest_of_all_paths(
            mut trace in traces(),
            edges in proptest::collection::vec((0u64..12, 0u64..12), 0..24),
        ) {
            trace.edges = edges;
            prop_assert_eq!(trace.report().critical_path_bound.as_nanos() as u64, by_every_path(&trace));
        }
    }
}
