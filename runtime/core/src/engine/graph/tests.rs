//! Recorded dependencies against those that follow from the accesses, and groups of tasks as nodes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Bindings, Graph, Recorder};
use crate::operand::Mode;
use crate::task::Handle;
use crate::{Error, Runtime, Submit, TaskRef, commute, read, reduce, update, write};

/// For each task the modes in which it accesses some handles.
type Program = Vec<Vec<(usize, Mode)>>;

const HANDLES: usize = 3;

fn program() -> impl Strategy<Value = Program> {
    use Mode::{Commute, Read, Reduce, Update, Write};
    let modes = prop::sample::select(vec![Read, Read, Commute, Commute, Reduce, Update, Write]);
    let accesses = prop::collection::btree_map(0..HANDLES, modes, 0..=HANDLES);
    vec(accesses.prop_map(|accesses| accesses.into_iter().collect()), 0..24)
}

fn submit<S: Submit>(s: &S, handles: &[Handle<f64>], program: &Program) -> Result<Vec<TaskRef>, Error> {
    let task = |accesses: &Vec<(usize, Mode)>| {
        let of = |mode: Mode| {
            accesses.iter().filter(move |access| access.1 == mode).map(|access| &handles[access.0])
        };
        let operands = (
            of(Mode::Read).map(read).collect::<Vec<_>>(),
            of(Mode::Update).map(update).collect::<Vec<_>>(),
            of(Mode::Commute).map(commute).collect::<Vec<_>>(),
            of(Mode::Reduce).map(reduce).collect::<Vec<_>>(),
            of(Mode::Write).map(write).collect::<Vec<_>>(),
        );
        let put = |slots: Vec<crate::Slot<'_, f64>>| slots.into_iter().for_each(|mut slot| slot.put(0.0));
        s.task("task").operands(operands).cpu(move |(_, _, _, _, slots)| put(slots)).submit()
    };
    program.iter().map(task).collect()
}

/// `reach[i][j]`: task `j` comes after task `i`.
type Order = Vec<Vec<bool>>;

/// Returns the order from edges between nodes; the first `tasks` nodes are tasks.
fn closure(tasks: usize, nodes: usize, edges: impl Iterator<Item = (usize, usize)>) -> Order {
    let mut reach = vec![vec![false; nodes]; nodes];
    edges.for_each(|(from, to)| reach[from][to] = true);
    for k in 0..nodes {
        for i in 0..nodes {
            for j in 0..nodes {
                reach[i][j] |= reach[i][k] && reach[k][j];
            }
        }
    }
    reach.truncate(tasks);
    reach.iter_mut().for_each(|row| row.truncate(tasks));
    reach
}

/// The order that the accesses demand: two accesses to one handle keep their order, unless both
/// read, both commute or both reduce.
fn expected(program: &Program) -> Order {
    let conflict = |a: &(usize, Mode), b: &(usize, Mode)| {
        let alone = |mode: Mode| matches!(mode, Mode::Write | Mode::Update);
        a.0 == b.0 && (a.1 != b.1 || alone(a.1))
    };
    let pairs = (0..program.len()).flat_map(|j| (0..j).map(move |i| (i, j)));
    let edges = pairs.filter(|&(i, j)| program[i].iter().any(|a| program[j].iter().any(|b| conflict(a, b))));
    closure(program.len(), program.len(), edges)
}

fn runtime() -> Runtime {
    Runtime::builder().workers(2).bind(false).trace(true).build().unwrap()
}

fn registered(rt: &Runtime) -> Vec<Handle<f64>> {
    let handle = |_| rt.register(0.0).with_reduction(|_| 0.0, |sum, part| *sum += part);
    (0..HANDLES).map(handle).collect()
}

/// The positions of the tasks that `program` submitted: between them are tasks that add partial
/// results.
fn places(graph: &Graph) -> Vec<usize> {
    (0..graph.len()).filter(|&task| graph.header(task).name == "task").collect()
}

fn pick(order: &Order, places: &[usize]) -> Order {
    places.iter().map(|&i| places.iter().map(|&j| order[i][j]).collect()).collect()
}

/// The order that edges of a trace make, among `tasks`.
fn traced(edges: &[(u64, u64)], tasks: &[u64]) -> Order {
    let mut place: HashMap<u64, usize> = tasks.iter().enumerate().map(|(at, &id)| (id, at)).collect();
    let mut at = |id: u64| {
        let next = place.len();
        *place.entry(id).or_insert(next)
    };
    let edges: Vec<(usize, usize)> = edges.iter().map(|&(from, to)| (at(from), at(to))).collect();
    closure(tasks.len(), place.len(), edges.into_iter())
}

