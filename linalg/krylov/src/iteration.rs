//! Iteration driver: replays a recorded step until all columns are done, and checks them from time
//! to time.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::executor::{Executor, Replay};
use crate::inner_solver::{InnerResult, InnerSolver, Limits, MemoryUse};
use crate::log::Logger;
use crate::numbers::{NumbersHandle, REMEMBERED, State};
use crate::scalar::Scalar;
use crate::space::Space;
use crate::vector::MultiVector;

/// Interval between two status checks by the host: long compared with the time of a check, short
/// for a user.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Returns the number of steps in the recorded graph of a method, an even number.
///
/// Handles pass from one replay to the next individually: with one step in each graph that takes a
/// large part of a short step's time. Steps with a preconditioner are longer, and take longer to
/// record. A GPU launches a graph as a whole, and its steps are the shortest: on an H200 the host
/// took 2 ms for a graph of four, and the GPU 0.8.
pub fn steps_per_graph<E: Scalar>(rt: &dyn Executor, space: &Space, is_preconditioned: bool) -> usize {
    match is_preconditioned {
        _ if E::HAS_KERNELS && rt.goes_at_once(space.bytes(1)) => 32,
        true => 2,
        false => 4,
    }
}

/// Begins an inner solve: resets the method's numbers, then replays the initial graph.
///
/// # Errors
/// Errors of tasks.
pub fn begin_solve<E: Scalar>(
    rt: &dyn Executor,
    graph: &Replay<'_>,
    numbers: &NumbersHandle<E>,
    limits: &Limits<'_>,
) -> Result<(), Error> {
    let limits = limits.columns.to_vec();
    numbers.change(rt, move |c, mut numbers| match limits[c] {
        Some(limit) => numbers.begin(limit.goal, limit.steps),
        None => {
            numbers.begin(0.0, 0);
            numbers.end(State::Limited);
        }
    })?;
    graph.run()
}

/// A method whose steps are a recorded graph, the usual result of preparing a method.
pub struct Recorded<'r, E: Scalar> {
    /// Runs the graphs.
    pub rt: &'r dyn Executor,
    /// `r`; see [`InnerSolver::residual`].
    pub residual: MultiVector<E>,
    /// `d`; see [`InnerSolver::correction`].
    pub correction: MultiVector<E>,
    /// The method's scalars.
    pub numbers: NumbersHandle<E>,
    /// The scalar that counts residual replacements, if it has [reliable
    /// updates](crate::ReliableUpdates): numbers, and its index among them.
    pub replacements: Option<(NumbersHandle<E>, usize)>,
    /// Initial graph of a solve.
    pub begin: Replay<'r>,
    /// Some [steps](steps_per_graph).
    pub steps: Replay<'r>,
    /// Number of steps in the graph.
    pub per_graph: usize,
    /// Final graph of a solve, if there is one.
    pub finish: Option<Replay<'r>>,
    /// Memory of the vectors.
    pub memory: MemoryUse,
}

impl<E: Scalar> InnerSolver<E> for Recorded<'_, E> {
    fn residual(&self) -> &MultiVector<E> {
        &self.residual
    }

    fn correction(&self) -> &MultiVector<E> {
        &self.correction
    }

    fn memory(&self) -> MemoryUse {
        self.memory
    }

    fn solve(
        &mut self,
        limits: &Limits<'_>,
        logs: &mut [&mut dyn Logger],
    ) -> Result<Vec<InnerResult>, Error> {
        let Recorded { rt, ref numbers, ref begin, ref steps, per_graph, ref finish, .. } = *self;
        begin_solve(rt, begin, numbers, limits)?;
        let copies = match rt.goes_at_once(self.residual.space().bytes(1)) {
            true => Some(Copies::new(rt, numbers)?),
            false => None,
        };
        let most_steps = limits.columns.iter().flatten().map(|limit| limit.steps).max().unwrap_or(0);
        let ahead = Ahead { most: REMEMBERED / per_graph, in_all: most_steps.div_ceil(per_graph), copies };
        let mut ended = drive(rt, numbers, ahead, limits, logs, &mut |_, _| steps.run())?;
        if let Some((numbers, count)) = &self.replacements {
            let updates = numbers.look(rt, |_, numbers| numbers.value(*count) as usize)?;
            ended.iter_mut().zip(updates).for_each(|(ended, updates)| ended.updates = updates);
        }
        if let Some(finish) = finish {
            finish.run()?;
        }
        Ok(ended)
    }
}

