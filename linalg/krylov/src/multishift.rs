//! Several multiples of the identity added to one operator, solved at the price of one.

mod criteria;

use std::time::Duration;

use self::criteria::{Rest, floor};
use crate::buffer::Buffer;
use crate::error::Error;
use crate::log::{Logger, Onwards, Rescaled};
use crate::method::grains::{norm, unit_scale};
use crate::method::rounds::{Limit, Limits, Recorded, steps_per_graph};
use crate::numbers::{Numbers, NumbersHandle};
use crate::operator::{Operator, apply_to};
use crate::reliable::{Estimated, Reliable, ReliableUpdates, Updates};
use crate::scalar::Scalar;
use crate::shifted::Shifted;
use crate::solve::{BEYOND, Solution, Solve, check, solve};
use crate::steps::{Steps, Sums};
use crate::stop::{Progress, StoppingCriterion};
use crate::vector::MultiVector;
use crate::vector_task::{minus, plus};
use crate::{Cg, Correction, Kept, Setting};

/// Solves `(A + sigma_k I) x_k = b` for every shift; `A + sigma_k I` is Hermitian positive
/// definite. The method is conjugate gradients in the one Krylov space that all shifts share
/// (Jegerlehner 1996, section 2.4; van den Eshof and Sleijpen 2004); their residuals are multiples
/// of each other. The products are those of the smallest shift, which needs most steps; a shift
/// that has converged is left alone.
///
/// Each `x_k` is then given to [`solve`] with conjugate gradients for its matrix. That recomputes
/// its residual and continues if the residual is not as small as requested. Steps and runs of a
/// solution are those of this second phase: 0 if the shared space was enough. The number of shared
/// steps comes with the result. Each shift has a logger, and all of them are notified of the shared
/// steps with the residual of the smallest shift; those of the others are smaller. There is no
/// preconditioner, since it would have to be the same for all shifts. The shared steps end at
/// [`Solve::reduction`]: beyond it the residual of a narrow operator is unrelated to the recomputed
/// one.
///
/// ```
/// use zellige_krylov::{Solve, Space, Stop, from_fn, solve_shifted};
/// use zellige_runtime::Runtime;
///
/// let (rt, space) = (Runtime::new()?, Space::new(50, 0));
/// let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// let found = solve_shifted(&Solve::new(&rt, &a), &[0.0, 9.0], &[1.0; 50], &Stop::RelativeToRhs(1e-10), &mut [(), ()])?;
/// let [(_, x), (_, y)] = &found.each[..] else { unreachable!("two shifts") };
/// assert!((x[0] - 1.0).abs() < 1e-8 && (y[0] - 0.1).abs() < 1e-8);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
///
/// # Errors
/// Those of [`solve`]; [`Error::Parameter`] for no shifts, a non-finite one, or another number of
/// loggers.
pub fn solve_shifted<E: Scalar, L: Logger>(
    problem: &Solve<'_, E>,
    shifts: &[f64],
    b: &[E],
    stop: &(impl StoppingCriterion + ?Sized),
    logs: &mut [L],
) -> Result<ShiftedSolutions<E>, Error> {
    shifted(problem, shifts, b, &vec![&stop as &dyn StoppingCriterion; shifts.len()], logs, None)
}

/// Solves shifted systems like [`solve_shifted`], with reliable updates of the residual of the
/// smallest shift (similar to Clark et al. 2022, section 3.2, whose shared steps end otherwise).
///
/// The residual of the smallest shift is replaced by the recomputed one, and all directions are
/// made orthogonal to it. Residuals and directions may be narrow; solutions are in float64. The
/// second phase of each shift has updates as well.
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{Packed, Solve, Stop, Updates, solve_shifted_with};
///
/// let updates = Updates::new(0.1, Packed::SINGLE);
/// let (system, stop) = (Solve::new(&rt, &a), Stop::RelativeToRhs(1e-10));
/// let found = solve_shifted_with(&system, &[0.0, 9.0], &[1.0; 50], &stop, &mut [(), ()], &updates)?;
/// assert!(found.each.iter().all(|(solution, _)| solution.reason.is_converged()));
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
///
/// # Errors
/// Those of [`solve_shifted`] and of [`Reliable::new`].
pub fn solve_shifted_with<E: Scalar, L: Logger>(
    problem: &Solve<'_, E>,
    shifts: &[f64],
    b: &[E],
    stop: &(impl StoppingCriterion + ?Sized),
    logs: &mut [L],
    updates: &Updates<E>,
) -> Result<ShiftedSolutions<E>, Error> {
    let refinement = Refinement { shared: updates, inner: problem.inner, updates };
    let stops = vec![&stop as &dyn StoppingCriterion; shifts.len()];
    solve_shifts(problem, shifts, b, &stops, logs, &refinement)
}

