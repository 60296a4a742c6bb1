//! Merging of the traces of several processes.

use std::collections::HashMap;

use crate::{Trace, TraceNode, TransferEvent};

/// Bit position of the rank in the numbers of tasks and data: no rank has that many of them.
const OF_RANK: u32 = 48;

impl Trace {
    /// Merges the traces of ranks, given in their order with the time of each trace's zero on a
    /// common clock (ns).
    ///
    /// Workers and memory nodes are named by their rank. A task `send` of one rank and the task
    /// `receive` of another for the same value, according to their coordinates, become a transfer
    /// between their hosts and a dependency. Phases are those of the first rank.
    pub fn merged(ranks: Vec<(Trace, i64)>) -> Trace {
        let earliest = ranks.iter().map(|(_, zero)| *zero).min().unwrap_or(0);
        let mut all = Trace::default();
        let mut hosts = Vec::new();
        let mut tasks_of = Vec::new();
        for (rank, (trace, zero)) in ranks.into_iter().enumerate() {
            let moved = Moved { rank: rank as u64, by: (zero - earliest) as u64 };
            hosts.push(all.nodes.len() as u32);
            let first = all.tasks.len();
            all.add(trace, &moved);
            tasks_of.push(first..all.tasks.len());
        }
        all.join_messages(&hosts, &tasks_of);
        all.tasks.sort_by_key(|task| task.start_ns);
        all
    }

    fn add(&mut self, trace: Trace, moved: &Moved) {
        let (workers, nodes) = (self.workers.len() as u32, self.nodes.len() as u32);
        if moved.rank == 0 {
            self.policy = trace.policy;
            self.phases = trace.phases;
            self.phases.iter_mut().for_each(|phase| phase.start_ns += moved.by);
        }
        let named = |name: &str| format!("rank {}: {name}", moved.rank);
        self.workers.extend(trace.workers.into_iter().map(|mut worker| {
            (worker.name, worker.node) = (named(&worker.name), worker.node + nodes);
            worker
        }));
        let host = TraceNode { name: "host".into(), ..TraceNode::default() };
        let own = if trace.nodes.is_empty() { vec![host] } else { trace.nodes };
        self.nodes.extend(own.into_iter().map(|node| TraceNode { name: named(&node.name), ..node }));
        self.tasks.extend(trace.tasks.into_iter().map(|mut task| {
            (task.worker, task.id) = (task.worker + workers, moved.number(task.id));
            (task.start_ns, task.end_ns) = (task.start_ns + moved.by, task.end_ns + moved.by);
            task
        }));
        self.edges.extend(trace.edges.into_iter().map(|(from, to)| (moved.number(from), moved.number(to))));
        self.idle.extend(trace.idle.into_iter().map(|mut idle| {
            idle.worker += workers;
            (idle.start_ns, idle.end_ns) = (idle.start_ns + moved.by, idle.end_ns + moved.by);
            idle
        }));
        self.transfers.extend(trace.transfers.into_iter().map(|mut transfer| {
            (transfer.from, transfer.to) = (transfer.from + nodes, transfer.to + nodes);
            transfer.data = moved.number(transfer.data);
            (transfer.start_ns, transfer.end_ns) = (transfer.start_ns + moved.by, transfer.end_ns + moved.by);
            transfer
        }));
        self.memory.extend(trace.memory.into_iter().map(|mut memory| {
            (memory.node, memory.at_ns) = (memory.node + nodes, memory.at_ns + moved.by);
            memory
        }));
        self.evictions.extend(trace.evictions.into_iter().map(|mut eviction| {
            (eviction.node, eviction.at_ns) = (eviction.node + nodes, eviction.at_ns + moved.by);
            eviction.data = moved.number(eviction.data);
            eviction
        }));
        self.given.extend(trace.given.into_iter().filter(|_| moved.rank == 0));
        self.lost += trace.lost;
    }

    /// Connects each received value with its send: `[datum, version, other rank]`.
    fn join_messages(&mut self, hosts: &[u32], tasks_of: &[std::ops::Range<usize>]) {
        let mut sent = HashMap::new();
        for (rank, tasks) in tasks_of.iter().enumerate() {
            for task in self.tasks[tasks.clone()].iter().filter(|task| task.name == "send") {
                if let Some([datum, version, to]) = task.coords {
                    sent.insert((datum, version, rank, to as usize), *task);
                }
            }
        }
        for (rank, tasks) in tasks_of.iter().enumerate() {
            for task in self.tasks[tasks.clone()].iter().filter(|task| task.name == "receive") {
                let Some([datum, version, from]) = task.coords else { continue };
                let Some(send) = sent.get(&(datum, version, from as usize, rank)) else { continue };
                self.edges.push((send.id, task.id));
                self.transfers.push(TransferEvent {
                    from: hosts[from as usize],
                    to: hosts[rank],
                    data: u64::from(datum),
                    label: send.label,
                    bytes: send.bytes,
                    start_ns: send.end_ns,
                    end_ns: task.start_ns.max(send.end_ns),
                    ..TransferEvent::default()
                });
            }
        }
    }
}

/// The change of the records of a rank.
struct Moved {
    rank: u64,
    /// Nanoseconds added to its times.
    by: u64,
}

impl Moved {
    fn number(&self, number: u64) -> u64 {
        number + (self.rank << OF_RANK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PhaseEvent, TaskEvent, TraceWorker};

    fn rank(phase: &str, name: &'static str, other: u32, start_ns: u64) -> Trace {
        let coords = Some([7, 3, other]);
        let task = TaskEvent {
            id: 5,
            name,
            coords,
            bytes: 800,
            start_ns,
            end_ns: start_ns + 10,
            ..TaskEvent::default()
        };
        let worker = TraceWorker { name: "worker 0".into(), kind: "cpu".into(), node: 0 };
        let phases = vec![PhaseEvent { name: phase.into(), start_ns: 1 }];
        Trace { workers: vec![worker], tasks: vec![task], edges: vec![(4, 5)], phases, ..Trace::default() }
    }

    #[test]
    fn messages_join_the_ranks() {
        // The second rank began 1000 ns before the first: its clock was ahead.
        let trace = Trace::merged(vec![
            (rank("solve", "send", 1, 100), 0),
            (rank("ignored", "receive", 0, 1130), -1000),
        ]);
        let names: Vec<_> = trace.workers.iter().map(|worker| (&*worker.name, worker.node)).collect();
        assert_eq!(names, [("rank 0: worker 0", 0), ("rank 1: worker 0", 1)]);
        let times: Vec<_> = trace.tasks.iter().map(|task| (task.name, task.worker, task.start_ns)).collect();
        assert_eq!(times, [("send", 0, 1100), ("receive", 1, 1130)]);
        let second = 5 + (1 << 48);
        assert_eq!(trace.edges, [(4, 5), (second - 1, second), (5, second)]);
        assert_eq!(trace.phases, [PhaseEvent { name: "solve".into(), start_ns: 1001 }]);
        let [transfer] = trace.transfers[..] else { panic!("one message") };
        assert_eq!((transfer.from, transfer.to, transfer.bytes), (0, 1, 800));
        assert_eq!((transfer.start_ns, transfer.end_ns), (1110, 1130));
        assert_eq!(trace.makespan().as_nanos(), 40);
    }

    #[test]
    fn one_rank_and_none_are_traces_too() {
        assert_eq!(Trace::merged(vec![(rank("solve", "send", 1, 100), 5)]).tasks[0].start_ns, 100);
        assert!(Trace::merged(Vec::new()).tasks.is_empty());
    }
}
