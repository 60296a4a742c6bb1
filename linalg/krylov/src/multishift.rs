//! Several multiples of the identity added to one operator, solved at the price of one.

use zellige_runtime::{Graph, Runtime};

use crate::error::Error;
use crate::grains::{norm, unit_scale};
use crate::log::{Logger, Onwards, Rescaled};
use crate::numbers::{NumbersHandle, State};
use crate::rounds::{self, Ended, Limit, Limits};
use crate::scalar::Scalar;
use crate::shifted::Shifted;
use crate::solve::{BEYOND, Solution, Solve, check, solve};
use crate::steps::{Steps, Sums};
use crate::stop::{Progress, StoppingCriterion};
use crate::vector::MultiVector;
use crate::vector_task::{minus, plus, times};
use crate::{Cg, Kept, Setting};

/// Solves `(A + sigma_k I) x_k = b` for every shift, `A + sigma_k I` Hermitian positive definite: conjugate gradients in the one Krylov space that all
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
pub fn solve_shifted<E: Scalar, L: Logger>(
    problem: &Solve<'_, E>,
    shifts: &[f64],
    b: &[E],
    stop: &(impl StoppingCriterion + ?Sized),
    logs: &mut [L],
) -> Result<ShiftedSolutions<E>, Error> {
    let begun = std::time::Instant::now();
    check("right-hand side", b, problem.exact.domain().len())?;
    check_shifts(problem, shifts, logs.len())?;
    let smallest = shifts.iter().copied().fold(f64::INFINITY, f64::min);
    let base = Shifted { a: problem.inner, sigma: smallest };
    let above: Vec<f64> = shifts.iter().map(|shift| shift - smallest).collect();
    let method = Prepared::new(Setting { rt: problem.rt, a: &base, m: None, columns: 1 }, &above)?;
    // As that of `solve`, the system has a factor with which norms are in range.
    let (scale, rhs) = (unit_scale(b), norm(b));
    let times = |v: &[E], factor: f64| v.iter().map(|v| E::from_real(factor) * *v).collect::<Vec<E>>();
    method.r.set_column(problem.rt, 0, &times(b, scale))?;
    let progress = |steps| Progress { steps, elapsed: begun.elapsed(), rhs, first: rhs };
    let limit = Limit {
        goal: scale * (BEYOND * stop.goal(&progress(0)).unwrap_or(0.0)).max(problem.reduction * rhs),
        steps: stop.steps_left(&progress(0)).unwrap_or(usize::MAX),
    };
    let limits = Limits { columns: &[Some(limit)], is_late: &|| stop.is_late(&progress(0)) };
    let shared = method.run(&limits, &mut Rescaled { log: &mut All(&mut *logs), ratio: scale })?;
    // The shared space is kept until the last shift has its answer.
    let own = Kept::vectors::<E>(problem.exact.domain(), 3 + 2 * shifts.len());
    let mut each = Vec::with_capacity(shifts.len());
    for ((&sigma, x), log) in shifts.iter().zip(&method.x).zip(logs) {
        let mut found = times(&x.column(problem.rt, 0)?, 1.0 / scale);
        if !found.iter().all(|x| x.abs().is_finite()) {
            found.fill(E::default());
        }
        let (exact, inner) = (Shifted { a: problem.exact, sigma }, Shifted { a: problem.inner, sigma });
        let one = Solve { exact: &exact, inner: &inner, preconditioner: None, ..*problem };
        let rest = Rest { stop, steps: shared.steps, begun };
        let mut log = Onwards { log, before: shared.steps };
        let solution = solve(&one, &Cg::default(), b, &mut found, &rest, &mut log)?;
        each.push((Solution { kept: solution.kept.and(own), ..solution }, found));
    }
    Ok(ShiftedSolutions { shared: shared.steps, each })
}

/// What was found for several shifts.
#[derive(Clone, Debug, PartialEq)]
pub struct ShiftedSolutions<E: Scalar = f64> {
    /// Steps in the space that all shifts share.
    pub shared: usize,
    /// For each shift how it ended, and its `x`.
    pub each: Vec<(Solution, Vec<E>)>,
}

/// Several loggers of the same steps.
struct All<'l, L>(&'l mut [L]);

impl<L: Logger> Logger for All<'_, L> {
    fn step(&mut self, residual: f64) {
        self.0.iter_mut().for_each(|log| log.step(residual));
    }
}

fn check_shifts<E: Scalar>(problem: &Solve<'_, E>, shifts: &[f64], logs: usize) -> Result<(), Error> {
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

/// The method's scalars, all of them real, and then those of each shift.
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

/// The sum of products.
const PQ: usize = 0;
const RR: usize = 0;

struct Prepared<'r, E: Scalar> {
    rt: &'r Runtime,
    r: MultiVector<E>,
    x: Vec<MultiVector<E>>,
    numbers: NumbersHandle<E>,
    begin: Graph,
    step: Graph,
}

/// The vectors besides `r` and `x`: the direction of the smallest shift, its product, and the direction of each.
struct Directions<E: Scalar> {
    p: MultiVector<E>,
    q: MultiVector<E>,
    each: Vec<MultiVector<E>>,
}

