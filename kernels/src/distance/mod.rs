//! Distances of measured signals from those of many points: sums of `|b - v|^p`.
//!
//! A sum is that of the figure of merit of pulse-shape analysis: over channels `s` and samples `t`,
//! of `|b_i[s][t] - v[s][t]|^p` for each point `i`. Sixteen points are interleaved ([`place`]):
//! lanes are points, and each lane adds the samples of a channel in their order and then the
//! channels. So the bits of a sum do not depend on the other points and events, and are equal on
//! every
//! machine. There are implementations for AVX2 and AVX-512, and a portable one.
//!
//! ```
//! use zellige_kernels::distance::{LANES, Metric, Shape, Values, place, sums};
//!
//! // Three points, one channel, two samples.
//! let points = [[0.0f32, 1.0], [0.25, 1.0], [0.5, 0.5]];
//! let shape = Shape { channels: 1, samples: 2 };
//! let mut values = [0.0; 2 * LANES];
//! for (i, point) in points.iter().enumerate() {
//!     point.iter().enumerate().for_each(|(term, &value)| values[place(i, term, shape)] = value);
//! }
//! let mut distances = [0.0; LANES];
//! sums(&Metric::power(1.0), Values::F32(&values), shape, &[0.25, 0.5], &[], &mut [], &mut distances)?;
//! assert_eq!(distances[..3], [0.75, 0.5, 0.25]);
//! # Ok::<(), zellige_kernels::KernelError>(())
//! ```

mod lanes;
mod number;
mod pairs;
mod power;
mod product;
#[cfg(test)]
mod tests;
mod walk;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86;

use std::marker::PhantomData;
use std::ops::Range;

use crate::KernelError;
use crate::error::check_shape;
use crate::formats::simd;
use lanes::{LaneWork, PortableLanes, SixteenLanes};
pub use number::{SumNumber, sum_in};
pub use pairs::{Pairs, sums_of_pairs};
use power::{
    AnyPower, BitPower, FourthRoot, LogTable, Magnitude, Power, QuarterBits, Root, Square, WholeTable, of_one,
};
pub use product::{Margin, longest, product_error, products, squares};
use walk::{Adding, HalfSums, Plain, Walk};

/// Number of points of a block, which are processed in lanes.
pub const LANES: usize = 16;

/// Contribution of the difference of two samples to a distance.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric(Kind);

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Any(AnyPower),
    Bits(BitPower),
    QuarterBits,
    FourthRoot,
    Root,
    Magnitude,
    Square,
    Whole(WholeTable),
    Log(LogTable),
}

impl Metric {
    /// `|d|^p` for a `p` above 0: roots for 1/4 and 1/2, products for 1 and 2, elsewhere
    /// polynomials. For `p = 0.3` their relative error is below 3e-7 for magnitudes from 2^-10 to
    /// 2, and below 4e-6 for all normal numbers below 16.
    pub fn power(p: f64) -> Self {
        Metric(match p {
            0.25 => Kind::FourthRoot,
            0.5 => Kind::Root,
            1.0 => Kind::Magnitude,
            2.0 => Kind::Square,
            _ => Kind::Any(AnyPower::new(p)),
        })
    }

    /// `|d|^p` by polynomials for every `p`: the reference for measurements of the fast paths of
    /// [`power`](Metric::power).
    pub fn polynomials(p: f64) -> Self {
        Metric(Kind::Any(AnyPower::new(p)))
    }

    /// About `|d|^p`, within a few percent, from the bits of `|d|`: never decreasing where `|d|`
    /// grows. For `p` from 0 to 1.
    pub fn bits(p: f64) -> Self {
        Metric(Kind::Bits(BitPower::new(p)))
    }

    /// About `|d|^(1/4)` times a constant, in two instructions: never decreasing where `|d|` grows.
    pub fn quarter_bits() -> Self {
        Metric(Kind::QuarterBits)
    }

    /// `|d|^p` from a table of 2 MB at whole multiples of `1 / units`, rounded down.
    pub fn whole_table(p: f64, units: f32) -> Self {
        Metric(Kind::Whole(WholeTable::new(p, units)))
    }

    /// `|d|^p` from a table of 16 KB with 64 places for each power of two, and straight lines
    /// between them.
    pub fn log_table(p: f64) -> Self {
        Metric(Kind::Log(LogTable::new(p)))
    }

    /// Returns the factor that turns a sum of this metric into a sum of `|d|^p`, approximately or
    /// exactly.
    pub fn unit(&self) -> f64 {
        match self.0 {
            Kind::QuarterBits => 1.0 / f64::from(QuarterBits::ONE),
            _ => 1.0,
        }
    }

