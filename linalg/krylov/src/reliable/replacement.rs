//! Residual replacements in the steps of a method.

use zellige_kernels::RealNumber;

use std::sync::Arc;

use super::settings::{Stabilisation, Trigger, Updates};
use crate::buffer::MOST_BUFFERED;
use crate::error::Error;
use crate::inner_solver::{MemoryUse, Setting};
use crate::numbers::{Numbers, NumbersHandle, State};
use crate::operator::{Operator, apply_to};
use crate::scalar::Scalar;
use crate::steps::Steps;
use crate::storage::Storage;
use crate::vector::MultiVector;
use crate::vector_task::{VectorTask, times};

/// Reliable updates, a part of a method that multiplies with a narrower operator than that of the
/// requested residual, or stores vectors in fewer bits. `r` is replaced by `r_0 - A d` with the
/// exact operator on the [`Trigger`], and when it seems to be small enough; search directions are
/// kept.
///
/// The tasks of the replacement are in every step's graph. They have separate numbers, the gate,
/// whose state is "done" in all other steps.
pub struct Reliable<'e, E: Scalar = f64> {
    exact: &'e dyn Operator<E>,
    updates: Updates<E>,
    /// The roundoff of the narrow operator or storage.
    roundoff: f64,
    gate: NumbersHandle<E>,
    /// The residual that a solve begins with.
    begun: MultiVector<E>,
    product: MultiVector<E>,
}

/// The gate's numbers: the largest residual since the last replacement, and that after it; how
/// often a residual seemed to be small enough; ...
const LARGEST: usize = 0;
const LAST: usize = 1;
const CLAIMS: usize = 2;
/// ... the least after a replacement, and how often in a row, and at all, one was not smaller; ...
const LEAST: usize = 10;
const IN_VAIN: usize = 3;
const ALL_IN_VAIN: usize = 4;
/// ... and for the estimate: the norm of the operator, the square of the solution's, the deviation
/// now and after the last replacement, and the residual before.
const NORM: usize = 5;
const SOLUTION: usize = 6;
const DEVIATION: usize = 7;
const FIRST_DEVIATION: usize = 8;
const BEFORE: usize = 9;
/// Number of residual replacements.
const REPLACED: usize = 11;
const OWN: usize = 12;

/// Maximum number of wrong claims of convergence: after that the method ends, and the caller sees
/// the recomputed residual.
const MOST_CLAIMS: f64 = 4.0;
/// Required gain: a replacement is in vain if its residual is not smaller than the least before by
/// this factor.
///
/// A number of replacements in vain in a row (`MOST_IN_VAIN`), and of all (`MOST_OF_ALL`), end the
/// inner solve. So does a residual that exceeds the one it replaces by `MOST_JUMP`, because its
/// directions are useless. Another inner solve begins with the recomputed residual.
const GAIN: f64 = 0.99;
const MOST_IN_VAIN: f64 = 3.0;
const MOST_OF_ALL: f64 = 10.0;
const MOST_JUMP: f64 = 2.0;

/// Sums and scalars of the method that the estimate is made from: `|p|^2`, `|A p|^2`, and the step
/// length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimated {
    /// The sum of `p . p`.
    pub(crate) pp: usize,
    /// The sum of `A p . A p`.
    pub(crate) qq: usize,
    /// The scalar.
    pub(crate) alpha: usize,
}

/// A direction whose projection on a new residual is computed: the sum of `r . p`, and the number
/// that the projection becomes.
#[derive(Clone, Copy)]
pub(crate) struct Projected<'v, E: Scalar> {
    /// The direction.
    pub(crate) p: &'v MultiVector<E>,
    /// Index of the sum.
    pub(crate) sum: usize,
    /// Index of the scalar.
    pub(crate) number: usize,
}

impl<'e, E: Scalar> Reliable<'e, E> {
    /// Creates updates with residuals of `exact`.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a reduction that is not between 0 and 1, and a buffer of none or
    /// too many directions.
    pub(crate) fn new(
        setting: Setting<'_, E>,
        exact: &'e dyn Operator<E>,
        updates: &Updates<E>,
    ) -> Result<Self, Error> {
        if let Trigger::Reduction(delta) = updates.trigger
            && !(delta > 0.0 && delta < 1.0)
        {
            return Err(Error::parameter("delta", format!("{delta}: a number between 0 and 1 is needed")));
        }
        if !(1..=MOST_BUFFERED).contains(&updates.buffer) {
            let problem = format!("{} directions: 1 to {MOST_BUFFERED}", updates.buffer);
            return Err(Error::parameter("buffer", problem));
        }
        let roundoff = updates.storage.roundoff().max(setting.a.accuracy());
        let gate = NumbersHandle::new(setting.rt, setting.columns, OWN);
        let (begun, product) = (setting.zeros(), setting.zeros());
        Ok(Reliable { exact, updates: updates.clone(), roundoff, gate, begun, product })
    }