/// Formats of the steps that all shifts share, and of those after them.
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{Packed, Plain, Refinement, Solve, Stop, StoppingCriterion, Updates, solve_shifts};
///
/// let updates = Updates::new(0.1, Packed::SINGLE);
/// // The shared steps in float32, what follows for each shift in float64.
/// let refinement = Refinement { shared: &updates, inner: &a, updates: &Updates::new(0.1, Plain) };
/// let stops: [&dyn StoppingCriterion; 2] = [&Stop::RelativeToRhs(1e-10), &Stop::RelativeToRhs(1e-6)];
/// let found = solve_shifts(&Solve::new(&rt, &a), &[0.0, 9.0], &[1.0; 50], &stops, &mut [(), ()], &refinement)?;
/// assert!(found.each.iter().all(|(solution, _)| solution.reason.is_converged()));
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Refinement<'r, E: Scalar = f64> {
    /// Updates of the shared steps.
    pub shared: &'r Updates<E>,
    /// Operator of the products after the shared steps.
    pub inner: &'r dyn Operator<E>,
    /// Updates after them.
    pub updates: &'r Updates<E>,
}

/// Solves shifted systems like [`solve_shifted_with`], with criteria for each shift, and separate
/// formats after the shared steps. A shift is left alone once its residual is within its own goal;
/// the shared steps end when that of the smallest shift is.
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{Plain, Refinement, Solve, Stop, StoppingCriterion, Updates, solve_shifts};
///
/// let updates = Updates::new(0.1, Plain);
/// let refinement = Refinement { shared: &updates, inner: &a, updates: &updates };
/// let stops: [&dyn StoppingCriterion; 2] = [&Stop::RelativeToRhs(1e-12), &Stop::RelativeToRhs(1e-4)];
/// let found = solve_shifts(&Solve::new(&rt, &a), &[0.0, 1.0], &[1.0; 50], &stops, &mut [(), ()], &refinement)?;
/// let residual = |i: usize| found.each[i].0.true_residual / found.each[i].0.rhs;
/// assert!(residual(0) <= 1e-12 && residual(1) <= 1e-4);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
///
/// # Errors
/// Those of [`solve_shifted_with`]; [`Error::Parameter`] for another number of criteria than
/// shifts.
pub fn solve_shifts<E: Scalar, L: Logger>(
    problem: &Solve<'_, E>,
    shifts: &[f64],
    b: &[E],
    stops: &[&dyn StoppingCriterion],
    logs: &mut [L],
    refinement: &Refinement<'_, E>,
) -> Result<ShiftedSolutions<E>, Error> {
    if stops.len() != shifts.len() {
        return Err(Error::parameter("criteria", format!("{} for {} shifts", stops.len(), shifts.len())));
    }
    shifted(problem, shifts, b, stops, logs, Some(refinement))
}

