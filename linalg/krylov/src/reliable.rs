//! Replacing the residual that a method keeps by the true one, without starting again.

use crate::error::Error;
use crate::numbers::{NumbersHandle, State};
use crate::operator::Operator;
use crate::scalar::Scalar;
use crate::steps::Steps;
use crate::vector::MultiVector;
use crate::vector_task::times;
use crate::{Cg, Correction, Method, Setting};

/// Reliable updates, a part of a method that multiplies with a narrower operator than the residual is meant for: `r` becomes `r_0 - A d` with the exact one
/// where it has become smaller than `delta` times the largest since the last time (Sleijpen and van der Vorst 1996; van der
/// Vorst and Ye 2000), and where it seems to be small enough; search directions are kept.
///
/// The steps that replace are in every step's graph. Their tasks go by numbers of their own, the gate, that say "done" in all other steps.
pub struct Reliable<'e, E: Scalar = f64> {
    exact: &'e dyn Operator<E>,
    delta: f64,
    gate: NumbersHandle<E>,
    begun: MultiVector<E>,
    product: MultiVector<E>,
}

/// The gate's numbers: the largest residual since the last replacement, and how often a residual seemed to be small enough.
const LARGEST: usize = 0;
const CLAIMS: usize = 1;
/// Claims that were wrong so often will not become right: the method ends, and the caller sees the true residual.
const MOST_CLAIMS: f64 = 4.0;
/// A true residual that is larger than the one it replaces by more than this ends the run: another begins with it.
const MOST_JUMP: f64 = 2.0;

impl<'e, E: Scalar> Reliable<'e, E> {
    /// Vectors of its own.
    pub(crate) const VECTORS: usize = 2;

    /// Of an operator whose residuals count; `delta` is between 0 and 1, and 0.1 will do.
    ///
    /// # Errors
    /// [`Error::Parameter`] for another `delta`.
    pub fn new(setting: Setting<'_, E>, exact: &'e dyn Operator<E>, delta: f64) -> Result<Self, Error> {
        if !(delta > 0.0 && delta < 1.0) {
            return Err(Error::parameter("delta", format!("{delta}: a number between 0 and 1 is needed")));
        }
        let gate = NumbersHandle::new(setting.rt, setting.columns, 2);
        Ok(Reliable { exact, delta, gate, begun: setting.zeros(), product: setting.zeros() })
    }

    /// Records, at the beginning of a run, that its residual `r` is remembered; `r . r` is sum `at` of those that were just made.
    ///
    /// # Errors
    /// Those of submission.
    pub fn begin(&self, steps: &Steps<'_, E>, r: &MultiVector<E>, at: usize) -> Result<(), Error> {
        steps.task("reliable.begin").copy(&self.begun, r).submit()?;
        steps.update_numbers_of("reliable.largest", &self.gate, move |sums, _, gate| {
            gate.begin(0.0, 0);
            gate.set_real(LARGEST, sums[at].real().sqrt());
            gate.end(State::Limited);
        })
    }

    /// Records, in a step and after `d` and `r` are new, that `r` is replaced where that is due. `r . r` is sum `at`, and is made again.
    ///
    /// # Errors
    /// Those of submission.
    pub fn replace(
        &self,
        steps: &Steps<'_, E>,
        d: &MultiVector<E>,
        r: &MultiVector<E>,
        at: usize,
    ) -> Result<(), Error> {
        let delta = self.delta;
        steps.update_numbers_of("reliable.decide", &self.gate, move |sums, method, gate| {
            let norm = sums[at].real().sqrt();
            let is_claim = method.is_reached(norm);
            let is_due = is_claim || norm < delta * gate.real(LARGEST);
            gate.set_real(LARGEST, if is_due { norm } else { gate.real(LARGEST).max(norm) });
            if is_due && gate.real(CLAIMS) < MOST_CLAIMS && !method.is_done() {
                gate.set_real(CLAIMS, gate.real(CLAIMS) + f64::from(u8::from(is_claim)));
                gate.go_on();
            } else {
                gate.end(State::Limited);
            }
        })?;
        let gated = steps.by(&self.gate);
        self.exact.apply(&gated, d, &self.product)?;
        let residual = [times(1.0, &self.begun), times(-1.0, &self.product)];
        gated.task("reliable.replace").assign(r, residual).dot(r, r, at).submit()?;
        // Directions that belong to a residual that is far from the true one are worth nothing.
        gated.update_numbers_of("reliable.judge", steps.numbers(), move |sums, gate, method| {
            let norm = sums[at].real().sqrt();
            if !gate.is_done() && !method.is_done() && norm > MOST_JUMP * gate.real(LARGEST) {
                method.step(norm);
                if !method.is_done() {
                    method.end(State::Limited);
                }
            }
        })
    }
}

/// Conjugate gradients with [`Reliable`] updates: products with the problem's inner operator, which may be narrow, residuals of an exact one.
#[derive(Clone, Copy)]
pub struct ReliableCg<'o, E: Scalar = f64> {
    /// How steps are made; flexible ones gain more where the inner operator is very narrow.
    pub cg: Cg,
    /// The operator whose residuals count.
    pub exact: &'o dyn Operator<E>,
    /// The reduction after which the residual is replaced, between 0 and 1.
    pub delta: f64,
}

impl<E: Scalar> Method<E> for ReliableCg<'_, E> {
    fn name(&self) -> String {
        format!("reliable {}", Method::<E>::name(&self.cg))
    }

    fn prepare<'r>(&'r self, setting: Setting<'r, E>) -> Result<Box<dyn Correction<E> + 'r>, Error> {
        let reliable = Reliable::new(setting, self.exact, self.delta)?;
        self.cg.prepared(setting, Some(&reliable))
    }
}
