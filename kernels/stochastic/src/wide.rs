//! All samples of an operation at once in a register of AVX-512.
//!
//! Instructions of AVX-512 carry a direction of rounding of their own; the rounding mode of the
//! thread is neither used nor changed. The result to nearest and those rounded up and down are
//! both neighbours of the exact one, one of them twice: a sample that is moved is the exclusive
//! or of the three. The bits are those that the sign of the error gives.

use core::fmt::Debug;

use bytemuck::Pod;

use crate::arithmetic::Operation;
use crate::samples::Samples;

#[cfg(target_arch = "x86_64")]
pub use pulp::x86::V4 as Token;

/// Proof that the processor has AVX-512, which no other architecture has.
#[cfg(not(target_arch = "x86_64"))]
#[derive(Clone, Copy, Debug)]
pub enum Token {}

/// Runs `f` compiled for AVX-512: inlined in code that is, elsewhere as a function of its own.
#[inline(always)]
pub(crate) fn run<R>(token: Token, f: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    return token.vectorize(f);
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = f;
        match token {}
    }
}

/// Samples in one register. The functions are called for numbers of at most
/// [`LANES_OF_REGISTER`](Self::LANES_OF_REGISTER) lanes.
pub trait Wide: Pod + Debug + Send + Sync {
    /// Lanes of a register, 0 if there are no registers of this type.
    const LANES_OF_REGISTER: usize = 0;

    /// The results of a sum, a product or a fused sum, and whether there may be an instability: one
    /// is infinite or NaN, or smaller than [`CANCELLED`](crate::arithmetic::CANCELLED) times an
    /// operand; neither factor surely has an exact digit; or with `gradual`, a result does not
    /// surely have half of its digits.
    fn operate<S: Samples>(
        _: Token,
        _: Operation,
        [a, ..]: [&S::Array<Self>; 3],
        _word: u64,
        _gradual: bool,
    ) -> (S::Array<Self>, bool) {
        (*a, true)
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
        __m512, __m512d, _CMP_GE_OQ, _CMP_LE_OQ, _CMP_LT_OQ, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEG_INF,
        _MM_FROUND_TO_POS_INF,
    };

    use pulp::x86::V4;

    use super::{Operation, Samples, Wide};
    use crate::arithmetic::CANCELLED;

    const UP: i32 = _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC;
    const DOWN: i32 = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
    /// Selects the larger magnitude of two numbers.
    const LARGER: i32 = 0b1011;
    /// Infinities and NaN.
    const NOT_FINITE: i32 = 0b1001_1001;
    /// Bits after the point in which samples agree that surely have an exact digit
    /// ([`CERTAIN`](crate::digits::CERTAIN)).
    const SURE: u32 = 4;
    /// Exclusive or of three words.
    const ODD: i32 = 0x96;

    #[inline(always)]
    fn all_of<const N: usize, T: Copy>(lanes: &[T]) -> [T; N] {
        *lanes.first_chunk().expect("a register of lanes")
    }

    #[inline(always)]
    fn load_f64<S: Samples>(simd: V4, x: &S::Array<f64>) -> __m512d {
        let lanes = x.as_ref();
        if S::LANES == 4 {
            simd.avx512f._mm512_zextpd256_pd512(pulp::cast(all_of::<4, _>(lanes)))
        } else {
            pulp::cast(all_of::<8, _>(lanes))
        }
    }

    #[inline(always)]
    fn store_f64<S: Samples>(simd: V4, register: __m512d) -> S::Array<f64> {
        let low: [f64; 4] = pulp::cast(simd.avx512f._mm512_castpd512_pd256(register));
        let all: [f64; 8] = pulp::cast(register);
        S::build(|lane| if S::LANES == 4 { low[lane] } else { all[lane] })
    }

    #[inline(always)]
    fn load_f32<S: Samples>(simd: V4, x: &S::Array<f32>) -> __m512 {
        let lanes = x.as_ref();
        match S::LANES {
            4 => simd.avx512f._mm512_zextps128_ps512(pulp::cast(all_of::<4, _>(lanes))),
            8 => simd.avx512f._mm512_zextps256_ps512(pulp::cast(all_of::<8, _>(lanes))),
            _ => pulp::cast(all_of::<16, _>(lanes)),
        }
    }

    #[inline(always)]
    fn store_f32<S: Samples>(simd: V4, register: __m512) -> S::Array<f32> {
        let quarter: [f32; 4] = pulp::cast(simd.avx512f._mm512_castps512_ps128(register));
        let half: [f32; 8] = pulp::cast(simd.avx512f._mm512_castps512_ps256(register));
        let all: [f32; 16] = pulp::cast(register);
        S::build(|lane| match S::LANES {
            4 => quarter[lane],
            8 => half[lane],
            _ => all[lane],
        })
    }

