//! Record a graph once, inspect it, and run it many times: on the handles of the recording, or on
//! others.
//!
//! `cargo run --release -p zellige-runtime --example record_replay`

use std::time::{Duration, Instant};

use zellige_runtime::{Bindings, Error, Handle, Recorder, Runtime, Submit, read, update};

const BLOCKS: usize = 64;

/// Submits one sweep over a chain of blocks: each becomes the mean of itself and its neighbours.
/// The function works for a runtime as well as for a recorder.
fn sweep<S: Submit>(s: &S, from: &[Handle<f64>], to: &[Handle<f64>]) -> Result<(), Error> {
    for b in 1..BLOCKS - 1 {
        let operands = (read(&from[b - 1]), read(&from[b]), read(&from[b + 1]), update(&to[b]));
        s.task("mean")
            .operands(operands)
            .cpu(|(left, here, right, out)| *out = (left + here + right) / 3.0)
            .coords([b as u32])
            .submit()?;
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    let rt = Runtime::new()?;
    let value = |b: usize| if b == BLOCKS / 2 { 1.0 } else { 0.0 };
    let a: Vec<_> = (0..BLOCKS).map(|b| rt.register(value(b)).named(format!("a{b}"))).collect();
    let b: Vec<_> = (0..BLOCKS).map(|b| rt.register(value(b)).named(format!("b{b}"))).collect();

    let graph = rt.record(|g: &Recorder| {
        sweep(g, &a, &b)?;
        sweep(g, &b, &a)
    })?;
    println!("{} tasks, {} one after the other, {} side by side", graph.len(), graph.depth(), graph.width());
    let microsecond = |_: &_| Duration::from_micros(1);
    println!("no schedule is shorter than {:?} if each takes 1 us", graph.critical_path(microsecond));

    // No dependency analysis from here on: counters are only set and counted down.
    let bind = Bindings::recorded(&graph);
    let start = Instant::now();
    for _ in 0..1000 {
        rt.replay(&bind)?;
    }
    rt.wait_all()?;
    let per_task = start.elapsed() / (1000 * graph.len() as u32);
    println!("1000 replays: {per_task:?} per task, middle value {:.6}", *rt.read(&a[BLOCKS / 2])?);

    // The same graph with another first block.
    let hot = rt.register(100.0);
    rt.replay(&graph.bind("a0", &hot)?)?;
    println!("beside a hot end: {:.6}", *rt.read(&a[2])?);
    Ok(())
}
