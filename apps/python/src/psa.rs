//! Pulse-shape analysis: positions of events in a crystal.

use std::sync::Arc;
use std::time::Instant;

use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use zellige_psa::Error;
use zellige_psa::basis::{Basis, Sampling, SegmentBasis};
use zellige_psa::channels::{CHANNELS, Segment};
use zellige_psa::pipeline::Input;
use zellige_psa::search::{
    Answer, Batching, Event, EventPipeline, Flags, LocatedHit, Match, Method, PairPlan, Plan, Prepared,
    Rules, SegmentEvents,
};
use zellige_psa::trust::{self, Searches};
use zellige_runtime::{Runtime, Submit, write};

use crate::{error, on_runtime, stochastic};

/// Flags of answers.
const FLAGS: [Flags; 7] = [
    Flags::CERTIFIED,
    Flags::FELL_BACK,
    Flags::COARSE_ONLY,
    Flags::TIE,
    Flags::TOO_MANY_SEGMENTS,
    Flags::PAIR,
    Flags::SATURATED,
];

/// Maximum number of a crystal's events in flight, so that they need not all be in memory twice.
const MOST_PENDING: usize = 4096;

/// Search method for a segment, in the terms of the options of `zellige psa run`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Options {
    method: String,
    p: f64,
    precision: String,
    lut: String,
    screen: String,
    top: usize,
    cells: usize,
    certify: bool,
    cap: usize,
}

impl Options {
    fn plan(&self) -> Result<Plan, Error> {
        let method = match &*self.method {
            "fgs" => Method::Full,
            "cfgs" => Method::CoarseFine { cells: self.cells },
            "screen" => Method::Screen { by: self.screen.parse()?, keep: self.top },
            "exact" => Method::Exact { cap: self.cap },
            other => {
                return Err(parameter("method", format!("'{other}': take one of fgs, cfgs, screen, exact")));
            }
        };
        let (precision, table) = (self.precision.parse()?, self.lut.parse()?);
        let plan = Plan { method, p: self.p, precision, table, certify: self.certify };
        plan.check().map(|()| plan)
    }
}

/// Treatment of the events of a crystal, in the terms of the options of `zellige psa run`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct EventOptions {
    channels: String,
    window: Option<usize>,
    threshold: f64,
    shifts: usize,
    align: bool,
    pairs: Option<f64>,
}

impl EventOptions {
    fn rules(&self, plan: &Plan, samples: usize) -> Result<Rules, Error> {
        let pairs = |penalty| PairPlan { single: *plan, penalty, ..PairPlan::default() };
        Ok(Rules {
            channels: self.channels.parse()?,
            window: self.window.unwrap_or(Rules::DEFAULT.window.min(samples)),
            threshold: self.threshold,
            shifts: self.shifts,
            align: self.align,
            pairs: self.pairs.map(pairs),
            ..Rules::DEFAULT
        })
    }
}

fn parameter(name: &'static str, problem: String) -> Error {
    Error::Parameter { name, problem }
}

fn shape(what: &'static str, problem: String) -> PyErr {
    error(Error::Shape { what, problem })
}

/// Refuses non-finite numbers. In the message, the index of a number is divided by `each` and has
/// the name `unit`.
fn finite(name: &'static str, numbers: &[f32], unit: &str, each: usize) -> PyResult<()> {
    match numbers.iter().position(|x| !x.is_finite()) {
        Some(at) => {
            Err(error(parameter(name, format!("{unit} {}: a number that is not finite", at / each.max(1)))))
        }
        None => Ok(()),
    }
}

/// Returns the positions (mm) of the points of a basis.
fn positions(points: usize, array: &PyReadonlyArray2<'_, f32>) -> PyResult<Vec<[f32; 3]>> {
    if array.shape() != [points, 3] {
        let problem = format!("an array of shape {:?}; {points} points have ({points}, 3)", array.shape());
        return Err(shape("positions", problem));
    }
    let numbers = array.as_slice()?;
    finite("positions", numbers, "point", 3)?;
    Ok(numbers.as_chunks().0.to_vec())
}

/// Returns answers as arrays, one for each field; `second` is -1 if there is no other point.
fn arrays<'py>(py: Python<'py>, matches: &[Match]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let of = |value: fn(&Match) -> f64| PyArray1::from_iter(py, matches.iter().map(value));
    let index = |value: fn(&Match) -> i64| PyArray1::from_iter(py, matches.iter().map(value));
    dict.set_item("index", index(|best| best.index as i64))?;
    dict.set_item("fom", of(|best| best.fom))?;
    dict.set_item("second", index(|best| best.second.map_or(-1, |second| second as i64)))?;
    dict.set_item("gap", of(|best| best.gap))?;
    dict.set_item("spread", of(|best| best.spread))?;
    let flags = PyDict::new(py);
    for flag in FLAGS {
        let has = PyArray1::from_iter(py, matches.iter().map(|best| best.flags.has(flag)));
        flags.set_item(flag.names()[0], has)?;
    }
    dict.set_item("flags", flags)?;
    Ok(dict)
}

