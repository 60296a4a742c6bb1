//! A step of Arnoldi's method: `w = A M^-1 v_j` is made orthogonal to `v_0 .. v_j`, and becomes
//! `v_{j+1}`.

use std::ops::Range;
use std::str::FromStr;

use zellige_kernels::RealNumber;

use super::basis::{Basis, Codes, ColumnOf, PIECE, open, pieces};
use super::hessenberg::Hessenberg;
use crate::error::Error;
use crate::reduction::dot;
use crate::scalar::Scalar;
use crate::space::REDUCTION_ROWS;
use crate::steps::Steps;
use crate::vector::MultiVector;

/// Orthogonalisation of the vectors of a Krylov space.
///
/// ```
/// # use zellige_krylov::{Space, from_fn};
/// # use zellige_runtime::Runtime;
/// # let (rt, space) = (Runtime::builder().workers(1).build()?, Space::new(50, 0));
/// # let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = (i + 1) as f64 * x[i]));
/// use zellige_krylov::{Gmres, Orthogonalisation, Solve, Stop, solve};
///
/// let gmres = Gmres { orthogonalisation: Orthogonalisation::Modified, ..Gmres::default() };
/// let mut x = vec![0.0; 50];
/// let found = solve(&Solve::new(&rt, &a), &gmres, &[1.0; 50], &mut x, &Stop::RelativeToRhs(1e-8), &mut ())?;
/// assert!(found.reason.is_converged());
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Orthogonalisation {
    /// Classical Gram-Schmidt, twice: three passes over all vectors, orthogonal to rounding
    /// (Giraud, Langou, Rozložník and van den Eshof 2005).
    #[default]
    Twice,
    /// Modified Gram-Schmidt: one vector after the other, each waits for the one before.
    Modified,
}

impl Orthogonalisation {
    /// Returns the name that [`FromStr`] reads back.
    pub const fn name(self) -> &'static str {
        match self {
            Orthogonalisation::Twice => "cgs2",
            Orthogonalisation::Modified => "mgs",
        }
    }
}

impl FromStr for Orthogonalisation {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let all = [Orthogonalisation::Twice, Orthogonalisation::Modified];
        let found = all.into_iter().find(|one| one.name().eq_ignore_ascii_case(name.trim()));
        found.ok_or_else(|| Error::parameter("orthogonalise", format!("{name:?} is neither cgs2 nor mgs")))
    }
}

/// Operands of an Arnoldi step.
pub(super) struct Arnoldi<'v, E: Scalar> {
    pub(super) basis: &'v Basis<E>,
    pub(super) small: Hessenberg,
    pub(super) w: &'v MultiVector<E>,
}

/// Some vectors of a basis, in step `j`.
#[derive(Clone, Copy)]
enum Chosen {
    None,
    One(usize),
    /// `v_0 .. v_j`.
    All,
}

impl Chosen {
    fn range(self, j: usize) -> Range<usize> {
        match self {
            Chosen::None => 0..0,
            Chosen::One(k) => k..k + 1,
            Chosen::All => 0..j + 1,
        }
    }
}

/// A pass over `w`: `w -= sum_k s[coefficients + k] v_k` for some vectors, then inner products with
/// others, and `w . w` after them.
#[derive(Clone, Copy)]
struct Pass {
    subtracted: Chosen,
    coefficients: usize,
    projected: Chosen,
}

