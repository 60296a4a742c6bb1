//! Tests of the library routines of the mock against the definitions in f64.

use crate::common::Bench;
use zellige_gpu::mock::Mock;
use zellige_gpu::twin::{decode, encode};
use zellige_gpu::{
    Address, BatchedGemm, Compute, Driver, Element, Factors, Gemm, GpuError, Matrix, Potrf, Side, Stream,
    Syrk, Transpose, Trsm,
};

const OPS: [Transpose; 2] = [Transpose::No, Transpose::Yes];

/// A mock and a stream of it.
struct Gpu {
    bench: Bench,
    stream: Stream,
}

impl Gpu {
    fn new() -> Gpu {
        let bench = Bench::of(Mock::builder());
        let stream = bench.stream();
        Gpu { bench, stream }
    }

    /// Allocates a matrix with `gap` additional entries between columns, filled by `f` (rounded).
    fn matrix(
        &self,
        element: Element,
        rows: u32,
        columns: u32,
        gap: u32,
        f: impl Fn(u32, u32) -> f64,
    ) -> Matrix {
        let (size, ld) = (element.bytes() as usize, rows + gap);
        let mut bytes = vec![0x55; ld as usize * columns as usize * size];
        for j in 0..columns {
            for i in 0..rows {
                encode(element, f(i, j), &mut bytes[(j * ld + i) as usize * size..]);
            }
        }
        let at = self.bench.mock.allocate(self.stream, bytes.len() as u64).unwrap();
        self.bench.write(self.stream, at, &bytes).unwrap();
        Matrix { at, ld, element }
    }

    /// Returns the entries, and checks that the gaps between columns are unchanged.
    fn entries(&self, matrix: &Matrix, rows: u32, columns: u32) -> Vec<Vec<f64>> {
        let size = matrix.element.bytes() as usize;
        let bytes = matrix.ld as usize * columns as usize * size;
        let bytes = self.bench.read(self.stream, matrix.at, bytes).unwrap();
        let column = |j: u32| {
            let column = &bytes[(j * matrix.ld) as usize * size..((j + 1) * matrix.ld) as usize * size];
            assert!(column[rows as usize * size..].iter().all(|byte| *byte == 0x55));
            column[..rows as usize * size].chunks(size).map(|x| decode(matrix.element, x)).collect()
        };
        (0..columns).map(column).collect()
    }
}

/// Small whole numbers, so that every sum is exact.
fn whole(i: u32, j: u32) -> f64 {
    f64::from((i * 7 + j * 3) % 9) - 4.0
}

fn spd(i: u32, j: u32) -> f64 {
    (-f64::from(i.abs_diff(j)) / 3.0).exp() + if i == j { 1.0 } else { 0.0 }
}

#[test]
fn products_of_every_kind_are_exact_where_sums_are() {
    let gpu = Gpu::new();
    let (m, n, k) = (16, 32, 48);
    use Element::{BF16, F8E4M3, F16, F32, F64};
    let kinds = [
        (Compute::F64, F64, F64),
        (Compute::F32, F32, F32),
        (Compute::F32, F16, F32),
        (Compute::F32, BF16, F32),
        (Compute::F32, F16, F16),
        (Compute::Tf32, F32, F32),
        (Compute::F16, F16, F16),
        (Compute::F32, F8E4M3, F32),
    ];
    for (compute, element, out) in kinds {
        for (op_a, op_b) in [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(a, b)| (OPS[a], OPS[b])) {
            let shape =
                |op, rows, columns| if op == Transpose::No { (rows, columns) } else { (columns, rows) };
            let (a, b) = (shape(op_a, m, k), shape(op_b, k, n));
            let gap = 16;
            let gemm = Gemm {
                op_a,
                op_b,
                m,
                n,
                k,
                factors: Factors::Host { alpha: -1.0, beta: 2.0 },
                a: gpu.matrix(element, a.0, a.1, gap, whole),
                b: gpu.matrix(element, b.0, b.1, gap, |i, j| whole(j, i) / 2.0),
                c: gpu.matrix(out, m, n, gap, whole),
                compute,
            };
            // SAFETY: one stream, memory that is there.
            let result = unsafe { gpu.bench.mock.gemm(gpu.stream, &gemm) };
            if element == F8E4M3 && (op_a, op_b) != (Transpose::Yes, Transpose::No) {
                assert!(matches!(result, Err(GpuError::Failed { sticky: false, .. })));
                continue;
            }
            result.unwrap();
            let found = gpu.entries(&gemm.c, m, n);
            for j in 0..n {
                for i in 0..m {
                    let term = |l| {
                        let a = if op_a == Transpose::No { whole(i, l) } else { whole(l, i) };
                        let b = if op_b == Transpose::No { whole(j, l) } else { whole(l, j) };
                        a * b / 2.0
                    };
                    let expected = 2.0 * whole(i, j) - (0..k).map(term).sum::<f64>();
                    assert_eq!(
                        found[j as usize][i as usize], expected,
                        "{compute:?} {element:?} {op_a:?} {op_b:?}"
                    );
                }
            }
        }
    }
}

