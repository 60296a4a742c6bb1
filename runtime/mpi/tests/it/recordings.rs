//! Graphs that several ranks record, and their merged traces.

use zellige_mpi::{Cluster, Local, run_local};
use zellige_runtime::{Error, Handle, Runtime, Submit, read, update};

/// Creates a row of numbers, each on a rank of its own, and a step in which each gets its left
/// neighbour.
fn row(cluster: &Cluster) -> Vec<Handle<Vec<u64>>> {
    let number = |rank| cluster.register_on(rank, || vec![rank as u64 + 1; 10]).unwrap();
    (0..cluster.ranks()).map(number).collect()
}

fn step(target: &impl Submit, row: &[Handle<Vec<u64>>]) -> Result<(), Error> {
    for i in 0..row.len() {
        let left = &row[(i + row.len() - 1) % row.len()];
        let add = |(left, x): (&[u64], &mut [u64])| x.iter_mut().zip(left).for_each(|(x, left)| *x += left);
        target.task("add").operands((read(left), update(&row[i]))).cpu(add).submit()?;
    }
    Ok(())
}

#[test]
fn a_rank_keeps_its_tasks_and_its_messages() {
    let program = |cluster: &Cluster| {
        let row = row(cluster);
        let graph = cluster.record(|graph| step(graph, &row)).unwrap();
        (0..5).try_for_each(|_| cluster.replay(&graph)).unwrap();
        let sent = cluster.traffic().sent;
        (graph.counts(), sent, cluster.read(&row[2]).unwrap()[0])
    };
    let mut wanted: Vec<u64> = (1..=3).collect();
    (0..5).for_each(|_| (0..3).for_each(|i| wanted[i] += wanted[(i + 2) % 3]));
    let found = run_local(3, 1, program).unwrap();
    // Its own task, the value from the left and the one to the right; the first also has the value
    // before the graph from its left.
    let counts: Vec<_> = found.iter().map(|(counts, ..)| *counts).collect();
    assert_eq!(counts, [(1, 1), (1, 2), (1, 1)]);
    assert!(found.iter().all(|(_, sent, last)| *sent <= 5 && *last == wanted[2]), "{found:?}");
}

#[test]
fn a_failure_in_a_replay_reaches_who_needs_the_result() {
    let program = |cluster: &Cluster| {
        let row = row(cluster);
        let graph = cluster.record(|graph| {
            graph.task("breaks").operands((update(&row[0]),)).cpu(|_| Err("on purpose")).submit()?;
            step(graph, &row)
        });
        let graph = graph.unwrap();
        (0..2).try_for_each(|_| cluster.replay(&graph)).unwrap();
        let said = cluster.read(&row[1]).unwrap_err().to_string();
        assert!(matches!(cluster.wait_all(), Err(Error::Failed(_))));
        said
    };
    for said in run_local(2, 1, program).unwrap() {
        assert!(said.contains("on purpose"), "{said}");
    }
}

#[test]
fn what_a_task_comes_after_may_run_elsewhere() {
    let program = |cluster: &Cluster| {
        let row = row(cluster);
        let graph = cluster.record(|graph| {
            let task = |i: usize| graph.task("double").operands((update(&row[i]),)).cpu(|(x,)| x[0] *= 2);
            let first = task(0).submit()?;
            task(1).after(&first).submit().map(drop)
        });
        let graph = graph.unwrap();
        cluster.replay(&graph).unwrap();
        cluster.read(&row[1]).unwrap()[0]
    };
    assert_eq!(run_local(2, 1, program).unwrap(), [4, 4]);
}

#[test]
fn different_recordings_are_found() {
    let program = |cluster: &Cluster| {
        let row = row(cluster);
        cluster.record(|graph| match cluster.rank() {
            0 => step(graph, &row),
            _ => Ok(()),
        })?;
        cluster.wait_all()
    };
    for found in run_local(2, 1, program).unwrap() {
        let error = found.unwrap_err().to_string();
        assert!(error.contains("add (datum 1)") && error.contains("wait_all"), "{error}");
    }
}

