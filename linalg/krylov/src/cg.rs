//! Conjugate gradients.

use crate::accumulator::Accumulator;
use crate::beta::Beta;
use crate::error::Error;
use crate::inner_solver::{InnerSolver, MemoryUse, Method, Setting};
use crate::iteration::{Recorded, steps_per_graph};
use crate::numbers::NumbersHandle;
use crate::operator::{apply_to, check_fixed};
use crate::reliable::{Estimated, Projected, Reliable, Updatable};
use crate::scalar::Scalar;
use crate::steps::{Steps, Sums};
use crate::vector::MultiVector;
use crate::vector_task::{VectorTask, minus, plus, times};

/// Conjugate gradients (Hestenes and Stiefel 1952), for Hermitian positive definite operators. The
/// flexible variant (Notay 2000, with the formula of Polak and Ribière, or the usual one if that
/// is negative) is for preconditioners that change from step to step, and for inexact products.
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

    fn prepare<'r>(&'r self, setting: Setting<'r, E>) -> Result<Box<dyn InnerSolver<E> + 'r>, Error> {
        self.prepared(setting, None, None)
    }
}

impl<E: Scalar> Updatable<E> for Cg {
    fn prepare_with<'r>(
        &self,
        setting: Setting<'r, E>,
        reliable: Reliable<'_, E>,
    ) -> Result<Box<dyn InnerSolver<E> + 'r>, Error> {
        self.prepared(setting, Some(&reliable), None)
    }
}

/// Flexible conjugate gradients that begin with the next direction of earlier steps on the same
/// residual, so that these steps' Krylov space is kept (Clark et al. 2022, section 3.2). The
/// direction is used up by the first solve; further ones begin with the residual.
pub(crate) struct ContinuedCg<'d, E: Scalar> {
    pub direction: &'d MultiVector<E>,
}

impl<E: Scalar> Method<E> for ContinuedCg<'_, E> {
    fn name(&self) -> String {
        Method::<E>::name(&Cg { flexible: true })
    }

    fn prepare<'r>(&'r self, setting: Setting<'r, E>) -> Result<Box<dyn InnerSolver<E> + 'r>, Error> {
        Cg { flexible: true }.prepared(setting, None, Some(self.direction))
    }
}

impl<E: Scalar> Updatable<E> for ContinuedCg<'_, E> {
    fn prepare_with<'r>(
        &self,
        setting: Setting<'r, E>,
        reliable: Reliable<'_, E>,
    ) -> Result<Box<dyn InnerSolver<E> + 'r>, Error> {
        Cg { flexible: true }.prepared(setting, Some(&reliable), Some(self.direction))
    }
}

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

/// Vectors of the method, and its variants.
struct CgState<E: Scalar> {
    /// The residual that a solve begins with.
    begun: MultiVector<E>,
    r: MultiVector<E>,
    /// `M^-1 r`; the residual itself without a preconditioner.
    z: MultiVector<E>,
    /// The direction, and, with a buffer, those before it, one after the other.
    p: Vec<MultiVector<E>>,
    q: MultiVector<E>,
    d: Accumulator<E>,
    beta: Beta<E>,
}