/// A product of 1 x k by k x 1.
fn dot(gpu: &Gpu, element: Element, compute: Compute, a: &[f64], b: &[f64]) -> f64 {
    let k = a.len() as u32;
    let gemm = Gemm {
        op_a: Transpose::No,
        op_b: Transpose::No,
        m: 1,
        n: 1,
        k,
        factors: Factors::Host { alpha: 1.0, beta: 0.0 },
        a: gpu.matrix(element, 1, k, 0, |_, j| a[j as usize]),
        b: gpu.matrix(element, k, 1, 0, |i, _| b[i as usize]),
        c: gpu.matrix(element, 1, 1, 0, |_, _| f64::NAN), // not read
        compute,
    };
    // SAFETY: one stream, memory that is there.
    unsafe { gpu.bench.mock.gemm(gpu.stream, &gemm).unwrap() };
    gpu.entries(&gemm.c, 1, 1)[0][0]
}

#[test]
fn sums_are_held_in_what_was_asked_for() {
    let gpu = Gpu::new();
    // Each 1 alone is lost when added to 2048 in f16, both together are not.
    let (a, b) = ([2048.0, 1.0, 1.0], [1.0, 1.0, 1.0]);
    assert_eq!(dot(&gpu, Element::F16, Compute::F16, &a, &b), 2048.0);
    assert_eq!(dot(&gpu, Element::F16, Compute::F32, &a, &b), 2050.0);
    let x = [1.0 + 2f64.powi(-11)];
    assert_eq!(dot(&gpu, Element::F32, Compute::F32, &x, &[1.0]), x[0]);
    assert_eq!(dot(&gpu, Element::F32, Compute::Tf32, &x, &[1.0]), 1.0);
}

