//! Symmetric updates and triangular solves with products in X3 and TF32, against `f64`.

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zellige_kernels::formats::{SplitRef, max_abs, pack_split, split_scale_exponent};
use zellige_kernels::precision::{
    PanelPrecision, Sign, syrk_lower_tf32, syrk_lower_x3, syrk_scratch_len, trsm_right_lower_in,
    trsm_scratch_len,
};
use zellige_kernels::{KernelError, MatMut, MatRef, Op, trsm_right_lower};

const U32: f64 = 1.0 / 16_777_216.0;
const LOW: [PanelPrecision; 2] = [PanelPrecision::Tf32, PanelPrecision::X3];

/// Relative error of one product of two rounded or split operands.
fn roundoff(p: PanelPrecision) -> f64 {
    match p {
        PanelPrecision::Native => 0.0,
        PanelPrecision::Tf32 => 1.005 * 2.0f64.powi(-10),
        PanelPrecision::X3 => 3.0 * 2.0f64.powi(-22),
    }
}

/// `rows x cols` numbers without gaps.
fn random(rows: usize, cols: usize, rng: &mut ChaCha8Rng) -> Vec<f32> {
    (0..rows * cols).map(|_| rng.random_range(-1.0f32..1.0)).collect()
}

fn view(x: &[f32], rows: usize, cols: usize) -> MatRef<'_, f32> {
    MatRef::new(x, rows, cols, rows).unwrap()
}

fn syrk(p: PanelPrecision, sign: Sign, a: &[f32], c: &mut [f32], n: usize, k: usize) {
    let mut scratch = vec![f32::NAN; syrk_scratch_len(p, n, k)];
    let c = MatMut::new(c, n, n, n).unwrap();
    match p {
        PanelPrecision::X3 => {
            let scale = split_scale_exponent(max_abs(view(a, n, k)));
            let (mut hi, mut lo) = (vec![0; n * k], vec![0; n * k]);
            let halves = (MatMut::new(&mut hi, n, k, n).unwrap(), MatMut::new(&mut lo, n, k, n).unwrap());
            pack_split(view(a, n, k), scale, halves.0, halves.1).unwrap();
            let half = |x| MatRef::new(x, n, k, n).unwrap();
            let split = SplitRef::new(half(&hi), half(&lo), scale).unwrap();
            syrk_lower_x3(sign, split, c, &mut scratch).unwrap();
        }
        _ => syrk_lower_tf32(sign, view(a, n, k), c, &mut scratch).unwrap(),
    }
}

/// A lower triangle with a diagonal that keeps solutions from growing, and what must not be read
/// above it.
fn triangle(n: usize, rng: &mut ChaCha8Rng) -> Vec<f32> {
    let mut l = random(n, n, rng);
    for j in 0..n {
        l[j * n..j * n + j].fill(f32::NAN);
        l[j + j * n] += n as f32 / 4.0 + 1.0;
    }
    l
}

#[test]
fn updates_keep_to_the_lower_triangle_and_to_their_bound() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for (n, k) in [(1, 1), (7, 3), (64, 64), (65, 40), (150, 33), (300, 70), (5, 0), (0, 4)] {
        for p in LOW {
            for (sign, s, unit) in [(Sign::Minus, -1.0, 1.0f32), (Sign::Plus, 1.0, 1e-11)] {
                let a: Vec<f32> = random(n, k, &mut rng).iter().map(|x| x * unit).collect();
                let mut c: Vec<f32> = random(n, n, &mut rng).iter().map(|x| x * unit * unit).collect();
                for j in 0..n {
                    c[j * n..j * n + j].fill(f32::NAN);
                }
                let before = c.clone();
                syrk(p, sign, &a, &mut c, n, k);
                let (mut worst, max) = (0.0f64, f64::from(unit));
                for j in 0..n {
                    assert!(c[j * n..j * n + j].iter().all(|x| x.is_nan()), "above the diagonal");
                    for i in j..n {
                        let term = |l: usize| f64::from(a[i + l * n]) * f64::from(a[j + l * n]);
                        let (sum, size) =
                            (0..k).fold((0.0, 0.0), |(x, y), l| (x + term(l), y + term(l).abs()));
                        let old = f64::from(before[i + j * n]);
                        let off = (f64::from(c[i + j * n]) - old - s * sum).abs();
                        let sums = (3.0 * k as f64 + 4.0) * U32 * (size + old.abs());
                        let small = k as f64 * 4.0 * 2.0f64.powi(-39) * max * max;
                        worst = worst.max(off / (roundoff(p) * size + sums + small));
                    }
                }
                assert!(worst <= 1.0, "{p} {n} {k}: {worst} of the bound");
                // TF32 must be seen to round.
                let seen = p == PanelPrecision::X3 || n * k < 1000 || worst > 1e-2;
                assert!(seen, "{p} {n} {k}: {worst} of the bound");
            }
        }
    }
}

/// `|X op(L) - B|` over the bound of the documentation.
fn residual(p: PanelPrecision, op: Op, l: &[f32], b: &[f32], x: &[f32], m: usize, n: usize) -> f64 {
    let mut worst = 0.0f64;
    for j in 0..n {
        for i in 0..m {
            let term = |k: usize| {
                // op(L)[k][j]
                let (r, c) = if op == Op::Trans { (j, k) } else { (k, j) };
                if r < c { 0.0 } else { f64::from(x[i + k * m]) * f64::from(l[r + c * n]) }
            };
            let (sum, size) = (0..n).fold((0.0, 0.0), |(x, y), k| (x + term(k), y + term(k).abs()));
            let bound = (roundoff(p) + (3.0 * n as f64 + 10.0) * U32) * size;
            worst = worst.max((sum - f64::from(b[i + j * m])).abs() / bound);
        }
    }
    worst
}

