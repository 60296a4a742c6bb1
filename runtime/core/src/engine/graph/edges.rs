//! The dependencies of a graph that is being recorded, and the arrays that a replay traverses.

use std::ops::Range;

/// Accesses that need no order among themselves.
struct RecordedGroup {
    members: Vec<u32>,
    /// The tasks that wait for all members.
    followers: Vec<u32>,
    /// The members reduce: a task of the graph adds their partial results. It waits for them, and
    /// others wait for it.
    reduces: bool,
    combine: Option<u32>,
}

impl RecordedGroup {
    /// True if a node of its own saves edges: one to it from each member and one from it to each
    /// follower, instead of one from each member to each follower.
    fn is_node(&self) -> bool {
        let (members, followers) = (self.members.len() as u64, self.followers.len() as u64);
        members * followers > members + followers
    }
}

/// The dependencies recorded so far.
#[derive(Default)]
pub(super) struct Edges {
    /// Between tasks.
    direct: Vec<(u32, u32)>,
    groups: Vec<RecordedGroup>,
}

impl Edges {
    /// `to` waits for `from`.
    pub(super) fn add(&mut self, from: u32, to: u32) {
        self.direct.push((from, to));
    }

    /// A new group; `reduces`: its members leave partial results.
    pub(super) fn open(&mut self, reduces: bool) -> u32 {
        self.groups.push(RecordedGroup {
            members: Vec::new(),
            followers: Vec::new(),
            reduces,
            combine: None,
        });
        self.groups.len() as u32 - 1
    }

    pub(super) fn join(&mut self, group: u32, task: u32) {
        self.groups[group as usize].members.push(task);
    }

    /// `to` waits for all members of a closed group.
    pub(super) fn follow(&mut self, group: u32, to: u32) {
        let group = &mut self.groups[group as usize];
        match group.combine {
            Some(combine) => self.direct.push((combine, to)),
            None => group.followers.push(to),
        }
    }

    pub(super) fn reduces(&self, group: u32) -> bool {
        self.groups[group as usize].reduces
    }

    /// `task` adds the partial results of a group, which is closed.
    pub(super) fn combine(&mut self, group: u32, task: u32) {
        let group = &mut self.groups[group as usize];
        group.combine = Some(task);
        group.followers.push(task);
    }

    /// The nodes of a graph with so many tasks.
    pub(super) fn into_nodes(mut self, tasks: usize) -> Nodes {
        let mut edges = self.direct;
        let mut count = tasks as u32;
        for group in &mut self.groups {
            // A task that names a handle twice is a member twice.
            group.members.sort_unstable();
            group.members.dedup();
            group.followers.sort_unstable();
            group.followers.dedup();
            if group.is_node() {
                edges.extend(group.members.iter().map(|&member| (member, count)));
                edges.extend(group.followers.iter().map(|&follower| (count, follower)));
                count += 1;
            } else {
                let followers_of =
                    |&member: &u32| group.followers.iter().map(move |&follower| (member, follower));
                edges.extend(group.members.iter().flat_map(followers_of));
            }
        }
        edges.sort_unstable();
        edges.dedup();
        let mut predecessors = vec![0u32; count as usize];
        let mut ends = vec![0u32; count as usize];
        for &(from, to) in &edges {
            predecessors[to as usize] += 1;
            ends[from as usize] += 1;
        }
        let sinks = ends.iter().filter(|&&successors| successors == 0).count();
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            *end = sum;
        }
        let successors = edges.iter().map(|&(_, to)| to).collect();
        Nodes { tasks, predecessors, successors, successor_ends: ends, sinks }
    }
}

/// Flat arrays: the graph's tasks, then its groups. A group has several predecessors and several
/// successors, all of them tasks: no group is a source, a sink or adjacent to another.
pub(super) struct Nodes {
    tasks: usize,
    /// Number of predecessors of each node.
    pub(super) predecessors: Vec<u32>,
    successors: Vec<u32>,
    successor_ends: Vec<u32>,
    /// Tasks without successors: when they are complete, all are.
    pub(super) sinks: usize,
}

impl Nodes {
    /// Tasks and groups.
    pub(super) fn len(&self) -> usize {
        self.predecessors.len()
    }

    /// The tasks alone.
    pub(super) fn tasks(&self) -> usize {
        self.tasks
    }

    /// The positions of the groups.
    pub(super) fn groups(&self) -> Range<usize> {
        self.tasks..self.len()
    }

    /// The nodes that wait for a node.
    pub(super) fn successors_of(&self, node: usize) -> &[u32] {
        &self.successors[range(&self.successor_ends, node)]
    }

    /// Returns the tasks that wait for a task. Those that wait through a group are listed one by
    /// one.
    pub(super) fn tasks_after(&self, task: usize) -> impl Iterator<Item = u32> {
        self.successors_of(task).iter().flat_map(|&next| {
            let is_group = next as usize >= self.tasks;
            let behind = if is_group { self.successors_of(next as usize) } else { &[] };
            (!is_group).then_some(next).into_iter().chain(behind.iter().copied())
        })
    }

    /// Edges between nodes.
    pub(super) fn edges(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..self.len()).flat_map(|from| self.successors_of(from).iter().map(move |&to| (from as u32, to)))
    }
}

/// The `i`-th of consecutive lists that end as `ends` says.
pub(super) fn range(ends: &[u32], i: usize) -> Range<usize> {
    let start = if i == 0 { 0 } else { ends[i - 1] as usize };
    start..ends[i] as usize
}
