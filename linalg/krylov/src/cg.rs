//! Conjugate gradients.

use crate::buffer::Buffer;
use crate::error::Error;
use crate::method::rounds::{Recorded, steps_per_graph};
use crate::numbers::NumbersHandle;
use crate::operator::{apply_to, check_fixed};
use crate::reliable::{Estimated, Reliable, Updatable};
use crate::scalar::Scalar;
use crate::steps::{Steps, Sums};
use crate::vector::MultiVector;
use crate::vector_task::{minus, plus, times};
use crate::{Correction, Kept, Method, Setting};

/// The method's scalars.
const RHO: usize = 0;
const ALPHA: usize = 1;
const BETA: usize = 2;
/// Coefficient of the projection that is subtracted from the direction after a residual
/// replacement, relative to `z`; the factor of `z`; 1 if the residual was replaced.
const PROJECTION: usize = 3;
const OF_Z: usize = 4;
const IS_NEW: usize = 5;
const OWN: usize = 6;

/// Sums of products: `p . A p` or `r . r`, `r . z`, the change of `r` times `z`, `r . p`, `p . p`,
/// `A p . A p`.
const RR: usize = 0;
const PQ: usize = 0;
const RZ: usize = 1;
const CHANGE: usize = 2;
const RP: usize = 3;
const PP: usize = 4;
const QQ: usize = 5;
const SUMS: usize = 6;

/// Conjugate gradients (Hestenes and Stiefel 1952), for Hermitian positive definite operators. The
/// flexible variant (Notay 2000, with the formula of Polak and Ribière, or the usual one if that
/// is negative) is for preconditioners that change from step to step, and for inexact products.
///
/// A step without a preconditioner reads 8 vectors and writes 3, besides the operands of the
/// product: `p` to `q` (2); `d += alpha p`, `r -= alpha q` (6); `p = r + beta p` (3).
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{Cg, Solve, Stop, solve};
///
/// // `a` has 1, 2, ... 50 on its diagonal and nothing else.
/// let mut x = vec![0.0; 50];
/// let flexible = Cg { flexible: true };
/// let found = solve(&Solve::new(&rt, &a), &flexible, &[1.0; 50], &mut x, &Stop::RelativeToRhs(1e-10), &mut ())?;
/// assert!(found.reason.is_converged() && (x[4] - 0.2).abs() < 1e-9);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Cg {
    /// True for the flexible variant, for preconditioners that change: one more vector and inner
    /// product per step.
    pub flexible: bool,
}

impl<E: Scalar> Method<E> for Cg {
    fn name(&self) -> String {
        if self.flexible { "fcg" } else { "cg" }.to_owned()
    }

    fn prepare<'r>(&'r self, setting: Setting<'r, E>) -> Result<Box<dyn Correction<E> + 'r>, Error> {
        self.prepared(setting, None)
    }
}

impl<E: Scalar> Updatable<E> for Cg {
    fn prepare_with<'r>(
        &self,
        setting: Setting<'r, E>,
        reliable: Reliable<'_, E>,
    ) -> Result<Box<dyn Correction<E> + 'r>, Error> {
        self.prepared(setting, Some(reliable))
    }
}

impl Cg {
    /// Prepares the method for a system, with or without residual replacements.
    fn prepared<'r, E: Scalar>(
        &self,
        setting: Setting<'r, E>,
        reliable: Option<Reliable<'_, E>>,
    ) -> Result<Box<dyn Correction<E> + 'r>, Error> {
        if !self.flexible {
            check_fixed(setting.m, "cg", "fcg")?;
        }
        Ok(Box::new(self.recorded(setting, reliable.as_ref())?))
    }
}

struct Vectors<E: Scalar> {
    /// The residual that a run begins with.
    begun: MultiVector<E>,
    r: MultiVector<E>,
    /// The residual of the previous step (flexible, with a preconditioner).
    r_old: Option<MultiVector<E>>,
    /// `M^-1 r`; the residual itself without a preconditioner.
    z: MultiVector<E>,
    /// The direction, and, with a buffer, those before it, one after the other.
    p: Vec<MultiVector<E>>,
    q: MultiVector<E>,
    d: MultiVector<E>,
    /// The part of `d` since the last replacement, if it is not accumulated in float64.
    part: Option<MultiVector<E>>,
}

impl<E: Scalar> Vectors<E> {
    /// Returns the direction of step `k`.
    fn p(&self, k: usize) -> &MultiVector<E> {
        &self.p[k % self.p.len()]
    }

    /// Returns the vector that directions are added to.
    fn solution(&self) -> &MultiVector<E> {
        self.part.as_ref().unwrap_or(&self.d)
    }
}

