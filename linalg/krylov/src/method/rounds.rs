//! Running a recorded step again and again, with the host looking now and then.

use std::time::{Duration, Instant};

use crate::error::Error;
use crate::executor::{Executor, Replay};
use crate::log::Logger;
use crate::numbers::{NumbersHandle, REMEMBERED, State};
use crate::reliable::REPLACED;
use crate::scalar::Scalar;
use crate::space::Space;
use crate::vector::MultiVector;
use crate::{Correction, Kept};

/// How long steps run before the host looks at them: long beside the time it takes, short beside a user's patience.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Steps in the recorded graph of a method, an even number. Handles pass from one replay to the next one by one: with one step in each that is a
/// good part of a short step's time. Steps with a preconditioner are longer, and take longer to record. A GPU launches a graph at once, and its steps are the
/// shortest: some 0.2 ms where handing over 400 operands takes 2 ms.
pub fn steps_per_graph(rt: &dyn Executor, space: &Space, is_preconditioned: bool) -> usize {
    match is_preconditioned {
        _ if rt.goes_at_once(space.bytes(1)) => 32,
        true => 2,
        false => 4,
    }
}

/// What a run may do for a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The residual norm that is small enough.
    pub goal: f64,
    /// How many steps may be made at most.
    pub steps: usize,
}

/// What a run may do until it comes back.
#[derive(Clone, Copy)]
pub struct Limits<'l> {
    /// For each column; `None`: it has nothing to do.
    pub columns: &'l [Option<Limit>],
    /// True once the time is up.
    pub is_late: &'l dyn Fn() -> bool,
}

/// How a run ended for a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ended {
    /// Why; [`State::Running`] if the time was up.
    pub state: State,
    /// Steps it has made.
    pub steps: usize,
    /// The norm of the residual that it keeps.
    pub residual: f64,
    /// Residuals that were replaced by true ones on the way.
    pub updates: usize,
    /// The norm of the residual that it began with, where it measures residuals otherwise than the caller.
    pub begun: Option<f64>,
}

/// Begins a run: the method's numbers anew, then the graph that everything begins with.
///
/// # Errors
/// What went wrong in a task.
pub fn begin<E: Scalar>(
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

/// A method whose steps are a recorded graph: what most methods make themselves ready as.
pub struct Recorded<'r, E: Scalar> {
    /// Runs the graphs.
    pub rt: &'r dyn Executor,
    /// `r`; see [`Correction::residual`].
    pub residual: MultiVector<E>,
    /// `d`; see [`Correction::correction`].
    pub correction: MultiVector<E>,
    /// The method's scalars.
    pub numbers: NumbersHandle<E>,
    /// Says how often its residual was replaced, where it has [reliable updates](crate::ReliableUpdates).
    pub gate: Option<NumbersHandle<E>>,
    /// What a run begins with.
    pub begin: Replay<'r>,
    /// Some [steps](steps_per_graph).
    pub steps: Replay<'r>,
    /// How many.
    pub per_graph: usize,
    /// What it ends with, if anything.
    pub finish: Option<Replay<'r>>,
    /// What the vectors take.
    pub kept: Kept,
}

impl<E: Scalar> Correction<E> for Recorded<'_, E> {
    fn residual(&self) -> &MultiVector<E> {
        &self.residual
    }

    fn correction(&self) -> &MultiVector<E> {
        &self.correction
    }

    fn kept(&self) -> Kept {
        self.kept
    }

    fn run(&mut self, limits: &Limits<'_>, logs: &mut [&mut dyn Logger]) -> Result<Vec<Ended>, Error> {
        let Recorded { rt, ref numbers, ref begin, ref steps, per_graph, ref finish, .. } = *self;
        self::begin(rt, begin, numbers, limits)?;
        let mut ended = run_each(rt, numbers, limits, logs, REMEMBERED / per_graph, &mut |_, _| steps.run())?;
        if let Some(gate) = &self.gate {
            let updates = gate.look(rt, |_, gate| gate.real(REPLACED) as usize)?;
            ended.iter_mut().zip(updates).for_each(|(ended, updates)| ended.updates = updates);
        }
        if let Some(finish) = finish {
            finish.run()?;
        }
        Ok(ended)
    }
}

/// Submits step after step, where they are not alike: `submit` is told how many have been submitted before, and the last residual of the first column
/// that is known, which may be `most_ahead` steps old. A method whose steps go by that residual has to say 1: answers would depend on the host's speed.
///
/// # Errors
/// Those of `submit`; what went wrong in a task.
pub fn run_each<E: Scalar>(
    rt: &dyn Executor,
    numbers: &NumbersHandle<E>,
    limits: &Limits<'_>,
    logs: &mut [&mut dyn Logger],
    most_ahead: usize,
    submit: &mut dyn FnMut(usize, f64) -> Result<(), Error>,
) -> Result<Vec<Ended>, Error> {
    let mut seen = vec![0; numbers.columns()];
    let mut look = || {
        numbers.look(rt, |c, numbers| {
            numbers.residuals_from(seen[c]).for_each(|residual| logs[c].step(residual));
            seen[c] = numbers.steps();
            let (state, steps, residual) = (numbers.state(), numbers.steps(), numbers.residual());
            Ended { state, steps, residual, updates: 0, begun: None }
        })
    };
    let (mut ahead, mut submitted, mut ended) = (1, 0, look()?);
    while ended.iter().any(|ended| ended.state == State::Running) {
        let start = Instant::now();
        for _ in 0..ahead {
            submit(submitted, ended[0].residual)?;
            submitted += 1;
        }
        ended = look()?;
        let [is_late, is_soon] = agree(rt, [(limits.is_late)(), start.elapsed() < BETWEEN_LOOKS / 2])?;
        if is_late {
            break;
        }
        ahead = if is_soon { (2 * ahead).min(most_ahead) } else { (ahead / 2).max(1) };
    }
    Ok(ended)
}

/// What the first rank's clock says.
fn agree(rt: &dyn Executor, [one, other]: [bool; 2]) -> Result<[bool; 2], Error> {
    let agreed = rt.agree(u64::from(one) | (u64::from(other) << 1))?;
    Ok([agreed & 1 != 0, agreed & 2 != 0])
}
