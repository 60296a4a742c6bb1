//! Stochastic numbers in numpy arrays of two dimensions: a row holds the samples of a number.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use numpy::{Element, PyArray1, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use zellige_runtime::Runtime;
use zellige_stochastic::{
    Categories, Category, Eight, Perturbation, Place, Report, Sample, Samples, Scope as InnerScope, Site,
    Sixteen, Stochastic, Three, Trust, TrustOptions, element, vectorize,
};

use crate::error;
use crate::interrupt::detached;

/// Operations of a call from which on it releases the interpreter's lock and heeds Ctrl-C. Calls
/// with fewer end sooner than a thread is started.
const LONG: usize = 20_000;

/// Checks the options of a run that judges its digits.
pub fn options(samples: usize, seed: u64) -> PyResult<TrustOptions> {
    match samples {
        3 | 8 | 16 => Ok(TrustOptions { samples, seed }),
        other => Err(wrong_samples(other)),
    }
}

fn wrong_samples(count: usize) -> PyErr {
    PyValueError::new_err(format!("samples: {count}; 3, 8 or 16 are possible"))
}

/// Judges digits on a runtime of their own, because that of other calls flushes subnormal numbers
/// to zero. Returns JSON.
pub fn judged<E: std::fmt::Display + Send>(
    py: Python<'_>,
    work: impl FnOnce(&Runtime) -> Result<Trust, E> + Send,
) -> PyResult<String> {
    let rt = Runtime::builder().build().map_err(error)?;
    let trust = detached(py, || rt.cancel_all(), || work(&rt))?.map_err(error)?;
    serde_json::to_string(&trust).map_err(error)
}

/// Returns the text of a run that judges its digits, from its JSON.
#[pyfunction]
pub fn trust_text(json: &str) -> PyResult<String> {
    let trust: Trust = serde_json::from_str(json).map_err(error)?;
    Ok(zellige_app::trust::text(&trust, false))
}

/// Returns the text of a report, from its JSON.
#[pyfunction]
pub fn report_text(json: &str) -> PyResult<String> {
    let report: Report = serde_json::from_str(json).map_err(error)?;
    Ok(report.to_string())
}

fn category_name(category: Category) -> String {
    serde_json::to_value(category).ok().and_then(|name| Some(name.as_str()?.to_owned())).unwrap_or_default()
}

/// Returns the names of all categories.
pub fn categories() -> Vec<String> {
    Category::ALL.into_iter().map(category_name).collect()
}

fn parse_categories(names: Vec<String>) -> PyResult<Categories> {
    names.into_iter().try_fold(Categories::NONE, |set, name| {
        let category = Category::ALL.into_iter().find(|category| category_name(*category) == name);
        let all = || categories().join(", ");
        let unknown = || PyValueError::new_err(format!("categories: '{name}'; there are {}", all()));
        category.map(|category| set.with(category)).ok_or_else(unknown)
    })
}

fn parse_perturbation(text: &str) -> PyResult<Perturbation> {
    let mut words = text.split(':');
    let kind = words.next().unwrap_or_default();
    let numbers: Option<Vec<u32>> = words.map(|word| word.parse().ok()).collect();
    match (kind, numbers.as_deref()) {
        ("random", Some([])) => Ok(Perturbation::Random),
        ("none", Some([])) => Ok(Perturbation::None),
        ("monte-carlo", Some(&[bits @ 1..=53])) => Ok(Perturbation::MonteCarlo { bits }),
        ("vprec", Some(&[bits @ 1..=53, range @ 2..=11])) => Ok(Perturbation::Reduced { bits, range }),
        _ => Err(PyValueError::new_err(format!(
            "perturbation: '{text}'; there are random, none, monte-carlo:T with a precision of 1 to 53 bits, and vprec:T:R \
             with an exponent of 2 to 11 bits"
        ))),
    }
}

/// Numbers, one in each row.
#[derive(FromPyObject)]
pub enum Numbers<'py> {
    Double(PyReadonlyArray2<'py, f64>),
    Single(PyReadonlyArray2<'py, f32>),
}

/// Numbers of one type.
type Operands<T, S> = Vec<Vec<Stochastic<T, S>>>;

/// Work on numbers of any type.
trait Work<'py> {
    type Output;
    fn run<T: Sample + Element, S: Samples>(self, operands: Operands<T, S>) -> PyResult<Self::Output>;
}