#[test]
fn factors_are_taken_from_device_memory_when_the_product_runs() {
    let gpu = Gpu::new();
    let (mock, n) = (&gpu.bench.mock, 16);
    use Element::{BF16, F8E4M3, F16, F32, F64};
    let at = mock.allocate(gpu.stream, 16).unwrap().offset(4);
    let kinds = [
        (Compute::F32, F32, F32),
        (Compute::Tf32, F32, F32),
        (Compute::F32, F16, F32),
        (Compute::F32, BF16, BF16),
        (Compute::F32, F8E4M3, F32),
        (Compute::F64, F64, F64),
        (Compute::F16, F16, F16),
    ];
    for (compute, element, out) in kinds {
        for [alpha, beta] in [[-0.25, 1.0], [2.0, 0.0]] {
            let c = |i, j| if beta == 0.0 { f64::NAN } else { whole(i, j) }; // with 0 it is not read
            let gemm = Gemm {
                op_a: Transpose::Yes,
                op_b: Transpose::No,
                m: n,
                n,
                k: n,
                factors: Factors::Device(at),
                a: gpu.matrix(element, n, n, 0, whole),
                b: gpu.matrix(element, n, n, 0, |i, j| whole(j, i)),
                c: gpu.matrix(out, n, n, 0, c),
                compute,
            };
            let factors = [alpha as f32, beta as f32].map(f32::to_le_bytes).concat();
            gpu.bench.write(gpu.stream, at, &factors).unwrap();
            // SAFETY: one stream, memory that is there.
            let done = unsafe { mock.gemm(gpu.stream, &gemm) };
            if !matches!(compute, Compute::F32 | Compute::Tf32) {
                let error = done.unwrap_err();
                let text = error.to_string();
                let words = format!("two f32, and sums in {compute:?}");
                assert!(!error.is_sticky() && text.contains(&words), "{text}");
                continue;
            }
            done.unwrap();
            // Queued after the product, which has read the old factors.
            gpu.bench.zero(gpu.stream, at, 8).unwrap();
            let found = gpu.entries(&gemm.c, n, n);
            for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let sum: f64 = (0..n).map(|l| whole(l, i) * whole(j, l)).sum();
                let mut wanted = [0; 8];
                let old = if beta == 0.0 { 0.0 } else { beta * c(i, j) };
                encode(out, alpha * sum + old, &mut wanted);
                let wanted = decode(out, &wanted);
                assert_eq!(found[j as usize][i as usize], wanted, "{compute:?} {element:?} {alpha} {beta}");
            }
        }
    }
    // One pair for all products of a batch.
    gpu.bench.write(gpu.stream, at, &[3f32, 0.5].map(f32::to_le_bytes).concat()).unwrap();
    let [a, b, c] = [2.0, 5.0, 8.0].map(|x| gpu.matrix(F32, 1, 2, 0, |_, j| x + f64::from(j)));
    let (op_a, op_b, factors) = (Transpose::No, Transpose::No, Factors::Device(at));
    let shape = Gemm { op_a, op_b, m: 1, n: 1, k: 1, factors, a, b, c, compute: Compute::F32 };
    let places = [0, 4].map(|bytes| [a, b, c].map(|matrix| matrix.at.offset(bytes)));
    // SAFETY: one stream, memory that is there.
    unsafe { mock.gemm_batched(gpu.stream, &BatchedGemm { shape, at: &places }).unwrap() };
    assert_eq!(gpu.entries(&c, 1, 2), [[30.0 + 4.0], [54.0 + 4.5]]);
    // None, none read.
    let shape = Gemm { factors: Factors::Device(Address(4)), ..shape };
    // SAFETY: nothing is done.
    unsafe { mock.gemm_batched(gpu.stream, &BatchedGemm { shape, at: &[] }).unwrap() };
    assert_eq!(mock.violations(), Vec::<String>::new());
}

#[test]
fn a_batch_is_its_products() {
    let gpu = Gpu::new();
    let n = 5;
    let one = |shift: u32| {
        let a = gpu.matrix(Element::F32, n, n, 0, |i, j| whole(i + shift, j));
        let b = gpu.matrix(Element::F32, n, n, 0, |i, j| whole(i, j + shift));
        (a, b, gpu.matrix(Element::F32, n, n, 0, |_, _| 0.0))
    };
    let all: Vec<(Matrix, Matrix, Matrix)> = (0..4).map(one).collect();
    let at: Vec<[Address; 3]> = all.iter().map(|(a, b, c)| [a.at, b.at, c.at]).collect();
    let (a, b, c) = all[0];
    let (op_a, op_b) = (Transpose::No, Transpose::No);
    let factors = Factors::Host { alpha: 1.0, beta: 0.0 };
    let shape = Gemm { op_a, op_b, m: n, n, k: n, factors, a, b, c, compute: Compute::F32 };
    // SAFETY: one stream, memory that is there.
    unsafe { gpu.bench.mock.gemm_batched(gpu.stream, &BatchedGemm { shape, at: &at }).unwrap() };
    for (shift, (_, _, c)) in (0..).zip(&all) {
        let found = gpu.entries(c, n, n);
        for (j, i) in (0..n).flat_map(|j| (0..n).map(move |i| (j, i))) {
            let expected: f64 = (0..n).map(|l| whole(i + shift, l) * whole(l, j + shift)).sum();
            assert_eq!(found[j as usize][i as usize], expected);
        }
    }
    // Two products may not write one C.
    let twice = [at[0], at[0]];
    // SAFETY: refused.
    let error = unsafe { gpu.bench.mock.gemm_batched(gpu.stream, &BatchedGemm { shape, at: &twice }) };
    assert!(error.unwrap_err().is_sticky());
}

