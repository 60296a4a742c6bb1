//! Eight codes at a time, with AVX2.

use core::arch::x86_64::*;

use super::PackedFormat::{self, *};

/// A format whose codes are decoded eight at a time, from contiguous bytes.
pub(crate) trait EightCodes {
    /// The format.
    const FORMAT: PackedFormat;
    /// Bytes of one code.
    const BYTES: usize = Self::FORMAT.bytes();
    /// Number of bytes that are read from the first code on; may be more than the bytes of eight
    /// codes.
    const READS: usize;

    /// # Safety
    /// `READS` bytes can be read at `at`, and the machine has AVX2.
    unsafe fn load(at: *const u8) -> [__m256d; 2];
}

/// The leading `B` bytes of an `f64`.
pub(crate) struct Double<const B: usize>;
/// The leading `B` bytes of an `f32`.
pub(crate) struct Single<const B: usize>;
/// `B` bytes with a sign (or none) and three bits of exponent; decoded through `f64`, or through
/// `f32` if that has enough bits.
pub(crate) struct Reduced<const B: usize, const SIGNED: bool>;

/// Bytes that [`four`] reads twice.
const fn reads_as_doubles(bytes: usize) -> usize {
    6 * bytes + 16
}

/// Bytes that [`eight`] reads.
const fn reads_as_singles(bytes: usize) -> usize {
    match bytes {
        3 => 28,
        bytes => 8 * bytes,
    }
}

/// Byte permutation that makes codes of `B` bytes the leading bytes of lanes of `LANE` bytes,
/// within each half of a register.
struct HalfSpread<const B: usize, const LANE: usize>;

impl<const B: usize, const LANE: usize> HalfSpread<B, LANE> {
    const TABLE: [u8; 32] = {
        let mut table = [0x80; 32]; // a zero
        let mut at = 0;
        while at < 32 {
            let (lane, byte) = (at % 16 / LANE, at % LANE);
            // Codes that are wider than their lane are never spread.
            if byte + B >= LANE {
                table[at] = (lane * B + byte + B - LANE) as u8;
            }
            at += 1;
        }
        table
    };
}

/// Two halves, each spread over its lanes.
///
/// # Safety
/// 16 bytes can be read at `low` and at `high`, and the machine has AVX2.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn spread<const B: usize, const LANE: usize>(low: *const u8, high: *const u8) -> __m256i {
    // SAFETY: the caller's promise; the table has 32 bytes.
    unsafe {
        let halves = _mm256_set_m128i(_mm_loadu_si128(high.cast()), _mm_loadu_si128(low.cast()));
        _mm256_shuffle_epi8(halves, _mm256_loadu_si256(HalfSpread::<B, LANE>::TABLE.as_ptr().cast()))
    }
}

/// Four codes, each the leading bytes of a lane of 64 bits.
///
/// # Safety
/// `2 * B + 16` bytes can be read at `at`, and the machine has AVX2.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn four<const B: usize>(at: *const u8) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe { if B == 8 { _mm256_loadu_si256(at.cast()) } else { spread::<B, 8>(at, at.add(2 * B)) } }
}

/// Eight codes, each the leading bytes of a lane of 32 bits.
///
/// # Safety
/// [`reads_as_singles`] bytes can be read at `at`, and the machine has AVX2.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) unsafe fn eight<const B: usize>(at: *const u8) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        match B {
            1 => _mm256_slli_epi32::<24>(_mm256_cvtepu8_epi32(_mm_loadl_epi64(at.cast()))),
            2 => _mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(at.cast()))),
            3 => spread::<B, 4>(at, at.add(4 * B)),
            _ => _mm256_loadu_si256(at.cast()),
        }
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn widened(singles: __m256i) -> [__m256d; 2] {
    let singles = _mm256_castsi256_ps(singles);
    let halves = [_mm256_castps256_ps128(singles), _mm256_extractf128_ps::<1>(singles)];
    halves.map(|half| _mm256_cvtps_pd(half))
}

impl<const B: usize> EightCodes for Double<B> {
    const FORMAT: PackedFormat = [Rp40, Rp48, Rp56, Fp64][B - 5];
    const READS: usize = reads_as_doubles(B);

    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn load(at: *const u8) -> [__m256d; 2] {
        // SAFETY: the caller's promise.
        unsafe { [_mm256_castsi256_pd(four::<B>(at)), _mm256_castsi256_pd(four::<B>(at.add(4 * B)))] }
    }
}

impl<const B: usize> EightCodes for Single<B> {
    const FORMAT: PackedFormat = [Rp16, Rp24, Fp32][B - 2];
    const READS: usize = reads_as_singles(B);

    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn load(at: *const u8) -> [__m256d; 2] {
        // SAFETY: the caller's promise.
        unsafe { widened(eight::<B>(at)) }
    }
}

impl<const B: usize, const SIGNED: bool> EightCodes for Reduced<B, SIGNED> {
    const FORMAT: PackedFormat = if SIGNED {
        [Rpre8, Rpre16, Rpre24, Rpre32, Rpre40, Rpre48][B - 1]
    } else {
        [Rpreu8, Rpreu16, Rpreu24, Rpreu32, Rpreu40, Rpreu48][B - 1]
    };
    const READS: usize = if B > 3 { reads_as_doubles(B) } else { reads_as_singles(B) };

    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn load(at: *const u8) -> [__m256d; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            if B > 3 {
                [reduced_double::<SIGNED>(four::<B>(at)), reduced_double::<SIGNED>(four::<B>(at.add(4 * B)))]
            } else {
                widened(reduced_single::<SIGNED>(eight::<B>(at)))
            }
        }
    }
}

