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

/// How long steps run before the host looks at them: long beside the time it takes, short beside a
/// user's patience.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Steps in the recorded graph of a method, an even number. Handles pass from one replay to the
/// next one by one: with one step in each that is a good part of a short step's time. Steps with a
/// preconditioner are longer, and take longer to record. A GPU launches a graph at once, and its
/// steps are the shortest: on an H200 the host took 2 ms for a graph of four, and the GPU 0.8.
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
    /// The norm of the residual that it began with, where it measures residuals otherwise than the
    /// caller.
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
    /// Says how often its residual was replaced, where it has [reliable
    /// updates](crate::ReliableUpdates).
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
        let copies = match rt.goes_at_once(self.residual.space().bytes(1)) {
            true => Some(Copies::new(rt, numbers)?),
            false => None,
        };
        let most_steps = limits.columns.iter().flatten().map(|limit| limit.steps).max().unwrap_or(0);
        let ahead = Ahead { most: REMEMBERED / per_graph, in_all: most_steps.div_ceil(per_graph), copies };
        let mut ended = run_looking(rt, numbers, ahead, limits, logs, &mut |_, _| steps.run())?;
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

/// Submits step after step, where they are not alike: `submit` is told how many have been submitted
/// before, and the last residual of the first column that is known, which may be `most_ahead` steps
/// old. A method whose steps go by that residual has to say 1: answers would depend on the host's
/// speed.
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
    let ahead = Ahead { most: most_ahead, in_all: usize::MAX, copies: None };
    run_looking(rt, numbers, ahead, limits, logs, submit)
}

/// What is submitted before the host looks.
struct Ahead<'r, E: Scalar> {
    /// So many submissions at most.
    most: usize,
    /// Those after which every column has made its steps, or nearly.
    in_all: usize,
    /// With copies the host looks at those of the steps before the last ones: a GPU does not wait
    /// until it has looked.
    copies: Option<Copies<'r, E>>,
}

/// As [`run_each`].
fn run_looking<E: Scalar>(
    rt: &dyn Executor,
    numbers: &NumbersHandle<E>,
    Ahead { most, in_all, mut copies }: Ahead<'_, E>,
    limits: &Limits<'_>,
    logs: &mut [&mut dyn Logger],
    submit: &mut dyn FnMut(usize, f64) -> Result<(), Error>,
) -> Result<Vec<Ended>, Error> {
    let mut seen = vec![0; numbers.columns()];
    let mut look = |numbers: &NumbersHandle<E>| {
        numbers.look(rt, |c, numbers| {
            numbers.residuals_from(seen[c]).for_each(|residual| logs[c].step(residual));
            seen[c] = numbers.steps();
            let (state, steps, residual) = (numbers.state(), numbers.steps(), numbers.residual());
            Ended { state, steps, residual, updates: 0, begun: None }
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
        let [is_late, is_soon] = agree(rt, [(limits.is_late)(), start.elapsed() < BETWEEN_LOOKS / 2])?;
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

    /// Has one made behind all that was submitted; the one before it, if there is one.
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

/// What the first rank's clock says.
fn agree(rt: &dyn Executor, [one, other]: [bool; 2]) -> Result<[bool; 2], Error> {
    let agreed = rt.agree(u64::from(one) | (u64::from(other) << 1))?;
    Ok([agreed & 1 != 0, agreed & 2 != 0])
}
