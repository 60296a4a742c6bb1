//! Terms of distances per second: `cargo bench -p zellige-kernels --bench distance`.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use zellige_kernels::distance::{LANES, Metric, Shape, Values, sums};

/// A segment of 1157 points, a batch of 64 events.
const BLOCKS: usize = 73;
const EVENTS: usize = 64;

fn number(i: usize) -> f32 {
    ((i as f32) * 0.618_034).fract()
}

fn distance(c: &mut Criterion) {
    let metrics = [
        ("polynomials", Metric::polynomials(0.3)),
        ("bits", Metric::bits(0.3)),
        ("quarter bits", Metric::quarter_bits()),
        ("fourth root", Metric::power(0.25)),
        ("root", Metric::power(0.5)),
        ("magnitude", Metric::power(1.0)),
        ("square", Metric::power(2.0)),
        ("table of 2 MB", Metric::whole_table(0.3, 1000.0)),
        ("table of 16 KB", Metric::log_table(0.3)),
    ];
    for channels in [2, 10] {
        let shape = Shape { channels, samples: 40 };
        let values: Vec<f32> = (0..BLOCKS * shape.terms() * LANES).map(number).collect();
        let ints: Vec<i16> = values.iter().map(|x| (x * 30_000.0) as i16).collect();
        let events: Vec<f32> = (0..EVENTS * shape.terms()).map(|i| number(i + 7)).collect();
        let mut scratch = vec![0.0; shape.terms() * LANES];
        let mut out = vec![0.0; EVENTS * BLOCKS * LANES];
        let mut group = c.benchmark_group(format!("{channels} channels"));
        group.throughput(Throughput::Elements((values.len() * EVENTS) as u64)).sample_size(10);
        for (name, metric) in &metrics {
            for (format, values) in [("f32", Values::F32(&values)), ("i16", Values::I16(&ints))] {
                group.bench_function(BenchmarkId::new(*name, format), |b| {
                    b.iter(|| {
                        sums(metric, values, shape, black_box(&events), &[], &mut scratch, &mut out)
                            .expect("sizes that fit")
                    });
                });
            }
        }
    }
}

criterion_group!(benches, distance);
criterion_main!(benches);
