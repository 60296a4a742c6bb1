//! The products in lower precision: exact where every partial sum is representable, bit for bit
//! against a scalar model for HP3, and within the stated error of an f64 product elsewhere.

use half::f16;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zellige_kernels::formats::{
    Fp8Mut, Fp8Ref, HalfKind, HalfMut, HalfRef, SplitRef, bits, fp8_scale_exponent, max_abs, pack_fp8,
    pack_half, pack_split, scale_exponent, split_scale_exponent, unpack_half,
};
use zellige_kernels::precision::{
    GemmPrecision, Sign, gemm_fp8, gemm_half, gemm_hp2, gemm_hp3, gemm_tf32, gemm_x3, scratch_len,
};
use zellige_kernels::{KernelError, MatMut, MatRef, Op};

/// A column-major f32 matrix without gaps.
#[derive(Clone)]
struct Full {
    data: Vec<f32>,
    rows: usize,
    cols: usize,
}

impl Full {
    fn new(rows: usize, cols: usize, mut f: impl FnMut() -> f64) -> Self {
        let data = (0..rows * cols).map(|_| f() as f32).collect();
        Self { data, rows, cols }
    }
    fn view(&self) -> MatRef<'_, f32> {
        MatRef::new(&self.data, self.rows, self.cols, self.rows).unwrap()
    }
    fn view_mut(&mut self) -> MatMut<'_, f32> {
        MatMut::new(&mut self.data, self.rows, self.cols, self.rows).unwrap()
    }
    fn at(&self, i: usize, j: usize) -> f64 {
        f64::from(self.data[i + j * self.rows])
    }
}

/// A 16-bit tile with gaps of 3 between its columns.
struct Half {
    bits: Vec<u16>,
    rows: usize,
    cols: usize,
    kind: HalfKind,
    scale: i32,
}

impl Half {
    fn pack(x: &Full, kind: HalfKind) -> Self {
        Self::pack_at(x, kind, scale_exponent(max_abs(x.view())))
    }
    fn pack_at(x: &Full, kind: HalfKind, scale: i32) -> Self {
        let mut half =
            Self { bits: vec![0x7e00; (x.rows + 3) * x.cols], rows: x.rows, cols: x.cols, kind, scale };
        pack_half(x.view(), half.view_mut()).unwrap();
        half
    }
    fn view(&self) -> HalfRef<'_> {
        HalfRef::new(&self.bits, self.rows, self.cols, self.rows + 3, self.kind, self.scale).unwrap()
    }
    fn view_mut(&mut self) -> HalfMut<'_> {
        HalfMut::new(&mut self.bits, self.rows, self.cols, self.rows + 3, self.kind, self.scale).unwrap()
    }
    fn code(&self, i: usize, j: usize) -> u16 {
        self.bits[i + j * (self.rows + 3)]
    }
    /// The stored number.
    fn stored(&self, i: usize, j: usize) -> f64 {
        match self.kind {
            HalfKind::F16 => f16::from_bits(self.code(i, j)).to_f64(),
            HalfKind::BF16 => half::bf16::from_bits(self.code(i, j)).to_f64(),
        }
    }
    fn at(&self, i: usize, j: usize) -> f64 {
        self.stored(i, j) * 2.0f64.powi(self.scale)
    }
}

/// An 8-bit tile with gaps of 3 between its columns.
struct Fp8 {
    bits: Vec<u8>,
    rows: usize,
    cols: usize,
    scale: i32,
}

impl Fp8 {
    fn pack(x: &Full) -> Self {
        let scale = fp8_scale_exponent(max_abs(x.view()));
        let (rows, cols) = (x.rows, x.cols);
        let mut bits = vec![0x7f; (rows + 3) * cols];
        pack_fp8(x.view(), Fp8Mut::new(&mut bits, rows, cols, rows + 3, scale).unwrap()).unwrap();
        Self { bits, rows, cols, scale }
    }
    fn view(&self) -> Fp8Ref<'_> {
        Fp8Ref::new(&self.bits, self.rows, self.cols, self.rows + 3, self.scale).unwrap()
    }
    fn at(&self, i: usize, j: usize) -> f64 {
        f64::from(bits::f32_from_e4m3(self.bits[i + j * (self.rows + 3)])) * 2.0f64.powi(self.scale)
    }
}

