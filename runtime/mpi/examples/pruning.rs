//! Measures the cost of a task on the ranks that do not run it, and on those that do: two ranks
//! submit the same tasks, all of which run on the second. The measure is the processor time of the
//! submitting threads (Linux), which is independent of the machine's load.

use zellige_mpi::{Cluster, run_local};
use zellige_runtime::{Error, Submit, read, update};

const TASKS: usize = 200_000;

/// Nanoseconds that this thread has run.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split_whitespace().next().and_then(|time| time.parse().ok()).unwrap_or(f64::NAN)
}

fn program(cluster: &Cluster) -> Result<f64, Error> {
    let data: Vec<_> = (0..64).map(|_| cluster.register_on(1, || 1.0f64)).collect::<Result<_, _>>()?;
    let body = |(a, b, c): (&f64, &f64, &mut f64)| *c += a * b;
    let submit = |task: usize| {
        let [a, b, c] = [task * 7 + 1, task * 5 + 2, task].map(|datum| &data[datum % 64]);
        let operands = (read(a), read(b), update(c));
        cluster.task("gemm").operands(operands).cpu(body).coords([task as u32]).submit().map(drop)
    };
    let usable = |task: &usize| {
        let places = [task * 7 + 1, task * 5 + 2, *task].map(|datum| datum % 64);
        places[2] != places[0] && places[2] != places[1]
    };
    let tasks: Vec<usize> = (0..TASKS).filter(usable).collect();
    let begin = cpu();
    tasks.iter().try_for_each(|&task| submit(task))?;
    let time = (cpu() - begin) / tasks.len() as f64;
    cluster.wait_all()?;
    Ok(time)
}

fn main() -> Result<(), Error> {
    for _ in 0..3 {
        let times = run_local(2, 1, program)?.into_iter().collect::<Result<Vec<f64>, Error>>()?;
        println!("{:.0} ns for a task of another rank, {:.0} ns for one that runs here", times[0], times[1]);
    }
    Ok(())
}