/// Submits step after step, for methods whose steps differ.
///
/// `submit` receives the number of steps submitted before, and the last known residual of the first
/// column, which may be `most_ahead` steps old. A method whose steps depend on that residual has to
/// pass 1: otherwise results would depend on the host's speed.
///
/// # Errors
/// Those of `submit`; errors of tasks.
pub fn iterate<E: Scalar>(
    rt: &dyn Executor,
    numbers: &NumbersHandle<E>,
    limits: &Limits<'_>,
    logs: &mut [&mut dyn Logger],
    most_ahead: usize,
    submit: &mut dyn FnMut(usize, f64) -> Result<(), Error>,
) -> Result<Vec<InnerResult>, Error> {
    let ahead = Ahead { most: most_ahead, in_all: usize::MAX, copies: None };
    drive(rt, numbers, ahead, limits, logs, submit)
}

/// Limits of the submissions before the host checks the status.
struct Ahead<'r, E: Scalar> {
    /// Maximum number of submissions.
    most: usize,
    /// Number of submissions after which every column has made its steps, or nearly.
    in_all: usize,
    /// With copies the host checks those of the steps before the last ones, so that a GPU does not
    /// wait for the check.
    copies: Option<Copies<'r, E>>,
}

/// Runs steps like [`iterate`], with the limits of `Ahead`.
fn drive<E: Scalar>(
    rt: &dyn Executor,
    numbers: &NumbersHandle<E>,
    Ahead { most, in_all, mut copies }: Ahead<'_, E>,
    limits: &Limits<'_>,
    logs: &mut [&mut dyn Logger],
    submit: &mut dyn FnMut(usize, f64) -> Result<(), Error>,
) -> Result<Vec<InnerResult>, Error> {
    let mut seen = vec![0; numbers.columns()];
    let mut look = |numbers: &NumbersHandle<E>| {
        numbers.look(rt, |c, numbers| {
            numbers.residuals_from(seen[c]).for_each(|residual| logs[c].step(residual));
            seen[c] = numbers.steps();
            let (state, steps, residual) = (numbers.state(), numbers.steps(), numbers.residual());
            InnerResult { state, steps, residual, updates: 0, begun: None }
        })
    };
    let (mut ahead, mut submitted, mut ended) = (1, 0, look(numbers)?);
    while ended.iter().any(|ended| ended.state == State::Running) {
        let start = Instant::now();
        for _ in 0..ahead.min(in_all.saturating_sub(submitted).max(1)) {
            submit(submitted, ended[0].residual)?;
            submitted += 1;
        }
        match copies.as_mut().filter(|_| submitted < in_all) {
            None => ended = look(numbers)?,
            Some(copies) => {
                if let Some(before) = copies.next()? {
                    ended = look(before)?;
                }
            }
        }
        let [is_late, is_soon] = agree(rt, [(limits.is_late)(), start.elapsed() < CHECK_INTERVAL / 2])?;
        if is_late {
            break;
        }
        ahead = if is_soon { (2 * ahead).min(most) } else { (ahead / 2).max(1) };
    }
    if copies.is_some() {
        ended = look(numbers)?;
    }
    Ok(ended)
}

/// Copies of a method's numbers, made in turn.
struct Copies<'r, E: Scalar> {
    copies: [(NumbersHandle<E>, Replay<'r>); 2],
    made: usize,
}

impl<'r, E: Scalar> Copies<'r, E> {
    fn new(rt: &'r dyn Executor, numbers: &NumbersHandle<E>) -> Result<Self, Error> {
        Ok(Copies { copies: [numbers.copied(rt)?, numbers.copied(rt)?], made: 0 })
    }

    /// Enqueues a copy after everything that was submitted; returns the previous one, if there is
    /// one.
    fn next(&mut self) -> Result<Option<&NumbersHandle<E>>, Error> {
        let [(_, graph), (before, _)] = match self.made % 2 {
            0 => [&self.copies[0], &self.copies[1]],
            _ => [&self.copies[1], &self.copies[0]],
        };
        graph.run()?;
        self.made += 1;
        Ok((self.made > 1).then_some(before))
    }
}

/// Returns the decision by the first rank's clock.
fn agree(rt: &dyn Executor, [one, other]: [bool; 2]) -> Result<[bool; 2], Error> {
    let agreed = rt.agree(u64::from(one) | (u64::from(other) << 1))?;
    Ok([agreed & 1 != 0, agreed & 2 != 0])
}