proptest! {
    #![proptest_config(zellige_tests::cases(200))]

    #[test]
    fn recorded_and_submitted_tasks_have_the_order_of_their_accesses(program in program()) {
        let rt = runtime();
        let handles = registered(&rt);
        let order = expected(&program);
        let graph = rt.record(|g: &Recorder| submit(g, &handles, &program).map(drop)).unwrap();
        let (nodes, tasks) = (&graph.0.nodes, places(&graph));
        prop_assert_eq!(tasks.len(), program.len());

        let edges = || nodes.edges().map(|(from, to)| (from as usize, to as usize));
        prop_assert_eq!(&pick(&closure(graph.len(), nodes.len(), edges()), &tasks), &order);
        for (from, to) in edges() {
            prop_assert!(from < graph.len() || to < graph.len(), "no group is next to another");
        }
        for group in nodes.groups() {
            let members = nodes.predecessors[group] as usize;
            let followers = nodes.successors_of(group).len();
            prop_assert!(members * followers > members + followers);
        }
        let petgraph = graph.to_petgraph();
        prop_assert_eq!(petgraph.node_count(), graph.len());
        let pairs = petgraph.raw_edges().iter().map(|edge| (edge.source().index(), edge.target().index()));
        prop_assert_eq!(&pick(&closure(graph.len(), graph.len(), pairs), &tasks), &order);

        let submitted: Vec<u64> = submit(&rt, &handles, &program).unwrap().iter().map(TaskRef::id).collect();
        rt.wait_all().unwrap();
        prop_assert_eq!(&traced(&rt.take_trace().unwrap().edges, &submitted), &order);

        // As replays do it, and in their traces.
        rt.replay(&Bindings::recorded(&graph)).unwrap();
        rt.wait_all().unwrap();
        let trace = rt.take_trace().unwrap();
        prop_assert_eq!(trace.tasks.iter().filter(|task| task.name == "task").count(), tasks.len());
        let first = trace.tasks.iter().map(|task| task.id).min().unwrap_or(0);
        let replayed: Vec<u64> = tasks.iter().map(|&task| first + task as u64).collect();
        prop_assert_eq!(&traced(&trace.edges, &replayed), &order);
    }
}

/// Submits tasks whose results depend on the order of all that they read and update.
fn fold<S: Submit>(s: &S, handles: &[Handle<f64>], program: &Program) -> Result<(), Error> {
    for (at, accesses) in program.iter().enumerate() {
        let of = |reads: bool| {
            let is = move |mode: Mode| matches!(mode, Mode::Read | Mode::Reduce) == reads;
            accesses.iter().filter(move |access| is(access.1)).map(|access| &handles[access.0])
        };
        let operands = (of(true).map(read).collect::<Vec<_>>(), of(false).map(update).collect::<Vec<_>>());
        let step = move |read: Vec<&f64>, updated: Vec<&mut f64>| {
            let sum = read.into_iter().fold(at as f64, |sum, x| 0.75 * sum + x);
            updated.into_iter().for_each(|x| *x = 0.3 * *x + sum);
        };
        s.task("fold").operands(operands).cpu(move |(read, updated)| step(read, updated)).submit()?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(zellige_tests::cases(200))]

    #[test]
    fn replays_that_overlap_leave_the_same_bits(
        first in program(),
        second in program(),
        between in prop::collection::vec((prop::bool::ANY, prop::bool::ANY), 1..6),
    ) {
        let rt = runtime();
        let values = |wait: bool| {
            let handles = registered(&rt);
            let record = |program| rt.record(|g: &Recorder| fold(g, &handles, program)).unwrap();
            let bind = [record(&first), record(&second)].map(|graph| Bindings::recorded(&graph));
            for &(which, submits) in &between {
                if submits {
                    fold(&rt, &handles, &second).unwrap();
                }
                rt.replay(&bind[usize::from(which)]).unwrap();
                if wait {
                    rt.wait_all().unwrap();
                }
            }
            handles.into_iter().map(|x| rt.take(x).unwrap().to_bits()).collect::<Vec<_>>()
        };
        prop_assert_eq!(values(false), values(true));
    }
}

/// A task of the first replay waits for one of the second that uses other data.
#[test]
fn a_replay_does_not_wait_for_what_it_does_not_use() {
    let rt = Runtime::builder().workers(2).bind(false).trace(true).build().unwrap();
    let (slow, quick) = (rt.register(0u32), rt.register(0u32));
    let runs = Arc::new(AtomicU32::new(0));
    let record = |g: &Recorder| {
        let seen = Arc::clone(&runs);
        let wait = move |slow: &mut u32| {
            while seen.load(Ordering::Acquire) < 2 {
                std::thread::yield_now();
            }
            *slow += 1;
        };
        g.task("slow").operands((update(&slow),)).cpu(move |(slow,)| wait(slow)).submit()?;
        let runs = Arc::clone(&runs);
        let count = move |quick: &mut u32| *quick += 1 + runs.fetch_add(1, Ordering::AcqRel);
        g.task("quick").operands((update(&quick),)).cpu(move |(quick,)| count(quick)).submit().map(drop)
    };
    let bind = Bindings::recorded(&rt.record(record).unwrap());
    for replay in [(); 2].map(|()| rt.replay(&bind).unwrap()) {
        rt.wait(&replay).unwrap();
    }
    assert_eq!((rt.take(slow).unwrap(), rt.take(quick).unwrap()), (2, 3));
    // Through the numbers of slots, a trace has the order of the tasks on one handle.
    let trace = rt.take_trace().unwrap();
    for name in ["slow", "quick"] {
        let mut tasks: Vec<u64> =
            trace.tasks.iter().filter(|task| task.name == name).map(|task| task.id).collect();
        tasks.sort_unstable();
        assert_eq!(traced(&trace.edges, &tasks), [[false, true], [false, false]], "{name}");
    }
}

