//! The outer iteration around every method: recomputed residuals, corrections, and when to stop.

mod column;
mod outer;
mod range;
mod system;

pub(crate) use column::BEYOND;
pub use system::{Reason, Solution, Solve};

use std::borrow::Cow;
use std::time::Instant;

use zellige_kernels::RealNumber;

use crate::cg::Cg;
use crate::error::Error;
use crate::executor::Executor;
use crate::inner_solver::{Limit, Limits, Method, Setting};
use crate::log::{Logger, ScaledLogger};
use crate::operator::Operator;
use crate::reduction::norm;
use crate::scalar::Scalar;
use crate::stop::{Progress, Stop, StoppingCriterion};
use column::Column;
use outer::{Measured, Outer};
use range::{TimesPower, exponent, times_power};

/// Solves `A x = b` from the given `x` (the initial guess), and leaves the best answer in it.
///
/// If `b` is far from 1, the system is solved for `b` and `x` times a power of two, so that
/// right-hand sides of any size are supported. If a solution has been rounded to subnormal numbers,
/// its residual is computed again and decides ([`Reason::OutOfRange`]). Residuals that methods see
/// are multiplied by a further power of two if their norms need it. Criteria, logs and the
/// [`Solution`] are independent of these scales. If `b` is zero and no criterion allows a residual,
/// the solution is zero.
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{Cg, Solve, Stop, solve};
///
/// let mut x = vec![0.0; 50]; // the initial guess, and then the answer
/// let found = solve(&Solve::new(&rt, &a), &Cg::default(), &[1.0; 50], &mut x, &Stop::RelativeToRhs(1e-10), &mut ())?;
/// assert!(found.reason.is_converged() && (x[9] - 0.1).abs() < 1e-10);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
///
/// # Errors
/// [`Error::Shape`] for vectors of other lengths, [`Error::Unsolvable`] for non-finite numbers in
/// the right-hand side or the guess; those of [`Method::prepare`] and of tasks.
pub fn solve<E: Scalar>(
    problem: &Solve<'_, E>,
    method: &dyn Method<E>,
    b: &[E],
    x: &mut [E],
    stop: &(impl StoppingCriterion + ?Sized),
    log: &mut dyn Logger,
) -> Result<Solution, Error> {
    let solutions = solve_columns(problem, method, &[b], &mut [x], &[&stop], &mut [log])?;
    Ok(solutions[0])
}

/// Solves `A x = b` for a Hermitian positive definite operator by conjugate gradients, until the
/// recomputed residual is at most `tolerance` relative to `b`.
///
/// ```
/// use zellige_krylov::{Space, cg, from_fn};
/// use zellige_runtime::Runtime;
///
/// let rt = Runtime::new()?;
/// let a = from_fn(&Space::new(100, 0), |x: &[f64], y: &mut [f64]| (0..100).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// let x = cg(&rt, &a, &[1.0; 100], 1e-10)?;
/// assert!((x[3] - 0.25).abs() < 1e-8);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
///
/// # Errors
/// Those of [`solve`]; [`Error::Unsolvable`] with the reason and the residual if the tolerance is
/// not reached.
pub fn cg<E: Scalar>(
    rt: &dyn Executor,
    a: &dyn Operator<E>,
    b: &[E],
    tolerance: f64,
) -> Result<Vec<E>, Error> {
    let mut x = vec![E::default(); b.len()];
    let stop = [Stop::RelativeToRhs(tolerance), Stop::Steps(10 * b.len().max(100))];
    let found = solve(&Solve::new(rt, a), &Cg::default(), b, &mut x, &stop[..], &mut ())?;
    match found.reason {
        Reason::Converged => Ok(x),
        reason => {
            let (steps, residual) = (found.steps, found.true_residual / found.rhs);
            let problem = format!(
                "conjugate gradients ended after {steps} steps at a relative residual of {residual:.1e}: {}",
                reason.name()
            );
            Err(Error::unsolvable("system", problem))
        }
    }
}

