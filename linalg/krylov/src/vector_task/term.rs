//! Terms of linear combinations.

use crate::scalar::Scalar;
use crate::vector::MultiVector;

/// Factor of a term of a linear combination.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Coefficient<E = f64> {
    /// A constant.
    Constant(E),
    /// One of the method's scalars, by index.
    Number(usize),
    /// The negative of one of the method's scalars, by index.
    Negative(usize),
}

impl<E: Scalar> Coefficient<E> {
    pub(super) fn of(self, own: impl Fn(usize) -> E) -> E {
        match self {
            Coefficient::Constant(constant) => constant,
            Coefficient::Number(at) => own(at),
            Coefficient::Negative(at) => -own(at),
        }
    }
}

/// Returns the term `scalars[at] * v`.
pub fn plus<E: Scalar>(at: usize, v: &MultiVector<E>) -> Term<E> {
    Term::new(Coefficient::Number(at), v)
}

/// Returns the term `-scalars[at] * v`.
pub fn minus<E: Scalar>(at: usize, v: &MultiVector<E>) -> Term<E> {
    Term::new(Coefficient::Negative(at), v)
}

/// Returns the term `constant * v`.
pub fn times<E: Scalar>(constant: f64, v: &MultiVector<E>) -> Term<E> {
    Term::new(Coefficient::Constant(E::from_real(constant)), v)
}

/// A term of a linear combination.
#[derive(Clone, Debug)]
pub struct Term<E: Scalar> {
    pub(super) coefficient: Coefficient<E>,
    pub(super) diagonal: Option<MultiVector<E>>,
    pub(super) v: MultiVector<E>,
}

impl<E: Scalar> Term<E> {
    /// Creates the term `coefficient * v`.
    pub fn new(coefficient: Coefficient<E>, v: &MultiVector<E>) -> Self {
        Term { coefficient, diagonal: None, v: v.clone() }
    }

    /// Multiplies the term by a diagonal matrix, a vector of one column: `(coefficient *
    /// diagonal_i) * v_i`.
    #[must_use]
    pub fn scaled_by(self, diagonal: &MultiVector<E>) -> Self {
        Term { diagonal: Some(diagonal.clone()), ..self }
    }
}
