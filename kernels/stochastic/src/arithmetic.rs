//! The four operations, root and fused multiply-add.

use core::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};
use core::panic::Location;

use crate::digits::{CERTAIN, precision_of};
use crate::instability::Category;
use crate::sample::Sample;
use crate::samples::Samples;
use crate::state::Bits;
use crate::wide;
use crate::{Stochastic, perturbation, state};

/// A sum below this part of the larger operand may be a cancellation of four digits.
pub(crate) const CANCELLED: f64 = 1e-3;
/// Digits that a cancellation loses at least.
const LOST: u32 = 4;

/// Numbers that agree within it have at least half of the digits of `T`; numbers that do not agree
/// within 16 times as much have fewer.
fn half_of_digits<T: Sample>() -> f64 {
    // 10^(-digits / 2), divided by the deviations of the interval and a deviation of 1.1 distances.
    match T::DIGITS {
        15 => 0.9e-8,
        7 => 0.9e-4,
        3 => 0.9e-2,
        _ => 3e-2,
    }
}

/// Operation with up to three operands; those with fewer repeat one.
#[derive(Clone, Copy, PartialEq)]
pub enum Operation {
    Sum,
    Product,
    Quotient,
    Root,
    Fused,
}

/// The result of a closure for each lane. A closure that is not inlined into
/// [`vectorize`](crate::vectorize) would be compiled without its instructions.
macro_rules! lanes {
    (|$lane:ident| $value:expr) => {
        S::build(
            #[inline(always)]
            |$lane| $value,
        )
    };
}

impl Operation {
    /// Whether there may be an instability other than a gradual loss: none is missed if the result
    /// is finite.
    #[inline(always)]
    fn is_suspect<T: Sample, S: Samples>(
        self,
        (a, b, c): (Stochastic<T, S>, Stochastic<T, S>, Stochastic<T, S>),
        result: Stochastic<T, S>,
    ) -> bool {
        let mut is_large = true;
        for lane in 0..S::LANES {
            let (x, y) = (a.lane(lane), b.lane(lane));
            let operand = match self {
                Operation::Sum if x.magnitude() < y.magnitude() => y,
                Operation::Sum => x,
                Operation::Fused => c.lane(lane),
                Operation::Product | Operation::Quotient | Operation::Root => break,
            };
            is_large &= result.lane(lane).is_at_least(CANCELLED, operand);
        }
        !is_large
            || match self {
                Operation::Sum => false,
                Operation::Product | Operation::Fused => {
                    !a.agrees_within(CERTAIN) && !b.agrees_within(CERTAIN)
                }
                Operation::Quotient => !b.agrees_within(CERTAIN),
                Operation::Root => !a.agrees_within(CERTAIN),
            }
    }
}

/// Operands of an operation.
type Operands<T, S> = [Stochastic<T, S>; 3];

impl<T: Sample, S: Samples> Stochastic<T, S> {
    /// Each lane of `r`, or its neighbour in the direction of the error where the bit of `word`
    /// says so.
    #[inline(always)]
    fn stepped(r: Self, errors: S::Array<f64>, word: u64) -> Self {
        let choices = S::choices(word);
        Stochastic {
            lanes: lanes!(|lane| {
                let error = errors.as_ref()[lane];
                let moved = if S::OPPOSED {
                    f64::from_bits(error.to_bits() ^ (choices << (63 - lane) & 1 << 63)) > 0.0
                } else {
                    (choices >> lane & 1 == 1) & ((error > 0.0) | (error < 0.0))
                };
                r.lane(lane).step(error, moved)
            }),
        }
    }

    /// A result under the perturbation of the scope.
    pub(crate) fn rounded(r: Self, errors: S::Array<f64>, word: u64) -> Self {
        if state::is_random() {
            Self::stepped(r, errors, word)
        } else {
            Stochastic { lanes: perturbation::perturb::<T, S>(r.lanes, errors, word) }
        }
    }

