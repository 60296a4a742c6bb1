//! Conversions of single numbers: the definition of every conversion, and the portable path of the
//! fast ones.
//!
//! All narrowings round to nearest, ties to even, once. Overflow gives infinity, as in IEEE 754. A
//! NaN stays a NaN (made quiet, sign and leading payload bits kept). Subnormals are flushed neither
//! on input nor on output. Two formats follow NVIDIA's instructions instead: E4M3 has no
//! infinities, saturates and has one NaN, and TF32 rounds ties away from zero.

/// The nearest `f16`, as bits.
#[inline(always)]
pub fn f16_from_f32(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let a = bits & 0x7fff_ffff;
    // Normal results: drop 13 bits, a carry may run into the exponent and up to infinity.
    let odd = (a >> 13) & 1;
    let normal = (a.wrapping_add(0xfff + odd).wrapping_sub(0x3800_0000) >> 13) as u16;
    // Subnormal results: adding 0.5, whose last bit is worth 2^-24, makes the adder round.
    let subnormal = (f32::from_bits(a) + 0.5).to_bits().wrapping_sub(0x3f00_0000) as u16;
    let nan = 0x7e00 | ((a >> 13) & 0x3ff) as u16;
    let magnitude = if a > 0x7f80_0000 {
        nan
    } else if a >= 0x4780_0000 {
        0x7c00
    } else if a < 0x3880_0000 {
        subnormal
    } else {
        normal
    };
    sign | magnitude
}

/// The value of an `f16`, exactly.
#[inline(always)]
pub fn f32_from_f16(h: u16) -> f32 {
    let sign = u32::from(h & 0x8000) << 16;
    let a = u32::from(h & 0x7fff);
    let normal = (a << 13) + 0x3800_0000;
    // a 2^-24 by way of the adder: 2^-1 + a 2^-24 is exact.
    let subnormal = (f32::from_bits(0x3f00_0000 + a) - 0.5).to_bits();
    let special = 0x7f80_0000 | (a << 13) | if a > 0x7c00 { 0x0040_0000 } else { 0 };
    let magnitude = if a >= 0x7c00 {
        special
    } else if a < 0x0400 {
        subnormal
    } else {
        normal
    };
    f32::from_bits(sign | magnitude)
}

/// The nearest `bf16`, as bits.
#[inline(always)]
pub fn bf16_from_f32(x: f32) -> u16 {
    let bits = x.to_bits();
    let odd = (bits >> 16) & 1;
    let rounded = (bits.wrapping_add(0x7fff + odd) >> 16) as u16;
    let nan = (bits >> 16) as u16 | 0x0040;
    if bits & 0x7fff_ffff > 0x7f80_0000 { nan } else { rounded }
}

/// The value of a `bf16`, exactly (a signalling NaN made quiet).
#[inline(always)]
pub fn f32_from_bf16(h: u16) -> f32 {
    let bits = u32::from(h) << 16;
    let quiet = if bits & 0x7fff_ffff > 0x7f80_0000 { 0x0040_0000 } else { 0 };
    f32::from_bits(bits | quiet)
}