/// Exponent and fraction to where an `f64` has them, the exponent counted from that of 1.
#[target_feature(enable = "avx2")]
#[inline]
fn reduced_double<const SIGNED: bool>(codes: __m256i) -> __m256d {
    let one = _mm256_set1_epi64x(1023 << 52);
    _mm256_castsi256_pd(if SIGNED {
        let sign = _mm256_set1_epi64x(i64::MIN);
        let magnitude = _mm256_srli_epi64::<8>(_mm256_andnot_si256(sign, codes));
        _mm256_or_si256(_mm256_add_epi64(magnitude, one), _mm256_and_si256(sign, codes))
    } else {
        _mm256_add_epi64(_mm256_srli_epi64::<9>(codes), one)
    })
}

/// Places the bits of reduced codes in `f32` lanes.
#[target_feature(enable = "avx2")]
#[inline]
fn reduced_single<const SIGNED: bool>(codes: __m256i) -> __m256i {
    let one = _mm256_set1_epi32(127 << 23);
    if SIGNED {
        let sign = _mm256_set1_epi32(i32::MIN);
        let magnitude = _mm256_srli_epi32::<5>(_mm256_andnot_si256(sign, codes));
        _mm256_or_si256(_mm256_add_epi32(magnitude, one), _mm256_and_si256(sign, codes))
    } else {
        _mm256_add_epi32(_mm256_srli_epi32::<6>(codes), one)
    }
}

/// Decodes groups of eight codes from runs of `count` codes that are `stride` bytes apart. Stops
/// before the first group that cannot be read in full. Returns the number of decoded values.
#[target_feature(enable = "avx2")]
fn unpack_by_eight<E: EightCodes>(src: &[u8], (count, stride): (usize, usize), dst: &mut [f64]) -> usize {
    let mut done = 0;
    for (at, dst) in dst.chunks_mut(count.max(1)).enumerate() {
        let codes = src.get(at * stride..).unwrap_or_default();
        // Number of groups whose bytes can all be read: usually all of them.
        let mut groups = dst.len() / 8;
        if codes.len() + 8 * E::BYTES < 8 * E::BYTES * groups + E::READS {
            groups = codes.len().checked_sub(E::READS).map_or(0, |more| more / (8 * E::BYTES) + 1);
        }
        let (mut from, mut to) = (codes.as_ptr(), dst.as_mut_ptr());
        for _ in 0..groups {
            // SAFETY: the bytes are there, and this function has AVX2; eight numbers are written,
            // within `dst`.
            unsafe {
                let [low, high] = E::load(from);
                _mm256_storeu_pd(to, low);
                _mm256_storeu_pd(to.add(4), high);
                (from, to) = (from.wrapping_add(8 * E::BYTES), to.wrapping_add(8));
            }
        }
        done += 8 * groups;
        if 8 * groups < dst.len() {
            break;
        }
    }
    done
}

/// Decodes numbers from the front in groups of eight. Returns the number of decoded numbers. See
/// [`unpack_apart`](super::unpack_apart).
pub(super) fn unpack(src: &[u8], format: PackedFormat, apart: (usize, usize), dst: &mut [f64]) -> usize {
    if !is_x86_feature_detected!("avx2") {
        return 0;
    }
    // SAFETY: AVX2 was detected.
    unsafe {
        match format {
            Fp64 => unpack_by_eight::<Double<8>>(src, apart, dst),
            Rp56 => unpack_by_eight::<Double<7>>(src, apart, dst),
            Rp48 => unpack_by_eight::<Double<6>>(src, apart, dst),
            Rp40 => unpack_by_eight::<Double<5>>(src, apart, dst),
            Fp32 => unpack_by_eight::<Single<4>>(src, apart, dst),
            Rp24 => unpack_by_eight::<Single<3>>(src, apart, dst),
            Rp16 => unpack_by_eight::<Single<2>>(src, apart, dst),
            Rpre48 => unpack_by_eight::<Reduced<6, true>>(src, apart, dst),
            Rpre40 => unpack_by_eight::<Reduced<5, true>>(src, apart, dst),
            Rpre32 => unpack_by_eight::<Reduced<4, true>>(src, apart, dst),
            Rpre24 => unpack_by_eight::<Reduced<3, true>>(src, apart, dst),
            Rpre16 => unpack_by_eight::<Reduced<2, true>>(src, apart, dst),
            Rpre8 => unpack_by_eight::<Reduced<1, true>>(src, apart, dst),
            Rpreu48 => unpack_by_eight::<Reduced<6, false>>(src, apart, dst),
            Rpreu40 => unpack_by_eight::<Reduced<5, false>>(src, apart, dst),
            Rpreu32 => unpack_by_eight::<Reduced<4, false>>(src, apart, dst),
            Rpreu24 => unpack_by_eight::<Reduced<3, false>>(src, apart, dst),
            Rpreu16 => unpack_by_eight::<Reduced<2, false>>(src, apart, dst),
            Rpreu8 => unpack_by_eight::<Reduced<1, false>>(src, apart, dst),
        }
    }
}