/// Runs work on numbers of the type of `operands`, which is the same for all.
fn dispatch<'py, W: Work<'py>>(operands: &[Numbers<'py>], work: W) -> PyResult<W::Output> {
    let of_other_types = || PyTypeError::new_err("operands of several types");
    let double = |each: &'_ Numbers<'py>| match each {
        Numbers::Double(array) => Ok(array.clone()),
        Numbers::Single(_) => Err(of_other_types()),
    };
    let single = |each: &'_ Numbers<'py>| match each {
        Numbers::Single(array) => Ok(array.clone()),
        Numbers::Double(_) => Err(of_other_types()),
    };
    match operands.first() {
        Some(Numbers::Double(_)) => typed(operands.iter().map(double).collect::<PyResult<_>>()?, work),
        Some(Numbers::Single(_)) => typed(operands.iter().map(single).collect::<PyResult<_>>()?, work),
        None => Err(PyTypeError::new_err("no operand")),
    }
}

fn typed<'py, T: Sample + Element, W: Work<'py>>(
    operands: Vec<PyReadonlyArray2<'py, T>>,
    work: W,
) -> PyResult<W::Output> {
    match operands[0].shape()[1] {
        3 => work.run(numbers::<T, Three>(&operands)?),
        8 => work.run(numbers::<T, Eight>(&operands)?),
        16 => work.run(numbers::<T, Sixteen>(&operands)?),
        other => Err(wrong_samples(other)),
    }
}

fn numbers<T: Sample + Element, S: Samples>(
    operands: &[PyReadonlyArray2<'_, T>],
) -> PyResult<Operands<T, S>> {
    let of_operand = |array: &PyReadonlyArray2<'_, T>| {
        Ok(array.as_slice()?.chunks_exact(S::COUNT).map(Stochastic::from_samples).collect())
    };
    operands.iter().map(of_operand).collect()
}

/// Function of one number with its name in numpy.
type Unary<N> = (&'static str, fn(N) -> N);
/// Function of two numbers with its name in numpy.
type Binary<N, R> = (&'static str, fn(N, N) -> R);

/// Functions of one number.
fn functions<T: Sample, S: Samples>() -> [Unary<Stochastic<T, S>>; 26] {
    [
        ("negative", |x| -x),
        ("absolute", Stochastic::abs),
        ("fabs", Stochastic::abs),
        ("square", |x| x * x),
        ("reciprocal", |x| Stochastic::new(T::from_f64(1.0)) / x),
        ("sqrt", Stochastic::sqrt),
        ("cbrt", Stochastic::cbrt),
        ("exp", Stochastic::exp),
        ("exp2", Stochastic::exp2),
        ("expm1", Stochastic::exp_m1),
        ("log", Stochastic::ln),
        ("log2", Stochastic::log2),
        ("log10", Stochastic::log10),
        ("log1p", Stochastic::ln_1p),
        ("sin", Stochastic::sin),
        ("cos", Stochastic::cos),
        ("tan", Stochastic::tan),
        ("arcsin", Stochastic::asin),
        ("arccos", Stochastic::acos),
        ("arctan", Stochastic::atan),
        ("sinh", Stochastic::sinh),
        ("cosh", Stochastic::cosh),
        ("tanh", Stochastic::tanh),
        ("floor", Stochastic::floor),
        ("ceil", Stochastic::ceil),
        ("trunc", Stochastic::trunc),
    ]
}

/// Operations on two numbers.
fn operators<T: Sample, S: Samples>() -> [Binary<Stochastic<T, S>, Stochastic<T, S>>; 9] {
    [
        ("add", |a, b| a + b),
        ("subtract", |a, b| a - b),
        ("multiply", |a, b| a * b),
        ("divide", |a, b| a / b),
        ("power", Stochastic::powf),
        ("maximum", Stochastic::max),
        ("minimum", Stochastic::min),
        ("hypot", Stochastic::hypot),
        ("arctan2", Stochastic::atan2),
    ]
}

/// Comparisons.
fn comparisons<T: Sample, S: Samples>() -> [Binary<Stochastic<T, S>, bool>; 6] {
    [
        ("equal", |a, b| a == b),
        ("not_equal", |a, b| a != b),
        ("less", |a, b| a < b),
        ("less_equal", |a, b| a <= b),
        ("greater", |a, b| a > b),
        ("greater_equal", |a, b| a >= b),
    ]
}

fn named<F: Copy>(table: &[(&str, F)], name: &str) -> Option<F> {
    table.iter().find(|(each, _)| *each == name).map(|(_, function)| *function)
}

fn unknown(name: &str) -> PyErr {
    let functions = functions::<f64, Eight>().map(|(name, _)| name).join(", ");
    let operators = operators::<f64, Eight>().map(|(name, _)| name).join(", ");
    PyTypeError::new_err(format!(
        "numpy.{name} is not computed with stochastic numbers; there are {operators}, {functions}, comparisons and matmul. \
         Take x.value for the means without their digits"
    ))
}

/// Perturbation, random bits and instabilities of operations.
#[pyclass(frozen)]
pub struct Scope {
    seed: u64,
    perturbation: Perturbation,
    categories: Categories,
    /// Returns file, line and column of the program where it is now.
    place: Py<PyAny>,
    operations: AtomicU64,
    report: Mutex<Report>,
}

#[pymethods]
impl Scope {
    #[new]
    fn new(seed: u64, perturbation: &str, categories: Vec<String>, place: Py<PyAny>) -> PyResult<Self> {
        let (perturbation, categories) = (parse_perturbation(perturbation)?, parse_categories(categories)?);
        let (operations, report) = (AtomicU64::new(0), Mutex::default());
        Ok(Scope { seed, perturbation, categories, place, operations, report })
    }

    /// Computes each element of a ufunc of this name, or sums and products of matrices with
    /// `length` terms.
    fn compute<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        operands: Vec<Numbers<'py>>,
        length: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        dispatch(&operands, Operation { scope: self, py, name, length })
    }

    /// Returns numbers with a relative error.
    fn perturbed<'py>(
        &self,
        py: Python<'py>,
        numbers: Numbers<'py>,
        error: f64,
    ) -> PyResult<Bound<'py, PyAny>> {
        dispatch(&[numbers], Perturbed { scope: self, py, error })
    }

    /// Returns numbers rounded to float32.
    fn single<'py>(&self, py: Python<'py>, numbers: Numbers<'py>) -> PyResult<Bound<'py, PyAny>> {
        dispatch(&[numbers], Single { scope: self, py })
    }

    /// Returns the instabilities so far as JSON.
    fn report(&self) -> PyResult<String> {
        serde_json::to_string(&*self.report.lock().unwrap_or_else(PoisonError::into_inner)).map_err(error)
    }
}

