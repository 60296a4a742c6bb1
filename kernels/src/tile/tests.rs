//! Bits of the tile kernels without perturbation are those of the plain kernels.

use core::fmt::Debug;

use crate::{KernelError, MatMut, MatRef, Op, Scalar};

use super::*;
use zellige_stochastic::{
    Categories, Category, Eight, Perturbation, Sample, Samples, Scope, Stochastic, Three,
};

/// Numbers whose samples a test looks at.
trait Sampled: Number {
    fn plain(&self) -> &[Self::Plain];
}

impl Sampled for f32 {
    fn plain(&self) -> &[f32] {
        core::slice::from_ref(self)
    }
}

impl Sampled for f64 {
    fn plain(&self) -> &[f64] {
        core::slice::from_ref(self)
    }
}

impl<T: Sample + Scalar, S: Samples> Sampled for Stochastic<T, S> {
    fn plain(&self) -> &[T] {
        self.samples()
    }
}

/// Numbers between -1 and 1.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64 * 2.0 - 1.0
    }

    fn many<T: Scalar>(&mut self, count: usize) -> Vec<T> {
        (0..count).map(|_| T::from_f64(self.next())).collect()
    }
}

fn lift<N: Number>(plain: &[N::Plain]) -> Vec<N> {
    plain.iter().map(|x| N::from_plain(*x)).collect()
}

/// Every sample of `got` has the bits of `want`.
#[track_caller]
fn assert_bits<N: Sampled>(case: &dyn Debug, want: &[N::Plain], got: &[N]) {
    for (at, (want, got)) in want.iter().zip(got).enumerate() {
        let same = got.plain().iter().all(|x| x.to_f64().to_bits() == want.to_f64().to_bits());
        assert!(
            same,
            "{} {case:?}: entry {at} is {:?}, not {want:?}",
            core::any::type_name::<N>(),
            got.plain()
        );
    }
}

/// The order is that of processors with fused multiply-add.
fn has_orders_of_plain_kernels() -> bool {
    #[cfg(target_arch = "x86_64")]
    let fused = std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    let fused = false;
    fused
}

/// Runs a test without perturbation for plain numbers, and for fewer cases with samples.
macro_rules! for_all_numbers {
    ($test:ident) => {
        if !has_orders_of_plain_kernels() {
            return;
        }
        Scope::with(0, Perturbation::None, Categories::NONE).run(|| {
            $test::<f32>(true);
            $test::<f64>(true);
            $test::<Stochastic<f32, Three>>(false);
            $test::<Stochastic<f64, Eight>>(false);
        });
    };
}

const SHAPES: [[usize; 3]; 24] = [
    [1, 1, 5],
    [1, 1, 700],
    [3, 5, 1],
    [7, 9, 2],
    [300, 1, 70],
    [1, 300, 70],
    [300, 1, 1500],
    [1, 300, 1500],
    [16, 16, 100],
    [16, 16, 2100],
    [17, 16, 100],
    [5, 40, 33],
    [64, 64, 64],
    [64, 64, 511],
    [64, 64, 600],
    [64, 60, 1300],
    [65, 64, 600],
    [100, 90, 1111],
    [200, 130, 77],
    [128, 128, 513],
    [256, 96, 1025],
    [96, 256, 1030],
    [130, 7, 515],
    [7, 130, 2000],
];