    macro_rules! wide {
        (
            // `$half`: bits after the point in which samples agree that have half of their digits.
            $type:ty, $half:literal, $per_register:literal, $register:ty, $mask:ty,
            $load:ident, $store:ident, $set:ident, $abs:ident, $range:ident,
            $compare:ident, $compare_of:ident, $to_words:ident, $to_numbers:ident,
            $test:ident, $ternary:ident, $blend:ident, $set_word:ident, $below:ident, $class:ident,
            $lowest:ident, $first:ident, $add:ident, $add_round:ident, $sub:ident,
            $mul:ident, $mul_round:ident, $fused:ident, $fused_round:ident
        ) => {
            impl Wide for $type {
                const LANES_OF_REGISTER: usize = $per_register;

                #[inline(always)]
                fn operate<S: Samples>(
                    simd: V4,
                    operation: Operation,
                    [a, b, c]: [&S::Array<$type>; 3],
                    word: u64,
                    gradual: bool,
                ) -> (S::Array<$type>, bool) {
                    let f = simd.avx512f;
                    let (a, b) = ($load::<S>(simd, a), $load::<S>(simd, b));
                    let choices = S::choices(word) as $mask;
                    let is_vague = || !Self::agree::<S>(simd, a, SURE) && !Self::agree::<S>(simd, b, SURE);
                    let (results, suspect) = match operation {
                        Operation::Sum => {
                            let (up, down) = (f.$add_round::<UP>(a, b), f.$add_round::<DOWN>(a, b));
                            let choices = Self::inexact(simd, up, choices);
                            let sums = Self::pick::<S>(simd, f.$add(a, b), up, down, choices);
                            let larger = simd.avx512dq.$range::<LARGER>(a, b);
                            (sums, !Self::is_large::<S>(simd, sums, larger))
                        }
                        Operation::Fused => {
                            let c = $load::<S>(simd, c);
                            let (up, down) = (f.$fused_round::<UP>(a, b, c), f.$fused_round::<DOWN>(a, b, c));
                            let choices = Self::inexact(simd, up, choices);
                            let sums = Self::pick::<S>(simd, f.$fused(a, b, c), up, down, choices);
                            (sums, !Self::is_large::<S>(simd, sums, f.$abs(c)) || is_vague())
                        }
                        // Quotients and roots have no code here.
                        Operation::Product | Operation::Quotient | Operation::Root => {
                            let (up, down) = (f.$mul_round::<UP>(a, b), f.$mul_round::<DOWN>(a, b));
                            let products = Self::pick::<S>(simd, f.$mul(a, b), up, down, choices);
                            let is_finite = simd.avx512dq.$class::<NOT_FINITE>(products) == 0;
                            (products, !is_finite || is_vague())
                        }
                    };
                    let suspect = suspect || gradual && !Self::agree::<S>(simd, results, $half);
                    ($store::<S>(simd, results), suspect)
                }
            }

            impl Registers for $type {
                type Register = $register;
                type Mask = $mask;

                #[inline(always)]
                fn inexact(simd: V4, up: $register, choices: $mask) -> $mask {
                    let f = simd.avx512f;
                    f.$test(choices, f.$to_words(up), f.$to_words(up))
                }

                #[inline(always)]
                fn pick<S: Samples>(
                    simd: V4,
                    near: $register,
                    up: $register,
                    down: $register,
                    choices: $mask,
                ) -> $register {
                    let f = simd.avx512f;
                    if S::OPPOSED {
                        f.$blend(choices, up, down)
                    } else {
                        let words = (f.$to_words(near), f.$to_words(up), f.$to_words(down));
                        f.$to_numbers(f.$ternary::<ODD>(words.0, choices, words.1, words.2))
                    }
                }

                #[inline(always)]
                fn is_large<S: Samples>(simd: V4, x: $register, operand: $register) -> bool {
                    let f = simd.avx512f;
                    let (size, least) = (f.$abs(x), f.$mul(operand, f.$set(CANCELLED as $type)));
                    let large = f.$compare::<_CMP_GE_OQ>(size, least);
                    Self::all::<S>(f.$compare_of::<_CMP_LE_OQ>(large, size, f.$set(<$type>::MAX)))
                }

                #[inline(always)]
                fn agree<S: Samples>(simd: V4, x: $register, bits: u32) -> bool {
                    let f = simd.avx512f;
                    let first = f.$first(f.$lowest(x));
                    let (words, same) = (f.$to_words(x), f.$to_words(first));
                    let limit = f.$set_word(1 << (<$type>::MANTISSA_DIGITS - 1 - bits));
                    // Numbers below the normal ones may differ by more in their first bits.
                    let normal = f.$test(<$mask>::MAX, same, f.$to_words(f.$set(<$type>::INFINITY)));
                    if Self::all::<S>(f.$below(normal, f._mm512_xor_si512(words, same), limit)) {
                        return true;
                    }
                    let spread = f.$mul(f.$abs(first), f.$set(1.0 / (1_u64 << bits) as $type));
                    Self::all::<S>(f.$compare::<_CMP_LT_OQ>(f.$abs(f.$sub(x, first)), spread))
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
        /// Those of the chosen lanes in which a result is not an exact +0, which alone is +0 when
        /// it is rounded up, and would be -0 rounded down.
        fn inexact(simd: V4, up: Self::Register, choices: Self::Mask) -> Self::Mask;
        /// One of the neighbours of an exact result for each lane: where the lane is chosen, the
        /// one that is not the nearest; with opposed lanes, the lower one.
        fn pick<S: Samples>(
            simd: V4,
            near: Self::Register,
            up: Self::Register,
            down: Self::Register,
            choices: Self::Mask,
        ) -> Self::Register;
        /// Whether all lanes are finite and at least [`CANCELLED`] times the operand, which is not
        /// negative.
        fn is_large<S: Samples>(simd: V4, x: Self::Register, operand: Self::Register) -> bool;
        /// Whether all lanes lie within `2^-bits` of the first, or are infinite. Most numbers that
        /// do share the sign, the exponent and the first `bits` bits after the point.
        fn agree<S: Samples>(simd: V4, x: Self::Register, bits: u32) -> bool;
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
        _mm512_castpd512_pd128,
        _mm512_broadcastsd_pd,
        _mm512_add_pd,
        _mm512_add_round_pd,
        _mm512_sub_pd,
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
        _mm512_castps512_ps128,
        _mm512_broadcastss_ps,
        _mm512_add_ps,
        _mm512_add_round_ps,
        _mm512_sub_ps,
        _mm512_mul_ps,
        _mm512_mul_round_ps,
        _mm512_fmadd_ps,
        _mm512_fmadd_round_ps
    );
}