impl Scope {
    /// Computes `count` results of `terms` operations each, with random bits that depend on the
    /// number of this call and of the result.
    fn each<R: Send>(
        &self,
        py: Python<'_>,
        (count, terms): (usize, usize),
        width: usize,
        result: impl Fn(usize, &mut Vec<R>) + Sync,
    ) -> PyResult<Vec<R>> {
        let scope = InnerScope::with(self.seed, self.perturbation, self.categories);
        let (task, stopped) = (self.operations.fetch_add(1, Ordering::Relaxed), AtomicBool::new(false));
        let all = || {
            let mut results = Vec::with_capacity(count * width);
            for at in 0..count {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                element(at as u64);
                result(at, &mut results);
            }
            results
        };
        let work = || scope.task(task, 0, all);
        let results = match count.saturating_mul(terms) {
            ..LONG => work(),
            _ => detached(py, || stopped.store(true, Ordering::Relaxed), work)?,
        };
        self.note(py, scope.report())?;
        Ok(results)
    }

    fn numbers<'py, T: Sample + Element, S: Samples>(
        &self,
        py: Python<'py>,
        (count, terms): (usize, usize),
        number: impl Fn(usize) -> Stochastic<T, S> + Sync,
    ) -> PyResult<Bound<'py, PyAny>> {
        let append = |at: usize, results: &mut Vec<T>| results.extend_from_slice(number(at).samples());
        let samples = self.each(py, (count, terms), S::COUNT, append)?;
        Ok(PyArray1::from_vec(py, samples).reshape([count, S::COUNT])?.into_any())
    }

    /// Counts instabilities at the place of the Python program.
    fn note(&self, py: Python<'_>, found: Report) -> PyResult<()> {
        if found.is_empty() {
            return Ok(());
        }
        let (file, line, column) = self.place.call0(py)?.extract(py)?;
        let place = Place { file, line, column };
        let sites = found.sites.into_iter().map(|site| Site { place: place.clone(), ..site }).collect();
        self.report.lock().unwrap_or_else(PoisonError::into_inner).merge(&Report { sites });
        Ok(())
    }
}

struct Operation<'a, 'py> {
    scope: &'a Scope,
    py: Python<'py>,
    name: &'a str,
    length: usize,
}

impl<'py> Work<'py> for Operation<'_, 'py> {
    type Output = Bound<'py, PyAny>;

