//! Products of a group of integers with digits: the module that calls instructions by name.
//!
//! Each function adds, for each row, the sum over columns of integer times entry of the vector.
//! Sums for each digit are sums of integers, which are exact, so results are the same with all
//! instructions.

use std::ops::Range;

use super::digits::{DIGITS, FourDigits};
use super::planes::unpack;
use super::{Blocks, MOST_COLUMNS, PART, ROWS};

impl Blocks<'_> {
    /// Multiplies with the instructions that this machine has.
    pub(super) fn multiply(self) {
        #[cfg(target_arch = "x86_64")]
        {
            if x86::has_vnni() {
                // SAFETY: the features that it enables were detected on this machine.
                return unsafe { self.with_vnni() };
            }
            if x86::has_avx2() {
                // SAFETY: the features that it enables were detected on this machine.
                return unsafe { self.with_avx2() };
            }
        }
        self.portably();
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512vl,avx512vnni")]
    fn with_vnni(self) {
        self.by(|dot| dot.vnni());
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn with_avx2(self) {
        self.by(|dot| dot.avx2());
    }

    fn portably(self) {
        self.by(|dot| dot.portable());
    }
}

/// Fetches sums that are needed soon: since they were used last, the matrix has passed the caches.
#[inline(always)]
pub(super) fn prefetch(sums: &[f32; ROWS]) {
    #[cfg(target_arch = "x86_64")]
    for line in sums.chunks(16) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction has no effect but on caches.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
}

/// Prefetch distance in bytes. Hardware prefetchers stop at the end of a page of 4 KiB.
const LATER: usize = 8 << 10;

/// Returns the bytes to prefetch, [`LATER`] bytes after `part`; none at the end.
#[inline(always)]
pub(super) fn later(bytes: &[u8], part: Range<usize>) -> &[u8] {
    bytes.get(part.start + LATER..part.end + LATER).unwrap_or(&[])
}

/// Prefetches lines into the second-level cache, which can wait for more of them at a time than the
/// first-level cache can.
#[inline(always)]
fn prefetch_later(lines: &[[u8; 64]]) {
    #[cfg(target_arch = "x86_64")]
    for line in lines {
        use core::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        // SAFETY: the instruction has no effect but on caches.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) };
    }
}

/// Integers of four columns of 16 rows, row by row.
type FourColumns = [u8; 4 * PART];

/// Arguments of all functions.
pub(super) struct Dot<'a> {
    /// Number of bits of a packed integer.
    pub(super) bits: u32,
    /// Packed integers, or what is left of them without their low 8 bits.
    pub(super) packed: &'a [u8],
    /// Low 8 bits of integers of more than 8 bits, or nothing.
    pub(super) low: &'a [u8],
    /// Workspace for unpacked integers of 16 rows.
    pub(super) workspace: &'a mut [FourColumns; MOST_COLUMNS / 4],
    pub(super) digits: [&'a [FourDigits]; DIGITS],
    /// Added to the sums of the digits.
    pub(super) start: [i32; DIGITS],
    /// Unit of the digits.
    pub(super) unit: f32,
    /// Scales of the rows, in bfloat16.
    pub(super) scales: &'a [u8],
    /// Bytes to prefetch.
    pub(super) later: &'a [u8],
    pub(super) sums: &'a mut [f32; ROWS],
}

/// Value of the low 8 bits of a number, in units of the one for the rest.
const LOW: f32 = 256.0;

impl Dot<'_> {
    /// Adds the products; `values` returns sums over the columns, in units of the vector, for the
    /// integers of 16 rows, the digits and what is added to their sums.
    #[inline(always)]
    fn by(self, values: impl Fn(&[FourColumns], [&[FourDigits]; DIGITS], [i32; DIGITS]) -> [f32; PART]) {
        prefetch_later(self.later.as_chunks().0);
        let fours = self.digits[0].len();
        let bytes = fours * PART / 2 * self.bits as usize;
        let mut of_rows = [0.0; ROWS];
        for (part, of_part) in of_rows.as_chunks_mut().0.iter_mut().enumerate() {
            let packed = &self.packed[part * bytes..(part + 1) * bytes];
            let codes = if self.bits == 8 {
                packed.as_chunks().0
            } else {
                let workspace = &mut self.workspace[..fours];
                unpack(self.bits, packed, workspace.as_flattened_mut());
                workspace
            };
            *of_part = values(codes, self.digits, self.start);
        }
        if !self.low.is_empty() {
            let low = self.low.as_chunks().0.chunks_exact(fours);
            for (of_part, low) in of_rows.as_chunks_mut::<PART>().0.iter_mut().zip(low) {
                let of_low = values(low, self.digits, [0; DIGITS]);
                for (value, low) in of_part.iter_mut().zip(of_low) {
                    *value = value.mul_add(LOW, low);
                }
            }
        }
        for ((sum, value), scale) in self.sums.iter_mut().zip(&of_rows).zip(self.scales.as_chunks::<2>().0) {
            let scale = f32::from_bits(u32::from(u16::from_le_bytes(*scale)) << 16);
            *sum = (value * self.unit).mul_add(scale, *sum);
        }
    }

    #[inline(always)]
    pub(super) fn portable(self) {
        self.by(|codes, digits, start| {
            let mut sums = start.map(|start| [start; PART]);
            for (sums, digits) in sums.iter_mut().zip(digits) {
                for (codes, digits) in codes.iter().zip(digits) {
                    for (sum, codes) in sums.iter_mut().zip(codes.as_chunks::<4>().0) {
                        let product = |(&code, &digit): (&u8, &i8)| i32::from(code) * i32::from(digit);
                        *sum += codes.iter().zip(digits).map(product).sum::<i32>();
                    }
                }
            }
            std::array::from_fn(|row| {
                let [low, middle, high] = sums.each_ref().map(|sums| sums[row] as f32);
                high.mul_add(256.0, middle).mul_add(256.0, low)
            })
        });
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::arch::x86_64::*;

    use pulp::cast;

    use super::{DIGITS, Dot, FourDigits, LOW, MOST_COLUMNS, PART, ROWS};

    pub(super) fn has_vnni() -> bool {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni")
            && has_avx2()
    }

    pub(super) fn has_avx2() -> bool {
        is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
    }

    /// Sums of the digits of 16 rows.
    struct Sums([__m512i; DIGITS]);

    impl Sums {
        #[target_feature(enable = "avx512f")]
        #[inline]
        fn new(start: [i32; DIGITS]) -> Self {
            let [low, middle, high] = start;
            Sums([_mm512_set1_epi32(low), _mm512_set1_epi32(middle), _mm512_set1_epi32(high)])
        }

        /// Adds the products of the integers of four columns.
        #[target_feature(enable = "avx512f,avx512vnni")]
        #[inline]
        fn add(&mut self, codes: __m512i, digits: [FourDigits; DIGITS]) {
            for d in 0..DIGITS {
                self.0[d] = _mm512_dpbusd_epi32(self.0[d], codes, _mm512_set1_epi32(cast(digits[d])));
            }
        }

        #[target_feature(enable = "avx512f")]
        #[inline]
        fn values(self) -> __m512 {
            let base = _mm512_set1_ps(256.0);
            let [low, middle, high] = self.0;
            let value = _mm512_fmadd_ps(_mm512_cvtepi32_ps(high), base, _mm512_cvtepi32_ps(middle));
            _mm512_fmadd_ps(value, base, _mm512_cvtepi32_ps(low))
        }
    }

    /// Adds `width` bits from bit `from` of each byte on, as bits `to` on, to `codes`.
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn pick(bytes: __m512i, codes: __m512i, width: u32, from: u32, to: u32) -> __m512i {
        // The compiler knows all three numbers.
        let by = |count: u32| _mm_cvtsi32_si128(count as i32);
        let moved = if from >= to {
            _mm512_srl_epi16(bytes, by(from - to))
        } else {
            _mm512_sll_epi16(bytes, by(to - from))
        };
        let mask = _mm512_set1_epi8((((1 << width) - 1) << to) as i8);
        // `codes | moved & mask`
        _mm512_ternarylogic_epi32::<0xf8>(codes, moved, mask)
    }

    /// Returns the first `N` elements, or zeros if there are fewer.
    #[inline(always)]
    fn first<const N: usize>(of: &[[u8; 64]]) -> &[[u8; 64]; N] {
        of.first_chunk().unwrap_or(&[[0; 64]; N])
    }

    /// Two digits of 16 bits each, for every four columns.
    type Pairs = [[[i32; 8]; MOST_COLUMNS / 32]; DIGITS];

    /// Returns the digits of columns 0 and 2 of each four, and of columns 1 and 3.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn pairs(digits: [&[FourDigits]; DIGITS]) -> [Pairs; 2] {
        let mut pairs = [[[[0; 8]; MOST_COLUMNS / 32]; DIGITS]; 2];
        for d in 0..DIGITS {
            for (part, digits) in digits[d].chunks(8).enumerate() {
                let mut bytes = [[0; 4]; 8];
                bytes[..digits.len()].copy_from_slice(digits);
                let bytes = cast(bytes);
                pairs[0][d][part] = cast(_mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(bytes)));
                pairs[1][d][part] = cast(_mm256_srai_epi16::<8>(bytes));
            }
        }
        pairs
    }

    impl Dot<'_> {
        /// Uses instructions that multiply four pairs of 8 bits and add the products.
        #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
        #[inline]
        pub(in super::super) fn vnni(self) {
            let [low, middle, high] = self.digits;
            if let (Ok(low), Ok(middle), Ok(high)) = (low.try_into(), middle.try_into(), high.try_into()) {
                let digits = [low, middle, high];
                return match self.bits {
                    1 => self.vnni_packed::<1>(digits),
                    2 => self.vnni_packed::<2>(digits),
                    3 => self.vnni_packed::<3>(digits),
                    4 => self.vnni_packed::<4>(digits),
                    5 => self.vnni_packed::<5>(digits),
                    6 => self.vnni_packed::<6>(digits),
                    7 => self.vnni_packed::<7>(digits),
                    _ => self.vnni_packed::<8>(digits),
                };
            }
            self.by(|codes, digits, start| {
                let mut sums = Sums::new(start);
                for (four, codes) in codes.iter().enumerate() {
                    sums.add(cast(*codes), digits.map(|digits| digits[four]));
                }
                cast(sums.values())
            });
        }

        /// Multiplies integers of `BITS` bits, 1 to 8, of 32 columns. They are unpacked in
        /// registers, which takes a third of the time that it takes in memory.
        #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
        #[inline]
        fn vnni_packed<const BITS: u32>(self, [low, middle, high]: [&[FourDigits; 8]; DIGITS]) {
            let later = self.later.as_chunks::<64>().0;
            let mut later = later.chunks(later.len().div_ceil(ROWS / PART).max(1));
            let lines = self.packed.as_chunks::<64>().0.chunks_exact(BITS as usize);
            let mut low_lines = self.low.as_chunks::<64>().0.chunks_exact(8);
            let rows = self.sums.as_chunks_mut::<PART>().0.iter_mut();
            let parts = rows.zip(self.scales.as_chunks::<{ 2 * PART }>().0);
            for (lines, (sums_of_rows, scales)) in lines.zip(parts) {
                let (fours, rest) = lines.split_at(if BITS & 4 == 0 { 0 } else { 4 });
                let (twos, ones) = rest.split_at(if BITS & 2 == 0 { 0 } else { 2 });
                let (fours, twos, ones) = (first::<4>(fours), first::<2>(twos), first::<1>(ones));
                // A quarter at a time, since few cache misses can be outstanding.
                later.next().into_iter().for_each(super::prefetch_later);
                let mut sums = Sums::new(self.start);
                macro_rules! add {
                    ($($four:literal)*) => {
                        $({
                            let mut codes = _mm512_setzero_si512();
                            if BITS == 8 {
                                codes = cast(lines[$four % BITS as usize]);
                            }
                            if BITS & 4 != 0 {
                                codes = pick(cast(fours[$four % 4]), codes, 4, $four / 4 * 4, 0);
                            }
                            if BITS & 2 != 0 {
                                codes = pick(cast(twos[$four % 2]), codes, 2, $four / 2 * 2, BITS & 4);
                            }
                            if BITS & 1 != 0 {
                                codes = pick(cast(ones[0]), codes, 1, $four, BITS & 6);
                            }
                            sums.add(codes, [low[$four], middle[$four], high[$four]]);
                        })*
                    };
                }
                add!(0 1 2 3 4 5 6 7);
                let mut values = sums.values();
                if let Some(lines) = low_lines.next() {
                    let mut sums = Sums::new([0; DIGITS]);
                    for (four, line) in lines.iter().enumerate() {
                        sums.add(cast(*line), [low[four], middle[four], high[four]]);
                    }
                    values = _mm512_fmadd_ps(values, _mm512_set1_ps(LOW), sums.values());
                }
                let scales =
                    _mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(cast::<[u8; 2 * PART], _>(*scales)));
                let values = _mm512_mul_ps(values, _mm512_set1_ps(self.unit));
                let sums = cast(*sums_of_rows);
                *sums_of_rows = cast(_mm512_fmadd_ps(values, _mm512_castsi512_ps(scales), sums));
            }
        }

        /// Uses instructions that multiply two pairs of 16 bits and add the products.
        #[target_feature(enable = "avx2,fma")]
        #[inline]
        pub(in super::super) fn avx2(self) {
            let lower_bytes = _mm256_set1_epi16(0xff);
            let base = _mm256_set1_ps(256.0);
            let [of_even, of_odd] = pairs(self.digits);
            self.by(|codes, _, start| {
                let mut sums = [[_mm256_setzero_si256(); 2]; DIGITS];
                for (four, codes) in codes.iter().enumerate() {
                    let codes: [__m256i; 2] = cast(*codes);
                    for half in 0..2 {
                        let even = _mm256_and_si256(codes[half], lower_bytes);
                        let odd = _mm256_srli_epi16::<8>(codes[half]);
                        for d in 0..DIGITS {
                            let even =
                                _mm256_madd_epi16(even, _mm256_set1_epi32(of_even[d].as_flattened()[four]));
                            let odd =
                                _mm256_madd_epi16(odd, _mm256_set1_epi32(of_odd[d].as_flattened()[four]));
                            sums[d][half] = _mm256_add_epi32(sums[d][half], _mm256_add_epi32(even, odd));
                        }
                    }
                }
                let mut values = [_mm256_setzero_ps(); 2];
                for (half, value) in values.iter_mut().enumerate() {
                    for d in [2, 1, 0] {
                        let sum = _mm256_add_epi32(sums[d][half], _mm256_set1_epi32(start[d]));
                        *value = _mm256_fmadd_ps(*value, base, _mm256_cvtepi32_ps(sum));
                    }
                }
                cast(values)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Digits;
    use super::super::tests::{all_bits, matrix, vector};
    use super::*;

    /// Sums of integers are exact, so all instructions give the same bits.
    #[test]
    fn products_have_the_same_bits_with_all_instructions() {
        let edges = [0, 32, 40, 71];
        let mut x = Digits::new(71);
        x.put(&edges, 0..3, &vector(71));
        for bits in all_bits() {
            let (matrix, ..) = matrix(150, &bits, &edges);
            let by = |multiply: fn(Blocks<'_>)| {
                let mut sums = [[1.0; ROWS]; 2];
                multiply(Blocks { matrix: &matrix, first: 1, groups: 0..3, x: &x, sums: &mut sums });
                sums.map(|sums| sums.map(f32::to_bits))
            };
            let portable = by(|block| block.portably());
            assert_eq!(by(|block| block.multiply()), portable, "{bits:?}");
            #[cfg(target_arch = "x86_64")]
            if x86::has_avx2() {
                // SAFETY: the features that it enables were detected on this machine.
                let by_avx2 = by(|block| unsafe { block.with_avx2() });
                assert_eq!(by_avx2, portable, "{bits:?}");
            }
        }
    }
}
