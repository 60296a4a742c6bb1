//! Tiles stored in 16 bits with a power-of-two scale, single (`f16`, `bf16`) and as pairs of `f16`.

use super::simd::{self, power_of_two};
use super::{bits, norms::exp2};
use crate::error::check_shape;
use crate::{KernelError, MatMut, MatRef, Scalar, StorageFormat};

/// The 16-bit format of a [`HalfRef`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HalfKind {
    /// IEEE binary16.
    F16,
    /// bfloat16.
    BF16,
}

impl HalfKind {
    /// The storage format of the same name.
    pub const fn format(self) -> StorageFormat {
        match self {
            Self::F16 => StorageFormat::F16,
            Self::BF16 => StorageFormat::BF16,
        }
    }

    /// `dst = round(src * factors)`.
    fn pack(self, src: &[f32], factors: (f32, f32), dst: &mut [u16]) {
        match self {
            Self::F16 => simd::pack_f16(src, factors, dst),
            Self::BF16 => simd::pack_bf16(src, factors, dst),
        }
    }

    /// `dst = f32(src) * factors`.
    pub(crate) fn unpack(self, src: &[u16], factors: (f32, f32), dst: &mut [f32]) {
        match self {
            Self::F16 => simd::unpack_f16(src, factors, dst),
            Self::BF16 => simd::unpack_bf16(src, factors, dst),
        }
    }
}

/// A read-only tile in 16 bits: element `(i, j)` is the stored number times `2^scale_exp`.
#[derive(Debug, Clone, Copy)]
pub struct HalfRef<'a> {
    /// The stored numbers, as bits.
    pub mat: MatRef<'a, u16>,
    /// Their format.
    pub kind: HalfKind,
    /// Exponent of the scale.
    pub scale_exp: i32,
}

/// A mutable tile in 16 bits: element `(i, j)` is the stored number times `2^scale_exp`.
#[derive(Debug)]
pub struct HalfMut<'a> {
    /// The stored numbers, as bits.
    pub mat: MatMut<'a, u16>,
    /// Their format.
    pub kind: HalfKind,
    /// Exponent of the scale.
    pub scale_exp: i32,
}

impl<'a> HalfRef<'a> {
    /// A view of `rows x cols` numbers of `data`, columns `ld` apart.
    ///
    /// # Errors
    /// [`KernelError::Layout`] as [`MatRef::new`].
    pub fn new(
        data: &'a [u16],
        rows: usize,
        cols: usize,
        ld: usize,
        kind: HalfKind,
        scale_exp: i32,
    ) -> Result<Self, KernelError> {
        Ok(Self { mat: MatRef::new(data, rows, cols, ld)?, kind, scale_exp })
    }
}

impl<'a> HalfMut<'a> {
    /// A mutable view of `rows x cols` numbers of `data`, columns `ld` apart.
    ///
    /// # Errors
    /// [`KernelError::Layout`] as [`MatMut::new`].
    pub fn new(
        data: &'a mut [u16],
        rows: usize,
        cols: usize,
        ld: usize,
        kind: HalfKind,
        scale_exp: i32,
    ) -> Result<Self, KernelError> {
        Ok(Self { mat: MatMut::new(data, rows, cols, ld)?, kind, scale_exp })
    }

    /// Returns a read-only view of the tile.
    pub fn as_ref(&self) -> HalfRef<'_> {
        HalfRef { mat: self.mat.as_ref(), kind: self.kind, scale_exp: self.scale_exp }
    }
}

/// A read-only tile as the sum of two `f16` tiles with one scale: element `(i, j)` is `(hi + lo)
/// 2^scale_exp`.
#[derive(Debug, Clone, Copy)]
pub struct SplitRef<'a> {
    /// Leading parts, as bits.
    pub hi: MatRef<'a, u16>,
    /// Remainders that the leading parts miss, as bits.
    pub lo: MatRef<'a, u16>,
    /// Exponent of the scale of both.
    pub scale_exp: i32,
}

impl<'a> SplitRef<'a> {
    /// A pair of equal shape.
    ///
    /// # Errors
    /// [`KernelError::Shape`] when `lo` has another shape than `hi`.
    pub fn new(hi: MatRef<'a, u16>, lo: MatRef<'a, u16>, scale_exp: i32) -> Result<Self, KernelError> {
        check_shape("SplitRef", "lo", lo.shape(), hi.shape())?;
        Ok(Self { hi, lo, scale_exp })
    }
}