    /// The result of an operation: `r` stepped by `errors`, which the caller has computed quickly,
    /// or again in full where some of them may have vanished below the smallest number.
    #[inline(always)]
    fn result(
        operation: Operation,
        (a, b, c): (Self, Self, Self),
        r: Self,
        errors: S::Array<f64>,
        bits: Bits,
        special: bool,
        place: &'static Location<'static>,
    ) -> Self {
        let result = if !state::is_random() | special {
            let slow = computed(operation, [a, b, c, r], bits.word);
            bits.are_last();
            // Read one by one: the path that is taken most would otherwise find the samples in
            // memory.
            Stochastic { lanes: lanes!(|lane| slow.lane(lane)) }
        } else {
            Self::stepped(r, errors, bits.word)
        };
        let gradual = state::watches_gradual_loss() && !result.agrees_within(half_of_digits::<T>());
        let suspect = special | gradual | operation.is_suspect((a, b, c), result);
        result.noted(operation, (a, b, c), suspect, bits, place)
    }

    /// The result of an operation, after a look for instabilities if there may be one.
    ///
    /// One call for all that is rare keeps the samples in registers; so do random bits that are
    /// drawn before all else.
    #[inline(always)]
    fn noted(
        self,
        operation: Operation,
        (a, b, c): (Self, Self, Self),
        suspect: bool,
        bits: Bits,
        place: &'static Location<'static>,
    ) -> Self {
        if suspect {
            note(operation, [a, b, c], self, place);
            bits.are_last();
        }
        self
    }

    /// Whether the number agrees within `spread`, or is an exact 0.
    fn is_known_to(&self, spread: f64) -> bool {
        self.agrees_within(spread) | (self.lane(0) == T::zero())
    }

    /// A sum, product or fused sum in a register, if the thread may use one.
    #[inline(always)]
    fn in_register(
        operation: Operation,
        (a, b, c): (Self, Self, Self),
        bits: Bits,
        place: &'static Location<'static>,
    ) -> Option<Self> {
        let token = if S::LANES <= T::LANES_OF_REGISTER { state::wide()? } else { return None };
        let gradual = state::watches_gradual_loss();
        let (lanes, suspect) = wide::run(
            token,
            #[inline(always)]
            move || T::operate::<S>(token, operation, [&a.lanes, &b.lanes, &c.lanes], bits.word, gradual),
        );
        Some(Stochastic { lanes }.noted(operation, (a, b, c), suspect, bits, place))
    }

    #[inline(always)]
    fn sum(self, b: Self, place: &'static Location<'static>) -> Self {
        let bits = state::bits();
        if let Some(result) = Self::in_register(Operation::Sum, (self, b, b), bits, place) {
            return result;
        }
        let r = Stochastic { lanes: lanes!(|lane| self.lane(lane).plus(b.lane(lane))) };
        let errors = lanes!(|lane| T::sum_error(self.lane(lane), b.lane(lane), r.lane(lane)));
        Self::result(Operation::Sum, (self, b, b), r, errors, bits, false, place)
    }

    #[inline(always)]
    fn product(self, b: Self, place: &'static Location<'static>) -> Self {
        let bits = state::bits();
        if let Some(result) = Self::in_register(Operation::Product, (self, b, b), bits, place) {
            return result;
        }
        let r = Stochastic { lanes: lanes!(|lane| self.lane(lane).times(b.lane(lane))) };
        let errors = lanes!(|lane| T::product_error(self.lane(lane), b.lane(lane), r.lane(lane)));
        let mut special = false;
        for lane in 0..S::LANES {
            special |= T::product_is_special(self.lane(lane), b.lane(lane), r.lane(lane));
        }
        Self::result(Operation::Product, (self, b, b), r, errors, bits, special, place)
    }

    #[inline(always)]
    fn quotient(self, b: Self, place: &'static Location<'static>) -> Self {
        let bits = state::bits();
        let r = Stochastic { lanes: lanes!(|lane| self.lane(lane).over(b.lane(lane))) };
        let errors = lanes!(|lane| T::quotient_error(self.lane(lane), b.lane(lane), r.lane(lane)));
        let mut special = false;
        for lane in 0..S::LANES {
            special |= T::quotient_is_special(self.lane(lane), r.lane(lane));
        }
        Self::result(Operation::Quotient, (self, b, b), r, errors, bits, special, place)
    }

