//! Minimal residuals of symmetric matrices.

use zellige_runtime::{Bindings, Graph, Runtime, Submit};

use super::grains::dots;
use super::operator::check_fixed;
use super::rounds::{self, Ended, Limits};
use super::scalars::{Scalars, State};
use super::steps::{ScalarsHandle, Steps, Sums};
use super::{Correction, Kept, Logger, Method, Operator, Preconditioner};
use crate::error::Error;
use crate::space::{Space, Vector};

/// MINRES (Paige and Saunders 1975), for symmetric matrices, indefinite ones too, with a preconditioner that is symmetric positive definite (Elman,
/// Silvester and Wathen 2014, algorithm 4.1). What it makes least is `r . M^-1 r`; the residual that it is stopped by is `|r|_2`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Minres;

impl Method for Minres {
    fn name(&self) -> String {
        "minres".to_owned()
    }

    fn prepare<'r>(
        &'r self,
        rt: &'r Runtime,
        space: &'r Space,
        a: &'r dyn Operator,
        m: Option<&'r dyn Preconditioner>,
    ) -> Result<Box<dyn Correction + 'r>, Error> {
        check_fixed(m, "minres", "fgmres")?;
        Ok(Box::new(Prepared::new(rt, space, a, m)?))
    }
}

/// The solver's own numbers: gamma of this step and the one before, the last rotations, eta, the largest element of the tridiagonal
/// matrix so far ...
const GAMMA: usize = 0;
const GAMMA_OLD: usize = 1;
const COSINE: usize = 2;
const COSINE_OLD: usize = 3;
const SINE: usize = 4;
const SINE_OLD: usize = 5;
const ETA: usize = 6;
const LARGEST: usize = 7;
/// ... and what vectors are multiplied by: delta, then see [`Step::update`].
const DELTA: usize = 8;
const OF_Z: usize = 9;
const OF_W: usize = 10;
const OF_W_OLD: usize = 11;
const OF_D: usize = 12;
const OF_R: usize = 13;
const OF_V: usize = 14;
const OWN: usize = 15;

/// Vectors of this step and the one before change places: of two, those with the parity of the step are this step's.
struct Vectors {
    r: Vector,
    v: [Vector; 2],
    /// `M^-1 v`; `v` itself without a preconditioner.
    z: Option<[Vector; 2]>,
    w: [Vector; 2],
    q: Vector,
    d: Vector,
}

impl Vectors {
    fn z(&self, parity: usize) -> &Vector {
        &self.z.as_ref().unwrap_or(&self.v)[parity]
    }
}

struct Prepared<'r> {
    rt: &'r Runtime,
    vectors: Vectors,
    scalars: ScalarsHandle,
    begin: Graph,
    /// By the parity of the step.
    steps: [Bindings; 2],
    kept: Kept,
}

impl<'r> Prepared<'r> {
    fn new(
        rt: &'r Runtime,
        space: &Space,
        a: &dyn Operator,
        m: Option<&dyn Preconditioner>,
    ) -> Result<Self, Error> {
        let zeros = || space.zeros(rt);
        let two = || [zeros(), zeros()];
        let vectors = Vectors { r: zeros(), v: two(), z: m.map(|_| two()), w: two(), q: zeros(), d: zeros() };
        let scalars = rt.register(Scalars::zeros(OWN));
        let sums = Sums::new(rt, space, WIDTH);
        let begin = rt.record(|graph| begin(&Steps::new(graph, space, &scalars), &vectors, m, &sums))?;
        let step = |parity| {
            rt.record(|graph| {
                let steps = Steps::new(graph, space, &scalars);
                let step = Step { steps, v: &vectors, m, sums: &sums, now: parity, next: 1 - parity };
                a.apply(&steps, vectors.z(parity), &vectors.q)?;
                step.lanczos()?;
                step.update()
            })
        };
        let steps = [step(0)?, step(1)?].map(|graph: Graph| Bindings::recorded(&graph));
        let kept = Kept::vectors(space, if m.is_some() { 9 } else { 7 });
        Ok(Prepared { rt, vectors, scalars, begin, steps, kept })
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
        rounds::run_each(self.rt, &self.scalars, limits, log, Scalars::REMEMBERED, &mut |step, _| {
            self.rt.replay(&self.steps[step % 2])?;
            Ok(())
        })
    }
}