fn products<N: Sampled>(all: bool) {
    let mut numbers = Numbers(88_172_645_463_325_252);
    let factors = [(0.7, -0.3), (-1.0, 1.0), (1.0, 0.0), (0.7, 1.0), (1.0, 1.0)];
    let few = |[m, n, k]: &[usize; 3]| m * n * k < 300_000;
    for &[m, n, k] in SHAPES.iter().filter(|shape| all || few(shape)) {
        for (op_a, op_b) in [Op::None, Op::Trans].map(|a| [Op::None, Op::Trans].map(|b| (a, b))).concat() {
            for &(alpha, beta) in &factors[..if all { 5 } else { 2 }] {
                for pad in [0, 3] {
                    let (alpha, beta) = (N::Plain::from_f64(alpha), N::Plain::from_f64(beta));
                    let (shape_a, shape_b) = (op_a.shape((m, k)), op_b.shape((k, n)));
                    let (lda, ldb, ldc) = (shape_a.0 + pad, shape_b.0 + pad, m + pad);
                    let a: Vec<N::Plain> = numbers.many(lda * shape_a.1);
                    let b: Vec<N::Plain> = numbers.many(ldb * shape_b.1);
                    let mut c: Vec<N::Plain> = numbers.many(ldc * n);
                    let (wide_a, wide_b, mut wide_c) = (lift::<N>(&a), lift::<N>(&b), lift::<N>(&c));
                    let view_a = MatRef::new(&a, shape_a.0, shape_a.1, lda).unwrap();
                    let view_b = MatRef::new(&b, shape_b.0, shape_b.1, ldb).unwrap();
                    let view_c = MatMut::new(&mut c, m, n, ldc).unwrap();
                    crate::gemm(alpha, view_a, op_a, view_b, op_b, beta, view_c).unwrap();
                    let view_a = MatRef::new(&wide_a, shape_a.0, shape_a.1, lda).unwrap();
                    let view_b = MatRef::new(&wide_b, shape_b.0, shape_b.1, ldb).unwrap();
                    let view_c = MatMut::new(&mut wide_c, m, n, ldc).unwrap();
                    let elements = &mut Elements::default();
                    gemm(alpha, view_a, op_a, view_b, op_b, beta, view_c, elements).unwrap();
                    assert_bits(&(m, n, k, op_a, op_b, alpha, beta, pad), &c, &wide_c);
                }
            }
        }
    }
}

#[test]
fn products_have_the_bits_of_plain_ones() {
    for_all_numbers!(products);
}

fn updates<N: Sampled>(all: bool) {
    let mut numbers = Numbers(88_172_645_463_325_252);
    let orders: &[usize] = if all {
        &[1, 5, 8, 17, 31, 63, 64, 65, 100, 127, 128, 129, 150, 200, 260]
    } else {
        &[5, 17, 65, 128, 150]
    };
    for &n in orders {
        for &k in if all { &[1, 9, 64, 128, 129, 300, 520][..] } else { &[9, 129] } {
            for (alpha, beta) in [(-1.0, 1.0), (0.7, 1.0), (1.0, 0.0), (0.3, -0.4), (0.0, 0.5)] {
                let (alpha, beta) = (N::Plain::from_f64(alpha), N::Plain::from_f64(beta));
                let a: Vec<N::Plain> = numbers.many(n * k);
                let mut c: Vec<N::Plain> = numbers.many(n * n);
                let (wide_a, mut wide_c) = (lift::<N>(&a), lift::<N>(&c));
                let view = MatRef::new(&a, n, k, n).unwrap();
                crate::syrk_lower(alpha, view, beta, MatMut::new(&mut c, n, n, n).unwrap()).unwrap();
                let view = MatRef::new(&wide_a, n, k, n).unwrap();
                let out = MatMut::new(&mut wide_c, n, n, n).unwrap();
                syrk_lower(alpha, view, beta, out, &mut Elements::default()).unwrap();
                assert_bits(&(n, k, alpha, beta), &c, &wide_c);
            }
        }
    }
}

#[test]
fn updates_have_the_bits_of_plain_ones() {
    for_all_numbers!(updates);
}

fn solves<N: Sampled>(all: bool) {
    let mut numbers = Numbers(88_172_645_463_325_252);
    let orders: &[usize] =
        if all { &[1, 7, 8, 9, 31, 64, 65, 100, 128, 130, 200, 300] } else { &[7, 64, 100, 130] };
    for &n in orders {
        for &m in if all { &[1, 5, 33, 100][..] } else { &[1, 33] } {
            for (op, left) in [Op::None, Op::Trans].map(|op| [(op, false), (op, true)]).concat() {
                let mut l: Vec<N::Plain> = numbers.many(n * n);
                for i in 0..n {
                    l[i * n + i] = N::Plain::from_f64(3.0 + i as f64 / 7.0);
                }
                let (rows, cols) = if left { (n, m) } else { (m, n) };
                let mut b: Vec<N::Plain> = numbers.many(m * n);
                let (wide_l, mut wide_b) = (lift::<N>(&l), lift::<N>(&b));
                let triangle = MatRef::new(&l, n, n, n).unwrap();
                let wide_triangle = MatRef::new(&wide_l, n, n, n).unwrap();
                let out = MatMut::new(&mut b, rows, cols, rows).unwrap();
                let wide_out = MatMut::new(&mut wide_b, rows, cols, rows).unwrap();
                let elements = &mut Elements::default();
                if left {
                    crate::trsm_left_lower(op, triangle, out).unwrap();
                    trsm_left_lower(op, wide_triangle, wide_out, elements).unwrap();
                } else {
                    crate::trsm_right_lower(op, triangle, out).unwrap();
                    trsm_right_lower(op, wide_triangle, wide_out, elements).unwrap();
                }
                assert_bits(&(n, m, op, left), &b, &wide_b);
            }
        }
    }
}