    /// Returns the parameters of the metric for GPU kernels. There are none if no kernel supports
    /// it.
    pub(crate) fn on_gpus(&self) -> Option<GpuPower> {
        let plain = |name| Some(GpuPower { name, numbers: [0.0; GPU_NUMBERS] });
        match &self.0 {
            Kind::Any(power) => Some(GpuPower { name: "any", numbers: power.numbers() }),
            Kind::Bits(power) => Some(GpuPower { name: "bits", numbers: power.numbers() }),
            Kind::QuarterBits => plain("quarter"),
            Kind::FourthRoot => plain("fourth_root"),
            Kind::Root => plain("root"),
            Kind::Magnitude => plain("magnitude"),
            Kind::Square => plain("square"),
            Kind::Whole(_) | Kind::Log(_) => None,
        }
    }

    /// Returns the contribution of one difference, bitwise as in [`sums`].
    pub fn of(&self, d: f32) -> f32 {
        self.with(OfOne(d))
    }

    /// Calls `what` with the power of this metric.
    #[inline(always)]
    fn with<W: OfPower>(&self, what: W) -> W::Answer {
        match &self.0 {
            Kind::Any(power) => what.of(power),
            Kind::Bits(power) => what.of(power),
            Kind::QuarterBits => what.of(&QuarterBits),
            Kind::FourthRoot => what.of(&FourthRoot),
            Kind::Root => what.of(&Root),
            Kind::Magnitude => what.of(&Magnitude),
            Kind::Square => what.of(&Square),
            Kind::Whole(table) => what.of(table),
            Kind::Log(table) => what.of(table),
        }
    }
}

/// An operation that works with any power.
trait OfPower {
    /// Result of the operation.
    type Answer;

    /// Runs the operation.
    fn of<P: Power>(self, power: &P) -> Self::Answer;
}

/// The power of one number.
struct OfOne(f32);

impl OfPower for OfOne {
    type Answer = f32;

    fn of<P: Power>(self, power: &P) -> f32 {
        of_one(power, self.0)
    }
}

/// Number of parameters of a power on a GPU.
const GPU_NUMBERS: usize = 9;

/// Parameters of a metric for its GPU kernels.
pub(crate) struct GpuPower {
    /// Last part of the names of its kernels.
    pub(crate) name: &'static str,
    /// Parameters of the power.
    pub(crate) numbers: [f32; GPU_NUMBERS],
}

/// The size of signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Channels that are compared.
    pub channels: usize,
    /// Samples of each.
    pub samples: usize,
}

impl Shape {
    /// Samples of all channels.
    pub fn terms(self) -> usize {
        self.channels * self.samples
    }
}

/// Returns the position of a value of a point. Sixteen points are a block, in which the values of
/// the points for one sample are contiguous. `term` is `channel * samples + sample`.
pub fn place(point: usize, term: usize, shape: Shape) -> usize {
    (point / LANES * shape.terms() + term) * LANES + point % LANES
}

