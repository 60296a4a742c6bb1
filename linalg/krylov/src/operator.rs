//! Operators of Krylov methods.

use std::sync::{Arc, Mutex, PoisonError};

use zellige_runtime::{reads, updates};

use crate::error::Error;
use crate::executor::Executor;
use crate::numbers::NumbersHandle;
use crate::scalar::Scalar;
use crate::space::{Space, joined};
use crate::steps::Steps;
use crate::storage::Storage;
use crate::vector::MultiVector;

/// A linear operator: a matrix, a preconditioner, a function, or a composition of these.
///
/// ```
/// use zellige_krylov::{Error, MultiVector, Operator, Space, method::Steps, method::times, multiply};
/// use zellige_runtime::Runtime;
///
/// /// The identity times a number.
/// struct Multiple(f64, Space);
///
/// impl Operator for Multiple {
///     fn domain(&self) -> &Space {
///         &self.1
///     }
///
///     fn bytes(&self) -> u64 {
///         0
///     }
///
///     fn apply(&self, steps: &Steps<'_, f64>, x: &MultiVector, y: &MultiVector) -> Result<(), Error> {
///         steps.task("multiple").assign(y, [times(self.0, x)]).submit()
///     }
/// }
///
/// let rt = Runtime::builder().workers(1).build()?;
/// assert_eq!(multiply(&rt, &Multiple(3.0, Space::new(2, 0)), &[1.0, 2.0])?, [3.0, 6.0]);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
pub trait Operator<E: Scalar = f64>: Send + Sync {
    /// Returns the space of its input vectors.
    fn domain(&self) -> &Space;

    /// Returns the space of its results.
    fn range(&self) -> &Space {
        self.domain()
    }

    /// Returns the bytes that an application reads besides vectors.
    fn bytes(&self) -> u64;

    /// Returns the bytes that it keeps in memory, including its own vectors.
    fn memory(&self) -> u64 {
        self.bytes()
    }

    /// Returns the relative accuracy of its products: the unit roundoff of float64, or the accuracy
    /// of its stored values.
    fn accuracy(&self) -> f64 {
        f64::EPSILON / 2.0
    }

    /// Returns true if it is constant over the steps. Most methods require that of preconditioners.
    fn is_fixed(&self) -> bool {
        true
    }

    /// Returns true if its vectors may be in this storage. Vectors in others are decoded before it,
    /// and encoded after it.
    fn takes(&self, storage: &dyn Storage<E>) -> bool {
        storage.is_plain()
    }

