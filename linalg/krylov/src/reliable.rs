//! Reliable updates: the residual of a method is replaced by the recomputed one, without a restart.

use std::sync::Arc;

use crate::buffer::MOST_BUFFERED;
use crate::error::Error;
use crate::numbers::{Numbers, NumbersHandle, State};
use crate::operator::{Operator, apply_to};
use crate::scalar::Scalar;
use crate::steps::Steps;
use crate::storage::{Plain, Storage};
use crate::vector::MultiVector;
use crate::vector_task::times;
use crate::{Correction, Kept, Method, Setting};

/// Condition for a residual replacement.
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{Cg, Packed, ReliableUpdates, Solve, Stop, Trigger, Updates, solve};
///
/// let updates = Updates { trigger: Trigger::Estimate, ..Updates::new(0.1, Packed::SINGLE) };
/// let cg = ReliableUpdates { method: Cg::default(), exact: &a, updates };
/// let mut x = vec![0.0; 50];
/// let found = solve(&Solve::new(&rt, &a), &cg, &[1.0; 50], &mut x, &Stop::RelativeToRhs(1e-12), &mut ())?;
/// assert!(found.reason.is_converged() && found.updates > 0);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trigger {
    /// Replaces the residual when it is smaller than this factor, between 0 and 1, times the
    /// largest since the last replacement (Sleijpen and van der Vorst 1996).
    Reduction(f64),
    /// Replaces the residual when its estimated rounding error becomes large relative to it (van
    /// der Vorst and Ye 2000, algorithm 3): `d_k = d_{k-1} + u |r_k| + u_64 |A| |x_k|`. Here `u` is
    /// the roundoff of the stored residual or of the operator's products, and `|x_k|^2` is
    /// estimated by `sum alpha^2 |p|^2` (Clark et al. 2022, section III).
    Estimate,
}

/// Techniques that keep conjugate gradients stable with narrow products, residuals and directions
/// (Clark et al. 2022). Each can be switched off, to show its effect. The formula of Polak and
/// Ribière is [`Cg::flexible`](crate::Cg::flexible).
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{Cg, Packed, ReliableUpdates, Solve, Stabilisation, Stop, Updates, solve};
///
/// let stabilisation = Stabilisation { projection: false, ..Stabilisation::default() };
/// let updates = Updates { stabilisation, ..Updates::new(0.1, Packed::SINGLE) };
/// let cg = ReliableUpdates { method: Cg::default(), exact: &a, updates };
/// let mut x = vec![0.0; 50];
/// let found = solve(&Solve::new(&rt, &a), &cg, &[1.0; 50], &mut x, &Stop::RelativeToRhs(1e-12), &mut ())?;
/// assert!(found.reason.is_converged() && found.updates > 0);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stabilisation {
    /// The solution is accumulated in float64, and not in the storage of the directions between two
    /// updates.
    pub wide_solution: bool,
    /// After an update, the direction is made orthogonal to the new residual.
    pub projection: bool,
    /// A shift whose residual has reached the resolution of its storage takes no part in further
    /// shared steps, which would only add rounding errors; the second phase of each shift does the
    /// rest.
    pub removal: bool,
}

impl Default for Stabilisation {
    /// Enables all techniques.
    fn default() -> Self {
        Stabilisation { wide_solution: true, projection: true, removal: true }
    }
}

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
    /// The residual that a run begins with.
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
pub(crate) const REPLACED: usize = 11;
const OWN: usize = 12;

/// Maximum number of wrong claims of convergence: after that the method ends, and the caller sees
/// the recomputed residual.
const MOST_CLAIMS: f64 = 4.0;
/// Required gain: a replacement is in vain if its residual is not smaller than the least before by
/// this factor.
///
/// A number of replacements in vain in a row (`MOST_IN_VAIN`), and of all (`MOST_OF_ALL`), end the
/// run. So does a residual that exceeds the one it replaces by `MOST_JUMP`, because its directions
/// are useless. Another run begins with the recomputed residual.
const GAIN: f64 = 0.99;
const MOST_IN_VAIN: f64 = 3.0;
const MOST_OF_ALL: f64 = 10.0;
const MOST_JUMP: f64 = 2.0;