impl Cg {
    fn recorded<'r, E: Scalar>(
        self,
        setting: Setting<'r, E>,
        reliable: Option<&Reliable<'_, E>>,
    ) -> Result<Recorded<'r, E>, Error> {
        let Setting { rt, m, columns, .. } = setting;
        let space = setting.space();
        let stored =
            || reliable.map_or_else(|| setting.zeros(), |reliable| setting.stored(reliable.storage()));
        let r = stored();
        let has_part = reliable.is_some_and(|reliable| !reliable.stabilisation().wide_solution);
        let depth = reliable.map_or(1, Reliable::buffer);
        let buffer = Buffer::new(setting, depth, 1);
        let v = Vectors {
            begun: reliable.map_or_else(|| r.clone(), |reliable| reliable.residual().clone()),
            r_old: (self.flexible && m.is_some()).then(stored),
            z: m.map_or_else(|| r.clone(), |_| stored()),
            p: (0..depth).map(|_| stored()).collect(),
            q: stored(),
            d: setting.zeros(),
            part: has_part.then(stored),
            r,
        };
        let numbers = NumbersHandle::new(rt, columns, OWN);
        let sums = Sums::new(rt, space, columns, SUMS);
        let record = |body: &dyn Fn(&Step<'_, E>) -> Result<(), Error>| {
            rt.record(|graph| {
                let steps = Steps::new(rt, graph, space, &numbers).with_sums(&sums);
                let (v, buffer, is_flexible) = (&v, buffer.as_ref(), self.flexible);
                body(&Step { steps, v, setting, reliable, buffer, is_flexible })
            })
        };
        let begin = record(&|step| step.begin())?;
        let per_graph = steps_per_graph(rt, space, m.is_some()).next_multiple_of(depth);
        let steps = record(&|step| {
            (0..per_graph).try_for_each(|k| {
                step.descend(k)?;
                step.direct(k)
            })
        })?;
        let open = NumbersHandle::new(rt, columns, 0);
        let finish = || record(&|step| Step { steps: step.steps.by(&open), ..*step }.finish());
        let finish = (has_part || buffer.is_some()).then(finish).transpose()?;
        let has = [v.r_old.is_some(), m.is_some(), has_part];
        let count = 3 + depth + has.into_iter().filter(|has| *has).count();
        let own = reliable.map_or(Kept::default(), Reliable::kept);
        let kept = Kept::vectors::<E>(space, count).and(own);
        let (residual, correction) = (v.begun.clone(), v.d.clone());
        let gate = reliable.map(|reliable| reliable.gate().clone());
        Ok(Recorded { rt, residual, correction, numbers, gate, begin, steps, per_graph, finish, kept })
    }
}

/// Data that graphs are recorded from.
struct Step<'g, E: Scalar> {
    steps: Steps<'g, E>,
    v: &'g Vectors<E>,
    setting: Setting<'g, E>,
    reliable: Option<&'g Reliable<'g, E>>,
    buffer: Option<&'g Buffer<E>>,
    is_flexible: bool,
}

