//! Task graphs of Python callables on Python objects, in particular numpy arrays.

use std::sync::Arc;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyComplex, PyDict, PyFloat, PyFrozenSet, PyInt, PyString, PyTuple, PyType,
};
use zellige_runtime::{self as runtime, Bindings, Data, Meta, Submit, reads, updates, writes};

use crate::interrupt::detached;

/// Value of a handle: any Python object.
pub struct Value {
    object: Py<PyAny>,
    bytes: usize,
}

impl Value {
    fn new(object: &Bound<'_, PyAny>) -> Value {
        let bytes = object.getattr("nbytes").and_then(|bytes| bytes.extract()).unwrap_or(0);
        Value { object: object.clone().unbind(), bytes }
    }
}

impl Data for Value {
    type Ref<'v> = &'v Value;
    type Mut<'v> = &'v mut Value;

    fn view(&self) -> &Value {
        self
    }

    fn view_mut(&mut self) -> &mut Value {
        self
    }

    fn meta(&self) -> Meta {
        Meta { bytes: self.bytes, ..Meta::default() }
    }
}

/// Memory of an array, lent to a task while it runs. Every view that a body makes has it as its
/// base.
#[pyclass(frozen)]
struct Lent {
    interface: Py<PyDict>,
    /// Reference that keeps the memory alive.
    _array: Py<PyAny>,
}

#[pymethods]
impl Lent {
    #[getter(__array_interface__)]
    fn interface(&self, py: Python<'_>) -> Py<PyDict> {
        self.interface.clone_ref(py)
    }
}

/// Returns whether no function can change a value: numbers, texts, and tuples of them. A function
/// could only bind its own name to another object.
fn is_fixed(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    if let Ok(tuple) = value.cast::<PyTuple>() {
        // A tuple with an array contains something that can change.
        for each in tuple {
            if !is_fixed(&each)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    let py = value.py();
    let builtin: [Bound<'_, PyType>; 7] = [
        py.get_type::<PyBool>(),
        py.get_type::<PyInt>(),
        py.get_type::<PyFloat>(),
        py.get_type::<PyComplex>(),
        py.get_type::<PyString>(),
        py.get_type::<PyBytes>(),
        py.get_type::<PyFrozenSet>(),
    ];
    // Classes derived from these may have attributes.
    if value.is_none() || builtin.iter().any(|class| value.get_type().is(class)) {
        return Ok(true);
    }
    let numpy = py.import("numpy")?;
    Ok(value.is_instance(&numpy.getattr("generic")?)? && !value.is_instance(&numpy.getattr("void")?)?)
}

/// Argument of a body for one operand, with the lent memory, to detect that the body has kept it.
struct Argument<'py> {
    object: Bound<'py, PyAny>,
    lent: Option<Bound<'py, Lent>>,
}

/// Lends an array, read-only for reading; any other object is passed as it is.
fn lend<'py>(py: Python<'py>, value: &Value, writable: bool) -> PyResult<Argument<'py>> {
    let object = value.object.bind(py);
    let numpy = py.import("numpy")?;
    let is_array = object.is_instance(&numpy.getattr("ndarray")?)?;
    if writable && !is_array && is_fixed(object)? {
        return Err(PyTypeError::new_err(format!(
            "update(): its value, of type {}, cannot be changed in place: register an array (numpy.array(value)) and change that (`v *= 2`, \
             `v[...] = 0`), or read() this one, and write() what the function returns to another handle",
            kind(object)?
        )));
    }
    if !is_array || object.getattr("dtype")?.getattr("hasobject")?.extract()? {
        return Ok(Argument { object: object.clone(), lent: None });
    }
    let interface: Bound<'py, PyDict> =
        object.getattr("__array_interface__")?.cast_into::<PyDict>()?.copy()?;
    if !writable {
        let at =
            interface.get_item("data")?.ok_or_else(|| PyTypeError::new_err("an array without memory"))?;
        interface.set_item("data", (at.get_item(0)?, true))?;
    }
    let lent = Bound::new(py, Lent { interface: interface.unbind(), _array: object.clone().unbind() })?;
    Ok(Argument { object: numpy.call_method1("asarray", (&lent,))?, lent: Some(lent) })
}

