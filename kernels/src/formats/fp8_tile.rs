//! Tiles stored in 8 bits (E4M3) with a power-of-two scale.

use super::norms::exp2;
use super::scale_exponent;
use super::simd::{self, power_of_two};
use crate::error::check_shape;
use crate::{KernelError, MatMut, MatRef, Scalar};

/// A read-only tile in E4M3: element `(i, j)` is the stored number times `2^scale_exp`.
#[derive(Debug, Clone, Copy)]
pub struct Fp8Ref<'a> {
    /// The stored numbers, as bits.
    pub mat: MatRef<'a, u8>,
    /// Exponent of the scale.
    pub scale_exp: i32,
}

/// A mutable tile in E4M3: element `(i, j)` is the stored number times `2^scale_exp`.
#[derive(Debug)]
pub struct Fp8Mut<'a> {
    /// The stored numbers, as bits.
    pub mat: MatMut<'a, u8>,
    /// Exponent of the scale.
    pub scale_exp: i32,
}

impl<'a> Fp8Ref<'a> {
    /// A view of `rows x cols` numbers of `data`, columns `ld` apart.
    ///
    /// # Errors
    /// [`KernelError::Layout`] as [`MatRef::new`].
    pub fn new(
        data: &'a [u8],
        rows: usize,
        cols: usize,
        ld: usize,
        scale_exp: i32,
    ) -> Result<Self, KernelError> {
        Ok(Self { mat: MatRef::new(data, rows, cols, ld)?, scale_exp })
    }
}

impl<'a> Fp8Mut<'a> {
    /// A mutable view of `rows x cols` numbers of `data`, columns `ld` apart.
    ///
    /// # Errors
    /// [`KernelError::Layout`] as [`MatMut::new`].
    pub fn new(
        data: &'a mut [u8],
        rows: usize,
        cols: usize,
        ld: usize,
        scale_exp: i32,
    ) -> Result<Self, KernelError> {
        Ok(Self { mat: MatMut::new(data, rows, cols, ld)?, scale_exp })
    }
}

/// Returns the scale exponent for [`pack_fp8`], which puts `max_abs` into `(224, 448]`. Zero for 0,
/// infinities and NaN.
///
/// The reason for this range: E4M3 spans less than 18 powers of two. An entry keeps 4 bits down to
/// `2^-6`, and below that its error is up to `2^-10`, independently of its size. A larger scale of
/// the largest entry does not change the first kind of error, and reduces the second. So the
/// largest entry is as large as possible, which is 448, since larger values saturate; powers of two
/// bring it into `(224, 448]`. Entries down to `2^-13.8` of the largest then keep their 4 bits, and
/// the error of the smaller ones is at most `2^-17.8` of the largest. With the largest in `[1, 2)`,
/// as in 16-bit tiles, these would be `2^-6` and `2^-10`. Sums of `k` products stay below `2^18 k`
/// and are `f32`, so smaller numbers have no advantage.
pub fn fp8_scale_exponent(max_abs: f64) -> i32 {
    let a = max_abs.abs();
    if a == 0.0 || !a.is_finite() {
        return 0;
    }
    let normal = if a < f64::MIN_POSITIVE { a * exp2(54) } else { a };
    let fraction = normal.to_bits() & ((1 << 52) - 1);
    // 448 is 1.75 times 2^8.
    let top = if fraction <= 3 << 50 { 8 } else { 7 };
    scale_exponent(a) - top
}

/// Numbers that pass through one stack buffer at a time.
const CHUNK: usize = 512;

/// Conversions that packing requires of an element type.
pub(crate) mod source {
    use super::*;

    pub trait Fp8Source: Sized + Copy {
        fn pack(src: &[Self], exp: i32, dst: &mut [u8]);
        fn unpack(src: &[u8], exp: i32, dst: &mut [Self]);
    }

    impl Fp8Source for f32 {
        fn pack(src: &[f32], exp: i32, dst: &mut [u8]) {
            simd::pack_e4m3(src, power_of_two(exp.saturating_neg()), dst);
        }
        fn unpack(src: &[u8], exp: i32, dst: &mut [f32]) {
            simd::unpack_e4m3(src, power_of_two(exp), dst);
        }
    }

    impl Fp8Source for f64 {
        fn pack(src: &[f64], exp: i32, dst: &mut [u8]) {
            let factor = exp2(exp.saturating_neg());
            let mut odd = [0.0; CHUNK];
            for (src, dst) in src.chunks(CHUNK).zip(dst.chunks_mut(CHUNK)) {
                simd::narrow_f64_to_odd(src, factor, &mut odd[..src.len()]);
                simd::pack_e4m3(&odd[..src.len()], (1.0, 1.0), dst);
            }
        }
        fn unpack(src: &[u8], exp: i32, dst: &mut [f64]) {
            let mut wide = [0.0; CHUNK];
            for (src, dst) in src.chunks(CHUNK).zip(dst.chunks_mut(CHUNK)) {
                simd::unpack_e4m3(src, (1.0, 1.0), &mut wide[..src.len()]);
                simd::widen_f32(&wide[..src.len()], exp2(exp), dst);
            }
        }
    }
}

