//! Stabilised bi-conjugate gradients.

mod polynomial;

use zellige_kernels::vectors::dot;
use zellige_runtime::data::Chunk;
use zellige_runtime::{Bindings, Graph, ReadList, Runtime, Submit, reads};

use self::polynomial::{MOST, at, pairs, polynomial};
use super::grains::dots;
use super::operator::check_fixed;
use super::rounds::{self, Ended, Limits};
use super::scalars::{Scalars, State};
use super::steps::{ScalarsHandle, Steps, Sums};
use super::{Correction, Kept, Logger, Method, Operator, Preconditioner};
use crate::error::Error;
use crate::space::{GRAIN, Space, Vector};

/// BiCGStab(l) (Sleijpen and Fokkema 1993, algorithm 3.1), preconditioned from the right; `l = 1` is BiCGStab (van der Vorst 1992). For any matrix,
/// with few vectors.
///
/// A step is `2 l` products: `l` steps of bi-conjugate gradients, then a polynomial of degree `l` that makes the residual least, from the inner
/// products of `r, A r, .., A^l r` by Cholesky's factors (Sleijpen, van der Vorst and Fokkema 1994). Eigenvalues
/// far from the real axis need `l = 2` or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BiCgStab {
    /// The degree, 1 to 8.
    pub l: usize,
}

impl Default for BiCgStab {
    fn default() -> Self {
        BiCgStab { l: 1 }
    }
}

impl Method for BiCgStab {
    fn name(&self) -> String {
        if self.l == 1 { "bicgstab".to_owned() } else { format!("bicgstab({})", self.l) }
    }

    fn prepare<'r>(
        &'r self,
        rt: &'r Runtime,
        space: &'r Space,
        a: &'r dyn Operator,
        m: Option<&'r dyn Preconditioner>,
    ) -> Result<Box<dyn Correction + 'r>, Error> {
        if !(1..=MOST).contains(&self.l) {
            return Err(Error::parameter("l", format!("{}: 1 to {MOST}", self.l)));
        }
        check_fixed(m, "bicgstab", "fgmres")?;
        Ok(Box::new(Prepared::new(self.l, rt, space, a, m)?))
    }
}

/// The solver's own numbers.
const RHO: usize = 0;
const ALPHA: usize = 1;
const BETA: usize = 2;
/// The coefficients of the polynomial, from that of `A` on; then the norm of the shadow.
const GAMMA: usize = 3;
const SHADOW: usize = GAMMA + MOST;
const OWN: usize = SHADOW + 1;

struct Vectors {
    /// `A^i r` and `A^i u`, `i = 0 .. l`, with `A M^-1` for `A`.
    r: Vec<Vector>,
    u: Vec<Vector>,
    shadow: Vector,
    /// The correction before `M^-1`, and after.
    e: Vector,
    d: Option<Vector>,
    /// `M^-1` of what is multiplied.
    z: Option<Vector>,
}

struct Prepared<'r> {
    rt: &'r Runtime,
    vectors: Vectors,
    scalars: ScalarsHandle,
    begin: Graph,
    step: Graph,
    finish: Option<Graph>,
    kept: Kept,
}

impl<'r> Prepared<'r> {
    fn new(
        l: usize,
        rt: &'r Runtime,
        space: &Space,
        a: &dyn Operator,
        m: Option<&dyn Preconditioner>,
    ) -> Result<Self, Error> {
        let zeros = || space.zeros(rt);
        let powers = || (0..=l).map(|_| zeros()).collect();
        let vectors = Vectors {
            r: powers(),
            u: powers(),
            shadow: zeros(),
            e: zeros(),
            d: m.map(|_| zeros()),
            z: m.map(|_| zeros()),
        };
        let scalars = rt.register(Scalars::zeros(OWN));
        let products = (l + 1) * (l + 2) / 2;
        let sums = Sums::new(rt, space, products);
        let begin =
            rt.record(|graph| begin(&Steps::new(graph, space, &scalars), &vectors, &sums, products))?;
        let step = rt.record(|graph| {
            let steps = Steps::new(graph, space, &scalars);
            let step = Step { steps, v: &vectors, a, m, sums: &sums, width: products };
            for j in 0..l {
                step.conjugate(j)?;
            }
            step.minimise(l)
        })?;
        let finish = match (m, &vectors.d) {
            (Some(m), Some(d)) => {
                // Not ended, whatever the method is.
                let open = rt.register(Scalars::zeros(0));
                Some(rt.record(|graph| m.apply(&Steps::new(graph, space, &open), &vectors.e, d))?)
            }
            _ => None,
        };
        let kept = Kept::vectors(space, 2 * l + 4 + if m.is_some() { 2 } else { 0 });
        Ok(Prepared { rt, vectors, scalars, begin, step, finish, kept })
    }
}

