//! The number and its samples.

use core::panic::Location;

use bytemuck::{Pod, Zeroable};

use crate::instability::Category;
use crate::sample::Sample;
use crate::samples::{Eight, Samples};
use crate::state;

/// A number known by several samples, each of which is rounded up or down at random.
///
/// The digits in which the samples agree are exact, at a confidence of 95 %, as long as rounding
/// errors act to first order. That is discrete stochastic arithmetic (Vignes 2004). Literals are
/// exact; data with an error of their own need [`perturbed`](Stochastic::perturbed).
///
/// | operation | result |
/// | --- | --- |
/// | `+ - * /`, `sqrt`, `mul_add` | each sample rounded up or down with probability 1/2, unless it is exact |
/// | `== <` and the others | stochastic order: equal where the difference has no exact digit |
/// | `max min abs` | one of the two numbers, by the order of their means |
/// | `floor ceil round trunc` | exact on each sample |
/// | elementary functions | each sample moved by one unit in the last place with probability 1/2 |
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(transparent)]
pub struct Stochastic<T = f64, S = Eight>
where
    T: Sample,
    S: Samples,
{
    pub(crate) lanes: S::Array<T>,
}

impl<T: Sample, S: Samples> Stochastic<T, S> {
    /// The exact number `x`.
    #[inline(always)]
    pub fn new(x: T) -> Self {
        Stochastic { lanes: S::build(|_| x) }
    }

    /// A number with a relative error of at most `error`: each sample is `x (1 + error u)` with `u`
    /// uniform in (-1, 1). Outside of random rounding it is `x`.
    pub fn perturbed(x: T, error: f64) -> Self {
        if !state::is_random() {
            return Self::new(x);
        }
        let draw = || x.to_f64() * (1.0 + error * symmetric(state::bits().word));
        Stochastic { lanes: S::build(|_| T::from_f64(draw())) }
    }

    /// The number with these samples.
    ///
    /// # Panics
    /// If there are not as many samples as `S` counts.
    pub fn from_samples(samples: &[T]) -> Self {
        assert_eq!(samples.len(), S::COUNT, "a number of {} samples", S::COUNT);
        Stochastic { lanes: S::build(|lane| samples[lane.min(S::COUNT - 1)]) }
    }

    /// Numbers as they are stored: sample after sample, with those that only fill registers.
    #[inline(always)]
    pub fn words(numbers: &[Self]) -> &[T] {
        bytemuck::cast_slice(numbers)
    }

    /// Numbers as they are stored.
    #[inline(always)]
    pub fn words_mut(numbers: &mut [Self]) -> &mut [T] {
        bytemuck::cast_slice_mut(numbers)
    }

    /// The numbers that are stored so.
    ///
    /// # Panics
    /// If the words are not those of whole numbers.
    #[inline(always)]
    pub fn of_words(words: &[T]) -> &[Self] {
        bytemuck::cast_slice(words)
    }

    /// The numbers that are stored so.
    ///
    /// # Panics
    /// If the words are not those of whole numbers.
    #[inline(always)]
    pub fn of_words_mut(words: &mut [T]) -> &mut [Self] {
        bytemuck::cast_slice_mut(words)
    }

    /// The samples.
    #[inline(always)]
    pub fn samples(&self) -> &[T] {
        &self.lanes.as_ref()[..S::COUNT]
    }

    #[inline(always)]
    pub(crate) fn lane(&self, lane: usize) -> T {
        self.lanes.as_ref()[lane]
    }

    /// `f` of each sample, without rounding.
    #[inline(always)]
    pub fn map(self, f: impl Fn(T) -> T) -> Self {
        Stochastic { lanes: S::build(|lane| f(self.lane(lane))) }
    }

    /// All samples lie within `spread |x|` of the first, `x`. Quick and conservative.
    #[inline(always)]
    pub(crate) fn agrees_within(&self, spread: f64) -> bool {
        let mut near = true;
        for lane in 0..S::LANES {
            near &= self.lane(lane).is_within(spread, self.lane(0));
        }
        near
    }

    #[inline(always)]
    pub(crate) fn is_finite(&self) -> bool {
        let mut finite = true;
        for lane in 0..S::LANES {
            finite &= self.lane(lane).to_f64().abs() <= f64::MAX;
        }
        finite
    }

    /// Conversion to another type of samples; to a narrower one it is rounded as an operation.
    #[inline(always)]
    pub fn convert<U: Sample>(self) -> Stochastic<U, S> {
        let r = Stochastic { lanes: S::build(|lane| U::from_f64(self.lane(lane).to_f64())) };
        let errors = S::build(|lane| U::conversion_error(self.lane(lane).to_f64(), r.lane(lane)));
        Stochastic::rounded(r, errors, state::bits().word)
    }

    /// The integer below or above towards zero of the mean, 0 for NaN; an instability where
    /// the number has no exact digit.
    #[track_caller]
    pub fn to_i64(self) -> i64 {
        self.note_intrinsic(Location::caller());
        self.mean() as i64
    }

    #[inline(always)]
    pub(crate) fn note_intrinsic(&self, place: &'static Location<'static>) {
        if !self.agrees_within(crate::digits::CERTAIN) && self.is_noise() {
            state::record(Category::Intrinsic, place);
        }
    }
}

/// A random number in (-1, 1).
pub(crate) fn symmetric(word: u64) -> f64 {
    // The upper 53 bits of the word, centred in their intervals.
    ((word >> 11) as f64 + 0.5) * (2.0 / (1u64 << 53) as f64) - 1.0
}

impl<T: Sample, S: Samples> From<T> for Stochastic<T, S> {
    fn from(x: T) -> Self {
        Self::new(x)
    }
}

impl<T: Sample, S: Samples> Default for Stochastic<T, S> {
    fn default() -> Self {
        Self::new(T::zero())
    }
}