/// Points of one segment, prepared for searches.
#[pyclass(frozen)]
pub struct Search {
    prepared: Arc<Prepared>,
    plan: Plan,
    /// Points, for runs that judge digits.
    basis: SegmentBasis,
    /// Number of channels and of samples.
    shape: [usize; 2],
}

impl Search {
    /// Returns the numbers of events that fit the basis.
    fn signals<'a>(
        &self,
        events: &'a PyReadonlyArray3<'_, f32>,
        energies: &'a PyReadonlyArray1<'_, f64>,
    ) -> PyResult<(&'a [f32], &'a [f64])> {
        let &[count, channels, samples] = events.shape() else { unreachable!("three dimensions") };
        if [channels, samples] != self.shape {
            let [wanted, of_each] = self.shape;
            let problem =
                format!("{channels} channels of {samples} samples, {wanted} of {of_each} in the basis");
            return Err(shape("events", problem));
        }
        if energies.len() != count {
            return Err(shape("energies", format!("{} for {count} events", energies.len())));
        }
        Ok((events.as_slice()?, energies.as_slice()?))
    }
}

#[pymethods]
impl Search {
    #[new]
    fn new(
        py: Python<'_>,
        basis: PyReadonlyArray3<'_, f32>,
        positions: PyReadonlyArray2<'_, f32>,
        options: Options,
    ) -> PyResult<Self> {
        let &[points, channels, samples] = basis.shape() else { unreachable!("three dimensions") };
        let values = basis.as_slice()?;
        finite("basis", values, "point", channels * samples)?;
        let (positions, values) = (self::positions(points, &positions)?, values.to_vec());
        let prepare = || {
            let (plan, basis) = (options.plan()?, SegmentBasis::new(channels, samples, positions, values)?);
            let prepared = Arc::new(Prepared::new(&plan, &basis)?);
            Ok(Search { prepared, plan, basis, shape: [channels, samples] })
        };
        py.detach(prepare).map_err(|failed: Error| error(failed))
    }

    fn locate<'py>(
        &self,
        py: Python<'py>,
        events: PyReadonlyArray3<'py, f32>,
        energies: PyReadonlyArray1<'py, f64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let ((signals, energies), [channels, samples]) = (self.signals(&events, &energies)?, self.shape);
        let size = Batching::default().size;
        let batches = signals.chunks(size * channels * samples).zip(energies.chunks(size));
        let batches: Result<Vec<_>, _> = batches
            .map(|(signals, energies)| SegmentEvents::new(channels, samples, energies, signals))
            .collect();
        // The message counts the events of all batches.
        let batches = batches
            .or_else(|_| SegmentEvents::new(channels, samples, energies, signals).map(|all| vec![all]));
        let batches = batches.map_err(error)?;
        let found = on_runtime(py, || (), |rt| search(rt, &self.prepared, batches))?;
        arrays(py, &found)
    }

    /// Judges the digits of full searches. Returns JSON.
    fn trust(
        &self,
        py: Python<'_>,
        events: PyReadonlyArray3<'_, f32>,
        energies: PyReadonlyArray1<'_, f64>,
        samples: usize,
        seed: u64,
    ) -> PyResult<String> {
        let ((signals, energies), [channels, window]) = (self.signals(&events, &energies)?, self.shape);
        let events = SegmentEvents::new(channels, window, energies, signals).map_err(error)?;
        // The points are those of any segment.
        let segment = Segment::from_index(0).expect("there are 36 segments");
        let basis = self.basis.clone();
        let searches = Searches::of_segment(&Input { segment, basis, events, saturated: Vec::new() });
        let options = stochastic::options(samples, seed)?;
        stochastic::judged(py, |rt| trust::run(rt, &searches, &self.plan, &options))
    }
}

