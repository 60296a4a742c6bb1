//! Properties of a number format, found by rounding numbers to it.

/// Function that rounds a number to a format and returns the result.
pub type Round<'r> = &'r dyn Fn(f64) -> f64;

/// Significand and range of a format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probed {
    /// Significant bits, with the leading one.
    pub significand: u32,
    /// Largest finite number.
    pub largest: f64,
    /// Smallest positive number from which on all have the whole significand.
    pub smallest_normal: f64,
    /// Smallest positive number.
    pub smallest: f64,
}

/// Number of significands of each length that a format has to hold.
const PATTERNS: u64 = 256;
/// Exponents of the positive numbers of float64.
const EXPONENTS: std::ops::RangeInclusive<i32> = -1074..=1023;

/// Returns the properties of the format that `round` rounds to.
pub fn probe(round: Round<'_>) -> Probed {
    let significand = (2..=53).take_while(|&bits| holds_all(round, bits)).last().unwrap_or(1);
    let full = 2.0 - 0.5f64.powi(significand as i32 - 1);
    // Below 2^-1022 float64 itself has fewer bits.
    let is_normal = |&e: &i32| {
        let x = full * power(e);
        x / power(e) == full && holds(round, x) && holds(round, power(e))
    };
    let lowest =
        |is_held: &dyn Fn(&i32) -> bool| EXPONENTS.rev().skip_while(|&e| e > 0).take_while(is_held).last();
    Probed {
        significand,
        largest: largest(round, significand),
        smallest_normal: power(lowest(&is_normal).unwrap_or(0)),
        smallest: power(lowest(&|&e| holds(round, power(e))).unwrap_or(0)),
    }
}

fn holds(round: Round<'_>, x: f64) -> bool {
    round(x) == x
}

/// Returns whether numbers of `[1, 2)` with so many significant bits are all held.
fn holds_all(round: Round<'_>, bits: u32) -> bool {
    let last = 1u64 << (bits - 1);
    (0..PATTERNS).all(|k| {
        let fraction = (k.wrapping_mul(0x9E37_79B9_7F4A_7C15) % last) | 1;
        holds(round, (last + fraction) as f64 / last as f64)
    })
}

/// Adds bits from the highest one on, as long as the format holds the sum.
fn largest(round: Round<'_>, significand: u32) -> f64 {
    let top = EXPONENTS.rev().find(|&e| holds(round, power(e))).unwrap_or(0);
    (1..significand as i32).fold(power(top), |sum, bit| {
        let more = sum + power(top - bit);
        if holds(round, more) { more } else { sum }
    })
}

/// Returns `2^e`.
fn power(e: i32) -> f64 {
    if e >= -1022 { f64::from_bits(((e + 1023) as u64) << 52) } else { f64::from_bits(1 << (e + 1074)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_formats_have_their_constants() {
        let double = Probed {
            significand: 53,
            largest: f64::MAX,
            smallest_normal: f64::MIN_POSITIVE,
            smallest: 5e-324,
        };
        assert_eq!(probe(&|x| x), double);
        let single = Probed {
            significand: 24,
            largest: f32::MAX.into(),
            smallest_normal: f32::MIN_POSITIVE.into(),
            smallest: f32::from_bits(1).into(),
        };
        assert_eq!(probe(&|x| f64::from(x as f32)), single);
    }
}
