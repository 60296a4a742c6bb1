//! Conjugate gradients in the space that all shifts share.

use crate::beta::Beta;
use crate::buffer::Buffer;
use crate::error::Error;
use crate::executor::Executor;
use crate::inner_solver::{MemoryUse, Setting};
use crate::iteration::{Recorded, steps_per_graph};
use crate::numbers::{Numbers, NumbersHandle};
use crate::operator::apply_to;
use crate::reliable::{Estimated, Projected, Reliable};
use crate::scalar::Scalar;
use crate::steps::{Steps, Sums};
use crate::vector::MultiVector;
use crate::vector_task::{minus, plus};

/// The method's scalars, all of them real, and then those of each shift.
const RHO: usize = 0;
const ALPHA: usize = 1;
const BETA: usize = 2;
/// Factor of the residual in the next direction of the smallest shift, and coefficient of its
/// projection; 1 if the residual was replaced.
const OF_R: usize = 3;
const PROJECTION: usize = 4;
const IS_NEW: usize = 5;
const OF_SHIFTS: usize = 6;

/// Numbers of one shift.
#[derive(Clone, Copy)]
struct Shift(usize);

impl Shift {
    const NUMBERS: usize = 8;

    /// Returns the numbers of shift `k`.
    fn new(k: usize) -> Shift {
        Shift(OF_SHIFTS + k * Self::NUMBERS)
    }

    /// Returns the index of its residual relative to that of the smallest shift.
    fn zeta(self) -> usize {
        self.0
    }

    /// Returns the index of the factor of `zeta` in the last step.
    fn ratio(self) -> usize {
        self.0 + 1
    }

    fn alpha(self) -> usize {
        self.0 + 2
    }

    fn beta(self) -> usize {
        self.0 + 3
    }

    /// Returns the index of a number that is 1 if nothing is left to do.
    fn done(self) -> usize {
        self.0 + 4
    }

    /// Returns the index of the factor of the residual in the next direction.
    fn of_r(self) -> usize {
        self.0 + 5
    }

    /// Returns the index of the projection coefficient, relative to the residual, after a
    /// replacement.
    fn projection(self) -> usize {
        self.0 + 6
    }

    /// Returns the index of the number of steps in which it was not done.
    fn taken(self) -> usize {
        self.0 + 7
    }
}

/// Sums of products: `p . A p` or `r . r`, `r` times its change, `p . p`, `A p . A p`, `r . p`, and
/// `r` times each direction.
const PQ: usize = 0;
const RR: usize = 0;
const CHANGE: usize = 1;
const PP: usize = 2;
const QQ: usize = 3;
const RP: usize = 4;
const R_EACH: usize = 5;

/// The space that all shifts share.
pub(super) struct SharedSpace<'r, E: Scalar> {
    pub(super) method: Recorded<'r, E>,
    /// The solution of each shift.
    pub(super) solutions: Vec<MultiVector<E>>,
    /// The next direction of the smallest shift.
    pub(super) direction: MultiVector<E>,
}

impl<'r, E: Scalar> SharedSpace<'r, E> {
    /// Records the method for the smallest shift, number `least`, and others that are `above` it.
    pub(super) fn new(
        setting: Setting<'r, E>,
        (above, least): (&[f64], usize),
        goals: &[f64],
        reliable: Option<&Reliable<'_, E>>,
    ) -> Result<Self, Error> {
        let (rt, space) = (setting.rt, setting.space());
        let state = ShiftedState::new(setting, above.len(), reliable);
        let numbers = NumbersHandle::new(rt, 1, OF_SHIFTS + above.len() * Shift::NUMBERS);
        let sums = Sums::new(rt, space, 1, R_EACH + above.len());
        let record = |body: &dyn Fn(&ShiftedStep<'_, E>) -> Result<(), Error>| {
            rt.record(|graph| {
                let steps = Steps::new(rt, graph, space, &numbers).with_sums(&sums);
                body(&ShiftedStep { steps, state: &state, above, goals, least, reliable })
            })
        };
        let begin = record(&|step| step.begin())?;
        let depth = reliable.map_or(1, Reliable::buffer);
        let per_graph = steps_per_graph::<E>(rt, space, false).next_multiple_of(depth);
        let steps = record(&|step| {
            (0..per_graph).try_for_each(|k| {
                apply_to(&step.steps, setting.a, &state.p, &state.q, Some(PQ))?;
                step.descend(k)?;
                step.direct(k)
            })
        })?;
        // This column is running for any state of the method.
        let open = NumbersHandle::new(rt, 1, 0);
        let finish = || record(&|step| step.flush(&step.steps.by(&open), depth - 1));
        let finish = state.buffer.is_some().then(finish).transpose()?;
        let method = Recorded {
            rt,
            residual: state.begun,
            correction: state.x[least].clone(),
            numbers,
            replacements: reliable.map(Reliable::counter),
            begin,
            steps,
            per_graph,
            finish,
            memory: MemoryUse::vectors::<E>(space, 3 + (1 + depth) * above.len()),
        };
        Ok(SharedSpace { method, solutions: state.x, direction: state.p })
    }