impl Cg {
    /// Prepares the method for a system, with or without residual replacements and a direction to
    /// begin with.
    fn prepared<'r, E: Scalar>(
        &self,
        setting: Setting<'r, E>,
        reliable: Option<&Reliable<'_, E>>,
        direction: Option<&MultiVector<E>>,
    ) -> Result<Box<dyn InnerSolver<E> + 'r>, Error> {
        let Setting { rt, m, columns, .. } = setting;
        if !self.flexible {
            check_fixed(m, "cg", "fcg")?;
        }
        let space = setting.space();
        let state = self.state(setting, reliable);
        let (depth, numbers) = (state.p.len(), NumbersHandle::new(rt, columns, OWN));
        let sums = Sums::new(rt, space, columns, SUMS);
        let record = |body: &dyn Fn(&CgStep<'_, E>) -> Result<(), Error>| {
            rt.record(|graph| {
                let steps = Steps::new(rt, graph, space, &numbers).with_sums(&sums);
                body(&CgStep { steps, setting, state: &state, reliable })
            })
        };
        let begin = record(&|step| step.begin(direction))?;
        let per_graph = steps_per_graph::<E>(rt, space, m.is_some()).next_multiple_of(depth);
        let steps = record(&|step| (0..per_graph).try_for_each(|k| step.step(k)))?;
        // These columns are running for any state of the method.
        let open = NumbersHandle::new(rt, columns, 0);
        let finish = || record(&|step| state.d.flush(&step.steps.by(&open), depth - 1, &state.p));
        let finish = state.d.is_deferred().then(finish).transpose()?;
        let count = 2 + depth + state.d.vectors();
        let count = count + usize::from(m.is_some()) + usize::from(state.beta.old().is_some());
        let own = reliable.map_or(MemoryUse::default(), Reliable::memory);
        let memory = MemoryUse::vectors::<E>(space, count).and(own);
        let (residual, correction) = (state.begun, state.d.solution().clone());
        let replacements = reliable.map(Reliable::counter);
        Ok(Box::new(Recorded {
            rt,
            residual,
            correction,
            numbers,
            replacements,
            begin,
            steps,
            per_graph,
            finish,
            memory,
        }))
    }

    fn state<E: Scalar>(self, setting: Setting<'_, E>, reliable: Option<&Reliable<'_, E>>) -> CgState<E> {
        let stored =
            || reliable.map_or_else(|| setting.zeros(), |reliable| setting.stored(reliable.storage()));
        let (r, m) = (stored(), setting.m);
        let (old, is_new) = (m.filter(|_| self.flexible).map(|_| stored()), reliable.map(|_| IS_NEW));
        CgState {
            begun: reliable.map_or_else(|| r.clone(), |reliable| reliable.residual().clone()),
            z: m.map_or_else(|| r.clone(), |_| stored()),
            p: (0..reliable.map_or(1, Reliable::buffer)).map(|_| stored()).collect(),
            q: stored(),
            d: Accumulator::new(setting, reliable),
            beta: match self.flexible {
                true => Beta::PolakRibiere { old, change: CHANGE, is_new },
                false => Beta::Usual,
            },
            r,
        }
    }
}

/// Data that graphs are recorded from.
struct CgStep<'g, E: Scalar> {
    steps: Steps<'g, E>,
    setting: Setting<'g, E>,
    state: &'g CgState<E>,
    reliable: Option<&'g Reliable<'g, E>>,
}

