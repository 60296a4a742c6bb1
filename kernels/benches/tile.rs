//! Criterion benches of the tile kernels and conversions; the ratios to GEMM and to a copy are
//! printed by the example `tile_rates`, which measures them in turn in one run.

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use zellige_kernels::formats::{
    Fp8Mut, Fp8Ref, HalfKind, HalfMut, HalfRef, pack_fp8, pack_half, pack_split, unpack_fp8, unpack_half,
};
use zellige_kernels::precision::{
    GemmPrecision, Sign, gemm_fp8, gemm_half, gemm_hp2, gemm_hp3, gemm_tf32, scratch_len,
};
use zellige_kernels::{MatMut, MatRef, Op, Scalar, gemm, potrf_lower, syrk_lower, trsm_right_lower};

fn spd<T: Scalar>(n: usize) -> Vec<T> {
    let entry = |i: usize, j: usize| {
        if i == j { n as f64 } else { 1.0 / (1 + i.abs_diff(j)) as f64 }
    };
    (0..n * n).map(|e| T::from_f64(entry(e % n, e / n))).collect()
}

fn tiles<T: Scalar>(c: &mut Criterion) {
    for n in [128, 256, 512] {
        let a = spd::<T>(n);
        let mut l = a.clone();
        potrf_lower(MatMut::new(&mut l, n, n, n).unwrap()).unwrap();
        let mut x = a.clone();
        let view = |x| MatRef::new(x, n, n, n).unwrap();
        let tiny = T::from_f64(-1e-9);
        let cube = (n as u64).pow(3);
        let mut group = c.benchmark_group(format!("{}/{n}", T::FORMAT));
        // "Elements" are flops.
        group.throughput(Throughput::Elements(2 * cube));
        group.bench_function("gemm", |bench| {
            bench.iter(|| {
                let x = MatMut::new(&mut x, n, n, n).unwrap();
                gemm(tiny, view(&a), Op::None, view(&a), Op::Trans, T::ONE, x)
            })
        });
        group.throughput(Throughput::Elements(cube));
        group.bench_function("syrk", |bench| {
            bench.iter(|| syrk_lower(tiny, view(&a), T::ONE, MatMut::new(&mut x, n, n, n).unwrap()))
        });
        for (name, op) in [("trsm_trans", Op::Trans), ("trsm_none", Op::None)] {
            group.bench_function(name, |bench| {
                bench.iter(|| {
                    x.copy_from_slice(&a);
                    trsm_right_lower(op, view(&l), MatMut::new(&mut x, n, n, n).unwrap())
                })
            });
        }
        group.throughput(Throughput::Elements(cube / 3));
        group.bench_function("potrf", |bench| {
            bench.iter(|| {
                x.copy_from_slice(&a);
                potrf_lower(MatMut::new(&mut x, n, n, n).unwrap())
            })
        });
        group.finish();
    }
}

fn conversions(c: &mut Criterion) {
    let n = 512;
    let src = spd::<f32>(n);
    let view = MatRef::new(&src, n, n, n).unwrap();
    let (mut hi, mut lo, mut wide) = (vec![0u16; n * n], vec![0u16; n * n], vec![0f32; n * n]);
    let mut group = c.benchmark_group("convert/512");
    group.throughput(Throughput::Bytes(8 * (n * n) as u64));
    group.bench_function("copy", |bench| bench.iter(|| wide.copy_from_slice(black_box(&src))));
    group.throughput(Throughput::Bytes(6 * (n * n) as u64));
    for kind in [HalfKind::F16, HalfKind::BF16] {
        group.bench_function(format!("pack_{}", kind.format()), |bench| {
            bench.iter(|| pack_half(view, HalfMut::new(&mut hi, n, n, n, kind, 9).unwrap()))
        });
        group.bench_function(format!("unpack_{}", kind.format()), |bench| {
            bench.iter(|| {
                let half = HalfRef::new(&hi, n, n, n, kind, 9).unwrap();
                unpack_half(half, MatMut::new(&mut wide, n, n, n).unwrap())
            })
        });
    }
    let mut low = vec![0u8; n * n];
    group.throughput(Throughput::Bytes(5 * (n * n) as u64));
    group.bench_function("pack_e4m3", |bench| {
        bench.iter(|| pack_fp8(view, Fp8Mut::new(&mut low, n, n, n, 1).unwrap()))
    });
    group.bench_function("unpack_e4m3", |bench| {
        bench.iter(|| {
            let fp8 = Fp8Ref::new(&low, n, n, n, 1).unwrap();
            unpack_fp8(fp8, MatMut::new(&mut wide, n, n, n).unwrap())
        })
    });
    group.throughput(Throughput::Bytes(8 * (n * n) as u64));
    group.bench_function("split", |bench| {
        bench.iter(|| {
            let (hi, lo) = (MatMut::new(&mut hi, n, n, n), MatMut::new(&mut lo, n, n, n));
            pack_split(view, -5, hi.unwrap(), lo.unwrap())
        })
    });
    group.finish();
}

fn low_precision(c: &mut Criterion) {
    let n = 256;
    let src = spd::<f32>(n);
    let view = MatRef::new(&src, n, n, n).unwrap();
    let mut bits = vec![0u16; n * n];
    let f16 = HalfKind::F16;
    pack_half(view, HalfMut::new(&mut bits, n, n, n, f16, 8).unwrap()).unwrap();
    let half = HalfRef::new(&bits, n, n, n, f16, 8).unwrap();
    let mut out = src.clone();
    let mut scratch = vec![0.0; scratch_len(GemmPrecision::Hp3, n, n, n)];
    let mut group = c.benchmark_group("precision/256");
    group.throughput(Throughput::Elements(2 * (n as u64).pow(3)));
    group.bench_function("hp1", |bench| {
        bench.iter(|| {
            let out = MatMut::new(&mut out, n, n, n).unwrap();
            gemm_half(Sign::Minus, half, half, Op::Trans, out, &mut scratch)
        })
    });
    let mut bytes = vec![0u8; n * n];
    pack_fp8(view, Fp8Mut::new(&mut bytes, n, n, n, 0).unwrap()).unwrap();
    let fp8 = Fp8Ref::new(&bytes, n, n, n, 0).unwrap();
    group.bench_function("fp8", |bench| {
        bench.iter(|| {
            let out = MatMut::new(&mut out, n, n, n).unwrap();
            gemm_fp8(Sign::Minus, fp8, fp8, Op::Trans, out, &mut scratch)
        })
    });
    group.bench_function("tf32", |bench| {
        bench.iter(|| {
            let out = MatMut::new(&mut out, n, n, n).unwrap();
            gemm_tf32(Sign::Minus, view, view, Op::Trans, out, &mut scratch)
        })
    });
    for (name, product) in
        [("hp2", gemm_hp2 as fn(_, _, _, _, &mut HalfMut<'_>, &mut [f32]) -> _), ("hp3", gemm_hp3)]
    {
        let mut low = bits.clone();
        group.bench_function(name, |bench| {
            bench.iter(|| {
                let mut c = HalfMut::new(&mut low, n, n, n, f16, 16).unwrap();
                product(Sign::Minus, half, half, Op::Trans, &mut c, &mut scratch)
            })
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(400));
    targets = tiles::<f32>, tiles::<f64>, conversions, low_precision
}
criterion_main!(benches);
