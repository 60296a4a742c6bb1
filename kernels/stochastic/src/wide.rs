//! All samples of an operation at once in registers of AVX-512.
//!
//! Instructions of AVX-512 carry a direction of rounding of their own; the rounding mode of the
//! thread is neither used nor changed. The result to nearest and those rounded up and down are
//! both neighbours of the exact one, one of them twice: a sample that is moved is the exclusive
//! or of the three. The bits are those that the sign of the error gives.

use core::fmt::Debug;

use bytemuck::Pod;

use crate::samples::Samples;

#[cfg(target_arch = "x86_64")]
pub use pulp::x86::V4 as Token;

/// Proof that the processor has AVX-512, which no other architecture has.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Clone, Copy, Debug)]
pub enum Token {}

/// Samples that fill registers. The functions of types without registers are never called.
pub trait Wide: Pod + Debug + Send + Sync {
    /// Whether there are registers of this type.
    const IN_REGISTERS: bool = false;
    /// Bits after the point that two numbers share if half of their decimal digits agree.
    const HALF: u32 = 0;

    /// Sums, and whether none is smaller than `least` times the larger operand, infinite or NaN.
    fn sums<S: Samples>(
        _: Token,
        a: &S::Array<Self>,
        _b: &S::Array<Self>,
        _word: u64,
        _least: Self,
    ) -> (S::Array<Self>, bool) {
        (*a, true)
    }

    /// Products, and whether all are finite.
    fn products<S: Samples>(
        _: Token,
        a: &S::Array<Self>,
        _b: &S::Array<Self>,
        _word: u64,
    ) -> (S::Array<Self>, bool) {
        (*a, true)
    }

    /// `a b + c`, and whether none is smaller than `least` times `c`, infinite or NaN.
    fn fused_sums<S: Samples>(
        _: Token,
        a: &S::Array<Self>,
        _b: &S::Array<Self>,
        _c: &S::Array<Self>,
        _word: u64,
        _least: Self,
    ) -> (S::Array<Self>, bool) {
        (*a, true)
    }

    /// Whether all samples are normal numbers with the sign, the exponent and the first `bits` bits
    /// after the point of the first one, so that they lie within `2^-bits` of it, or are infinite.
    fn share<S: Samples>(_: Token, _x: &S::Array<Self>, _bits: u32) -> bool {
        true
    }
}