    /// Square root; NaN for samples below 0.
    #[inline(always)]
    #[track_caller]
    pub fn sqrt(self) -> Self {
        let bits = state::bits();
        let r = Stochastic { lanes: lanes!(|lane| self.lane(lane).root()) };
        let errors = lanes!(|lane| T::root_error(self.lane(lane), r.lane(lane)));
        let mut special = false;
        for lane in 0..S::LANES {
            special |= T::root_is_special(self.lane(lane));
        }
        Self::result(Operation::Root, (self, self, self), r, errors, bits, special, Location::caller())
    }

    /// `self * b + c`, rounded once.
    #[inline(always)]
    #[track_caller]
    pub fn mul_add(self, b: Self, c: Self) -> Self {
        let bits = state::bits();
        let place = Location::caller();
        if let Some(result) = Self::in_register(Operation::Fused, (self, b, c), bits, place) {
            return result;
        }
        let r = Stochastic { lanes: lanes!(|lane| self.lane(lane).fused(b.lane(lane), c.lane(lane))) };
        let errors = lanes!(|lane| T::fused_error(self.lane(lane), b.lane(lane), c.lane(lane), r.lane(lane)));
        let mut special = false;
        for lane in 0..S::LANES {
            special |= T::fused_is_special(self.lane(lane), b.lane(lane), c.lane(lane));
        }
        Self::result(Operation::Fused, (self, b, c), r, errors, bits, special, place)
    }

    /// `f` of the samples of two numbers, without rounding.
    #[inline(always)]
    pub fn map2(self, b: Self, f: impl Fn(T, T) -> T) -> Self {
        Stochastic { lanes: lanes!(|lane| f(self.lane(lane), b.lane(lane))) }
    }

    pub(crate) fn has_nan(&self) -> bool {
        self.samples().iter().any(|x| x.to_f64().is_nan())
    }

    /// Counts infinities and NaN that an operation makes of other numbers.
    pub(crate) fn note_range(&self, operands: &[Self], place: &'static Location<'static>) {
        if self.has_nan() {
            if !operands.iter().any(Self::has_nan) {
                state::record(Category::NotANumber, place);
            }
        } else if operands.iter().all(Self::is_finite)
            && self.samples().iter().any(|x| x.to_f64().is_infinite())
        {
            state::record(Category::Infinity, place);
        }
    }
}

/// An operation with errors that never vanish and any perturbation; `r` is the rounded result.
#[cold]
#[inline(never)]
fn computed<T: Sample, S: Samples>(
    operation: Operation,
    [a, b, c, r]: [Stochastic<T, S>; 4],
    word: u64,
) -> Stochastic<T, S> {
    if !state::mode().perturbation.uses_errors() {
        return Stochastic::rounded(r, S::build(|_| 0.0), word);
    }
    let errors = S::build(|lane| {
        let (a, b, c, r) = (a.lane(lane), b.lane(lane), c.lane(lane), r.lane(lane));
        match operation {
            Operation::Sum => T::sum_error(a, b, r),
            Operation::Product => T::careful_product(a, b, r),
            Operation::Quotient => T::careful_quotient(a, b, r),
            Operation::Root => T::careful_root(a, r),
            Operation::Fused => T::careful_fused(a, b, c, r),
        }
    });
    Stochastic::rounded(r, errors, word)
}

