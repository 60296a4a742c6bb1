//! Running a recorded step again and again, with the host looking now and then.

use std::cell::Cell;
use std::time::{Duration, Instant};

use zellige_runtime::{Bindings, Graph, Runtime};

use super::log::Logger;
use super::scalars::{Scalars, State};
use super::steps::ScalarsHandle;
use crate::error::Error;

/// How long steps run before the host looks at them: long beside the time it takes, short beside a user's patience.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// What a solver may do until it comes back.
pub struct Limits<'l> {
    /// The residual norm that is small enough.
    pub goal: f64,
    /// How many steps may be made at most.
    pub steps: usize,
    /// True once the time is up.
    pub is_late: &'l dyn Fn() -> bool,
}

/// How a solver came back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ended {
    /// Why; [`State::Running`] if the time was up.
    pub state: State,
    /// Steps it has made.
    pub steps: usize,
    /// The norm of the residual that it keeps.
    pub residual: f64,
    /// The norm of the residual that it began with, where it measures residuals otherwise than the caller.
    pub begun: Option<f64>,
}

/// Begins a run: the solver's numbers anew, then the graph that everything begins with.
///
/// # Errors
/// What went wrong in a task.
pub fn begin(rt: &Runtime, graph: &Graph, scalars: &ScalarsHandle, limits: &Limits<'_>) -> Result<(), Error> {
    Scalars::new(rt.write(scalars)?.as_mut_slice()).begin(limits.goal, limits.steps);
    rt.replay(&Bindings::recorded(graph))?;
    Ok(())
}

/// Replays `graph` until the solver's numbers say that it is done, or the time is up.
///
/// # Errors
/// What went wrong in a task.
pub fn run(
    rt: &Runtime,
    graph: &Graph,
    scalars: &ScalarsHandle,
    limits: &Limits<'_>,
    log: &mut dyn Logger,
) -> Result<Ended, Error> {
    let step = Bindings::recorded(graph);
    run_each(rt, scalars, limits, log, Scalars::REMEMBERED, &mut |_, _| {
        rt.replay(&step)?;
        Ok(())
    })
}

/// Submits step after step, where they are not alike: `submit` is told how many have been submitted before, and the last residual that is known,
/// which may be `most_ahead` steps old. A method whose steps go by that residual has to say 1: answers would depend on the host's speed.
///
/// # Errors
/// Those of `submit`; what went wrong in a task.
pub fn run_each(
    rt: &Runtime,
    scalars: &ScalarsHandle,
    limits: &Limits<'_>,
    log: &mut dyn Logger,
    most_ahead: usize,
    submit: &mut dyn FnMut(usize, f64) -> Result<(), Error>,
) -> Result<Ended, Error> {
    let (mut submitted, mut seen) = (0, 0);
    let residual = Cell::new(0.0);
    let look = || {
        let ended = look(rt, scalars, &mut seen, log)?;
        residual.set(ended.residual);
        Ok(ended)
    };
    let is_over = |ended: &Ended| ended.state != State::Running;
    run_while(look, is_over, limits.is_late, most_ahead, || {
        submit(submitted, residual.get())?;
        submitted += 1;
        Ok(())
    })
}

/// Submits steps until a look at them says that it is over, or the time is up; the last look.
///
/// # Errors
/// Those of `submit` and `look`.
pub(super) fn run_while<E>(
    mut look: impl FnMut() -> Result<E, Error>,
    is_over: impl Fn(&E) -> bool,
    is_late: &dyn Fn() -> bool,
    most_ahead: usize,
    mut submit: impl FnMut() -> Result<(), Error>,
) -> Result<E, Error> {
    let (mut ahead, mut ended) = (1, look()?);
    while !is_over(&ended) {
        let start = Instant::now();
        for _ in 0..ahead {
            submit()?;
        }
        ended = look()?;
        if is_late() {
            break;
        }
        let is_soon = start.elapsed() < BETWEEN_LOOKS / 2;
        ahead = if is_soon { (2 * ahead).min(most_ahead) } else { (ahead / 2).max(1) };
    }
    Ok(ended)
}

/// Waits for what has been submitted, and tells the logger of the steps after `seen`.
///
/// # Errors
/// What went wrong in a task.
pub fn look(
    rt: &Runtime,
    scalars: &ScalarsHandle,
    seen: &mut usize,
    log: &mut dyn Logger,
) -> Result<Ended, Error> {
    let guard = rt.read(scalars)?;
    let scalars = Scalars::new(guard.as_slice());
    scalars.residuals_from(*seen).for_each(|residual| log.step(residual));
    *seen = scalars.steps();
    let (state, steps, residual) = (scalars.state(), scalars.steps(), scalars.residual());
    Ok(Ended { state, steps, residual, begun: None })
}
