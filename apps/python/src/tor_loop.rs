//! Simulated loops of adaptive optics, frame by frame.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use zellige_tor::end_to_end::{LoopOptions, Simulation};
use zellige_tor::params::{Input, Mode, read};
use zellige_tor::system::{LoopMode, SensorModel};
use zellige_tor::{Error, Matrix};

use crate::tor::{array, observed};
use crate::{error, interrupt, runtime};

/// Relations between sensors and mirror.
const MODES: [LoopMode; 3] = [LoopMode::Open, LoopMode::PseudoOpen, LoopMode::Closed];
/// Models of the sensors.
const SENSORS: [SensorModel; 3] = [SensorModel::Edges, SensorModel::Gradients, SensorModel::Spots];

/// Parameters of a loop that replace those of the system's file, and of its exposure.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct LoopSettings {
    mode: Option<String>,
    sensor: Option<String>,
    gain: Option<f64>,
    delay: Option<usize>,
    seed: u64,
    noise: bool,
    skip: u64,
    image_every: u64,
}

impl LoopSettings {
    /// Puts the parameters into those of the file.
    fn apply(&self, input: &mut Input) -> PyResult<()> {
        let mode = named("mode", self.mode.as_deref(), &MODES, LoopMode::name)?;
        let sensor = named("sensor", self.sensor.as_deref(), &SENSORS, SensorModel::name)?;
        input.system.simulation.replace(mode, sensor, self.gain, self.delay);
        // The file's own parameters were checked when it was read.
        let checked = input.system.check();
        checked.map(drop).map_err(|problem| PyValueError::new_err(problem.to_string()))
    }

    fn options(&self) -> LoopOptions {
        LoopOptions {
            frames: self.image_every,
            skip: self.skip,
            seed: self.seed,
            noise: self.noise,
            images: 1,
        }
    }
}

/// Returns the one of `all` that has this name.
fn named<T: Copy>(
    key: &str,
    name: Option<&str>,
    all: &[T],
    name_of: fn(T) -> &'static str,
) -> PyResult<Option<T>> {
    let one = |name| {
        all.iter().copied().find(|each| name_of(*each) == name).ok_or_else(|| {
            let names = all.iter().map(|each| name_of(*each)).collect::<Vec<_>>().join(", ");
            PyValueError::new_err(format!("{key}: '{name}': take one of {names}"))
        })
    };
    name.map(one).transpose()
}

/// Converts an error about a file and its parameters, or about arrays of the caller.
fn refused(problem: Error) -> PyErr {
    match problem {
        Error::Shape { .. } => PyValueError::new_err(problem.to_string()),
        other => error(other),
    }
}

/// Converts rows of as many numbers.
fn square(py: Python<'_>, values: Vec<f64>) -> PyResult<Bound<'_, PyArray2<f64>>> {
    let across = values.len().isqrt();
    PyArray1::from_vec(py, values).reshape([across, across])
}

/// A simulated loop.
#[pyclass(frozen)]
pub struct Loop {
    input: Input,
    options: LoopOptions,
    /// Absent after a run that failed.
    simulation: Mutex<Option<Simulation>>,
}

impl Loop {
    /// Calls `work` with the interpreter's lock released.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Simulation) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        py.detach(|| self.locked(work))
    }

    fn locked<R>(&self, work: impl FnOnce(&mut Simulation) -> Result<R, Error>) -> PyResult<R> {
        let mut state = self.simulation.lock().unwrap_or_else(PoisonError::into_inner);
        let simulation = state.as_mut().ok_or_else(|| error(LOST))?;
        // All that can be wrong here are numbers of the caller.
        work(simulation).map_err(|problem| PyValueError::new_err(problem.to_string()))
    }
}

/// Message of a loop whose state is gone.
const LOST: &str = "a run of this loop has failed, so that it cannot go on: make a new Loop";

