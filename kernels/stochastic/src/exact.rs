//! Exact signs where the error of an operation is below the smallest number of the type.

/// Words of the accumulator: from 2^-2176, below the product of two smallest numbers, to 2^2176.
const WORDS: usize = 68;
const LOWEST: i32 = -2176;

/// Sign of `a b + c - r` without any rounding, as -1, 0 or 1. Arguments are finite.
pub(crate) fn sign_of_error(a: f64, b: f64, c: f64, r: f64) -> f64 {
    let mut sum = [0u64; WORDS];
    add(&mut sum, a, b);
    add(&mut sum, c, 1.0);
    add(&mut sum, -r, 1.0);
    if sum[WORDS - 1] >> 63 == 1 {
        -1.0
    } else if sum.iter().all(|&word| word == 0) {
        0.0
    } else {
        1.0
    }
}

/// Significand and exponent of `x`: `x = significand * 2^exponent`.
fn parts(x: f64) -> (u64, i32) {
    let bits = x.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i32;
    let fraction = bits & ((1 << 52) - 1);
    if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) }
}

/// Adds `a b` to a two's complement number of fixed point.
fn add(sum: &mut [u64; WORDS], a: f64, b: f64) {
    let ((ma, ea), (mb, eb)) = (parts(a), parts(b));
    let product = u128::from(ma) * u128::from(mb);
    let at = (ea + eb - LOWEST) as usize;
    let (word, shift) = (at / 64, at % 64);
    let low = product << shift;
    let high = if shift == 0 { 0 } else { product >> (128 - shift) };
    let words = [low as u64, (low >> 64) as u64, high as u64];
    let negative = a.is_sign_negative() != b.is_sign_negative();
    let mut carry = negative;
    for (k, slot) in sum[word..].iter_mut().enumerate() {
        let addend = words.get(k).copied().unwrap_or(0);
        let addend = if negative { !addend } else { addend };
        let (partial, first) = slot.overflowing_add(addend);
        let (total, second) = partial.overflowing_add(u64::from(carry));
        *slot = total;
        carry = first || second;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_at_the_ends_of_the_range() {
        let tiny = f64::from_bits(1);
        assert_eq!(sign_of_error(tiny, tiny, 0.0, 0.0), 1.0);
        assert_eq!(sign_of_error(-tiny, tiny, 0.0, 0.0), -1.0);
        assert_eq!(sign_of_error(tiny, 0.5, 0.0, tiny), -1.0);
        assert_eq!(sign_of_error(tiny, 1.0, 0.0, tiny), 0.0);
        assert_eq!(sign_of_error(f64::MAX, f64::MAX, -f64::MAX, f64::MAX), 1.0);
        assert_eq!(sign_of_error(f64::MAX, 1.0, tiny, f64::MAX), 1.0);
        assert_eq!(sign_of_error(3.0, 1.0 / 3.0, -1.0, 0.0), -1.0);
        assert_eq!(sign_of_error(0.0, 1e300, -0.0, 0.0), 0.0);
    }
}
