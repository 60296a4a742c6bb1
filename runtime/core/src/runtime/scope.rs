//! Scopes, in which tasks may use slices of the caller.

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::Runtime;
use crate::buffer::Element;
use crate::engine::Gate;
use crate::error::Error;
use crate::submit::Submit;
use crate::task::{AnyHandle, Body, Handle, Lending, Spec, TaskRef};
use crate::value::BorrowedSlice;

/// A part of the caller's code during which tasks may use borrowed slices; see [`Runtime::scope`].
///
/// ```
/// use zellige_runtime::{Error, Runtime, Scope, Submit, update};
///
/// fn negate<'a>(scope: &Scope<'_, 'a>, numbers: &'a mut [f32]) -> Result<(), Error> {
///     let rows = numbers.len();
///     let x = scope.slice(numbers, rows, rows)?;
///     scope.task("negate").operands((update(&x),)).cpu(|(x,)| x.data.iter_mut().for_each(|x| *x = -*x)).submit()?;
///     Ok(())
/// }
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let mut numbers = [1.0, 2.0];
/// rt.scope(|scope| negate(scope, &mut numbers))?;
/// assert_eq!(numbers, [-1.0, -2.0]);
/// # Ok::<(), zellige_runtime::Error>(())
/// ```
pub struct Scope<'rt, 'env> {
    runtime: &'rt Runtime,
    slices: RefCell<Vec<Box<dyn Retire>>>,
    // Invariant in 'env: a slice must outlive the scope, not just its registration.
    _env: PhantomData<&'env mut &'env ()>,
}

/// A registered slice that the scope must get back.
trait Retire {
    fn retire(&self, runtime: &Runtime) -> Result<(), Error>;
}

impl<T: Element> Retire for Handle<BorrowedSlice<T>> {
    fn retire(&self, runtime: &Runtime) -> Result<(), Error> {
        // First refuse further tasks, then wait for the existing ones; the wait is the same for a
        // poisoned slice.
        self.core().retire();
        Gate::wait_out(&runtime.engine, self)?;
        match self.core().base().failure() {
            Some(failure) => Err(Error::Poisoned { handle: self.name(), failure }),
            None => Ok(()),
        }
    }
}

impl<'rt, 'env> Scope<'rt, 'env> {
    pub(super) fn new(runtime: &'rt Runtime) -> Self {
        Scope { runtime, slices: RefCell::default(), _env: PhantomData }
    }

    /// Registers a slice and returns its handle: columns of `rows` elements with leading dimension
    /// `ld`. The slice must outlive the scope:
    ///
    /// ```compile_fail,E0597
    /// # use zellige_runtime::{Error, Runtime};
    /// # let rt = Runtime::new().unwrap();
    /// rt.scope(|s| {
    ///     let mut short = vec![1.0f32];
    ///     let handle = s.slice(&mut short, 1, 1)?;
    ///     Ok::<(), Error>(())
    /// }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`Error::Config`] if `rows > ld`, or if `ld` is 0 and the slice is not empty;
    /// [`Error::SelfWait`] in a body that cannot wait for the end of the scope: one that runs on a
    /// device, or runs several tasks.
    pub fn slice<T: Element>(
        &self,
        slice: &'env mut [T],
        rows: usize,
        ld: usize,
    ) -> Result<Handle<BorrowedSlice<T>>, Error> {
        self.runtime.engine.check_can_wait()?;
        if rows > ld || (ld == 0 && !slice.is_empty()) {
            return Err(Error::Config(format!(
                "a leading dimension of {ld} cannot hold columns of {rows} rows"
            )));
        }
        // SAFETY: the scope retires the handle and waits for its tasks when it ends or is dropped,
        // before 'env ends.
        let borrowed = unsafe { BorrowedSlice::new(slice, rows, ld) };
        let handle = Handle::new(Some(borrowed));
        let base = handle.core().base();
        // No other runtime may run tasks on it: the scope waits in its own runtime only.
        base.belongs_to(self.runtime.engine.id);
        let engine = Arc::downgrade(&self.runtime.engine);
        let wake = move || engine.upgrade().into_iter().for_each(|engine| engine.wake_other_waiters());
        base.is_lent_in(Lending::new(wake));
        self.slices.borrow_mut().push(Box::new(handle.clone()));
        Ok(handle)
    }

    /// Waits for the tasks on all slices; returns the first failure.
    pub(super) fn end(&self) -> Result<(), Error> {
        let slices = std::mem::take(&mut *self.slices.borrow_mut());
        let ends = slices.iter().map(|slice| slice.retire(self.runtime));
        // Wait for all of them, also after a failure.
        ends.fold(Ok(()), Result::and)
    }
}

impl Submit for Scope<'_, '_> {
    fn owner(&self) -> Option<u32> {
        Some(self.runtime.engine.id)
    }

    fn submit_spec<B: Body + 'static>(&self, spec: Spec<B>) -> Result<TaskRef, Error> {
        self.runtime.engine.submit(spec)
    }

    fn announce_step(&self, tasks: usize) {
        self.runtime.engine.announce_step(tasks);
    }
}

impl Drop for Scope<'_, '_> {
    fn drop(&mut self) {
        // Only after a panic of the caller's code is there still something to wait for, and
        // failures cannot be reported.
        let _ = self.end();
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope({} slices)", self.slices.borrow().len())
    }
}
