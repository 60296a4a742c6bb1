//! Conversions: the CPU's bits, and the formats' error bounds.

use half::f16;
use rand::RngExt;
use zellige_gpu::Element;
use zellige_kernels::cuda::{Third, join, narrow, pack, split, triple, unpack, widen};
use zellige_kernels::formats::{
    self, HalfKind, HalfMut, HalfRef, SplitRef, max_abs, pack_half, pack_split, scale_exponent,
    split_scale_exponent, unpack_half, unpack_split,
};
use zellige_kernels::{MatMut, MatRef};

use super::run;
use super::tile::{
    Cell, Numbers, SHAPES, Tile, assert_same, measured, rng, same_bf16, same_f16, same_f32, same_f64,
};

/// Returns each shape with each kind of numbers, and a seed.
fn cases() -> impl Iterator<Item = ((usize, usize, usize), Numbers, u64)> {
    let kinds = |(s, shape)| {
        Numbers::ALL.into_iter().enumerate().map(move |(k, numbers)| (shape, numbers, (10 * s + k) as u64))
    };
    SHAPES.into_iter().enumerate().flat_map(kinds)
}

/// Another leading dimension: operands need not agree in it.
fn wider((m, n, ld): (usize, usize, usize)) -> (usize, usize, usize) {
    (m, n, ld + 3)
}

#[test]
fn f64_and_f32() {
    for (shape, numbers, seed) in cases() {
        let mut rng = rng(seed);
        let mut wide = Tile::new(shape, Element::F64, |_, _| match rng.random_range(0..3) {
            0 => f64::from_bits(rng.random()),
            _ => f64::from(numbers.draw(&mut rng)) * rng.random_range(0.999..1.001),
        });
        let mut single = Tile::zeros(wider(shape), Element::F32);
        if !run(&narrow(wide.shape(), wide.matrix(), single.matrix()).unwrap(), seed) {
            return;
        }
        let mut want = Tile::<f32>::zeros(shape, Element::F32);
        formats::narrow(wide.view(), want.view_mut()).unwrap();
        assert_same(&single.entries(), &want.entries(), same_f32, "narrow");

        let mut back = Tile::<f64>::zeros(shape, Element::F64);
        run(&widen(single.shape(), single.matrix(), back.matrix()).unwrap(), seed);
        let exact: Vec<f64> = single.entries().into_iter().map(f64::from).collect();
        assert_same(&back.entries(), &exact, same_f64, "widen");
    }
}

#[test]
fn tiles_in_16_bits_have_the_cpu_s_scale_and_bits() {
    for (shape, numbers, seed) in cases() {
        for kind in [HalfKind::F16, HalfKind::BF16] {
            let (element, same): (_, fn(u16, u16) -> bool) = match kind {
                HalfKind::F16 => (Element::F16, same_f16),
                HalfKind::BF16 => (Element::BF16, same_bf16),
            };
            let mut tile = numbers.tile(shape, seed);
            let Some(mut measure) = measured(&mut tile, seed) else { return };
            let mut bits = Tile::<u16>::zeros(wider(shape), element);
            let mut scale = Cell::new(0i32);
            let launch = pack(tile.shape(), tile.matrix(), measure.at(), bits.matrix(), scale.at()).unwrap();
            run(&launch, seed);
            assert_eq!(scale.get(), scale_exponent(max_abs(tile.view())));

            let (m, n, _) = shape;
            let mut want = vec![0; m * n];
            let view = HalfMut::new(&mut want, m, n, m, kind, scale.get()).unwrap();
            pack_half(tile.view(), view).unwrap();
            assert_same_bits(&bits.entries(), &want, same, &format!("{numbers:?} to {kind:?}"));

            let mut back = Tile::zeros(shape, Element::F32);
            run(&unpack(bits.shape(), bits.matrix(), scale.at(), back.matrix()).unwrap(), seed);
            let mut want = vec![0.0; m * n];
            let half = HalfRef { mat: bits.view(), kind, scale_exp: scale.get() };
            unpack_half(half, MatMut::new(&mut want, m, n, m).unwrap()).unwrap();
            assert_same(&back.entries(), &want, same_f32, &format!("{numbers:?} from {kind:?}"));
            // Against f64: half a unit in the last place, or of the smallest subnormal; of f32 too,
            // on the way back.
            if !matches!(numbers, Numbers::Any) {
                let smallest = if kind == HalfKind::F16 { -25 } else { -134 };
                let floor = 2.0f64.powi(scale.get() + smallest) + 2.0f64.powi(-149);
                for (x, y) in tile.entries().into_iter().zip(back.entries()) {
                    let (x, y) = (f64::from(x), f64::from(y));
                    let bound = kind.format().unit_roundoff() * x.abs() + floor;
                    // The largest f32 rounds up to 2^128 in bf16 and f16: infinite when it comes
                    // back.
                    let over = x.abs() > f64::from(f32::MAX) * (1.0 - kind.format().unit_roundoff());
                    assert!((x - y).abs() <= bound || over && y.is_infinite(), "{x:e} {y:e}");
                }
            }
        }
    }
}

