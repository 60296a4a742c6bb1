//! Tests of the kernels around products: HP1, HP2 and HP3 composed from kernels, against the CPU's.

use half::f16;
use rand::RngExt;
use zellige_gpu::Element;
use zellige_kernels::cuda::{Scales, accumulate, factors, product_hp3, rescale, store, sum};
use zellige_kernels::formats::{HalfKind, HalfMut, HalfRef, max_abs, pack_half, scale_exponent};
use zellige_kernels::precision::{GemmPrecision, Sign, gemm_half, gemm_hp2, gemm_hp3, scratch_len};
use zellige_kernels::{MatMut, MatRef, Op};

use super::tile::{Cell, Numbers, Tile, assert_same, measured, rng, same_f16, same_f32};
use super::{run, run_all};

/// An f16 tile with its scale.
struct Half {
    bits: Tile<u16>,
    scale: Cell<i32>,
}

impl Half {
    /// `tile` with the scale of its largest entry.
    fn of(tile: &Tile<f32>) -> Self {
        let exp = scale_exponent(max_abs(tile.view()));
        let mut bits = Tile::zeros((tile.rows, tile.cols, tile.ld), Element::F16);
        let view = HalfMut { mat: bits.view_mut(), kind: HalfKind::F16, scale_exp: exp };
        pack_half(tile.view(), view).unwrap();
        Half { bits, scale: Cell::new(exp) }
    }
    fn copy(&self) -> Self {
        Half { bits: self.bits.clone(), scale: Cell::new(self.scale.get()) }
    }
    fn view(&self) -> HalfRef<'_> {
        HalfRef { mat: self.bits.view(), kind: HalfKind::F16, scale_exp: self.scale.get() }
    }
    fn stored(&self, i: usize, j: usize) -> f64 {
        f16::from_bits(self.bits.at(i, j)).to_f64()
    }
}

/// Entry `(l, j)` of `op(B)` in stored units.
fn of_b(b: &Half, op: Op, l: usize, j: usize) -> f64 {
    if op == Op::Trans { b.stored(j, l) } else { b.stored(l, j) }
}

/// Returns the result of a tensor core's product: the stored numbers' sums, rounded to f32.
fn product(a: &Half, b: &Half, op: Op, (m, n, k): (usize, usize, usize)) -> Tile<f32> {
    let entry = |i, j| (0..k).map(|l| a.stored(i, l) * of_b(b, op, l, j)).sum::<f64>();
    Tile::new((m, n, m + 1), Element::F32, |i, j| entry(i, j) as f32)
}

struct Case {
    shape: (usize, usize, usize),
    op: Op,
    sign: Sign,
    a: Half,
    b: Half,
    c: Tile<f32>,
    seed: u64,
    /// True if every sum fits f32 in every order.
    exact: bool,
}

/// Operands of every unit, and a C larger or smaller than the product, so that its scale has to be
/// raised or not. `whole`: with entries that are small whole numbers in their units, so that f32
/// holds every product exactly.
fn cases(whole: bool) -> Vec<Case> {
    let mut out = Vec::new();
    for shape @ (m, n, k) in [(1, 1, 1), (5, 3, 0), (7, 5, 3), (66, 17, 40), (3, 70, 101)] {
        for op in [Op::Trans, Op::None] {
            for (units, sign) in [
                ([0, 0, 0], Sign::Minus),
                ([-37, -30, -80], Sign::Plus),
                ([60, 50, 20], Sign::Minus),
                ([-10, 3, 40], Sign::Minus),
            ] {
                let seed = out.len() as u64;
                let mut rng = rng(seed);
                let mut tile = |rows: usize, cols: usize, unit: i32| {
                    Tile::new((rows, cols, rows + 2), Element::F32, |_, _| {
                        let x: f64 = rng.random_range(-1.0..1.0);
                        let x = if whole { (x * 8.0).round() } else { x };
                        (x * 2.0f64.powi(unit)) as f32
                    })
                };
                let a = Half::of(&tile(m, k, units[0]));
                let b = Half::of(&if op == Op::Trans { tile(n, k, units[1]) } else { tile(k, n, units[1]) });
                let c = tile(m, n, units[2]);
                let exact = whole && units == [0; 3];
                out.push(Case { shape, op, sign, a, b, c, seed, exact });
            }
        }
    }
    out
}