struct Case {
    a: Full,
    b: Full,
    c: Full,
    op: Op,
    sign: Sign,
    k: usize,
}

impl Case {
    fn new((m, n, k): (usize, usize, usize), op: Op, sign: Sign, mut f: impl FnMut() -> f64) -> Self {
        let (rb, cb) = op.shape((k, n));
        Self {
            a: Full::new(m, k, &mut f),
            b: Full::new(rb, cb, &mut f),
            c: Full::new(m, n, &mut f),
            op,
            sign,
            k,
        }
    }
    fn scratch(&self, p: GemmPrecision) -> Vec<f32> {
        vec![f32::NAN; scratch_len(p, self.c.rows, self.c.cols, self.k)]
    }
    /// Row and column of `B` for `op(B)[l][j]`.
    fn at_b(&self, l: usize, j: usize) -> (usize, usize) {
        match self.op {
            Op::None => (l, j),
            Op::Trans => (j, l),
        }
    }
    fn s(&self) -> f64 {
        match self.sign {
            Sign::Plus => 1.0,
            Sign::Minus => -1.0,
        }
    }
    /// Product and product of magnitudes for entry `(i, j)`.
    fn product(
        &self,
        i: usize,
        j: usize,
        a: impl Fn(usize, usize) -> f64,
        b: impl Fn(usize, usize) -> f64,
    ) -> (f64, f64) {
        (0..self.k).fold((0.0, 0.0), |(sum, size), l| {
            let (r, c) = self.at_b(l, j);
            let p = a(i, l) * b(r, c);
            (sum + p, size + p.abs())
        })
    }
    fn for_each(&self, mut f: impl FnMut(usize, usize)) {
        for j in 0..self.c.cols {
            for i in 0..self.c.rows {
                f(i, j);
            }
        }
    }

    fn half(&self, kind: HalfKind) -> (Half, Half, Full) {
        let (a, b) = (Half::pack(&self.a, kind), Half::pack(&self.b, kind));
        let mut c = self.c.clone();
        let mut scratch = self.scratch(GemmPrecision::Hp1);
        gemm_half(self.sign, a.view(), b.view(), self.op, c.view_mut(), &mut scratch).unwrap();
        (a, b, c)
    }
    fn fp8(&self) -> (Fp8, Fp8, Full) {
        let (a, b) = (Fp8::pack(&self.a), Fp8::pack(&self.b));
        let mut c = self.c.clone();
        let mut scratch = self.scratch(GemmPrecision::Fp8);
        gemm_fp8(self.sign, a.view(), b.view(), self.op, c.view_mut(), &mut scratch).unwrap();
        (a, b, c)
    }
    fn tf32(&self) -> Full {
        let mut c = self.c.clone();
        let mut scratch = self.scratch(GemmPrecision::Tf32);
        gemm_tf32(self.sign, self.a.view(), self.b.view(), self.op, c.view_mut(), &mut scratch).unwrap();
        c
    }
    fn hp(&self, p: GemmPrecision, c_scale: i32) -> (Half, Half, Half, Half) {
        let (a, b) = (Half::pack(&self.a, HalfKind::F16), Half::pack(&self.b, HalfKind::F16));
        let c0 = Half::pack_at(&self.c, HalfKind::F16, c_scale);
        let mut c = Half::pack_at(&self.c, HalfKind::F16, c_scale);
        let mut scratch = self.scratch(p);
        let mut view = c.view_mut();
        let product = if p == GemmPrecision::Hp2 { gemm_hp2 } else { gemm_hp3 };
        product(self.sign, a.view(), b.view(), self.op, &mut view, &mut scratch).unwrap();
        c.scale = view.scale_exp;
        (a, b, c0, c)
    }
    fn x3(&self) -> Full {
        let split = |x: &Full| {
            let scale = split_scale_exponent(max_abs(x.view()));
            let (mut hi, mut lo) = (vec![0; x.data.len()], vec![0; x.data.len()]);
            pack_split(
                x.view(),
                scale,
                MatMut::new(&mut hi, x.rows, x.cols, x.rows).unwrap(),
                MatMut::new(&mut lo, x.rows, x.cols, x.rows).unwrap(),
            )
            .unwrap();
            (hi, lo, scale)
        };
        fn view<'a>(x: &Full, s: &'a (Vec<u16>, Vec<u16>, i32)) -> SplitRef<'a> {
            let m = |b: &'a [u16]| MatRef::new(b, x.rows, x.cols, x.rows).unwrap();
            SplitRef::new(m(&s.0), m(&s.1), s.2).unwrap()
        }
        let (a, b) = (split(&self.a), split(&self.b));
        let mut c = self.c.clone();
        let mut scratch = self.scratch(GemmPrecision::X3);
        let (a, b) = (view(&self.a, &a), view(&self.b, &b));
        gemm_x3(self.sign, a, b, self.op, c.view_mut(), &mut scratch).unwrap();
        c
    }
}