/// Returns the name of a value's type.
fn kind(value: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(value.get_type().name()?.to_string())
}

/// Form in which an operand is passed to the body.
#[derive(Clone, Copy)]
enum Shape {
    One,
    List(usize),
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Read,
    Update,
    Write,
}

/// Returns the next argument of a body: one value, or a Python list of several.
fn next<'py>(
    py: Python<'py>,
    shape: Shape,
    arguments: &mut impl Iterator<Item = PyResult<Argument<'py>>>,
    lent: &mut Vec<Bound<'py, Lent>>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut one = || -> PyResult<Bound<'py, PyAny>> {
        let argument = arguments.next().expect("as many as were declared")?;
        lent.extend(argument.lent);
        Ok(argument.object)
    };
    match shape {
        Shape::One => one(),
        Shape::List(count) => {
            let list = (0..count).map(|_| one()).collect::<PyResult<Vec<_>>>()?;
            Ok(list.into_pyobject(py)?.into_any())
        }
    }
}

/// Checks that only this function still refers to the lent memory.
fn given_back(py: Python<'_>, lent: Vec<Bound<'_, Lent>>) -> PyResult<()> {
    let count = py.import("sys")?.getattr("getrefcount")?;
    for lent in lent {
        // The references are that of this function and that of the call.
        if count.call1((&lent,))?.extract::<usize>()? > 2 {
            return Err(PyValueError::new_err(
                "the function has kept an array of its operands (or a view of one): it may only be used until it returns; keep a copy",
            ));
        }
    }
    Ok(())
}

/// Refuses the return value of a function that only updates, because it would be lost. An argument
/// of the function is permitted, since numpy's functions with `out=` return it; it was changed in
/// place.
fn nothing_returned(result: &Bound<'_, PyAny>, updates: &[Bound<'_, PyAny>]) -> PyResult<()> {
    if result.is_none() || updates.iter().any(|argument| argument.is(result)) {
        return Ok(());
    }
    Err(PyTypeError::new_err(format!(
        "the function returned a value of type {}, which would be lost: update() keeps what is changed in place, so change the array in place (`v *= 2`, \
         `v[:] = ...`) and return nothing, or return the value to a handle of write()",
        kind(result)?
    )))
}

/// Returns the values of a result, which must be as many as there are to write.
fn exactly<'py>(result: &Bound<'py, PyAny>, count: usize, what: &str) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let values = result.try_iter()?.collect::<PyResult<Vec<_>>>()?;
    match values.len() == count {
        true => Ok(values),
        false => Err(PyValueError::new_err(format!(
            "the function returned {} values for {count} {what}",
            values.len()
        ))),
    }
}

/// Calls the function with views of the operands that it reads and updates. Its return values are
/// written; it must return nothing else.
fn call<'v>(
    function: &Py<PyAny>,
    operands: &[(Mode, Shape)],
    read: impl Iterator<Item = &'v Value>,
    updated: Vec<&mut Value>,
    mut written: Vec<runtime::Slot<'_, Value>>,
) -> PyResult<()> {
    Python::attach(|py| {
        let mut read = read.map(|value| lend(py, value, false));
        let mut updated = updated.into_iter().map(|value| lend(py, value, true));
        let (mut arguments, mut lent, mut updates) = (Vec::new(), Vec::new(), Vec::new());
        for &(mode, shape) in operands {
            match mode {
                Mode::Read => arguments.push(next(py, shape, &mut read, &mut lent)?),
                Mode::Update => {
                    let argument = next(py, shape, &mut updated, &mut lent)?;
                    updates.push(argument.clone());
                    arguments.push(argument);
                }
                Mode::Write => {}
            }
        }
        let result = function.bind(py).call1(PyTuple::new(py, arguments)?)?;
        let shapes: Vec<Shape> =
            operands.iter().filter(|(mode, _)| *mode == Mode::Write).map(|&(_, shape)| shape).collect();
        if shapes.is_empty() && !updates.is_empty() {
            nothing_returned(&result, &updates)?;
        }
        let results = match shapes.len() {
            0 => Vec::new(),
            1 => vec![result.clone()],
            count => exactly(&result, count, "operands that it writes")?,
        };
        let mut slots = written.iter_mut();
        for (result, shape) in results.iter().zip(shapes) {
            let values = match shape {
                Shape::One => vec![result.clone()],
                Shape::List(count) => exactly(result, count, "handles of a list")?,
            };
            for value in values {
                slots.next().expect("as many as were declared").put(Value::new(&value));
            }
        }
        drop((result, results, updates));
        given_back(py, lent)
    })
}