fn assert_same_bits(got: &[u16], want: &[u16], same: fn(u16, u16) -> bool, what: &str) {
    assert_eq!(got.len(), want.len());
    for (k, (&g, &w)) in got.iter().zip(want).enumerate() {
        assert!(same(g, w), "{what}: entry {k} is {g:#06x}, {w:#06x} is wanted");
    }
}

#[test]
fn unpacking_knows_every_code_at_every_scale() {
    for element in [Element::F16, Element::BF16] {
        for exp in [0, 1, -20, 100, 140, -140, 260, -300, i32::MAX, i32::MIN] {
            let mut codes = Tile::new((256, 256, 256), element, |i, j| (i + 256 * j) as u16);
            let mut scale = Cell::new(exp);
            let mut out = Tile::zeros((256, 256, 256), Element::F32);
            if !run(&unpack((256, 256), codes.matrix(), scale.at(), out.matrix()).unwrap(), 1) {
                return;
            }
            let kind = if element == Element::F16 { HalfKind::F16 } else { HalfKind::BF16 };
            let mut want = vec![0.0f32; 65536];
            let half = HalfRef { mat: codes.view(), kind, scale_exp: exp };
            unpack_half(half, MatMut::new(&mut want, 256, 256, 256).unwrap()).unwrap();
            assert_same(&out.entries(), &want, same_f32, &format!("{element:?} 2^{exp}"));
        }
    }
}

#[test]
fn pairs_of_f16_have_the_cpu_s_bits_and_keep_23() {
    for (shape, numbers, seed) in cases() {
        let mut tile = numbers.tile(shape, seed);
        let Some(mut measure) = measured(&mut tile, seed) else { return };
        let mut hi = Tile::<u16>::zeros(wider(shape), Element::F16);
        let mut lo = hi.clone();
        let mut scale = Cell::new(0i32);
        let launch =
            split(tile.shape(), tile.matrix(), measure.at(), hi.matrix(), lo.matrix().at, scale.at())
                .unwrap();
        run(&launch, seed);
        let max = max_abs(tile.view());
        let exp = split_scale_exponent(max);
        assert_eq!(scale.get(), exp);

        let (m, n, _) = shape;
        let (mut want_hi, mut want_lo) = (vec![0; m * n], vec![0; m * n]);
        let view = |x| MatMut::new(x, m, n, m).unwrap();
        pack_split(tile.view(), exp, view(&mut want_hi), view(&mut want_lo)).unwrap();
        assert_same_bits(&hi.entries(), &want_hi, same_f16, "hi");
        assert_same_bits(&lo.entries(), &want_lo, same_f16, "lo");

        let mut back = Tile::zeros(shape, Element::F32);
        let launch = join(hi.shape(), hi.matrix(), lo.matrix().at, scale.at(), back.matrix()).unwrap();
        run(&launch, seed);
        let mut want = vec![0.0; m * n];
        let pair = SplitRef::new(hi.view(), lo.view(), exp).unwrap();
        unpack_split(pair, MatMut::new(&mut want, m, n, m).unwrap()).unwrap();
        assert_same(&back.entries(), &want, same_f32, "join");
        if max.is_finite() {
            for (x, y) in tile.entries().into_iter().zip(back.entries()) {
                let (x, y) = (f64::from(x), f64::from(y));
                // 23 bits or 2^-39 of the largest, and the rounding back to f32.
                let bound = (2.0f64.powi(-23) * x.abs()).max(2.0f64.powi(-39) * max);
                let bound = bound + 2.0f64.powi(-24) * x.abs() + 2.0f64.powi(-149);
                assert!((x - y).abs() <= bound, "{x:e} {y:e} of {max:e}");
            }
        }
    }
}