impl Case {
    fn scales(&mut self) -> Scales {
        Scales { a: self.a.scale.at(), b: self.b.scale.at() }
    }
    fn scratch(&self, precision: GemmPrecision) -> Vec<f32> {
        let (m, n, k) = self.shape;
        vec![f32::NAN; scratch_len(precision, m, n, k)]
    }
    /// `C + sign A op(B)` and `|C| + |A| |op(B)|` in f64, `c` in stored units of `exp`.
    fn in_f64(&self, i: usize, j: usize, c: f64, exp: i32) -> (f64, f64) {
        let unit = 2.0f64.powi(self.a.scale.get() + self.b.scale.get());
        let c = c * 2.0f64.powi(exp);
        let s = if self.sign == Sign::Plus { 1.0 } else { -1.0 };
        (0..self.shape.2).fold((c, c.abs()), |(sum, size), l| {
            let p = unit * self.a.stored(i, l) * of_b(&self.b, self.op, l, j);
            (sum + s * p, size + p.abs())
        })
    }
}

#[test]
fn hp1_is_a_product_and_a_sum_on_the_device() {
    for whole in [true, false] {
        for mut case in cases(whole) {
            let mut p = product(&case.a, &case.b, case.op, case.shape);
            let mut c = case.c.clone();
            let launch = accumulate(c.shape(), p.matrix(), case.sign, case.scales(), c.matrix()).unwrap();
            if !run(&launch, case.seed) {
                return;
            }
            if whole {
                let mut want = case.c.clone();
                let mut scratch = case.scratch(GemmPrecision::Hp1);
                let (a, b) = (case.a.view(), case.b.view());
                gemm_half(case.sign, a, b, case.op, want.view_mut(), &mut scratch).unwrap();
                // If the units differ, the CPU rounds the sum with C once for each of its blocks.
                let exact = case.exact;
                let close = |x: f32, y: f32| {
                    same_f32(x, y) || !exact && (f64::from(x) / f64::from(y) - 1.0).abs() < 1e-6
                };
                assert_same(&c.entries(), &want.entries(), close, "HP1");
            }
            for j in 0..c.cols {
                for i in 0..c.rows {
                    let (want, size) = case.in_f64(i, j, case.c.at(i, j).into(), 0);
                    // The product is rounded once, the sum once.
                    let bound = 2.0f64.powi(-23) * size + 2.0f64.powi(-149);
                    assert!((f64::from(c.at(i, j)) - want).abs() <= bound, "{want:e} {:e}", c.at(i, j));
                }
            }
        }
    }
}

/// `sum`, `measure`, `store`; false without g++.
fn finish(case: &mut Case, p: zellige_gpu::Matrix, s: &mut Tile<f32>, c: &mut Half) -> bool {
    let shape = s.shape();
    let into = s.matrix();
    let launch = sum(shape, p, case.sign, case.scales(), (c.bits.matrix(), c.scale.at()), into).unwrap();
    if !run(&launch, case.seed) {
        return false;
    }
    let Some(mut measure) = measured(s, case.seed) else { return false };
    let stored = store(shape, s.matrix(), measure.at(), c.bits.matrix(), c.scale.at()).unwrap();
    run_all(&[stored], case.seed)
}

#[test]
fn hp2_rounds_once_and_raises_the_scale_as_the_cpu_does() {
    let mut raised = 0;
    for whole in [true, false] {
        for mut case in cases(whole) {
            let before = Half::of(&case.c);
            let (mut got, mut want) = (before.copy(), before.copy());
            let mut p = product(&case.a, &case.b, case.op, case.shape);
            let place = p.matrix();
            if !finish(&mut case, place, &mut p, &mut got) {
                return;
            }
            let mut view =
                HalfMut { mat: want.bits.view_mut(), kind: HalfKind::F16, scale_exp: before.scale.get() };
            let mut scratch = case.scratch(GemmPrecision::Hp2);
            let (a, b) = (case.a.view(), case.b.view());
            gemm_hp2(case.sign, a, b, case.op, &mut view, &mut scratch).unwrap();
            let scale = view.scale_exp;
            raised += usize::from(scale != before.scale.get());
            assert_eq!(got.scale.get(), scale);
            for (g, w) in got.bits.entries().into_iter().zip(want.bits.entries()) {
                // Sums of f32 in another order may end on the other side of a midpoint.
                let near = !case.exact && (i32::from(g) - i32::from(w)).abs() == 1;
                assert!(same_f16(g, w) || near, "{g:#x} {w:#x}");
            }
            let unit = 2.0f64.powi(scale);
            for j in 0..case.c.cols {
                for i in 0..case.c.rows {
                    let (want, size) = case.in_f64(i, j, before.stored(i, j), before.scale.get());
                    let result = got.stored(i, j) * unit;
                    let bound =
                        2.0f64.powi(-11) * want.abs() + 2.0f64.powi(-22) * size + 2.0f64.powi(-25) * unit;
                    assert!((result - want).abs() <= bound, "{result:e} {want:e}");
                }
            }
        }
    }
    assert!(raised > 4, "{raised} scales were raised");
}

