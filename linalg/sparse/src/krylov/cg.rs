//! Conjugate gradients.

use zellige_runtime::{Graph, Runtime, Submit};

use super::grains::dots;
use super::operator::check_fixed;
use super::reliable::Reliable;
use super::rounds::{self, Ended, Limits};
use super::scalars::Scalars;
use super::steps::{ScalarsHandle, Steps, Sums};
use super::{Correction, Kept, Logger, Method, Operator, Preconditioner};
use crate::error::Error;
use crate::space::{Space, Vector};

/// The solver's own numbers.
const RHO: usize = 0;
const ALPHA: usize = 1;
const BETA: usize = 2;
const OWN: usize = 3;

/// Conjugate gradients (Hestenes and Stiefel 1952), for symmetric positive definite matrices; flexible (Notay 2000, with the formula of Polak
/// and Ribière) where the preconditioner changes from step to step, or products are inexact.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cg {
    /// One more vector and inner product per step, for preconditioners that change.
    pub flexible: bool,
}

impl Method for Cg {
    fn name(&self) -> String {
        if self.flexible { "fcg" } else { "cg" }.to_owned()
    }

    fn prepare<'r>(
        &'r self,
        rt: &'r Runtime,
        space: &'r Space,
        a: &'r dyn Operator,
        m: Option<&'r dyn Preconditioner>,
    ) -> Result<Box<dyn Correction + 'r>, Error> {
        self.prepared(rt, space, a, m, None)
    }
}

impl Cg {
    /// Ready for a system, with residuals that are replaced or not.
    pub(super) fn prepared<'r>(
        &self,
        rt: &'r Runtime,
        space: &Space,
        a: &dyn Operator,
        m: Option<&dyn Preconditioner>,
        reliable: Option<&Reliable<'_>>,
    ) -> Result<Box<dyn Correction + 'r>, Error> {
        if !self.flexible {
            check_fixed(m, "cg", "fcg")?;
        }
        Ok(Box::new(Prepared::new(self, rt, space, a, m, reliable)?))
    }
}

struct Vectors {
    /// The residual, and what it was a step before (flexible only).
    r: Vector,
    r_old: Option<Vector>,
    /// `M^-1 r`; the residual itself without a preconditioner.
    z: Option<Vector>,
    p: Vector,
    q: Vector,
    d: Vector,
}

impl Vectors {
    fn z(&self) -> &Vector {
        self.z.as_ref().unwrap_or(&self.r)
    }
}

struct Prepared<'r> {
    rt: &'r Runtime,
    vectors: Vectors,
    scalars: ScalarsHandle,
    begin: Graph,
    step: Graph,
    kept: Kept,
}

impl<'r> Prepared<'r> {
    fn new(
        cg: &Cg,
        rt: &'r Runtime,
        space: &Space,
        a: &dyn Operator,
        m: Option<&dyn Preconditioner>,
        reliable: Option<&Reliable<'_>>,
    ) -> Result<Self, Error> {
        let zeros = || space.zeros(rt);
        let vectors = Vectors {
            r: zeros(),
            r_old: cg.flexible.then(zeros),
            z: m.map(|_| zeros()),
            p: zeros(),
            q: zeros(),
            d: zeros(),
        };
        let scalars = rt.register(Scalars::zeros(OWN));
        let sums = Sums::new(rt, space, 3);
        let begin = rt.record(|graph| {
            let steps = Steps::new(graph, space, &scalars);
            begin(&steps, &vectors, m, &sums)?;
            reliable.map_or(Ok(()), |reliable| reliable.begin(&steps, &vectors.r, &sums, 0))
        })?;
        let step = rt.record(|graph| {
            let steps = Steps::new(graph, space, &scalars);
            descend(&steps, &vectors, a, &sums)?;
            if let Some(reliable) = reliable {
                reliable.replace(&steps, &vectors.d, &vectors.r, &sums, [3, 0])?;
            }
            direct(&steps, &vectors, m, &sums)
        })?;
        let count = 4 + [cg.flexible, m.is_some()].into_iter().filter(|has| *has).count();
        let kept = Kept::vectors(space, count + if reliable.is_some() { Reliable::VECTORS } else { 0 });
        Ok(Prepared { rt, vectors, scalars, begin, step, kept })
    }
}

impl Correction for Prepared<'_> {
    fn residual(&self) -> &Vector {
        &self.vectors.r
    }

    fn correction(&self) -> &Vector {
        &self.vectors.d
    }

    fn kept(&self) -> Kept {
        self.kept
    }

    fn run(&mut self, limits: &Limits<'_>, log: &mut dyn Logger) -> Result<Ended, Error> {
        rounds::begin(self.rt, &self.begin, &self.scalars, limits)?;
        rounds::run(self.rt, &self.step, &self.scalars, limits, log)
    }
}