const SHAPES: [(usize, usize, usize); 9] = [
    (1, 1, 1),
    (7, 300, 3),
    (300, 7, 1),
    (16, 8, 64),
    (17, 9, 65),
    (64, 64, 64),
    (1, 40, 33),
    (5, 1, 130),
    (3, 4, 0),
];

fn everything(mut f: impl FnMut((usize, usize, usize), Op, Sign)) {
    for shape in SHAPES.into_iter().chain([(0, 3, 2), (3, 0, 2)]) {
        for op in [Op::None, Op::Trans] {
            for sign in [Sign::Plus, Sign::Minus] {
                f(shape, op, sign);
            }
        }
    }
}

#[test]
fn small_integers_are_exact_in_every_precision() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    everything(|shape, op, sign| {
        for unit in [0, -36, 25] {
            let u = 2.0f64.powi(unit);
            // Sums stay below 2048 units in the last place, even of C: at most 130 * 9 + 3.
            let mut case = Case::new(shape, op, sign, || f64::from(rng.random_range(-3..=3)) * u);
            case.c.data.iter_mut().for_each(|x| *x *= u as f32);
            let want = |i, j| {
                case.c.at(i, j)
                    + case.s() * case.product(i, j, |i, l| case.a.at(i, l), |r, c| case.b.at(r, c)).0
            };
            let outputs = [
                case.half(HalfKind::F16).2,
                case.half(HalfKind::BF16).2,
                case.x3(),
                case.fp8().2,
                case.tf32(),
            ];
            case.for_each(|i, j| {
                for (o, c) in outputs.iter().enumerate() {
                    assert_eq!(c.at(i, j), want(i, j), "{shape:?} {op:?} {sign:?} output {o}");
                }
            });
            for p in [GemmPrecision::Hp2, GemmPrecision::Hp3] {
                let c = case.hp(p, 2 * unit).3;
                case.for_each(|i, j| assert_eq!(c.at(i, j), want(i, j), "{shape:?} {p}"));
            }
        }
    });
}

#[test]
fn hp3_is_the_scalar_model_bit_for_bit() {
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    everything(|shape, op, sign| {
        for (amplitude, c_shift) in [(1.0, 0), (1e-11, 3), (3e6, -2)] {
            let mut case = Case::new(shape, op, sign, || rng.random_range(-1.0..1.0) * amplitude);
            case.c.data.iter_mut().for_each(|x| *x *= amplitude as f32);
            let c_scale = scale_exponent(max_abs(case.c.view())) + c_shift;
            let (a, b, c0, c) = case.hp(GemmPrecision::Hp3, c_scale);
            let shift = a.scale + b.scale - c0.scale;
            let mut model = Vec::new();
            case.for_each(|i, j| {
                let mut acc = f16::ZERO;
                let mut l = 0;
                while l < case.k {
                    let mut sum: Option<f32> = None;
                    for l in l..(l + 4).min(case.k) {
                        let (r, s) = case.at_b(l, j);
                        let p = (a.stored(i, l) * b.stored(r, s)) as f32;
                        sum = Some(sum.map_or(p, |x| x + p));
                    }
                    acc = f16::from_f32(acc.to_f32() + sum.unwrap());
                    l += 4;
                }
                let add = (case.s() * acc.to_f64() * 2.0f64.powi(shift)) as f32;
                model.push(c0.stored(i, j) as f32 + add);
            });
            let max = model.iter().fold(0.0f32, |m, x| m.max(x.abs()));
            let raise = if max > 32768.0 { scale_exponent(f64::from(max)) } else { 0 };
            assert_eq!(c.scale, c0.scale + raise);
            let mut model = model.iter();
            case.for_each(|i, j| {
                let x = model.next().unwrap() * 2.0f32.powi(-raise);
                assert_eq!(c.code(i, j), f16::from_f32(x).to_bits(), "{shape:?} {op:?} {sign:?} at {i}, {j}");
            });
        }
    });
}

