//! Several multiples of the identity added to one operator, solved at the price of one.

mod criteria;
mod shared;

use std::time::Duration;

use zellige_kernels::RealNumber;

use self::criteria::{Rest, floor};
use self::shared::SharedSpace;
use crate::cg::{Cg, ContinuedCg};
use crate::error::Error;
use crate::inner_solver::{InnerSolver, Limit, Limits, Setting};
use crate::log::{Logger, OffsetLogger, ScaledLogger};
use crate::operator::Operator;
use crate::reduction::{norm, unit_scale};
use crate::reliable::{Reliable, ReliableUpdates, Updates};
use crate::scalar::Scalar;
use crate::shifted::Shifted;
use crate::solve::{BEYOND, Solution, Solve, check, solve};
use crate::stop::{Progress, StoppingCriterion};

/// Solves `(A + sigma_k I) x_k = b` for every shift; `A + sigma_k I` is Hermitian positive
/// definite. The method is conjugate gradients in the one Krylov space that all shifts share
/// (Jegerlehner 1996, section 2.4; van den Eshof and Sleijpen 2004); their residuals are multiples
/// of each other. The products are those of the smallest shift, which needs most steps; a shift
/// that has converged is left alone.
///
/// Each `x_k` is then given to [`solve`] with conjugate gradients for its matrix. That recomputes
/// its residual and continues if the residual is not as small as requested. Steps and inner solves
/// of a solution are those of this second phase: 0 if the shared space was enough. The number of
/// shared steps comes with the result. Each shift has a logger, and all of them are notified of the
/// shared steps with the residual of the smallest shift; those of the others are smaller. There is
/// no preconditioner, since it would have to be the same for all shifts. The shared steps end at
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
/// smallest shift (Clark et al. 2022, section 3.2).
///
/// The residual of the smallest shift is replaced by the recomputed one, and all directions are
/// made orthogonal to it. Residuals and directions may be narrow; solutions are in float64. The
/// shared steps end when the smallest shift is the only one left, or is done. It goes on in the
/// second phase with its own direction, so that its Krylov space is kept; the other shifts start
/// again from their residuals. All of them have updates there as well.
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
/// Those of [`solve_shifted`]; [`Error::Parameter`] for a reduction that is not between 0 and 1,
/// and for a buffer of none or too many directions.
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
/// formats after the shared steps. A shift is left alone once its residual is within its own goal.
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
    let mut space = SharedSpace::new(setting, (&above, least), &goals, reliable.as_ref())?;
    space.method.residual().set_column(problem.rt, 0, &times(b, scale))?;
    let limits = Limits { columns: &[Some(limit)], is_late: &|| stop.is_late(&progress(begun.elapsed())) };
    let mut log = All(&mut *logs);
    let shared = space.method.solve(&limits, &mut [&mut ScaledLogger { log: &mut log, ratio: scale }])?[0];
    let taken = space.taken(problem.rt)?;
    // Steps that broke down leave no direction to go on with.
    let keeps_direction = space.others_are_done(problem.rt, least)?;
    // The shared space is kept until the last shift has its answer.
    let own = space.method.memory();
    let mut each = Vec::with_capacity(shifts.len());
    let solutions = shifts.iter().zip(&space.solutions).enumerate();
    for ((k, (&sigma, x)), (stop, log)) in solutions.zip(stops.iter().zip(logs)) {
        let mut found = times(&x.column(problem.rt, 0)?, 1.0 / scale);
        let is_finite = found.iter().all(|x| x.abs().value().is_finite());
        if !is_finite {
            found.fill(E::default());
        }
        let inner = refinement.map_or(problem.inner, |of| of.inner);
        let (exact, inner) = (Shifted { a: problem.exact, sigma }, Shifted { a: inner, sigma });
        let one = Solve { exact: &exact, inner: &inner, preconditioner: None, ..*problem };
        let rest = Rest { stop: *stop, steps: shared.steps, before: problem.rt.agree_on(begun.elapsed())? };
        let mut log = OffsetLogger { log, before: shared.steps };
        let solution = match refinement {
            None => solve(&one, &Cg::default(), b, &mut found, &rest, &mut log)?,
            Some(of) => {
                let (updates, one) = (of.updates.clone(), Solve { reduction: 0.0, ..one });
                if k == least && keeps_direction && is_finite {
                    let method = ContinuedCg { direction: &space.direction };
                    let method = ReliableUpdates { method, exact: &exact, updates };
                    solve(&one, &method, b, &mut found, &rest, &mut log)?
                } else {
                    let method = ReliableUpdates { method: Cg { flexible: true }, exact: &exact, updates };
                    solve(&one, &method, b, &mut found, &rest, &mut log)?
                }
            }
        };
        each.push((Solution { memory: solution.memory.and(own), ..solution }, found));
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
