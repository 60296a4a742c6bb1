//! Replacing the residual that a method keeps by the true one, without starting again.

use zellige_runtime::{Runtime, Submit};

use super::grains::dots;
use super::operator::Operator;
use super::scalars::{Scalars, State};
use super::steps::{ScalarsHandle, Steps, Sums};
use super::{Cg, Correction, Method, Preconditioner};
use crate::error::Error;
use crate::space::{Space, Vector};

/// Reliable updates, a part of a method that multiplies with a narrower operator than the residual is meant for: `r` becomes `r_0 - A d` with the exact one
/// where it has become smaller than `delta` times the largest since the last time (Sleijpen and van der Vorst 1996; van der
/// Vorst and Ye 2000), and where it seems to be small enough; search directions are kept.
///
/// The steps that replace are in every step's graph. Their tasks go by numbers of their own, the gate, that say "done" in all other steps.
pub struct Reliable<'e> {
    exact: &'e dyn Operator,
    delta: f64,
    gate: ScalarsHandle,
    begun: Vector,
    product: Vector,
}

/// The gate's numbers: the largest residual since the last replacement, and how often a residual seemed to be small enough.
const LARGEST: usize = 0;
const CLAIMS: usize = 1;
/// Claims that were wrong so often will not become right: the method ends, and whoever called it sees the true residual.
const MOST_CLAIMS: f64 = 4.0;
/// A true residual that is larger than the one it replaces by more than this ends the run: another begins with it.
const MOST_JUMP: f64 = 2.0;

impl<'e> Reliable<'e> {
    /// Vectors of its own.
    pub(super) const VECTORS: usize = 2;

    /// Of an operator whose residuals count; `delta` is between 0 and 1, and 0.1 will do.
    ///
    /// # Errors
    /// [`Error::Parameter`] for another `delta`.
    pub fn new(
        rt: &Runtime,
        space: &Space,
        exact: &'e dyn Operator,
        delta: f64,
    ) -> Result<Reliable<'e>, Error> {
        if !(delta > 0.0 && delta < 1.0) {
            return Err(Error::parameter("delta", format!("{delta}: a number between 0 and 1 is needed")));
        }
        let gate = rt.register(Scalars::zeros(2));
        Ok(Reliable { exact, delta, gate, begun: space.zeros(rt), product: space.zeros(rt) })
    }

    /// Records, at the beginning of a run, that its residual `r` is remembered; `r . r` is sum `at` of those that were just made.
    ///
    /// # Errors
    /// Those of submission.
    pub fn begin(&self, steps: &Steps<'_>, r: &Vector, sums: &Sums, at: usize) -> Result<(), Error> {
        steps.each(
            "reliable.begin",
            |i| (r.read(i), self.begun.update(i)),
            |(r, begun)| begun.copy_from_slice(&r),
        )?;
        steps.decide("reliable.largest", sums, &self.gate, move |sums, _, gate| {
            gate.begin(0.0, 0);
            gate[LARGEST] = sums[at].sqrt();
            gate.end(State::Limited);
        })
    }

    /// Records, in a step and after `d` and `r` are new, that `r` is replaced where that is due. `r . r` is sum `at` of `width`, and is made again.
    ///
    /// # Errors
    /// Those of submission.
    pub fn replace(
        &self,
        steps: &Steps<'_>,
        d: &Vector,
        r: &Vector,
        sums: &Sums,
        [width, at]: [usize; 2],
    ) -> Result<(), Error> {
        let delta = self.delta;
        steps.decide("reliable.decide", sums, &self.gate, move |sums, solver, gate| {
            let norm = sums[at].sqrt();
            let is_claim = solver.is_reached(norm);
            let is_due = is_claim || norm < delta * gate[LARGEST];
            gate[LARGEST] = if is_due { norm } else { gate[LARGEST].max(norm) };
            if is_due && gate[CLAIMS] < MOST_CLAIMS && !solver.is_done() {
                gate[CLAIMS] += f64::from(u8::from(is_claim));
                gate.go_on();
            } else {
                gate.end(State::Limited);
            }
        })?;
        let gated = Steps::new(steps.graph(), steps.space(), &self.gate);
        self.exact.apply(&gated, d, &self.product)?;
        gated.each(
            "reliable.replace",
            |i| (gated.scalars(), r.update(i), self.begun.read(i), self.product.read(i), sums.of(i)),
            move |(gate, r, begun, product, sums)| {
                if !Scalars::new(gate).is_done() {
                    r.iter_mut()
                        .zip(begun.iter().zip(&*product))
                        .for_each(|(r, (b, product))| *r = b - product);
                    dots(r, r, sums, width, at);
                }
            },
        )?;
        // Directions that belong to a residual that is far from the true one are worth nothing.
        gated.decide("reliable.judge", sums, steps.numbers(), move |sums, gate, solver| {
            let norm = sums[at].sqrt();
            if !gate.is_done() && !solver.is_done() && norm > MOST_JUMP * gate[LARGEST] {
                solver.step(norm);
                if !solver.is_done() {
                    solver.end(State::Limited);
                }
            }
        })
    }
}

/// Conjugate gradients with [`Reliable`] updates: products with the problem's inner operator, which may be narrow, residuals of an exact one.
#[derive(Clone, Copy)]
pub struct ReliableCg<'o> {
    /// How steps are made; flexible ones gain more where the inner operator is very narrow.
    pub cg: Cg,
    /// The operator whose residuals count.
    pub exact: &'o dyn Operator,
    /// The reduction after which the residual is replaced, between 0 and 1.
    pub delta: f64,
}

impl Method for ReliableCg<'_> {
    fn name(&self) -> String {
        format!("reliable {}", self.cg.name())
    }

    fn prepare<'r>(
        &'r self,
        rt: &'r Runtime,
        space: &'r Space,
        a: &'r dyn Operator,
        m: Option<&'r dyn Preconditioner>,
    ) -> Result<Box<dyn Correction + 'r>, Error> {
        let reliable = Reliable::new(rt, space, self.exact, self.delta)?;
        self.cg.prepared(rt, space, a, m, Some(&reliable))
    }
}
