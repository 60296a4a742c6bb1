//! Operators that are made of others.

use crate::error::Error;
use crate::operator::{Operator, Workspace};
use crate::scalar::Scalar;
use crate::space::Space;
use crate::steps::Steps;
use crate::vector::MultiVector;
use crate::vector_task::{Coefficient, Term, times};

/// `A^H`, the adjoint of an operator that [has one](Operator::apply_adjoint).
///
/// ```
/// use zellige_krylov::{Adjoint, Space, from_fn, multiply};
/// use zellige_runtime::Runtime;
///
/// let (rt, space) = (Runtime::new()?, Space::new(2, 0));
/// let a = from_fn(&space, |x: &[f64], y: &mut [f64]| y.copy_from_slice(&[x[1], 0.0]));
/// let a = a.with_adjoint(|x: &[f64], y: &mut [f64]| y.copy_from_slice(&[0.0, x[0]]));
/// assert_eq!(multiply(&rt, &Adjoint(&a), &[1.0, 2.0])?, [0.0, 1.0]);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Adjoint<'a, E: Scalar = f64>(pub &'a dyn Operator<E>);

impl<E: Scalar> Operator<E> for Adjoint<'_, E> {
    fn domain(&self) -> &Space {
        self.0.range()
    }

    fn range(&self) -> &Space {
        self.0.domain()
    }

    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn memory(&self) -> u64 {
        self.0.memory()
    }

    fn accuracy(&self) -> f64 {
        self.0.accuracy()
    }

    fn is_fixed(&self) -> bool {
        self.0.is_fixed()
    }

    fn apply(&self, steps: &Steps<'_, E>, x: &MultiVector<E>, y: &MultiVector<E>) -> Result<(), Error> {
        self.0.apply_adjoint(steps, x, y)
    }

    fn apply_adjoint(
        &self,
        steps: &Steps<'_, E>,
        x: &MultiVector<E>,
        y: &MultiVector<E>,
    ) -> Result<(), Error> {
        self.0.apply(steps, x, y)
    }
}

/// `A B`.
///
/// ```
/// use zellige_krylov::{Product, Space, from_fn, multiply};
/// use zellige_runtime::Runtime;
///
/// let (rt, space) = (Runtime::new()?, Space::new(2, 0));
/// let twice = from_fn(&space, |x: &[f64], y: &mut [f64]| y.iter_mut().zip(x).for_each(|(y, x)| *y = 2.0 * x));
/// let four_times = Product::new(&twice, &twice)?;
/// assert_eq!(multiply(&rt, &four_times, &[1.0, 2.0])?, [4.0, 8.0]);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
pub struct Product<'a, E: Scalar = f64> {
    a: &'a dyn Operator<E>,
    b: &'a dyn Operator<E>,
    /// `B x`, or `A^H x`: the two have one space.
    between: Workspace<MultiVector<E>>,
}

impl<'a, E: Scalar> Product<'a, E> {
    /// Creates the product `A B`: `b` is applied first.
    ///
    /// # Errors
    /// [`Error::Shape`] unless the domain of `a` is the range of `b`.
    pub fn new(a: &'a dyn Operator<E>, b: &'a dyn Operator<E>) -> Result<Self, Error> {
        check(a.domain(), b.range())?;
        Ok(Product { a, b, between: Workspace::default() })
    }

    fn between(&self, steps: &Steps<'_, E>) -> std::sync::Arc<MultiVector<E>> {
        let columns = steps.columns();
        self.between.of(columns, || MultiVector::zeros(steps.executor(), self.b.range(), columns))
    }
}

/// Refuses different spaces.
fn check(wanted: &Space, found: &Space) -> Result<(), Error> {
    if wanted == found {
        return Ok(());
    }
    let parts = |space: &Space| format!("{} rows in {} parts", space.len(), space.parts());
    Err(Error::shape("operators", format!("{} for {}", parts(found), parts(wanted))))
}

impl<E: Scalar> Operator<E> for Product<'_, E> {
    fn domain(&self) -> &Space {
        self.b.domain()
    }

    fn range(&self) -> &Space {
        self.a.range()
    }

    fn bytes(&self) -> u64 {
        self.a.bytes() + self.b.bytes()
    }

    fn memory(&self) -> u64 {
        self.a.memory() + self.b.memory() + self.b.range().bytes(E::WORDS)
    }

    fn accuracy(&self) -> f64 {
        self.a.accuracy() + self.b.accuracy()
    }

    fn is_fixed(&self) -> bool {
        self.a.is_fixed() && self.b.is_fixed()
    }

    fn apply(&self, steps: &Steps<'_, E>, x: &MultiVector<E>, y: &MultiVector<E>) -> Result<(), Error> {
        let between = self.between(steps);
        self.b.apply(&steps.on(self.b.range()), x, &between)?;
        self.a.apply(&steps.on(self.a.range()), &between, y)
    }

    fn apply_adjoint(
        &self,
        steps: &Steps<'_, E>,
        x: &MultiVector<E>,
        y: &MultiVector<E>,
    ) -> Result<(), Error> {
        let between = self.between(steps);
        self.a.apply_adjoint(&steps.on(self.a.domain()), x, &between)?;
        self.b.apply_adjoint(&steps.on(self.b.domain()), &between, y)
    }
}