    /// Returns whether every shift but the smallest one, number `least`, is done.
    pub(super) fn others_are_done(&self, rt: &dyn Executor, least: usize) -> Result<bool, Error> {
        let others = || (0..self.solutions.len()).filter(|k| *k != least).map(Shift::new);
        let are_done = |numbers: Numbers<E, &[f64]>| others().all(|shift| numbers.value(shift.done()) == 1.0);
        Ok(self.method.numbers.look(rt, |_, numbers| are_done(numbers))?.remove(0))
    }

    /// Returns the number of steps that each shift took part in.
    pub(super) fn taken(&self, rt: &dyn Executor) -> Result<Vec<usize>, Error> {
        let taken = |numbers: Numbers<E, &[f64]>| {
            let shifts = (0..self.solutions.len()).map(Shift::new);
            shifts.map(|shift| numbers.value(shift.taken()) as usize).collect()
        };
        Ok(self.method.numbers.look(rt, |_, numbers| taken(numbers))?.remove(0))
    }
}

/// The residual, the direction of the smallest shift and its product; the direction and the
/// solution of each.
struct ShiftedState<E: Scalar> {
    /// The residual that the steps begin with.
    begun: MultiVector<E>,
    r: MultiVector<E>,
    p: MultiVector<E>,
    q: MultiVector<E>,
    /// Directions of each shift; with a buffer also those of the previous steps, in order.
    each: Vec<Vec<MultiVector<E>>>,
    x: Vec<MultiVector<E>>,
    buffer: Option<Buffer<E>>,
    beta: Beta<E>,
}

impl<E: Scalar> ShiftedState<E> {
    fn new(setting: Setting<'_, E>, shifts: usize, reliable: Option<&Reliable<'_, E>>) -> Self {
        let stored =
            || reliable.map_or_else(|| setting.zeros(), |reliable| setting.stored(reliable.storage()));
        let (r, depth) = (stored(), reliable.map_or(1, Reliable::buffer));
        ShiftedState {
            begun: reliable.map_or_else(|| r.clone(), |reliable| reliable.residual().clone()),
            p: stored(),
            q: stored(),
            each: (0..shifts).map(|_| (0..depth).map(|_| stored()).collect()).collect(),
            x: (0..shifts).map(|_| setting.zeros()).collect(),
            buffer: Buffer::new(setting, depth, shifts),
            beta: match reliable {
                Some(_) => Beta::PolakRibiere { old: None, change: CHANGE, is_new: Some(IS_NEW) },
                None => Beta::Usual,
            },
            r,
        }
    }

    /// Returns the directions of step `k`.
    fn directions(&self, k: usize) -> impl Iterator<Item = &MultiVector<E>> {
        self.each.iter().map(move |each| &each[k % each.len()])
    }
}

/// Data that graphs are recorded from.
struct ShiftedStep<'g, E: Scalar> {
    steps: Steps<'g, E>,
    state: &'g ShiftedState<E>,
    above: &'g [f64],
    /// Required residual of each shift.
    goals: &'g [f64],
    /// The smallest shift.
    least: usize,
    reliable: Option<&'g Reliable<'g, E>>,
}

