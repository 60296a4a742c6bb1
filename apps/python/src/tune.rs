//! Search for the cheapest formats of a computation in Python.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use zellige_app::tune::{TuneResult, text};
use zellige_files::observe::Observer;
use zellige_tune::{
    Acceptance, Assignment, Data, Error, Expression, Item, Measures, Options, Search, Space, Trials,
};

use crate::error;

/// Name, group, and formats with their costs from cheap to dear.
type PyItem = (String, String, Vec<(String, f64)>);

/// Criterion for a trial.
#[derive(FromPyObject)]
pub enum Accept {
    Expression(String),
    /// Description, and function of the measures of the trial and of the reference.
    Callable(String, Py<PyAny>),
}

/// Limits of a search, and what it does besides.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Settings {
    max_trials: Option<usize>,
    max_time: Option<f64>,
    cost: Option<String>,
    log: Option<PathBuf>,
    subject: String,
    verify: bool,
}

/// Returned by a trial: measures with standard errors, or the reason for which there are none.
#[derive(FromPyObject)]
enum Returned {
    Measures(Vec<(String, f64, f64)>),
    Failed(String),
}

/// First exception of a callable. It ends the search.
#[derive(Clone, Default)]
struct Raised(Arc<Mutex<Option<PyErr>>>);

impl Raised {
    /// The result of a callable, or `otherwise` after an exception.
    fn kept<R>(&self, result: PyResult<R>, otherwise: R) -> R {
        result.unwrap_or_else(|error| {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            otherwise
        })
    }

    fn take(&self) -> Option<PyErr> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Observer for Raised {
    fn stage(&self, _name: &str, _total: u64) {}
    fn advance(&self, _done: u64) {}
    fn warn(&self, _text: &str) {}

    fn cancelled(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }
}

/// Searches. `trial` has the formats by item, and whether the data are those of the verification.
/// Returns the result as JSON and as text.
#[pyfunction]
pub fn tune(
    py: Python<'_>,
    items: Vec<PyItem>,
    trial: Bound<'_, PyAny>,
    accept: Accept,
    settings: Settings,
) -> PyResult<(String, String)> {
    let items = items.into_iter().map(|(name, group, formats)| Item::new(name, group, formats));
    let space = Space::new(items.collect()).map_err(error)?;
    let raised = Raised::default();
    let accept = acceptance(accept, &raised).map_err(error)?;
    let cost = settings.cost.as_deref().map(Expression::parse).transpose().map_err(error)?;
    let run = |formats: &Assignment, data: Data| {
        // After an exception of the criterion no trial runs.
        if raised.cancelled() {
            return Err("cancelled".into());
        }
        let measures = raised.kept(returned(py, &trial, formats, data), Err("cancelled".into()))?;
        // A wrong name is reported with the names that there are.
        let check = |cost: &Expression| cost.check(&measures).map_err(|error| format!("cost: {error}"));
        cost.as_ref().map_or(Ok(()), check)?;
        Ok(measures)
    };
    let of_trial = |formats: &Assignment, measures: &Measures| match &cost {
        Some(cost) => cost.value(measures),
        None => formats.cost(),
    };
    let options = Options {
        max_trials: settings.max_trials,
        max_seconds: settings.max_time,
        log: settings.log,
        subject: settings.subject,
        verify: settings.verify,
        ..Options::default()
    };
    let search = Search::new(&space, Trials::in_turn(run), &accept).cost(of_trial).observer(&raised);
    let outcome = search.run(&options);
    if let Some(exception) = raised.take() {
        return Err(exception);
    }
    let unit = cost.as_ref().map_or("cost", Expression::text);
    let result = TuneResult::new(&space, accept.text(), unit, outcome.map_err(error)?, None);
    Ok((serde_json::to_string(&result).map_err(error)?, text(&result, false)))
}

/// Runs a trial. A signal that has come since the last one is raised in its place.
fn returned(
    py: Python<'_>,
    trial: &Bound<'_, PyAny>,
    formats: &Assignment,
    data: Data,
) -> PyResult<Result<Measures, String>> {
    py.check_signals()?;
    let names = PyDict::new(py);
    formats.iter().try_for_each(|(item, format)| names.set_item(&item.name, &format.name))?;
    Ok(match trial.call1((names, data == Data::Verify))?.extract()? {
        Returned::Failed(reason) => Err(reason),
        Returned::Measures(list) => {
            let mut measures = Measures::default();
            list.into_iter().for_each(|(name, value, error)| measures.insert(name, value, error));
            Ok(measures)
        }
    })
}

fn acceptance(accept: Accept, raised: &Raised) -> Result<Acceptance, Error> {
    match accept {
        Accept::Expression(text) => Acceptance::parse(&text),
        Accept::Callable(text, callable) => {
            let raised = raised.clone();
            let holds = move |measures: &Measures, reference: &Measures| {
                let result = Python::attach(|py| {
                    let arguments = (by_name(py, measures)?, by_name(py, reference)?);
                    callable.bind(py).call1(arguments)?.is_truthy()
                });
                raised.kept(result, false)
            };
            Ok(Acceptance::new(text, holds))
        }
    }
}

/// Measures as they are returned by a trial: numbers, or pairs with the standard error.
fn by_name<'py>(py: Python<'py>, measures: &Measures) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, measure) in measures.iter() {
        match measure.error {
            0.0 => dict.set_item(name, measure.value)?,
            error => dict.set_item(name, (measure.value, error))?,
        }
    }
    Ok(dict)
}