/// `floor(log2(max_abs))`: dividing by `2^` this puts `max_abs` into `[1, 2)`. Zero for 0,
/// infinities and NaN.
pub fn scale_exponent(max_abs: f64) -> i32 {
    let a = max_abs.abs();
    if a == 0.0 || !a.is_finite() {
        return 0;
    }
    let exponent = |x: f64| (x.to_bits() >> 52) as i32 - 1023;
    if a < f64::MIN_POSITIVE {
        // Subnormal: 2^54 makes it normal.
        exponent(a * exp2(54)) - 54
    } else {
        exponent(a)
    }
}

/// Returns the scale exponent for [`pack_split`], which puts `max_abs` into `[2^14, 2^15)`. Zero
/// for 0, infinities and NaN.
///
/// The reason for this range: let a scaled entry be in `[2^e, 2^(e+1))`. Its `hi` has the spacing
/// `2^(e-10)`, so `lo` is at most `2^(e-11)`, and an `f32` remainder is a multiple of `2^(e-23)`.
/// `lo` is rounded to 11 bits if it is normal (`|lo| >= 2^-14`), else to a multiple of `2^-24`: in
/// both cases by at most `max(2^(e-23), 2^-25)`, and not at all by the second bound when `e >= -1`.
/// So `e` should be as large as possible: `hi` must stay below 65504, and `2^15`, to which the
/// largest entry can round up, does. Then `hi + lo` misses an entry `x` by at most
/// `max(2^-23 |x|, 2^-39 max)`: entries down to `2^-16` of the largest keep 23 bits, and the
/// smaller ones an absolute error far below one `f32` rounding of the largest. With the largest
/// entry in `[1, 2)` the second term would be `2^-25 max`, the error of `f32` itself.
pub fn split_scale_exponent(max_abs: f64) -> i32 {
    if max_abs == 0.0 || !max_abs.is_finite() {
        return 0;
    }
    scale_exponent(max_abs) - 14
}

/// Conversions that packing requires of an element type.
pub(crate) mod source {
    use super::*;

    /// Numbers that pass through one stack buffer at a time.
    pub const CHUNK: usize = 512;

    pub trait HalfSource: Sized + Copy {
        fn pack(src: &[Self], kind: HalfKind, exp: i32, dst: &mut [u16]);
        fn unpack(src: &[u16], kind: HalfKind, exp: i32, dst: &mut [Self]);
        /// At most [`CHUNK`] numbers.
        fn split(src: &[Self], exp: i32, hi: &mut [u16], lo: &mut [u16]);
        fn join(hi: u16, lo: u16, exp: i32) -> Self;
    }

    impl HalfSource for f32 {
        fn pack(src: &[f32], kind: HalfKind, exp: i32, dst: &mut [u16]) {
            kind.pack(src, power_of_two(exp.saturating_neg()), dst);
        }
        fn unpack(src: &[u16], kind: HalfKind, exp: i32, dst: &mut [f32]) {
            kind.unpack(src, power_of_two(exp), dst);
        }
        fn split(src: &[f32], exp: i32, hi: &mut [u16], lo: &mut [u16]) {
            let one = (1.0, 1.0);
            let (mut x, mut h) = ([0.0; CHUNK], [0.0; CHUNK]);
            let (x, h) = (&mut x[..src.len()], &mut h[..src.len()]);
            simd::scale_f32(src, power_of_two(exp.saturating_neg()), x);
            simd::pack_f16(x, one, hi);
            simd::unpack_f16(hi, one, h);
            simd::subtract_f32(x, h); // exact: hi is within a factor 2 of x, or x is a multiple of the last bits of both
            simd::pack_f16(x, one, lo);
        }
        fn join(hi: u16, lo: u16, exp: i32) -> f32 {
            let f = power_of_two(exp);
            // hi + lo may need more than 24 bits: add in f64, round once.
            let sum = f64::from(bits::f32_from_f16(hi)) + f64::from(bits::f32_from_f16(lo));
            (sum * f64::from(f.0) * f64::from(f.1)) as f32
        }
    }

    impl HalfSource for f64 {
        fn pack(src: &[f64], kind: HalfKind, exp: i32, dst: &mut [u16]) {
            let factor = exp2(exp.saturating_neg());
            let mut odd = [0.0; CHUNK];
            for (src, dst) in src.chunks(CHUNK).zip(dst.chunks_mut(CHUNK)) {
                simd::narrow_f64_to_odd(src, factor, &mut odd[..src.len()]);
                kind.pack(&odd[..src.len()], (1.0, 1.0), dst);
            }
        }
        fn unpack(src: &[u16], kind: HalfKind, exp: i32, dst: &mut [f64]) {
            let mut wide = [0.0; CHUNK];
            for (src, dst) in src.chunks(CHUNK).zip(dst.chunks_mut(CHUNK)) {
                kind.unpack(src, (1.0, 1.0), &mut wide[..src.len()]);
                simd::widen_f32(&wide[..src.len()], exp2(exp), dst);
            }
        }
        fn split(src: &[f64], exp: i32, hi: &mut [u16], lo: &mut [u16]) {
            let factor = exp2(exp.saturating_neg());
            for ((&x, hi), lo) in src.iter().zip(hi).zip(lo) {
                let x = x * factor;
                *hi = bits::f16_from_f64(x);
                *lo = bits::f16_from_f64(x - f64::from(bits::f32_from_f16(*hi)));
            }
        }
        fn join(hi: u16, lo: u16, exp: i32) -> f64 {
            let sum = f64::from(bits::f32_from_f16(hi)) + f64::from(bits::f32_from_f16(lo));
            sum * exp2(exp)
        }
    }
}

