//! Several multiples of the identity added to one matrix, solved at the price of one.

use zellige_runtime::{Graph, Runtime, Submit};

use super::grains::{dots, norm, unit_scale};
use super::log::{Onwards, Rescaled};
use super::rounds::{self, Ended, Limits};
use super::scalars::{Scalars, State};
use super::shifted::Shifted;
use super::solve::{BEYOND, Solution, Solve, check, solve};
use super::steps::{ScalarsHandle, Steps, Sums};
use super::stop::{Progress, StoppingCriterion};
use super::{Cg, Kept, Logger, Operator};
use crate::error::Error;
use crate::space::{Space, Vector};

/// Solves `(A + sigma_k I) x_k = b` for every shift, `A + sigma_k I` symmetric positive definite: conjugate gradients in the one Krylov space that all
/// of them share (Jegerlehner 1996, section 2.4; van den Eshof and Sleijpen 2004), whose residuals are multiples of each other. The products are those
/// of the smallest shift, which needs most steps; a shift that is done is left alone.
///
/// What each `x_k` is then given to [`solve`] with conjugate gradients for its matrix, which computes its true residual and, where it is not what
/// was requested, goes on from there. Steps and runs of a solution are those: 0 where the shared space was enough; the
/// steps that were shared come with the result. Each shift has a logger, and all of them are told of the shared steps: of the residual of the smallest
/// shift, beside which those of the others are smaller. There is no preconditioner, since it would have to be the same for all shifts. The shared steps end at
/// [`Solve::reduction`]: beyond it the residual of a narrow operator says nothing of the true one.
///
/// # Errors
/// As [`solve`]; [`Error::Parameter`] for no shifts, one that is no finite number, or another number of loggers.
pub fn solve_shifted<L: Logger>(
    problem: &Solve<'_>,
    shifts: &[f64],
    b: &[f64],
    stop: &(impl StoppingCriterion + ?Sized),
    logs: &mut [L],
) -> Result<ShiftedSolutions, Error> {
    let begun = std::time::Instant::now();
    check("right-hand side", b, problem)?;
    check_shifts(problem, shifts, logs.len())?;
    let smallest = shifts.iter().copied().fold(f64::INFINITY, f64::min);
    let base = Shifted { a: problem.inner, sigma: smallest };
    let above: Vec<f64> = shifts.iter().map(|shift| shift - smallest).collect();
    let method = Prepared::new(problem.rt, problem.space, &base, &above)?;
    // As that of `solve`, the system has a factor with which norms are in range.
    let (scale, rhs) = (unit_scale(b), norm(b));
    method.r.copy_from(problem.rt, &b.iter().map(|b| scale * b).collect::<Vec<_>>())?;
    let progress = |steps| Progress { steps, elapsed: begun.elapsed(), rhs, first: rhs };
    let limits = Limits {
        goal: scale * (BEYOND * stop.goal(&progress(0)).unwrap_or(0.0)).max(problem.reduction * rhs),
        steps: stop.steps_left(&progress(0)).unwrap_or(usize::MAX),
        is_late: &|| stop.is_late(&progress(0)),
    };
    let shared = method.run(&limits, &mut Rescaled { log: &mut All(&mut *logs), ratio: scale })?;
    // The shared space is kept until the last shift has its answer.
    let own = problem.space.bytes(3 + 2 * shifts.len());
    let mut each = Vec::with_capacity(shifts.len());
    for ((&sigma, x), log) in shifts.iter().zip(&method.x).zip(logs) {
        let mut found = vec![0.0; b.len()];
        x.copy_to(problem.rt, &mut found)?;
        found.iter_mut().for_each(|x| *x /= scale);
        if !found.iter().all(|x| x.is_finite()) {
            found.fill(0.0);
        }
        let (exact, inner) = (Shifted { a: problem.exact, sigma }, Shifted { a: problem.inner, sigma });
        let one = Solve { exact: &exact, inner: &inner, preconditioner: None, ..*problem };
        let rest = Rest { stop, steps: shared.steps, begun };
        let mut log = Onwards { log, before: shared.steps };
        let solution = solve(&one, &Cg::default(), b, &mut found, &rest, &mut log)?;
        let kept = solution.kept.and(Kept { basis: 0, vectors: own });
        each.push((Solution { kept, ..solution }, found));
    }
    Ok(ShiftedSolutions { shared: shared.steps, each })
}

/// What was found for several shifts.
#[derive(Clone, Debug, PartialEq)]
pub struct ShiftedSolutions {
    /// Steps in the space that all shifts share.
    pub shared: usize,
    /// For each shift how it ended, and its `x`.
    pub each: Vec<(Solution, Vec<f64>)>,
}

/// Several loggers of the same steps.
struct All<'l, L>(&'l mut [L]);

impl<L: Logger> Logger for All<'_, L> {
    fn step(&mut self, residual: f64) {
        self.0.iter_mut().for_each(|log| log.step(residual));
    }
}