impl Wide for half::f16 {}
impl Wide for half::bf16 {}
#[cfg(not(target_arch = "x86_64"))]
impl Wide for f32 {}
#[cfg(not(target_arch = "x86_64"))]
impl Wide for f64 {}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use core::arch::x86_64::{
        __m512, __m512d, _CMP_GE_OQ, _CMP_LE_OQ, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEG_INF,
        _MM_FROUND_TO_POS_INF,
    };

    use pulp::x86::V4;

    use super::{Samples, Wide};

    const UP: i32 = _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC;
    const DOWN: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
    /// Selects the larger magnitude of two numbers.
    const LARGER: i32 = 0b1011;
    /// Infinities and NaN.
    const NOT_FINITE: i32 = 0b1001_1001;
    /// Exclusive or of three words.
    const ODD: i32 = 0x96;

    #[inline(always)]
    fn chunk<const N: usize, T: Copy>(lanes: &[T], at: usize) -> [T; N] {
        *lanes[at..].first_chunk().expect("registers hold whole numbers of lanes")
    }

    #[inline(always)]
    fn load_f64<S: Samples>(simd: V4, x: &S::Array<f64>, at: usize) -> __m512d {
        let lanes = x.as_ref();
        if S::LANES == 4 {
            simd.avx512f._mm512_zextpd256_pd512(pulp::cast(chunk::<4, _>(lanes, 0)))
        } else {
            pulp::cast(chunk::<8, _>(lanes, at))
        }
    }

    #[inline(always)]
    fn store_f64<S: Samples>(simd: V4, x: &mut S::Array<f64>, at: usize, register: __m512d) {
        let lanes = x.as_mut();
        if S::LANES == 4 {
            let half: [f64; 4] = pulp::cast(simd.avx512f._mm512_castpd512_pd256(register));
            lanes.copy_from_slice(&half);
        } else {
            let whole: [f64; 8] = pulp::cast(register);
            lanes[at..at + 8].copy_from_slice(&whole);
        }
    }

    #[inline(always)]
    fn load_f32<S: Samples>(simd: V4, x: &S::Array<f32>, _: usize) -> __m512 {
        let lanes = x.as_ref();
        match S::LANES {
            4 => simd.avx512f._mm512_zextps128_ps512(pulp::cast(chunk::<4, _>(lanes, 0))),
            8 => simd.avx512f._mm512_zextps256_ps512(pulp::cast(chunk::<8, _>(lanes, 0))),
            _ => pulp::cast(chunk::<16, _>(lanes, 0)),
        }
    }

    #[inline(always)]
    fn store_f32<S: Samples>(simd: V4, x: &mut S::Array<f32>, _: usize, register: __m512) {
        let lanes = x.as_mut();
        match S::LANES {
            4 => {
                let quarter: [f32; 4] = pulp::cast(simd.avx512f._mm512_castps512_ps128(register));
                lanes.copy_from_slice(&quarter);
            }
            8 => {
                let half: [f32; 8] = pulp::cast(simd.avx512f._mm512_castps512_ps256(register));
                lanes.copy_from_slice(&half);
            }
            _ => {
                let whole: [f32; 16] = pulp::cast(register);
                lanes.copy_from_slice(&whole);
            }
        }
    }

    macro_rules! wide {
        (
            $type:ty, $half:literal, $per_register:literal, $register:ty, $mask:ty, $load:ident, $store:ident,
            $set:ident, $abs:ident, $range:ident, $compare:ident, $compare_of:ident, $to_words:ident, $to_numbers:ident,
            $test:ident, $ternary:ident, $blend:ident,
            $set_word:ident, $below:ident, $class:ident, $add:ident, $add_round:ident, $mul:ident, $mul_round:ident, $fused:ident, $fused_round:ident
        ) => {
            impl Wide for $type {
                const IN_REGISTERS: bool = true;
                const HALF: u32 = $half;

                #[inline(always)]
                fn sums<S: Samples>(
                    simd: V4,
                    a: &S::Array<$type>,
                    b: &S::Array<$type>,
                    word: u64,
                    least: $type,
                ) -> (S::Array<$type>, bool) {
                    let f = simd.avx512f;
                    let (mut sums, mut usual) = (*a, true);
                    let mut at = 0;
                    while at < S::LANES {
                        let (a, b) = ($load::<S>(simd, a, at), $load::<S>(simd, b, at));
                        let (up, down) = (f.$add_round::<UP>(a, b), f.$add_round::<DOWN>(a, b));
                        let chosen = Self::inexact(simd, up, Self::chosen::<S>(word >> at));
                        let sum = Self::pick::<S>(simd, f.$add(a, b), up, down, chosen);
                        let larger = simd.avx512dq.$range::<LARGER>(a, b);
                        usual &= Self::is_between::<S>(simd, f.$mul(larger, f.$set(least)), sum);
                        $store::<S>(simd, &mut sums, at, sum);
                        at += $per_register;
                    }
                    (sums, usual)
                }

                #[inline(always)]
                fn products<S: Samples>(
                    simd: V4,
                    a: &S::Array<$type>,
                    b: &S::Array<$type>,
                    word: u64,
                ) -> (S::Array<$type>, bool) {
                    let f = simd.avx512f;
                    let (mut products, mut usual) = (*a, true);
                    let mut at = 0;
                    while at < S::LANES {
                        let (a, b) = ($load::<S>(simd, a, at), $load::<S>(simd, b, at));
                        let (up, down) = (f.$mul_round::<UP>(a, b), f.$mul_round::<DOWN>(a, b));
                        let chosen = Self::chosen::<S>(word >> at);
                        let product = Self::pick::<S>(simd, f.$mul(a, b), up, down, chosen);
                        usual &= simd.avx512dq.$class::<NOT_FINITE>(product) == 0;
                        $store::<S>(simd, &mut products, at, product);
                        at += $per_register;
                    }
                    (products, usual)
                }

                #[inline(always)]
                fn fused_sums<S: Samples>(
                    simd: V4,
                    a: &S::Array<$type>,
                    b: &S::Array<$type>,
                    c: &S::Array<$type>,
                    word: u64,
                    least: $type,
                ) -> (S::Array<$type>, bool) {
                    let f = simd.avx512f;
                    let (mut sums, mut usual) = (*c, true);
                    let mut at = 0;
                    while at < S::LANES {
                        let (a, b) = ($load::<S>(simd, a, at), $load::<S>(simd, b, at));
                        let c = $load::<S>(simd, c, at);
                        let (up, down) = (f.$fused_round::<UP>(a, b, c), f.$fused_round::<DOWN>(a, b, c));
                        let chosen = Self::inexact(simd, up, Self::chosen::<S>(word >> at));
                        let sum = Self::pick::<S>(simd, f.$fused(a, b, c), up, down, chosen);
                        usual &= Self::is_between::<S>(simd, f.$mul(f.$abs(c), f.$set(least)), sum);
                        $store::<S>(simd, &mut sums, at, sum);
                        at += $per_register;
                    }
                    (sums, usual)
                }

                #[inline(always)]
                fn share<S: Samples>(simd: V4, x: &S::Array<$type>, bits: u32) -> bool {
                    let f = simd.avx512f;
                    let first = f.$to_words(f.$set(x.as_ref()[0]));
                    let limit = f.$set_word(1 << (<$type>::MANTISSA_DIGITS - 1 - bits));
                    // Numbers below the normal ones may differ by more in their first bits.
                    let exponent = f.$to_words(f.$set(<$type>::INFINITY));
                    let normal = f.$test(<$mask>::MAX, first, exponent);
                    let (mut share, mut at) = (true, 0);
                    while at < S::LANES {
                        let other = f._mm512_xor_si512(f.$to_words($load::<S>(simd, x, at)), first);
                        share &= Self::all::<S>(f.$below(normal, other, limit));
                        at += $per_register;
                    }
                    share
                }
            }

            impl Registers for $type {
                type Register = $register;
                type Mask = $mask;

                #[inline(always)]
                fn chosen<S: Samples>(word: u64) -> $mask {
                    // With opposed lanes the third goes where the second does not.
                    (if S::OPPOSED { word & !4 | (!word & 2) << 1 } else { word }) as $mask
                }

                #[inline(always)]
                fn inexact(simd: V4, up: $register, chosen: $mask) -> $mask {
                    let f = simd.avx512f;
                    f.$test(chosen, f.$to_words(up), f.$to_words(up))
                }

                #[inline(always)]
                fn pick<S: Samples>(
                    simd: V4,
                    near: $register,
                    up: $register,
                    down: $register,
                    chosen: $mask,
                ) -> $register {
                    let f = simd.avx512f;
                    if S::OPPOSED {
                        f.$blend(chosen, up, down)
                    } else {
                        let words = (f.$to_words(near), f.$to_words(up), f.$to_words(down));
                        f.$to_numbers(f.$ternary::<ODD>(words.0, chosen, words.1, words.2))
                    }
                }

                #[inline(always)]
                fn is_between<S: Samples>(simd: V4, least: $register, x: $register) -> bool {
                    let f = simd.avx512f;
                    let size = f.$abs(x);
                    let large = f.$compare::<_CMP_GE_OQ>(size, least);
                    let finite = f.$set(<$type>::MAX);
                    Self::all::<S>(f.$compare_of::<_CMP_LE_OQ>(large, size, finite))
                }

                #[inline(always)]
                fn all<S: Samples>(mask: $mask) -> bool {
                    let lanes = <$mask>::MAX >> $per_register.saturating_sub(S::LANES);
                    mask & lanes == lanes
                }
            }
        };
    }

    /// Parts of the operations above.
    trait Registers {
        type Register;
        type Mask;
        /// Lanes whose bits in `word` are set, as [`pick`](Self::pick) takes them.
        fn chosen<S: Samples>(word: u64) -> Self::Mask;
        /// Those of the chosen lanes in which a result is not an exact +0, which alone is +0 when it
        /// is rounded up, and would be -0 rounded down.
        fn inexact(simd: V4, up: Self::Register, chosen: Self::Mask) -> Self::Mask;
        /// One of the neighbours of an exact result for each lane: where the lane is chosen, the
        /// one that is not the nearest; with opposed lanes, the lower one.
        fn pick<S: Samples>(
            simd: V4,
            near: Self::Register,
            up: Self::Register,
            down: Self::Register,
            chosen: Self::Mask,
        ) -> Self::Register;
        /// Whether all lanes are finite and at least `least` in magnitude.
        fn is_between<S: Samples>(simd: V4, least: Self::Register, x: Self::Register) -> bool;
        /// Whether the bits of all lanes are set.
        fn all<S: Samples>(mask: Self::Mask) -> bool;
    }

    wide!(
        f64,
        27,
        8_usize,
        __m512d,
        u8,
        load_f64,
        store_f64,
        _mm512_set1_pd,
        _mm512_abs_pd,
        _mm512_range_pd,
        _mm512_cmp_pd_mask,
        _mm512_mask_cmp_pd_mask,
        _mm512_castpd_si512,
        _mm512_castsi512_pd,
        _mm512_mask_test_epi64_mask,
        _mm512_mask_ternarylogic_epi64,
        _mm512_mask_blend_pd,
        _mm512_set1_epi64,
        _mm512_mask_cmplt_epu64_mask,
        _mm512_fpclass_pd_mask,
        _mm512_add_pd,
        _mm512_add_round_pd,
        _mm512_mul_pd,
        _mm512_mul_round_pd,
        _mm512_fmadd_pd,
        _mm512_fmadd_round_pd
    );
    wide!(
        f32,
        14,
        16_usize,
        __m512,
        u16,
        load_f32,
        store_f32,
        _mm512_set1_ps,
        _mm512_abs_ps,
        _mm512_range_ps,
        _mm512_cmp_ps_mask,
        _mm512_mask_cmp_ps_mask,
        _mm512_castps_si512,
        _mm512_castsi512_ps,
        _mm512_mask_test_epi32_mask,
        _mm512_mask_ternarylogic_epi32,
        _mm512_mask_blend_ps,
        _mm512_set1_epi32,
        _mm512_mask_cmplt_epu32_mask,
        _mm512_fpclass_ps_mask,
        _mm512_add_ps,
        _mm512_add_round_ps,
        _mm512_mul_ps,
        _mm512_mul_round_ps,
        _mm512_fmadd_ps,
        _mm512_fmadd_round_ps
    );
}