/// `readers` tasks that read a handle, then `commuters` that add 1 to it.
fn crowd<S: Submit>(s: &S, x: &Handle<f64>, readers: usize, commuters: usize) -> Result<(), Error> {
    for _ in 0..readers {
        let whole = |(x,): (&f64,)| assert_eq!(x % 100.0, 0.0, "no task adds before all have read");
        s.task("read").operands((read(x),)).cpu(whole).submit()?;
    }
    (0..commuters).try_for_each(|_| {
        s.task("add").operands((commute(x),)).cpu(|(x,): (&mut f64,)| *x += 1.0).submit().map(drop)
    })
}

#[test]
fn many_readers_and_many_commuters_meet_in_one_node() {
    const MANY: usize = 10_000;
    let rt = runtime();
    let x = rt.register(0.0);
    let graph = rt.record(|g: &Recorder| crowd(g, &x, MANY, MANY)).unwrap();
    let nodes = &graph.0.nodes;
    assert_eq!((graph.len(), nodes.groups().len(), nodes.edges().count()), (2 * MANY, 1, 2 * MANY));
    assert_eq!((graph.depth(), graph.width()), (2, MANY));
    let reads = |node: &super::GraphNode| Duration::from_secs(if node.name == "read" { 5 } else { 2 });
    assert_eq!(graph.critical_path(reads), Duration::from_secs(7));
    assert_eq!(graph.longest_path(|task| task as f64), [MANY - 1, 2 * MANY - 1]);
    assert_eq!(graph.to_dot().matches("->").count(), 2 * MANY);
    assert_eq!(graph.to_dot().matches("point").count(), 1);

    for replays in 1..=3 {
        rt.replay(&Bindings::recorded(&graph)).unwrap();
        rt.wait_all().unwrap();
        assert_eq!(*rt.read(&x).unwrap(), (replays * MANY) as f64);
    }
    let trace = rt.take_trace().unwrap();
    assert_eq!((trace.tasks.len(), trace.lost), (6 * MANY, 0));
    // Some edges lead from the replays to the final reads of the value.
    assert!((6 * MANY..6 * MANY + 20).contains(&trace.edges.len()), "{}", trace.edges.len());
    let path = trace.report().critical_path;
    assert!((2..=6).contains(&path.len()), "one of each, groups take no place: {path:?}");
}

#[test]
fn a_group_that_saves_no_edge_is_no_node() {
    let rt = runtime();
    let x = rt.register(0.0);
    for (readers, commuters, groups) in [(1, 9, 0), (9, 1, 0), (2, 2, 0), (2, 3, 1), (3, 2, 1), (3, 0, 0)] {
        let graph = rt.record(|g: &Recorder| crowd(g, &x, readers, commuters)).unwrap();
        let nodes = &graph.0.nodes;
        assert_eq!(nodes.groups().len(), groups, "{readers} x {commuters}");
        let edges = if groups == 0 { readers * commuters } else { readers + commuters };
        assert_eq!(nodes.edges().count(), edges, "{readers} x {commuters}");
        assert_eq!(graph.to_petgraph().edge_count(), readers * commuters);
    }
}

#[test]
fn a_task_that_reads_a_handle_twice_counts_once() {
    let rt = runtime();
    let x = rt.register(0.0);
    let record = |g: &Recorder| {
        for _ in 0..3 {
            g.task("twice").operands((crate::reads([&x, &x]),)).cpu(|(_,)| ()).submit()?;
        }
        crowd(g, &x, 0, 3)
    };
    let graph = rt.record(record).unwrap();
    assert_eq!(graph.0.nodes.edges().count(), 6);
    rt.replay(&Bindings::recorded(&graph)).unwrap();
    assert_eq!(rt.take(x).unwrap(), 3.0);
}

#[test]
fn cancelled_and_failed_replays_end_across_groups() {
    let rt = runtime();
    let x = rt.register(f64::NAN);
    let graph = rt.record(|g: &Recorder| crowd(g, &x, 5, 5)).unwrap();
    // Every reader fails, and its output is missing: the tasks that add still run.
    rt.replay(&Bindings::recorded(&graph)).unwrap();
    assert!(rt.wait_all().is_err());
    let cancelled = rt.replay(&Bindings::recorded(&graph)).unwrap();
    cancelled.cancel();
    let _ = rt.wait_all();
    assert!(cancelled.is_done());
}