fn check_shifts(problem: &Solve<'_>, shifts: &[f64], logs: usize) -> Result<(), Error> {
    if logs != shifts.len() {
        return Err(Error::parameter("loggers", format!("{logs} for {} shifts", shifts.len())));
    }
    if problem.preconditioner.is_some() {
        return Err(Error::parameter("preconditioner", "several shifts share a space only without one"));
    }
    match shifts.iter().find(|shift| !shift.is_finite()) {
        Some(shift) => Err(Error::parameter("shifts", format!("{shift} is no finite number"))),
        None if shifts.is_empty() => Err(Error::parameter("shifts", "none: one at least is needed")),
        None => Ok(()),
    }
}

/// What is left of a criterion after the steps that were shared.
struct Rest<'s, C: ?Sized> {
    stop: &'s C,
    steps: usize,
    begun: std::time::Instant,
}

impl<C: StoppingCriterion + ?Sized> Rest<'_, C> {
    /// Of all steps; the first residual is that of `x = 0`.
    fn whole(&self, progress: &Progress) -> Progress {
        Progress {
            steps: self.steps + progress.steps,
            elapsed: self.begun.elapsed(),
            rhs: progress.rhs,
            first: progress.rhs,
        }
    }
}

impl<C: StoppingCriterion + ?Sized> StoppingCriterion for Rest<'_, C> {
    fn goal(&self, progress: &Progress) -> Option<f64> {
        self.stop.goal(&self.whole(progress))
    }

    fn steps_left(&self, progress: &Progress) -> Option<usize> {
        self.stop.steps_left(&self.whole(progress))
    }

    fn is_late(&self, progress: &Progress) -> bool {
        self.stop.is_late(&self.whole(progress))
    }
}

/// The solver's own numbers, and then those of each shift.
const RHO: usize = 0;
const ALPHA: usize = 1;
const ALPHA_OLD: usize = 2;
const BETA: usize = 3;
const OF_SHIFTS: usize = 4;

/// Numbers of one shift.
#[derive(Clone, Copy)]
struct Shift(usize);

impl Shift {
    const NUMBERS: usize = 5;

    /// Of shift `k`.
    fn new(k: usize) -> Shift {
        Shift(OF_SHIFTS + k * Self::NUMBERS)
    }

    /// Its residual beside that of the smallest shift.
    fn zeta(self) -> usize {
        self.0
    }

    /// What `zeta` was multiplied by in the last step.
    fn ratio(self) -> usize {
        self.0 + 1
    }

    fn alpha(self) -> usize {
        self.0 + 2
    }

    fn beta(self) -> usize {
        self.0 + 3
    }

    /// 1 where nothing is left to do.
    fn done(self) -> usize {
        self.0 + 4
    }
}

struct Prepared<'r> {
    rt: &'r Runtime,
    r: Vector,
    x: Vec<Vector>,
    scalars: ScalarsHandle,
    begin: Graph,
    step: Graph,
}

/// The vectors besides `r` and `x`: the direction of the smallest shift, its product, and the direction of each.
struct Directions {
    p: Vector,
    q: Vector,
    each: Vec<Vector>,
}

impl<'r> Prepared<'r> {
    fn new(rt: &'r Runtime, space: &Space, a: &dyn Operator, above: &[f64]) -> Result<Self, Error> {
        let each = || above.iter().map(|_| space.zeros(rt)).collect::<Vec<_>>();
        let (r, x) = (space.zeros(rt), each());
        let v = Directions { p: space.zeros(rt), q: space.zeros(rt), each: each() };
        let scalars = rt.register(Scalars::zeros(OF_SHIFTS + above.len() * Shift::NUMBERS));
        let sums = Sums::new(rt, space, 1);
        let begin = rt.record(|graph| begin(&Steps::new(graph, space, &scalars), &r, &v, &sums))?;
        let step = rt.record(|graph| {
            let steps = Steps::new(graph, space, &scalars);
            a.apply(&steps, &v.p, &v.q)?;
            descend(&steps, &r, &v, &sums, above)?;
            direct(&steps, &r, &x, &v, &sums)
        })?;
        Ok(Prepared { rt, r, x, scalars, begin, step })
    }

    fn run(&self, limits: &Limits<'_>, log: &mut dyn Logger) -> Result<Ended, Error> {
        rounds::begin(self.rt, &self.begin, &self.scalars, limits)?;
        rounds::run(self.rt, &self.step, &self.scalars, limits, log)
    }
}