#[test]
fn hp3_has_the_cpu_s_bits() {
    for whole in [false, true] {
        for mut case in cases(whole) {
            let (m, n, k) = case.shape;
            let before = Half::of(&case.c);
            let (mut got, mut want) = (before.copy(), before.copy());
            let mut p = Tile::<u16>::zeros((m, n, m + 5), Element::F16);
            let shape = (m as u32, n as u32, k as u32);
            let (a, b) = (case.a.bits.matrix(), case.b.bits.matrix());
            if !run(&product_hp3(shape, a, b, case.op == Op::Trans, p.matrix()).unwrap(), case.seed) {
                return;
            }
            let mut s = Tile::<f32>::zeros((m, n, m + 2), Element::F32);
            let place = p.matrix();
            finish(&mut case, place, &mut s, &mut got);
            let mut view =
                HalfMut { mat: want.bits.view_mut(), kind: HalfKind::F16, scale_exp: before.scale.get() };
            let mut scratch = case.scratch(GemmPrecision::Hp3);
            let (a, b) = (case.a.view(), case.b.view());
            gemm_hp3(case.sign, a, b, case.op, &mut view, &mut scratch).unwrap();
            assert_eq!(got.scale.get(), view.scale_exp);
            for (g, w) in got.bits.entries().into_iter().zip(want.bits.entries()) {
                assert!(same_f16(g, w), "{g:#x} {w:#x}");
            }
            let unit = 2.0f64.powi(got.scale.get());
            for j in 0..n {
                for i in 0..m {
                    let (want, size) = case.in_f64(i, j, before.stored(i, j), before.scale.get());
                    let result = got.stored(i, j) * unit;
                    // An accumulator rounded every four products, and C once.
                    let u = 2.0f64.powi(-11);
                    let bound = (2.0 + k as f64 / 4.0) * u * size + 2.0f64.powi(-24) * unit;
                    assert!((result - want).abs() <= bound, "{result:e} {want:e}");
                }
            }
        }
    }
}

/// Returns `2^e`, or zero or infinity if its product with every number of f32 is.
fn power(e: i32) -> f64 {
    2.0f64.powi(e.clamp(-600, 600))
}

/// Returns the CPU's result for the 1 by 1 product with these scales and 0.
fn one_by_one(sign: Sign, a: i32, b: i32) -> f32 {
    let one = [f16::ONE.to_bits()];
    let of = |scale_exp| HalfRef { mat: MatRef::new(&one, 1, 1, 1).unwrap(), kind: HalfKind::F16, scale_exp };
    let mut c = [0.0];
    let mut scratch = vec![0.0; scratch_len(GemmPrecision::Hp1, 1, 1, 1)];
    gemm_half(sign, of(a), of(b), Op::Trans, MatMut::new(&mut c, 1, 1, 1).unwrap(), &mut scratch).unwrap();
    c[0]
}

#[test]
fn factors_are_exact_where_f32_has_the_power() {
    let mut pairs: Vec<(i32, i32)> =
        (-400..=400).flat_map(|e| [(e, 0), (e / 3 - 70, e - e / 3 + 70)]).collect();
    let extremes =
        [(99_990, -100_000), (i32::MAX, i32::MAX), (i32::MIN, i32::MIN), (i32::MAX, 3), (-9, i32::MIN)];
    pairs.extend(extremes);
    for (seed, (a, b)) in (0..).zip(pairs) {
        for (sign, value) in [(Sign::Plus, 1.0), (Sign::Minus, -1.0)] {
            let (mut at_a, mut at_b, mut to) = (Cell::new(a), Cell::new(b), Cell::new([f32::NAN; 2]));
            if !run(&factors(sign, Scales { a: at_a.at(), b: at_b.at() }, to.at()), seed) {
                return;
            }
            let [alpha, beta] = to.get();
            // The power is exact in f64, so f32 rounds once: half of its smallest number becomes 0.
            let want = (value * power(a.saturating_add(b))) as f32;
            assert!(same_f32(alpha, want) && beta == 1.0, "2^({a} + {b}): {alpha:e} {want:e}, {beta}");
            assert_eq!(alpha, one_by_one(sign, a, b), "2^({a} + {b})");
        }
    }
}

