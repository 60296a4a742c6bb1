use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::block::{BLOCK, BlockFormat, blocks_bytes, pack_blocks, unpack_blocks};
use super::*;

fn mask(format: PackedFormat) -> u64 {
    u64::MAX >> (64 - 8 * format.bytes())
}

/// The codes just below and above in magnitude; of the first and the last one, a code that the
/// format has not.
fn neighbours(code: u64) -> [u64; 2] {
    [code.wrapping_sub(1), code.wrapping_add(1)]
}

/// A number in the range in which `format` has its full significand.
fn in_range(format: PackedFormat) -> impl Strategy<Value = f64> {
    let exponents = match format.family() {
        Family::Double => -1022..1023,
        Family::Single => -126..127,
        Family::Reduced | Family::Unsigned => 0..8,
    };
    (exponents, 1.0..2.0f64, any::<bool>()).prop_map(move |(e, m, negative)| {
        let magnitude = m * 2f64.powi(e);
        if negative && format.has_sign() { -magnitude } else { magnitude }
    })
}

#[test]
fn the_table_of_formats_is_that_of_the_thesis() {
    let table = |name: &str| name.parse::<PackedFormat>().unwrap().roundoff_log2();
    let u = [
        ("fp64", -53),
        ("rp56", -45),
        ("rp48", -37),
        ("rp40", -29),
        ("fp32", -24),
        ("rp24", -16),
        ("rp16", -8),
    ];
    let signed =
        [("rpre48", -45), ("rpre40", -37), ("rpre32", -29), ("rpre24", -21), ("rpre16", -13), ("rpre8", -5)];
    for (name, log2) in u.into_iter().chain(signed) {
        assert_eq!(table(name), log2, "{name}");
    }
    for (name, log2) in signed {
        assert_eq!(table(&name.replace("rpre", "rpreu")), log2 - 1, "{name}");
    }
    assert!("rp32".parse::<PackedFormat>().unwrap_err().to_string().contains("rp24"));
}

/// Checks that the number of every code of up to 16 bits is encoded as this code.
#[test]
fn codes_are_read_back() {
    for format in PackedFormat::ALL {
        let short = format.bytes() <= 2;
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        for i in 0..1u64 << 16 {
            let code = if short { i & mask(format) } else { rng.random::<u64>() & mask(format) };
            let value = format.decode(code);
            if value.is_nan() {
                continue;
            }
            for rounding in [Rounding::Nearest, Rounding::Chop] {
                assert_eq!(format.encode(value, rounding), code, "{format} {value:e}");
            }
        }
    }
}

#[test]
fn rp16_is_bfloat16_and_fp32_is_the_machines() {
    let mut rng = ChaCha8Rng::seed_from_u64(8);
    for _ in 0..100_000 {
        let single = f32::from_bits(rng.random());
        if single.is_nan() || single.abs() >= 3e38 {
            continue;
        }
        let value = f64::from(single);
        let near = PackedFormat::Rp16.encode(value, Rounding::Nearest) as u16;
        assert_eq!(near, half::bf16::from_f32(single).to_bits(), "{single:e}");
        assert_eq!(PackedFormat::Rp16.encode(value, Rounding::Chop), u64::from(single.to_bits() >> 16));
        assert_eq!(
            PackedFormat::Fp32.encode(value * 1.1, Rounding::Nearest) as u32,
            ((value * 1.1) as f32).to_bits()
        );
    }
}

/// Checks that there is one rounding, not two, just above a tie of `rp24` that an `f32` cannot
/// distinguish from the tie.
#[test]
fn nearest_rounds_once() {
    let tie = 1.0 + 2f64.powi(-16);
    assert_eq!(PackedFormat::Rp24.decode(PackedFormat::Rp24.encode(tie, Rounding::Nearest)), 1.0);
    let above = tie + 2f64.powi(-50);
    let stored = PackedFormat::Rp24.decode(PackedFormat::Rp24.encode(above, Rounding::Nearest));
    assert_eq!(stored, 1.0 + 2f64.powi(-15));
}

#[test]
fn what_does_not_fit_is_the_nearest_end() {
    for format in PackedFormat::ALL {
        for rounding in [Rounding::Nearest, Rounding::Chop] {
            let stored = |value: f64| format.decode(format.encode(value, rounding));
            let top = stored(f64::MAX);
            assert!(top.is_finite() && stored(top) == top, "{format}");
            if format.is_scaled() {
                let below = 256.0 * (1.0 - f64::EPSILON / 2.0);
                assert_eq!(top, 256.0 * (1.0 - format.unit_roundoff()));
                assert_eq!([stored(256.0), stored(below)], [top, top]);
                assert_eq!([stored(0.0), stored(0.5), stored(1.0)], [1.0; 3]);
            } else {
                assert!(stored(f64::NAN).is_nan() && stored(f64::INFINITY).is_infinite());
                assert!(stored(-0.0) == 0.0 && stored(-0.0).is_sign_negative());
                // Subnormals, of both widths.
                assert!(stored(5e-324) == 0.0 || format == PackedFormat::Fp64);
                let small = if format.family() == Family::Single { 1e-41 } else { 1e-310 };
                let lost = (stored(small) - small).abs() / small;
                assert!(format == PackedFormat::Rp16 || lost < 0.1, "{format}: {lost}");
            }
        }
    }
}