fn shifted<E: Scalar, L: Logger>(
    problem: &Solve<'_, E>,
    shifts: &[f64],
    b: &[E],
    stops: &[&dyn StoppingCriterion],
    logs: &mut [L],
    refinement: Option<&Refinement<'_, E>>,
) -> Result<ShiftedSolutions<E>, Error> {
    let begun = std::time::Instant::now();
    check("right-hand side", b, problem.exact.domain().len())?;
    check_shifts(problem, shifts, logs.len())?;
    let least = (0..shifts.len()).min_by(|i, j| shifts[*i].total_cmp(&shifts[*j])).unwrap_or(0);
    let sigma = shifts[least];
    let (base, exact) = (Shifted { a: problem.inner, sigma }, Shifted { a: problem.exact, sigma });
    let above: Vec<f64> = shifts.iter().map(|shift| shift - sigma).collect();
    let setting = Setting { rt: problem.rt, a: &base, m: None, columns: 1 };
    let reliable = refinement.map(|of| Reliable::new(setting, &exact, of.shared)).transpose()?;
    // Like that of `solve`, the system is multiplied by a factor that keeps norms in range.
    let (scale, rhs) = (unit_scale(b), norm(b));
    let times = |v: &[E], factor: f64| v.iter().map(|v| E::from_real(factor) * *v).collect::<Vec<E>>();
    let progress = |elapsed| Progress { steps: 0, elapsed, rhs, first: rhs };
    // Residuals that are replaced on the way are true.
    let reduction = if refinement.is_some() { 0.0 } else { problem.reduction };
    let goal = |stop: &&dyn StoppingCriterion| {
        scale * (BEYOND * stop.goal(&progress(Duration::ZERO)).unwrap_or(0.0)).max(reduction * rhs)
    };
    let mut goals: Vec<f64> = stops.iter().map(goal).collect();
    if let Some(roundoff) = reliable.as_ref().and_then(Reliable::floor) {
        let floor = |goal: f64| scale * rhs * floor(goal / (scale * rhs), roundoff);
        let others = goals.iter_mut().enumerate().filter(|(k, _)| *k != least);
        others.for_each(|(_, goal)| *goal = goal.max(floor(*goal)));
    }
    let stop = stops[least];
    let steps = stop.steps_left(&progress(Duration::ZERO)).unwrap_or(usize::MAX);
    let limit = Limit { goal: goals[least], steps };
    let (mut method, solutions) = recorded(setting, (&above, least), &goals, reliable.as_ref())?;
    method.residual.set_column(problem.rt, 0, &times(b, scale))?;
    let limits = Limits { columns: &[Some(limit)], is_late: &|| stop.is_late(&progress(begun.elapsed())) };
    let shared = method.run(&limits, &mut [&mut Rescaled { log: &mut All(&mut *logs), ratio: scale }])?[0];
    let taken = |numbers: Numbers<E, &[f64]>| {
        (0..shifts.len()).map(|k| numbers.real(Shift::new(k).taken()) as usize).collect()
    };
    let taken = method.numbers.look(problem.rt, |_, numbers| taken(numbers))?.remove(0);
    // The shared space is kept until the last shift has its answer.
    let own = method.kept;
    let mut each = Vec::with_capacity(shifts.len());
    for ((&sigma, x), (stop, log)) in shifts.iter().zip(&solutions).zip(stops.iter().zip(logs)) {
        let mut found = times(&x.column(problem.rt, 0)?, 1.0 / scale);
        if !found.iter().all(|x| x.abs().is_finite()) {
            found.fill(E::default());
        }
        let inner = refinement.map_or(problem.inner, |of| of.inner);
        let (exact, inner) = (Shifted { a: problem.exact, sigma }, Shifted { a: inner, sigma });
        let one = Solve { exact: &exact, inner: &inner, preconditioner: None, ..*problem };
        let rest = Rest { stop: *stop, steps: shared.steps, before: problem.rt.agree_on(begun.elapsed())? };
        let mut log = Onwards { log, before: shared.steps };
        let solution = match refinement {
            None => solve(&one, &Cg::default(), b, &mut found, &rest, &mut log)?,
            Some(of) => {
                let (cg, updates) = (Cg { flexible: true }, of.updates.clone());
                let method = ReliableUpdates { method: cg, exact: &exact as &dyn Operator<E>, updates };
                solve(&Solve { reduction: 0.0, ..one }, &method, b, &mut found, &rest, &mut log)?
            }
        };
        each.push((Solution { kept: solution.kept.and(own), ..solution }, found));
    }
    Ok(ShiftedSolutions { shared: shared.steps, taken, updates: shared.updates, each })
}

/// Solutions for several shifts.
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{ShiftedSolutions, Solve, Stop, solve_shifted};
///
/// let stop = Stop::RelativeToRhs(1e-10);
/// let found: ShiftedSolutions = solve_shifted(&Solve::new(&rt, &a), &[0.0, 1.0], &[1.0; 50], &stop, &mut [(), ()])?;
/// let (solution, x) = &found.each[1];
/// assert!(found.shared > 0 && solution.reason.is_converged() && (x[0] - 0.5).abs() < 1e-9);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ShiftedSolutions<E: Scalar = f64> {
    /// Number of steps in the space that all shifts share.
    pub shared: usize,
    /// Number of shared steps that each shift took part in: until its residual was small enough, or
    /// it was [removed](crate::Stabilisation::removal).
    pub taken: Vec<usize>,
    /// Number of residual replacements in the shared steps.
    pub updates: usize,
    /// Result and `x` of each shift.
    pub each: Vec<(Solution, Vec<E>)>,
}

/// Several loggers that receive the same steps.
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
        return Err(Error::parameter(
            "preconditioner",
            "several shifts share a Krylov space only without a preconditioner",
        ));
    }
    match shifts.iter().find(|shift| !shift.is_finite()) {
        Some(shift) => Err(Error::parameter("shifts", format!("{shift} is not finite"))),
        None if shifts.is_empty() => Err(Error::parameter("shifts", "none is given: use at least one")),
        None => Ok(()),
    }
}

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