impl Correction for Prepared<'_> {
    fn residual(&self) -> &Vector {
        &self.vectors.r[0]
    }

    fn correction(&self) -> &Vector {
        self.vectors.d.as_ref().unwrap_or(&self.vectors.e)
    }

    fn kept(&self) -> Kept {
        self.kept
    }

    fn run(&mut self, limits: &Limits<'_>, log: &mut dyn Logger) -> Result<Ended, Error> {
        rounds::begin(self.rt, &self.begin, &self.scalars, limits)?;
        let ended = rounds::run(self.rt, &self.step, &self.scalars, limits, log)?;
        if let Some(finish) = &self.finish {
            self.rt.replay(&Bindings::recorded(finish))?;
        }
        Ok(ended)
    }
}

/// `u = 0`, `e = 0`, the shadow is the residual.
fn begin(steps: &Steps<'_>, v: &Vectors, sums: &Sums, width: usize) -> Result<(), Error> {
    steps.each(
        "bicgstab.begin",
        |i| (v.r[0].read(i), v.u[0].update(i), v.e.update(i), v.shadow.update(i), sums.of(i)),
        move |(r, u, e, shadow, sums)| {
            u.fill(0.0);
            e.fill(0.0);
            shadow.copy_from_slice(&r);
            dots(&r, &r, sums, width, 0);
        },
    )?;
    steps.combine("bicgstab.rho", sums, |sums, s| {
        // u is 0, and so is what beta multiplies.
        s[RHO] = sums[0];
        s[SHADOW] = sums[0].sqrt();
        s.first_residual(sums[0].sqrt());
    })
}

/// What a step is recorded from.
struct Step<'g> {
    steps: Steps<'g>,
    v: &'g Vectors,
    a: &'g dyn Operator,
    m: Option<&'g dyn Preconditioner>,
    sums: &'g Sums,
    width: usize,
}

/// Chunk `i` of some vectors.
fn list(vectors: &[Vector], i: usize) -> ReadList<Chunk<f64>> {
    reads(vectors.iter().map(|vector| &vector.stretches()[i]))
}