/// Stores `src` in `dst`'s format and with `dst`'s scale; one rounding to nearest even.
///
/// Choose the scale with [`scale_exponent`] of [`max_abs`](super::max_abs); entries that then
/// exceed the format become infinite.
///
/// # Errors
/// [`KernelError::Shape`] when the shapes differ; `dst` is then untouched.
pub fn pack_half<T: Scalar>(src: MatRef<'_, T>, mut dst: HalfMut<'_>) -> Result<(), KernelError> {
    check_shape("pack_half", "dst", dst.mat.shape(), src.shape())?;
    for j in 0..src.cols() {
        <T as source::HalfSource>::pack(src.col(j), dst.kind, dst.scale_exp, dst.mat.col_mut(j));
    }
    Ok(())
}

/// Writes the true values of `src` to `dst`: exact, unless the scale takes them out of the range of
/// `T`.
///
/// # Errors
/// [`KernelError::Shape`] when the shapes differ; `dst` is then untouched.
pub fn unpack_half<T: Scalar>(src: HalfRef<'_>, mut dst: MatMut<'_, T>) -> Result<(), KernelError> {
    check_shape("unpack_half", "dst", dst.shape(), src.mat.shape())?;
    for j in 0..dst.cols() {
        <T as source::HalfSource>::unpack(src.mat.col(j), src.kind, src.scale_exp, dst.col_mut(j));
    }
    Ok(())
}

/// Splits `src`: `hi = f16(x)`, `lo = f16(x - hi)` with `x = src 2^-scale_exp`; the scale from
/// [`split_scale_exponent`].
///
/// # Errors
/// [`KernelError::Shape`] when the shapes differ; nothing is written then.
pub fn pack_split<T: Scalar>(
    src: MatRef<'_, T>,
    scale_exp: i32,
    mut hi: MatMut<'_, u16>,
    mut lo: MatMut<'_, u16>,
) -> Result<(), KernelError> {
    check_shape("pack_split", "hi", hi.shape(), src.shape())?;
    check_shape("pack_split", "lo", lo.shape(), src.shape())?;
    for j in 0..src.cols() {
        let parts = src.col(j).chunks(source::CHUNK);
        let parts = parts.zip(hi.col_mut(j).chunks_mut(source::CHUNK));
        for ((x, hi), lo) in parts.zip(lo.col_mut(j).chunks_mut(source::CHUNK)) {
            T::split(x, scale_exp, hi, lo);
        }
    }
    Ok(())
}

