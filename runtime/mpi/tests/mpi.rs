//! The programs that ranks of one process run, and random graphs, on the ranks that mpirun has
//! started; `make mpi` runs it on two and on four. With the argument `killed` the last rank is
//! killed while the others wait for it.

mod programs;

use programs::graphs::{Case, run};
use programs::moves::bytes_of;
use zellige_mpi::{Cluster, Mpi};
use zellige_runtime::{Runtime, Submit, read, update};
use zellige_tests::amount;

fn cluster(mpi: &Mpi, workers: usize) -> Cluster {
    let runtime = Runtime::builder().workers(workers).bind(false).build().unwrap();
    Cluster::new(runtime, mpi.transport().unwrap()).unwrap()
}

/// The sum over all ranks.
fn total(cluster: &Cluster, own: u64) -> u64 {
    let parts: Vec<_> = (0..cluster.ranks()).map(|rank| cluster.register_on(rank, || own).unwrap()).collect();
    parts.into_iter().map(|part| cluster.take(part).unwrap()).sum()
}

/// Runs random graphs, which print nothing if all is well; returns the number of bytes moved.
fn random_graphs(mpi: &Mpi) -> u64 {
    let mut moved = 0;
    for seed in 0..amount(500) as u64 {
        let case = Case::new(seed);
        for workers in 1..=2 {
            let cluster = cluster(mpi, workers);
            let traffic = run(&cluster, &case);
            let sums = [traffic.sent_bytes, traffic.received_bytes].map(|own| total(&cluster, own));
            assert_eq!(sums[0], sums[1], "seed {seed}: bytes that moved");
            let wanted = bytes_of(&case, mpi.ranks(), false);
            assert!(wanted.contains(&sums[0]), "seed {seed}: {sums:?} bytes moved, not {wanted:?}");
            moved += sums[0];
        }
    }
    moved
}

/// The last rank ends without a message, and mpirun ends the others, which wait for it.
fn killed(mpi: &Mpi) {
    let cluster = cluster(mpi, 1);
    let x = cluster.register_on(0, || 1u64).unwrap();
    let y = cluster.register_on(mpi.ranks() - 1, || 1u64).unwrap();
    cluster.wait_all().unwrap();
    if cluster.rank() == mpi.ranks() - 1 {
        std::process::Command::new("kill").args(["-9", &std::process::id().to_string()]).status().unwrap();
    }
    let add = |(y, x): (&u64, &mut u64)| *x += y;
    cluster.task("add").operands((read(&y), update(&x))).cpu(add).submit().unwrap();
    cluster.wait_all().unwrap();
    println!("rank {} has heard of nothing", cluster.rank());
}

fn main() {
    let mpi = Mpi::initialize().unwrap();
    assert!(Mpi::initialize().is_err(), "a second time");
    if std::env::args().any(|argument| argument == "killed") {
        return killed(&mpi);
    }
    let say = |what: &str| {
        if mpi.rank() == 0 {
            println!("{what}: ok on {} rank(s)", mpi.ranks());
        }
    };
    for (name, fewest, program) in programs::ALL {
        if mpi.ranks() >= *fewest {
            for workers in 1..=2 {
                let cluster = cluster(&mpi, workers);
                assert!(mpi.transport().is_err(), "it carries one cluster at a time");
                program(&cluster);
            }
            say(name);
        }
    }
    let moved = random_graphs(&mpi);
    assert_eq!(moved > 0, mpi.ranks() > 1);
    say(&format!("random graphs ({moved} bytes moved)"));
}