impl<E: Scalar> Step<'_, E> {
    /// Records `d = 0`, `p = z = M^-1 r`, `rho = r . z`.
    fn begin(&self) -> Result<(), Error> {
        let (v, steps) = (self.v, &self.steps);
        if self.reliable.is_some() {
            steps.task("cg.residual").copy(&v.r, &v.begun).submit()?;
        }
        self.setting.m.map_or(Ok(()), |m| apply_to(steps, m, &v.r, &v.z, None))?;
        let mut task = steps.task("cg.begin").assign(&v.d, []).copy(v.p(0), &v.z);
        for other in v.p[1..].iter().chain(&v.part) {
            task = task.assign(other, []);
        }
        task.dot(&v.begun, &v.begun, RR).dot(&v.r, &v.z, RZ).submit()?;
        steps.formulas("cg.rho", |f| {
            f.set(RHO, f.real_sum(RZ));
            f.set(OF_Z, f.constant(1.0));
            f.first_residual(f.real_sum(RR).sqrt());
            f.end_unless_positive(f.real_sum(RZ));
        })?;
        self.buffer.map_or(Ok(()), |buffer| buffer.begin(steps))?;
        self.reliable.map_or(Ok(()), |reliable| reliable.begin(steps, RR))
    }

    /// Records the first half of step `k`: `q = A p`, `alpha = rho / p . q`, `d += alpha p`, `r -=
    /// alpha q`.
    fn descend(&self, k: usize) -> Result<(), Error> {
        let (v, steps, p) = (self.v, &self.steps, self.v.p(k));
        apply_to(steps, self.setting.a, p, &v.q, Some(PQ))?;
        steps.formulas("cg.alpha", |f| {
            let curvature = f.real_sum(PQ);
            f.set(ALPHA, f.real(RHO) / curvature);
            f.end_unless_positive(curvature);
        })?;
        if let Some(old) = &v.r_old {
            steps.task("cg.keep").copy(old, &v.r).submit()?;
        }
        let mut task = steps.task("cg.descend");
        match self.buffer {
            None => task = task.add(v.solution(), plus(ALPHA, p)),
            Some(buffer) => buffer.keep(steps, k, vec![(ALPHA, None)])?,
        }
        task = task.add(&v.r, minus(ALPHA, &v.q));
        if self.is_flexible && self.setting.m.is_none() {
            task = task.dot_change(&v.r, CHANGE);
        }
        let Some(reliable) = self.reliable else { return task.dot(&v.r, &v.r, RR).submit() };
        if reliable.needs_estimate() {
            task = task.dot(p, p, PP).dot(&v.q, &v.q, QQ);
        }
        task.dot(&v.r, &v.r, RR).submit()?;
        reliable.decide(steps, RR, Some(Estimated { pp: PP, qq: QQ, alpha: ALPHA }))?;
        let gated = steps.by(reliable.gate());
        if let Some(buffer) = self.buffer {
            buffer.open(&gated)?;
            buffer.add(steps, k, [(v.solution(), &v.p[..])].into_iter())?;
        }
        if let Some(part) = &v.part {
            gated.task("cg.solution").add(&v.d, times(1.0, part)).assign(part, []).submit()?;
        }
        reliable.replace(steps, &v.d, &v.r, RR)
    }

    /// Records the end of a run, after which `d` has the complete correction.
    fn finish(&self) -> Result<(), Error> {
        let (v, steps) = (self.v, &self.steps);
        if let Some(buffer) = self.buffer {
            buffer.open(steps)?;
            buffer.add(steps, v.p.len() - 1, [(v.solution(), &v.p[..])].into_iter())?;
        }
        let Some(part) = &v.part else { return Ok(()) };
        steps.task("cg.finish").add(&v.d, times(1.0, part)).submit()
    }

    /// Records the second half of step `k`, the next direction: `beta = r . z / rho`, `p = z + beta
    /// p`. If the residual was replaced, `p` is made orthogonal to it first: `p -= (r . p / r . z)
    /// z` (Clark et al. 2022, section IV).
    fn direct(&self, k: usize) -> Result<(), Error> {
        let (v, steps) = (self.v, &self.steps);
        let (is_preconditioned, is_flexible) = (self.setting.m.is_some(), self.is_flexible);
        let rho = if is_preconditioned { RZ } else { RR };
        if let Some(m) = self.setting.m {
            apply_to(steps, m, &v.r, &v.z, None)?;
            let task = steps.task("cg.rho").dot(&v.r, &v.z, RZ);
            v.r_old.iter().fold(task, |task, old| task.dot(old, &v.z, CHANGE)).submit()?;
        }
        if let Some(reliable) = self.reliable {
            let gated = steps.by(reliable.gate());
            gated.task("cg.project").dot(&v.r, v.p(k), RP).submit()?;
            let projects = reliable.stabilisation().projection;
            gated.update_numbers_of("cg.projection", steps.numbers(), move |sums, gate, s| {
                let is_new = !gate.is_done();
                s.set_real(IS_NEW, f64::from(u8::from(is_new)));
                s[PROJECTION] = if is_new && projects { sums[RP] / sums[rho] } else { E::default() };
            })?;
        }
        let is_reliable = self.reliable.is_some();
        steps.formulas("cg.beta", |f| {
            let rho = f.real_sum(rho);
            let gained = match (is_flexible, is_preconditioned) {
                (false, _) => rho,
                (true, true) => rho - f.real_sum(CHANGE),
                (true, false) => f.real_sum(CHANGE),
            };
            // The usual formula if that of Polak and Ribière is negative, or the residual was
            // replaced.
            let gained =
                if is_flexible { f.constant(0.0).at_most(gained).select([gained, rho]) } else { rho };
            let is_new = is_flexible && is_reliable;
            let gained = if is_new { f.real(IS_NEW).select([rho, gained]) } else { gained };
            f.set(BETA, gained / f.real(RHO));
            if is_reliable {
                f.set(OF_Z, f.constant(1.0) - f.number(BETA) * f.number(PROJECTION));
            }
            f.set(RHO, rho);
            f.step(f.real_sum(RR).sqrt());
            f.end_unless_positive(rho);
        })?;
        steps.task("cg.direct").assign(v.p(k + 1), [plus(OF_Z, &v.z), plus(BETA, v.p(k))]).submit()
    }
}
