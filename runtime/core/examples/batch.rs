//! Thousands of tiny matrix products, one by one and batched in one call of their codelet.
//!
//! `cargo run --release -p zellige-runtime --example batch`
//!
//! On a CPU core the overhead of a call is negligible, so a batch pays only if the body itself
//! gains from it. On a device every launch has a cost: there it pays at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use zellige_runtime::{
    Batch, Codelet, Emulated, Error, Handle, Read, Runtime, Submit, TaskContext, TaskError, TaskInfo, Update,
    read, update,
};

/// Rows and columns of a tile.
const N: usize = 4;
type Tile = Vec<f32>;

/// `C += A B` for tiles of `N` by `N`, in row-major order.
struct Product {
    /// Maximum number of tasks in one call.
    batch: usize,
    calls: Arc<AtomicUsize>,
}

/// Computes one product; the batch below does the same arithmetic in the same order.
fn product(a: &[f32], b: &[f32], c: &mut [f32]) {
    for (a, c) in a.chunks_exact(N).zip(c.chunks_exact_mut(N)) {
        for (a, b) in a.iter().zip(b.chunks_exact(N)) {
            c.iter_mut().zip(b).for_each(|(c, b)| *c += a * b);
        }
    }
}

impl Codelet for Product {
    type Operands = (Read<Tile>, Read<Tile>, Update<Tile>);

    fn name(&self) -> &'static str {
        "product"
    }

    /// Tasks can share a call if their shapes and labels are equal.
    fn info(&self) -> TaskInfo {
        TaskInfo { flops: 2.0 * (N * N * N) as f64, shape: [N as u32; 3], ..TaskInfo::default() }
    }

    fn cpu(
        &self,
        (a, b, c): (&[f32], &[f32], &mut [f32]),
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        product(a, b, c);
        Ok(())
    }

    fn batch(&self) -> usize {
        self.batch
    }

    /// A real program would call the batched routine of a library here.
    fn cpu_batch(batch: Batch<'_, Self>, _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        batch[0].0.calls.fetch_add(1, Ordering::Relaxed);
        batch.into_iter().for_each(|(_, (a, b, c))| product(a, b, c));
        Ok(())
    }
}

/// Submits all products while a guard blocks them, so that they become ready at once; returns the
/// time of each, and the number of calls.
fn run(
    rt: &Runtime,
    tiles: &[Handle<Tile>],
    rounds: usize,
    batch: usize,
) -> Result<(Duration, usize), Error> {
    let calls = Arc::new(AtomicUsize::new(0));
    let (a, b, c) = (&tiles[0], &tiles[1], &tiles[2..]);
    let submit = |c| rt.submit(Product { batch, calls: Arc::clone(&calls) }, (read(a), read(b), update(c)));
    // Transfers the tiles to the nodes that use them.
    c.iter().try_for_each(|c| submit(c).map(drop))?;
    rt.wait_all()?;
    calls.store(0, Ordering::Relaxed);
    let mut time = Duration::ZERO;
    for _ in 0..rounds {
        let gate = rt.write(a)?;
        c.iter().try_for_each(|c| submit(c).map(drop))?;
        let start = Instant::now();
        drop(gate);
        rt.wait_all()?;
        time += start.elapsed();
    }
    Ok((time / (rounds * c.len()) as u32, calls.load(Ordering::Relaxed)))
}

fn main() -> Result<(), Error> {
    const COUNT: usize = 2000;
    const ROUNDS: usize = 5;
    println!("{} products of {N} x {N} tiles", ROUNDS * COUNT);
    for (name, builder) in [
        ("a CPU worker", Runtime::builder().workers(1)),
        ("a device", Runtime::builder().workers(0).device(Emulated::new(64 << 20))),
    ] {
        let rt = builder.build()?;
        let tile = |i: usize| (0..N * N).map(|at| ((at + i) % 7) as f32).collect::<Tile>();
        let mut results = Vec::new();
        for batch in [1, 64] {
            let tiles: Vec<Handle<Tile>> = (0..COUNT + 2).map(|i| rt.register(tile(i))).collect();
            let (time, calls) = run(&rt, &tiles, ROUNDS, batch)?;
            println!("{name}, at most {batch:2} in one call: {time:?} for each task, {calls} calls");
            results.push(tiles.into_iter().map(|tile| rt.take(tile)).collect::<Result<Vec<_>, _>>()?);
        }
        assert_eq!(results[0], results[1], "the same bits");
    }
    Ok(())
}