    /// Returns the initial residual of a solve, in float64, which the caller of the method writes.
    pub(crate) fn residual(&self) -> &MultiVector<E> {
        &self.begun
    }

    /// Returns the storage of residuals and directions.
    pub(crate) fn storage(&self) -> &Arc<dyn Storage<E>> {
        &self.updates.storage
    }

    /// Returns the techniques that keep the method stable.
    pub(crate) fn stabilisation(&self) -> Stabilisation {
        self.updates.stabilisation
    }

    /// Returns the number of directions that are added to the solution as a block.
    pub(crate) fn buffer(&self) -> usize {
        self.updates.buffer
    }

    /// Returns the roundoff at which shifts are removed; `None` if they are not removed.
    pub(crate) fn floor(&self) -> Option<f64> {
        self.stabilisation().removal.then_some(self.roundoff)
    }

    /// Returns true if sums for the estimate are needed.
    pub(crate) fn needs_estimate(&self) -> bool {
        self.updates.trigger == Trigger::Estimate
    }

    /// Adds the sums for the estimate to a task that has the direction `p` and `q = A p`, if they
    /// are needed.
    pub(crate) fn add_estimate<'s, 'g>(
        &self,
        task: VectorTask<'s, 'g, E>,
        [p, q]: [&MultiVector<E>; 2],
        Estimated { pp, qq, .. }: Estimated,
    ) -> VectorTask<'s, 'g, E> {
        if self.needs_estimate() { task.dot(p, p, pp).dot(q, q, qq) } else { task }
    }

    /// Returns the numbers whose state is "done" unless a residual was just replaced.
    pub(crate) fn gate(&self) -> &NumbersHandle<E> {
        &self.gate
    }

    /// Returns the scalar that counts replacements: numbers, and its index among them.
    pub(crate) fn counter(&self) -> (NumbersHandle<E>, usize) {
        (self.gate.clone(), REPLACED)
    }

    /// Returns the memory of its vectors.
    pub(crate) fn memory(&self) -> MemoryUse {
        MemoryUse::vectors::<E>(self.begun.space(), 2)
    }

    /// Records that a method's residual `r`, which may be narrow, becomes the initial one.
    pub(crate) fn set_residual(&self, steps: &Steps<'_, E>, r: &MultiVector<E>) -> Result<(), Error> {
        steps.task("reliable.residual").copy(r, &self.begun).submit()
    }

    /// Records the initial residual at the beginning of a solve. Its square is sum `at` of those
    /// that were just computed.
    pub(crate) fn begin(&self, steps: &Steps<'_, E>, at: usize) -> Result<(), Error> {
        steps.update_numbers_of("reliable.begin", &self.gate, move |sums, _, gate| {
            let norm = sums[at].real().value().sqrt();
            let deviation = f64::EPSILON / 2.0 * norm;
            gate.begin(0.0, 0);
            gate.set_reals([(LARGEST, norm), (LAST, norm), (LEAST, norm), (BEFORE, norm)]);
            gate.set_reals([(DEVIATION, deviation), (FIRST_DEVIATION, deviation)]);
            gate.end(State::Limited);
        })
    }

