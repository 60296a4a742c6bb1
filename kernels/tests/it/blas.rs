//! The tile kernels against plain loops in f64, over shapes, leading dimensions and both element
//! types.

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zellige_kernels::{
    KernelError, MatMut, MatRef, Op, Scalar, gemm, potrf_lower, syrk_lower, trsm_left_lower, trsm_right_lower,
};

/// A matrix with a leading dimension above its rows; the gaps hold a mark that must not change.
struct Owned<T> {
    data: Vec<T>,
    rows: usize,
    cols: usize,
    ld: usize,
}

const MARK: f64 = 12345.0;

impl<T: Scalar> Owned<T> {
    fn new(rows: usize, cols: usize, pad: usize, mut f: impl FnMut(usize, usize) -> f64) -> Self {
        let ld = rows + pad;
        let mut data = vec![T::from_f64(MARK); ld * cols];
        for j in 0..cols {
            for i in 0..rows {
                data[i + j * ld] = T::from_f64(f(i, j));
            }
        }
        Self { data, rows, cols, ld }
    }
    fn random(rows: usize, cols: usize, pad: usize, rng: &mut ChaCha8Rng) -> Self {
        Self::new(rows, cols, pad, |_, _| rng.random_range(-1.0..1.0))
    }
    fn view(&self) -> MatRef<'_, T> {
        MatRef::new(&self.data, self.rows, self.cols, self.ld).unwrap()
    }
    fn view_mut(&mut self) -> MatMut<'_, T> {
        MatMut::new(&mut self.data, self.rows, self.cols, self.ld).unwrap()
    }
    fn at(&self, i: usize, j: usize) -> f64 {
        self.data[i + j * self.ld].to_f64()
    }
    fn gaps_intact(&self) -> bool {
        (0..self.cols).all(|j| (self.rows..self.ld).all(|i| self.data[i + j * self.ld].to_f64() == MARK))
    }
    fn copy(&self) -> Self {
        Self { data: self.data.clone(), ..*self }
    }
}

fn at_op<T: Scalar>(a: &Owned<T>, op: Op, i: usize, j: usize) -> f64 {
    match op {
        Op::None => a.at(i, j),
        Op::Trans => a.at(j, i),
    }
}

fn check_gemm<T: Scalar>(
    (m, n, k): (usize, usize, usize),
    ops: (Op, Op),
    (alpha, beta): (f64, f64),
    seed: u64,
) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let (ra, ca) = ops.0.shape((m, k));
    let (rb, cb) = ops.1.shape((k, n));
    let a = Owned::<T>::random(ra, ca, 3, &mut rng);
    let b = Owned::<T>::random(rb, cb, 0, &mut rng);
    let mut c = Owned::<T>::random(m, n, 1, &mut rng);
    let c0 = c.copy();
    gemm(T::from_f64(alpha), a.view(), ops.0, b.view(), ops.1, T::from_f64(beta), c.view_mut()).unwrap();
    assert!(c.gaps_intact());
    for j in 0..n {
        for i in 0..m {
            let (mut sum, mut size) = (0.0, 0.0);
            for l in 0..k {
                let p = at_op(&a, ops.0, i, l) * at_op(&b, ops.1, l, j);
                sum += p;
                size += p.abs();
            }
            let want = alpha * sum + beta * c0.at(i, j);
            let bound =
                (k as f64 + 4.0) * T::UNIT_ROUNDOFF * (alpha.abs() * size + (beta * c0.at(i, j)).abs());
            assert!(
                (c.at(i, j) - want).abs() <= bound,
                "{m} x {n} x {k} {ops:?} at {i}, {j}: {} for {want}",
                c.at(i, j)
            );
        }
    }
}

fn check_syrk<T: Scalar>(n: usize, k: usize, (alpha, beta): (f64, f64), seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let a = Owned::<T>::random(n, k, 2, &mut rng);
    let mut c = Owned::<T>::new(n, n, 1, |i, j| if i < j { f64::NAN } else { rng.random_range(-1.0..1.0) });
    let c0 = c.copy();
    syrk_lower(T::from_f64(alpha), a.view(), T::from_f64(beta), c.view_mut()).unwrap();
    assert!(c.gaps_intact());
    for j in 0..n {
        for i in 0..n {
            if i < j {
                assert!(c.at(i, j).is_nan(), "the upper part was written");
                continue;
            }
            let (mut sum, mut size) = (0.0, 0.0);
            for l in 0..k {
                let p = a.at(i, l) * a.at(j, l);
                sum += p;
                size += p.abs();
            }
            let want = alpha * sum + beta * c0.at(i, j);
            let bound =
                (k as f64 + 4.0) * T::UNIT_ROUNDOFF * (alpha.abs() * size + (beta * c0.at(i, j)).abs());
            assert!((c.at(i, j) - want).abs() <= bound, "{n} x {k} at {i}, {j}: {} for {want}", c.at(i, j));
        }
    }
}

