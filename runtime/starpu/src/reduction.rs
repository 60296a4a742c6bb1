//! Reductions: workers add to copies of their own, which a task adds before the next access of
//! another kind.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use parking_lot::Mutex;
use zellige_runtime::internal::untyped::{self, TokenAccess, Untyped, UntypedOptions};
use zellige_runtime::{Mode, TaskError};

use crate::data::{Carried, Data, Order, data, destroy};
use crate::gpus::gpu_of;
use crate::handles::starpu_data_register_same;
use crate::instance::{Instance, complain, get};
use crate::types::*;

/// Codelets of a reduction, and its state in the order of submission.
#[derive(Clone)]
pub struct Reduction {
    codelet: *mut starpu_codelet,
    argument: *mut c_void,
    init: *mut starpu_codelet,
    init_argument: *mut c_void,
    scratch: starpu_data_handle_t,
    /// Copies of workers, while tasks that contribute are submitted.
    copies: Option<Arc<Copies>>,
}

impl Default for Reduction {
    fn default() -> Self {
        Reduction {
            codelet: ptr::null_mut(),
            argument: ptr::null_mut(),
            init: ptr::null_mut(),
            init_argument: ptr::null_mut(),
            scratch: ptr::null_mut(),
            copies: None,
        }
    }
}

/// Copies of workers of one round of a reduction, in the order in which they were made.
#[derive(Default)]
pub struct Copies(Mutex<Made>);

/// The copies, and the number of each worker's.
#[derive(Default)]
struct Made {
    of_worker: HashMap<usize, usize>,
    all: Vec<Carried<_starpu_data_state>>,
}

/// Calls the first CPU function of a codelet.
unsafe fn call(codelet: *mut starpu_codelet, buffers: &mut [*mut c_void], argument: *mut c_void) {
    match crate::functions::cpu_function(codelet, 0) {
        Some(function) => function(buffers.as_mut_ptr(), argument),
        None => complain(format_args!("a codelet of a reduction has no CPU function")),
    }
}

/// Notes that a task that contributes is being submitted.
pub fn begin(order: &mut Order) -> Result<(), String> {
    if order.reduction.codelet.is_null() && order.reduction.init.is_null() {
        return Err("STARPU_REDUX needs starpu_data_set_reduction_methods".into());
    }
    let lacks_function = |codelet: *mut starpu_codelet| {
        // SAFETY: null, or a codelet of the application.
        !codelet.is_null() && unsafe { crate::functions::cpu_function(codelet, 0) }.is_none()
    };
    if lacks_function(order.reduction.codelet) || lacks_function(order.reduction.init) {
        return Err("the codelets of a reduction need CPU functions".into());
    }
    order.reduction.copies.get_or_insert_default();
    Ok(())
}

impl Copies {
    /// Returns the copy of a worker; it is made and initialised at its first use.
    pub unsafe fn of_worker(&self, of: &Data, reduction: &Reduction, worker: usize) -> starpu_data_handle_t {
        let known = {
            let copies = self.0.lock();
            copies.of_worker.get(&worker).map(|&at| copies.all[at].get())
        };
        if let Some(known) = known {
            return known;
        }
        let mut made = ptr::null_mut();
        starpu_data_register_same(&raw mut made, of.handle());
        if !reduction.init.is_null() {
            call(reduction.init, &mut [data(made).value()], reduction.init_argument);
        }
        let mut copies = self.0.lock();
        let at = copies.all.len();
        copies.of_worker.insert(worker, at);
        copies.all.push(Carried(made));
        made
    }
}

impl Reduction {
    /// Returns the codelets without a round.
    pub fn without_copies(self) -> Self {
        Reduction { copies: None, ..self }
    }

    /// Returns the open round of copies.
    pub fn copies(&self) -> Option<&Arc<Copies>> {
        self.copies.as_ref()
    }
}

// SAFETY: codelets and arguments are the application's, to be used from any thread.
unsafe impl Send for Reduction {}
// SAFETY: as above.
unsafe impl Sync for Reduction {}

