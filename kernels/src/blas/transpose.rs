//! Transposition of a small square, the step between a left solve and the right solve that it is
//! run as.
//!
//! Written with shuffles where the machine has them: compiled from plain loops, it costs as much as
//! the solve itself.

use pulp::Simd;

/// Order of the squares: as many rows as eight registers hold.
pub const SQUARE: usize = 8;

/// `x[c][r]`, column by column.
pub type SquareBlock<T> = [[T; SQUARE]; SQUARE];

/// Element types whose squares can be transposed.
pub trait Transpose: Copy {
    /// The transposed square.
    fn transpose<S: Simd>(s: S, x: &SquareBlock<Self>) -> SquareBlock<Self>;
}

#[inline(always)]
fn plain<T: Copy>(x: &SquareBlock<T>) -> SquareBlock<T> {
    core::array::from_fn(|r| core::array::from_fn(|c| x[c][r]))
}

impl Transpose for f32 {
    #[inline(always)]
    fn transpose<S: Simd>(s: S, x: &SquareBlock<f32>) -> SquareBlock<f32> {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx) = x86::avx(s) {
            return x86::square_f32(avx, x);
        }
        let _ = s;
        plain(x)
    }
}

impl Transpose for f64 {
    #[inline(always)]
    fn transpose<S: Simd>(s: S, x: &SquareBlock<f64>) -> SquareBlock<f64> {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx) = x86::avx(s) {
            return x86::square_f64(avx, x);
        }
        let _ = s;
        plain(x)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::any::Any;
    use core::arch::x86_64::{__m256, __m256d};

    use bytemuck::cast;
    use pulp::Simd;
    use pulp::core_arch::x86::Avx;
    use pulp::x86::{V3, V4};

    use super::{SQUARE, SquareBlock};

    /// The proof that this machine has AVX, if `s` is one. Known when compiled.
    #[inline(always)]
    pub fn avx<S: Simd>(s: S) -> Option<Avx> {
        let s: &dyn Any = &s;
        if let Some(s) = s.downcast_ref::<V4>() {
            return Some(s.avx);
        }
        if let Some(s) = s.downcast_ref::<V3>() {
            return Some(s.avx);
        }
        None
    }

    // Loops and plain functions only: a closure is compiled for the oldest machine, and every
    // shuffle in it becomes a call.

    /// Pairs, then pairs of pairs, within each half of the registers; then the halves.
    #[inline(always)]
    pub fn square_f32(avx: Avx, x: &SquareBlock<f32>) -> SquareBlock<f32> {
        let mut pairs = [avx._mm256_setzero_ps(); SQUARE];
        for i in 0..SQUARE / 2 {
            let (a, b): (__m256, __m256) = (cast(x[2 * i]), cast(x[2 * i + 1]));
            pairs[2 * i] = avx._mm256_unpacklo_ps(a, b);
            pairs[2 * i + 1] = avx._mm256_unpackhi_ps(a, b);
        }
        let mut square = [[0.0; SQUARE]; SQUARE];
        // Rows `2 i`, `2 i + 1` and those 4 below, of columns 0..4 (`left`) and 4..8 (`right`).
        for i in 0..2 {
            let (left, right) = ((pairs[i], pairs[i + 2]), (pairs[i + 4], pairs[i + 6]));
            let even = (low_f32(avx, left), low_f32(avx, right));
            let odd = (high_f32(avx, left), high_f32(avx, right));
            square[2 * i] = cast(avx._mm256_permute2f128_ps::<0x20>(even.0, even.1));
            square[2 * i + 1] = cast(avx._mm256_permute2f128_ps::<0x20>(odd.0, odd.1));
            square[2 * i + 4] = cast(avx._mm256_permute2f128_ps::<0x31>(even.0, even.1));
            square[2 * i + 5] = cast(avx._mm256_permute2f128_ps::<0x31>(odd.0, odd.1));
        }
        square
    }

    /// The first pairs of `a` and `b`, in each half.
    #[inline(always)]
    fn low_f32(avx: Avx, (a, b): (__m256, __m256)) -> __m256 {
        avx._mm256_shuffle_ps::<0b01_00_01_00>(a, b)
    }

    /// The last pairs of `a` and `b`, in each half.
    #[inline(always)]
    fn high_f32(avx: Avx, (a, b): (__m256, __m256)) -> __m256 {
        avx._mm256_shuffle_ps::<0b11_10_11_10>(a, b)
    }

    /// Four squares of order 4.
    #[inline(always)]
    pub fn square_f64(avx: Avx, x: &SquareBlock<f64>) -> SquareBlock<f64> {
        let mut out = [[avx._mm256_setzero_pd(); 2]; SQUARE];
        for right in 0..2 {
            for below in 0..2 {
                let mut col = [avx._mm256_setzero_pd(); 4];
                for c in 0..4 {
                    let halves: [__m256d; 2] = cast(x[4 * right + c]);
                    col[c] = halves[below];
                }
                let low = (avx._mm256_unpacklo_pd(col[0], col[1]), avx._mm256_unpacklo_pd(col[2], col[3]));
                let high = (avx._mm256_unpackhi_pd(col[0], col[1]), avx._mm256_unpackhi_pd(col[2], col[3]));
                out[4 * below][right] = avx._mm256_permute2f128_pd::<0x20>(low.0, low.1);
                out[4 * below + 1][right] = avx._mm256_permute2f128_pd::<0x20>(high.0, high.1);
                out[4 * below + 2][right] = avx._mm256_permute2f128_pd::<0x31>(low.0, low.1);
                out[4 * below + 3][right] = avx._mm256_permute2f128_pd::<0x31>(high.0, high.1);
            }
        }
        let mut square = [[0.0; SQUARE]; SQUARE];
        for r in 0..SQUARE {
            square[r] = cast(out[r]);
        }
        square
    }
}

#[cfg(test)]
mod tests {
    use pulp::{Simd, WithSimd};

    use super::*;

    struct Check;

    impl WithSimd for Check {
        type Output = ();

        fn with_simd<S: Simd>(self, s: S) {
            let x: SquareBlock<f32> = core::array::from_fn(|c| core::array::from_fn(|r| (10 * c + r) as f32));
            let y: SquareBlock<f64> = x.map(|col| col.map(f64::from));
            assert_eq!(f32::transpose(s, &x), plain(&x));
            assert_eq!(f64::transpose(s, &y), plain(&y));
            assert_eq!(plain(&x)[3][5], 53.0);
        }
    }

    #[test]
    fn every_instruction_set_transposes_alike() {
        pulp::Arch::new().dispatch(Check);
        Check.with_simd(pulp::Scalar);
        #[cfg(target_arch = "x86_64")]
        if let Some(s) = pulp::x86::V3::try_new() {
            Simd::vectorize(s, Check);
        }
    }
}