/// A lower triangle with a diagonal from 0.5 to 1.5 and NaN above it; its columns fall by `grading`
/// decades.
fn triangle<T: Scalar>(n: usize, grading: f64, rng: &mut ChaCha8Rng) -> Owned<T> {
    Owned::new(n, n, 2, |i, j| match i.cmp(&j) {
        core::cmp::Ordering::Less => f64::NAN,
        core::cmp::Ordering::Equal => {
            rng.random_range(0.5..1.5) * 10.0f64.powf(-grading * j as f64 / n as f64)
        }
        core::cmp::Ordering::Greater => {
            rng.random_range(-1.0..1.0) / (n as f64).sqrt() * 10.0f64.powf(-grading * j as f64 / n as f64)
        }
    })
}

/// Backward error: the residual of every entry against `c n u (|X| |op(L)|)`.
fn check_trsm<T: Scalar>(left: bool, op: Op, m: usize, n: usize, grading: f64, seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let order = if left { m } else { n };
    let l = triangle::<T>(order, grading, &mut rng);
    let mut x = Owned::<T>::random(m, n, 1, &mut rng);
    let b = x.copy();
    if left {
        trsm_left_lower(op, l.view(), x.view_mut()).unwrap();
    } else {
        trsm_right_lower(op, l.view(), x.view_mut()).unwrap();
    }
    assert!(x.gaps_intact());
    let lower = |i: usize, j: usize| {
        let (i, j) = if op == Op::Trans { (j, i) } else { (i, j) };
        if i >= j { l.at(i, j) } else { 0.0 }
    };
    for j in 0..n {
        for i in 0..m {
            let (mut sum, mut size) = (0.0, b.at(i, j).abs());
            for k in 0..order {
                let p = if left { lower(i, k) * x.at(k, j) } else { x.at(i, k) * lower(k, j) };
                sum += p;
                size += p.abs();
            }
            let bound = (order as f64 + 8.0) * T::UNIT_ROUNDOFF * size;
            assert!(
                (sum - b.at(i, j)).abs() <= bound,
                "left {left} {op:?} {m} x {n} at {i}, {j}: residual {:e} above {bound:e}",
                (sum - b.at(i, j)).abs()
            );
        }
    }
}

fn spd<T: Scalar>(n: usize, rng: &mut ChaCha8Rng) -> Owned<T> {
    let g = Owned::<f64>::random(n, n + 2, 0, rng);
    Owned::new(n, n, 1, |i, j| {
        if i < j {
            return f64::NAN;
        }
        (0..n + 2).map(|k| g.at(i, k) * g.at(j, k)).sum::<f64>() + if i == j { 0.1 } else { 0.0 }
    })
}

fn check_potrf<T: Scalar>(n: usize, seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let a = spd::<T>(n, &mut rng);
    let mut l = a.copy();
    potrf_lower(l.view_mut()).unwrap();
    assert!(l.gaps_intact());
    for j in 0..n {
        for i in 0..n {
            if i < j {
                assert!(l.at(i, j).is_nan(), "the upper part was written");
                continue;
            }
            let sum: f64 = (0..=j).map(|k| l.at(i, k) * l.at(j, k)).sum();
            // |A - L L^T| <= (n + 1) u |L| |L^T| (Higham, theorem 10.3), and |L| |L^T| <= sqrt(a_ii a_jj).
            let bound = (n as f64 + 9.0) * T::UNIT_ROUNDOFF * (a.at(i, i) * a.at(j, j)).sqrt();
            assert!((sum - a.at(i, j)).abs() <= bound, "{n} at {i}, {j}: {sum} for {}", a.at(i, j));
        }
    }
}

#[test]
fn shapes_around_the_block_sizes() {
    for n in [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 129, 200, 300] {
        check_potrf::<f32>(n, 1);
        check_potrf::<f64>(n, 2);
        for k in [0, 1, 5, 64, 130] {
            check_syrk::<f32>(n, k, (-1.0, 1.0), 3);
            check_syrk::<f64>(n, k, (-1.0, 1.0), 4);
        }
        for m in [1, 31, 33, 100] {
            for op in [Op::None, Op::Trans] {
                check_trsm::<f32>(false, op, m, n, 0.0, 5);
                check_trsm::<f64>(false, op, m, n, 0.0, 6);
                check_trsm::<f32>(true, op, n, m, 0.0, 7);
                check_trsm::<f64>(true, op, n, m, 0.0, 8);
            }
        }
    }
}

#[test]
fn solves_stay_backward_stable_when_the_triangle_is_ill_conditioned() {
    for (seed, grading) in [(1, 2.0), (2, 4.0), (3, 6.0)] {
        for op in [Op::None, Op::Trans] {
            check_trsm::<f32>(false, op, 50, 256, grading, seed);
            check_trsm::<f64>(false, op, 50, 256, grading, seed);
            check_trsm::<f32>(true, op, 256, 50, grading, seed);
        }
    }
}