#[test]
fn solves_undo_products() {
    let gpu = Gpu::new();
    let (m, n) = (7, 5);
    for (side, op) in [(Side::Left, 0), (Side::Left, 1), (Side::Right, 0), (Side::Right, 1)] {
        let op = OPS[op];
        for (element, tolerance) in [(Element::F64, 1e-14), (Element::F32, 1e-5)] {
            let order = if side == Side::Left { m } else { n };
            // The part above the diagonal is not read.
            let l = |i: u32, j: u32| {
                if i < j { f64::NAN } else { whole(i, j) / 8.0 + if i == j { 3.0 } else { 0.0 } }
            };
            let lower = |i: u32, j: u32| if i < j { 0.0 } else { l(i, j) };
            let op_l = |i, j| if op == Transpose::No { lower(i, j) } else { lower(j, i) };
            let trsm = Trsm {
                side,
                op,
                m,
                n,
                l: gpu.matrix(element, order, order, 2, l),
                b: gpu.matrix(element, m, n, 3, whole),
            };
            // SAFETY: one stream, memory that is there.
            unsafe { gpu.bench.mock.trsm(gpu.stream, &trsm).unwrap() };
            let x = gpu.entries(&trsm.b, m, n);
            let x = |i: u32, j: u32| x[j as usize][i as usize];
            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let product: f64 = match side {
                    Side::Left => (0..m).map(|p| op_l(i, p) * x(p, j)).sum(),
                    Side::Right => (0..n).map(|p| x(i, p) * op_l(p, j)).sum(),
                };
                assert!((product - whole(i, j)).abs() <= tolerance * 4.0, "{side:?} {op:?} {product}");
            }
        }
    }
}

#[test]
fn updates_touch_the_lower_triangle_only() {
    let gpu = Gpu::new();
    let (n, k) = (6, 4);
    let a = gpu.matrix(Element::F32, n, k, 1, whole);
    let c = gpu.matrix(Element::F32, n, n, 1, |i, j| f64::from(i + 10 * j));
    let syrk = Syrk { n, k, alpha: -1.0, a, beta: 1.0, c };
    // SAFETY: one stream, memory that is there.
    unsafe { gpu.bench.mock.syrk(gpu.stream, &syrk).unwrap() };
    let found = gpu.entries(&c, n, n);
    for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let before = f64::from(i + 10 * j);
        let product: f64 = (0..k).map(|l| whole(i, l) * whole(j, l)).sum();
        let expected = if i < j { before } else { before - product };
        assert_eq!(found[j as usize][i as usize], expected, "({i}, {j})");
    }
}

#[test]
fn factors_multiply_to_the_matrix_and_bad_pivots_are_told() {
    let gpu = Gpu::new();
    let n = 9;
    let mock = &gpu.bench.mock;
    for (element, tolerance) in [(Element::F64, 1e-15), (Element::F32, 2e-7)] {
        for bad in [None, Some(4), Some(0)] {
            // The part above the diagonal is neither read nor written.
            let entry = |i: u32, j: u32| match bad {
                _ if i < j => 77.0,
                Some(pivot) if i == j && i == pivot => -1.0,
                _ => spd(i, j),
            };
            let workspace_bytes = mock.potrf_workspace(gpu.stream, n, element).unwrap();
            let workspace = mock.allocate(gpu.stream, workspace_bytes).unwrap();
            let info = mock.allocate(gpu.stream, 4).unwrap();
            let a = gpu.matrix(element, n, n, 3, entry);
            let potrf = Potrf { n, a, workspace, workspace_bytes, info };
            // SAFETY: one stream, memory that is there.
            unsafe { mock.potrf(gpu.stream, &potrf).unwrap() };
            let info = gpu.bench.read(gpu.stream, info, 4).unwrap();
            let info = i32::from_le_bytes(info.try_into().unwrap());
            assert_eq!(info, bad.map_or(0, |pivot| pivot as i32 + 1));
            let l = gpu.entries(&a, n, n);
            let l = |i: u32, j: u32| l[j as usize][i as usize];
            for (i, j) in (0..n).flat_map(|i| (0..n).map(move |j| (i, j))) {
                if i < j {
                    assert_eq!(l(i, j), 77.0);
                } else if bad.is_none() {
                    let product: f64 = (0..=j).map(|p| l(i, p) * l(j, p)).sum();
                    assert!((product - spd(i, j)).abs() <= 4.0 * tolerance, "({i}, {j}): {product}");
                }
            }
            let small = Potrf { workspace_bytes: workspace_bytes - 1, ..potrf };
            // SAFETY: refused.
            assert!(unsafe { mock.potrf(gpu.stream, &small).is_err() });
        }
    }
    assert_eq!(mock.violations(), Vec::<String>::new());
}