/// Converts a matrix.
fn of_matrix(py: Python<'_>, matrix: Matrix) -> PyResult<Bound<'_, PyArray2<f64>>> {
    array(py, matrix.rows(), matrix.into_vec())
}

#[pymethods]
impl Loop {
    #[new]
    fn new(
        py: Python<'_>,
        files: (PathBuf, Option<PathBuf>),
        reconstructors: Option<Vec<PyReadonlyArray2<'_, f64>>>,
        settings: LoopSettings,
    ) -> PyResult<Self> {
        let (system, atmosphere) = files;
        let mut input = read(&system, atmosphere.as_deref(), Mode::Lenient).map_err(error)?;
        settings.apply(&mut input)?;
        let options = settings.options();
        let given = |array: PyReadonlyArray2<'_, f64>| {
            let array = array.as_array();
            let (rows, columns) = array.dim();
            Matrix::from_fn(rows, columns, |i, j| array[[i, j]])
        };
        let given: Option<Vec<Matrix>> = reconstructors.map(|all| all.into_iter().map(given).collect());
        let make = || Simulation::new(&input, given.as_deref(), &options);
        let simulation = interrupt::detached(py, || (), make)?.map_err(refused)?;
        Ok(Loop { input, options, simulation: Mutex::new(Some(simulation)) })
    }

    #[getter]
    fn frame(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |simulation| Ok(simulation.frame()))
    }

    fn measure<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let slopes = self.with(py, |simulation| Ok(simulation.slopes()))?;
        Ok(PyArray1::from_vec(py, slopes))
    }

    fn step(
        &self,
        py: Python<'_>,
        slopes: Option<PyReadonlyArray1<'_, f64>>,
        commands: Option<PyReadonlyArray1<'_, f64>>,
    ) -> PyResult<()> {
        let own = |array: Option<PyReadonlyArray1<'_, f64>>| array.map(|a| a.as_array().to_vec());
        let (slopes, commands) = (own(slopes), own(commands));
        self.with(py, move |simulation| match (slopes, commands) {
            (Some(slopes), _) => simulation.step_with_slopes(&slopes),
            (None, Some(commands)) => simulation.step_with_commands(&commands),
            (None, None) => {
                simulation.step();
                Ok(())
            }
        })
    }

    fn run(&self, py: Python<'_>, frames: u64) -> PyResult<()> {
        let rt = runtime()?;
        observed(py, rt, |observer| {
            let mut state = self.simulation.lock().unwrap_or_else(PoisonError::into_inner);
            let mut simulation = state.take().ok_or(LOST)?;
            simulation.run(rt, frames, observer).map_err(|error| error.to_string())?;
            *state = Some(simulation);
            Ok::<(), String>(())
        })
    }

    fn wavefront<'py>(
        &self,
        py: Python<'py>,
        target: usize,
        corrected: bool,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        square(py, self.with(py, |simulation| simulation.wavefront(target, corrected))?)
    }

    fn star_wavefront<'py>(&self, py: Python<'py>, star: usize) -> PyResult<Bound<'py, PyArray2<f64>>> {
        square(py, self.with(py, |simulation| simulation.star_wavefront(star))?)
    }

    fn pupil<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<bool>>> {
        let lit = self.with(py, |simulation| {
            let mut lit = vec![false; simulation.wavefront(0, false)?.len()];
            simulation.pupil().lit.iter().for_each(|&place| lit[place] = true);
            Ok(lit)
        })?;
        let across = lit.len().isqrt();
        PyArray1::from_vec(py, lit).reshape([across, across])
    }

    fn commands<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyArray1<f64>>>> {
        let commands = self.with(py, |simulation| Ok(simulation.mirrors().to_vec()))?;
        Ok(commands.into_iter().map(|each| PyArray1::from_vec(py, each)).collect())
    }

    fn command_matrices<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyArray2<f64>>>> {
        let matrices =
            self.with(py, |simulation| Ok(simulation.command_matrices().cloned().collect::<Vec<_>>()))?;
        matrices.into_iter().map(|each| of_matrix(py, each)).collect()
    }

    fn interaction<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let measure = || self.locked(|simulation| simulation.interaction(&self.input));
        let measured = interrupt::detached(py, || (), measure)??;
        of_matrix(py, measured)
    }

    fn image<'py>(&self, py: Python<'py>, target: usize, band: usize) -> PyResult<Bound<'py, PyArray2<f64>>> {
        square(py, self.with(py, |simulation| Ok(simulation.exposures()[target].image(band)))?)
    }

    fn image_pixel(&self, py: Python<'_>, wavelength: f64) -> PyResult<f64> {
        self.with(py, |simulation| Ok(simulation.pupil().pixel(wavelength)))
    }

    /// Returns the figures of the exposure so far as JSON.
    fn result(&self, py: Python<'_>) -> PyResult<String> {
        let result = self.with(py, |simulation| Ok(simulation.result(&self.input.system, &self.options)))?;
        serde_json::to_string(&result).map_err(error)
    }
}
