//! Analysis of a recorded graph before it runs.

use std::fmt::Write;
use std::time::Duration;

use petgraph::graph::{DiGraph, NodeIndex};
use zellige_model::TaskInfo;

use super::Graph;

/// A task of a recorded graph.
///
/// ```
/// use zellige_runtime::{GraphNode, Runtime, Submit, update};
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let x = rt.register(1.0f64);
/// let graph = rt.record(|g| {
///     (0..3).try_for_each(|i| {
///         g.task("step").operands((update(&x),)).cpu(|(x,)| *x /= 2.0).priority(i).flops(1.0).submit().map(drop)
///     })
/// })?;
/// let steps: Vec<GraphNode> = graph.to_petgraph().node_weights().copied().collect();
/// assert_eq!((steps[2].name, steps[2].priority, steps[2].info.flops), ("step", 2, 1.0));
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
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
    fn node(&self, task: usize) -> GraphNode {
        let header = &self.0.headers[task];
        GraphNode { name: header.name, priority: header.priority, info: header.info }
    }

    /// Returns the tasks and their dependencies as a petgraph; node `i` is the `i`-th task. If many
    /// tasks wait for a group of many others, e.g. 10 000 that commute for 10 000 that read, there
    /// is an edge for every pair. The graph itself stores fewer.
    pub fn to_petgraph(&self) -> DiGraph<GraphNode, ()> {
        let mut graph = DiGraph::with_capacity(self.len(), self.0.nodes.edges().count());
        for task in 0..self.len() {
            graph.add_node(self.node(task));
        }
        for task in 0..self.len() {
            for next in self.0.nodes.tasks_after(task) {
                graph.add_edge(NodeIndex::new(task), NodeIndex::new(next as usize), ());
            }
        }
        graph
    }

    /// Returns, for each node, the weight of the longest path that ends with it, by the `weight` of
    /// tasks; groups have weight 0.
    fn longest_paths(&self, weight: impl Fn(usize) -> f64) -> Vec<f64> {
        let nodes = &self.0.nodes;
        let mut pending = nodes.predecessors.clone();
        let mut ready: Vec<usize> = (0..pending.len()).filter(|&i| pending[i] == 0).collect();
        let mut end = vec![0.0f64; pending.len()];
        while let Some(node) = ready.pop() {
            if node < nodes.tasks() {
                end[node] += weight(node);
            }
            for &next in nodes.successors_of(node) {
                let next = next as usize;
                end[next] = end[next].max(end[node]);
                pending[next] -= 1;
                if pending[next] == 0 {
                    ready.push(next);
                }
            }
        }
        end
    }

    /// Returns the tasks of one longest path by `weight`, from first to last.
    pub(crate) fn longest_path(&self, weight: impl Fn(usize) -> f64) -> Vec<usize> {
        let nodes = &self.0.nodes;
        let ends = self.longest_paths(&weight);
        let last = (0..nodes.tasks()).max_by(|&a, &b| ends[a].total_cmp(&ends[b]).then(b.cmp(&a)));
        let Some(mut at) = last else {
            return Vec::new();
        };
        // Each node's predecessor on its longest path: the one that ends last.
        let mut before = vec![usize::MAX; nodes.len()];
        for (node, next) in nodes.edges().map(|(from, to)| (from as usize, to as usize)) {
            let best = &mut before[next];
            if *best == usize::MAX || ends[node] > ends[*best] {
                *best = node;
            }
        }
        let mut path = vec![at];
        while before[at] != usize::MAX {
            at = before[at];
            path.push(at);
        }
        path.retain(|&node| node < nodes.tasks());
        path.reverse();
        path
    }

    /// Returns the number of tasks on the longest path.
    pub fn depth(&self) -> usize {
        self.longest_paths(|_| 1.0).into_iter().fold(0.0, f64::max) as usize
    }

    /// Returns the largest number of tasks at the same distance from the start: a lower bound of
    /// the graph's parallelism.
    pub fn width(&self) -> usize {
        let mut levels = vec![0usize; self.depth() + 1];
        for level in self.longest_paths(|_| 1.0).into_iter().take(self.len()) {
            levels[level as usize] += 1;
        }
        levels.into_iter().max().unwrap_or(0)
    }

    /// Returns the time of the longest path, with `cost` for each task: no schedule on any number
    /// of workers is shorter.
    pub fn critical_path(&self, cost: impl Fn(&GraphNode) -> Duration) -> Duration {
        let longest = self.longest_paths(|task| cost(&self.node(task)).as_secs_f64());
        Duration::from_secs_f64(longest.into_iter().fold(0.0, f64::max))
    }

    /// Returns the graph in Graphviz' language, one box per task. If many tasks wait for many,
    /// their edges meet in a point.
    pub fn to_dot(&self) -> String {
        let mut dot = String::from("digraph tasks {\n  node [shape=box, style=rounded];\n");
        for (i, header) in self.0.headers.iter().enumerate() {
            let info = &header.info;
            let label =
                if info.label.is_empty() { String::new() } else { format!("\\n{}", escape(info.label)) };
            // Writing to a String cannot fail.
            let _ = writeln!(dot, "  t{i} [label=\"{}{label}\"];", escape(&header.title()));
        }
        for group in self.0.nodes.groups() {
            let _ = writeln!(dot, "  t{group} [shape=point, label=\"\"];");
        }
        for (from, to) in self.0.nodes.edges() {
            let _ = writeln!(dot, "  t{from} -> t{to};");
        }
        dot.push_str("}\n");
        dot
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