/// `x` rounded to `f32` to odd: where `x` is not an `f32`, the one of its two neighbours whose last
/// bit is set.
///
/// A second rounding to nearest, to a format with at least two bits less, then gives what one
/// rounding of `x` gives (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums",
/// 2008).
#[inline(always)]
pub fn f32_to_odd(x: f64) -> f32 {
    let near = x as f32;
    let bits = near.to_bits();
    let back = f64::from(near);
    let inexact = back != x && !x.is_nan();
    let even = bits & 1 == 0;
    let outward = back.abs() < x.abs();
    let moved = if outward { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    f32::from_bits(if inexact && even { moved } else { bits })
}

/// The nearest E4M3 number, as bits, as `cvt.rn.satfinite.e4m3x2.f32` of PTX gives it: to nearest
/// even, magnitudes above 448 (infinities too) become 448, a NaN the code `0x7f`.
///
/// E4M3 (Micikevicius et al., "FP8 formats for deep learning", 2022; OCP 8-bit floating point
/// specification 1.0): sign, 4 bits of exponent with bias 7, 3 bits of mantissa; normal numbers
/// `2^-6 ..= 448`, subnormals to `2^-9`, no infinities.
#[inline(always)]
pub fn e4m3_from_f32(x: f32) -> u8 {
    let bits = x.to_bits();
    let sign = ((bits >> 24) & 0x80) as u8;
    let a = bits & 0x7fff_ffff;
    // Normal results: drop 20 bits, a carry may run into the exponent.
    let odd = (a >> 20) & 1;
    let normal = (a.wrapping_add(0x7_ffff + odd).wrapping_sub(0x3c00_0000) >> 20) as u8;
    // Subnormal results: adding 2^14, whose last bit is worth 2^-9, makes the adder round.
    let subnormal = (f32::from_bits(a) + 16384.0).to_bits().wrapping_sub(0x4680_0000) as u8;
    if a > 0x7f80_0000 {
        0x7f
    } else if a >= 0x43e0_0000 {
        sign | 0x7e
    } else if a < 0x3c80_0000 {
        sign | subnormal
    } else {
        sign | normal
    }
}

/// The value of an E4M3 number, exactly.
#[inline(always)]
pub fn f32_from_e4m3(h: u8) -> f32 {
    let sign = u32::from(h & 0x80) << 24;
    let a = u32::from(h & 0x7f);
    let normal = (a << 20) + 0x3c00_0000;
    // a 2^-9 by way of the adder: 2^14 + a 2^-9 is exact.
    let subnormal = (f32::from_bits(0x4680_0000 + a) - 16384.0).to_bits();
    let magnitude = if a == 0x7f {
        0x7fc0_0000
    } else if a < 8 {
        subnormal
    } else {
        normal
    };
    f32::from_bits(sign | magnitude)
}

/// `x` rounded to TF32, 11 significant bits with the range of `f32`: to nearest, ties away from
/// zero, as `cvt.rna.tf32.f32` of PTX does. What rounds beyond the largest number is infinite; a
/// NaN stays one.
#[inline(always)]
pub fn tf32_from_f32(x: f32) -> f32 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x1000) & 0xffff_e000;
    let nan = bits | 0x0040_0000;
    f32::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { nan } else { rounded })
}

/// The nearest E4M3 number to an `f64`, rounded once; see [`e4m3_from_f32`].
#[inline(always)]
pub fn e4m3_from_f64(x: f64) -> u8 {
    e4m3_from_f32(f32_to_odd(x))
}

/// The nearest `f16` to an `f64`, rounded once.
#[inline(always)]
pub fn f16_from_f64(x: f64) -> u16 {
    f16_from_f32(f32_to_odd(x))
}