/// Sums of a grain: `A z . z`, `v . z`, `r . r`.
const WIDTH: usize = 3;

/// `v = r`, `z = M^-1 v`, `gamma = sqrt(v . z)`.
fn begin(steps: &Steps<'_>, v: &Vectors, m: Option<&dyn Preconditioner>, sums: &Sums) -> Result<(), Error> {
    steps.each(
        "minres.begin",
        |i| {
            let [v0, v1] = &v.v;
            let [w0, w1] = &v.w;
            (v.r.read(i), v0.update(i), v1.update(i), w0.update(i), w1.update(i), v.d.update(i))
        },
        |(r, v, v_old, w, w_old, d)| {
            v.copy_from_slice(&r);
            [v_old, w, w_old, d].into_iter().for_each(|zeros| zeros.fill(0.0));
        },
    )?;
    if let (Some(m), Some(z)) = (m, &v.z) {
        m.apply(steps, &v.v[0], &z[0])?;
    }
    steps.each("minres.norm", |i| (v.r.read(i), sums.of(i)), |(r, sums)| dots(&r, &r, sums, WIDTH, 2))?;
    form(steps, v, sums, 0)?;
    steps.combine("minres.gamma", sums, |sums, s| {
        (s[GAMMA], s[GAMMA_OLD], s[ETA]) = (sums[1].sqrt(), 1.0, sums[1].sqrt());
        (s[COSINE], s[COSINE_OLD], s[SINE], s[SINE_OLD]) = (1.0, 1.0, 0.0, 0.0);
        s.first_residual(sums[2].sqrt());
        s.end_unless_positive(sums[1]);
    })
}

/// `v . z`, of one parity.
fn form(steps: &Steps<'_>, v: &Vectors, sums: &Sums, parity: usize) -> Result<(), Error> {
    steps.each(
        "minres.form",
        |i| (steps.scalars(), v.v[parity].read(i), v.z(parity).read(i), sums.of(i)),
        |(s, v, z, sums)| {
            if !Scalars::new(s).is_done() {
                dots(&v, &z, sums, WIDTH, 1);
            }
        },
    )
}

/// What a step is recorded from.
struct Step<'g> {
    steps: Steps<'g>,
    v: &'g Vectors,
    m: Option<&'g dyn Preconditioner>,
    sums: &'g Sums,
    now: usize,
    next: usize,
}