/// Solves `A x_k = b_k` for several right-hand sides at once, each with its own criteria and
/// logger: products read the matrix once for all of them. Every answer is bitwise identical to that
/// of a single solve. A method that does not [take columns](Method::takes_columns) solves for one
/// after the other.
///
/// ```
/// use zellige_krylov::{Cg, History, Logger, Solve, Space, Stop, StoppingCriterion, from_fn, solve_columns};
/// use zellige_runtime::Runtime;
///
/// let (rt, space) = (Runtime::new()?, Space::new(50, 0));
/// let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// let b = [vec![1.0; 50], vec![2.0; 50]];
/// let (mut x, mut logs) = ([vec![0.0; 50], vec![0.0; 50]], [History::default(), History::default()]);
/// let stops: [&dyn StoppingCriterion; 2] = [&Stop::RelativeToRhs(1e-10), &Stop::RelativeToRhs(1e-6)];
/// let [first, second] = &mut x;
/// let [log, other] = &mut logs;
/// let mut told: [&mut dyn Logger; 2] = [log, other];
/// let found = solve_columns(&Solve::new(&rt, &a), &Cg::default(), &[&b[0], &b[1]], &mut [first, second], &stops, &mut told)?;
/// assert!(found[0].steps > found[1].steps && logs[1].steps.len() == found[1].steps);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
///
/// # Errors
/// [`Error::Shape`] unless all lists have the same length; those of [`solve`].
pub fn solve_columns<E: Scalar>(
    problem: &Solve<'_, E>,
    method: &dyn Method<E>,
    b: &[&[E]],
    x: &mut [&mut [E]],
    stops: &[&dyn StoppingCriterion],
    logs: &mut [&mut dyn Logger],
) -> Result<Vec<Solution>, Error> {
    let counts = [x.len(), stops.len(), logs.len()];
    if b.is_empty() || counts.iter().any(|count| *count != b.len()) {
        let problem = format!("{} with {counts:?} guesses, criteria and loggers", b.len());
        return Err(Error::shape("right-hand sides", problem));
    }
    if b.len() > 1 && !method.takes_columns() {
        let each = b.chunks(1).zip(x.chunks_mut(1)).zip(stops.chunks(1).zip(logs.chunks_mut(1)));
        let one = |((b, x), (stops, logs))| solve_columns(problem, method, b, x, stops, logs);
        return each.map(one).map(|solutions| solutions.map(|one: Vec<Solution>| one[0])).collect();
    }
    let Solve { rt, inner, preconditioner, .. } = *problem;
    let rows = problem.exact.domain().len();
    b.iter().try_for_each(|b| check("right-hand side", b, rows))?;
    x.iter().try_for_each(|x| check("initial guess", x, rows))?;
    let mut method = method.prepare(Setting { rt, a: inner, m: preconditioner, columns: b.len() })?;
    let begun = Instant::now();
    let each = b.iter().zip(&*x);
    let exponents: Vec<i32> = each.map(|(b, x)| exponent(problem, b, x)).collect::<Result<_, _>>()?;
    let rhs: Vec<Cow<'_, [E]>> = b.iter().zip(&exponents).map(|(b, e)| times_power(b, *e)).collect();
    let guesses: Vec<Cow<'_, [E]>> = x.iter().zip(&exponents).map(|(x, e)| times_power(x, *e)).collect();
    let mut outer = Outer::new(problem, [method.residual(), method.correction()], &rhs, &guesses)?;
    drop(guesses);
    let memory = method.memory().and(outer.memory);
    let first = outer.measure(Measured::Guess, &vec![true; b.len()])?;
    let column =
        |((b, first), exponent): ((&Cow<'_, [E]>, f64), &i32)| Column::new(norm(b), first, memory, *exponent);
    let mut columns: Vec<Column> = rhs.iter().zip(first).zip(&exponents).map(column).collect();
    let mut logs = TimesPower::each(logs, &exponents);
    let mut logs: Vec<&mut dyn Logger> = logs.iter_mut().map(|log| log as &mut dyn Logger).collect();
    columns.iter().zip(&mut logs).for_each(|(column, log)| log.true_residual(0, column.first));
    loop {
        let elapsed = rt.agree_on(begun.elapsed())?;
        let scales = outer.scales.clone();
        let next = |((column, stop), scale): ((&mut Column, &&dyn StoppingCriterion), &f64)| {
            let limit = column.next(*stop, column.progress(elapsed), problem.reduction);
            limit.map(|limit| Limit { goal: scale * limit.goal, ..limit })
        };
        let limits: Vec<Option<Limit>> = columns.iter_mut().zip(stops).zip(&scales).map(next).collect();
        if limits.iter().all(Option::is_none) {
            break;
        }
        let is_late = || {
            let mut each = columns.iter().zip(stops);
            each.any(|(column, stop)| {
                stop.is_late(&Progress { steps: 0, ..column.progress(begun.elapsed()) })
            })
        };
        let mut scaled = ScaledLogger::each(&mut logs, &scales);
        let mut scaled: Vec<&mut dyn Logger> = scaled.iter_mut().map(|log| log as &mut dyn Logger).collect();
        let results = method.solve(&Limits { columns: &limits, is_late: &is_late }, &mut scaled)?;
        outer.absorb(&mut columns, &limits, &results, &mut logs)?;
    }
    let mut rounded = Vec::with_capacity(x.len());
    for (c, (x, column)) in x.iter_mut().zip(&mut columns).enumerate() {
        let best = if column.is_zero { vec![E::default(); rows] } else { outer.best.column(rt, c)? };
        rounded.push(column.round(&best, x));
    }
    if rounded.iter().any(Option::is_some) {
        // The written solution decides, after rounding.
        let is_rounded: Vec<bool> = rounded.iter().map(Option::is_some).collect();
        let written =
            rounded.into_iter().zip(&rhs).map(|(x, b)| x.unwrap_or_else(|| vec![E::default(); b.len()]));
        let written: Vec<Cow<'_, [E]>> = written.map(Cow::Owned).collect();
        let mut outer = Outer::new(problem, [method.residual(), method.correction()], &rhs, &written)?;
        let residuals = outer.measure(Measured::Guess, &is_rounded)?;
        let each = columns.iter_mut().zip(residuals).zip(is_rounded).filter(|(_, is_rounded)| *is_rounded);
        each.for_each(|((column, residual), _)| column.judge_rounded(residual));
    }
    Ok(columns.into_iter().map(Column::solution).collect())
}

/// Refuses vectors of other lengths, and non-finite numbers.
pub(crate) fn check<E: Scalar>(what: &'static str, vector: &[E], rows: usize) -> Result<(), Error> {
    if vector.len() != rows {
        return Err(Error::shape(what, format!("{} elements for {rows} rows", vector.len())));
    }
    match vector.iter().position(|x| !x.abs().value().is_finite()) {
        Some(at) => Err(Error::unsolvable(what, format!("element {} is {:?}", at + 1, vector[at]))),
        None => Ok(()),
    }
}