#[test]
fn an_output_that_outgrows_its_scale_raises_it_once() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let mut case = Case::new((20, 20, 40), Op::Trans, Sign::Plus, || rng.random_range(0.5..1.0));
    case.c.data.iter_mut().for_each(|x| *x *= 1e-6);
    let small = scale_exponent(max_abs(case.c.view()));
    for p in [GemmPrecision::Hp2, GemmPrecision::Hp3] {
        let (a, b, _, c) = case.hp(p, small);
        assert!(c.scale > small);
        let mut top = 0.0f64;
        case.for_each(|i, j| {
            let (sum, _) = case.product(i, j, |i, l| a.at(i, l), |r, s| b.at(r, s));
            assert!((c.at(i, j) / sum - 1.0).abs() < 1e-2);
            top = top.max(c.stored(i, j).abs());
        });
        assert!((1.0..=2.0).contains(&top), "{top}");
    }
}

#[test]
fn scales_beyond_the_exponents_of_f32() {
    // Products around 1e-70 times C's 1e-30: nothing is lost but what f32 cannot hold; and huge
    // times tiny is ordinary.
    for (ea, eb) in [(-120, 118), (-100, 100), (120, -118)] {
        let case = Case {
            a: Full::new(3, 2, || 1.5 * 2.0f64.powi(ea)),
            b: Full::new(3, 2, || 1.25 * 2.0f64.powi(eb)),
            c: Full::new(3, 3, || 1.0),
            op: Op::Trans,
            sign: Sign::Minus,
            k: 2,
        };
        let want = 1.0 - 2.0 * 1.5 * 1.25 * 2.0f64.powi(ea + eb);
        let outputs =
            [case.half(HalfKind::F16).2, case.half(HalfKind::BF16).2, case.x3(), case.fp8().2, case.tf32()];
        case.for_each(|i, j| {
            for c in &outputs {
                assert!((c.at(i, j) - want).abs() <= 1e-6 * want.abs(), "{ea} {eb}: {}", c.at(i, j));
            }
        });
    }
    // The product's factor 2^-200 is below f32, C in units of 2^-190 is not.
    let case = Case {
        a: Full::new(2, 2, || 2.0f64.powi(-100)),
        b: Full::new(2, 2, || 2.0f64.powi(-100)),
        c: Full::new(2, 2, || 0.0),
        op: Op::None,
        sign: Sign::Plus,
        k: 2,
    };
    let (_, _, _, c) = case.hp(GemmPrecision::Hp2, -190);
    case.for_each(|i, j| assert_eq!(c.at(i, j), 2.0f64.powi(-199)));
}

