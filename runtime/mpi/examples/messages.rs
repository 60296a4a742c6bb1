//! Measures the cost of messages over MPI: `mpirun -n 2 messages`. A value goes back and forth
//! between two ranks, as tasks; then both ranks wait for five seconds, and print the CPU share of
//! their process (Linux).

use std::time::{Duration, Instant};

use zellige_mpi::{Cluster, Mpi};
use zellige_runtime::{Error, Runtime, Submit, read, update};

/// Returns the time per direction in seconds, for `directions` transfers of a value of this size.
fn round_trips(cluster: &Cluster, numbers: usize, directions: usize) -> Result<f64, Error> {
    let values = [0, 1].map(|rank| cluster.register_on(rank, || vec![1.0f64; numbers]));
    let [a, b] = values;
    let values = [a?, b?];
    cluster.wait_all()?;
    let begin = Instant::now();
    for direction in 0..directions {
        let (from, to) = (&values[direction % 2], &values[(direction + 1) % 2]);
        let add = |(from, to): (&[f64], &mut [f64])| to[0] += from[0];
        cluster.task("add").operands((read(from), update(to))).cpu(add).submit()?;
    }
    cluster.wait_all()?;
    Ok(begin.elapsed().as_secs_f64() / directions as f64)
}

/// CPU seconds of this process, in hundredths.
fn cpu() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The fields after the name, which may contain spaces.
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some(ticks / 100.0)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mpi = Mpi::initialize()?;
    if mpi.ranks() < 2 {
        return Err("two ranks are needed: mpirun -n 2".into());
    }
    let runtime = Runtime::builder().workers(1).bind(false).build()?;
    let cluster = Cluster::new(runtime, mpi.transport()?)?;
    for (numbers, directions) in [(1, 2000), (1 << 17, 200), (1 << 20, 50)] {
        let seconds = round_trips(&cluster, numbers, directions)?;
        if cluster.rank() == 0 {
            println!("{:>8} bytes: {:.1} us for each direction, task included", 8 * numbers, 1e6 * seconds);
        }
    }
    let before = cpu();
    std::thread::sleep(Duration::from_secs(5));
    if let (Some(before), Some(after)) = (before, cpu()) {
        println!("rank {}, idle: {:.1} % of a core", cluster.rank(), (after - before) / 5.0 * 100.0);
    }
    Ok(cluster.wait_all()?)
}