impl<E: Scalar> ShiftedStep<'_, E> {
    /// Records the start: every direction is the residual.
    fn begin(&self) -> Result<(), Error> {
        let (v, steps) = (self.state, &self.steps);
        self.reliable.map_or(Ok(()), |reliable| reliable.set_residual(steps, &v.r))?;
        for (directions, x) in v.each.iter().zip(&v.x) {
            let task = steps.task("multishift.begin").copy(&directions[0], &v.r).assign(x, []);
            directions[1..].iter().fold(task, |task, other| task.assign(other, [])).submit()?;
        }
        steps.task("multishift.begin").copy(&v.p, &v.r).dot(&v.begun, &v.begun, RR).submit()?;
        steps.formulas("multishift.rho", |f| {
            let (one, rho) = (f.constant(1.0), f.real_sum(RR));
            [(RHO, rho), (ALPHA, one), (BETA, f.constant(0.0)), (OF_R, one)]
                .into_iter()
                .for_each(|(at, value)| f.set(at, value));
            for shift in (0..v.each.len()).map(Shift::new) {
                f.set(shift.zeta(), one);
                f.set(shift.ratio(), one);
            }
            f.first_residual(rho.sqrt());
        })?;
        v.buffer.as_ref().map_or(Ok(()), |buffer| buffer.begin(steps))?;
        self.reliable.map_or(Ok(()), |reliable| reliable.begin(steps, RR))
    }

    /// Records the steps after `q = A p`: `alpha = rho / p . q`, `r -= alpha q`, and each shift's
    /// `alpha`:
    ///
    /// ```text
    /// zeta' / zeta = 1 / (1 + sigma alpha + (alpha beta_old / alpha_old) (1 - zeta / zeta_old))
    /// alpha_sigma = alpha zeta' / zeta
    /// ```
    ///
    /// (Jegerlehner 1996, equation 2.43, for the step lengths and with the sign of conjugate
    /// gradients.)
    fn descend(&self, k: usize) -> Result<(), Error> {
        let (v, steps) = (self.state, &self.steps);
        steps.formulas("multishift.alpha", |f| {
            let curvature = f.real_sum(PQ);
            f.end_unless_positive(curvature);
            let (old, alpha) = (f.real(ALPHA), f.real(RHO) / curvature);
            f.set(ALPHA, alpha);
            let (one, carried) = (f.constant(1.0), alpha * f.real(BETA) / old);
            for (k, sigma) in self.above.iter().enumerate() {
                let shift = Shift::new(k);
                let kept = carried * (one - f.real(shift.ratio()));
                let ratio = one / (one + f.constant(*sigma) * alpha + kept);
                f.set(shift.ratio(), ratio);
                f.set(shift.alpha(), alpha * ratio);
                f.set(shift.zeta(), f.real(shift.zeta()) * ratio);
            }
        })?;
        let task = steps.task("multishift.descend").add(&v.r, minus(ALPHA, &v.q)).dot(&v.r, &v.r, RR);
        let task = v.beta.add_change(task, &v.r);
        match self.reliable {
            None => task.submit(),
            Some(reliable) => {
                let estimated = Estimated { pp: PP, qq: QQ, alpha: ALPHA };
                reliable.add_estimate(task, [&v.p, &v.q], estimated).submit()?;
                self.advance(k)?;
                let vectors = [&v.x[self.least], &v.r];
                reliable.replace_if_due(steps, vectors, RR, Some(estimated), |open| self.flush(open, k))?;
                self.project(reliable, k)
            }
        }
    }

    /// Records `x += alpha p` for each shift, or that this is due later.
    fn advance(&self, k: usize) -> Result<(), Error> {
        let (v, steps) = (self.state, &self.steps);
        let shifts = (0..v.x.len()).map(Shift::new);
        if let Some(buffer) = &v.buffer {
            let alphas = shifts.map(|shift| (shift.alpha(), Some(shift.done()))).collect();
            return buffer.keep(steps, k, alphas);
        }
        for (shift, (x, p)) in shifts.zip(v.x.iter().zip(v.directions(k))) {
            let task = steps.task("multishift.advance").unless(shift.done());
            task.add(x, plus(shift.alpha(), p)).submit()?;
        }
        Ok(())
    }

    /// Records the projections of all directions on a residual that was replaced.
    fn project(&self, reliable: &Reliable<'_, E>, k: usize) -> Result<(), Error> {
        let v = self.state;
        let each = v.directions(k).enumerate().map(|(i, p)| {
            let number = Shift::new(i).projection();
            Projected { p, sum: R_EACH + i, number }
        });
        let least = Projected { p: &v.p, sum: RP, number: PROJECTION };
        let all: Vec<_> = std::iter::once(least).chain(each).collect();
        reliable.project(&self.steps, (&v.r, RR), IS_NEW, &all)
    }

    /// Records that buffered directions are added, for columns that are not done by the numbers of
    /// `open`.
    fn flush(&self, open: &Steps<'_, E>, k: usize) -> Result<(), Error> {
        let Some(buffer) = &self.state.buffer else { return Ok(()) };
        let solutions = self.state.x.iter().zip(self.state.each.iter().map(Vec::as_slice));
        buffer.flush(open, k, solutions)
    }

    /// Records `beta = rho' / rho`, `p = r + beta p`; for each shift `x += alpha p`, `beta_sigma =
    /// beta (zeta' / zeta)^2`, `p = zeta' r + beta p`. With updates `beta` is by the formula of
    /// Polak and Ribière, and each direction is first made orthogonal to a residual that was
    /// replaced.
    fn direct(&self, k: usize) -> Result<(), Error> {
        let (v, steps, is_reliable) = (self.state, &self.steps, self.reliable.is_some());
        let shifts = v.x.len();
        steps.formulas("multishift.beta", |f| {
            let rho = f.real_sum(RR);
            let beta = v.beta.numerator(f, rho) / f.real(RHO);
            f.set(BETA, beta);
            f.set(RHO, rho);
            if is_reliable {
                f.set(OF_R, f.constant(1.0) - f.number(BETA) * f.number(PROJECTION));
            }
            for shift in (0..shifts).map(Shift::new) {
                let ratio = f.real(shift.ratio());
                let beta = beta * ratio * ratio;
                f.set(shift.beta(), beta);
                let zeta = f.number(shift.zeta());
                let of_r = if is_reliable {
                    zeta - f.number(shift.beta()) * f.number(shift.projection())
                } else {
                    zeta
                };
                f.set(shift.of_r(), of_r);
            }
        })?;
        let directions = v.directions(k).zip(v.directions(k + 1));
        for (shift, (x, (p, next))) in (0..shifts).map(Shift::new).zip(v.x.iter().zip(directions)) {
            let task = steps.task("multishift.direct").unless(shift.done());
            let task = if is_reliable { task } else { task.add(x, plus(shift.alpha(), p)) };
            task.assign(next, [plus(shift.of_r(), &v.r), plus(shift.beta(), p)]).submit()?;
        }
        steps.task("multishift.base").assign(&v.p, [plus(OF_R, &v.r), plus(BETA, &v.p)]).submit()?;
        steps.formulas("multishift.step", |f| {
            let (norm, one) = (f.real_sum(RR).sqrt(), f.constant(1.0));
            // 0 once every shift but the smallest one is done.
            let mut left = f.constant(0.0);
            for (k, goal) in self.goals.iter().enumerate() {
                let shift = Shift::new(k);
                let (done, taken) = (f.real(shift.done()), f.real(shift.taken()));
                f.set(shift.taken(), taken + one - done);
                let is_reached = (f.real(shift.zeta()).abs() * norm).at_most(f.constant(*goal));
                let done = is_reached.select([one, done]);
                f.set(shift.done(), done);
                if k != self.least {
                    left = left + (one - done);
                }
            }
            f.step(norm);
            if is_reliable && shifts > 1 {
                f.end_unless_positive(left);
            }
        })
    }
}
