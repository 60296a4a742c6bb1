//! Prints what an empty task costs on this machine: `cargo run --release -p zellige-runtime --example task_costs`.

use zellige_runtime::bench::TaskBench;

fn main() -> Result<(), zellige_runtime::Error> {
    println!("CPU time per empty task [us], all threads of the process together");
    for workers in [1, 2] {
        let costs = TaskBench { workers, repeats: 3, ..TaskBench::default() }.run()?;
        println!(
            "{workers} workers: independent {:.3}, chain {:.3}, graph3 {:.3}, cholesky {:.3}, replay {:.3}, replay of cholesky {:.3}",
            costs.independent,
            costs.chain,
            costs.graph3,
            costs.cholesky_empty,
            costs.replay,
            costs.replay_cholesky
        );
    }
    Ok(())
}
