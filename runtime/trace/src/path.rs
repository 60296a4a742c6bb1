//! The critical path: no number of workers makes a run shorter.

use std::collections::HashMap;

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use super::Trace;

/// The longest path over the dependencies.
pub(super) struct Path {
    /// Its tasks' times (ns).
    pub length: u128,
    /// Numbers of its tasks, from first to last.
    pub tasks: Vec<u64>,
    /// Dependencies that were left out.
    pub cyclic_edges: usize,
}

/// Returns the longest path, with `times` of the tasks (ns); of tasks with one number the longest
/// counts. Components come in an order that follows the edges, so one pass over them is enough. An
/// edge inside a component is part of a cycle and is left out.
pub(super) fn critical_path(trace: &Trace, times: &[u64]) -> Path {
    let mut graph: DiGraph<(), ()> = DiGraph::with_capacity(trace.tasks.len(), trace.edges.len());
    let mut nodes: HashMap<u64, NodeIndex> = HashMap::with_capacity(trace.tasks.len());
    // Per node: its number if it is a task's, and its duration.
    let mut weights: Vec<(Option<u64>, u64)> = Vec::with_capacity(trace.tasks.len());
    for (task, &time) in trace.tasks.iter().zip(times) {
        let node = *nodes.entry(task.id).or_insert_with(|| {
            weights.push((Some(task.id), 0));
            graph.add_node(())
        });
        let weight = &mut weights[node.index()].1;
        *weight = time.max(*weight);
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use crate::Trace;
    use crate::samples::{diamond, event, one_kind, traces};

    fn micros(us: u64) -> Duration {
        Duration::from_micros(us)
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
        fn the_critical_path_is_the_longest_of_all_paths(
            mut trace in one_kind(traces()),
            edges in proptest::collection::vec((0u64..12, 0u64..12), 0..24),
        ) {
            trace.edges = edges;
            prop_assert_eq!(trace.report().critical_path_bound.as_nanos() as u64, by_every_path(&trace));
        }
    }
}