#[test]
fn odd_products() {
    for shape in [
        (1, 1, 1),
        (7, 300, 1),
        (7, 300, 5),
        (1, 64, 64),
        (64, 1, 64),
        (3, 3, 0),
        (0, 5, 3),
        (1, 1, 5000),
        (100, 90, 2),
        (257, 130, 77),
    ] {
        for ops in
            [(Op::None, Op::None), (Op::None, Op::Trans), (Op::Trans, Op::None), (Op::Trans, Op::Trans)]
        {
            for factors in [(-1.0, 1.0), (0.5, 0.0), (0.0, 2.0), (1.0, -0.25)] {
                check_gemm::<f32>(shape, ops, factors, 11);
                check_gemm::<f64>(shape, ops, factors, 12);
            }
        }
    }
}

#[test]
fn zero_factors_do_not_read() {
    let nan = [f32::NAN; 4];
    let one = [1.0f32; 4];
    let mut c = [f32::NAN; 4];
    let m = |x| MatRef::new(x, 2, 2, 2).unwrap();
    let out = |alpha, x, beta, c: &mut [f32; 4]| {
        let c = MatMut::new(c, 2, 2, 2).unwrap();
        gemm(alpha, m(x), Op::None, m(&one), Op::Trans, beta, c).unwrap();
    };
    out(1.0, &one, 0.0, &mut c);
    assert_eq!(c, [2.0; 4]);
    out(0.0, &nan, 0.5, &mut c);
    assert_eq!(c, [1.0; 4]);
    syrk_lower(0.0, m(&nan), 3.0, MatMut::new(&mut c, 2, 2, 2).unwrap()).unwrap();
    assert_eq!(c, [3.0, 3.0, 1.0, 3.0]);
}

#[test]
fn failures_name_the_pivot() {
    for n in [5, 70, 130] {
        for at in [0, 4, n - 1] {
            for bad in [-1.0, 0.0, f64::NAN, f64::INFINITY] {
                let mut a = Owned::<f64>::new(n, n, 0, |i, j| {
                    if i != j {
                        0.0
                    } else if i == at {
                        bad
                    } else {
                        4.0
                    }
                });
                match potrf_lower(a.view_mut()) {
                    Err(KernelError::NotPositive { pivot, value }) => {
                        assert_eq!(pivot, at);
                        assert!(value == bad || (value.is_nan() && bad.is_nan()));
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    // A NaN below the diagonal reaches a later pivot.
    let mut a = Owned::<f32>::new(3, 3, 0, |i, j| if i == j { 1.0 } else { 0.0 });
    a.data[2] = f32::NAN;
    assert!(matches!(potrf_lower(a.view_mut()), Err(KernelError::NotPositive { pivot: 2, .. })));
}

#[test]
fn wrong_shapes_are_refused_and_nothing_is_written() {
    let d = [1.0f32; 12];
    let mut c = [7.0f32; 12];
    let r = |rows, cols| MatRef::new(&d, rows, cols, rows).unwrap();
    let error = gemm(1.0, r(3, 4), Op::None, r(3, 4), Op::None, 0.0, MatMut::new(&mut c, 3, 4, 3).unwrap());
    assert!(matches!(error, Err(KernelError::Shape { operand: "B", .. })));
    let error = gemm(1.0, r(3, 4), Op::None, r(3, 4), Op::Trans, 0.0, MatMut::new(&mut c, 3, 4, 3).unwrap());
    assert!(matches!(error, Err(KernelError::Shape { operand: "C", .. })));
    assert!(syrk_lower(1.0, r(3, 4), 0.0, MatMut::new(&mut c, 3, 4, 3).unwrap()).is_err());
    assert!(potrf_lower(MatMut::new(&mut c, 3, 4, 3).unwrap()).is_err());
    assert!(trsm_right_lower(Op::None, r(3, 3), MatMut::new(&mut c, 3, 4, 3).unwrap()).is_err());
    assert!(trsm_left_lower(Op::None, r(3, 4), MatMut::new(&mut c, 3, 4, 3).unwrap()).is_err());
    assert_eq!(c, [7.0; 12]);
}

proptest! {
    #![proptest_config(zellige_tests::cases(48))]

    #[test]
    fn any_product(m in 0usize..90, n in 0usize..90, k in 0usize..90, ta: bool, tb: bool, seed: u64) {
        let op = |t| if t { Op::Trans } else { Op::None };
        check_gemm::<f32>((m, n, k), (op(ta), op(tb)), (-1.0, 1.0), seed);
        check_gemm::<f64>((m, n, k), (op(ta), op(tb)), (1.0, 0.5), seed);
    }

    #[test]
    fn any_triangle(m in 0usize..150, n in 0usize..150, trans: bool, left: bool, seed: u64) {
        let op = if trans { Op::Trans } else { Op::None };
        check_trsm::<f32>(left, op, m, n, 1.0, seed);
        check_trsm::<f64>(left, op, m, n, 1.0, seed);
        check_syrk::<f32>(m, n, (0.75, -1.0), seed);
        check_syrk::<f64>(m, n, (1.0, 0.0), seed);
        check_potrf::<f32>(m.min(100), seed);
    }
}
