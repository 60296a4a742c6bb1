//! Looking at a recorded graph before running it.

use std::fmt::Write;
use std::time::Duration;

use petgraph::graph::{DiGraph, NodeIndex};
use zellige_model::TaskInfo;

use super::Graph;

/// One task of a recorded graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GraphNode {
    /// The codelet's name.
    pub name: &'static str,
    /// Its priority.
    pub priority: i32,
    /// Cost, coordinates and label.
    pub info: TaskInfo,
}

impl Graph {
    /// The tasks and their dependencies, as petgraph has them; node `i` is the `i`-th task.
    pub fn to_petgraph(&self) -> DiGraph<GraphNode, ()> {
        let data = &self.0;
        let mut graph = DiGraph::with_capacity(data.headers.len(), data.successors.len());
        for header in &data.headers {
            graph.add_node(GraphNode { name: header.name, priority: header.priority, info: header.info });
        }
        for task in 0..data.headers.len() {
            for &next in data.successors_of(task) {
                graph.add_edge(NodeIndex::new(task), NodeIndex::new(next as usize), ());
            }
        }
        graph
    }

    /// For each task, the tasks on the longest path that ends with it, by `weight`; and that path's weight.
    fn longest_paths(&self, weight: impl Fn(usize) -> f64) -> Vec<f64> {
        let data = &self.0;
        let mut pending = data.predecessors.clone();
        let mut ready: Vec<usize> = (0..pending.len()).filter(|&i| pending[i] == 0).collect();
        let mut end = vec![0.0f64; pending.len()];
        while let Some(task) = ready.pop() {
            end[task] += weight(task);
            for &next in data.successors_of(task) {
                let next = next as usize;
                end[next] = end[next].max(end[task]);
                pending[next] -= 1;
                if pending[next] == 0 {
                    ready.push(next);
                }
            }
        }
        end
    }

    /// The tasks of one longest path by `weight`, from first to last.
    pub(crate) fn longest_path(&self, weight: impl Fn(usize) -> f64) -> Vec<usize> {
        let ends = self.longest_paths(&weight);
        let count = ends.len();
        let Some(mut at) = (0..count).max_by(|&a, &b| ends[a].total_cmp(&ends[b]).then(b.cmp(&a))) else {
            return Vec::new();
        };
        // Each task's predecessor on its longest path: the one that ends last.
        let mut before = vec![usize::MAX; count];
        for task in 0..count {
            for &next in self.0.successors_of(task) {
                let best = &mut before[next as usize];
                if *best == usize::MAX || ends[task] > ends[*best] {
                    *best = task;
                }
            }
        }
        let mut path = vec![at];
        while before[at] != usize::MAX {
            at = before[at];
            path.push(at);
        }
        path.reverse();
        path
    }

    /// Tasks on the longest path.
    pub fn depth(&self) -> usize {
        self.longest_paths(|_| 1.0).into_iter().fold(0.0, f64::max) as usize
    }

    /// The largest number of tasks at the same distance from the start: a lower bound of the graph's parallelism.
    pub fn width(&self) -> usize {
        let mut levels = vec![0usize; self.depth() + 1];
        for level in self.longest_paths(|_| 1.0) {
            levels[level as usize] += 1;
        }
        levels.into_iter().max().unwrap_or(0)
    }

    /// The time of the longest path, with `cost` for each task: no schedule on any number of workers is shorter.
    pub fn critical_path(&self, cost: impl Fn(&GraphNode) -> Duration) -> Duration {
        let nodes = self.to_petgraph();
        let longest = self.longest_paths(|task| cost(&nodes[NodeIndex::new(task)]).as_secs_f64());
        Duration::from_secs_f64(longest.into_iter().fold(0.0, f64::max))
    }

    /// The graph in Graphviz' language, one box per task.
    pub fn to_dot(&self) -> String {
        let mut dot = String::from("digraph tasks {\n  node [shape=box, style=rounded];\n");
        for (i, header) in self.0.headers.iter().enumerate() {
            let info = &header.info;
            let label =
                if info.label.is_empty() { String::new() } else { format!("\\n{}", escape(info.label)) };
            // Writing to a String cannot fail.
            let _ = writeln!(dot, "  t{i} [label=\"{}{label}\"];", escape(&header.title()));
            for next in self.0.successors_of(i) {
                let _ = writeln!(dot, "  t{i} -> t{next};");
            }
        }
        dot.push_str("}\n");
        dot
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