/// Converts a runtime's error to an exception. If a Python function failed, its exception is the
/// cause.
fn raised(error: runtime::Error) -> PyErr {
    let raised = crate::error(&error);
    if let runtime::Error::Failed(failure) | runtime::Error::Poisoned { failure, .. } = &error
        && let Some(cause) = failure.downcast_ref::<PyErr>()
    {
        Python::attach(|py| raised.set_cause(py, Some(cause.clone_ref(py))));
    }
    raised
}

/// Owner of workers, tasks and the order of their execution.
#[pyclass(frozen)]
pub struct Runtime(Arc<runtime::Runtime>);

impl Drop for Runtime {
    /// Releases the interpreter's lock, which workers need to end their tasks.
    fn drop(&mut self) {
        let last = Arc::clone(&self.0);
        Python::attach(|py| py.detach(|| drop(last.wait_all())));
    }
}

impl Runtime {
    fn waits<R: Send>(
        &self,
        py: Python<'_>,
        wait: impl FnOnce(&runtime::Runtime) -> Result<R, runtime::Error> + Send,
    ) -> PyResult<R> {
        let rt = &self.0;
        detached(py, || rt.cancel_all(), || wait(rt))?.map_err(raised)
    }
}

#[pymethods]
impl Runtime {
    #[new]
    #[pyo3(signature = (workers, policy, window, bind, trace))]
    fn new(
        py: Python<'_>,
        workers: Option<usize>,
        policy: Option<&str>,
        window: Option<usize>,
        bind: Option<bool>,
        trace: bool,
    ) -> PyResult<Self> {
        let mut builder = runtime::Runtime::builder().trace(trace);
        builder = workers.into_iter().fold(builder, runtime::RuntimeBuilder::workers);
        builder = policy.into_iter().fold(builder, runtime::RuntimeBuilder::policy);
        builder = window.into_iter().fold(builder, runtime::RuntimeBuilder::window);
        builder = bind.into_iter().fold(builder, runtime::RuntimeBuilder::bind);
        py.detach(|| builder.build()).map(|rt| Runtime(Arc::new(rt))).map_err(raised)
    }

    #[getter]
    fn workers(&self) -> usize {
        self.0.workers()
    }

    #[getter]
    fn policy(&self) -> &str {
        self.0.policy()
    }

    #[pyo3(signature = (value, name=None))]
    fn register(&self, value: &Bound<'_, PyAny>, name: Option<String>) -> Handle {
        Handle::named(self.0.register(Value::new(value)), name)
    }

    #[pyo3(signature = (name=None))]
    fn register_empty(&self, name: Option<String>) -> Handle {
        Handle::named(self.0.register_empty(), name)
    }

    fn submit(&self, py: Python<'_>, call: Call) -> PyResult<Task> {
        py.detach(|| call.submit(&*self.0)).map(Task).map_err(raised)
    }

    fn record(&self, py: Python<'_>, calls: Vec<Call>) -> PyResult<Graph> {
        let record = || self.0.record(|on| calls.into_iter().try_for_each(|call| call.submit(on).map(drop)));
        py.detach(record).map(Graph).map_err(raised)
    }

    /// Replays a graph; `bind` has names of recorded handles, with the handles that replace them.
    fn replay(&self, py: Python<'_>, graph: &Graph, bind: Vec<(String, Py<Handle>)>) -> PyResult<Task> {
        let recorded = Bindings::recorded(&graph.0);
        let bindings = bind.iter().try_fold(recorded, |all, (name, handle)| all.and(name, &handle.get().0));
        let bindings = bindings.map_err(raised)?;
        py.detach(|| self.0.replay(&bindings)).map(Task).map_err(raised)
    }