impl Step<'_> {
    /// `v_{j+1} = A z_j / gamma_j - delta_j / gamma_j v_j - gamma_j / gamma_{j-1} v_{j-1}` with `delta_j = A z_j . z_j / gamma_j^2`.
    fn lanczos(&self) -> Result<(), Error> {
        let (v, steps) = (self.v, &self.steps);
        steps.each(
            "minres.curvature",
            |i| (steps.scalars(), v.q.read(i), v.z(self.now).read(i), self.sums.of(i)),
            |(s, q, z, sums)| {
                if !Scalars::new(s).is_done() {
                    dots(&q, &z, sums, WIDTH, 0);
                }
            },
        )?;
        steps.combine("minres.delta", self.sums, |sums, s| s[DELTA] = sums[0] / s[GAMMA] / s[GAMMA])?;
        steps.each(
            "minres.lanczos",
            |i| (steps.scalars(), v.v[self.next].update(i), v.v[self.now].read(i), v.q.read(i)),
            |(s, next, v, q)| {
                let s = Scalars::new(s);
                if !s.is_done() {
                    let (scale, of_v, of_old) =
                        (1.0 / s[GAMMA], s[DELTA] / s[GAMMA], s[GAMMA] / s[GAMMA_OLD]);
                    next.iter_mut()
                        .zip(v.iter().zip(&*q))
                        .for_each(|(next, (v, q))| *next = scale * q - of_v * v - of_old * *next);
                }
            },
        )?;
        if let (Some(m), Some(z)) = (self.m, &v.z) {
            m.apply(steps, &v.v[self.next], &z[self.next])?;
        }
        form(steps, v, self.sums, self.next)?;
        steps.combine("minres.rotate", self.sums, |sums, s| rotate(s, sums[1]))
    }

    /// `w_{j+1} = (z_j - a3 w_{j-1} - a2 w_j) / a1`, `d += c eta w_{j+1}`; with a preconditioner `r = s^2 r - c eta / a1 v_{j+1}`.
    fn update(&self) -> Result<(), Error> {
        let (v, steps) = (self.v, &self.steps);
        steps.each(
            "minres.update",
            |i| {
                let (next, w, z) = (v.w[self.next].update(i), v.w[self.now].read(i), v.z(self.now).read(i));
                (steps.scalars(), next, w, z, v.d.update(i))
            },
            |(s, next, w, z, d)| {
                let s = Scalars::new(s);
                if !s.is_done() {
                    let (of_z, of_w, of_old, of_d) = (s[OF_Z], s[OF_W], s[OF_W_OLD], s[OF_D]);
                    for ((next, d), (w, z)) in next.iter_mut().zip(d).zip(w.iter().zip(&*z)) {
                        *next = of_z * z - of_w * w - of_old * *next;
                        *d += of_d * *next;
                    }
                }
            },
        )?;
        let is_preconditioned = v.z.is_some();
        if is_preconditioned {
            steps.each(
                "minres.residual",
                |i| (steps.scalars(), v.r.update(i), v.v[self.next].read(i), self.sums.of(i)),
                |(s, r, v, sums)| {
                    let s = Scalars::new(s);
                    if !s.is_done() {
                        let (of_r, of_v) = (s[OF_R], s[OF_V]);
                        r.iter_mut().zip(&*v).for_each(|(r, v)| *r = of_r * *r + of_v * v);
                        dots(r, r, sums, WIDTH, 2);
                    }
                },
            )?;
        }
        steps.combine("minres.step", self.sums, move |sums, s| {
            s.step(if is_preconditioned { sums[2].sqrt() } else { s[ETA].abs() });
            if !s.is_done() && s[GAMMA] == 0.0 {
                s.end(State::BrokenDown);
            }
        })
    }
}

/// Applies the last two rotations to the column of the tridiagonal matrix, and makes the next: what vectors are multiplied by.
///
/// An element that is nothing but rounding is 0: the space has all of the solution then, unless the matrix is singular on it.
fn rotate(s: &mut Scalars<&mut [f64]>, form: f64) {
    let (delta, gamma) = (s[DELTA], s[GAMMA]);
    s[LARGEST] = s[LARGEST].max(delta.abs()).max(form.abs().sqrt());
    if !(form.is_finite() && delta.is_finite()) {
        return s.end(State::NotANumber);
    }
    let negligible = 8.0 * f64::EPSILON * s[LARGEST];
    if form < -negligible * negligible {
        return s.end(State::BrokenDown);
    }
    let next = form.max(0.0).sqrt();
    let next = if next <= negligible { 0.0 } else { next };
    let (cosine, sine) = (s[COSINE], s[SINE]);
    let straight = cosine * delta - s[COSINE_OLD] * sine * gamma;
    let diagonal = libm::hypot(straight, next);
    if diagonal <= negligible {
        return s.end(State::BrokenDown);
    }
    s[OF_Z] = 1.0 / (diagonal * gamma);
    s[OF_W] = (sine * delta + s[COSINE_OLD] * cosine * gamma) / diagonal;
    s[OF_W_OLD] = s[SINE_OLD] * gamma / diagonal;
    (s[COSINE_OLD], s[SINE_OLD]) = (cosine, sine);
    (s[COSINE], s[SINE]) = (straight / diagonal, next / diagonal);
    s[OF_D] = s[COSINE] * s[ETA];
    s[OF_R] = s[SINE] * s[SINE];
    s[OF_V] = -s[OF_D] / diagonal;
    s[ETA] *= -s[SINE];
    (s[GAMMA_OLD], s[GAMMA]) = (gamma, next);
}