/// Returns answers for batches of events, with a task for each batch.
fn search(rt: &Runtime, prepared: &Arc<Prepared>, batches: Vec<SegmentEvents>) -> Result<Vec<Match>, Error> {
    let submit = |events: SegmentEvents| {
        let (prepared, answers) = (Arc::clone(prepared), rt.register_empty::<Vec<Match>>());
        let task = rt.task("search").operands((write(&answers),)).cpu(move |(mut answers,)| {
            answers.put(prepared.search(&events, &[])?);
            Ok::<(), Error>(())
        });
        task.submit().map(|_| answers)
    };
    let answers = batches.into_iter().map(submit).collect::<Result<Vec<_>, _>>()?;
    let mut all = Vec::new();
    for answers in answers {
        all.extend(rt.take(answers)?);
    }
    Ok(all)
}

/// Points of a crystal, by segments.
#[pyclass(frozen)]
pub struct Crystal {
    basis: Basis,
    plan: Plan,
    rules: Rules,
}

#[pymethods]
impl Crystal {
    #[new]
    fn new(
        py: Python<'_>,
        basis: PyReadonlyArray3<'_, f32>,
        positions: PyReadonlyArray2<'_, f32>,
        segments: PyReadonlyArray1<'_, i64>,
        options: Options,
        events: EventOptions,
    ) -> PyResult<Self> {
        let &[points, channels, samples] = basis.shape() else { unreachable!("three dimensions") };
        let values = basis.as_slice()?;
        finite("basis", values, "point", channels * samples)?;
        let segment = |(point, &number): (usize, &i64)| {
            usize::try_from(number).ok().and_then(Segment::from_index).ok_or_else(|| {
                let problem = format!("point {point}: {number}; segments have the numbers 0 to 35");
                error(parameter("segments", problem))
            })
        };
        let segments = segments.as_slice()?.iter().enumerate().map(segment).collect::<PyResult<Vec<_>>>()?;
        let plan = options.plan().map_err(error)?;
        let rules = events.rules(&plan, samples).map_err(error)?;
        let (positions, values) = (self::positions(points, &positions)?, values.to_vec());
        let sampling = Sampling { samples, step: 1.0, before: 0 };
        let basis = Basis::new(sampling, positions, segments, values).map_err(error)?;
        let crystal = Crystal { basis, plan, rules };
        // Invalid rules and bases are refused here, not with the first events. The preparation of
        // this plan takes no time.
        on_runtime(py, || (), |rt| crystal.pipeline(rt, &Plan::DEFAULT).map(drop))?;
        Ok(crystal)
    }

    fn locate<'py>(
        &self,
        py: Python<'py>,
        events: PyReadonlyArray3<'py, f32>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let &[count, channels, samples] = events.shape() else { unreachable!("three dimensions") };
        if channels != CHANNELS {
            return Err(shape("events", format!("{channels} channels; a crystal has {CHANNELS}")));
        }
        let (signals, each) = (events.as_slice()?, channels * samples);
        let event = |number: usize| &signals[number * each..][..each];
        let answers = on_runtime(py, || (), |rt| self.search(rt, (0..count).map(event)))?;
        let hits = || answers.iter().flat_map(|answer| answer.hits.iter().map(move |hit| (answer, hit)));
        let number = |value: fn((&Answer, &LocatedHit)) -> i64| PyArray1::from_iter(py, hits().map(value));
        let dict = arrays(py, &hits().map(|(_, hit)| hit.best).collect::<Vec<_>>())?;
        dict.set_item("event", number(|(answer, _)| answer.number as i64))?;
        dict.set_item("segment", number(|(_, hit)| hit.segment.index() as i64))?;
        dict.set_item("energy", PyArray1::from_iter(py, hits().map(|(_, hit)| hit.energy)))?;
        Ok(dict)
    }
}

impl Crystal {
    fn pipeline<'a>(&'a self, rt: &'a Runtime, plan: &'a Plan) -> Result<EventPipeline<'a, 'a>, Error> {
        EventPipeline::new(rt, plan, Batching::default(), &self.basis, self.rules.clone())
    }

    fn search<'e>(
        &self,
        rt: &Runtime,
        events: impl Iterator<Item = &'e [f32]>,
    ) -> Result<Vec<Answer>, String> {
        let said = |error: Error| error.to_string();
        let (now, mut answers) = (Instant::now(), Vec::new());
        let mut pipeline = self.pipeline(rt, &self.plan).map_err(said)?;
        for (number, signals) in events.enumerate() {
            let (signals, saturated) = (signals.to_vec(), Vec::new());
            let event = Event { timestamp: 0, hit: None, signals, saturated };
            pipeline.push(event, now).map_err(|error| format!("event {number}: {error}"))?;
            if pipeline.pending() >= MOST_PENDING {
                pipeline.wait(now, &mut answers).map_err(said)?;
            }
        }
        pipeline.finish(now, &mut answers).map_err(said)?;
        Ok(answers)
    }
}