/// Every direction is the residual.
fn begin(steps: &Steps<'_>, r: &Vector, v: &Directions, sums: &Sums) -> Result<(), Error> {
    for direction in std::iter::once(&v.p).chain(&v.each) {
        steps.each(
            "multishift.begin",
            |i| (r.read(i), direction.update(i)),
            |(r, p)| p.copy_from_slice(&r),
        )?;
    }
    steps.each("multishift.norm", |i| (r.read(i), sums.of(i)), |(r, sums)| dots(&r, &r, sums, 1, 0))?;
    let shifts = v.each.len();
    steps.combine("multishift.rho", sums, move |sums, s| {
        (s[RHO], s[ALPHA], s[BETA]) = (sums[0], 1.0, 0.0);
        for shift in (0..shifts).map(Shift::new) {
            (s[shift.zeta()], s[shift.ratio()]) = (1.0, 1.0);
        }
        s.first_residual(sums[0].sqrt());
    })
}

/// `alpha = rho / p . A p`, `r -= alpha A p`; then what each shift's `alpha` is:
///
/// ```text
/// zeta' / zeta = 1 / (1 + sigma alpha + (alpha beta_old / alpha_old) (1 - zeta / zeta_old))
/// alpha_sigma = alpha zeta' / zeta
/// ```
///
/// (Jegerlehner 1996, equation 2.43, for the step lengths and with the sign of conjugate gradients.)
fn descend(steps: &Steps<'_>, r: &Vector, v: &Directions, sums: &Sums, above: &[f64]) -> Result<(), Error> {
    steps.each(
        "multishift.curvature",
        |i| (steps.scalars(), v.p.read(i), v.q.read(i), sums.of(i)),
        |(s, p, q, sums)| {
            if !Scalars::new(s).is_done() {
                dots(&p, &q, sums, 1, 0);
            }
        },
    )?;
    let above = above.to_vec();
    steps.combine("multishift.alpha", sums, move |sums, s| {
        if !sums[0].is_finite() {
            return s.end(State::NotANumber);
        }
        if sums[0] <= 0.0 {
            return s.end(State::BrokenDown);
        }
        (s[ALPHA_OLD], s[ALPHA]) = (s[ALPHA], s[RHO] / sums[0]);
        for (k, sigma) in above.iter().enumerate() {
            let (shift, carried) = (Shift::new(k), s[ALPHA] * s[BETA] / s[ALPHA_OLD]);
            s[shift.ratio()] = 1.0 / (1.0 + sigma * s[ALPHA] + carried * (1.0 - s[shift.ratio()]));
            s[shift.alpha()] = s[ALPHA] * s[shift.ratio()];
            s[shift.zeta()] *= s[shift.ratio()];
        }
    })?;
    steps.each(
        "multishift.descend",
        |i| (steps.scalars(), r.update(i), v.q.read(i), sums.of(i)),
        |(s, r, q, sums)| {
            let s = Scalars::new(s);
            if !s.is_done() {
                let alpha = s[ALPHA];
                r.iter_mut().zip(&*q).for_each(|(r, q)| *r -= alpha * q);
                dots(r, r, sums, 1, 0);
            }
        },
    )
}

/// `beta = rho' / rho`, `p = r + beta p`; of each shift `x += alpha p`, `beta_sigma = beta (zeta' / zeta)^2`, `p = zeta' r + beta p`.
fn direct(steps: &Steps<'_>, r: &Vector, x: &[Vector], v: &Directions, sums: &Sums) -> Result<(), Error> {
    let shifts = x.len();
    steps.combine("multishift.beta", sums, move |sums, s| {
        s[BETA] = sums[0] / s[RHO];
        s[RHO] = sums[0];
        for shift in (0..shifts).map(Shift::new) {
            s[shift.beta()] = s[BETA] * s[shift.ratio()] * s[shift.ratio()];
        }
    })?;
    for (k, (x, p)) in x.iter().zip(&v.each).enumerate() {
        let shift = Shift::new(k);
        steps.each(
            "multishift.direct",
            |i| (steps.scalars(), x.update(i), p.update(i), r.read(i)),
            move |(s, x, p, r)| {
                let s = Scalars::new(s);
                if s.is_done() || s[shift.done()] != 0.0 {
                    return;
                }
                let (alpha, beta, zeta) = (s[shift.alpha()], s[shift.beta()], s[shift.zeta()]);
                for ((x, p), r) in x.iter_mut().zip(p).zip(&*r) {
                    *x += alpha * *p;
                    *p = zeta * r + beta * *p;
                }
            },
        )?;
    }
    steps.each(
        "multishift.base",
        |i| (steps.scalars(), v.p.update(i), r.read(i)),
        |(s, p, r)| {
            let s = Scalars::new(s);
            if !s.is_done() {
                let beta = s[BETA];
                p.iter_mut().zip(&*r).for_each(|(p, r)| *p = r + beta * *p);
            }
        },
    )?;
    steps.combine("multishift.step", sums, move |sums, s| {
        let norm = sums[0].sqrt();
        for shift in (0..shifts).map(Shift::new) {
            if s.is_reached(s[shift.zeta()].abs() * norm) {
                s[shift.done()] = 1.0;
            }
        }
        s.step(norm);
    })
}