/// Writes `(hi + lo) 2^scale_exp` to `dst`, rounded once.
///
/// # Errors
/// [`KernelError::Shape`] when the shapes differ; `dst` is then untouched.
pub fn unpack_split<T: Scalar>(src: SplitRef<'_>, mut dst: MatMut<'_, T>) -> Result<(), KernelError> {
    check_shape("unpack_split", "dst", dst.shape(), src.hi.shape())?;
    check_shape("unpack_split", "lo", src.lo.shape(), src.hi.shape())?;
    for j in 0..dst.cols() {
        let pairs = src.hi.col(j).iter().zip(src.lo.col(j));
        for (d, (&hi, &lo)) in dst.col_mut(j).iter_mut().zip(pairs) {
            *d = T::join(hi, lo, src.scale_exp);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn exponents() {
        assert_eq!(scale_exponent(1.0), 0);
        assert_eq!(scale_exponent(1.999), 0);
        assert_eq!(scale_exponent(2.35e-11), -36);
        assert_eq!(scale_exponent(f64::from_bits(1)), -1074);
        assert_eq!(scale_exponent(f64::MAX), 1023);
        for x in [0.0, f64::NAN, f64::INFINITY] {
            assert_eq!((scale_exponent(x), split_scale_exponent(x)), (0, 0));
        }
        assert_eq!(split_scale_exponent(1.5), -14);
    }

    #[test]
    fn the_largest_entry_never_overflows() {
        for e in [-149, -126, -37, 0, 100, 127] {
            let x = [(f64::from(f32::MAX) * 2.0f64.powi(e - 127)) as f32];
            let src = MatRef::new(&x, 1, 1, 1).unwrap();
            let max = super::super::max_abs(src);
            let s = split_scale_exponent(max);
            let (mut hi, mut lo) = ([0], [0]);
            let m = |x| MatMut::new(x, 1, 1, 1).unwrap();
            pack_split(src, s, m(&mut hi), m(&mut lo)).unwrap();
            let h = bits::f32_from_f16(hi[0]);
            assert!((16384.0..=32768.0).contains(&h), "{h}");
            for kind in [HalfKind::F16, HalfKind::BF16] {
                let mut d = [0];
                let dst = HalfMut::new(&mut d, 1, 1, 1, kind, scale_exponent(max)).unwrap();
                pack_half(src, dst).unwrap();
                let mut back = [0.0f32];
                let half = HalfRef::new(&d, 1, 1, 1, kind, scale_exponent(max)).unwrap();
                unpack_half(half, MatMut::new(&mut back, 1, 1, 1).unwrap()).unwrap();
                if e < 127 {
                    assert!((back[0] / x[0] - 1.0).abs() <= 1.0 / 256.0 || e == -149);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn splitting_misses_little(
            x in prop::collection::vec(-1.0f32..1.0, 1..40),
            small in prop::collection::vec(-1e-5f32..1e-5, 1..40),
            exp in -120..100i32,
        ) {
            let x: Vec<f32> = x.iter().chain(&small).map(|x| x * 2.0f32.powi(exp)).collect();
            let n = x.len();
            let src = MatRef::new(&x, n, 1, n).unwrap();
            let max = super::super::max_abs(src);
            let s = split_scale_exponent(max);
            let (mut hi, mut lo) = (vec![0; n], vec![0; n]);
            pack_split(
                src, s, MatMut::new(&mut hi, n, 1, n).unwrap(), MatMut::new(&mut lo, n, 1, n).unwrap(),
            ).unwrap();
            let m = |x| MatRef::new(x, n, 1, n).unwrap();
            let split = SplitRef::new(m(&hi), m(&lo), s).unwrap();
            let mut back = vec![0.0f64; n];
            unpack_split(split, MatMut::new(&mut back, n, 1, n).unwrap()).unwrap();
            for (&x, &y) in x.iter().zip(&back) {
                let x = f64::from(x);
                let bound = (2.0f64.powi(-23) * x.abs()).max(2.0f64.powi(-39) * max);
                prop_assert!((x - y).abs() <= bound, "{x:e} {y:e} of {max:e}");
            }
            // The same numbers in f64 split into the same halves.
            let wide: Vec<f64> = x.iter().map(|&x| x.into()).collect();
            let (mut hi2, mut lo2) = (vec![0; n], vec![0; n]);
            pack_split(
                MatRef::new(&wide, n, 1, n).unwrap(), s,
                MatMut::new(&mut hi2, n, 1, n).unwrap(), MatMut::new(&mut lo2, n, 1, n).unwrap(),
            ).unwrap();
            prop_assert_eq!(hi, hi2);
            prop_assert_eq!(lo, lo2);
        }

        #[test]
        fn packing_rounds_once(x in prop::collection::vec(-1e3f64..1e3, 1..1100), exp in -200..200i32) {
            let x: Vec<f64> = x.iter().map(|x| x * 2.0f64.powi(exp)).collect();
            let n = x.len();
            let src = MatRef::new(&x, n, 1, n).unwrap();
            let s = scale_exponent(super::super::max_abs(src));
            for kind in [HalfKind::F16, HalfKind::BF16] {
                let mut d = vec![0; n];
                pack_half(src, HalfMut::new(&mut d, n, 1, n, kind, s).unwrap()).unwrap();
                for (&x, &h) in x.iter().zip(&d) {
                    let y = x * 2.0f64.powi(-s);
                    let want = match kind {
                        HalfKind::F16 => bits::f16_from_f64(y),
                        HalfKind::BF16 => bits::bf16_from_f64(y),
                    };
                    prop_assert_eq!(h, want);
                }
                let mut back = vec![0.0f64; n];
                let half = HalfRef::new(&d, n, 1, n, kind, s).unwrap();
                unpack_half(half, MatMut::new(&mut back, n, 1, n).unwrap()).unwrap();
                for (&x, &y) in x.iter().zip(&back) {
                    let u = kind.format().unit_roundoff();
                    prop_assert!((x - y).abs() <= u * x.abs() + 2.0f64.powi(s - 25));
                }
            }
        }
    }
}
