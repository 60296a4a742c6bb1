//! First steps: handles, tasks, implicit dependencies, failures, and a look at the trace.
//!
//! `cargo run --release -p zellige-runtime --example first_graph`

use zellige_runtime::{Runtime, Submit, commute, read, update, write};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // One worker per core; `trace` records the run.
    let rt = Runtime::builder().trace(true).build()?;
    println!("{rt:?}");

    // A vector cut into four blocks, each with a name of its own.
    let blocks: Vec<_> =
        (0..4).map(|b| rt.register_empty::<Vec<f64>>().named(format!("block {b}"))).collect();
    let sum = rt.register(0.0f64).named("sum");

    for (b, block) in blocks.iter().enumerate() {
        let start = (b * 1000) as f64;
        // `write`: the value does not exist before, the body creates it.
        rt.task("fill")
            .operands((write(block),))
            .cpu(move |(mut block,)| block.put((0..1000).map(|i| start + i as f64).collect()))
            .coords([b as u32])
            .submit()?;
        // `update`: waits for the task above, because it names the same handle.
        rt.task("scale")
            .operands((update(block),))
            .cpu(|(block,)| block.iter_mut().for_each(|x| *x *= 0.5))
            .coords([b as u32])
            .submit()?;
        // `commute`: the four additions wait for their blocks, not for each other.
        rt.task("add")
            .operands((read(block), commute(&sum)))
            .cpu(|(block, sum)| *sum += block.iter().sum::<f64>())
            .coords([b as u32])
            .submit()?;
    }
    // `take` waits for the producers of `sum` only.
    println!("sum of 0, 0.5, 1, ... 1999.5: {}", rt.take(sum)?);

    // A failure poisons all data that depend on it.
    let broken = rt.register(1.0f64).named("broken");
    rt.task("divide")
        .operands((update(&broken),))
        .cpu(|(x,)| if *x > 0.0 { Err("no divisor") } else { Ok(()) })
        .submit()?;
    if let Err(error) = rt.read(&broken) {
        println!("as expected: {error}");
    }
    println!("block 3 is still there: {:?}", &rt.read(&blocks[3])?[..2]);

    // A wait for all tasks reports the failure once more.
    if let Err(error) = rt.wait_all() {
        println!("as expected, too: {error}");
    }
    if let Some(trace) = rt.take_trace() {
        println!("{}", trace.report());
    }
    Ok(())
}
