//! Conjugate gradients.

use zellige_runtime::{Graph, Runtime};

use crate::error::Error;
use crate::log::Logger;
use crate::numbers::NumbersHandle;
use crate::operator::check_fixed;
use crate::reliable::Reliable;
use crate::rounds::{self, Ended, Limits};
use crate::scalar::Scalar;
use crate::steps::{Steps, Sums};
use crate::vector::MultiVector;
use crate::vector_task::{minus, plus, times};
use crate::{Correction, Kept, Method, Setting};

/// The method's scalars.
const RHO: usize = 0;
const ALPHA: usize = 1;
const BETA: usize = 2;
const OWN: usize = 3;

/// Sums of products: `p . A p` or `r . r`, `r . z`, `r_old . z`.
const RR: usize = 0;
const PQ: usize = 0;
const RZ: usize = 1;
const OLD_Z: usize = 2;
const SUMS: usize = 3;

/// Conjugate gradients (Hestenes and Stiefel 1952), for Hermitian positive definite operators; flexible (Notay 2000, with the formula of Polak
/// and Ribière) where the preconditioner changes from step to step, or products are inexact.
///
/// A step without a preconditioner reads 8 vectors and writes 3, besides what the product reads: `p` to `q` (2); `d += alpha p`, `r -= alpha q` (6); `p = r +
/// beta p` (3).
#[derive(Clone, Copy, Debug, Default)]
pub struct Cg {
    /// One more vector and inner product per step, for preconditioners that change.
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

impl Cg {
    /// Ready for a system, with residuals that are replaced or not.
    pub(crate) fn prepared<'r, E: Scalar>(
        &self,
        setting: Setting<'r, E>,
        reliable: Option<&Reliable<'_, E>>,
    ) -> Result<Box<dyn Correction<E> + 'r>, Error> {
        if !self.flexible {
            check_fixed(setting.m, "cg", "fcg")?;
        }
        Ok(Box::new(Prepared::new(self, setting, reliable)?))
    }
}

struct Vectors<E: Scalar> {
    /// The residual, and what it was a step before (flexible only).
    r: MultiVector<E>,
    r_old: Option<MultiVector<E>>,
    /// `M^-1 r`; the residual itself without a preconditioner.
    z: MultiVector<E>,
    p: MultiVector<E>,
    q: MultiVector<E>,
    d: MultiVector<E>,
}

struct Prepared<'r, E: Scalar> {
    rt: &'r Runtime,
    vectors: Vectors<E>,
    numbers: NumbersHandle<E>,
    begin: Graph,
    step: Graph,
    kept: Kept,
}

impl<'r, E: Scalar> Prepared<'r, E> {
    fn new(cg: &Cg, setting: Setting<'r, E>, reliable: Option<&Reliable<'_, E>>) -> Result<Self, Error> {
        let Setting { rt, a, m, columns } = setting;
        let (space, zeros) = (setting.space(), || setting.zeros());
        let r = zeros();
        let z = m.map_or_else(|| r.clone(), |_| zeros());
        let r_old = cg.flexible.then(zeros);
        let v = Vectors { r, r_old, z, p: zeros(), q: zeros(), d: zeros() };
        let numbers = NumbersHandle::new(rt, columns, OWN);
        let sums = Sums::new(rt, space, columns, SUMS);
        let begin = rt.record(|graph| {
            let steps = Steps::new(graph, space, &numbers).with_sums(&sums);
            begin(&steps, &v, setting)?;
            reliable.map_or(Ok(()), |reliable| reliable.begin(&steps, &v.r, RR))
        })?;
        let step = rt.record(|graph| {
            let steps = Steps::new(graph, space, &numbers).with_sums(&sums);
            a.apply_dot(&steps, &v.p, &v.q, PQ)?;
            descend(&steps, &v)?;
            reliable.map_or(Ok(()), |reliable| reliable.replace(&steps, &v.d, &v.r, RR))?;
            direct(&steps, &v, setting)
        })?;
        let count = 4 + usize::from(cg.flexible) + usize::from(m.is_some());
        let kept =
            Kept::vectors::<E>(space, count + if reliable.is_some() { Reliable::<E>::VECTORS } else { 0 });
        Ok(Prepared { rt, vectors: v, numbers, begin, step, kept })
    }
}

impl<E: Scalar> Correction<E> for Prepared<'_, E> {
    fn residual(&self) -> &MultiVector<E> {
        &self.vectors.r
    }

    fn correction(&self) -> &MultiVector<E> {
        &self.vectors.d
    }

    fn kept(&self) -> Kept {
        self.kept
    }

    fn run(&mut self, limits: &Limits<'_>, logs: &mut [&mut dyn Logger]) -> Result<Vec<Ended>, Error> {
        rounds::begin(self.rt, &self.begin, &self.numbers, limits)?;
        rounds::run(self.rt, &self.step, &self.numbers, limits, logs)
    }
}

/// `d = 0`, `p = z = M^-1 r`, `rho = r . z`.
fn begin<E: Scalar>(steps: &Steps<'_, E>, v: &Vectors<E>, setting: Setting<'_, E>) -> Result<(), Error> {
    setting.m.map_or(Ok(()), |m| m.apply(steps, &v.r, &v.z))?;
    let first = steps.task("cg.begin").assign(&v.d, []).copy(&v.p, &v.z);
    first.dot(&v.r, &v.r, RR).dot(&v.r, &v.z, RZ).submit()?;
    steps.update_numbers("cg.rho", |sums, s| {
        s.set_real(RHO, sums[RZ].real());
        s.first_residual(sums[RR].real().sqrt());
        s.end_unless_positive(sums[RZ].real());
    })
}

/// The first half of a step, after `q = A p`: `alpha = rho / p . q`, `d += alpha p`, `r -= alpha q`.
fn descend<E: Scalar>(steps: &Steps<'_, E>, v: &Vectors<E>) -> Result<(), Error> {
    steps.update_numbers("cg.alpha", |sums, s| {
        s.set_real(ALPHA, s.real(RHO) / sums[PQ].real());
        s.end_unless_positive(sums[PQ].real());
    })?;
    if let Some(old) = &v.r_old {
        steps.task("cg.keep").copy(old, &v.r).submit()?;
    }
    let task = steps.task("cg.descend").add(&v.d, plus(ALPHA, &v.p)).add(&v.r, minus(ALPHA, &v.q));
    task.dot(&v.r, &v.r, RR).submit()
}

/// The second half of a step, the next direction: `beta = r . z / rho`, `p = z + beta p`.
fn direct<E: Scalar>(steps: &Steps<'_, E>, v: &Vectors<E>, setting: Setting<'_, E>) -> Result<(), Error> {
    let is_preconditioned = setting.m.is_some();
    if let Some(m) = setting.m {
        m.apply(steps, &v.r, &v.z)?;
        steps.task("cg.rho").dot(&v.r, &v.z, RZ).submit()?;
    }
    if let Some(old) = &v.r_old {
        steps.task("cg.change").dot(old, &v.z, OLD_Z).submit()?;
    }
    let is_flexible = v.r_old.is_some();
    steps.update_numbers("cg.beta", move |sums, s| {
        let rho = sums[if is_preconditioned { RZ } else { RR }].real();
        let gained = if is_flexible { rho - sums[OLD_Z].real() } else { rho };
        s.set_real(BETA, gained / s.real(RHO));
        s.set_real(RHO, rho);
        s.step(sums[RR].real().sqrt());
        s.end_unless_positive(rho);
    })?;
    steps.task("cg.direct").assign(&v.p, [times(1.0, &v.z), plus(BETA, &v.p)]).submit()
}