#[test]
fn eight_at_a_time_are_one_at_a_time() {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    for format in PackedFormat::ALL {
        for len in (0..40).chain([1000]) {
            let bytes: Vec<u8> = (0..len * format.bytes()).map(|_| rng.random()).collect();
            let mut fast = vec![0.0; len];
            unpack(&bytes, format, &mut fast).unwrap();
            for (value, code) in fast.iter().zip(bytes.chunks_exact(format.bytes())) {
                let slow = code::decode_bytes(format, code);
                assert!(value.to_bits() == slow.to_bits() || value.is_nan() && slow.is_nan(), "{format}");
            }
        }
    }
}

#[test]
fn lengths_that_do_not_fit_are_an_error() {
    let format = PackedFormat::Rp24;
    assert!(pack(&[1.0, 2.0], format, Rounding::Nearest, &mut [0; 5]).is_err());
    assert!(unpack(&[0; 7], format, &mut [0.0; 2]).is_err());
    assert!(pack_blocks(&[1.0], BlockFormat::B8, &mut [0; 8]).is_err());
    assert!(unpack_blocks(&[0; 10], BlockFormat::B8, &mut [0.0; 8]).is_err());
}

proptest! {
    #[test]
    fn nearest_is_nearest((format, value) in (0..PackedFormat::ALL.len()).prop_flat_map(|at| {
        let format = PackedFormat::ALL[at];
        (Just(format), in_range(format))
    })) {
        let code = format.encode(value, Rounding::Nearest);
        let error = (format.decode(code) - value).abs();
        prop_assert!(error <= format.unit_roundoff() * value.abs(), "{format} {value:e}");
        let is_sign = |code: u64| format.has_sign() && code & (mask(format) >> 1) == 0;
        for other in neighbours(code).into_iter().filter(|&c| c & !mask(format) == 0 && !is_sign(c)) {
            let there = format.decode(other);
            if there.is_finite() && there.is_sign_negative() == value.is_sign_negative() {
                let its = (there - value).abs();
                prop_assert!(error < its || error == its && code & 1 == 0, "{format} {value:e}");
            }
        }
        let chopped = format.decode(format.encode(value, Rounding::Chop));
        prop_assert!((chopped - value).abs() < 2.0 * format.unit_roundoff() * value.abs() || chopped == value);
        if format.family() != Family::Single {
            prop_assert!(chopped.abs() <= value.abs());
        }
    }

    #[test]
    fn packing_and_unpacking_are_codes_in_order(values in prop::collection::vec(1.0..255.0f64, 0..50)) {
        for format in PackedFormat::ALL {
            let mut bytes = vec![0; values.len() * format.bytes()];
            pack(&values, format, Rounding::Nearest, &mut bytes).unwrap();
            let mut back = vec![0.0; values.len()];
            unpack(&bytes, format, &mut back).unwrap();
            let x: Vec<f64> = (0..60).map(f64::from).collect();
            let columns: Vec<u32> = (0..values.len() as u32).map(|k| 59 - k).collect();
            let sum = back.iter().zip(&columns).fold(0.0, |sum, (v, &j)| sum + v * x[j as usize]);
            prop_assert_eq!(dot(&bytes, format, &columns, &x).unwrap(), sum);
            for (&value, &stored) in values.iter().zip(&back) {
                prop_assert_eq!(stored, format.decode(format.encode(value, Rounding::Nearest)));
            }
        }
    }

    #[test]
    fn blocks_err_by_their_largest_number(
        values in prop::collection::vec((-1.0..1.0f64, -40i32..40).prop_map(|(m, e)| m * 2f64.powi(e)), 1..40)
    ) {
        for format in BlockFormat::ALL {
            let mut bytes = vec![0; blocks_bytes(format, values.len())];
            pack_blocks(&values, format, &mut bytes).unwrap();
            let mut back = vec![0.0; values.len()];
            unpack_blocks(&bytes, format, &mut back).unwrap();
            for (block, stored) in values.chunks(BLOCK).zip(back.chunks(BLOCK)) {
                let largest = block.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
                for (value, stored) in block.iter().zip(stored) {
                    let error = (value - stored).abs();
                    prop_assert!(error <= format.unit_roundoff() * largest, "{format} {value:e} {stored:e}");
                }
            }
        }
    }
}

/// Integers of a block's own width are exact, and what no exponent reaches is the nearest end.
#[test]
fn blocks_of_integers_are_exact() {
    for format in BlockFormat::ALL {
        let limit = f64::from((1i32 << (format.bits() - 1)) - 1);
        let mut bytes = vec![0; format.block_bytes()];
        let mut back = [0.0; BLOCK];
        let values = [limit, -limit, 0.0, 1.0, -1.0, 2.0, limit - 1.0, -3.0];
        pack_blocks(&values, format, &mut bytes).unwrap();
        unpack_blocks(&bytes, format, &mut back).unwrap();
        assert_eq!(back, values, "{format}");
        let ends = [f64::MAX, -f64::MAX, f64::NAN, 1e-300, 0.0, -0.0, 1.0, 5e-324];
        pack_blocks(&ends, format, &mut bytes).unwrap();
        unpack_blocks(&bytes, format, &mut back).unwrap();
        assert!(back[0] > 1e38 && back[1] < -1e38 && back[2..].iter().all(|&v| v == 0.0), "{back:?}");
    }
}