/// A pair of `f16` tiles and its value in f64, in stored units.
fn pair(shape: (usize, usize, usize), seed: u64) -> (Tile<u16>, Tile<u16>) {
    let tile = Numbers::Near(0).tile(shape, seed);
    let mut hi = Tile::zeros(shape, Element::F16);
    let mut lo = hi.clone();
    pack_split(tile.view(), split_scale_exponent(max_abs(tile.view())), hi.view_mut(), lo.view_mut())
        .unwrap();
    (hi, lo)
}

fn value(m: MatRef<'_, u16>, i: usize, j: usize) -> f64 {
    f16::from_bits(m.get(i, j)).to_f64()
}

#[test]
fn one_product_of_three_times_the_length_is_the_x3_product() {
    for (seed, (m, n, k)) in [(1, 1, 1), (5, 3, 7), (70, 20, 33)].into_iter().enumerate() {
        let seed = seed as u64;
        for transposed in [true, false] {
            let (mut ah, mut al) = pair((m, k, m + 2), seed);
            let (mut bh, mut bl) = pair(if transposed { (n, k, n + 1) } else { (k, n, k + 5) }, seed + 50);
            let mut a3 = Tile::zeros((m, 3 * k, m + 3), Element::F16);
            let launch =
                triple(ah.shape(), ah.matrix(), al.matrix().at, Third::FirstAlongColumns, a3.matrix())
                    .unwrap();
            if !run(&launch, seed) {
                return;
            }
            let (third, shape) = if transposed {
                (Third::SecondAlongColumns, (n, 3 * k, n))
            } else {
                (Third::SecondAlongRows, (3 * k, n, 3 * k + 1))
            };
            let mut b3 = Tile::zeros(shape, Element::F16);
            run(&triple(bh.shape(), bh.matrix(), bl.matrix().at, third, b3.matrix()).unwrap(), seed);
            a3.entries();
            b3.entries();
            let b =
                |m: &Tile<u16>, l, j| if transposed { value(m.view(), j, l) } else { value(m.view(), l, j) };
            for i in 0..m {
                for j in 0..n {
                    let got: f64 = (0..3 * k).map(|l| value(a3.view(), i, l) * b(&b3, l, j)).sum();
                    let (mut want, mut whole, mut size) = (0.0, 0.0, 0.0);
                    for l in 0..k {
                        let (h, low) = (value(ah.view(), i, l), value(al.view(), i, l));
                        want += h * b(&bh, l, j) + h * b(&bl, l, j) + low * b(&bh, l, j);
                        whole += (h + low) * (b(&bh, l, j) + b(&bl, l, j));
                        size += h.abs() * b(&bh, l, j).abs();
                    }
                    // Sums of 3 k terms in f64, in two orders; and the omitted product.
                    assert!((got - want).abs() <= 6.0 * k as f64 * f64::EPSILON * size.max(1.0) * 2.0);
                    assert!((got - whole).abs() <= 2.0f64.powi(-21) * size + 1e-6, "{got:e} {whole:e}");
                }
            }
        }
    }
}