/// Counts the instabilities of an operation, if there are any.
#[cold]
#[inline(never)]
fn note<T: Sample, S: Samples>(
    operation: Operation,
    operands: Operands<T, S>,
    result: Stochastic<T, S>,
    place: &'static Location<'static>,
) {
    let [a, b, c] = operands;
    let half = half_of_digits::<T>();
    let may_be_gradual =
        || !result.agrees_within(half) && operands.iter().all(|x| x.is_known_to(16.0 * half));
    let suspect = operation.is_suspect((a, b, c), result);
    if !suspect && result.is_finite() && !may_be_gradual() {
        return;
    }
    // Logarithms only where fewer digits are left than the least loss leaves.
    let after = result.certainty();
    let cancelled = |a: Stochastic<T, S>, b: Stochastic<T, S>| {
        let enough = 0.999e3 * after.max(1.0);
        let digits = |certainty: f64| precision_of::<T>(certainty) as u32;
        let had_more = |before: f64| before >= enough && digits(before) >= digits(after) + LOST;
        state::counts(Category::Cancellation)
            && enough <= 10f64.powi(T::DIGITS as i32)
            && had_more(a.certainty())
            && had_more(b.certainty())
    };
    let category = match operation {
        _ if !suspect => None,
        Operation::Sum => cancelled(a, b).then_some(Category::Cancellation),
        Operation::Fused if cancelled(a.map2(b, |x, y| x.times(y)), c) => Some(Category::Cancellation),
        Operation::Product | Operation::Fused => {
            (a.is_noise() && b.is_noise()).then_some(Category::Multiplication)
        }
        Operation::Quotient => b.is_zero().then_some(Category::Division),
        Operation::Root => a.is_noise().then_some(Category::Function),
    };
    if let Some(category) = category {
        state::record(category, place);
    }
    if !result.is_finite() {
        result.note_range(&operands, place);
    } else if category != Some(Category::Cancellation)
        && state::counts(Category::GradualLoss)
        && after < 1.001 * 10f64.powf(f64::from(T::DIGITS) / 2.0)
    {
        let before = operands.iter().map(Stochastic::certainty).fold(f64::MAX, f64::min);
        let (before, after) = (precision_of::<T>(before), precision_of::<T>(after));
        let half = f64::from(T::DIGITS) / 2.0;
        if after < half
            && before >= half
            && before.floor() - after.floor() < f64::from(LOST)
            && !result.is_zero()
        {
            state::record(Category::GradualLoss, place);
        }
    }
}

impl<T: Sample, S: Samples> Neg for Stochastic<T, S> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Stochastic { lanes: lanes!(|lane| self.lane(lane).negative()) }
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident, $assign:ident, $assign_method:ident, |$a:ident, $b:ident, $place:ident| $body:expr) => {
        impl<T: Sample, S: Samples> $trait for Stochastic<T, S> {
            type Output = Self;
            #[inline(always)]
            #[track_caller]
            fn $method(self, b: Self) -> Self {
                let ($a, $b, $place) = (self, b, Location::caller());
                $body
            }
        }
        impl<T: Sample, S: Samples> $trait<T> for Stochastic<T, S> {
            type Output = Self;
            #[inline(always)]
            #[track_caller]
            fn $method(self, b: T) -> Self {
                let ($a, $b, $place) = (self, Self::new(b), Location::caller());
                $body
            }
        }
        impl<S: Samples> $trait<Stochastic<f64, S>> for f64 {
            type Output = Stochastic<f64, S>;
            #[inline(always)]
            #[track_caller]
            fn $method(self, b: Stochastic<f64, S>) -> Stochastic<f64, S> {
                let ($a, $b, $place) = (Stochastic::new(self), b, Location::caller());
                $body
            }
        }
        impl<S: Samples> $trait<Stochastic<f32, S>> for f32 {
            type Output = Stochastic<f32, S>;
            #[inline(always)]
            #[track_caller]
            fn $method(self, b: Stochastic<f32, S>) -> Stochastic<f32, S> {
                let ($a, $b, $place) = (Stochastic::new(self), b, Location::caller());
                $body
            }
        }
        impl<T: Sample, S: Samples> $assign for Stochastic<T, S> {
            #[inline(always)]
            #[track_caller]
            fn $assign_method(&mut self, b: Self) {
                let ($a, $b, $place) = (*self, b, Location::caller());
                *self = $body;
            }
        }
        impl<T: Sample, S: Samples> $assign<T> for Stochastic<T, S> {
            #[inline(always)]
            #[track_caller]
            fn $assign_method(&mut self, b: T) {
                let ($a, $b, $place) = (*self, Self::new(b), Location::caller());
                *self = $body;
            }
        }
    };
}

operator!(Add, add, AddAssign, add_assign, |a, b, place| a.sum(b, place));
operator!(Sub, sub, SubAssign, sub_assign, |a, b, place| a.sum(-b, place));
operator!(Mul, mul, MulAssign, mul_assign, |a, b, place| a.product(b, place));
operator!(Div, div, DivAssign, div_assign, |a, b, place| a.quotient(b, place));

impl<T: Sample, S: Samples> core::iter::Sum for Stochastic<T, S> {
    #[inline(always)]
    #[track_caller]
    fn sum<I: Iterator<Item = Self>>(numbers: I) -> Self {
        // As the sum of floats: an empty one is -0.
        let mut sum = Self::new(T::zero().negative());
        for x in numbers {
            sum += x;
        }
        sum
    }
}