impl<E: Scalar> CgStep<'_, E> {
    /// Records `d = 0`, `p = z = M^-1 r`, `rho = r . z`. A direction to begin with is added to `p`
    /// after it was made orthogonal to `r`, and is set to zero for later solves.
    fn begin(&self, direction: Option<&MultiVector<E>>) -> Result<(), Error> {
        let CgStep { steps, state: CgState { begun, r, z, p, d, .. }, reliable, .. } = self;
        reliable.map_or(Ok(()), |reliable| reliable.set_residual(steps, r))?;
        self.setting.m.map_or(Ok(()), |m| apply_to(steps, m, r, z, None))?;
        let task = d.begin(steps, steps.task("cg.begin"))?.copy(&p[0], z);
        let task = p[1..].iter().fold(task, |task, other| task.assign(other, []));
        let task = task.dot(begun, begun, RR).dot(r, z, RZ);
        direction.into_iter().fold(task, |task, direction| task.dot(r, direction, RP)).submit()?;
        steps.formulas("cg.rho", |f| {
            f.set(RHO, f.real_sum(RZ));
            let one = f.constant(1.0);
            f.set(OF_Z, direction.map_or(one, |_| one - f.sum(RP) / f.real_sum(RZ)));
            f.first_residual(f.real_sum(RR).sqrt());
            f.end_unless_positive(f.real_sum(RZ));
        })?;
        if let Some(direction) = direction {
            let task = steps.task("cg.continue").assign(&p[0], [plus(OF_Z, z), times(1.0, direction)]);
            task.assign(direction, []).submit()?;
        }
        reliable.map_or(Ok(()), |reliable| reliable.begin(steps, RR))
    }

    /// Records step `k`. These vectors are moved, besides the matrix and the preconditioner:
    ///
    /// ```text
    ///                                 reads  writes
    /// q = A p         p . q             1      1
    /// d += alpha p                      2      1
    /// r -= alpha q    r . r             2      1
    /// z = M^-1 r                        1      1     with a preconditioner
    ///                 r . z             2      0     with a preconditioner
    /// p = z + beta p                    2      1
    /// ```
    ///
    /// Without a preconditioner a step reads 7 vectors and writes 4. Flexible steps with a
    /// preconditioner read 2 more and write 1 more. A buffer of `n` directions moves `d` every `n`
    /// steps.
    fn step(&self, k: usize) -> Result<(), Error> {
        let CgStep { steps, setting, state, reliable } = self;
        let CgState { r, z, q, d, beta, .. } = state;
        let (p, next) = (&state.p[k % state.p.len()], &state.p[(k + 1) % state.p.len()]);
        // q = A p
        apply_to(steps, setting.a, p, q, Some(PQ))?;
        // alpha = rho / p . q
        steps.formulas("cg.alpha", |f| {
            let curvature = f.real_sum(PQ);
            f.set(ALPHA, f.real(RHO) / curvature);
            f.follow(ALPHA, "alpha");
            f.end_unless_positive(curvature);
        })?;
        beta.keep(steps, r)?;
        // d += alpha p
        let task = d.add(steps, steps.task("cg.descend"), k, ALPHA, p)?;
        // r -= alpha q
        let task = task.add(r, minus(ALPHA, q)).dot(r, r, RR);
        self.after_residual(beta.add_change(task, r), k)?;
        // z = M^-1 r
        let rho = if setting.m.is_some() { RZ } else { RR };
        if let Some(m) = setting.m {
            apply_to(steps, m, r, z, None)?;
            beta.add_old(steps.task("cg.rho").dot(r, z, RZ), z).submit()?;
        }
        let projected = [Projected { p, sum: RP, number: PROJECTION }];
        reliable.map_or(Ok(()), |reliable| reliable.project(steps, (r, rho), IS_NEW, &projected))?;
        // beta = r . z / rho
        // rho = r . z
        steps.formulas("cg.beta", |f| {
            let rho = f.real_sum(rho);
            f.set(BETA, beta.numerator(f, rho) / f.real(RHO));
            f.set(RHO, rho);
            f.follow(BETA, "beta");
            if reliable.is_some() {
                f.set(OF_Z, f.constant(1.0) - f.number(BETA) * f.number(PROJECTION));
            }
            f.step(f.real_sum(RR).sqrt());
            f.end_unless_positive(rho);
        })?;
        // p = z + beta p
        steps.task("cg.direct").assign(next, [plus(OF_Z, z), plus(BETA, p)]).submit()
    }

    /// Submits the task that changes the residual. With reliable updates the residual is then
    /// replaced if that is due, and the next direction is made orthogonal to it: `p -= (r . p / r .
    /// z) z` (Clark et al. 2022, section IV).
    fn after_residual(&self, task: VectorTask<'_, '_, E>, k: usize) -> Result<(), Error> {
        let CgStep { steps, state: CgState { r, q, p, d, .. }, .. } = self;
        let Some(reliable) = self.reliable else { return task.submit() };
        let estimated = Estimated { pp: PP, qq: QQ, alpha: ALPHA };
        reliable.add_estimate(task, [&p[k % p.len()], q], estimated).submit()?;
        let vectors = [d.solution(), r];
        reliable.replace_if_due(steps, vectors, RR, Some(estimated), |open| d.flush(open, k, p))
    }
}
