//! Blocks without offset structure that are kept after their first use.

use super::offsets::OffsetTable;
use super::{Diagonal, Part, Scalar, View};
use crate::geometry::Axis;
use std::sync::OnceLock;
use zellige_kernels::RealNumber;

/// Returns the pairs of views, the larger one first, whose blocks are in `Cmm` or a `Ctm` and have
/// no offset structure. The first `sensors` views are those of sensors.
pub(super) fn pairs<R: RealNumber>(views: &[View<R>], sensors: usize) -> impl Iterator<Item = [usize; 2]> {
    let all = (0..views.len()).flat_map(move |b| (0..=b.min(sensors - 1)).map(move |a| [b, a]));
    all.filter(|&[b, a]| !OffsetTable::applies(&views[a], &views[b]))
}

/// Returns the bytes of all blocks of a pair of views.
pub(super) fn bytes<R: RealNumber>(views: &[View<R>], [b, a]: [usize; 2]) -> u64 {
    (4 * views[b].grid.len() * views[a].grid.len() * size_of::<R>()) as u64
}

/// The covariances of two views by axes, without noise and constants. Rows are those of the view
/// with the larger number.
#[derive(Debug, Default)]
pub(super) struct KeptPair<R>([[OnceLock<Vec<R>>; 2]; 2]);

impl<R> KeptPair<R> {
    /// Returns the block of two axes, which `evaluate` computes at the first use.
    pub(super) fn block(&self, rows: Axis, cols: Axis, evaluate: impl FnOnce() -> Vec<R>) -> &[R] {
        let index = |axis| usize::from(axis == Axis::Y);
        self.0[index(rows)][index(cols)].get_or_init(evaluate)
    }
}

/// Writes a part of a block of `height` rows to `out`, or of its transpose if `swapped`.
pub(super) fn copy<T: Scalar>(
    block: &[T::Real],
    height: usize,
    swapped: bool,
    [r, c]: [&Part; 2],
    diagonal: &Diagonal<'_>,
    out: &mut [T],
    ld: usize,
) {
    let constant = <T::Real>::from(diagonal.constant);
    for (j, column) in c.cells.clone().zip(out.chunks_mut(ld)) {
        let column = &mut column[..r.cells.len()];
        let set = |(slot, value): (&mut T, &T::Real)| *slot = T::round(*value + constant);
        if swapped {
            let row = block[j + height * r.cells.start..].iter().step_by(height);
            column.iter_mut().zip(row).for_each(set);
        } else {
            column.iter_mut().zip(&block[r.cells.start + height * j..]).for_each(set);
        }
        if diagonal.noise.is_some() && r.cells.contains(&j) {
            let value = block[j + height * j] + constant + <T::Real>::from(diagonal.noise(j));
            column[j - r.cells.start] = T::round(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::covariance::{Covariance, Kind, worth_keeping};
    use crate::params::timed_system;

    #[test]
    fn kept_blocks_have_the_bits_of_evaluated_ones() {
        let mut input = timed_system(6, false).unwrap();
        // A turned sensor has no offset structure even with itself.
        input.system.stars[0].rotation = 0.1;
        let new = || Covariance::new(&input.system, &input.atmosphere).unwrap();
        let worth = worth_keeping(&input.system).unwrap();
        let (plain, part) = (new(), 20..100);
        let mut want = vec![0f32; 80 * 80];
        plain.fill(Kind::Cmm, part.clone(), part.clone(), &mut want, 80).unwrap();
        for budget in [0, worth / 2, worth] {
            let kept = new().keep(budget);
            assert_eq!(kept.kept.iter().any(Option::is_some), budget > 0);
            for kind in [Kind::Cmm, Kind::Ctm(0), Kind::Ctt, Kind::Cmm] {
                assert!(kept.matrix(kind).unwrap() == plain.matrix(kind).unwrap(), "{kind:?}");
            }
            let mut got = vec![0f32; 80 * 80];
            kept.fill(Kind::Cmm, part.clone(), part.clone(), &mut got, 80).unwrap();
            assert!(got == want);
        }
    }
}