impl<E: Scalar> Arnoldi<'_, E> {
    /// Records that `w`, which is `A M^-1 v_j`, is made orthogonal and the column of `H` is
    /// finished. All steps use the same tasks, except for
    /// [`Modified`](Orthogonalisation::Modified), whose tasks are those of step `j`.
    pub(super) fn orthogonalise(
        &self,
        steps: &Steps<'_, E>,
        j: usize,
        how: Orthogonalisation,
    ) -> Result<(), Error> {
        match how {
            Orthogonalisation::Twice => self.twice(steps)?,
            Orthogonalisation::Modified => self.modified(steps, j)?,
        }
        let small = self.small;
        steps.update_numbers("gmres.rotate", move |sums, s| small.extend(s, s.steps(), sums[0].real().sqrt()))
    }

    fn twice(&self, steps: &Steps<'_, E>) -> Result<(), Error> {
        let (first, second) = (Hessenberg::COLUMN, self.small.second());
        let project = Pass { subtracted: Chosen::None, coefficients: first, projected: Chosen::All };
        self.pass(steps, "gmres.project", project)?;
        steps.update_numbers("gmres.coefficients", move |sums, s| {
            let j = s.steps();
            (0..=j).for_each(|i| s[first + i] = sums[i]);
            s.set_real(Hessenberg::PRODUCT, sums[j + 1].real().sqrt());
        })?;
        let again = Pass { subtracted: Chosen::All, coefficients: first, projected: Chosen::All };
        self.pass(steps, "gmres.orthogonalise", again)?;
        steps.update_numbers("gmres.corrections", move |sums, s| {
            for i in 0..=s.steps() {
                s[second + i] = sums[i];
                s[first + i] = s[first + i] + sums[i];
            }
        })?;
        let last = Pass { subtracted: Chosen::All, coefficients: second, projected: Chosen::None };
        self.pass(steps, "gmres.correct", last)
    }

    fn modified(&self, steps: &Steps<'_, E>, j: usize) -> Result<(), Error> {
        let first = Hessenberg::COLUMN;
        for i in 0..=j {
            let subtracted = i.checked_sub(1).map_or(Chosen::None, Chosen::One);
            let coefficients = first + i.saturating_sub(1);
            self.pass(steps, "gmres.project", Pass { subtracted, coefficients, projected: Chosen::One(i) })?;
            steps.update_numbers("gmres.coefficients", move |sums, s| {
                s[first + i] = sums[0];
                if i == 0 {
                    s.set_real(Hessenberg::PRODUCT, sums[1].real().sqrt());
                }
            })?;
        }
        let last = Pass { subtracted: Chosen::One(j), coefficients: first + j, projected: Chosen::None };
        self.pass(steps, "gmres.orthogonalise", last)
    }

    /// Records a pass: a task per part reads the vectors piece by piece.
    fn pass(&self, steps: &Steps<'_, E>, name: &'static str, pass: Pass) -> Result<(), Error> {
        let (format, width, columns) = (self.basis.format, steps.sums().width(), steps.columns());
        steps.each(
            name,
            |i| (steps.numbers().read(), self.basis.read(i), self.w.update(i), steps.sums().of(i)),
            move |(numbers, basis, w, sums)| {
                let (w, sums) = (E::of_words_mut(w), E::of_words_mut(sums));
                let (mut buffers, mut gathered) =
                    ([[E::default(); PIECE]; AT_ONCE], ColumnOf::buffer(columns));
                let rows = w.len() / columns;
                for (of, s) in open::<E>(numbers, columns) {
                    let (subtracted, projected) =
                        (pass.subtracted.range(s.steps()), pass.projected.range(s.steps()));
                    let (codes, of_all) = (Codes::new(format, basis, of, rows), projected.len());
                    for (block, start) in (0..rows).step_by(REDUCTION_ROWS).enumerate() {
                        let sums = &mut sums[(block * columns + of.column) * width..][..width];
                        sums[..=of_all].fill(E::default());
                        for at in pieces(start, rows.min(start + REDUCTION_ROWS)) {
                            of.change(w, at.clone(), &mut gathered, |w| {
                                let mut pieces = Pieces { codes, at, buffers: &mut buffers };
                                pieces.subtract(&subtracted, |k| s[pass.coefficients + k], w);
                                pieces.project(&projected, w, sums);
                                sums[of_all] = sums[of_all] + dot(w, w);
                            });
                        }
                    }
                }
            },
        )
    }
}

/// Number of vectors that are processed in one pass.
const AT_ONCE: usize = 4;

/// Corresponding numbers of several vectors.
struct Pieces<'p, E> {
    codes: Codes<'p, E>,
    at: Range<usize>,
    buffers: &'p mut [[E; PIECE]; AT_ONCE],
}

impl<E: Scalar> Pieces<'_, E> {
    /// Computes `w -= sum_k h(k - first) v_k` for the vectors from `first` to before `end`.
    fn subtract(&mut self, &Range { start: first, end }: &Range<usize>, h: impl Fn(usize) -> E, w: &mut [E]) {
        let mut k = first;
        while k + AT_ONCE <= end {
            let h = std::array::from_fn(|i| h(k - first + i));
            E::subtract(w, h, self.of::<AT_ONCE>(k));
            k += AT_ONCE;
        }
        (k..end).for_each(|k| E::subtract(w, [h(k - first)], self.of::<1>(k)));
    }

    /// Adds `v_k . w` to the sums of these vectors.
    fn project(&mut self, &Range { start: first, end }: &Range<usize>, w: &[E], sums: &mut [E]) {
        let mut k = first;
        while k + AT_ONCE <= end {
            let of_four = E::projections(w, self.of::<AT_ONCE>(k));
            sums[k - first..].iter_mut().zip(of_four).for_each(|(sum, of_piece)| *sum = *sum + of_piece);
            k += AT_ONCE;
        }
        for k in k..end {
            sums[k - first] = sums[k - first] + E::projections(w, self.of::<1>(k))[0];
        }
    }

    /// Returns the pieces of vectors from `k` on.
    fn of<const N: usize>(&mut self, k: usize) -> [&[E]; N] {
        let mut buffers = self.buffers.iter_mut();
        std::array::from_fn(|i| {
            let buffer = buffers.next().expect("as many as are gone through together");
            self.codes.piece(k + i, self.at.clone(), buffer)
        })
    }
}
