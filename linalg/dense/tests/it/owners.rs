//! Data movement of a factorisation when every tile has a fixed owner: mixed precision against
//! float32, with real bytes.

use std::time::Duration;

use zellige_dense::{Generator, Owners, Rule, SharedPolicy, SymmetricTiled, TileGrid, cholesky, generator};
use zellige_runtime::{Emulated, Runtime};

const N: usize = 24 * TILE;
const TILE: usize = 16;
const DEVICES: usize = 4;

/// Returns a generator of a symmetric, diagonally dominant matrix whose entries decrease with the
/// distance.
fn entries() -> Generator<f32> {
    generator(|rows, cols, out: &mut [f32], ld: usize| {
        for (j, col) in cols.enumerate() {
            for (i, row) in rows.clone().enumerate() {
                let off = 1.0 / (1.0 + row.abs_diff(col) as f32);
                out[i + j * ld] = if row == col { 20.0 } else { off };
            }
        }
    })
}

/// Bytes between memory nodes, for a factorisation on devices of `capacity` bytes in blocks of 4
/// tiles.
fn moved(rule: &str, capacity: u64) -> u64 {
    let mut builder = Runtime::builder()
        .workers(0)
        .policy_with(Owners::new(DEVICES).blocks(4))
        .peers(1e11)
        .watchdog(Some(Duration::from_secs(60)))
        .on_stall(|text| {
            eprintln!("stalled: {text}");
            std::process::abort();
        });
    for _ in 0..DEVICES {
        builder = builder.device(Emulated::new(capacity));
    }
    let rt = builder.build().unwrap();
    let a = SymmetricTiled::generate(&rt, TileGrid::uniform(N, TILE).unwrap(), &entries()).unwrap();
    // Written on the host, every tile is there and nowhere else.
    for handle in a.handles() {
        drop(rt.write(handle).unwrap());
    }
    let came = || rt.memory().iter().map(|node| node.bytes_in).sum::<u64>();
    let before = came();
    let policy: SharedPolicy = rule.parse::<Rule>().unwrap().into();
    // Nothing begins before all is submitted, as where tasks take longer than submitting them.
    let first = rt.write(&a.handles()[0]).unwrap();
    let factor = cholesky(&rt, &a, &policy).unwrap();
    drop(first);
    factor.wait(&rt).unwrap();
    came() - before
}

#[test]
fn on_one_owner_map_mixed_precision_moves_fewer_bytes() {
    let tiles = (N / TILE) as u64;
    let matrix = tiles * (tiles + 1) / 2 * (TILE * TILE * 4) as u64;
    // The matrix fits each device, or 30 % of it fit all four in total.
    for capacity in [2 * matrix, matrix * 3 / 40] {
        let single = moved("fp32", capacity);
        for rule in ["hp1", "hp1:band=2", "hp1:operand=1e-2"] {
            let mixed = moved(rule, capacity);
            assert!(mixed < single, "{rule}, devices of {capacity} bytes: {mixed}, fp32 {single}");
        }
    }
}