    fn read(&self, py: Python<'_>, handle: &Bound<'_, Handle>) -> PyResult<Py<PyAny>> {
        let handle = handle.get().0.clone();
        let copy = |rt: &runtime::Runtime| {
            let value = rt.read(&handle)?;
            Ok(Python::attach(|py| {
                value
                    .object
                    .bind(py)
                    .call_method0("copy")
                    .map(Bound::unbind)
                    .unwrap_or_else(|_| value.object.clone_ref(py))
            }))
        };
        self.waits(py, copy)
    }

    fn take(&self, py: Python<'_>, handle: &Bound<'_, Handle>) -> PyResult<Py<PyAny>> {
        let handle = handle.get().0.clone();
        self.waits(py, |rt| rt.take(handle)).map(|value| value.object)
    }

    fn wait(&self, py: Python<'_>, task: &Task) -> PyResult<()> {
        let task = &task.0;
        self.waits(py, |rt| rt.wait(task))
    }

    fn wait_all(&self, py: Python<'_>) -> PyResult<()> {
        self.waits(py, runtime::Runtime::wait_all)
    }

    fn cancel_all(&self) {
        self.0.cancel_all();
    }

    fn write_trace(&self, py: Python<'_>, path: std::path::PathBuf) -> PyResult<()> {
        let rt = &self.0;
        let trace = py.detach(|| rt.take_trace());
        let trace = trace.ok_or_else(|| crate::error("nothing was recorded: Runtime(trace=True) records"))?;
        let write = || -> std::io::Result<()> {
            let mut file = std::io::BufWriter::new(std::fs::File::create(&path)?);
            trace.write_native(&mut file)?;
            std::io::Write::flush(&mut file)
        };
        py.detach(write).map_err(|error| crate::error(format!("{}: {error}", path.display())))
    }
}

/// One handle, or a list of handles.
#[derive(FromPyObject)]
enum Operand {
    One(Py<Handle>),
    List(Vec<Py<Handle>>),
}

/// A task before its submission: the function, pairs of a mode (0 read, 1 update, 2 write) and a
/// handle or a list of handles, the task's name, its priority.
#[derive(FromPyObject)]
struct Call(Py<PyAny>, Vec<(u8, Operand)>, String, i32);

impl Call {
    fn submit(self, on: &impl Submit) -> Result<runtime::TaskRef, runtime::Error> {
        let Call(function, operands, name, priority) = self;
        let (mut read, mut updated, mut written, mut shapes) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (mode, operand) in operands {
            let (shape, handles) = match operand {
                Operand::One(handle) => (Shape::One, vec![handle]),
                Operand::List(handles) => (Shape::List(handles.len()), handles),
            };
            let (mode, all) = match mode {
                0 => (Mode::Read, &mut read),
                1 => (Mode::Update, &mut updated),
                _ => (Mode::Write, &mut written),
            };
            shapes.push((mode, shape));
            all.extend(handles.iter().map(|handle| handle.get().0.clone()));
        }
        let operands = (reads(&read), updates(&updated), writes(&written));
        let task = on.task(name).operands(operands);
        let body =
            task.cpu(move |(read, updated, written)| call(&function, &shapes, read.iter(), updated, written));
        body.priority(priority).submit()
    }
}

/// A recorded graph of tasks.
#[pyclass(frozen)]
pub struct Graph(runtime::Graph);

#[pymethods]
impl Graph {
    fn __len__(&self) -> usize {
        self.0.len()
    }
}

/// Handle of one Python object.
#[pyclass(frozen)]
pub struct Handle(runtime::Handle<Value>);

impl Handle {
    fn named(handle: runtime::Handle<Value>, name: Option<String>) -> Handle {
        Handle(match name {
            Some(name) => handle.named(name),
            None => handle,
        })
    }
}

/// A submitted task.
#[pyclass(frozen)]
pub struct Task(runtime::TaskRef);

#[pymethods]
impl Task {
    fn cancel(&self) {
        self.0.cancel();
    }
}