    fn run<T: Sample + Element, S: Samples>(self, operands: Operands<T, S>) -> PyResult<Bound<'py, PyAny>> {
        let Operation { scope, py, name, length } = self;
        let zero = Stochastic::<T, S>::default();
        match (&operands[..], name) {
            ([a], "sum") => {
                let sum = |at: usize| {
                    let terms = &a[at * length..][..length];
                    vectorize(
                        #[inline(always)]
                        || terms.iter().fold(zero, |sum, &x| sum + x),
                    )
                };
                scope.numbers(py, (a.len() / length, length), sum)
            }
            ([a, b], "matmul") => {
                let columns = b.len() / length;
                let dot = |at: usize| {
                    let (row, column) = (&a[at / columns * length..][..length], &b[at % columns..]);
                    vectorize(
                        #[inline(always)]
                        || {
                            row.iter()
                                .zip(column.iter().step_by(columns))
                                .fold(zero, |sum, (&x, &y)| sum + x * y)
                        },
                    )
                };
                scope.numbers(py, (a.len() / length * columns, 2 * length), dot)
            }
            ([a], _) => {
                let function = named(&functions(), name).ok_or_else(|| unknown(name))?;
                scope.numbers(py, (a.len(), 1), |at| function(a[at]))
            }
            ([a, b], _) => match (named(&operators(), name), named(&comparisons(), name)) {
                (Some(operator), _) => scope.numbers(py, (a.len(), 1), |at| operator(a[at], b[at])),
                (_, Some(holds)) => {
                    let append = |at: usize, results: &mut Vec<bool>| results.push(holds(a[at], b[at]));
                    let results = scope.each(py, (a.len(), 1), 1, append)?;
                    Ok(PyArray1::from_vec(py, results).into_any())
                }
                _ => Err(unknown(name)),
            },
            _ => Err(unknown(name)),
        }
    }
}

struct Perturbed<'a, 'py> {
    scope: &'a Scope,
    py: Python<'py>,
    error: f64,
}

impl<'py> Work<'py> for Perturbed<'_, 'py> {
    type Output = Bound<'py, PyAny>;

    fn run<T: Sample + Element, S: Samples>(self, operands: Operands<T, S>) -> PyResult<Bound<'py, PyAny>> {
        let Perturbed { scope, py, error } = self;
        let [numbers] = &operands[..] else { unreachable!("one operand") };
        let perturbed = |at: usize| Stochastic::<T, S>::perturbed(numbers[at].samples()[0], error);
        scope.numbers(py, (numbers.len(), 1), perturbed)
    }
}

struct Single<'a, 'py> {
    scope: &'a Scope,
    py: Python<'py>,
}

impl<'py> Work<'py> for Single<'_, 'py> {
    type Output = Bound<'py, PyAny>;

    fn run<T: Sample + Element, S: Samples>(self, operands: Operands<T, S>) -> PyResult<Bound<'py, PyAny>> {
        let [numbers] = &operands[..] else { unreachable!("one operand") };
        let rounded = |at: usize| numbers[at].convert::<f32>();
        self.scope.numbers(self.py, (numbers.len(), 1), rounded)
    }
}

/// Means, and numbers of exact digits.
type Judged<'py> = (Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<i64>>);

/// Returns the means and the exact digits.
#[pyfunction]
pub fn digits<'py>(py: Python<'py>, numbers: Numbers<'py>) -> PyResult<Judged<'py>> {
    struct Digits<'py>(Python<'py>);
    impl<'py> Work<'py> for Digits<'py> {
        type Output = Judged<'py>;
        fn run<T: Sample + Element, S: Samples>(self, operands: Operands<T, S>) -> PyResult<Judged<'py>> {
            let numbers = || operands.iter().flatten();
            let means = PyArray1::from_iter(self.0, numbers().map(Stochastic::mean));
            let digits = PyArray1::from_iter(self.0, numbers().map(|x| i64::from(x.digits())));
            Ok((means, digits))
        }
    }
    dispatch(&[numbers], Digits(py))
}

/// Returns the exact digits as text.
#[pyfunction]
pub fn text(numbers: Numbers<'_>) -> PyResult<Vec<String>> {
    struct Texts;
    impl Work<'_> for Texts {
        type Output = Vec<String>;
        fn run<T: Sample + Element, S: Samples>(self, operands: Operands<T, S>) -> PyResult<Vec<String>> {
            Ok(operands.iter().flatten().map(ToString::to_string).collect())
        }
    }
    dispatch(&[numbers], Texts)
}