impl<'r, E: Scalar> Prepared<'r, E> {
    fn new(setting: Setting<'r, E>, above: &[f64]) -> Result<Self, Error> {
        let (rt, space, zeros) = (setting.rt, setting.space(), || setting.zeros());
        let each = || above.iter().map(|_| zeros()).collect::<Vec<_>>();
        let (r, x) = (zeros(), each());
        let v = Directions { p: zeros(), q: zeros(), each: each() };
        let numbers = NumbersHandle::new(rt, 1, OF_SHIFTS + above.len() * Shift::NUMBERS);
        let sums = Sums::new(rt, space, 1, 1);
        let begin = rt.record(|graph| begin(&Steps::new(graph, space, &numbers).with_sums(&sums), &r, &v))?;
        let step = rt.record(|graph| {
            let steps = Steps::new(graph, space, &numbers).with_sums(&sums);
            setting.a.apply_dot(&steps, &v.p, &v.q, PQ)?;
            descend(&steps, &r, &v, above)?;
            direct(&steps, &r, &x, &v)
        })?;
        Ok(Prepared { rt, r, x, numbers, begin, step })
    }

    fn run(&self, limits: &Limits<'_>, log: &mut dyn Logger) -> Result<Ended, Error> {
        rounds::begin(self.rt, &self.begin, &self.numbers, limits)?;
        Ok(rounds::run(self.rt, &self.step, &self.numbers, limits, &mut [log])?[0])
    }
}

/// Every direction is the residual.
fn begin<E: Scalar>(steps: &Steps<'_, E>, r: &MultiVector<E>, v: &Directions<E>) -> Result<(), Error> {
    for direction in &v.each {
        steps.task("multishift.begin").copy(direction, r).submit()?;
    }
    steps.task("multishift.begin").copy(&v.p, r).dot(r, r, RR).submit()?;
    let shifts = v.each.len();
    steps.update_numbers("multishift.rho", move |sums, s| {
        s.set_reals([(RHO, sums[RR].real()), (ALPHA, 1.0), (BETA, 0.0)]);
        for shift in (0..shifts).map(Shift::new) {
            s.set_reals([(shift.zeta(), 1.0), (shift.ratio(), 1.0)]);
        }
        s.first_residual(sums[RR].real().sqrt());
    })
}

/// After `q = A p`: `alpha = rho / p . q`, `r -= alpha q`; then what each shift's `alpha` is:
///
/// ```text
/// zeta' / zeta = 1 / (1 + sigma alpha + (alpha beta_old / alpha_old) (1 - zeta / zeta_old))
/// alpha_sigma = alpha zeta' / zeta
/// ```
///
/// (Jegerlehner 1996, equation 2.43, for the step lengths and with the sign of conjugate gradients.)
fn descend<E: Scalar>(
    steps: &Steps<'_, E>,
    r: &MultiVector<E>,
    v: &Directions<E>,
    above: &[f64],
) -> Result<(), Error> {
    let above = above.to_vec();
    steps.update_numbers("multishift.alpha", move |sums, s| {
        let curvature = sums[PQ].real();
        if !curvature.is_finite() {
            return s.end(State::NotANumber);
        }
        if curvature <= 0.0 {
            return s.end(State::BrokenDown);
        }
        let (old, alpha) = (s.real(ALPHA), s.real(RHO) / curvature);
        s.set_reals([(ALPHA_OLD, old), (ALPHA, alpha)]);
        for (k, sigma) in above.iter().enumerate() {
            let (shift, carried) = (Shift::new(k), alpha * s.real(BETA) / old);
            let ratio = 1.0 / (1.0 + sigma * alpha + carried * (1.0 - s.real(shift.ratio())));
            s.set_real(shift.ratio(), ratio);
            s.set_real(shift.alpha(), alpha * ratio);
            s.set_real(shift.zeta(), s.real(shift.zeta()) * ratio);
        }
    })?;
    steps.task("multishift.descend").add(r, minus(ALPHA, &v.q)).dot(r, r, RR).submit()
}

/// `beta = rho' / rho`, `p = r + beta p`; of each shift `x += alpha p`, `beta_sigma = beta (zeta' / zeta)^2`, `p = zeta' r + beta p`.
fn direct<E: Scalar>(
    steps: &Steps<'_, E>,
    r: &MultiVector<E>,
    x: &[MultiVector<E>],
    v: &Directions<E>,
) -> Result<(), Error> {
    let shifts = x.len();
    steps.update_numbers("multishift.beta", move |sums, s| {
        let (beta, rho) = (sums[RR].real() / s.real(RHO), sums[RR].real());
        s.set_reals([(BETA, beta), (RHO, rho)]);
        for shift in (0..shifts).map(Shift::new) {
            let ratio = s.real(shift.ratio());
            s.set_real(shift.beta(), beta * ratio * ratio);
        }
    })?;
    for (k, (x, p)) in x.iter().zip(&v.each).enumerate() {
        let shift = Shift::new(k);
        let task = steps.task("multishift.direct").unless(shift.done()).add(x, plus(shift.alpha(), p));
        task.assign(p, [plus(shift.zeta(), r), plus(shift.beta(), p)]).submit()?;
    }
    steps.task("multishift.base").assign(&v.p, [times(1.0, r), plus(BETA, &v.p)]).submit()?;
    steps.update_numbers("multishift.step", move |sums, s| {
        let norm = sums[RR].real().sqrt();
        for shift in (0..shifts).map(Shift::new) {
            if s.is_reached(s.real(shift.zeta()).abs() * norm) {
                s.set_real(shift.done(), 1.0);
            }
        }
        s.step(norm);
    })
}