#[test]
fn solves_are_backward_stable() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for (m, n) in [(1, 65), (40, 64), (33, 130), (150, 200), (20, 300)] {
        let l = triangle(n, &mut rng);
        let b = random(m, n, &mut rng);
        for op in [Op::Trans, Op::None] {
            for p in PanelPrecision::ALL {
                let mut x = b.clone();
                let mut scratch = vec![f32::NAN; trsm_scratch_len(p, m, n)];
                let out = MatMut::new(&mut x, m, n, m).unwrap();
                trsm_right_lower_in(p, op, view(&l, n, n), out, &mut scratch).unwrap();
                let worst = residual(p, op, &l, &b, &x, m, n);
                assert!(worst <= 1.0, "{p} {op:?} {m} {n}: {worst} of the bound");
                let mut plain = b.clone();
                trsm_right_lower(op, view(&l, n, n), MatMut::new(&mut plain, m, n, m).unwrap()).unwrap();
                let same = p == PanelPrecision::Native || n <= 64;
                assert_eq!(plain == x, same, "{p} {op:?} {m} {n} has products of its own");
            }
        }
    }
}

/// The Cholesky factor, in `f64`, of a smooth covariance with little noise: its condition number is
/// in the hundreds.
fn ill_conditioned(n: usize) -> Vec<f32> {
    let distance = |i: usize, j: usize| (i as f64 - j as f64) / 30.0;
    let mut l = vec![0.0f64; n * n];
    for j in 0..n {
        for i in j..n {
            let a = (-distance(i, j).powi(2)).exp() + if i == j { 1e-5 } else { 0.0 };
            let s = (0..j).fold(a, |s, k| s - l[i + k * n] * l[j + k * n]);
            l[i + j * n] = if i == j { s.sqrt() } else { s / l[j + j * n] };
        }
    }
    l.into_iter().map(|x| x as f32).collect()
}

/// The bound holds where the solution is hundreds of times as large as the right-hand side.
#[test]
fn an_ill_conditioned_triangle_does_no_harm() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let (m, n) = (10, 256);
    let l = ill_conditioned(n);
    let b = random(m, n, &mut rng);
    for p in LOW {
        let mut x = b.clone();
        let mut scratch = vec![0.0; trsm_scratch_len(p, m, n)];
        let out = MatMut::new(&mut x, m, n, m).unwrap();
        trsm_right_lower_in(p, Op::Trans, view(&l, n, n), out, &mut scratch).unwrap();
        let largest = x.iter().fold(0.0f32, |m, x| m.max(x.abs()));
        assert!(largest > 300.0, "{largest}");
        let worst = residual(p, Op::Trans, &l, &b, &x, m, n);
        assert!(worst <= 1.0, "{p}: {worst} of the bound");
    }
}

#[test]
fn bad_operands_are_refused_before_anything_is_written() {
    let (a, mut c) = (vec![1.0f32; 100 * 3], vec![2.0f32; 100 * 100]);
    let short = &mut [0.0; 299];
    let out = MatMut::new(&mut c, 100, 100, 100).unwrap();
    assert_eq!(
        syrk_lower_tf32(Sign::Minus, view(&a, 100, 3), out, short),
        Err(KernelError::Scratch { kernel: "syrk_lower_tf32", got: 299, need: 300 })
    );
    let halves = vec![0x3c00u16; 300];
    let half = MatRef::new(&halves, 100, 3, 100).unwrap();
    let split = SplitRef::new(half, half, 0).unwrap();
    let out = MatMut::new(&mut c, 99, 99, 99).unwrap();
    let refused = syrk_lower_x3(Sign::Minus, split, out, &mut [0.0; 1200]);
    assert!(matches!(refused, Err(KernelError::Shape { operand: "C", .. })));
    let l = vec![1.0f32; 100 * 100];
    let mut b = vec![1.0f32; 4 * 100];
    for (order, operand) in [(100, None), (99, Some("L"))] {
        let out = MatMut::new(&mut b, 4, 100, 4).unwrap();
        let refused = trsm_right_lower_in(PanelPrecision::X3, Op::Trans, view(&l, order, order), out, short);
        match (refused, operand) {
            (Err(KernelError::Shape { operand, .. }), Some(want)) => assert_eq!(operand, want),
            (Err(KernelError::Scratch { .. }), None) => {}
            (other, _) => panic!("{other:?}"),
        }
    }
    assert!(b.iter().all(|&x| x == 1.0) && c.iter().all(|&x| x == 2.0));
}

proptest! {
    #![proptest_config(zellige_tests::cases(24))]

    #[test]
    fn solves_of_any_size_and_unit(
        m in 1usize..30, n in 1usize..200, trans: bool, seed: u64,
        unit in prop::sample::select(vec![1.0f32, 1e-11, 1e9]),
    ) {
        let op = if trans { Op::Trans } else { Op::None };
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let l: Vec<f32> = triangle(n, &mut rng).iter().map(|x| x * unit).collect();
        let b = random(m, n, &mut rng);
        for p in LOW {
            let mut x = b.clone();
            let mut scratch = vec![0.0; trsm_scratch_len(p, m, n)];
            let out = MatMut::new(&mut x, m, n, m).unwrap();
            trsm_right_lower_in(p, op, view(&l, n, n), out, &mut scratch).unwrap();
            let worst = residual(p, op, &l, &b, &x, m, n);
            prop_assert!(worst <= 1.0, "{p}: {worst} of the bound");
        }
    }
}
