//! Random graphs on one to four ranks, threads of this process, of one and two workers.

use zellige_mpi::{Cluster, Local, Traffic, run_local};
use zellige_runtime::{Emulated, Runtime, RuntimeBuilder};
use zellige_tests::amount;

use crate::programs::deferred::a_rank_that_has_ended_sends_what_is_requested;
use crate::programs::graphs::{Case, run};
use crate::programs::moves::bytes_of;

/// Runs a program on ranks whose runtimes are built with these options.
fn run_ranks(
    ranks: usize,
    builder: impl Fn() -> RuntimeBuilder + Sync,
    program: impl Fn(&Cluster) -> Traffic + Sync,
) -> Vec<Traffic> {
    let (builder, program) = (&builder, &program);
    std::thread::scope(|scope| {
        let run = |local| {
            scope
                .spawn(move || program(&Cluster::new(builder().bind(false).build().unwrap(), local).unwrap()))
        };
        let threads: Vec<_> = Local::ranks(ranks).into_iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Runs a program on ranks whose runtimes have a device with memory of its own.
fn run_on_devices(ranks: usize, program: impl Fn(&Cluster) -> Traffic + Sync) -> Vec<Traffic> {
    run_ranks(ranks, || Runtime::builder().workers(1).device(Emulated::new(1 << 16)), program)
}

#[test]
fn devices_with_memory_of_their_own_change_nothing() {
    for seed in 1_000_000..1_000_000 + amount(60) as u64 {
        let case = Case::new(seed);
        for ranks in 2..=3 {
            let traffic = run_on_devices(ranks, |cluster| run(cluster, &case));
            let sent: u64 = traffic.iter().map(|traffic| traffic.sent_bytes).sum();
            let wanted = bytes_of(&case, ranks, true);
            assert!(wanted.contains(&sent), "seed {seed}, {ranks} ranks: {sent} bytes moved, not {wanted:?}");
        }
    }
}

#[test]
fn ranks_with_devices_send_after_their_end_what_is_requested() {
    run_on_devices(2, |cluster| {
        a_rank_that_has_ended_sends_what_is_requested(cluster);
        cluster.traffic()
    });
}

/// Submitting threads wait all the time, each for tasks of its own.
#[test]
fn ranks_with_small_windows_do_not_block_one_another() {
    for seed in 3_000_000..3_000_000 + amount(60) as u64 {
        let case = Case::new(seed);
        let window = 1 + seed as usize % 4;
        for ranks in 2..=4 {
            run_ranks(ranks, || Runtime::builder().workers(1).window(window), |cluster| run(cluster, &case));
        }
    }
}

#[test]
fn values_that_go_through_others_are_those_of_one_process() {
    for seed in 2_000_000..2_000_000 + amount(40) as u64 {
        let case = Case::new(seed);
        for ranks in [6, 11] {
            let traffic = run_local(ranks, 1, |cluster| run(cluster, &case)).unwrap();
            let sent: u64 = traffic.iter().map(|traffic| traffic.sent_bytes).sum();
            let wanted = bytes_of(&case, ranks, false);
            assert!(wanted.contains(&sent), "seed {seed}, {ranks} ranks: {sent} bytes moved, not {wanted:?}");
        }
    }
}

#[test]
fn random_graphs_are_those_of_one_process() {
    let mut moved = 0;
    for seed in 0..amount(60) as u64 {
        let case = Case::new(seed);
        for ranks in 1..=4 {
            for workers in 1..=2 {
                let traffic = run_local(ranks, workers, |cluster| run(cluster, &case)).unwrap();
                let wanted = bytes_of(&case, ranks, false);
                let sent: u64 = traffic.iter().map(|traffic| traffic.sent_bytes).sum();
                let received: u64 = traffic.iter().map(|traffic| traffic.received_bytes).sum();
                assert_eq!(sent, received, "seed {seed}, {ranks} ranks: bytes that moved");
                assert!(
                    wanted.contains(&sent),
                    "seed {seed}, {ranks} ranks: {sent} bytes moved, not {wanted:?}"
                );
                moved += sent;
            }
        }
    }
    assert!(moved > 0);
}
