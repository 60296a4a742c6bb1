//! Minimal residuals of Hermitian operators.

use zellige_kernels::RealNumber;

use crate::error::Error;
use crate::inner_solver::{InnerSolver, MemoryUse, Method, Setting};
use crate::iteration::{Recorded, steps_per_graph};
use crate::numbers::{Numbers, NumbersHandle, State};
use crate::operator::check_fixed;
use crate::scalar::Scalar;
use crate::steps::{Steps, Sums};
use crate::vector::MultiVector;
use crate::vector_task::{minus, plus};

/// MINRES (Paige and Saunders 1975), for Hermitian operators, including indefinite ones, with a
/// preconditioner that is Hermitian positive definite (Elman, Silvester and Wathen 2014, algorithm
/// 4.1). It minimises `r . M^-1 r`; the stopping criterion uses `|r|_2`.
///
/// ```
/// use zellige_krylov::{Minres, Solve, Space, Stop, from_fn, solve};
/// use zellige_runtime::Runtime;
///
/// let rt = Runtime::builder().workers(1).build()?;
/// // Indefinite: 2 and -2 on the diagonal in turn.
/// let a = from_fn(&Space::new(10, 0), |x: &[f64], y: &mut [f64]| {
///     (0..10).for_each(|i| y[i] = if i % 2 == 0 { 2.0 * x[i] } else { -2.0 * x[i] });
/// });
/// let mut x = vec![0.0; 10];
/// solve(&Solve::new(&rt, &a), &Minres, &[1.0; 10], &mut x, &Stop::RelativeToRhs(1e-12), &mut ())?;
/// assert!((x[0] - 0.5).abs() < 1e-12 && (x[1] + 0.5).abs() < 1e-12);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Minres;

impl<E: Scalar> Method<E> for Minres {
    fn name(&self) -> String {
        "minres".to_owned()
    }

    fn prepare<'r>(&'r self, setting: Setting<'r, E>) -> Result<Box<dyn InnerSolver<E> + 'r>, Error> {
        check_fixed(setting.m, "minres", "fgmres")?;
        Ok(Box::new(recorded(setting)?))
    }
}

/// The method's scalars, all of them real: gamma of this step and of the previous one, the last
/// rotations, eta, the largest entry of the tridiagonal matrix so far ...
const GAMMA: usize = 0;
const GAMMA_OLD: usize = 1;
const COSINE: usize = 2;
const COSINE_OLD: usize = 3;
const SINE: usize = 4;
const SINE_OLD: usize = 5;
const ETA: usize = 6;
const LARGEST: usize = 7;
/// ... and factors of vectors: delta, then see [`MinresStep::update`].
const DELTA: usize = 8;
const OF_Z: usize = 9;
const OF_W: usize = 10;
const OF_W_OLD: usize = 11;
const OF_D: usize = 12;
const OF_R: usize = 13;
const OF_V: usize = 14;
/// Factors of the Lanczos vectors.
const OF_Q: usize = 15;
const OF_V_NOW: usize = 16;
const OF_V_OLD: usize = 17;
const OWN: usize = 18;

/// Sums of products: `A z . z`, `v . z`, `r . r`.
const QZ: usize = 0;
const VZ: usize = 1;
const RR: usize = 2;
const SUMS: usize = 3;

/// Vectors of the method. Those of this step and of the previous one alternate: of two, the one
/// with the parity of the step belongs to this step.
struct MinresVectors<E: Scalar> {
    r: MultiVector<E>,
    v: [MultiVector<E>; 2],
    /// `M^-1 v`; `v` itself without a preconditioner.
    z: [MultiVector<E>; 2],
    w: [MultiVector<E>; 2],
    q: MultiVector<E>,
    d: MultiVector<E>,
}