/// The residual, the direction of the smallest shift and its product; the direction and the
/// solution of each.
struct Vectors<E: Scalar> {
    r: MultiVector<E>,
    p: MultiVector<E>,
    q: MultiVector<E>,
    /// Directions of each shift; with a buffer also those of the previous steps, in order.
    each: Vec<Vec<MultiVector<E>>>,
    x: Vec<MultiVector<E>>,
}

/// Data that graphs are recorded from.
struct Step<'g, E: Scalar> {
    steps: Steps<'g, E>,
    v: &'g Vectors<E>,
    begun: &'g MultiVector<E>,
    above: &'g [f64],
    /// Required residual of each shift.
    goals: &'g [f64],
    /// The smallest shift.
    least: usize,
    reliable: Option<&'g Reliable<'g, E>>,
    buffer: Option<&'g Buffer<E>>,
}

/// Returns the method, and the solution of each shift.
fn recorded<'r, E: Scalar>(
    setting: Setting<'r, E>,
    (above, least): (&[f64], usize),
    goals: &[f64],
    reliable: Option<&Reliable<'_, E>>,
) -> Result<(Recorded<'r, E>, Vec<MultiVector<E>>), Error> {
    let (rt, space) = (setting.rt, setting.space());
    let stored = || reliable.map_or_else(|| setting.zeros(), |reliable| setting.stored(reliable.storage()));
    let depth = reliable.map_or(1, Reliable::buffer);
    let buffer = Buffer::new(setting, depth, above.len());
    let each = above.iter().map(|_| (0..depth).map(|_| stored()).collect()).collect();
    let x = above.iter().map(|_| setting.zeros()).collect();
    let v = Vectors { r: stored(), p: stored(), q: stored(), each, x };
    let begun = reliable.map_or_else(|| v.r.clone(), |reliable| reliable.residual().clone());
    let numbers = NumbersHandle::new(rt, 1, OF_SHIFTS + above.len() * Shift::NUMBERS);
    let sums = Sums::new(rt, space, 1, R_EACH + above.len());
    let record = |body: &dyn Fn(&Step<'_, E>) -> Result<(), Error>| {
        rt.record(|graph| {
            let steps = Steps::new(rt, graph, space, &numbers).with_sums(&sums);
            let (v, begun, buffer) = (&v, &begun, buffer.as_ref());
            body(&Step { steps, v, begun, above, goals, least, reliable, buffer })
        })
    };
    let begin = record(&|step| step.begin())?;
    let per_graph = steps_per_graph(rt, space, false).next_multiple_of(depth);
    let steps = record(&|step| {
        (0..per_graph).try_for_each(|k| {
            apply_to(&step.steps, setting.a, &v.p, &v.q, Some(PQ))?;
            step.descend(k)?;
            step.direct(k)
        })
    })?;
    let open = NumbersHandle::new(rt, 1, 0);
    let finish = buffer.is_some().then(|| record(&|step| step.add(&step.steps.by(&open), depth - 1)));
    let kept = Kept::vectors::<E>(space, 3 + (1 + depth) * above.len());
    let correction = v.x[least].clone();
    let gate = reliable.map(|reliable| reliable.gate().clone());
    Ok((
        Recorded {
            rt,
            residual: begun,
            correction,
            numbers,
            gate,
            begin,
            steps,
            per_graph,
            finish: finish.transpose()?,
            kept,
        },
        v.x,
    ))
}

