//! One step of Arnoldi's method: `w = A M^-1 v_j` is made orthogonal to `v_0 .. v_j`, and becomes `v_{j+1}`.

use std::ops::Range;
use std::str::FromStr;

use zellige_kernels::vectors::{dot, dots, subtract};

use super::basis::{Basis, BasisFormat, PIECE};
use super::hessenberg::Hessenberg;
use crate::error::Error;
use crate::krylov::{Scalars, Steps, Sums};
use crate::space::{GRAIN, Vector};

/// How the vectors of a Krylov space are made orthogonal to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Orthogonalisation {
    /// Classical Gram-Schmidt, twice: three passes over all vectors, orthogonal to rounding (Giraud, Langou, Rozložník and van den Eshof 2005).
    #[default]
    Twice,
    /// Modified Gram-Schmidt: one vector after the other, each waits for the one before.
    Modified,
}

impl Orthogonalisation {
    /// The name that [`FromStr`] reads back.
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

/// What a step works on.
pub(super) struct Arnoldi<'v> {
    pub(super) basis: &'v Basis,
    pub(super) small: Hessenberg,
    pub(super) w: &'v Vector,
    pub(super) sums: &'v Sums,
    /// Sums of a grain.
    pub(super) width: usize,
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

/// One pass over `w`: `w -= sum_k s[coefficients + k] v_k` for some vectors, then inner products with others, and `w . w` after them.
#[derive(Clone, Copy)]
struct Pass {
    subtracted: Chosen,
    coefficients: usize,
    projected: Chosen,
}

impl Arnoldi<'_> {
    /// Records that `w`, which is `A M^-1 v_j`, is made orthogonal; the column of `H` is finished. The same tasks do that in every step, except for
    /// [`Modified`](Orthogonalisation::Modified), where they are those of step `j`.
    pub(super) fn orthogonalise(
        &self,
        steps: &Steps<'_>,
        j: usize,
        how: Orthogonalisation,
    ) -> Result<(), Error> {
        match how {
            Orthogonalisation::Twice => self.twice(steps)?,
            Orthogonalisation::Modified => self.modified(steps, j)?,
        }
        let small = self.small;
        steps.combine("gmres.rotate", self.sums, move |sums, s| small.extend(s, s.steps(), sums[0].sqrt()))
    }

    fn twice(&self, steps: &Steps<'_>) -> Result<(), Error> {
        let (first, second) = (Hessenberg::COLUMN, self.small.second());
        let project = Pass { subtracted: Chosen::None, coefficients: first, projected: Chosen::All };
        self.pass(steps, "gmres.project", project)?;
        steps.combine("gmres.coefficients", self.sums, move |sums, s| {
            let j = s.steps();
            (0..=j).for_each(|i| s[first + i] = sums[i]);
            s[Hessenberg::PRODUCT] = sums[j + 1].sqrt();
        })?;
        let again = Pass { subtracted: Chosen::All, coefficients: first, projected: Chosen::All };
        self.pass(steps, "gmres.orthogonalise", again)?;
        steps.combine("gmres.corrections", self.sums, move |sums, s| {
            for i in 0..=s.steps() {
                s[second + i] = sums[i];
                s[first + i] += sums[i];
            }
        })?;
        let last = Pass { subtracted: Chosen::All, coefficients: second, projected: Chosen::None };
        self.pass(steps, "gmres.correct", last)
    }

    fn modified(&self, steps: &Steps<'_>, j: usize) -> Result<(), Error> {
        let first = Hessenberg::COLUMN;
        for i in 0..=j {
            let subtracted = i.checked_sub(1).map_or(Chosen::None, Chosen::One);
            let coefficients = first + i.saturating_sub(1);
            self.pass(steps, "gmres.project", Pass { subtracted, coefficients, projected: Chosen::One(i) })?;
            steps.combine("gmres.coefficients", self.sums, move |sums, s| {
                s[first + i] = sums[0];
                if i == 0 {
                    s[Hessenberg::PRODUCT] = sums[1].sqrt();
                }
            })?;
        }
        let last = Pass { subtracted: Chosen::One(j), coefficients: first + j, projected: Chosen::None };
        self.pass(steps, "gmres.orthogonalise", last)
    }

    /// Records a pass: a task per stretch reads the vectors piece by piece.
    fn pass(&self, steps: &Steps<'_>, name: &'static str, pass: Pass) -> Result<(), Error> {
        let (format, width) = (self.basis.format, self.width);
        steps.each(
            name,
            |i| (steps.scalars(), self.basis.read(i), self.w.update(i), self.sums.of(i)),
            move |(s, basis, w, sums)| {
                let s = Scalars::new(s);
                if s.is_done() {
                    return;
                }
                let (subtracted, projected) =
                    (pass.subtracted.range(s.steps()), pass.projected.range(s.steps()));
                let (mut buffers, of_all, len) = ([[0.0; PIECE]; AT_ONCE], projected.len(), w.len());
                for (grain, (w, sums)) in w.chunks_mut(GRAIN).zip(sums.chunks_exact_mut(width)).enumerate() {
                    sums[..=of_all].fill(0.0);
                    for (piece, w) in w.chunks_mut(PIECE).enumerate() {
                        let start = grain * GRAIN + piece * PIECE;
                        let at = start..start + w.len();
                        let mut pieces = Pieces { format, basis, len, at, buffers: &mut buffers };
                        pieces.subtract(&subtracted, |k| s[pass.coefficients + k], w);
                        pieces.project(&projected, w, sums);
                        sums[of_all] += dot(w, w);
                    }
                }
            },
        )
    }
}

/// Vectors that are gone through together.
const AT_ONCE: usize = 4;

/// The same elements of several vectors.
struct Pieces<'p> {
    format: BasisFormat,
    /// Those of a stretch of `len` elements.
    basis: &'p [f64],
    len: usize,
    at: Range<usize>,
    buffers: &'p mut [[f64; PIECE]; AT_ONCE],
}

impl Pieces<'_> {
    /// `w -= sum_k h(k - first) v_k` for the vectors from `first` to before `end`.
    fn subtract(
        &mut self,
        &Range { start: first, end }: &Range<usize>,
        h: impl Fn(usize) -> f64,
        w: &mut [f64],
    ) {
        let mut k = first;
        while k + AT_ONCE <= end {
            let h = std::array::from_fn(|i| h(k - first + i));
            subtract(w, h, self.of::<AT_ONCE>(k));
            k += AT_ONCE;
        }
        (k..end).for_each(|k| subtract(w, [h(k - first)], self.of::<1>(k)));
    }

    /// Adds `w . v_k` to the sums of these vectors.
    fn project(&mut self, &Range { start: first, end }: &Range<usize>, w: &[f64], sums: &mut [f64]) {
        let mut k = first;
        while k + AT_ONCE <= end {
            let of_four = dots(w, self.of::<AT_ONCE>(k));
            sums[k - first..].iter_mut().zip(of_four).for_each(|(sum, of_piece)| *sum += of_piece);
            k += AT_ONCE;
        }
        (k..end).for_each(|k| sums[k - first] += dots(w, self.of::<1>(k))[0]);
    }

    /// The pieces of vectors from `k` on.
    fn of<const N: usize>(&mut self, k: usize) -> [&[f64]; N] {
        let mut buffers = self.buffers.iter_mut();
        std::array::from_fn(|i| {
            let buffer = buffers.next().expect("as many as are gone through together");
            self.format.piece(self.format.of_vector(self.basis, k + i, self.len), self.at.clone(), buffer)
        })
    }
}