    /// Records, in a step and after its new residual `r`, that this is replaced by the recomputed
    /// residual of the correction `d` if that is due. `complete` records, with steps that run only
    /// then, that `d` gets what it still lacks.
    ///
    /// The square of the residual is sum `at`, before and after; `estimated` is the input of
    /// [`Trigger::Estimate`].
    pub(crate) fn replace_if_due(
        &self,
        steps: &Steps<'_, E>,
        [d, r]: [&MultiVector<E>; 2],
        at: usize,
        estimated: Option<Estimated>,
        complete: impl FnOnce(&Steps<'_, E>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.decide(steps, at, estimated)?;
        complete(&steps.by(&self.gate))?;
        self.replace(steps, d, r, at)
    }

    /// Records the projections of directions on a residual that was just replaced: `r . p / rho`,
    /// with sum `rho`. They are 0 in all other steps, and without
    /// [projection](Stabilisation::projection). Number `is_new` becomes 1 if the residual was
    /// replaced, otherwise 0.
    pub(crate) fn project(
        &self,
        steps: &Steps<'_, E>,
        (r, rho): (&MultiVector<E>, usize),
        is_new: usize,
        directions: &[Projected<'_, E>],
    ) -> Result<(), Error> {
        let gated = steps.by(&self.gate);
        let task = gated.task("reliable.project");
        directions.iter().fold(task, |task, one| task.dot(r, one.p, one.sum)).submit()?;
        let each: Vec<(usize, usize)> = directions.iter().map(|one| (one.sum, one.number)).collect();
        let projects = self.stabilisation().projection;
        gated.update_numbers_of("reliable.projection", steps.numbers(), move |sums, gate, s| {
            let is_replaced = !gate.is_done();
            s.set_real(is_new, f64::from(u8::from(is_replaced)));
            for &(sum, number) in &each {
                s[number] = if is_replaced && projects { sums[sum] / sums[rho] } else { E::default() };
            }
        })
    }

    /// Records the decision whether the residual is replaced. If so, tasks with the gate run.
    fn decide(&self, steps: &Steps<'_, E>, at: usize, estimated: Option<Estimated>) -> Result<(), Error> {
        let (trigger, roundoff) = (self.updates.trigger, self.roundoff);
        steps.update_numbers_of("reliable.decide", &self.gate, move |sums, method, gate| {
            let norm = sums[at].real().value().sqrt();
            let is_claim = method.is_reached(norm);
            let is_due = is_claim
                || match trigger {
                    Trigger::Reduction(delta) => norm < delta * gate.value(LARGEST),
                    Trigger::Estimate => {
                        estimated.is_some_and(|from| is_deviating(gate, method, sums, from, roundoff, norm))
                    }
                };
            gate.set_real(LARGEST, if is_due { norm } else { gate.value(LARGEST).max(norm) });
            gate.set_real(BEFORE, norm);
            if is_due && gate.value(CLAIMS) < MOST_CLAIMS && !method.is_done() {
                gate.set_real(CLAIMS, gate.value(CLAIMS) + f64::from(u8::from(is_claim)));
                gate.go_on();
            } else {
                gate.end(State::Limited);
            }
        })
    }

    /// Records that `r` is replaced, if that was decided, by the recomputed residual of `d`; its
    /// square is sum `at`.
    fn replace(
        &self,
        steps: &Steps<'_, E>,
        d: &MultiVector<E>,
        r: &MultiVector<E>,
        at: usize,
    ) -> Result<(), Error> {
        let gated = steps.by(&self.gate);
        apply_to(&gated, self.exact, d, &self.product, None)?;
        // The norm is that of the recomputed residual, not of its stored form.
        let residual = [times(1.0, &self.begun), times(-1.0, &self.product)];
        let task = gated.task("reliable.replace").assign(&self.product, residual).copy(r, &self.product);
        task.dot(&self.product, &self.product, at).submit()?;
        steps.update_numbers_of("reliable.remember", &self.gate, move |sums, _, gate| {
            if !gate.is_done() {
                remember(gate, sums[at].real().value().sqrt());
            }
        })?;
        gated.update_numbers_of("reliable.judge", steps.numbers(), move |sums, gate, method| {
            let is_in_vain = gate.value(IN_VAIN) >= MOST_IN_VAIN || gate.value(ALL_IN_VAIN) >= MOST_OF_ALL;
            if !gate.is_done() && !method.is_done() && is_in_vain {
                method.step(sums[at].real().value().sqrt());
                if !method.is_done() {
                    method.end(State::Limited);
                }
            }
        })
    }
}

/// Updates the record after a residual was replaced by one of this norm.
fn remember<E: Scalar>(gate: &mut Numbers<E, &mut [f64]>, norm: f64) {
    let is_in_vain = norm > GAIN * gate.value(LEAST);
    let more = if norm > MOST_JUMP * gate.value(LARGEST) { MOST_IN_VAIN } else { 1.0 };
    let deviation = f64::EPSILON / 2.0 * (norm + gate.value(NORM) * gate.value(SOLUTION).sqrt());
    gate.set_reals([
        (IN_VAIN, if is_in_vain { gate.value(IN_VAIN) + more } else { 0.0 }),
        (ALL_IN_VAIN, gate.value(ALL_IN_VAIN) + f64::from(u8::from(is_in_vain))),
        (REPLACED, gate.value(REPLACED) + 1.0),
        (LEAST, gate.value(LEAST).min(norm)),
        (LAST, norm),
        (LARGEST, norm),
        (BEFORE, norm),
        (DEVIATION, deviation),
        (FIRST_DEVIATION, deviation),
    ]);
}

/// Returns true if the rounding error of the residual becomes too large relative to it.
fn is_deviating<E: Scalar>(
    gate: &mut Numbers<E, &mut [f64]>,
    method: &Numbers<E, &[f64]>,
    sums: &[E],
    Estimated { pp, qq, alpha }: Estimated,
    roundoff: f64,
    norm: f64,
) -> bool {
    let wide = f64::EPSILON / 2.0;
    let of_p = sums[pp].real().value();
    if gate.value(NORM) == 0.0 && of_p > 0.0 {
        gate.set_real(NORM, (sums[qq].real().value() / of_p).sqrt());
    }
    gate.set_real(SOLUTION, gate.value(SOLUTION) + method.value(alpha).powi(2) * of_p);
    let before = gate.value(DEVIATION);
    let deviation = before + roundoff * norm + wide * gate.value(NORM) * gate.value(SOLUTION).sqrt();
    gate.set_real(DEVIATION, deviation);
    let (first, root) = (1.1 * gate.value(FIRST_DEVIATION), roundoff.sqrt());
    let was_small = before <= root * gate.value(BEFORE) || first > root * gate.value(LAST);
    was_small && deviation > root * norm && deviation > first
}