/// `c_1 A_1 + c_2 A_2 + ...`: sums, differences and multiples of operators.
///
/// ```
/// use zellige_krylov::{Combination, Space, from_fn, multiply};
/// use zellige_runtime::Runtime;
///
/// let (rt, space) = (Runtime::new()?, Space::new(2, 0));
/// let same = from_fn(&space, |x: &[f64], y: &mut [f64]| y.copy_from_slice(x));
/// let swap = from_fn(&space, |x: &[f64], y: &mut [f64]| y.copy_from_slice(&[x[1], x[0]]));
/// let difference = Combination::new(&[(3.0, &same), (-1.0, &swap)])?;
/// assert_eq!(multiply(&rt, &difference, &[1.0, 2.0])?, [1.0, 5.0]);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
pub struct Combination<'a, E: Scalar = f64> {
    terms: Vec<(E, &'a dyn Operator<E>)>,
    /// A term, in the operators' range, and in their domain.
    term: [Workspace<MultiVector<E>>; 2],
}

impl<'a, E: Scalar> Combination<'a, E> {
    /// Creates a combination of coefficients and operators.
    ///
    /// # Errors
    /// [`Error::Shape`] without terms, and unless all have the same domain and range.
    pub fn new(terms: &[(E, &'a dyn Operator<E>)]) -> Result<Self, Error> {
        let Some((_, first)) = terms.first() else { return Err(Error::shape("operators", "none")) };
        for (_, other) in terms {
            check(first.domain(), other.domain())?;
            check(first.range(), other.range())?;
        }
        Ok(Combination { terms: terms.to_vec(), term: Default::default() })
    }

    /// Records `y = sum of c_k y_k`; `apply` computes `y_k` with the operator of term `k`.
    fn add(
        &self,
        steps: &Steps<'_, E>,
        y: &MultiVector<E>,
        workspace: &Workspace<MultiVector<E>>,
        terms: impl Iterator<Item = (E, &'a dyn Operator<E>)>,
        apply: impl Fn(&dyn Operator<E>, &MultiVector<E>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let columns = steps.columns();
        for (k, (coefficient, operator)) in terms.enumerate() {
            let term = |v: &MultiVector<E>| Term::new(Coefficient::Constant(coefficient), v);
            if k == 0 {
                apply(operator, y)?;
                steps.task("combine").assign(y, [term(y)]).submit()?;
                continue;
            }
            let of_term = workspace.of(columns, || MultiVector::zeros(steps.executor(), y.space(), columns));
            apply(operator, &of_term)?;
            steps.task("combine").assign(y, [times(1.0, y), term(&of_term)]).submit()?;
        }
        Ok(())
    }
}

impl<E: Scalar> Operator<E> for Combination<'_, E> {
    fn domain(&self) -> &Space {
        self.terms[0].1.domain()
    }

    fn range(&self) -> &Space {
        self.terms[0].1.range()
    }

    fn bytes(&self) -> u64 {
        self.terms.iter().map(|(_, a)| a.bytes()).sum()
    }

    fn memory(&self) -> u64 {
        let vectors = if self.terms.len() > 1 { self.range().bytes(E::WORDS) } else { 0 };
        self.terms.iter().map(|(_, a)| a.memory()).sum::<u64>() + vectors
    }

    fn accuracy(&self) -> f64 {
        self.terms.iter().fold(0.0, |most: f64, (_, a)| most.max(a.accuracy()))
    }

    fn is_fixed(&self) -> bool {
        self.terms.iter().all(|(_, a)| a.is_fixed())
    }

    fn apply(&self, steps: &Steps<'_, E>, x: &MultiVector<E>, y: &MultiVector<E>) -> Result<(), Error> {
        let steps = &steps.on(self.range());
        let terms = self.terms.iter().copied();
        self.add(steps, y, &self.term[0], terms, |a, y| a.apply(steps, x, y))
    }

    fn apply_adjoint(
        &self,
        steps: &Steps<'_, E>,
        x: &MultiVector<E>,
        y: &MultiVector<E>,
    ) -> Result<(), Error> {
        let steps = &steps.on(self.domain());
        let terms = self.terms.iter().map(|(coefficient, a)| (coefficient.conj(), *a));
        self.add(steps, y, &self.term[1], terms, |a, y| a.apply_adjoint(steps, x, y))
    }
}