/// Sums and scalars of the method that the estimate is made from: `|p|^2`, `|A p|^2`, and the step
/// length.
#[derive(Clone, Copy, Debug)]
pub struct Estimated {
    /// The sum of `p . p`.
    pub pp: usize,
    /// The sum of `A p . A p`.
    pub qq: usize,
    /// The scalar.
    pub alpha: usize,
}

impl<'e, E: Scalar> Reliable<'e, E> {
    /// Creates updates with residuals of `exact`.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a reduction that is not between 0 and 1, and a buffer of none or
    /// too many directions.
    pub fn new(
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

    /// Returns the initial residual of a run, in float64, which the caller of the method writes.
    pub fn residual(&self) -> &MultiVector<E> {
        &self.begun
    }

    /// Returns the storage of residuals and directions.
    pub fn storage(&self) -> &Arc<dyn Storage<E>> {
        &self.updates.storage
    }

    /// Returns the techniques that keep the method stable.
    pub fn stabilisation(&self) -> Stabilisation {
        self.updates.stabilisation
    }

    /// Returns the number of directions that are added to the solution as a block.
    pub fn buffer(&self) -> usize {
        self.updates.buffer
    }

    /// Returns the roundoff at which shifts are removed; `None` if they are not removed.
    pub(crate) fn floor(&self) -> Option<f64> {
        self.stabilisation().removal.then_some(self.roundoff)
    }

    /// Returns true if sums for the estimate are needed.
    pub fn needs_estimate(&self) -> bool {
        self.updates.trigger == Trigger::Estimate
    }

    /// Returns the numbers whose state is "done" unless a residual was just replaced.
    pub fn gate(&self) -> &NumbersHandle<E> {
        &self.gate
    }

    /// Records the initial residual at the beginning of a run; its square is sum `at` of those that
    /// were just computed.
    ///
    /// # Errors
    /// Those of submission.
    pub fn begin(&self, steps: &Steps<'_, E>, at: usize) -> Result<(), Error> {
        steps.update_numbers_of("reliable.begin", &self.gate, move |sums, _, gate| {
            let norm = sums[at].real().sqrt();
            let deviation = f64::EPSILON / 2.0 * norm;
            gate.begin(0.0, 0);
            gate.set_reals([(LARGEST, norm), (LAST, norm), (LEAST, norm), (BEFORE, norm)]);
            gate.set_reals([(DEVIATION, deviation), (FIRST_DEVIATION, deviation)]);
            gate.end(State::Limited);
        })
    }

    /// Records the decision, in a step and after its new residual, whether that is replaced; if so,
    /// tasks recorded with the [gate](Reliable::gate) run. The square of the residual is sum `at`;
    /// `estimated` is the input of [`Trigger::Estimate`].
    ///
    /// # Errors
    /// Those of submission.
    pub fn decide(&self, steps: &Steps<'_, E>, at: usize, estimated: Option<Estimated>) -> Result<(), Error> {
        let (trigger, roundoff) = (self.updates.trigger, self.roundoff);
        steps.update_numbers_of("reliable.decide", &self.gate, move |sums, method, gate| {
            let norm = sums[at].real().sqrt();
            let is_claim = method.is_reached(norm);
            let is_due = is_claim
                || match trigger {
                    Trigger::Reduction(delta) => norm < delta * gate.real(LARGEST),
                    Trigger::Estimate => {
                        estimated.is_some_and(|from| is_deviating(gate, method, sums, from, roundoff, norm))
                    }
                };
            gate.set_real(LARGEST, if is_due { norm } else { gate.real(LARGEST).max(norm) });
            gate.set_real(BEFORE, norm);
            if is_due && gate.real(CLAIMS) < MOST_CLAIMS && !method.is_done() {
                gate.set_real(CLAIMS, gate.real(CLAIMS) + f64::from(u8::from(is_claim)));
                gate.go_on();
            } else {
                gate.end(State::Limited);
            }
        })
    }

    /// Records that `r` is replaced, if that was [decided](Reliable::decide), by the recomputed
    /// residual of `d`; its square is sum `at`.
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
        let gated = steps.by(&self.gate);
        apply_to(&gated, self.exact, d, &self.product, None)?;
        // The norm is that of the recomputed residual, not of its stored form.
        let residual = [times(1.0, &self.begun), times(-1.0, &self.product)];
        let task = gated.task("reliable.replace").assign(&self.product, residual).copy(r, &self.product);
        task.dot(&self.product, &self.product, at).submit()?;
        steps.update_numbers_of("reliable.remember", &self.gate, move |sums, _, gate| {
            if !gate.is_done() {
                remember(gate, sums[at].real().sqrt());
            }
        })?;
        gated.update_numbers_of("reliable.judge", steps.numbers(), move |sums, gate, method| {
            let is_in_vain = gate.real(IN_VAIN) >= MOST_IN_VAIN || gate.real(ALL_IN_VAIN) >= MOST_OF_ALL;
            if !gate.is_done() && !method.is_done() && is_in_vain {
                method.step(sums[at].real().sqrt());
                if !method.is_done() {
                    method.end(State::Limited);
                }
            }
        })
    }
}