/// Signals of points, laid out by [`place`]; the last block is filled up with any values.
#[derive(Clone, Copy, Debug)]
pub enum Values<'a> {
    /// Values in `f32`.
    F32(&'a [f32]),
    /// Whole numbers: events have the same unit.
    I16(&'a [i16]),
    /// Bits of `f16`.
    F16(&'a [u16]),
    /// Bits of `bf16`.
    Bf16(&'a [u16]),
    /// Bits of `f16`, computed with as a GPU does with pairs of `f16`: the difference, its power
    /// and each sum are rounded to `f16`; even and odd samples have a sum each, which are added at
    /// the end. Samples of events have to be `f16`, too. With metrics other than [`Metric::power`]
    /// as [`F16`](Values::F16).
    Halves(&'a [u16]),
}

impl Values<'_> {
    /// Returns the number of scratch elements that [`sums`] needs for values of this kind and
    /// shape.
    pub fn scratch_len(&self, shape: Shape) -> usize {
        if matches!(self, Values::F32(_)) { 0 } else { shape.terms() * LANES }
    }

    /// A part of them in `f32`.
    fn block<'s>(&'s self, part: Range<usize>, scratch: &'s mut [f32]) -> &'s [f32] {
        let wide = &mut scratch[..if matches!(self, Values::F32(_)) { 0 } else { part.len() }];
        match self {
            Values::F32(values) => return &values[part],
            Values::I16(values) => {
                wide.iter_mut().zip(&values[part]).for_each(|(wide, &value)| *wide = value.into());
            }
            Values::F16(bits) | Values::Halves(bits) => simd::unpack_f16(&bits[part], (1.0, 1.0), wide),
            Values::Bf16(bits) => simd::unpack_bf16(&bits[part], (1.0, 1.0), wide),
        }
        wide
    }

    /// The block that begins with point `first`, by term.
    fn of_block<'s>(&'s self, first: usize, shape: Shape, scratch: &'s mut [f32]) -> &'s [[f32; LANES]] {
        let block = shape.terms() * LANES;
        let begin = first * shape.terms();
        self.block(begin..begin + block, scratch).as_chunks().0
    }

    /// Checks that the values are whole blocks, and returns the number of points with the padding
    /// of the last block.
    fn check(&self, kernel: &'static str, shape: Shape) -> Result<usize, KernelError> {
        let block = shape.terms() * LANES;
        // A shape without terms fits nothing.
        let whole = if block == 0 { self.len() + 1 } else { self.len().next_multiple_of(block) };
        check_shape(kernel, "values", (self.len(), 1), (whole, 1))?;
        Ok(self.len() / shape.terms())
    }

    fn len(&self) -> usize {
        match self {
            Values::F32(values) => values.len(),
            Values::I16(values) => values.len(),
            Values::F16(bits) | Values::Bf16(bits) | Values::Halves(bits) => bits.len(),
        }
    }
}

/// The sum of every point for every event.
///
/// `high` are the samples of the events, event after event, each [`Shape::terms`] long; `low`,
/// unless it is empty, what their rounding to `f32` has left over: it is subtracted on its own by
/// [`Metric::polynomials`] and [`Metric::bits`], so that a difference has a relative error of 2^-22
/// at most; others leave it out. `sums` are the points of all blocks, event after event.
///
/// # Errors
/// [`KernelError::Shape`] where sizes do not fit, [`KernelError::Scratch`] for less scratch than
/// [`Values::scratch_len`].
pub fn sums(
    metric: &Metric,
    values: Values<'_>,
    shape: Shape,
    high: &[f32],
    low: &[f32],
    scratch: &mut [f32],
    sums: &mut [f32],
) -> Result<(), KernelError> {
    let points = values.check("distance::sums", shape)?;
    let events = high.len() / shape.terms();
    check_shape("distance::sums", "high", (high.len(), 1), (events * shape.terms(), 1))?;
    check_shape("distance::sums", "sums", (sums.len(), 1), (events * points, 1))?;
    if !low.is_empty() {
        check_shape("distance::sums", "low", (low.len(), 1), (high.len(), 1))?;
    }
    let (got, need) = (scratch.len(), values.scratch_len(shape));
    if got < need {
        return Err(KernelError::Scratch { kernel: "distance::sums", got, need });
    }
    if points > 0 {
        by_metric(metric, &mut Operands { simd: SimdLevel::best(), values, shape, high, low, scratch, sums });
    }
    Ok(())
}

/// Checked operands of [`sums`].
struct Operands<'a> {
    simd: SimdLevel,
    values: Values<'a>,
    shape: Shape,
    high: &'a [f32],
    low: &'a [f32],
    scratch: &'a mut [f32],
    sums: &'a mut [f32],
}

fn by_metric(metric: &Metric, operands: &mut Operands<'_>) {
    let halves = matches!(operands.values, Values::Halves(_));
    let split = !operands.low.is_empty();
    match &metric.0 {
        Kind::Any(power) if halves => walk::<_, HalfSums>(power, operands),
        Kind::FourthRoot if halves => walk::<_, HalfSums>(&AnyPower::new(0.25), operands),
        Kind::Root if halves => walk::<_, HalfSums>(&Root, operands),
        Kind::Magnitude if halves => walk::<_, HalfSums>(&Magnitude, operands),
        Kind::Square if halves => walk::<_, HalfSums>(&Square, operands),
        Kind::Any(power) if split => walk::<_, Plain<true>>(power, operands),
        Kind::Bits(power) if split => walk::<_, Plain<true>>(power, operands),
        _ => metric.with(operands),
    }
}

/// The sums of all points, of samples in one part.
impl OfPower for &mut Operands<'_> {
    type Answer = ();

    fn of<P: Power>(self, power: &P) {
        walk::<P, Plain<false>>(power, self);
    }
}

/// Block after block; what is not stored in `f32` is made so first, once for all events.
fn walk<P: Power, A: Adding>(power: &P, operands: &mut Operands<'_>) {
    let Operands { simd, values, shape, high, low, ref mut scratch, ref mut sums } = *operands;
    let stride = values.len() / shape.terms();
    for first in (0..stride).step_by(LANES) {
        let values = values.of_block(first, shape, scratch);
        simd.enter(Walk::<P, A> {
            power,
            values,
            shape,
            high,
            low,
            first,
            stride,
            sums,
            adding: PhantomData,
        });
    }
}

/// A SIMD implementation that this machine supports.
#[derive(Clone, Copy)]
enum SimdLevel {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2(x86::Avx2Lanes),
    #[cfg(target_arch = "x86_64")]
    Avx512(x86::Avx512Lanes),
}

impl SimdLevel {
    /// The fastest.
    fn best() -> SimdLevel {
        #[cfg(target_arch = "x86_64")]
        if let Some(simd) = x86::Avx512Lanes::new()
            .map(SimdLevel::Avx512)
            .or_else(|| x86::Avx2Lanes::new().map(SimdLevel::Avx2))
        {
            return simd;
        }
        SimdLevel::Portable
    }

    fn enter(self, work: impl LaneWork) {
        match self {
            SimdLevel::Portable => PortableLanes.enter(work),
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx2(lanes) => lanes.enter(work),
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512(lanes) => lanes.enter(work),
        }
    }
}