/// `d = 0`, `p = z = M^-1 r`, `rho = r . z`.
fn begin(steps: &Steps<'_>, v: &Vectors, m: Option<&dyn Preconditioner>, sums: &Sums) -> Result<(), Error> {
    if let (Some(m), Some(z)) = (m, &v.z) {
        m.apply(steps, &v.r, z)?;
    }
    steps.each(
        "cg.begin",
        |i| (v.p.update(i), v.d.update(i), v.r.read(i), v.z().read(i), sums.of(i)),
        |(p, d, r, z, sums)| {
            d.fill(0.0);
            p.copy_from_slice(&z);
            dots(&r, &r, sums, 3, 0);
            dots(&r, &z, sums, 3, 1);
        },
    )?;
    steps.combine("cg.rho", sums, |sums, s| {
        s[RHO] = sums[1];
        s.first_residual(sums[0].sqrt());
        s.end_unless_positive(sums[1]);
    })
}

/// The first half of a step: `alpha = rho / p . A p`, `d += alpha p`, `r -= alpha A p`.
fn descend(steps: &Steps<'_>, v: &Vectors, a: &dyn Operator, sums: &Sums) -> Result<(), Error> {
    a.apply(steps, &v.p, &v.q)?;
    steps.each(
        "cg.curvature",
        |i| (steps.scalars(), v.p.read(i), v.q.read(i), sums.of(i)),
        |(s, p, q, sums)| {
            if !Scalars::new(s).is_done() {
                dots(&p, &q, sums, 3, 0);
            }
        },
    )?;
    steps.combine("cg.alpha", sums, |sums, s| {
        s[ALPHA] = s[RHO] / sums[0];
        s.end_unless_positive(sums[0]);
    })?;
    if let Some(old) = &v.r_old {
        steps.each("cg.keep", |i| (v.r.read(i), old.update(i)), |(r, old)| old.copy_from_slice(&r))?;
    }
    steps.each(
        "cg.descend",
        |i| (steps.scalars(), v.d.update(i), v.r.update(i), v.p.read(i), v.q.read(i), sums.of(i)),
        |(s, d, r, p, q, sums)| {
            let s = Scalars::new(s);
            if !s.is_done() {
                let alpha = s[ALPHA];
                d.iter_mut().zip(&*p).for_each(|(d, p)| *d += alpha * p);
                r.iter_mut().zip(&*q).for_each(|(r, q)| *r -= alpha * q);
                dots(r, r, sums, 3, 0);
            }
        },
    )
}

/// The second half of a step, the next direction: `beta = r . z / rho`, `p = z + beta p`.
fn direct(steps: &Steps<'_>, v: &Vectors, m: Option<&dyn Preconditioner>, sums: &Sums) -> Result<(), Error> {
    if let (Some(m), Some(z)) = (m, &v.z) {
        m.apply(steps, &v.r, z)?;
        steps.each(
            "cg.rho",
            |i| (steps.scalars(), v.r.read(i), z.read(i), sums.of(i)),
            |(s, r, z, sums)| {
                if !Scalars::new(s).is_done() {
                    dots(&r, &z, sums, 3, 1);
                }
            },
        )?;
    }
    let is_preconditioned = v.z.is_some();
    if let Some(old) = &v.r_old {
        steps.each(
            "cg.change",
            |i| (steps.scalars(), old.read(i), v.z().read(i), sums.of(i)),
            |(s, old, z, sums)| {
                if !Scalars::new(s).is_done() {
                    dots(&old, &z, sums, 3, 2);
                }
            },
        )?;
    }
    let is_flexible = v.r_old.is_some();
    steps.combine("cg.beta", sums, move |sums, s| {
        let rho = if is_preconditioned { sums[1] } else { sums[0] };
        let gained = if is_flexible { rho - sums[2] } else { rho };
        s[BETA] = gained / s[RHO];
        s[RHO] = rho;
        s.step(sums[0].sqrt());
        s.end_unless_positive(rho);
    })?;
    steps.each(
        "cg.direct",
        |i| (steps.scalars(), v.p.update(i), v.z().read(i)),
        |(s, p, z)| {
            let s = Scalars::new(s);
            if !s.is_done() {
                let beta = s[BETA];
                p.iter_mut().zip(&*z).for_each(|(p, z)| *p = z + beta * *p);
            }
        },
    )
}