impl<E: Scalar> Step<'_, E> {
    /// Records the start of a run: every direction is the residual.
    fn begin(&self) -> Result<(), Error> {
        let (v, steps) = (self.v, &self.steps);
        if self.reliable.is_some() {
            steps.task("multishift.residual").copy(&v.r, self.begun).submit()?;
        }
        for (directions, x) in v.each.iter().zip(&v.x) {
            let task = steps.task("multishift.begin").copy(&directions[0], &v.r).assign(x, []);
            directions[1..].iter().fold(task, |task, other| task.assign(other, [])).submit()?;
        }
        steps.task("multishift.begin").copy(&v.p, &v.r).dot(self.begun, self.begun, RR).submit()?;
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
        self.buffer.map_or(Ok(()), |buffer| buffer.begin(steps))?;
        self.reliable.map_or(Ok(()), |reliable| reliable.begin(steps, RR))
    }

    /// Returns the directions of step `k`.
    fn directions(&self, k: usize) -> impl Iterator<Item = &MultiVector<E>> {
        self.v.each.iter().map(move |each| &each[k % each.len()])
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
        let (v, steps) = (self.v, &self.steps);
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
        match self.reliable {
            None => task.submit(),
            Some(reliable) => {
                let task = task.dot_change(&v.r, CHANGE);
                let is_estimated = reliable.needs_estimate();
                if is_estimated { task.dot(&v.p, &v.p, PP).dot(&v.q, &v.q, QQ) } else { task }.submit()?;
                self.replace(reliable, k)
            }
        }
    }

    /// Records `x += alpha p` for each shift; then the residual of the smallest is replaced if that
    /// is due, and the projection of each direction on it is computed.
    fn replace(&self, reliable: &Reliable<'_, E>, k: usize) -> Result<(), Error> {
        let (v, steps, gated) = (self.v, &self.steps, self.steps.by(reliable.gate()));
        let shifts = (0..v.x.len()).map(Shift::new);
        if let Some(buffer) = self.buffer {
            buffer.keep(steps, k, shifts.map(|shift| (shift.alpha(), Some(shift.done()))).collect())?;
        } else {
            for (shift, (x, p)) in shifts.zip(v.x.iter().zip(self.directions(k))) {
                let task = steps.task("multishift.advance").unless(shift.done());
                task.add(x, plus(shift.alpha(), p)).submit()?;
            }
        }
        reliable.decide(steps, RR, Some(Estimated { pp: PP, qq: QQ, alpha: ALPHA }))?;
        self.add(&gated, k)?;
        reliable.replace(steps, &v.x[self.least], &v.r, RR)?;
        let first = gated.task("multishift.project").dot(&v.r, &v.p, RP);
        self.directions(k).enumerate().fold(first, |task, (k, p)| task.dot(&v.r, p, R_EACH + k)).submit()?;
        let (shifts, projects) = (v.x.len(), reliable.stabilisation().projection);
        gated.update_numbers_of("multishift.projection", steps.numbers(), move |sums, gate, s| {
            let is_new = !gate.is_done();
            let part = |sum: E| if is_new && projects { sum / sums[RR] } else { E::default() };
            s.set_real(IS_NEW, f64::from(u8::from(is_new)));
            s[PROJECTION] = part(sums[RP]);
            (0..shifts).for_each(|k| s[Shift::new(k).projection()] = part(sums[R_EACH + k]));
        })
    }

    /// Adds the kept directions if the buffer is full, for columns that are not done by the numbers
    /// of `open`.
    fn add(&self, open: &Steps<'_, E>, k: usize) -> Result<(), Error> {
        let Some(buffer) = self.buffer else { return Ok(()) };
        buffer.open(open)?;
        buffer.add(&self.steps, k, self.v.x.iter().zip(self.v.each.iter().map(Vec::as_slice)))
    }

    /// Records `beta = rho' / rho`, `p = r + beta p`; for each shift `x += alpha p`, `beta_sigma =
    /// beta (zeta' / zeta)^2`, `p = zeta' r + beta p`. With updates `beta` is by the formula of
    /// Polak and Ribière, and each direction is first made orthogonal to a residual that was
    /// replaced.
    fn direct(&self, k: usize) -> Result<(), Error> {
        let (v, steps, is_reliable) = (self.v, &self.steps, self.reliable.is_some());
        let shifts = v.x.len();
        steps.formulas("multishift.beta", |f| {
            let rho = f.real_sum(RR);
            let gained = if is_reliable {
                let change = f.real_sum(CHANGE);
                let positive = f.constant(0.0).at_most(change).select([change, rho]);
                f.real(IS_NEW).select([rho, positive])
            } else {
                rho
            };
            let beta = gained / f.real(RHO);
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
        let directions = self.directions(k).zip(self.directions(k + 1));
        for (shift, (x, (p, next))) in (0..shifts).map(Shift::new).zip(v.x.iter().zip(directions)) {
            let task = steps.task("multishift.direct").unless(shift.done());
            let task = if is_reliable { task } else { task.add(x, plus(shift.alpha(), p)) };
            task.assign(next, [plus(shift.of_r(), &v.r), plus(shift.beta(), p)]).submit()?;
        }
        steps.task("multishift.base").assign(&v.p, [plus(OF_R, &v.r), plus(BETA, &v.p)]).submit()?;
        steps.formulas("multishift.step", |f| {
            let (norm, one) = (f.real_sum(RR).sqrt(), f.constant(1.0));
            for (shift, goal) in (0..shifts).map(Shift::new).zip(self.goals) {
                let (done, taken) = (f.real(shift.done()), f.real(shift.taken()));
                f.set(shift.taken(), taken + one - done);
                let is_reached = (f.real(shift.zeta()).abs() * norm).at_most(f.constant(*goal));
                f.set(shift.done(), is_reached.select([one, done]));
            }
            f.step(norm);
        })
    }
}