#[test]
fn handles_of_nobody_are_refused() {
    let program = |cluster: &Cluster| {
        let foreign = cluster.runtime().register(1u64);
        let graph = cluster
            .record(|graph| graph.task("reads").operands((read(&foreign),)).cpu(|_| ()).submit().map(drop));
        let local = cluster.register_local(cluster.rank() as u64 + 10);
        let x = cluster.register_on(1, || 0u64).unwrap();
        let add = |(own, x): (&u64, &mut u64)| *x += own;
        cluster.task("add").operands((read(&local), update(&x))).cpu(add).submit().unwrap();
        (
            matches!(graph, Err(Error::Foreign { .. })),
            cluster.take(x).unwrap(),
            cluster.agree(cluster.rank() as u64 + 7).unwrap(),
        )
    };
    assert_eq!(run_local(2, 1, program).unwrap(), [(true, 11, 7), (true, 11, 7)]);
}

#[test]
fn what_all_ranks_have_is_written_on_all() {
    let program = |cluster: &Cluster| {
        let row = row(cluster);
        let sum = cluster.register_replicated(0u64);
        let graph = cluster.record(|graph| {
            for x in &row {
                let add = |(x, sum): (&[u64], &mut u64)| *sum += x[0];
                graph.task("sum").operands((read(x), update(&sum))).cpu(add).submit()?;
            }
            let scale = |(sum, x): (&u64, &mut [u64])| x[0] = *sum;
            row.iter().try_for_each(|x| {
                graph.task("scale").operands((read(&sum), update(x))).cpu(scale).submit().map(drop)
            })
        });
        let graph = graph.unwrap();
        (0..2).try_for_each(|_| cluster.replay(&graph)).unwrap();
        cluster.wait_all().unwrap();
        let sent = cluster.traffic().sent;
        let mixed = cluster.task("mixed").operands((update(&sum), update(&row[0]))).cpu(|_| ()).submit();
        assert!(mixed.unwrap_err().to_string().contains("make it two tasks"));
        // 1 + 2 + 3, and then three times that more.
        (graph.counts().0, sent, cluster.take(sum).unwrap(), cluster.read(&row[1]).unwrap()[0])
    };
    // Every number goes to the two other ranks, twice; sums go nowhere.
    assert_eq!(run_local(3, 1, program).unwrap(), [(4, 4, 24, 24); 3]);
}

#[test]
fn traces_of_all_ranks_are_one() {
    let program = |cluster: &Cluster| {
        let row = row(cluster);
        let graph = cluster.record(|graph| step(graph, &row)).unwrap();
        (0..3).try_for_each(|_| cluster.replay(&graph)).unwrap();
        cluster.take_trace().unwrap()
    };
    let run = |local: Local| {
        let rt = Runtime::builder().workers(1).bind(false).trace(true).build().unwrap();
        program(&Cluster::new(rt, local).unwrap())
    };
    let traces: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = Local::ranks(3).into_iter().map(|local| scope.spawn(|| run(local))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let [Some(trace), None, None] = &traces[..] else { panic!("the trace is on the first rank") };
    let named = |name: &str| trace.tasks.iter().filter(|task| task.name == name).count();
    assert_eq!((trace.workers.len(), named("add")), (3, 9));
    assert!(named("send") > 0 && named("send") == named("receive"));
    assert_eq!((trace.transfers.len(), trace.nodes.len()), (named("send"), 3));
    // The threads have one clock, so the estimates of the other clocks can be checked.
    let late = trace.tasks.iter().filter(|task| task.name == "receive").filter(|receive| {
        let sends = trace.edges.iter().filter(|(_, to)| *to == receive.id).map(|(from, _)| *from);
        let ends =
            sends.filter_map(|from| trace.tasks.iter().find(|task| task.id == from && task.name == "send"));
        ends.map(|send| send.end_ns).any(|end| receive.start_ns + 2_000_000 < end)
    });
    assert_eq!(late.count(), 0);
}
