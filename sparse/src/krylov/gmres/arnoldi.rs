//! One step of Arnoldi's method: `w = A M^-1 v_j` is made orthogonal to `v_0 .. v_j`, and becomes `v_{j+1}`.

use std::ops::Range;
use std::str::FromStr;

use zellige_kernels::vectors::{dot, dots, subtract};
use zellige_runtime::{List, Stretch};

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

/// One pass over `w`: `w -= sum_k s[coefficients + k] v_k` for vectors `k` of one range, then inner products with those of another, and `w . w`
/// after them.
#[derive(Clone)]
struct Pass {
    subtracted: Range<usize>,
    coefficients: usize,
    projected: Range<usize>,
}

impl Arnoldi<'_> {
    /// Records that `w`, which is `A M^-1 v_j`, is made orthogonal; the column of `H` is finished.
    pub(super) fn orthogonalise(
        &self,
        steps: &Steps<'_>,
        j: usize,
        how: Orthogonalisation,
    ) -> Result<(), Error> {
        match how {
            Orthogonalisation::Twice => self.twice(steps, j)?,
            Orthogonalisation::Modified => self.modified(steps, j)?,
        }
        let small = self.small;
        steps.combine("gmres.rotate", self.sums, move |sums, s| small.extend(s, j, sums[0].sqrt()))
    }

    fn twice(&self, steps: &Steps<'_>, j: usize) -> Result<(), Error> {
        let (all, first, second) = (0..j + 1, Hessenberg::COLUMN, self.small.second());
        let project = Pass { subtracted: 0..0, coefficients: first, projected: all.clone() };
        self.pass(steps, "gmres.project", &project)?;
        steps.combine("gmres.coefficients", self.sums, move |sums, s| {
            (0..=j).for_each(|i| s[first + i] = sums[i]);
            s[Hessenberg::PRODUCT] = sums[j + 1].sqrt();
        })?;
        let again = Pass { subtracted: all.clone(), coefficients: first, projected: all.clone() };
        self.pass(steps, "gmres.orthogonalise", &again)?;
        steps.combine("gmres.corrections", self.sums, move |sums, s| {
            for i in 0..=j {
                s[second + i] = sums[i];
                s[first + i] += sums[i];
            }
        })?;
        self.pass(steps, "gmres.correct", &Pass { subtracted: all, coefficients: second, projected: 0..0 })
    }

    fn modified(&self, steps: &Steps<'_>, j: usize) -> Result<(), Error> {
        let first = Hessenberg::COLUMN;
        for i in 0..=j {
            let subtracted = i.saturating_sub(1)..i;
            let coefficients = first + subtracted.start;
            self.pass(steps, "gmres.project", &Pass { subtracted, coefficients, projected: i..i + 1 })?;
            steps.combine("gmres.coefficients", self.sums, move |sums, s| {
                s[first + i] = sums[0];
                if i == 0 {
                    s[Hessenberg::PRODUCT] = sums[1].sqrt();
                }
            })?;
        }
        let last = Pass { subtracted: j..j + 1, coefficients: first + j, projected: 0..0 };
        self.pass(steps, "gmres.orthogonalise", &last)
    }

    /// Records a pass: a task per stretch reads the vectors of both ranges piece by piece.
    fn pass(&self, steps: &Steps<'_>, name: &'static str, pass: &Pass) -> Result<(), Error> {
        let (subtracted, projected) = (&pass.subtracted, &pass.projected);
        let start = if subtracted.is_empty() { projected.start } else { subtracted.start };
        let end = subtracted.end.max(projected.end);
        // In the list of what is read.
        let subtracted = [subtracted.start.max(start) - start, subtracted.end.max(start) - start];
        let projected = [projected.start.max(start) - start, projected.end.max(start) - start];
        let (format, coefficients, width) = (self.basis.format, pass.coefficients, self.width);
        steps.each(
            name,
            |i| (steps.scalars(), self.basis.read(i, start..end), self.w.update(i), self.sums.of(i)),
            move |(s, basis, w, sums)| {
                let s = Scalars::new(s);
                if s.is_done() {
                    return;
                }
                let mut buffers = [[0.0; PIECE]; AT_ONCE];
                let of_all = projected[1] - projected[0];
                for (grain, (w, sums)) in w.chunks_mut(GRAIN).zip(sums.chunks_exact_mut(width)).enumerate() {
                    sums[..=of_all].fill(0.0);
                    for (piece, w) in w.chunks_mut(PIECE).enumerate() {
                        let start = grain * GRAIN + piece * PIECE;
                        let mut pieces = Pieces {
                            format,
                            basis: &basis,
                            at: start..start + w.len(),
                            buffers: &mut buffers,
                        };
                        pieces.subtract(subtracted, |k| s[coefficients + k], w);
                        pieces.project(projected, w, sums);
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
struct Pieces<'p, 'v> {
    format: BasisFormat,
    basis: &'p List<'v, Stretch<f64>>,
    at: Range<usize>,
    buffers: &'p mut [[f64; PIECE]; AT_ONCE],
}

impl Pieces<'_, '_> {
    /// `w -= sum_k h(k - first) v_k` for the vectors from `first` to before `end`.
    fn subtract(&mut self, [first, end]: [usize; 2], h: impl Fn(usize) -> f64, w: &mut [f64]) {
        let mut k = first;
        while k + AT_ONCE <= end {
            let h = std::array::from_fn(|i| h(k - first + i));
            subtract(w, h, self.of::<AT_ONCE>(k));
            k += AT_ONCE;
        }
        (k..end).for_each(|k| subtract(w, [h(k - first)], self.of::<1>(k)));
    }

    /// Adds `w . v_k` to the sums of these vectors.
    fn project(&mut self, [first, end]: [usize; 2], w: &[f64], sums: &mut [f64]) {
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
            self.format.piece(self.basis.get(k + i).slice(), self.at.clone(), buffer)
        })
    }
}