/// A task of the interface itself.
pub struct Internal {
    accesses: Vec<TokenAccess>,
    body: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Untyped for Internal {
    fn accesses(&self) -> &[TokenAccess] {
        &self.accesses
    }

    fn can_execute(&self, worker: usize) -> bool {
        gpu_of(worker).is_none()
    }

    fn run(&self, _worker: usize) -> Result<(), TaskError> {
        let body = self.body.lock().take();
        body.into_iter().for_each(|body| body());
        Ok(())
    }
}

/// Submits a task of the interface itself.
pub fn submit(
    instance: &Instance,
    name: &'static str,
    accesses: Vec<TokenAccess>,
    body: impl FnOnce() + Send + 'static,
) {
    instance.unfinished.add();
    let body = move || {
        body();
        if let Some(instance) = get() {
            instance.unfinished.remove();
        }
    };
    let task = Internal { accesses, body: Mutex::new(Some(Box::new(body))) };
    // A core is there for them, unless all workers are GPUs.
    let restricted = (1..instance.workers).contains(&instance.gpus.len());
    let options = UntypedOptions { name, restricted, ..UntypedOptions::default() };
    if let Err(error) = untyped::submit(&instance.rt, options, task) {
        complain(format_args!("{name}: {error}"));
    }
}

/// Submits the task that adds the copies of the open round, if there is one.
pub fn finish(instance: &Instance, of: &Data, order: &mut Order) {
    let Some(copies) = order.reduction.copies.take() else { return };
    let (has_value, reduction) = (order.initialized, order.reduction.clone());
    order.initialized = true;
    let target = Carried(of.handle());
    submit(instance, "reduction", vec![of.access(Mode::Update)], move || {
        let copies = std::mem::take(&mut copies.0.lock().all);
        // SAFETY: the task has the turn on the handle, and the copies are this round's alone.
        unsafe { add(data(target.get()), &reduction, &copies, has_value) };
    });
}

unsafe fn add(
    target: &Data,
    reduction: &Reduction,
    copies: &[Carried<_starpu_data_state>],
    mut has_value: bool,
) {
    for copy in copies {
        add_one(target, reduction, data(copy.0), has_value);
        has_value = true;
        destroy(copy.0);
    }
}

/// Adds one value; the first one is copied.
unsafe fn add_one(target: &Data, reduction: &Reduction, from: &Data, has_value: bool) {
    if !has_value {
        target.copy_from(from);
    } else if reduction.scratch.is_null() {
        call(reduction.codelet, &mut [target.value(), from.value()], reduction.argument);
    } else {
        let scratch = data(reduction.scratch).value();
        call(reduction.codelet, &mut [target.value(), from.value(), scratch], reduction.argument);
    }
}

/// Submits a task that adds the value of `from` to that of `to`.
///
/// # Errors
/// The reason why the data cannot be used.
#[cfg(feature = "mpi")]
pub unsafe fn submit_sum(
    instance: &Instance,
    to: starpu_data_handle_t,
    from: starpu_data_handle_t,
) -> Result<(), String> {
    let (of, part) = (data(to), data(from));
    let (has_value, reduction) = {
        let order = of.order();
        (order.initialized || order.reduction.copies.is_some(), order.reduction.clone().without_copies())
    };
    crate::data::prepare(instance, to, STARPU_W)?;
    let (target, source) = (Carried(to), Carried(from));
    submit(instance, "reduction", vec![of.access(Mode::Update), part.access(Mode::Read)], move || {
        // SAFETY: the task has the turns on both handles.
        unsafe { add_one(data(target.get()), &reduction, data(source.get()), has_value) };
    });
    Ok(())
}

/// Submits the task that makes the first value; returns false if there is no codelet for that.
pub fn initialize(instance: &Instance, of: &Data, order: &mut Order) -> bool {
    if order.reduction.init.is_null() {
        return false;
    }
    order.initialized = true;
    let (target, reduction) = (Carried(of.handle()), order.reduction.clone());
    submit(instance, "init", vec![of.access(Mode::Update)], move || {
        let reduction = &reduction;
        // SAFETY: the task has the turn on the handle.
        unsafe {
            let value = data(target.get()).value();
            call(reduction.init, &mut [value], reduction.init_argument);
        }
    });
    true
}

/// Drops the copies of a handle that goes.
pub unsafe fn drop_copies(of: &Data) {
    if let Some(copies) = of.order().reduction.copies.take() {
        let copies = std::mem::take(&mut copies.0.lock().all);
        copies.iter().for_each(|copy| destroy(copy.0));
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_set_reduction_methods_with_args(
    handle: starpu_data_handle_t,
    codelet: *mut starpu_codelet,
    argument: *mut c_void,
    init: *mut starpu_codelet,
    init_argument: *mut c_void,
) {
    let data = data(handle);
    let mut order = data.order();
    let reduction = &mut order.reduction;
    (reduction.codelet, reduction.argument) = (codelet, argument);
    (reduction.init, reduction.init_argument) = (init, init_argument);
    for part in order.parts.all() {
        starpu_data_set_reduction_methods_with_args(part, codelet, argument, init, init_argument);
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_set_reduction_methods(
    handle: starpu_data_handle_t,
    codelet: *mut starpu_codelet,
    init: *mut starpu_codelet,
) {
    starpu_data_set_reduction_methods_with_args(handle, codelet, ptr::null_mut(), init, ptr::null_mut());
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_set_reduction_scratch(
    handle: starpu_data_handle_t,
    scratch: starpu_data_handle_t,
) {
    data(handle).order().reduction.scratch = scratch;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_data_has_reduction_methods(handle: starpu_data_handle_t) -> u32 {
    u32::from(!data(handle).order().reduction.codelet.is_null())
}
