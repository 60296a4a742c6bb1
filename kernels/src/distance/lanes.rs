//! SIMD operations on sixteen numbers, for the loops over points.

use super::LANES;
use crate::formats::bits;

/// Arithmetic of powers and sums, on all numbers of a vector alike.
///
/// Implementations on `f32` give the same bits: every operation here is fully specified by
/// IEEE 754.
pub(super) trait LaneOps: Copy {
    /// Numbers, or integers in their place in some methods.
    type Vector: Copy;
    /// Sample of an event.
    type Sample: Copy;

    /// A vector of one sample.
    fn broadcast(self, x: Self::Sample) -> Self::Vector;
    fn splat(self, x: f32) -> Self::Vector;
    fn load(self, from: &[f32; LANES]) -> Self::Vector;

    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a + b`, rounded to nearest in every arithmetic: for sums whose purpose is the rounding.
    #[inline(always)]
    fn add_nearest(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        self.add(a, b)
    }
    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// `a b + c`, rounded once.
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    fn sqrt(self, a: Self::Vector) -> Self::Vector;
    /// The nearest `f16`.
    fn round_f16(self, a: Self::Vector) -> Self::Vector;
    /// `y` where `x` is a normal number above zero, zero elsewhere; `x` is not negative.
    fn where_normal(self, x: Self::Vector, y: Self::Vector) -> Self::Vector;

    /// Bits in common with `mask`.
    fn and(self, a: Self::Vector, mask: u32) -> Self::Vector;
    /// Sum of integers.
    fn add_int(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// Difference of integers.
    fn sub_int(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    /// The larger of an integer and a signed bound.
    fn max_int(self, a: Self::Vector, bound: u32) -> Self::Vector;
    /// Zeros come in from above.
    fn shift_right<const N: u32>(self, a: Self::Vector) -> Self::Vector;
    /// Copies of the sign come in from above.
    fn shift_right_signed<const N: u32>(self, a: Self::Vector) -> Self::Vector;
    fn shift_left<const N: u32>(self, a: Self::Vector) -> Self::Vector;
    /// Signed integers as numbers, to the nearest.
    fn number_of(self, a: Self::Vector) -> Self::Vector;
    /// The nearest integers of numbers that are smaller than 2^31.
    fn to_int(self, a: Self::Vector) -> Self::Vector;
    /// Truncates numbers smaller than 2^31 to integers.
    fn truncate(self, a: Self::Vector) -> Self::Vector;
    /// The elements of a table that is not empty, at places that are not negative; beyond its end
    /// the last one.
    fn look_up(self, table: &[f32], places: Self::Vector) -> Self::Vector;
}

/// SIMD implementation for sixteen numbers of 32 bits.
///
/// A value of a type that implements this proves that the machine has the instructions. The type's
/// `new` creates it.
pub(super) trait SixteenLanes: LaneOps<Sample = f32> {
    /// True if sixteen vectors and more fit into registers.
    const HAS_MANY_REGISTERS: bool = false;

    /// Runs `work` in a function that may use the instructions.
    fn enter<W: LaneWork>(self, work: W);
    fn store(self, v: Self::Vector, to: &mut [f32; LANES]);
    /// The numbers of `a` at places from 0 to 15.
    fn permute(self, a: Self::Vector, places: Self::Vector) -> Self::Vector;
}

/// Something to be done in sixteen lanes.
pub(super) trait LaneWork {
    /// Runs the work, with a choice of `BATCH` events at a time. It has to be inlined into a
    /// function that has the instructions.
    fn run<L: SixteenLanes, const BATCH: usize>(self, lanes: L);
}

/// Portable implementation.
#[derive(Clone, Copy)]
pub(super) struct PortableLanes;

fn map(a: [f32; LANES], f: impl Fn(f32) -> f32) -> [f32; LANES] {
    a.map(f)
}

fn zip(a: [f32; LANES], b: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

fn int(a: [f32; LANES], f: impl Fn(u32) -> u32) -> [f32; LANES] {
    a.map(|x| f32::from_bits(f(x.to_bits())))
}

impl SixteenLanes for PortableLanes {
    fn enter<W: LaneWork>(self, work: W) {
        work.run::<Self, 1>(self);
    }

    fn store(self, v: Self::Vector, to: &mut [f32; LANES]) {
        *to = v;
    }

    fn permute(self, a: Self::Vector, places: Self::Vector) -> Self::Vector {
        map(places, |place| a[place.to_bits() as usize % LANES])
    }
}

impl LaneOps for PortableLanes {
    type Vector = [f32; LANES];
    type Sample = f32;

    fn broadcast(self, x: f32) -> Self::Vector {
        self.splat(x)
    }

    fn splat(self, x: f32) -> Self::Vector {
        [x; LANES]
    }

    fn load(self, from: &[f32; LANES]) -> Self::Vector {
        *from
    }

    fn add(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        zip(a, b, |a, b| a + b)
    }

    fn sub(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        zip(a, b, |a, b| a - b)
    }

    fn mul(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        zip(a, b, |a, b| a * b)
    }

    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
        std::array::from_fn(|i| a[i].mul_add(b[i], c[i]))
    }

    fn sqrt(self, a: Self::Vector) -> Self::Vector {
        map(a, f32::sqrt)
    }

    fn round_f16(self, a: Self::Vector) -> Self::Vector {
        map(a, |x| bits::f32_from_f16(bits::f16_from_f32(x)))
    }

    fn where_normal(self, x: Self::Vector, y: Self::Vector) -> Self::Vector {
        zip(x, y, |x, y| if x >= f32::MIN_POSITIVE { y } else { 0.0 })
    }

    fn and(self, a: Self::Vector, mask: u32) -> Self::Vector {
        int(a, |x| x & mask)
    }

    fn add_int(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        zip(a, b, |a, b| f32::from_bits(a.to_bits().wrapping_add(b.to_bits())))
    }

    fn sub_int(self, a: Self::Vector, b: Self::Vector) -> Self::Vector {
        zip(a, b, |a, b| f32::from_bits(a.to_bits().wrapping_sub(b.to_bits())))
    }

    fn max_int(self, a: Self::Vector, bound: u32) -> Self::Vector {
        int(a, |x| (x as i32).max(bound as i32) as u32)
    }

    fn shift_right<const N: u32>(self, a: Self::Vector) -> Self::Vector {
        int(a, |x| x >> N)
    }

    fn shift_right_signed<const N: u32>(self, a: Self::Vector) -> Self::Vector {
        int(a, |x| (x as i32 >> N) as u32)
    }

    fn shift_left<const N: u32>(self, a: Self::Vector) -> Self::Vector {
        int(a, |x| x << N)
    }

    fn number_of(self, a: Self::Vector) -> Self::Vector {
        map(a, |x| (x.to_bits() as i32) as f32)
    }

    fn to_int(self, a: Self::Vector) -> Self::Vector {
        map(a, |x| f32::from_bits(x.round_ties_even() as i32 as u32))
    }

    fn truncate(self, a: Self::Vector) -> Self::Vector {
        map(a, |x| f32::from_bits(x as i32 as u32))
    }

    fn look_up(self, table: &[f32], places: Self::Vector) -> Self::Vector {
        map(places, |place| table[(place.to_bits() as usize).min(table.len() - 1)])
    }
}