#[test]
fn bad_operands_are_refused_before_anything_is_written() {
    let case = Case::new((4, 4, 4), Op::Trans, Sign::Minus, || 1.0);
    let (a, b) = (Half::pack(&case.a, HalfKind::F16), Half::pack(&case.b, HalfKind::BF16));
    let mut c = case.c.clone();
    let mut short = vec![0.0; scratch_len(GemmPrecision::Hp1, 4, 4, 4) - 1];
    let r = gemm_half(case.sign, a.view(), a.view(), case.op, c.view_mut(), &mut short);
    assert_eq!(r, Err(KernelError::Scratch { kernel: "gemm_half", got: 31, need: 32 }));
    let r = gemm_half(case.sign, a.view(), b.view(), case.op, c.view_mut(), &mut [0.0; 32]);
    assert!(matches!(r, Err(KernelError::Format { operand: "B", .. })));
    let mut bf = Half::pack(&case.c, HalfKind::BF16);
    for product in [gemm_hp2, gemm_hp3] {
        let r = product(case.sign, a.view(), a.view(), case.op, &mut bf.view_mut(), &mut [0.0; 200]);
        assert!(matches!(r, Err(KernelError::Format { operand: "C", .. })));
    }
    let fp8 = Fp8::pack(&case.a);
    let r = gemm_fp8(case.sign, fp8.view(), fp8.view(), case.op, c.view_mut(), &mut [0.0; 31]);
    assert_eq!(r, Err(KernelError::Scratch { kernel: "gemm_fp8", got: 31, need: 32 }));
    let mut wide = Full::new(4, 5, || 1.0);
    let r = gemm_tf32(case.sign, case.a.view(), case.b.view(), case.op, wide.view_mut(), &mut [0.0; 99]);
    assert!(matches!(r, Err(KernelError::Shape { operand: "C", .. })));
    let r = gemm_half(case.sign, a.view(), a.view(), case.op, wide.view_mut(), &mut [0.0; 99]);
    assert!(matches!(r, Err(KernelError::Shape { operand: "C", .. })));
    assert_eq!(c.data, case.c.data);
}

const U16: f64 = 1.0 / 2048.0;
const U32: f64 = 1.0 / 16_777_216.0;