impl Step<'_> {
    /// `to = A M^-1 from`.
    fn multiply(&self, from: &Vector, to: &Vector) -> Result<(), Error> {
        match (self.m, &self.v.z) {
            (Some(m), Some(z)) => {
                m.apply(&self.steps, from, z)?;
                self.a.apply(&self.steps, z, to)
            }
            _ => self.a.apply(&self.steps, from, to),
        }
    }

    /// Step `j` of bi-conjugate gradients: `u_i = r_i - beta u_i`, `u_{j+1} = A u_j`, `alpha = rho / u_{j+1} . shadow`,
    /// `r_i -= alpha u_{i+1}`, `r_{j+1} = A r_j`, `e += alpha u_0`, `rho = r_{j+1} . shadow`.
    fn conjugate(&self, j: usize) -> Result<(), Error> {
        let (v, steps) = (self.v, &self.steps);
        for k in 0..=j {
            steps.each(
                "bicgstab.direct",
                |i| (steps.scalars(), v.u[k].update(i), v.r[k].read(i)),
                |(s, u, r)| {
                    let s = Scalars::new(s);
                    if !s.is_done() {
                        let beta = s[BETA];
                        u.iter_mut().zip(&*r).for_each(|(u, r)| *u = r - beta * *u);
                    }
                },
            )?;
        }
        self.multiply(&v.u[j], &v.u[j + 1])?;
        self.along_shadow(&v.u[j + 1])?;
        steps.combine("bicgstab.alpha", self.sums, |sums, s| {
            s[ALPHA] = s[RHO] / sums[0];
            refuse_unless_usable(s, sums[0]);
        })?;
        for k in 0..=j {
            self.descend(k)?;
        }
        // What comes after an answer is 0 / 0.
        steps.combine("bicgstab.half", self.sums, |sums, s| s.end_if_reached(sums[0].sqrt()))?;
        self.multiply(&v.r[j], &v.r[j + 1])?;
        if j + 2 == v.r.len() {
            return Ok(());
        }
        self.along_shadow(&v.r[j + 1])?;
        steps.combine("bicgstab.beta", self.sums, |sums, s| {
            s[BETA] = s[ALPHA] * sums[0] / s[RHO];
            s[RHO] = sums[0];
            refuse_unless_usable(s, sums[0]);
        })
    }

    /// The inner product of a vector with the shadow.
    fn along_shadow(&self, vector: &Vector) -> Result<(), Error> {
        let (steps, width) = (&self.steps, self.width);
        steps.each(
            "bicgstab.shadow",
            |i| (steps.scalars(), vector.read(i), self.v.shadow.read(i), self.sums.of(i)),
            move |(s, vector, shadow, sums)| {
                if !Scalars::new(s).is_done() {
                    dots(&vector, &shadow, sums, width, 0);
                }
            },
        )
    }

    /// `r_k -= alpha u_{k+1}`; with the residual itself `e += alpha u_0`, and its norm.
    fn descend(&self, k: usize) -> Result<(), Error> {
        let (v, steps, width) = (self.v, &self.steps, self.width);
        if k > 0 {
            return steps.each(
                "bicgstab.descend",
                |i| (steps.scalars(), v.r[k].update(i), v.u[k + 1].read(i)),
                |(s, r, u)| {
                    let s = Scalars::new(s);
                    if !s.is_done() {
                        let alpha = s[ALPHA];
                        r.iter_mut().zip(&*u).for_each(|(r, u)| *r -= alpha * u);
                    }
                },
            );
        }
        steps.each(
            "bicgstab.descend",
            |i| {
                let (e, u, next) = (v.e.update(i), v.u[0].read(i), v.u[1].read(i));
                (steps.scalars(), v.r[0].update(i), e, u, next, self.sums.of(i))
            },
            move |(s, r, e, u, next, sums)| {
                let s = Scalars::new(s);
                if !s.is_done() {
                    let alpha = s[ALPHA];
                    e.iter_mut().zip(&*u).for_each(|(e, u)| *e += alpha * u);
                    r.iter_mut().zip(&*next).for_each(|(r, u)| *r -= alpha * u);
                    dots(r, r, sums, width, 0);
                }
            },
        )
    }

    /// `r = r_0 - sum_i gamma_i r_i` with the least norm, `e += sum_i gamma_i r_{i-1}`, `u = u_0 - sum_i gamma_i u_i`.
    fn minimise(&self, l: usize) -> Result<(), Error> {
        let (v, steps, width) = (self.v, &self.steps, self.width);
        steps.each(
            "bicgstab.products",
            |i| (steps.scalars(), list(&v.r, i), self.sums.of(i)),
            move |(s, r, sums)| {
                if Scalars::new(s).is_done() {
                    return;
                }
                for (grain, sums) in sums.chunks_exact_mut(width).enumerate() {
                    for (i, j) in pairs(l) {
                        let of_grain = |k: usize| r.get(k).slice().chunks(GRAIN).nth(grain).unwrap_or(&[]);
                        sums[at(i, j)] = dot(of_grain(i), of_grain(j));
                    }
                }
            },
        )?;
        steps.combine("bicgstab.gamma", self.sums, move |sums, s| match polynomial(l, sums) {
            Some(gamma) => (0..l).for_each(|i| s[GAMMA + i] = gamma[i]),
            None if sums.iter().all(|sum| sum.is_finite()) => s.end(State::BrokenDown),
            None => s.end(State::NotANumber),
        })?;
        steps.each(
            "bicgstab.minimise",
            |i| {
                let residuals = (v.r[0].update(i), list(&v.r[1..], i));
                let directions = (v.u[0].update(i), list(&v.u[1..], i));
                (steps.scalars(), residuals.0, residuals.1, directions.0, directions.1, v.e.update(i))
            },
            move |(s, r, powers, u, directions, e)| {
                let s = Scalars::new(s);
                if s.is_done() {
                    return;
                }
                for k in 0..l {
                    let gamma = s[GAMMA + k];
                    let add_to = |to: &mut [f64], factor: f64, from: &[f64]| {
                        to.iter_mut().zip(from).for_each(|(to, from)| *to += factor * from);
                    };
                    match k {
                        0 => add_to(e, gamma, r),
                        _ => add_to(e, gamma, &powers.get(k - 1)),
                    }
                    add_to(r, -gamma, &powers.get(k));
                    add_to(u, -gamma, &directions.get(k));
                }
            },
        )?;
        steps.each(
            "bicgstab.rho",
            |i| (steps.scalars(), v.r[0].read(i), v.shadow.read(i), self.sums.of(i)),
            move |(s, r, shadow, sums)| {
                if !Scalars::new(s).is_done() {
                    dots(&r, &r, sums, width, 0);
                    dots(&r, &shadow, sums, width, 1);
                }
            },
        )?;
        steps.combine("bicgstab.step", self.sums, move |sums, s| {
            let (norm, rho) = (sums[0].sqrt(), sums[1]);
            s[BETA] = -s[ALPHA] * rho / (s[GAMMA + l - 1] * s[RHO]);
            s[RHO] = rho;
            s.step(norm);
            if !s.is_done() && rho.abs() <= f64::EPSILON * norm * s[SHADOW] {
                s.end(State::BrokenDown);
            }
        })
    }
}

/// Ends where a number that is divided by is 0.
fn refuse_unless_usable(s: &mut Scalars<&mut [f64]>, number: f64) {
    if !number.is_finite() {
        s.end(State::NotANumber);
    } else if number == 0.0 {
        s.end(State::BrokenDown);
    }
}