#[test]
fn solves_have_the_bits_of_plain_ones() {
    for_all_numbers!(solves);
}

/// `G G^T + n I`, with `G` random.
fn definite<T: Scalar>(n: usize, numbers: &mut Numbers) -> Vec<T> {
    let g: Vec<f64> = (0..n * n).map(|_| numbers.next()).collect();
    let product = |i: usize, j: usize| (0..n).map(|k| g[k * n + i] * g[k * n + j]).sum::<f64>();
    let entry = |i: usize, j: usize| product(i, j) + if i == j { n as f64 } else { 0.0 };
    (0..n * n).map(|at| T::from_f64(entry(at % n, at / n))).collect()
}

fn factorisations<N: Sampled>(all: bool) {
    let mut numbers = Numbers(88_172_645_463_325_252);
    let orders: &[usize] = if all {
        &[1, 4, 8, 9, 20, 63, 64, 65, 100, 128, 129, 192, 200, 320]
    } else {
        &[1, 9, 20, 64, 65, 150]
    };
    for &n in orders {
        let mut a: Vec<N::Plain> = definite(n, &mut numbers);
        let mut wide = lift::<N>(&a);
        crate::potrf_lower(MatMut::new(&mut a, n, n, n).unwrap()).unwrap();
        potrf_lower(MatMut::new(&mut wide, n, n, n).unwrap(), &mut Elements::default()).unwrap();
        // The strict upper triangle is left alone by both.
        assert_bits(&n, &a, &wide);
    }
}

#[test]
fn factorisations_have_the_bits_of_plain_ones() {
    for_all_numbers!(factorisations);
}

type Number32 = Stochastic<f32, Eight>;

fn factor(n: usize, entry: impl Fn(usize, usize) -> f32) -> Result<Vec<Number32>, KernelError> {
    let mut a: Vec<Number32> = (0..n * n).map(|at| Stochastic::new(entry(at % n, at / n))).collect();
    potrf_lower(MatMut::new(&mut a, n, n, n).unwrap(), &mut Elements::default())?;
    Ok(a)
}

#[test]
fn digits_of_pivots_fall_with_the_condition() {
    let scope = Scope::new(3);
    // Entries 1 / (i + j + 1) are not exact, but the factor is that of the numbers given.
    let hilbert = |i: usize, j: usize| 1.0 / (i + j + 1) as f32;
    let l = scope.run(|| factor(5, hilbert)).unwrap();
    assert!(l[0].digits() == 7 && (1..=4).contains(&l[24].digits()), "{} {}", l[0].digits(), l[24].digits());
    // One more, and nothing is left of the last pivot.
    match scope.run(|| factor(12, hilbert)) {
        Err(KernelError::NotPositive { pivot, value }) => {
            assert!((5..9).contains(&pivot) && value <= 0.0, "{pivot} {value}");
        }
        other => panic!("{other:?}"),
    }
    let report = scope.report();
    assert!(report.count(Category::GradualLoss) > 0, "{report}");
    assert!(report.sites.iter().all(|site| site.place.file.contains("tile")), "{report}");
}

/// Two kernels in one task do not share random bits, and another run has the same ones.
#[test]
fn bits_follow_the_numbers_of_elements() {
    let a: Vec<Number32> = (0..64).map(|at| Stochastic::new(1.0 / (at + 3) as f32)).collect();
    let view = MatRef::new(&a, 8, 8, 8).unwrap();
    let run = |elements: &mut Elements| {
        let mut c = vec![Number32::default(); 64];
        let out = MatMut::new(&mut c, 8, 8, 8).unwrap();
        gemm(1.0, view, Op::None, view, Op::Trans, 0.0, out, elements).unwrap();
        c.iter().flat_map(|x| x.samples().iter().map(|x| x.to_bits())).collect::<Vec<u32>>()
    };
    Scope::new(1).run(|| {
        let mut elements = Elements::default();
        let (first, second) = (run(&mut elements), run(&mut elements));
        assert_ne!(first, second);
        assert_eq!(first, run(&mut Elements::default()));
    });
}
