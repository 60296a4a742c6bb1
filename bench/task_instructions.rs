//! Runs one graph of empty tasks on one worker, for `scripts/instructions`, which counts its
//! instructions: `task_instructions CASE SIZE`.
//!
//! | case | graph | size |
//! | --- | --- | --- |
//! | `graph3` | tasks that read two tiles of a grid and update one | tasks |
//! | `cholesky` | a Cholesky factorisation | tiles along the diagonal |
//! | `replay-graph3`, `replay-cholesky` | 20 000 tasks or 40 x 40 tiles, recorded once | replays |
//!
//! Submitted tasks are held back until all have been submitted, so that the counts do not depend on
//! which thread is faster.

use zellige_runtime::{Bindings, Error, Handle, Recorder, Runtime, Submit, read, update};

/// Tasks of the recorded `graph3`.
const RECORDED_TASKS: usize = 20_000;
/// Tiles along the diagonal of the recorded factorisation.
const RECORDED_TILES: usize = 40;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [case, size] = &arguments[..] else { return Err("usage: task_instructions CASE SIZE".into()) };
    let size: usize = size.parse()?;
    let rt = Runtime::builder().workers(1).window(1 << 20).build()?;
    let tiles: Vec<Handle<f32>> =
        (0..1024.max(size * (size + 1) / 2).min(8192)).map(|_| rt.register(0.0)).collect();
    match case.as_str() {
        "graph3" => {
            // Every task accesses one of the first 1024 tiles.
            let held = tiles[..1024].iter().map(|tile| rt.write(tile)).collect::<Result<Vec<_>, _>>()?;
            graph3(&rt, &tiles, size)?;
            drop(held);
        }
        "cholesky" => {
            let held = rt.write(&tiles[0])?;
            cholesky(&rt, &tiles, size)?;
            drop(held);
        }
        "replay-graph3" => {
            let graph = rt.record(|g: &Recorder| graph3(g, &tiles, RECORDED_TASKS))?;
            (0..size).try_for_each(|_| rt.replay(&Bindings::recorded(&graph)).map(drop))?;
        }
        "replay-cholesky" => {
            let graph = rt.record(|g: &Recorder| cholesky(g, &tiles, RECORDED_TILES))?;
            (0..size).try_for_each(|_| rt.replay(&Bindings::recorded(&graph)).map(drop))?;
        }
        other => return Err(format!("{other}: no such case").into()),
    }
    rt.wait_all()?;
    Ok(())
}

/// The accesses of a tiled product.
fn graph3<S: Submit>(s: &S, tiles: &[Handle<f32>], tasks: usize) -> Result<(), Error> {
    (0..tasks).try_for_each(|i| {
        let operands = (read(&tiles[(i / 32) % 32]), read(&tiles[32 + i % 32]), update(&tiles[64 + i % 960]));
        s.task("tile").operands(operands).cpu(|(_, _, _)| ()).submit().map(drop)
    })
}

/// The accesses of a Cholesky factorisation of `n x n` tiles.
fn cholesky<S: Submit>(s: &S, tiles: &[Handle<f32>], n: usize) -> Result<(), Error> {
    let tile = |i: usize, j: usize| &tiles[i * (i + 1) / 2 + j];
    for k in 0..n {
        s.task("potrf").operands((update(tile(k, k)),)).cpu(|(_,)| ()).priority(2).submit()?;
        for i in k + 1..n {
            let operands = (read(tile(k, k)), update(tile(i, k)));
            s.task("trsm").operands(operands).cpu(|(_, _)| ()).priority(1).submit()?;
        }
        for i in k + 1..n {
            for j in k + 1..i {
                let operands = (read(tile(i, k)), read(tile(j, k)), update(tile(i, j)));
                s.task("gemm").operands(operands).cpu(|(_, _, _)| ()).submit()?;
            }
            let operands = (read(tile(i, k)), update(tile(i, i)));
            s.task("syrk").operands(operands).cpu(|(_, _)| ()).submit()?;
        }
    }
    Ok(())
}
