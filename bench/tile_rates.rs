//! Rates of the tile kernels with one thread, and their ratio to GEMM on the same tile, measured in
//! turn in one run; then the conversions against a copy of the same bytes.
//!
//! `cargo run --release -p zellige-bench --example tile_rates`

use std::hint::black_box;
use std::time::{Duration, Instant};

use zellige_kernels::formats::{
    Fp8Mut, Fp8Ref, HalfKind, HalfMut, HalfRef, SplitRef, frobenius_norm, max_abs, pack_fp8, pack_half,
    pack_split, unpack_fp8, unpack_half,
};
use zellige_kernels::precision::{
    GemmPrecision, PanelPrecision, Sign, gemm_fp8, gemm_half, gemm_hp2, gemm_hp3, gemm_tf32, gemm_x3,
    scratch_len, syrk_lower_tf32, syrk_lower_x3, syrk_scratch_len, trsm_right_lower_in, trsm_scratch_len,
};
use zellige_kernels::{
    KernelError, MatMut, MatRef, Op, Scalar, gemm, potrf_lower, syrk_lower, trsm_left_lower, trsm_right_lower,
};
use zellige_measure::median;

type Outcome = Result<(), KernelError>;

/// A case: its flops or bytes per call, and a function that times one call of the kernel alone.
struct Entry<'a> {
    name: &'a str,
    work: f64,
    once: Box<dyn FnMut() -> Result<Duration, KernelError> + 'a>,
}

fn entry<'a>(name: &'a str, work: f64, mut run: impl FnMut() -> Outcome + 'a) -> Entry<'a> {
    let once = Box::new(move || {
        let start = Instant::now();
        run()?;
        Ok(start.elapsed())
    });
    Entry { name, work, once }
}

/// Work per nanosecond of each entry: the median of rounds that go through all entries in turn.
fn measure(entries: &mut [Entry<'_>]) -> Result<Vec<f64>, KernelError> {
    let rounds = 41;
    let mut times = vec![Vec::with_capacity(rounds); entries.len()];
    for _ in 0..rounds {
        for (entry, times) in entries.iter_mut().zip(&mut times) {
            // Several calls a round; the first one meets a cold cache and is left out.
            let calls = (2e7 / entry.work).clamp(2.0, 50.0) as usize;
            (entry.once)()?;
            let mut sum = Duration::ZERO;
            for _ in 0..calls {
                sum += (entry.once)()?;
            }
            times.push(sum.as_secs_f64() / calls as f64);
        }
    }
    Ok(entries.iter().zip(times).map(|(entry, times)| entry.work / median(times) / 1e9).collect())
}

/// A tile that begins on a page, as the tiles of tiled matrices do. A large `Vec` starts 16 bytes
/// after the begin of a page, and some kernels are up to 5 % slower there.
struct Tile<T> {
    memory: Vec<T>,
    start: usize,
    n: usize,
}

impl<T: Scalar> Tile<T> {
    fn new(n: usize, value: impl Fn(usize, usize) -> f64) -> Self {
        let page = 4096 / size_of::<T>();
        let memory = vec![T::ZERO; n * n + page];
        let start = memory.as_ptr().align_offset(4096);
        let mut tile = Self { memory, start, n };
        for (e, x) in tile.values().iter_mut().enumerate() {
            *x = T::from_f64(value(e % n, e / n));
        }
        tile
    }

    fn values(&mut self) -> &mut [T] {
        &mut self.memory[self.start..][..self.n * self.n]
    }

    fn view(&self) -> Result<MatRef<'_, T>, KernelError> {
        MatRef::new(&self.memory[self.start..], self.n, self.n, self.n)
    }

    fn view_mut(&mut self) -> Result<MatMut<'_, T>, KernelError> {
        let n = self.n;
        MatMut::new(self.values(), n, n, n)
    }
}

/// Bytes of the tiles that a pass goes through: a factorisation's tiles are not in the second-level
/// cache either.
const BYTES: usize = 48 << 20;

/// A kernel on tile `c`, with two tiles of a column of the matrix and a factored diagonal tile.
type OnTile<'a, T> = &'a dyn Fn(MatRef<'_, T>, MatRef<'_, T>, MatRef<'_, T>, MatMut<'_, T>) -> Outcome;

