//! Sums of one point in numbers that take the place of `f32`, in the order of the vectors.

use std::marker::PhantomData;

use super::lanes::LaneOps;
use super::power::Power;
use super::walk::{Adding, Plain, Samples};
use super::{LANES, Metric, OfPower, Shape, Values};
use crate::KernelError;
use crate::error::check_shape;
use crate::formats::bits;

/// A number that takes the place of `f32` in a sum: `f32` itself, or one that follows its rounding
/// errors.
pub trait SumNumber: Copy {
    /// The number `x`, exactly.
    fn new(x: f32) -> Self;
    /// Sum, rounded.
    fn plus(self, b: Self) -> Self;
    /// Difference, rounded.
    fn minus(self, b: Self) -> Self;
    /// Product, rounded.
    fn times(self, b: Self) -> Self;
    /// `self * b + c`, rounded once.
    fn fused(self, b: Self, c: Self) -> Self;
    /// Square root, rounded.
    fn root(self) -> Self;
    /// `f` of each value that the number stands for, whose rounding is not followed.
    fn map(self, f: impl Fn(f32) -> f32) -> Self;
    /// `f` of the values of two numbers, whose rounding is not followed.
    fn zip(self, b: Self, f: impl Fn(f32, f32) -> f32) -> Self;
}

impl SumNumber for f32 {
    #[inline(always)]
    fn new(x: f32) -> f32 {
        x
    }
    #[inline(always)]
    fn plus(self, b: f32) -> f32 {
        self + b
    }
    #[inline(always)]
    fn minus(self, b: f32) -> f32 {
        self - b
    }
    #[inline(always)]
    fn times(self, b: f32) -> f32 {
        self * b
    }
    #[inline(always)]
    fn fused(self, b: f32, c: f32) -> f32 {
        self.mul_add(b, c)
    }
    #[inline(always)]
    fn root(self) -> f32 {
        self.sqrt()
    }
    #[inline(always)]
    fn map(self, f: impl Fn(f32) -> f32) -> f32 {
        f(self)
    }
    #[inline(always)]
    fn zip(self, b: f32, f: impl Fn(f32, f32) -> f32) -> f32 {
        f(self, b)
    }
}

/// One of sixteen lanes. Operations are places for those who follow errors: callers show through.
#[derive(Clone, Copy)]
pub(super) struct OneLane<N> {
    lane: usize,
    number: PhantomData<N>,
}

impl<N> OneLane<N> {
    #[inline(always)]
    pub fn new(lane: usize) -> Self {
        OneLane { lane, number: PhantomData }
    }
}

/// Methods that are one expression each, of numbers.
macro_rules! numbers {
    ($(fn $name:ident$(<const $n:ident: u32>)?($($arg:ident),+ $(; $other:ident: $type:ty)?) $body:expr;)*) => {$(
        #[inline(always)]
        #[track_caller]
        fn $name$(<const $n: u32>)?(self, $($arg: N),+ $(, $other: $type)?) -> N {
            $body
        }
    )*};
}

fn int(f: impl Fn(u32) -> u32) -> impl Fn(f32) -> f32 {
    move |x| f32::from_bits(f(x.to_bits()))
}

impl<N: SumNumber> LaneOps for OneLane<N> {
    type Vector = N;
    type Sample = N;

    #[inline(always)]
    fn broadcast(self, x: N) -> N {
        x
    }

    #[inline(always)]
    fn splat(self, x: f32) -> N {
        N::new(x)
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> N {
        N::new(from[self.lane])
    }

    #[inline(always)]
    fn look_up(self, table: &[f32], places: N) -> N {
        places.map(
            #[inline(always)]
            |place| table[(place.to_bits() as usize).min(table.len() - 1)],
        )
    }

    numbers! {
        fn add(a, b) a.plus(b);
        fn add_nearest(a, b) a.zip(b, |a, b| a + b);
        fn sub(a, b) a.minus(b);
        fn mul(a, b) a.times(b);
        fn mul_add(a, b, c) a.fused(b, c);
        fn sqrt(a) a.root();
        fn round_f16(a) a.map(|x| bits::f32_from_f16(bits::f16_from_f32(x)));
        fn where_normal(x, y) x.zip(y, |x, y| if x >= f32::MIN_POSITIVE { y } else { 0.0 });
        fn and(a; mask: u32) a.map(int(|x| x & mask));
        fn add_int(a, b) a.zip(b, |a, b| f32::from_bits(a.to_bits().wrapping_add(b.to_bits())));
        fn sub_int(a, b) a.zip(b, |a, b| f32::from_bits(a.to_bits().wrapping_sub(b.to_bits())));
        fn max_int(a; bound: u32) a.map(int(|x| (x as i32).max(bound as i32) as u32));
        fn shift_right<const K: u32>(a) a.map(int(|x| x >> K));
        fn shift_right_signed<const K: u32>(a) a.map(int(|x| (x as i32 >> K) as u32));
        fn shift_left<const K: u32>(a) a.map(int(|x| x << K));
        fn number_of(a) a.map(|x| (x.to_bits() as i32) as f32);
        fn to_int(a) a.map(|x| f32::from_bits(x.round_ties_even() as i32 as u32));
        fn truncate(a) a.map(|x| f32::from_bits(x as i32 as u32));
    }
}

/// The sum of one point for one event in numbers of another kind, with the operations of
/// [`sums`](super::sums) in their order: in `f32` it has the bits of that.
///
/// It is compiled into its caller, and so for the instructions of that.
///
/// # Errors
/// [`KernelError::Shape`] where sizes do not fit, [`KernelError::Points`] if there is no such
/// point.
#[inline(always)]
pub fn sum_in<N: SumNumber>(
    metric: &Metric,
    values: &[f32],
    shape: Shape,
    event: &[N],
    point: usize,
) -> Result<N, KernelError> {
    let values = Values::F32(values);
    let points = values.check("distance::sum_in", shape)?;
    check_shape("distance::sum_in", "event", (event.len(), 1), (shape.terms(), 1))?;
    if point >= points {
        return Err(KernelError::Points { kernel: "distance::sum_in", points });
    }
    let values = values.of_block(point / LANES * LANES, shape, &mut []);
    let lane = OneLane::new(point % LANES);
    Ok(metric.with(SumOfPoint { lane, values, event, samples: shape.samples }))
}

struct SumOfPoint<'a, N> {
    lane: OneLane<N>,
    values: &'a [[f32; LANES]],
    event: &'a [N],
    samples: usize,
}

impl<N: SumNumber> OfPower for SumOfPoint<'_, N> {
    type Answer = N;

    #[inline(always)]
    fn of<P: Power>(self, power: &P) -> N {
        let event = [Samples { high: self.event, low: &[] }];
        let [sum] = Plain::<false>::block(self.lane, power, self.values, &event, self.samples);
        sum
    }
}