    /// Records `y = A x`, for each column. The two are different vectors.
    ///
    /// # Errors
    /// Those of submission; [`Error::Parameter`] for a number of columns that it has no kernel for.
    fn apply(&self, steps: &Steps<'_, E>, x: &MultiVector<E>, y: &MultiVector<E>) -> Result<(), Error>;

    /// Records `y = A x`, and that sum `at` becomes `conj(x) . y`: operators that can make it on
    /// the way read two vectors less.
    ///
    /// # Errors
    /// Those of [`apply`](Operator::apply).
    fn apply_dot(
        &self,
        steps: &Steps<'_, E>,
        x: &MultiVector<E>,
        y: &MultiVector<E>,
        at: usize,
    ) -> Result<(), Error> {
        self.apply(steps, x, y)?;
        steps.task("dot").dot(x, y, at).submit()
    }

    /// Records `y = A^H x`, for each column. The two are different vectors.
    ///
    /// # Errors
    /// [`Error::Parameter`] for an operator without an adjoint, which is the default
    /// implementation; those of [`apply`](Operator::apply).
    fn apply_adjoint(
        &self,
        steps: &Steps<'_, E>,
        x: &MultiVector<E>,
        y: &MultiVector<E>,
    ) -> Result<(), Error> {
        let _ = (steps, x, y);
        Err(Error::parameter("operator", "its adjoint is not known"))
    }
}

/// Records `y = A x` for vectors in any storage, and sum `dot`, if there is one, of `conj(x) . y`.
///
/// # Errors
/// Those of [`Operator::apply`].
pub fn apply_to<E: Scalar>(
    steps: &Steps<'_, E>,
    a: &dyn Operator<E>,
    x: &MultiVector<E>,
    y: &MultiVector<E>,
    dot: Option<usize>,
) -> Result<(), Error> {
    let plain = |v: &MultiVector<E>| match a.takes(&**v.storage()) {
        true => v.clone(),
        false => MultiVector::zeros(steps.executor(), v.space(), v.columns()),
    };
    let (from, to) = (plain(x), plain(y));
    if !from.is(x) {
        steps.task("decode").copy(&from, x).submit()?;
    }
    match dot {
        Some(at) if from.is(x) && to.is(y) => return a.apply_dot(steps, x, y, at),
        _ => a.apply(steps, &from, &to)?,
    }
    let task = steps.task("encode");
    let task = if to.is(y) { task } else { task.copy(y, &to) };
    match dot {
        Some(at) => task.dot(x, y, at).submit(),
        None if to.is(y) => Ok(()),
        None => task.submit(),
    }
}

/// Refuses a preconditioner that changes from step to step, for a method that has no use for it;
/// `instead` names one that has.
pub(crate) fn check_fixed<E: Scalar>(
    m: Option<&dyn Operator<E>>,
    method: &'static str,
    instead: &'static str,
) -> Result<(), Error> {
    match m {
        Some(m) if !m.is_fixed() => {
            let problem = format!("{method} needs a preconditioner that does not change: use {instead}");
            Err(Error::parameter("method", problem))
        }
        _ => Ok(()),
    }
}

/// Computes `A x` immediately, by a task graph that is run once.
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{multiply};
///
/// let y = multiply(&rt, &a, &[2.0; 50])?; // `a` has 1, 2, ... 50 on its diagonal
/// assert_eq!((y[0], y[49]), (2.0, 100.0));
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
///
/// # Errors
/// [`Error::Shape`] for a vector of another length; those of [`Operator::apply`] and of tasks.
pub fn multiply<E: Scalar>(rt: &dyn Executor, a: &dyn Operator<E>, x: &[E]) -> Result<Vec<E>, Error> {
    if x.len() != a.domain().len() {
        return Err(Error::shape("vector", format!("{} elements for {} columns", x.len(), a.domain().len())));
    }
    let (x, y) = (MultiVector::from_column(rt, a.domain(), x), MultiVector::zeros(rt, a.range(), 1));
    let numbers = NumbersHandle::new(rt, 1, 0);
    rt.record(|graph| a.apply(&Steps::new(rt, graph, a.domain(), &numbers), &x, &y))?.run()?;
    y.column(rt, 0)
}

/// Creates an operator from a function: `f(x, y)` overwrites `y` with `A x`, for whole vectors of
/// one column each.
///
/// ```
/// use zellige_krylov::{Cg, Solve, Space, Stop, from_fn, solve};
/// use zellige_runtime::Runtime;
///
/// let (rt, n) = (Runtime::new()?, 1000);
/// let space = Space::new(n, 0);
/// // 4 on the diagonal, -1 beside it.
/// let a = from_fn(&space, |x: &[f64], y: &mut [f64]| {
///     for i in 0..x.len() {
///         let beside = |j: Option<usize>| j.and_then(|j| x.get(j)).copied().unwrap_or(0.0);
///         y[i] = 4.0 * x[i] - beside(i.checked_sub(1)) - beside(Some(i + 1));
///     }
/// });
/// let (b, mut x) = (vec![1.0; n], vec![0.0; n]);
/// let solution = solve(&Solve::new(&rt, &a), &Cg::default(), &b, &mut x, &Stop::RelativeToRhs(1e-10), &mut ())?;
/// assert!(solution.reason.is_converged());
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
pub fn from_fn<E: Scalar>(space: &Space, f: impl Fn(&[E], &mut [E]) + Send + Sync + 'static) -> FromFn<E> {
    from_fn_between(space, space, f)
}

/// Creates an operator like [`from_fn`], for a function from vectors of `domain` to those of
/// `range`.
///
/// ```
/// use zellige_krylov::{Space, from_fn_between, multiply};
/// use zellige_runtime::Runtime;
///
/// let (rt, domain, range) = (Runtime::new()?, Space::new(2, 0), Space::new(1, 0));
/// let sum = from_fn_between(&domain, &range, |x: &[f64], y: &mut [f64]| y[0] = x[0] + x[1]);
/// assert_eq!(multiply(&rt, &sum, &[1.0, 2.0])?, [3.0]);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
pub fn from_fn_between<E: Scalar>(
    domain: &Space,
    range: &Space,
    f: impl Fn(&[E], &mut [E]) + Send + Sync + 'static,
) -> FromFn<E> {
    FromFn { domain: domain.clone(), range: range.clone(), f: Arc::new(f), adjoint: None }
}

/// Function `f(x, y)` that overwrites `y` with `A x`.
type Function<E> = dyn Fn(&[E], &mut [E]) + Send + Sync;

/// See [`from_fn`].
///
/// ```
/// use zellige_krylov::{Adjoint, FromFn, Space, from_fn, multiply};
/// use zellige_runtime::Runtime;
///
/// let rt = Runtime::builder().workers(1).build()?;
/// let shift: FromFn<f64> = from_fn(&Space::new(3, 0), |x: &[f64], y: &mut [f64]| {
///     y.copy_from_slice(&[0.0, x[0], x[1]]);
/// });
/// let shift = shift.with_adjoint(|x, y| y.copy_from_slice(&[x[1], x[2], 0.0]));
/// assert_eq!(multiply(&rt, &Adjoint(&shift), &[1.0, 2.0, 3.0])?, [2.0, 3.0, 0.0]);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone)]
pub struct FromFn<E> {
    domain: Space,
    range: Space,
    f: Arc<Function<E>>,
    adjoint: Option<Arc<Function<E>>>,
}

impl<E: Scalar> FromFn<E> {
    /// Adds an adjoint: `f(x, y)` overwrites `y` with `A^H x`.
    #[must_use]
    pub fn with_adjoint(self, f: impl Fn(&[E], &mut [E]) + Send + Sync + 'static) -> Self {
        FromFn { adjoint: Some(Arc::new(f)), ..self }
    }
}

impl<E: Scalar> Operator<E> for FromFn<E> {
    fn domain(&self) -> &Space {
        &self.domain
    }