/// The nearest `bf16` to an `f64`, rounded once.
#[inline(always)]
pub fn bf16_from_f64(x: f64) -> u16 {
    bf16_from_f32(f32_to_odd(x))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Nearest of all finite `f16` by exhaustive comparison in f64, ties to the even code.
    fn nearest(x: f64, value: fn(u16) -> f32, inf: u16, unit_of_inf: f64) -> u16 {
        let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
        let a = x.abs();
        let at = |c: u16| {
            if c == inf { unit_of_inf } else { f64::from(value(c)) }
        };
        let (mut lo, mut hi) = (0u16, inf);
        if a >= unit_of_inf {
            return sign | inf;
        }
        while hi - lo > 1 {
            let mid = (lo + hi) / 2;
            if at(mid) <= a { lo = mid } else { hi = mid }
        }
        let (dl, dh) = (a - at(lo), at(hi) - a);
        sign | if dl < dh || (dl == dh && lo % 2 == 0) { lo } else { hi }
    }

    fn cases() -> impl Iterator<Item = f64> {
        // All numbers of f16 and bf16, the midpoints to their neighbours, and the numbers next to
        // those.
        (0..0x7f80u16).flat_map(|c| {
            let mut v = Vec::new();
            for value in [f32_from_f16 as fn(u16) -> f32, f32_from_bf16] {
                let (x, y) = (f64::from(value(c)), f64::from(value(c + 1)));
                if !y.is_finite() || !x.is_finite() {
                    continue;
                }
                let mid = 0.5 * (x + y);
                for z in
                    [x, mid, mid * (1.0 + 1e-15), mid * (1.0 - 1e-15), mid * (1.0 + 1e-7), mid * (1.0 - 1e-7)]
                {
                    v.extend([z, -z]);
                }
            }
            v
        })
    }

    #[test]
    fn codes_survive_a_round_trip() {
        for h in 0..=u16::MAX {
            let (f, b) = (f32_from_f16(h), f32_from_bf16(h));
            assert_eq!(f.to_bits(), half::f16::from_bits(h).to_f32_const().to_bits(), "{h:#x}");
            assert_eq!(b.to_bits(), half::bf16::from_bits(h).to_f32_const().to_bits(), "{h:#x}");
            let quiet = |nan: bool, bit: u16| if nan { h | bit } else { h };
            assert_eq!(f16_from_f32(f), quiet(f.is_nan(), 0x200));
            assert_eq!(bf16_from_f32(b), quiet(b.is_nan(), 0x40));
        }
    }

    #[test]
    fn roundings_are_nearest_even_and_single() {
        let big16 = 65536.0;
        let bigb = 2.0f64.powi(128);
        for x in cases() {
            assert_eq!(f16_from_f64(x), nearest(x, f32_from_f16, 0x7c00, big16), "{x:e}");
            assert_eq!(bf16_from_f64(x), nearest(x, f32_from_bf16, 0x7f80, bigb), "{x:e}");
            let y = x as f32;
            if y.is_finite() {
                let z = f64::from(y);
                assert_eq!(f16_from_f32(y), nearest(z, f32_from_f16, 0x7c00, big16), "{y:e}");
                assert_eq!(bf16_from_f32(y), nearest(z, f32_from_bf16, 0x7f80, bigb), "{y:e}");
            }
        }
    }

    #[test]
    fn one_rounding_differs_from_two() {
        // Just above the midpoint of 1 and the next f16; rounding to f32 first lands on the
        // midpoint and then on 1.
        let x = 1.0 + 2.0f64.powi(-11) + 2.0f64.powi(-40);
        assert_eq!(f16_from_f32(x as f32), 0x3c00);
        assert_eq!(f16_from_f64(x), 0x3c01);
    }

    #[test]
    fn specials() {
        for (x, h, b) in [
            (f64::INFINITY, 0x7c00, 0x7f80),
            (f64::NEG_INFINITY, 0xfc00, 0xff80),
            (65519.99, 0x7bff, 0x4780),
            (65520.0, 0x7c00, 0x4780),
            (1e300, 0x7c00, 0x7f80),
            (-0.0, 0x8000, 0x8000),
            (1e-300, 0, 0),
            (-1e-300, 0x8000, 0x8000),
        ] {
            assert_eq!((f16_from_f64(x), bf16_from_f64(x)), (h, b), "{x:e}");
        }
        assert!(f32_from_f16(f16_from_f64(f64::NAN)).is_nan());
        assert!(f32_from_bf16(bf16_from_f64(f64::NAN)).is_nan());
        assert!(f32_from_bf16(bf16_from_f32(f32::from_bits(0x7f80_0001))).is_nan());
        assert!(f32_from_f16(f16_from_f32(f32::from_bits(0xff80_0001))).is_nan());
    }

    /// The definition of E4M3, with powers in `f64`.
    fn e4m3(code: u8) -> f64 {
        let (exponent, mantissa) = (i32::from(code >> 3 & 15), f64::from(code & 7));
        let magnitude = match (exponent, code & 7) {
            (15, 7) => f64::NAN,
            (0, _) => mantissa / 8.0 * 2.0f64.powi(-6),
            _ => (1.0 + mantissa / 8.0) * 2.0f64.powi(exponent - 7),
        };
        if code >= 0x80 { -magnitude } else { magnitude }
    }

    /// The nearest of all E4M3 numbers, one after the other; of two equally near ones the even
    /// code.
    fn nearest_e4m3(x: f64) -> u8 {
        let sign = if x.is_sign_negative() { 0x80 } else { 0 };
        let a = x.abs().min(448.0);
        let better = |&p: &u8, &q: &u8| {
            let (dp, dq) = ((e4m3(p) - a).abs(), (e4m3(q) - a).abs());
            dp.total_cmp(&dq).then((p & 1).cmp(&(q & 1)))
        };
        sign | (0..=0x7e).min_by(better).unwrap()
    }

    #[test]
    fn every_e4m3_code_has_the_value_of_its_definition() {
        for code in 0..=u8::MAX {
            let value = f32_from_e4m3(code);
            if e4m3(code).is_nan() {
                assert!(value.is_nan() && e4m3_from_f32(value) == 0x7f, "{code:#x}");
                continue;
            }
            assert_eq!(f64::from(value).to_bits(), e4m3(code).to_bits(), "{code:#x}");
            assert_eq!((e4m3_from_f32(value), e4m3_from_f64(e4m3(code))), (code, code));
        }
        assert_eq!([0x08, 0x01, 0x7e, 0xfe].map(f32_from_e4m3), [0.015625, 0.001953125, 448.0, -448.0]);
    }

    #[test]
    fn e4m3_rounds_to_nearest_even_at_every_midpoint_and_beside_it() {
        for code in 0..0x7eu8 {
            let mid = 0.5 * (e4m3(code) + e4m3(code + 1));
            // A midpoint is an f32.
            let near = (mid as f32).to_bits();
            for bits in [near - 1, near, near + 1] {
                let x = f32::from_bits(bits);
                for x in [x, -x] {
                    assert_eq!(e4m3_from_f32(x), nearest_e4m3(x.into()), "{x:e}");
                }
            }
            for x in [mid, mid * (1.0 + 1e-15), mid * (1.0 - 1e-15)] {
                assert_eq!(e4m3_from_f64(x), nearest_e4m3(x), "{x:e}");
                assert_eq!(e4m3_from_f64(-x), nearest_e4m3(-x), "{x:e}");
            }
            assert_eq!(e4m3_from_f32(mid as f32), code + (code & 1), "{mid:e}");
        }
    }

    #[test]
    fn e4m3_saturates() {
        for x in [448.1, 464.0, 480.0, 1e30, f32::MAX, f32::INFINITY] {
            assert_eq!((e4m3_from_f32(x), e4m3_from_f32(-x)), (0x7e, 0xfe), "{x:e}");
            assert_eq!(e4m3_from_f64(-f64::from(x)), 0xfe, "{x:e}");
        }
        assert_eq!([0.0, -0.0, 1e-300, -1e-300].map(e4m3_from_f64), [0, 0x80, 0, 0x80]);
        let nans = [f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001), f32::from_bits(0xff80_0001)];
        assert_eq!(nans.map(e4m3_from_f32), [0x7f; 4]);
        assert_eq!(e4m3_from_f64(-f64::NAN), 0x7f);
    }

    #[test]
    fn tf32_has_eleven_significant_bits_and_ties_go_away_from_zero() {
        for x in [1.0, 1.5, 2.0f32.powi(-130), 2.0f32.powi(127), 1.0 + 2.0f32.powi(-10)] {
            assert_eq!((tf32_from_f32(x), tf32_from_f32(-x)), (x, -x));
        }
        let (one, ulp) = (1.0f32, 2.0f32.powi(-10));
        assert_eq!(tf32_from_f32(one + 0.5 * ulp), one + ulp);
        assert_eq!(tf32_from_f32(-one - 0.5 * ulp), -one - ulp);
        assert_eq!(tf32_from_f32(one + 0.499 * ulp), one);
        assert_eq!(tf32_from_f32(2.0 - 0.4 * ulp), 2.0);
        assert_eq!(tf32_from_f32(f32::MAX), f32::INFINITY);
        assert_eq!(tf32_from_f32(f32::NEG_INFINITY), f32::NEG_INFINITY);
        for nan in [0x7f80_0001, 0x7fff_ffff, 0xff80_0001, 0xffff_ffff] {
            assert!(tf32_from_f32(f32::from_bits(nan)).is_nan());
        }
    }

    /// `x` in units of the last place that `digits` bits leave it, rounded in `f64`.
    fn to_bits_in_f64(x: f32, digits: i32) -> f64 {
        let unit = 2.0f64.powi(f64::from(x).abs().log2().floor().max(-126.0) as i32 - digits + 1);
        (f64::from(x) / unit).round() * unit
    }

    proptest! {
        #[test]
        fn any_number_goes_where_f64_says(bits: u32) {
            let x = f32::from_bits(bits);
            prop_assume!(x.is_finite() && x != 0.0);
            prop_assert_eq!(e4m3_from_f32(x), nearest_e4m3(x.into()), "{:e}", x);
            // `round` takes ties away from zero too.
            prop_assert_eq!(tf32_from_f32(x), to_bits_in_f64(x, 11) as f32, "{:e}", x);
        }

        #[test]
        fn numbers_of_its_range_go_to_the_nearest_e4m3(x in -500.0f64..500.0, e in -14i32..1) {
            let x = x * 2.0f64.powi(e);
            prop_assert_eq!(e4m3_from_f64(x), nearest_e4m3(x), "{:e}", x);
            prop_assert_eq!(e4m3_from_f32(x as f32), nearest_e4m3((x as f32).into()), "{:e}", x);
        }
    }
}