/// Stores `src` in E4M3 with `dst`'s scale; one rounding to nearest even.
///
/// Choose the scale with [`fp8_scale_exponent`] of [`max_abs`](super::max_abs); entries that then
/// exceed 448, infinities among them, become 448 with their sign: E4M3 has no infinities. A NaN
/// stays one.
///
/// # Errors
/// [`KernelError::Shape`] when the shapes differ; `dst` is then untouched.
pub fn pack_fp8<T: Scalar>(src: MatRef<'_, T>, mut dst: Fp8Mut<'_>) -> Result<(), KernelError> {
    check_shape("pack_fp8", "dst", dst.mat.shape(), src.shape())?;
    for j in 0..src.cols() {
        <T as source::Fp8Source>::pack(src.col(j), dst.scale_exp, dst.mat.col_mut(j));
    }
    Ok(())
}

/// Writes the true values of `src` to `dst`: exact, unless the scale takes them out of the range of
/// `T`.
///
/// # Errors
/// [`KernelError::Shape`] when the shapes differ; `dst` is then untouched.
pub fn unpack_fp8<T: Scalar>(src: Fp8Ref<'_>, mut dst: MatMut<'_, T>) -> Result<(), KernelError> {
    check_shape("unpack_fp8", "dst", dst.shape(), src.mat.shape())?;
    for j in 0..dst.cols() {
        <T as source::Fp8Source>::unpack(src.mat.col(j), src.scale_exp, dst.col_mut(j));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{bits, max_abs};
    use super::*;

    #[test]
    fn the_largest_magnitude_stands_at_the_top() {
        for (max, exp) in
            [(448.0, 0), (448.0 * (1.0 + 1e-15), 1), (1.0, -8), (1.75, -8), (1.76, -7), (2.0, -7)]
        {
            assert_eq!(fp8_scale_exponent(max), exp, "{max}");
            assert_eq!(fp8_scale_exponent(-max), exp, "{max}");
        }
        assert_eq!(fp8_scale_exponent(f64::from_bits(1)), -1074 - 8);
        assert_eq!(fp8_scale_exponent(f64::from_bits(0xf)), -1071 - 7);
        assert_eq!([0.0, f64::NAN, f64::INFINITY].map(fp8_scale_exponent), [0; 3]);
    }

    #[test]
    fn tiles_at_the_ends_of_the_range_of_f32() {
        for e in [-149, -126, -37, 0, 100, 127] {
            let x = [2.0f64.powi(e) as f32, -(2.0f64.powi(e - 3) as f32)];
            let src = MatRef::new(&x, 2, 1, 2).unwrap();
            let s = fp8_scale_exponent(max_abs(src));
            let mut d = [0; 2];
            pack_fp8(src, Fp8Mut::new(&mut d, 2, 1, 2, s).unwrap()).unwrap();
            assert_eq!(bits::f32_from_e4m3(d[0]), 256.0, "{e}");
            let mut back = [0.0f32; 2];
            unpack_fp8(Fp8Ref::new(&d, 2, 1, 2, s).unwrap(), MatMut::new(&mut back, 2, 1, 2).unwrap())
                .unwrap();
            assert_eq!(back, x, "{e}");
        }
    }

    #[test]
    fn shapes_that_differ_are_refused() {
        let x = [1.0f32; 4];
        let mut d = [0u8; 4];
        let dst = Fp8Mut::new(&mut d, 4, 1, 4, 0).unwrap();
        assert!(matches!(
            pack_fp8(MatRef::new(&x, 2, 2, 2).unwrap(), dst),
            Err(KernelError::Shape { operand: "dst", .. })
        ));
        assert_eq!(d, [0; 4]);
        assert!(Fp8Ref::new(&d, 3, 2, 3, 0).is_err());
    }

    proptest! {
        #[test]
        fn packing_rounds_once_and_misses_little(
            x in prop::collection::vec(-1e3f64..1e3, 1..1100),
            small in prop::collection::vec(-1e-2f64..1e-2, 1..40),
            exp in -200..200i32,
        ) {
            let x: Vec<f64> = x.iter().chain(&small).map(|x| x * 2.0f64.powi(exp)).collect();
            let n = x.len();
            let src = MatRef::new(&x, n, 1, n).unwrap();
            let max = max_abs(src);
            let s = fp8_scale_exponent(max);
            let mut d = vec![0; n];
            pack_fp8(src, Fp8Mut::new(&mut d, n, 1, n, s).unwrap()).unwrap();
            for (&x, &h) in x.iter().zip(&d) {
                prop_assert_eq!(h, bits::e4m3_from_f64(x * 2.0f64.powi(-s)));
            }
            let mut back = vec![0.0f64; n];
            let fp8 = Fp8Ref::new(&d, n, 1, n, s).unwrap();
            unpack_fp8(fp8, MatMut::new(&mut back, n, 1, n).unwrap()).unwrap();
            for (&x, &y) in x.iter().zip(&back) {
                let bound = (x.abs() / 16.0).max(2.0f64.powf(-17.8) * max);
                prop_assert!((x - y).abs() <= bound, "{x:e} {y:e} of {max:e}");
            }
            // The same numbers in f32, where they fit, give the same codes.
            let narrow: Vec<f32> = x.iter().map(|&x| (x * 2.0f64.powi(-exp)) as f32).collect();
            let same: Vec<f64> = narrow.iter().map(|&x| x.into()).collect();
            let (narrow, same) = (MatRef::new(&narrow, n, 1, n).unwrap(), MatRef::new(&same, n, 1, n).unwrap());
            let s = fp8_scale_exponent(max_abs(same));
            let mut e = vec![0; n];
            pack_fp8(narrow, Fp8Mut::new(&mut d, n, 1, n, s).unwrap()).unwrap();
            pack_fp8(same, Fp8Mut::new(&mut e, n, 1, n, s).unwrap()).unwrap();
            prop_assert_eq!(d, e);
        }
    }
}
