//! Decoding rates of entries in each format, and times of products with several vectors relative to
//! one: `cargo run --release -p zellige-bench --example packed_rates`.
//!
//! Times are CPU times of the calling thread, so that other processes have little effect. All cases
//! are timed in turn; the figures are medians of 41 rounds.

use std::hint::black_box;

use zellige_kernels::packed::{PackedFormat, Rounding, pack, unpack};
use zellige_kernels::sell::{Bucket, Elements, Panel, PanelWriter, tile_rows};
use zellige_measure::{cpu_seconds, median};

const ROUNDS: usize = 41;
/// Numbers that, with their codes, half of the nearest cache holds (32 KiB).
const LEN: usize = 1024;

fn main() {
    println!("{:<9} {:>9}", "format", "Gelem/s");
    let values: Vec<f64> = (0..LEN).map(|i| 1.0 + i as f64 / LEN as f64).collect();
    let mut out = vec![0.0; LEN];
    let codes = PackedFormat::ALL.map(|format| {
        let mut codes = vec![0; LEN * format.bytes()];
        pack(&values, format, Rounding::Nearest, &mut codes).expect("lengths that fit");
        codes
    });
    let rates = medians(PackedFormat::ALL.len(), |at| {
        let seconds = seconds(2000, || {
            unpack(black_box(&codes[at]), PackedFormat::ALL[at], black_box(&mut out))
                .expect("lengths that fit");
        });
        LEN as f64 / seconds / 1e9
    });
    PackedFormat::ALL.iter().zip(rates).for_each(|(format, rate)| println!("{format:<9} {rate:>9.2}"));
    println!("\n{:<30} {:>6} {:>6} {:>6} {:>6}", "ns per element and vector", 1, 2, 4, 8);
    for (edge, row) in [(1, 7), (1, 27), (1, 81), (2, 14), (3, 27), (4, 20)] {
        for format in [PackedFormat::Fp64, PackedFormat::Rp40, PackedFormat::Fp32, PackedFormat::Rp16] {
            several(edge, row, format);
        }
    }
}

/// Products with four tiles of rows of so many elements in blocks, whose columns lie around the
/// diagonal as those of a grid do.
fn several(edge: usize, row: usize, format: PackedFormat) {
    let (rows, columns) = (4 * tile_rows(edge), 4000);
    let panel = panel(edge, row, format, columns);
    let elements = (rows * row * edge * edge) as f64;
    let x = vec![1.0; 8 * columns * edge];
    let mut y = vec![0.0; 8 * rows * edge];
    let times = medians(4, |at| {
        let count = 1 << at;
        let (x, y) = (&x[..count * columns * edge], &mut y[..count * rows * edge]);
        let seconds = seconds(1 + 300_000 / (elements as usize * count), || {
            panel.multiply_many(count, black_box(x), y).expect("lengths that fit");
        });
        1e9 * seconds / elements / count as f64
    });
    print!("{:<30}", format!("{format}, {edge} x {edge}, {row} a row"));
    times.iter().for_each(|time| print!(" {time:>6.3}"));
    println!();
}

fn panel(edge: usize, row: usize, format: PackedFormat, columns: usize) -> Panel {
    let mut writer =
        PanelWriter::new(edge, 0, columns * edge, 0, &[Bucket::unscaled(format)]).expect("an edge");
    for tile in 0..4 {
        let mut elements = Elements::default();
        for (i, k) in (0..tile_rows(edge)).flat_map(|i| (0..row).map(move |k| (i, k))) {
            // Every other row is shifted, so that steps are no runs.
            let column = (tile * tile_rows(edge) + i + 37 * k + 3 * (i % 2)) % columns;
            elements.push(i as u8, column as u32, &[1.5; 16][..edge * edge]);
        }
        writer.tile(tile_rows(edge), None, &[elements], Rounding::Nearest).expect("elements that fit");
    }
    writer.finish().expect("a panel")
}

/// The medians of some figures, each measured in turn.
fn medians(count: usize, mut figure: impl FnMut(usize) -> f64) -> Vec<f64> {
    let mut all = vec![Vec::new(); count];
    for _ in 0..ROUNDS {
        all.iter_mut().enumerate().for_each(|(at, all)| all.push(figure(at)));
    }
    all.into_iter().map(median).collect()
}

/// CPU time of this thread for one of so many calls.
fn seconds(calls: usize, mut call: impl FnMut()) -> f64 {
    cpu_seconds(|| (0..calls).for_each(|_| call())) / calls as f64
}
