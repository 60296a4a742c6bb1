//! Fibonacci numbers by recursion: each task submits two others and waits for their results.
//!
//! `cargo run --release -p zellige-runtime --example fibonacci [N [WORKERS]]`

use std::sync::{Arc, Weak};
use std::time::Instant;

use zellige_runtime::{Error, Handle, Runtime, Slot, Submit, write};

/// Submits a task that computes the `n`-th number, and returns the handle of the result.
fn submit(rt: &Runtime, this: &Weak<Runtime>, n: u32) -> Result<Handle<u64>, Error> {
    let (out, this) = (rt.register_empty(), this.clone());
    let body = move |(mut out,): (Slot<'_, u64>,)| {
        out.put(fibonacci(&this, n)?);
        Ok::<(), Error>(())
    };
    rt.task("fibonacci").operands((write(&out),)).cpu(body).submit()?;
    Ok(out)
}

fn fibonacci(this: &Weak<Runtime>, n: u32) -> Result<u64, Error> {
    if n < 2 {
        return Ok(n.into());
    }
    let rt = this.upgrade().expect("main holds the runtime");
    let (a, b) = (submit(&rt, this, n - 1)?, submit(&rt, this, n - 2)?);
    // A waiting body runs the tasks that it has submitted itself; a spare thread runs others
    // meanwhile.
    Ok(rt.take(a)? + rt.take(b)?)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let n = args.next().map_or(Ok(20), |text| text.parse())?;
    let workers = args.next().map_or(Ok(2), |text| text.parse())?;
    let rt = Arc::new(Runtime::builder().workers(workers).build()?);
    let start = Instant::now();
    let value = rt.take(submit(&rt, &Arc::downgrade(&rt), n)?)?;
    println!("{workers} workers: fibonacci({n}) = {value} in {:.3} s", start.elapsed().as_secs_f64());
    Ok(())
}
