//! The conversions and reductions over slices, at the widest SIMD level of the machine: the module
//! of this crate that calls instructions by name. Every function gives the same bits at every
//! level.
//!
//! Slices of unequal length are cut to the shortest: the callers check.

#[cfg(target_arch = "x86_64")]
mod x86;

use super::bits;

/// Returns two exact factors whose product is `2^exp`, since the range of one factor does not
/// suffice for subnormal tiles.
///
/// Beyond `2^(-252 ..= 254)` the factors saturate; any `f32` then becomes zero or infinity.
pub(crate) fn power_of_two(exp: i32) -> (f32, f32) {
    let one = |e: i32| f32::from_bits(((e + 127) as u32) << 23);
    let first = exp.clamp(-126, 127);
    (one(first), one((exp - first).clamp(-126, 127)))
}

/// Compiles `body` once per SIMD level and calls the best one: the compiler vectorises the plain
/// loop inside.
macro_rules! at_each_level {
    ($(#[$doc:meta])* pub(crate) fn $name:ident($($arg:ident: $t:ty),*) $(-> $ret:ty)? $body:block) => {
        $(#[$doc])*
        pub(crate) fn $name($($arg: $t),*) $(-> $ret)? {
            #[inline(always)]
            fn body($($arg: $t),*) $(-> $ret)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                fn v4($($arg: $t),*) $(-> $ret)? { body($($arg),*) }
                #[target_feature(enable = "avx2")]
                fn v3($($arg: $t),*) $(-> $ret)? { body($($arg),*) }
                if x86::has_avx512() {
                    // SAFETY: the features that v4 enables were detected on this machine.
                    return unsafe { v4($($arg),*) };
                }
                if x86::has_f16c() {
                    // SAFETY: avx2 was detected on this machine.
                    return unsafe { v3($($arg),*) };
                }
            }
            body($($arg),*)
        }
    };
}

at_each_level! {
    /// `dst = bf16(src * factors)`.
    pub(crate) fn pack_bf16(src: &[f32], factors: (f32, f32), dst: &mut [u16]) {
        for (d, &x) in dst.iter_mut().zip(src) {
            *d = bits::bf16_from_f32(x * factors.0 * factors.1);
        }
    }
}

at_each_level! {
    /// `dst = f32(src) * factors`.
    pub(crate) fn unpack_bf16(src: &[u16], factors: (f32, f32), dst: &mut [f32]) {
        for (d, &h) in dst.iter_mut().zip(src) {
            *d = bits::f32_from_bf16(h) * factors.0 * factors.1;
        }
    }
}

at_each_level! {
    /// `dst = e4m3(src * factors)`.
    pub(crate) fn pack_e4m3(src: &[f32], factors: (f32, f32), dst: &mut [u8]) {
        for (d, &x) in dst.iter_mut().zip(src) {
            *d = bits::e4m3_from_f32(x * factors.0 * factors.1);
        }
    }
}

at_each_level! {
    /// `dst = f32(src) * factors`.
    pub(crate) fn unpack_e4m3(src: &[u8], factors: (f32, f32), dst: &mut [f32]) {
        for (d, &h) in dst.iter_mut().zip(src) {
            *d = bits::f32_from_e4m3(h) * factors.0 * factors.1;
        }
    }
}

at_each_level! {
    /// `dst = tf32(src)`.
    pub(crate) fn round_tf32(src: &[f32], dst: &mut [f32]) {
        for (d, &x) in dst.iter_mut().zip(src) {
            *d = bits::tf32_from_f32(x);
        }
    }
}

at_each_level! {
    /// `dst = f32(src * factors)`, to nearest.
    pub(crate) fn narrow_f64(src: &[f64], dst: &mut [f32]) {
        for (d, &x) in dst.iter_mut().zip(src) {
            *d = x as f32;
        }
    }
}

at_each_level! {
    /// `dst = f64(src) * factor`.
    pub(crate) fn widen_f32(src: &[f32], factor: f64, dst: &mut [f64]) {
        for (d, &x) in dst.iter_mut().zip(src) {
            *d = f64::from(x) * factor;
        }
    }
}

at_each_level! {
    /// `dst = f32(src * factor)`, rounded to odd.
    pub(crate) fn narrow_f64_to_odd(src: &[f64], factor: f64, dst: &mut [f32]) {
        for (d, &x) in dst.iter_mut().zip(src) {
            *d = bits::f32_to_odd(x * factor);
        }
    }
}

at_each_level! {
    /// `dst = src * factors`.
    pub(crate) fn scale_f32(src: &[f32], factors: (f32, f32), dst: &mut [f32]) {
        for (d, &x) in dst.iter_mut().zip(src) {
            *d = x * factors.0 * factors.1;
        }
    }
}

at_each_level! {
    /// `x -= y`.
    pub(crate) fn subtract_f32(x: &mut [f32], y: &[f32]) {
        for (x, &y) in x.iter_mut().zip(y) {
            *x -= y;
        }
    }
}

at_each_level! {
    /// The largest magnitude, as bits: those of a NaN are above those of any number.
    pub(crate) fn max_abs_f32(x: &[f32]) -> u32 {
        x.iter().fold(0, |m, &x| m.max(x.to_bits() & 0x7fff_ffff))
    }
}

at_each_level! {
    /// The largest magnitude, as bits: those of a NaN are above those of any number.
    pub(crate) fn max_abs_f64(x: &[f64]) -> u64 {
        x.iter().fold(0, |m, &x| m.max(x.to_bits() & 0x7fff_ffff_ffff_ffff))
    }
}

/// Partial sums of [`add_squares_f32`]: their number fixes the order of the additions on every
/// machine.
pub(crate) const SUMS: usize = 32;

at_each_level! {
    /// Adds the squares of `x`, number `i` to sum `i % SUMS`. The squares are exact.
    pub(crate) fn add_squares_f32(x: &[f32], sums: &mut [f64; SUMS]) {
        let (blocks, tail) = x.as_chunks::<SUMS>();
        let mut local = *sums;
        for block in blocks {
            for (s, &x) in local.iter_mut().zip(block) {
                let x = f64::from(x);
                *s += x * x;
            }
        }
        for (s, &x) in local.iter_mut().zip(tail) {
            let x = f64::from(x);
            *s += x * x;
        }
        *sums = local;
    }
}

at_each_level! {
    /// Adds the squares of `x * factors`, number `i` to sum `i % SUMS`.
    pub(crate) fn add_squares_f64(x: &[f64], factors: (f64, f64), sums: &mut [f64; SUMS]) {
        let (blocks, tail) = x.as_chunks::<SUMS>();
        let mut local = *sums;
        for block in blocks {
            for (s, &x) in local.iter_mut().zip(block) {
                let x = x * factors.0 * factors.1;
                *s += x * x;
            }
        }
        for (s, &x) in local.iter_mut().zip(tail) {
            let x = x * factors.0 * factors.1;
            *s += x * x;
        }
        *sums = local;
    }
}

/// `dst = f16(src * factors)`.
pub(crate) fn pack_f16(src: &[f32], factors: (f32, f32), dst: &mut [u16]) {
    #[cfg(target_arch = "x86_64")]
    if x86::pack_f16(true, src, factors, dst) {
        return;
    }
    for (d, &x) in dst.iter_mut().zip(src) {
        *d = bits::f16_from_f32(x * factors.0 * factors.1);
    }
}

/// `dst = f32(src) * factors`.
pub(crate) fn unpack_f16(src: &[u16], factors: (f32, f32), dst: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if x86::unpack_f16(true, src, factors, dst) {
        return;
    }
    for (d, &h) in dst.iter_mut().zip(src) {
        *d = bits::f32_from_f16(h) * factors.0 * factors.1;
    }
}

/// Rows and columns of the block that [`hp3_block`] computes.
pub(crate) const HP3_ROWS: usize = 16;
/// See [`HP3_ROWS`].
pub(crate) const HP3_COLS: usize = 8;
/// Products summed in `f32` between two roundings of the 16-bit accumulator.
pub(crate) const HP3_STEP: usize = 4;

/// Computes `out[c][r] = sum_k a[k][r] b[k][c]` with a 16-bit accumulator, `a` and `b` holding
/// `f16` values.
///
/// From zero: `s` is the sum of the next [`HP3_STEP`] products, left to right in `f32` (each
/// product is exact), then `acc = f16(acc + s)`; the last step may be shorter.
pub(crate) fn hp3_block(a: &[[f32; HP3_ROWS]], b: &[[f32; HP3_COLS]], out: &mut [[f32; HP3_ROWS]; HP3_COLS]) {
    #[cfg(target_arch = "x86_64")]
    if x86::hp3_block(true, a, b, out) {
        return;
    }
    hp3_block_portable(a, b, out);
}

pub(crate) fn hp3_block_portable(
    a: &[[f32; HP3_ROWS]],
    b: &[[f32; HP3_COLS]],
    out: &mut [[f32; HP3_ROWS]; HP3_COLS],
) {
    *out = [[0.0; HP3_ROWS]; HP3_COLS];
    for (a, b) in a.chunks(HP3_STEP).zip(b.chunks(HP3_STEP)) {
        for (c, acc) in out.iter_mut().enumerate() {
            for (r, acc) in acc.iter_mut().enumerate() {
                let mut s = a[0][r] * b[0][c];
                for (a, b) in a.iter().zip(b).skip(1) {
                    s += a[r] * b[c];
                }
                *acc = bits::f32_from_f16(bits::f16_from_f32(*acc + s));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of every size and kind, more than one group and not a whole number of groups.
    fn numbers() -> Vec<f32> {
        let mut v: Vec<f32> = (0..4001u32).map(|i| f32::from_bits(i.wrapping_mul(0x9e37_79b9))).collect();
        v.extend((0..2000).map(|i| (i as f32 - 1000.0) * 1.7e-8));
        v.extend((0..2001).map(|i| (i as f32 - 1000.0) * 77.3));
        v
    }

    #[test]
    fn every_level_gives_the_bits_of_the_scalar_definition() {
        let x = numbers();
        for exp in [0, 3, -20, 140, -140] {
            let f = power_of_two(exp);
            let want: Vec<u16> = x.iter().map(|x| bits::f16_from_f32(x * f.0 * f.1)).collect();
            let mut got = vec![0; x.len()];
            pack_f16(&x, f, &mut got);
            assert_eq!(got, want);
            let all: Vec<u16> = (0..=u16::MAX).collect();
            let back: Vec<u32> = all.iter().map(|&h| (bits::f32_from_f16(h) * f.0 * f.1).to_bits()).collect();
            let mut wide = vec![0.0; all.len()];
            unpack_f16(&all, f, &mut wide);
            assert!(wide.iter().map(|x| x.to_bits()).eq(back.iter().copied()));
            #[cfg(target_arch = "x86_64")]
            {
                got.fill(0);
                if x86::pack_f16(false, &x, f, &mut got) {
                    assert_eq!(got, want);
                }
                wide.fill(0.0);
                if x86::unpack_f16(false, &all, f, &mut wide) {
                    assert!(wide.iter().map(|x| x.to_bits()).eq(back.iter().copied()));
                }
            }
            let want: Vec<u16> = x.iter().map(|x| bits::bf16_from_f32(x * f.0 * f.1)).collect();
            pack_bf16(&x, f, &mut got);
            assert_eq!(got, want);
            let want: Vec<u8> = x.iter().map(|x| bits::e4m3_from_f32(x * f.0 * f.1)).collect();
            let mut low = vec![0; x.len()];
            pack_e4m3(&x, f, &mut low);
            assert_eq!(low, want);
            let all: Vec<u8> = (0..=u8::MAX).collect();
            let mut wide = vec![0.0; all.len()];
            unpack_e4m3(&all, f, &mut wide);
            let back = all.iter().map(|&h| (bits::f32_from_e4m3(h) * f.0 * f.1).to_bits());
            assert!(back.eq(wide.iter().map(|x| x.to_bits())));
        }
    }

    #[test]
    fn the_16_bit_accumulator_is_the_same_at_every_level() {
        let value =
            |i: usize| bits::f32_from_f16(bits::f16_from_f32(((i * 7919) % 1013) as f32 / 506.0 - 1.0));
        for k in [0, 1, 3, 4, 7, 64, 101] {
            let a: Vec<_> = (0..k).map(|k| core::array::from_fn(|r| value(k * 17 + r))).collect();
            let b: Vec<_> = (0..k).map(|k| core::array::from_fn(|c| value(k * 29 + c + 5))).collect();
            let mut want = [[1.0; HP3_ROWS]; HP3_COLS];
            hp3_block_portable(&a, &b, &mut want);
            let mut got = [[1.0; HP3_ROWS]; HP3_COLS];
            hp3_block(&a, &b, &mut got);
            assert_eq!(got, want);
            #[cfg(target_arch = "x86_64")]
            {
                let mut got = [[1.0; HP3_ROWS]; HP3_COLS];
                if x86::hp3_block(false, &a, &b, &mut got) {
                    assert_eq!(got, want);
                }
            }
        }
    }

    #[test]
    fn two_factors_reach_every_exponent_of_f32() {
        for e in -252..=254 {
            let f = power_of_two(e);
            assert_eq!(f64::from(f.0) * f64::from(f.1), 2.0f64.powi(e));
        }
    }
}