#[test]
fn what_no_library_has_is_refused() {
    let gpu = Gpu::new();
    let [a, b, c] = [(); 3].map(|()| gpu.matrix(Element::F32, 4, 4, 0, whole));
    let (op_a, op_b) = (Transpose::No, Transpose::No);
    let factors = Factors::Host { alpha: 1.0, beta: 0.0 };
    let good = Gemm { op_a, op_b, m: 4, n: 4, k: 4, factors, a, b, c, compute: Compute::F32 };
    let with = |change: fn(&mut Gemm)| {
        let mut gemm = good;
        change(&mut gemm);
        gemm
    };
    let wrong = [
        with(|g| g.compute = Compute::F16),
        with(|g| g.b.element = Element::F16),
        with(|g| g.c.ld = 3),
        with(|g| g.a.at = g.a.at.offset(2)),
        with(|g| (g.n, g.c.ld) = (u32::MAX, u32::MAX)),
        with(|g| g.factors = Factors::Device(Address(258))),
    ];
    for gemm in wrong {
        // SAFETY: refused.
        let error = unsafe { gpu.bench.mock.gemm(gpu.stream, &gemm).unwrap_err() };
        assert!(!error.is_sticky() && error.to_string().contains("cublasGemmEx"), "{error}");
    }
    // Empty operations are no errors.
    let nothing = [
        with(|g| g.m = 0),
        with(|g| (g.k, g.factors) = (0, Factors::Host { alpha: 1.0, beta: 1.0 })),
        with(|g| (g.n, g.factors) = (0, Factors::Device(Address(4)))), // which are not read
    ];
    for gemm in nothing {
        // SAFETY: one stream, memory that is there.
        unsafe { gpu.bench.mock.gemm(gpu.stream, &gemm).unwrap() };
    }
    assert_eq!(gpu.entries(&c, 4, 4)[2][1], whole(1, 2));
}

#[test]
fn products_that_a_gpu_is_too_old_for_are_refused() {
    for (capability, element, compute, needed) in [
        ((7, 5), Element::BF16, Compute::F32, Some("8.0")),
        ((7, 5), Element::F32, Compute::Tf32, Some("8.0")),
        ((8, 0), Element::F8E4M3, Compute::F32, Some("8.9")),
        ((7, 0), Element::F16, Compute::F32, None),
        ((8, 0), Element::BF16, Compute::F32, None),
    ] {
        let bench = Bench::of(Mock::builder().compute_capability(capability.0, capability.1));
        let gpu = Gpu { stream: bench.stream(), bench };
        let (a, b) = (gpu.matrix(element, 16, 16, 0, |_, _| 1.0), gpu.matrix(element, 16, 16, 0, |_, _| 1.0));
        let c = gpu.matrix(Element::F32, 16, 16, 0, |_, _| 0.0);
        let (op_a, op_b) = (Transpose::Yes, Transpose::No);
        let factors = Factors::Host { alpha: 1.0, beta: 0.0 };
        let gemm = Gemm { op_a, op_b, m: 16, n: 16, k: 16, factors, a, b, c, compute };
        // SAFETY: all matrices are this test's own.
        let product = unsafe { gpu.bench.mock.gemm(gpu.stream, &gemm) };
        match needed {
            None => assert_eq!(product, Ok(())),
            Some(needed) => {
                let error = product.unwrap_err();
                let has = format!("this GPU has {}.{}", capability.0, capability.1);
                for part in [needed, &has] {
                    assert!(error.to_string().contains(part) && !error.is_sticky(), "{part}: {error}");
                }
            }
        }
        gpu.bench.mock.synchronize(gpu.stream).unwrap();
    }
}
