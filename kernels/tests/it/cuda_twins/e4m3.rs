//! 8-bit tiles against the format's table of values.

use zellige_gpu::Element;
use zellige_kernels::cuda::{Measure, headroom, pack, unpack};
use zellige_kernels::formats::{max_abs, scale_exponent};

use super::run;
use super::tile::{Cell, MeasureCell, Numbers, SHAPES, Tile, measured};

/// The value of a positive code, from the definition of the format (OCP 8-bit floating point,
/// E4M3).
fn value(code: u8) -> f64 {
    let (e, m) = (i32::from(code >> 3), f64::from(code & 7));
    if e == 0 { m / 8.0 * 2.0f64.powi(-6) } else { (1.0 + m / 8.0) * 2.0f64.powi(e - 7) }
}

/// The nearest code, ties to even, saturating, by looking at all of them.
fn nearest(x: f64) -> u8 {
    if x.is_nan() {
        return 0x7f;
    }
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    let a = x.abs().min(448.0);
    let distance = |c: u8| (value(c) - a).abs();
    let best = (0..0x7fu8).min_by(|&p, &q| distance(p).total_cmp(&distance(q)).then((p & 1).cmp(&(q & 1))));
    sign | best.unwrap_or(0)
}

#[test]
fn every_code_comes_back_and_every_midpoint_goes_to_even() {
    let mut codes = Tile::new((16, 16, 16), Element::F8E4M3, |i, j| (i + 16 * j) as u8);
    // A measure for which scale 0 is chosen.
    let mut measure = MeasureCell::new(Measure { max: 448.0, exponent: 8, ..Measure::default() });
    let mut scale = Cell::new(0i32);
    let mut out = Tile::<f32>::zeros((16, 16, 16), Element::F32);
    if !run(&unpack((16, 16), codes.matrix(), scale.at(), out.matrix()).unwrap(), 1) {
        return;
    }
    for (code, x) in out.entries().into_iter().enumerate() {
        let code = code as u8;
        if code & 0x7f == 0x7f {
            assert!(x.is_nan());
        } else {
            let want = value(code & 0x7f) * if code & 0x80 == 0 { 1.0 } else { -1.0 };
            assert_eq!(f64::from(x), want);
            assert_eq!(x.is_sign_negative(), code & 0x80 != 0);
        }
    }
    // Values, midpoints to the next, and the numbers next to those; then numbers beyond the format.
    let mut numbers = vec![448.0f32, 463.9, 464.0, 480.0, 1e30, f32::INFINITY, 0.0, 1e-30, f32::NAN];
    for code in 0..0x7eu8 {
        let (x, mid) = (value(code) as f32, (0.5 * (value(code) + value(code + 1))) as f32);
        numbers.extend([x, mid, mid.next_up(), mid.next_down(), x.next_up(), x.next_down()]);
    }
    numbers.extend(numbers.clone().iter().map(|x| -x));
    let mut tile = Tile::new((numbers.len(), 1, numbers.len()), Element::F32, |i, _| numbers[i]);
    let mut bits = Tile::<u8>::zeros((numbers.len(), 1, numbers.len()), Element::F8E4M3);
    run(&pack(tile.shape(), tile.matrix(), measure.at(), bits.matrix(), scale.at()).unwrap(), 1);
    assert_eq!(scale.get(), 0);
    for (&x, got) in numbers.iter().zip(bits.entries()) {
        assert_eq!(got, nearest(x.into()), "{x:e}");
    }
}

#[test]
fn a_tile_uses_the_top_of_the_range_and_keeps_four_bits() {
    for (s, shape) in SHAPES.into_iter().enumerate() {
        for numbers in Numbers::ALL {
            let seed = s as u64;
            let mut tile = numbers.tile(shape, seed);
            let Some(mut measure) = measured(&mut tile, seed) else { return };
            let mut bits = Tile::<u8>::zeros(shape, Element::F8E4M3);
            let mut scale = Cell::new(0i32);
            run(&pack(tile.shape(), tile.matrix(), measure.at(), bits.matrix(), scale.at()).unwrap(), seed);
            let max = max_abs(tile.view());
            let plain = max == 0.0 || !max.is_finite();
            let want = if plain {
                0
            } else {
                scale_exponent(max)
                    - headroom(Element::F8E4M3)
                    - i32::from(max <= 1.75 * 2.0f64.powi(scale_exponent(max)))
            };
            assert_eq!(scale.get(), want);
            for (x, got) in tile.entries().into_iter().zip(bits.entries()) {
                // Exact in f64 for every f32 and scale.
                let stored = f64::from(x) * 2.0f64.powi(-scale.get());
                assert_eq!(got, nearest(stored), "{x:e} 2^-{}", scale.get());
                if x.is_finite() && max.is_finite() && max > 0.0 {
                    let back = value(got & 0x7f);
                    let bound = (stored.abs() / 16.0).max(2.0f64.powi(-10));
                    assert!((back - stored.abs()).abs() <= bound, "{stored:e} {back:e}");
                    assert!(stored.abs() <= 448.0);
                }
            }
        }
    }
}