/// Updates the record after a residual was replaced by one of this norm.
fn remember<E: Scalar>(gate: &mut Numbers<E, &mut [f64]>, norm: f64) {
    let is_in_vain = norm > GAIN * gate.real(LEAST);
    let more = if norm > MOST_JUMP * gate.real(LARGEST) { MOST_IN_VAIN } else { 1.0 };
    let deviation = f64::EPSILON / 2.0 * (norm + gate.real(NORM) * gate.real(SOLUTION).sqrt());
    gate.set_reals([
        (IN_VAIN, if is_in_vain { gate.real(IN_VAIN) + more } else { 0.0 }),
        (ALL_IN_VAIN, gate.real(ALL_IN_VAIN) + f64::from(u8::from(is_in_vain))),
        (REPLACED, gate.real(REPLACED) + 1.0),
        (LEAST, gate.real(LEAST).min(norm)),
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
    let of_p = sums[pp].real();
    if gate.real(NORM) == 0.0 && of_p > 0.0 {
        gate.set_real(NORM, (sums[qq].real() / of_p).sqrt());
    }
    gate.set_real(SOLUTION, gate.real(SOLUTION) + method.real(alpha).powi(2) * of_p);
    let before = gate.real(DEVIATION);
    let deviation = before + roundoff * norm + wide * gate.real(NORM) * gate.real(SOLUTION).sqrt();
    gate.set_real(DEVIATION, deviation);
    let (first, root) = (1.1 * gate.real(FIRST_DEVIATION), roundoff.sqrt());
    let was_small = before <= root * gate.real(BEFORE) || first > root * gate.real(LAST);
    was_small && deviation > root * norm && deviation > first
}

/// A method that can have its residual replaced.
pub trait Updatable<E: Scalar>: Method<E> {
    /// Prepares the method like [`Method::prepare`], with updates.
    ///
    /// # Errors
    /// Those of [`Method::prepare`].
    fn prepare_with<'r>(
        &self,
        setting: Setting<'r, E>,
        reliable: Reliable<'_, E>,
    ) -> Result<Box<dyn Correction<E> + 'r>, Error>;
}

/// A method, [`Cg`](crate::Cg) or [`BiCgStab`](crate::BiCgStab), with [`Reliable`] updates:
/// products with the problem's inner operator, which may be narrow, residuals of an exact one.
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{Cg, Packed, ReliableUpdates, Solve, Stop, Updates, solve};
///
/// // Residuals and directions with 24 bits a number.
/// let updates = Updates::new(0.1, "rp24".parse::<Packed>()?);
/// let cg = ReliableUpdates { method: Cg::default(), exact: &a, updates };
/// let mut x = vec![0.0; 50];
/// let found = solve(&Solve::new(&rt, &a), &cg, &[1.0; 50], &mut x, &Stop::RelativeToRhs(1e-12), &mut ())?;
/// assert!(found.reason.is_converged() && found.updates > 0);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone)]
pub struct ReliableUpdates<'o, M, E: Scalar = f64> {
    /// The method of the steps. Flexible conjugate gradients, by the formula of Polak and Ribière,
    /// are more stable.
    pub method: M,
    /// The exact operator, for recomputed residuals.
    pub exact: &'o dyn Operator<E>,
    /// Settings of the residual replacements and of the storage.
    pub updates: Updates<E>,
}

