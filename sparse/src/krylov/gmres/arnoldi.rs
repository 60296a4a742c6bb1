//! One step of Arnoldi's method: `w = A M^-1 v_j` is made orthogonal to `v_0 .. v_j`, and becomes `v_{j+1}`.

use std::ops::Range;

use super::basis::{Basis, PIECE};
use super::hessenberg::Hessenberg;
use crate::error::Error;
use crate::krylov::grains::dot;
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
                let mut buffer = [0.0; PIECE];
                let of_all = projected[1] - projected[0];
                for (grain, (w, sums)) in w.chunks_mut(GRAIN).zip(sums.chunks_exact_mut(width)).enumerate() {
                    sums[..=of_all].fill(0.0);
                    for (piece, w) in w.chunks_mut(PIECE).enumerate() {
                        let at = grain * GRAIN + piece * PIECE;
                        let at = at..at + w.len();
                        for k in subtracted[0]..subtracted[1] {
                            let v = format.piece(basis.get(k).slice(), at.clone(), &mut buffer);
                            let h = s[coefficients + k - subtracted[0]];
                            w.iter_mut().zip(v).for_each(|(w, v)| *w -= h * v);
                        }
                        for k in projected[0]..projected[1] {
                            let v = format.piece(basis.get(k).slice(), at.clone(), &mut buffer);
                            sums[k - projected[0]] += dot(w, v);
                        }
                        sums[of_all] += dot(w, w);
                    }
                }
            },
        )
    }
}