/// Times each kernel on all tiles of a set in turn, on fresh values. Ratios are medians of those
/// within a round.
fn kernels<T: Scalar>(n: usize) -> Result<(), KernelError> {
    let rounds = 11;
    let spd = Tile::<T>::new(n, |i, j| if i == j { n as f64 } else { 1.0 / (1 + i.abs_diff(j)) as f64 });
    let count = (BYTES / (n * n * size_of::<T>())).max(8);
    let height = ((2 * count) as f64).sqrt().ceil() as usize;
    let column: Vec<Tile<T>> = (0..height)
        .map(|h| Tile::new(n, |i, j| (((i + j * n) * 31 + h * 17) % 64) as f64 / 64.0 - 0.5))
        .collect();
    let mut tiles: Vec<Tile<T>> = (0..count).map(|_| Tile::new(n, |_, _| 0.0)).collect();
    let mut l = Tile::new(n, |i, j| spd.memory[spd.start + i + j * n].to_f64());
    potrf_lower(l.view_mut()?)?;
    let cube = (n as f64).powi(3);
    let (minus, one) = (-T::ONE, T::ONE);
    let entries: [(&str, f64, OnTile<'_, T>); 8] = [
        ("gemm NT", 2.0 * cube, &|a, b, _, c| gemm(minus, a, Op::None, b, Op::Trans, one, c)),
        ("gemm NN", 2.0 * cube, &|a, b, _, c| gemm(minus, a, Op::None, b, Op::None, one, c)),
        ("syrk", cube, &|a, _, _, c| syrk_lower(minus, a, one, c)),
        ("trsm RT", cube, &|_, _, l, c| trsm_right_lower(Op::Trans, l, c)),
        ("trsm RN", cube, &|_, _, l, c| trsm_right_lower(Op::None, l, c)),
        ("trsm LN", cube, &|_, _, l, c| trsm_left_lower(Op::None, l, c)),
        ("trsm LT", cube, &|_, _, l, c| trsm_left_lower(Op::Trans, l, c)),
        ("potrf", cube / 3.0, &|_, _, _, c| potrf_lower(c)),
    ];
    let mut rates = vec![Vec::with_capacity(rounds); entries.len()];
    for _ in 0..rounds {
        for ((_, flops, run), rates) in entries.iter().zip(&mut rates) {
            for tile in &mut tiles {
                tile.values().copy_from_slice(&spd.memory[spd.start..][..n * n]);
            }
            let start = Instant::now();
            for (t, c) in tiles.iter_mut().enumerate() {
                let (a, b) = (&column[t % height], &column[t / height % height]);
                run(a.view()?, b.view()?, l.view()?, c.view_mut()?)?;
            }
            rates.push(count as f64 * flops / start.elapsed().as_secs_f64() / 1e9);
        }
    }
    print!("{} {n:4}", T::FORMAT);
    for ((name, ..), own) in entries.iter().zip(&rates) {
        let ratios = own.iter().zip(&rates[0]).map(|(own, product)| own / product);
        print!("  {name} {:6.1} {:5.3}", median(own.iter().copied()), median(ratios));
    }
    println!();
    Ok(())
}

fn conversions(n: usize) -> Result<(), KernelError> {
    let x: Vec<f32> = (0..n * n).map(|i| (i % 1013) as f32 / 512.0).collect();
    let x64: Vec<f64> = x.iter().map(|&x| x.into()).collect();
    let (a, a64) = (MatRef::new(&x, n, n, n)?, MatRef::new(&x64, n, n, n)?);
    let bits = vec![0x3c00u16; n * n];
    let mut low: [Vec<u16>; 6] = core::array::from_fn(|_| bits.clone());
    let [l0, l1, l2, l3, l4, l5] = &mut low;
    let mut wide: [Vec<f32>; 4] = core::array::from_fn(|_| x.clone());
    let [w0, w1, w2, w3] = &mut wide;
    let (bytes, mut packed) = (vec![0x38u8; n * n], vec![0u8; n * n]);
    let area = (n * n) as f64;
    let (f16, bf16) = (HalfKind::F16, HalfKind::BF16);
    let half = |kind| HalfRef::new(&bits, n, n, n, kind, 1);
    let mut entries = [
        entry("copy f32", 8.0 * area, || {
            w0.copy_from_slice(black_box(&x));
            Ok(())
        }),
        entry("f32>f16", 6.0 * area, || pack_half(a, HalfMut::new(l0, n, n, n, f16, 1)?)),
        entry("f16>f32", 6.0 * area, || unpack_half(half(f16)?, MatMut::new(w1, n, n, n)?)),
        entry("f32>bf16", 6.0 * area, || pack_half(a, HalfMut::new(l1, n, n, n, bf16, 1)?)),
        entry("bf16>f32", 6.0 * area, || unpack_half(half(bf16)?, MatMut::new(w2, n, n, n)?)),
        entry("f32>e4m3", 5.0 * area, || pack_fp8(a, Fp8Mut::new(&mut packed, n, n, n, -7)?)),
        entry("e4m3>f32", 5.0 * area, || {
            unpack_fp8(Fp8Ref::new(&bytes, n, n, n, -7)?, MatMut::new(w3, n, n, n)?)
        }),
        entry("f32>2xf16", 8.0 * area, || {
            pack_split(a, -13, MatMut::new(l2, n, n, n)?, MatMut::new(l3, n, n, n)?)
        }),
        entry("f64>f16", 10.0 * area, || pack_half(a64, HalfMut::new(l4, n, n, n, f16, 1)?)),
        entry("f64>bf16", 10.0 * area, || pack_half(a64, HalfMut::new(l5, n, n, n, bf16, 1)?)),
        entry("max f32", 4.0 * area, || {
            black_box(max_abs(a));
            Ok(())
        }),
        entry("norm f32", 4.0 * area, || {
            black_box(frobenius_norm(a));
            Ok(())
        }),
        entry("norm f64", 8.0 * area, || {
            black_box(frobenius_norm(a64));
            Ok(())
        }),
    ];
    let rates = measure(&mut entries)?;
    print!("bytes {n:4}");
    for (entry, rate) in entries.iter().zip(&rates) {
        print!("  {} {rate:5.1} {:4.2}", entry.name, rate / rates[0]);
    }
    println!();
    Ok(())
}

fn precisions(n: usize) -> Result<(), KernelError> {
    let x: Vec<f32> = (0..n * n).map(|i| (i % 1013) as f32 / 1024.0).collect();
    let a = MatRef::new(&x, n, n, n)?;
    let mut bits = vec![0u16; n * n];
    pack_half(a, HalfMut::new(&mut bits, n, n, n, HalfKind::F16, 0)?)?;
    let half = HalfRef::new(&bits, n, n, n, HalfKind::F16, 0)?;
    let split = SplitRef::new(half.mat, half.mat, 0)?;
    let mut bytes = vec![0u8; n * n];
    pack_fp8(a, Fp8Mut::new(&mut bytes, n, n, n, -8)?)?;
    let fp8 = Fp8Ref::new(&bytes, n, n, n, -8)?;
    let mut outputs: [Vec<f32>; 5] = core::array::from_fn(|_| x.clone());
    let [c0, c1, c2, c3, c4] = &mut outputs;
    let (mut h2, mut h3) = (bits.clone(), bits.clone());
    let mut scratch: [Vec<f32>; 6] = [
        GemmPrecision::Hp1,
        GemmPrecision::Hp2,
        GemmPrecision::Hp3,
        GemmPrecision::X3,
        GemmPrecision::Tf32,
        GemmPrecision::Fp8,
    ]
    .map(|p| vec![0.0; scratch_len(p, n, n, n)]);
    let [s1, s2, s3, sx, st, s8] = &mut scratch;
    let (minus, trans) = (Sign::Minus, Op::Trans);
    let flops = 2.0 * (n as f64).powi(3);
    let mut entries = [
        entry("fp32", flops, || {
            let c = MatMut::new(c0, n, n, n)?;
            gemm(-1e-9, a, Op::None, a, trans, 1.0, c)
        }),
        entry("hp1", flops, || gemm_half(minus, half, half, trans, MatMut::new(c1, n, n, n)?, s1)),
        entry("hp2", flops, || {
            let mut c = HalfMut::new(&mut h2, n, n, n, HalfKind::F16, 20)?;
            gemm_hp2(minus, half, half, trans, &mut c, s2)
        }),
        entry("hp3", flops, || {
            let mut c = HalfMut::new(&mut h3, n, n, n, HalfKind::F16, 20)?;
            gemm_hp3(minus, half, half, trans, &mut c, s3)
        }),
        entry("x3", flops, || gemm_x3(minus, split, split, trans, MatMut::new(c2, n, n, n)?, sx)),
        entry("tf32", flops, || gemm_tf32(minus, a, a, trans, MatMut::new(c3, n, n, n)?, st)),
        entry("fp8", flops, || gemm_fp8(minus, fp8, fp8, trans, MatMut::new(c4, n, n, n)?, s8)),
    ];
    let rates = measure(&mut entries)?;
    print!("gemm  {n:4}");
    for (entry, rate) in entries.iter().zip(&rates) {
        print!("  {} {rate:6.1} {:5.3}", entry.name, rate / rates[0]);
    }
    println!();
    Ok(())
}

/// Symmetric updates and triangular solves whose products are in TF32 or X3.
fn full(n: usize) -> Result<(), KernelError> {
    let x: Vec<f32> = (0..n * n).map(|i| (i % 1013) as f32 / 1024.0).collect();
    let a = MatRef::new(&x, n, n, n)?;
    let bits = vec![0x3c00u16; n * n];
    let half = MatRef::new(&bits, n, n, n)?;
    let split = SplitRef::new(half, half, 0)?;
    let unit: Vec<f32> = (0..n * n).map(|e| if e % n == e / n { 1.0 } else { 1e-6 }).collect();
    let l = MatRef::new(&unit, n, n, n)?;
    let (tf32, x3) = (PanelPrecision::Tf32, PanelPrecision::X3);
    let mut outputs: [Vec<f32>; 5] = core::array::from_fn(|_| x.clone());
    let [c0, c1, c2, c3, c4] = &mut outputs;
    let (mut s1, mut s2) = (vec![0.0; syrk_scratch_len(tf32, n, n)], vec![0.0; syrk_scratch_len(x3, n, n)]);
    let (mut s3, mut s4) = (vec![0.0; trsm_scratch_len(tf32, n, n)], vec![0.0; trsm_scratch_len(x3, n, n)]);
    let flops = (n as f64).powi(3);
    let (minus, trans) = (Sign::Minus, Op::Trans);
    let mut entries = [
        entry("syrk fp32", flops, || syrk_lower(-1.0, a, 1.0, MatMut::new(c0, n, n, n)?)),
        entry("syrk tf32", flops, || syrk_lower_tf32(minus, a, MatMut::new(c1, n, n, n)?, &mut s1)),
        entry("syrk x3", flops, || syrk_lower_x3(minus, split, MatMut::new(c2, n, n, n)?, &mut s2)),
        entry("trsm tf32", flops, || trsm_right_lower_in(tf32, trans, l, MatMut::new(c3, n, n, n)?, &mut s3)),
        entry("trsm x3", flops, || trsm_right_lower_in(x3, trans, l, MatMut::new(c4, n, n, n)?, &mut s4)),
    ];
    let rates = measure(&mut entries)?;
    print!("full  {n:4}");
    for (entry, rate) in entries.iter().zip(&rates) {
        print!("  {} {rate:6.1} {:5.3}", entry.name, rate / rates[0]);
    }
    println!();
    Ok(())
}

fn main() -> Result<(), KernelError> {
    println!("GFlop/s and ratio to gemm NT (trsm: R right, L left, T transposed; potrf n^3/3):");
    for n in [128, 256, 512] {
        kernels::<f32>(n)?;
        kernels::<f64>(n)?;
    }
    println!("GFlop/s and ratio to fp32, C - A B^T with conversion of the operands:");
    for n in [256, 512] {
        precisions(n)?;
    }
    println!(
        "GFlop/s and ratio to syrk in fp32, symmetric updates and solves by way of products in TF32 and X3:"
    );
    for n in [256, 512] {
        full(n)?;
    }
    println!("GB/s and ratio to a copy:");
    for n in [256, 512] {
        conversions(n)?;
    }
    Ok(())
}