/// Settings of reliable updates: trigger, storage of vectors, and stabilisation.
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{Cg, Packed, ReliableUpdates, Solve, Stop, Updates, solve};
///
/// // Residuals and directions in float32.
/// let updates = Updates::new(0.1, Packed::SINGLE);
/// let cg = ReliableUpdates { method: Cg::default(), exact: &a, updates };
/// let mut x = vec![0.0; 50];
/// let found = solve(&Solve::new(&rt, &a), &cg, &[1.0; 50], &mut x, &Stop::RelativeToRhs(1e-12), &mut ())?;
/// assert!(found.reason.is_converged() && found.updates > 0);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Updates<E: Scalar = f64> {
    /// Condition for a residual replacement.
    pub trigger: Trigger,
    /// Storage of residuals, directions and products.
    pub storage: Arc<dyn Storage<E>>,
    /// Techniques that keep the method stable.
    pub stabilisation: Stabilisation,
    /// Number of directions of conjugate gradients that are kept and then added to the solution as
    /// a block, 1 to 8; 1 adds each in its step. The solution is in float64: with narrow directions
    /// it is a large part of the memory traffic of a step, and a buffer of `n` moves it every `n`
    /// steps. It takes `n - 1` additional vectors, and changes no bits.
    pub buffer: usize,
}

impl<E: Scalar> Updates<E> {
    /// Creates settings with vectors in this storage, all stabilisation techniques and no buffer.
    /// The residual is replaced when it has decreased by the factor `delta`; 0.1 is a good value.
    pub fn new(delta: f64, storage: impl Storage<E> + 'static) -> Self {
        let (trigger, storage) = (Trigger::Reduction(delta), Arc::new(storage));
        Updates { trigger, storage, stabilisation: Stabilisation::default(), buffer: 1 }
    }
}

impl<'o, M, E: Scalar> ReliableUpdates<'o, M, E> {
    /// Creates a method with vectors in float64 and all stabilisation techniques. The residual is
    /// replaced when it has decreased by the factor `delta`; 0.1 is a good value.
    pub fn new(method: M, exact: &'o dyn Operator<E>, delta: f64) -> Self {
        ReliableUpdates { method, exact, updates: Updates::new(delta, Plain) }
    }
}

impl<M: Updatable<E>, E: Scalar> Method<E> for ReliableUpdates<'_, M, E> {
    fn name(&self) -> String {
        format!("reliable {}", self.method.name())
    }

    fn prepare<'r>(&'r self, setting: Setting<'r, E>) -> Result<Box<dyn Correction<E> + 'r>, Error> {
        self.method.prepare_with(setting, Reliable::new(setting, self.exact, &self.updates)?)
    }
}

impl<E: Scalar> Reliable<'_, E> {
    /// Bytes of its vectors.
    pub fn kept(&self) -> Kept {
        Kept::vectors::<E>(self.begun.space(), 2)
    }
}