fn recorded<E: Scalar>(setting: Setting<'_, E>) -> Result<Recorded<'_, E>, Error> {
    let Setting { rt, a, m, columns } = setting;
    let (space, zeros) = (setting.space(), || setting.zeros());
    let two = || [zeros(), zeros()];
    let v = two();
    let z = m.map_or_else(|| v.clone(), |_| two());
    let v = MinresVectors { r: zeros(), v, z, w: two(), q: zeros(), d: zeros() };
    let numbers = NumbersHandle::new(rt, columns, OWN);
    let sums = Sums::new(rt, space, columns, SUMS);
    let begin =
        rt.record(|graph| begin(&Steps::new(rt, graph, space, &numbers).with_sums(&sums), &v, setting))?;
    let per_graph = steps_per_graph::<E>(rt, space, m.is_some());
    let steps = rt.record(|graph| {
        (0..per_graph).try_for_each(|step| {
            let (steps, now) = (Steps::new(rt, graph, space, &numbers).with_sums(&sums), step % 2);
            let step = MinresStep { steps, v: &v, setting, now, next: 1 - now };
            a.apply_dot(&step.steps, &v.z[now], &v.q, QZ)?;
            step.lanczos()?;
            step.update()
        })
    })?;
    let memory = MemoryUse::vectors::<E>(space, if m.is_some() { 9 } else { 7 });
    let (residual, correction) = (v.r.clone(), v.d.clone());
    Ok(Recorded {
        rt,
        residual,
        correction,
        numbers,
        replacements: None,
        begin,
        steps,
        per_graph,
        finish: None,
        memory,
    })
}

/// Records `v = r`, `z = M^-1 v`, `gamma = sqrt(v . z)`.
fn begin<E: Scalar>(
    steps: &Steps<'_, E>,
    v: &MinresVectors<E>,
    setting: Setting<'_, E>,
) -> Result<(), Error> {
    let [now, old] = &v.v;
    let first = steps.task("minres.begin").copy(now, &v.r).assign(old, []);
    first.assign(&v.w[0], []).assign(&v.w[1], []).assign(&v.d, []).dot(&v.r, &v.r, RR).submit()?;
    setting.m.map_or(Ok(()), |m| m.apply(steps, now, &v.z[0]))?;
    steps.task("minres.form").dot(now, &v.z[0], VZ).submit()?;
    steps.update_numbers("minres.gamma", |sums, s| {
        let gamma = sums[VZ].real().sqrt();
        s.set_reals([(GAMMA, gamma), (GAMMA_OLD, 1.0.into()), (ETA, gamma)]);
        s.set_reals([(COSINE, 1.0), (COSINE_OLD, 1.0), (SINE, 0.0), (SINE_OLD, 0.0)]);
        s.first_residual(sums[RR].real().sqrt().value());
        s.end_unless_positive(sums[VZ].real().value());
    })
}

/// Data that a step is recorded from.
struct MinresStep<'g, E: Scalar> {
    steps: Steps<'g, E>,
    v: &'g MinresVectors<E>,
    setting: Setting<'g, E>,
    now: usize,
    next: usize,
}