proptest! {
    #![proptest_config(zellige_tests::cases(64))]

    #[test]
    fn errors_stay_below_their_bounds(
        m in 1usize..40, n in 1usize..40, k in 1usize..100,
        trans: bool, minus: bool, seed: u64,
        amplitude in prop::sample::select(vec![1.0, 1e-11, 1e9]),
        spread in 0.0f64..6.0,
    ) {
        let op = if trans { Op::Trans } else { Op::None };
        let sign = if minus { Sign::Minus } else { Sign::Plus };
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut case = Case::new((m, n, k), op, sign, || {
            rng.random_range(-1.0..1.0) * amplitude * 10.0f64.powf(-rng.random_range(0.0..=spread))
        });
        case.c.data.iter_mut().for_each(|x| *x *= amplitude as f32);
        let kf = k as f64;
        let (max_a, max_b) = (max_abs(case.a.view()), max_abs(case.b.view()));

        for (kind, u) in [(HalfKind::F16, U16), (HalfKind::BF16, 1.0 / 256.0)] {
            let (a, b, c) = case.half(kind);
            let mut ok = true;
            case.for_each(|i, j| {
                // Against the product of the rounded operands: the f32 sums alone.
                let (sum, size) = case.product(i, j, |i, l| a.at(i, l), |r, s| b.at(r, s));
                let want = case.c.at(i, j) + case.s() * sum;
                ok &= (c.at(i, j) - want).abs() <= (kf + 2.0) * U32 * (size + case.c.at(i, j).abs());
                // Against the true product: the rounding of the operands, subnormals included.
                let (sum, size) = case.product(i, j, |i, l| case.a.at(i, l), |r, s| case.b.at(r, s));
                let want = case.c.at(i, j) + case.s() * sum;
                let subnormal = if kind == HalfKind::F16 { kf * 4.0 * 2.0f64.powi(-25) * max_a * max_b } else { 0.0 };
                let bound = (2.01 * u + (kf + 2.0) * U32) * size + subnormal + (kf + 2.0) * U32 * case.c.at(i, j).abs();
                ok &= (c.at(i, j) - want).abs() <= bound;
            });
            prop_assert!(ok, "{kind:?}");
        }

        let c = case.x3();
        let mut worst = 0.0f64;
        case.for_each(|i, j| {
            let (sum, size) = case.product(i, j, |i, l| case.a.at(i, l), |r, s| case.b.at(r, s));
            let want = case.c.at(i, j) + case.s() * sum;
            // Three products, in whatever order their terms are added to C (for a single column one
            // by one, in place).
            let sums = (3.0 * kf + 4.0) * U32 * (size + case.c.at(i, j).abs());
            let bound = 3.0 * 2.0f64.powi(-22) * size + kf * 4.0 * 2.0f64.powi(-39) * max_a * max_b + sums;
            worst = worst.max((c.at(i, j) - want).abs() / bound);
        });
        prop_assert!(worst <= 1.0, "x3: {worst} of the bound");

        // Operands in E4M3: exact products of what they became, and the rounding of what they were.
        let (a, b, c) = case.fp8();
        let mut worst = [0.0f64; 2];
        case.for_each(|i, j| {
            let (sum, size) = case.product(i, j, |i, l| a.at(i, l), |r, s| b.at(r, s));
            let sums = |size: f64| (kf + 2.0) * U32 * (size + case.c.at(i, j).abs());
            let off = (c.at(i, j) - case.c.at(i, j) - case.s() * sum).abs();
            worst[0] = worst[0].max(off / sums(size).max(f64::MIN_POSITIVE));
            let (sum, size) = case.product(i, j, |i, l| case.a.at(i, l), |r, s| case.b.at(r, s));
            // (1 + 1/16)^2 - 1, and what subnormal operands miss.
            let rounding = 0.12891 * size + kf * 2.2 * 2.0f64.powf(-17.8) * max_a * max_b;
            let off = (c.at(i, j) - case.c.at(i, j) - case.s() * sum).abs();
            worst[1] = worst[1].max(off / (rounding + 1.2 * sums(size)));
        });
        prop_assert!(worst[0] <= 1.0 && worst[1] <= 1.0, "fp8: {worst:?} of the bounds");

        let c = case.tf32();
        let round = |x: &Full, i, j| f64::from(bits::tf32_from_f32(x.at(i, j) as f32));
        let mut worst = [0.0f64; 2];
        case.for_each(|i, j| {
            let sums = |size: f64| (kf + 2.0) * U32 * (size + case.c.at(i, j).abs());
            let (sum, size) = case.product(i, j, |i, l| round(&case.a, i, l), |r, s| round(&case.b, r, s));
            let off = (c.at(i, j) - case.c.at(i, j) - case.s() * sum).abs();
            worst[0] = worst[0].max(off / sums(size).max(f64::MIN_POSITIVE));
            let (sum, size) = case.product(i, j, |i, l| case.a.at(i, l), |r, s| case.b.at(r, s));
            let off = (c.at(i, j) - case.c.at(i, j) - case.s() * sum).abs();
            worst[1] = worst[1].max(off / (2.01 * U16 * size + sums(size)));
        });
        prop_assert!(worst[0] <= 1.0 && worst[1] <= 1.0, "tf32: {worst:?} of the bounds");

        let c_scale = scale_exponent(max_abs(case.c.view()).max(max_a * max_b));
        for p in [GemmPrecision::Hp2, GemmPrecision::Hp3] {
            let (a, b, c0, c) = case.hp(p, c_scale);
            let mut worst = 0.0f64;
            case.for_each(|i, j| {
                let (sum, size) = case.product(i, j, |i, l| a.at(i, l), |r, s| b.at(r, s));
                let want = c0.at(i, j) + case.s() * sum;
                let sums = if p == GemmPrecision::Hp2 {
                    (kf + 2.0) * U32 * (size + c0.at(i, j).abs())
                } else {
                    // Each partial sum is rounded to 11 bits, and may be subnormal.
                    (k.div_ceil(4) as f64 * U16 * 1.01 + 4.0 * U32) * size
                        + k.div_ceil(4) as f64 * 2.0f64.powi(a.scale + b.scale - 25) + U32 * c0.at(i, j).abs()
                };
                let bound = sums + 1.01 * U16 * (want.abs() + sums) + 2.0f64.powi(c.scale - 25);
                worst = worst.max((c.at(i, j) - want).abs() / bound);
            });
            prop_assert!(worst <= 1.0, "{p}: {worst} of the bound");
        }
    }

    #[test]
    fn unpacking_gives_true_values(rows in 1usize..30, cols in 1usize..30, exp in -60i32..60, seed: u64) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let x = Full::new(rows, cols, || rng.random_range(-1.0..1.0) * 2.0f64.powi(exp));
        for kind in [HalfKind::F16, HalfKind::BF16] {
            let half = Half::pack(&x, kind);
            let mut y = Full::new(rows, cols, || 0.0);
            unpack_half(half.view(), y.view_mut()).unwrap();
            for j in 0..cols {
                for i in 0..rows {
                    prop_assert_eq!(y.at(i, j), half.at(i, j));
                }
            }
        }
    }
}
