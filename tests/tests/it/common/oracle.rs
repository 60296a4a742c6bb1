//! Expected results of a random graph: its tasks run in sequence, in the order of submission.

use super::graphs::{Change, GraphSpec, Number, Outcome, changed, mix};

/// Knowledge about a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Never written.
    Unwritten,
    /// The handle has this value.
    Value(Number),
    /// Poisoned.
    Poisoned,
    /// Poisoned or this value: it depends on the order of tasks that commute with one that fails.
    Either(Number),
}

/// Certainty that a task runs and succeeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Expected {
    Success,
    Either,
    Failure,
}

/// Returns the knowledge about every handle after `times` sequential runs of the graph.
pub fn run(graph: &GraphSpec, times: usize) -> Vec<Known> {
    let total = graph.tasks.len() * times;
    let groups = groups(graph, times);
    // One that fails taints those that commute with it, wherever they stand: repeat until no more
    // are found.
    let mut tainted = vec![false; total];
    loop {
        let (values, all_expected) = sequential(graph, times, &tainted);
        let mut next = tainted.clone();
        for group in &groups {
            for &member in group {
                next[member] |=
                    group.iter().any(|&other| other != member && all_expected[other] > Expected::Success);
            }
        }
        if next == tainted {
            return values;
        }
        tainted = next;
    }
}

/// Tasks that may run in any order on a handle: neighbours with the same unordered access.
fn groups(graph: &GraphSpec, times: usize) -> Vec<Vec<usize>> {
    let mut all = Vec::new();
    for handle in 0..graph.start.len() {
        let mut open: Option<(Change, Vec<usize>)> = None;
        for index in 0..graph.tasks.len() * times {
            let task = &graph.tasks[index % graph.tasks.len()];
            let reads = task.inputs().any(|(h, _)| h == handle);
            let change = task.change.iter().find(|(h, _)| *h == handle).map(|(_, kind)| *kind);
            match change {
                Some(kind @ (Change::Commute | Change::Reduce)) => match &mut open {
                    Some((mode, members)) if *mode == kind => members.push(index),
                    _ => all.extend(open.replace((kind, vec![index])).map(|(_, members)| members)),
                },
                None if !reads => {}
                _ => all.extend(open.take().map(|(_, members)| members)),
            }
        }
        all.extend(open.map(|(_, members)| members));
    }
    all
}

fn sure(known: Known) -> Expected {
    match known {
        Known::Value(_) => Expected::Success,
        Known::Either(_) => Expected::Either,
        Known::Poisoned | Known::Unwritten => Expected::Failure,
    }
}

fn sequential(graph: &GraphSpec, times: usize, tainted: &[bool]) -> (Vec<Known>, Vec<Expected>) {
    let first = |start: &Option<u64>| start.map_or(Known::Unwritten, |v| Known::Value(Number::new(v)));
    let mut values: Vec<Known> = graph.start.iter().map(first).collect();
    // The value of a handle before tasks that commute on it: none of them is certain to see the
    // results of the others.
    let mut open: Vec<Option<(Change, Known)>> = vec![None; values.len()];
    let mut all_expected = Vec::with_capacity(tainted.len());
    for (index, &tainted) in tainted.iter().enumerate() {
        let task = &graph.tasks[index % graph.tasks.len()];
        debug_assert!(index < graph.tasks.len() * times);
        let mut expected = if tainted { Expected::Either } else { Expected::Success };
        if task.outcome != Outcome::Succeeds {
            expected = Expected::Failure;
        }
        for (handle, _) in task.inputs() {
            open[handle] = None;
            expected = expected.max(sure(values[handle]));
        }
        for &(handle, kind) in &task.change {
            match kind {
                Change::Write | Change::Update(_) => open[handle] = None,
                Change::Commute | Change::Reduce => {
                    if open[handle].is_none_or(|(mode, _)| mode != kind) {
                        open[handle] = Some((kind, values[handle]));
                    }
                }
            }
            expected = expected.max(match (kind, open[handle]) {
                (Change::Write, _) => Expected::Success,
                (_, Some((_, before))) => sure(before),
                (_, None) => sure(values[handle]),
            });
        }
        let stored = |(h, format): (usize, Option<u16>)| match values[h] {
            Known::Value(n) | Known::Either(n) => format.map_or(n, |f| n.stored(f)).bits,
            Known::Poisoned | Known::Unwritten => 0,
        };
        let input = mix(task.salt, task.inputs().map(stored));
        for &(handle, kind) in &task.change {
            let old = match values[handle] {
                Known::Value(n) | Known::Either(n) => n,
                Known::Poisoned | Known::Unwritten => Number::new(0),
            };
            let old = match kind {
                Change::Update(Some(format)) => old.stored(format),
                _ => old,
            };
            let new = changed(old, kind, input);
            // A neighbour's failure stays, whatever this one does.
            let expected = if open[handle].is_some() { expected.max(sure(values[handle])) } else { expected };
            values[handle] = match expected {
                Expected::Success => Known::Value(new),
                Expected::Either => Known::Either(new),
                Expected::Failure => Known::Poisoned,
            };
        }
        all_expected.push(expected);
    }
    (values, all_expected)
}

#[cfg(test)]
mod tests {
    use super::super::graphs::TaskSpec;
    use super::*;

    fn task(change: &[(usize, Change)], read: Option<usize>, outcome: Outcome) -> TaskSpec {
        let read = read.map(|h| (h, None));
        TaskSpec { salt: 5, read, list: vec![], change: change.to_vec(), after: None, priority: 0, outcome }
    }

    #[test]
    fn poison_spreads_and_a_write_clears_it() {
        let start = vec![Some(1), Some(2), Some(3)];
        let mut graph = GraphSpec {
            start,
            tasks: vec![
                task(&[(0, Change::Update(None))], None, Outcome::Fails),
                task(&[(1, Change::Write)], Some(0), Outcome::Succeeds),
            ],
        };
        let (two, poisoned) = (Known::Value(Number::new(3)), Known::Poisoned);
        assert_eq!(run(&graph, 1), [poisoned, poisoned, two]);
        graph.tasks.push(task(&[(0, Change::Write)], None, Outcome::Succeeds));
        assert_eq!(run(&graph, 1)[0], Known::Value(Number::new(5)));
        assert_eq!(run(&graph, 2)[0], Known::Value(Number::new(5)));
    }

    #[test]
    fn one_that_fails_makes_its_commuting_neighbours_uncertain() {
        let graph = GraphSpec {
            start: vec![Some(1), Some(2)],
            tasks: vec![
                task(&[(0, Change::Commute), (1, Change::Write)], None, Outcome::Succeeds),
                task(&[(0, Change::Commute)], None, Outcome::Panics),
            ],
        };
        let mut swapped = graph.clone();
        swapped.tasks.swap(0, 1);
        for graph in [graph, swapped] {
            assert_eq!(run(&graph, 1), [Known::Poisoned, Known::Either(Number::new(5))]);
        }
    }
}