impl<E: Scalar> MinresStep<'_, E> {
    /// Records `v_{j+1} = A z_j / gamma_j - delta_j / gamma_j v_j - gamma_j / gamma_{j-1} v_{j-1}`
    /// with `delta_j = A z_j . z_j / gamma_j^2`.
    fn lanczos(&self) -> Result<(), Error> {
        let (v, steps, next) = (self.v, &self.steps, &self.v.v[self.next]);
        steps.update_numbers("minres.delta", |sums, s| {
            let (gamma, old) = (s.real(GAMMA), s.real(GAMMA_OLD));
            let delta = sums[QZ].real() / gamma / gamma;
            let scales = [
                (DELTA, delta),
                (OF_Q, E::Real::from(1.0) / gamma),
                (OF_V_NOW, delta / gamma),
                (OF_V_OLD, gamma / old),
            ];
            s.set_reals(scales);
            s.follow(DELTA, "delta");
        })?;
        let terms = [plus(OF_Q, &v.q), minus(OF_V_NOW, &v.v[self.now]), minus(OF_V_OLD, next)];
        let task = steps.task("minres.lanczos").assign(next, terms);
        match self.setting.m {
            None => task.dot(next, next, VZ).submit()?,
            Some(m) => {
                task.submit()?;
                m.apply(steps, next, &v.z[self.next])?;
                steps.task("minres.form").dot(next, &v.z[self.next], VZ).submit()?;
            }
        }
        steps.update_numbers("minres.rotate", |sums, s| rotate(s, sums[VZ].real()))
    }

    /// Records `w_{j+1} = (z_j - a3 w_{j-1} - a2 w_j) / a1`, `d += c eta w_{j+1}`; with a
    /// preconditioner `r = s^2 r - c eta / a1 v_{j+1}`.
    fn update(&self) -> Result<(), Error> {
        let (v, steps, next) = (self.v, &self.steps, &self.v.w[self.next]);
        let terms = [plus(OF_Z, &v.z[self.now]), minus(OF_W, &v.w[self.now]), minus(OF_W_OLD, next)];
        steps.task("minres.update").assign(next, terms).add(&v.d, plus(OF_D, next)).submit()?;
        let is_preconditioned = self.setting.m.is_some();
        if is_preconditioned {
            let terms = [plus(OF_R, &v.r), plus(OF_V, &v.v[self.next])];
            steps.task("minres.residual").assign(&v.r, terms).dot(&v.r, &v.r, RR).submit()?;
        }
        steps.update_numbers("minres.step", move |sums, s| {
            let norm = if is_preconditioned { sums[RR].real().sqrt() } else { s.real(ETA).abs() };
            s.step(norm.value());
            if !s.is_done() && s.value(GAMMA) == 0.0 {
                s.end(State::BrokenDown);
            }
        })
    }
}

/// Applies the last two rotations to the column of the tridiagonal matrix, and computes the next
/// rotation and the factors of vectors.
///
/// An entry that consists of rounding errors counts as 0: the space then contains the solution,
/// unless the matrix is singular on it.
fn rotate<E: Scalar>(s: &mut Numbers<E, &mut [f64]>, form: E::Real) {
    let (delta, gamma) = (s.real(DELTA), s.real(GAMMA));
    s.set_real(LARGEST, s.real(LARGEST).max(delta.abs()).max(form.abs().sqrt()));
    if !(form.value().is_finite() && delta.value().is_finite()) {
        return s.end(State::NotANumber);
    }
    let (one, zero) = (E::Real::from(1.0), E::Real::from(0.0));
    let negligible = E::Real::from(8.0 * f64::EPSILON) * s.real(LARGEST);
    if form < -negligible * negligible {
        return s.end(State::BrokenDown);
    }
    let next = form.max(zero).sqrt();
    let next = if next <= negligible { zero } else { next };
    let (cosine, sine) = (s.real(COSINE), s.real(SINE));
    let (cosine_old, sine_old, eta) = (s.real(COSINE_OLD), s.real(SINE_OLD), s.real(ETA));
    let straight = cosine * delta - cosine_old * sine * gamma;
    let diagonal = straight.hypot(next);
    if diagonal <= negligible {
        return s.end(State::BrokenDown);
    }
    let (cosine_new, sine_new) = (straight / diagonal, next / diagonal);
    let of_d = cosine_new * eta;
    let all = [
        (OF_Z, one / (diagonal * gamma)),
        (OF_W, (sine * delta + cosine_old * cosine * gamma) / diagonal),
        (OF_W_OLD, sine_old * gamma / diagonal),
        (COSINE_OLD, cosine),
        (SINE_OLD, sine),
        (COSINE, cosine_new),
        (SINE, sine_new),
        (OF_D, of_d),
        (OF_R, sine_new * sine_new),
        (OF_V, -of_d / diagonal),
        (ETA, eta * -sine_new),
        (GAMMA_OLD, gamma),
        (GAMMA, next),
    ];
    s.set_reals(all);
    s.follow(GAMMA, "gamma");
    s.follow(ETA, "the residual estimate");
}
