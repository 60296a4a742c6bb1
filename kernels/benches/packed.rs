//! Criterion benches of sparse entries in the nearest cache: decoding them (Gelem/s), and panels of
//! one format, compared with a dot product in `f64`.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use zellige_kernels::packed::{PackedFormat, Rounding, pack, unpack};
use zellige_kernels::sell::{Bucket, Elements, PanelWriter, tile_rows};

/// Number of codes that fit into a quarter of the nearest cache, with their values.
const LEN: usize = 1024;

fn decode(c: &mut Criterion) {
    let mut group = c.benchmark_group("packed");
    group.throughput(Throughput::Elements(LEN as u64));
    let values: Vec<f64> = (0..LEN).map(|i| 1.0 + i as f64 / LEN as f64).collect();
    let x = vec![1.5; LEN];
    // The limit: numbers that need no decoding.
    group.bench_function("dot_f64", |bench| {
        bench.iter(|| {
            let mut sums = [0.0; 32];
            for (a, x) in black_box(&values).chunks_exact(32).zip(x.chunks_exact(32)) {
                sums.iter_mut().zip(a.iter().zip(x)).for_each(|(sum, (a, x))| *sum += a * x);
            }
            sums
        })
    });
    let mut out = vec![0.0; LEN];
    for format in PackedFormat::ALL {
        let mut codes = vec![0; LEN * format.bytes()];
        pack(&values, format, Rounding::Nearest, &mut codes).unwrap();
        group.bench_function(format!("unpack_{format}"), |bench| {
            bench.iter(|| unpack(black_box(&codes), format, &mut out))
        });
    }
    group.finish();
}

fn panels(c: &mut Criterion) {
    let mut group = c.benchmark_group("sell");
    for (edge, format) in [1, 3].into_iter().flat_map(|edge| PackedFormat::ALL.map(|format| (edge, format))) {
        if edge > 1 && format.is_scaled() {
            continue;
        }
        let (rows, row) = (tile_rows(edge).min(64 / edge), 32 / edge);
        let mut elements = Elements::default();
        for (i, k) in (0..rows).flat_map(|i| (0..row).map(move |k| (i, k))) {
            elements.push(i as u8, ((3 * i + 7 * k) % 128) as u32, &[1.5; 9][..edge * edge]);
        }
        let mut writer = PanelWriter::new(edge, 0, 128 * edge, 0, &[Bucket::unscaled(format)]).unwrap();
        writer.tile(rows, None, &[elements], Rounding::Nearest).unwrap();
        let panel = writer.finish().unwrap();
        let (x, mut y) = (vec![1.0; 128 * edge], vec![0.0; rows * edge]);
        group.throughput(Throughput::Elements((rows * row * edge * edge) as u64));
        group.bench_function(format!("{edge}x{edge}_{format}"), |bench| {
            bench.iter(|| panel.multiply(black_box(&x), &mut y))
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default().measurement_time(Duration::from_millis(300)).warm_up_time(Duration::from_millis(100)).sample_size(20);
    targets = decode, panels
}
criterion_main!(benches);