#[test]
fn sums_follow_their_formula_at_every_scale() {
    let exponents =
        [(0, 0, 0), (-70, -75, 3), (80, 90, 20), (-140, 2, -140), (-120, -120, -1), (100, 60, 0), (9, -3, 2)];
    for (seed, (a, b, c)) in exponents.into_iter().enumerate() {
        let seed = seed as u64;
        let shape = (37, 9, 40);
        let (mut a_at, mut b_at, mut c_at) = (Cell::new(a), Cell::new(b), Cell::new(c));
        let scales = Scales { a: a_at.at(), b: b_at.at() };
        for near in [-(a + b), -(a + b - c), 0] {
            let numbers = Numbers::Near(near.clamp(-140, 100));
            let (p, old) = (numbers.tile(shape, seed), Numbers::Near(0).tile(shape, seed + 90));
            let half = Half::of(&Numbers::Near(0).tile(shape, seed + 70));
            let (mut into, mut sums, mut halves) = (old.clone(), p.clone(), half.copy());
            let mut low = Half::of(&p).bits;
            let mut from_low = Tile::<f32>::zeros(shape, Element::F32);
            let size = p.shape();
            let c_of = |halves: &mut Half, c_at: &mut Cell<i32>| (halves.bits.matrix(), c_at.at());
            let mut product = p.clone();
            let added = accumulate(size, product.matrix(), Sign::Minus, scales, into.matrix()).unwrap();
            if !run(&added, seed) {
                return;
            }
            let place = sums.matrix();
            let c_now = c_of(&mut halves, &mut c_at);
            run(&sum(size, place, Sign::Minus, scales, c_now, place).unwrap(), seed);
            let c_now = c_of(&mut halves, &mut c_at);
            run(&sum(size, low.matrix(), Sign::Plus, scales, c_now, from_low.matrix()).unwrap(), seed);
            for j in 0..shape.1 {
                for i in 0..shape.0 {
                    // Each step is exact in f64, or is rounded to f32 as it is there.
                    let scaled = |x: f32, e: i32| (f64::from(x) * power(e)) as f32;
                    let stored = half.stored(i, j) as f32;
                    let want = old.at(i, j) - scaled(p.at(i, j), a + b);
                    assert!(same_f32(into.at(i, j), want), "{:e} {want:e}", into.at(i, j));
                    let want = stored - scaled(p.at(i, j), a + b - c);
                    assert!(same_f32(sums.at(i, j), want), "{:e} {want:e}", sums.at(i, j));
                    let product = f16::from_bits(low.at(i, j)).to_f32();
                    let want = stored + scaled(product, a + b - c);
                    assert!(same_f32(from_low.at(i, j), want), "{:e} {want:e}", from_low.at(i, j));
                }
            }
        }
    }
}

#[test]
fn another_scale_rounds_once() {
    for (seed, change) in [0, 1, -1, 9, -5, 24, 40, -40, 300, -300].into_iter().enumerate() {
        let tile = Numbers::Near(3).tile((67, 19, 70), seed as u64);
        let mut c = Half::of(&tile);
        let before = c.copy();
        let (mut from, mut to) = (Cell::new(c.scale.get()), Cell::new(c.scale.get() + change));
        if !run(&rescale(c.bits.shape(), c.bits.matrix(), from.at(), to.at()).unwrap(), seed as u64) {
            return;
        }
        for j in 0..19 {
            for i in 0..67 {
                let want = f16::from_f64(before.stored(i, j) * 2.0f64.powi(-change));
                assert_eq!(c.bits.at(i, j), want.to_bits(), "{:e} 2^{}", before.stored(i, j), -change);
            }
        }
        c.bits.entries();
    }
}