    fn range(&self) -> &Space {
        &self.range
    }

    fn bytes(&self) -> u64 {
        0
    }

    fn apply(&self, steps: &Steps<'_, E>, x: &MultiVector<E>, y: &MultiVector<E>) -> Result<(), Error> {
        call(&self.f, steps, x, y)
    }

    fn apply_adjoint(
        &self,
        steps: &Steps<'_, E>,
        x: &MultiVector<E>,
        y: &MultiVector<E>,
    ) -> Result<(), Error> {
        let without = || Error::parameter("operator", "a function without an adjoint: see `with_adjoint`");
        call(self.adjoint.as_ref().ok_or_else(without)?, steps, x, y)
    }
}

/// Records that a function is called for each column.
fn call<E: Scalar>(
    f: &Arc<Function<E>>,
    steps: &Steps<'_, E>,
    x: &MultiVector<E>,
    y: &MultiVector<E>,
) -> Result<(), Error> {
    if !(x.storage().is_plain() && y.storage().is_plain()) {
        return Err(Error::parameter("storage", "functions are applied to vectors in float64"));
    }
    let (f, columns) = (Arc::clone(f), steps.columns());
    steps.one("function", 0, (reads(x.parts()), updates(y.parts())), move |(x, mut y)| {
        let x = joined(x);
        let rows = y.iter_mut().map(|part| E::of_words_mut(part).len()).sum::<usize>() / columns;
        let mut result = vec![E::default(); rows];
        for c in 0..columns {
            let column: Vec<E> = E::of_words(&x).iter().skip(c).step_by(columns).copied().collect();
            f(&column, &mut result);
            let places = y.iter_mut().flat_map(|part| E::of_words_mut(part));
            places.skip(c).step_by(columns).zip(&result).for_each(|(to, from)| *to = *from);
        }
    })
}

/// Vectors of an operator's own, made once for each number of columns that it is applied to.
#[derive(Debug)]
pub struct Workspace<T> {
    made: Mutex<Vec<(usize, Arc<T>)>>,
}

impl<T> Default for Workspace<T> {
    fn default() -> Self {
        Workspace { made: Mutex::default() }
    }
}

impl<T> Workspace<T> {
    /// Returns the workspace for `columns` columns.
    pub fn of(&self, columns: usize, make: impl FnOnce() -> T) -> Arc<T> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, one)) = made.iter().find(|(count, _)| *count == columns) {
            return Arc::clone(one);
        }
        let one = Arc::new(make());
        made.push((columns, Arc::clone(&one)));
        one
    }
}
