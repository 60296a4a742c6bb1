//! Spins of Wilson quarks.

use zellige_kernels::sites::{COMPONENTS, ProductNumber};

use super::layout::Layout;
use crate::geometry::{DIRECTIONS, SPINS};

/// The gamma matrices of the four directions. Row `s` of one has a single entry, `i^k` in column
/// `p`, given as `(p, k)`. This is the chiral basis of DeGrand and Rossi, in which `gamma_5 =
/// gamma_x gamma_y gamma_z gamma_t` is diagonal: 1 for the first two spins, -1 for the others.
pub const GAMMA: [[(usize, u8); SPINS]; DIRECTIONS] = [
    [(3, 1), (2, 1), (1, 3), (0, 3)],
    [(3, 2), (2, 0), (1, 0), (0, 2)],
    [(2, 1), (3, 3), (0, 3), (1, 1)],
    [(2, 0), (3, 0), (0, 0), (1, 0)],
];

/// Computes `(1 - gamma_mu) x` of the neighbours of a line forwards, and `(1 + gamma_mu) x` of
/// those backwards; `conjugated` with the signs exchanged, since `gamma_5` anticommutes with
/// `gamma_mu`. The neighbours begin at `starts`, and the results are `[hop][spin][component][site]`
/// with the distances of a layout's results.
///
/// Links then multiply all four spins. Two of them are multiples of the others, so that half
/// spinors would halve these products. But their results would have to be expanded for each hop,
/// before they are added, and the sums over hops are made in the registers of one kernel.
pub(super) fn project<N: ProductNumber>(
    layout: &Layout,
    (x, starts): (&[N], &[usize]),
    conjugated: bool,
    projected: &mut [N],
) {
    let mut rows = projected.chunks_exact_mut(layout.y.pitch);
    for (hop, start) in starts.iter().enumerate() {
        let is_minus = (hop % 2 == 0) != conjugated;
        for (spin, (partner, power)) in GAMMA[hop / 2].into_iter().enumerate() {
            let power = (power + if is_minus { 2 } else { 0 }) % 4;
            for (c, to) in (0..COMPONENTS).zip(&mut rows) {
                let row = |spin: usize, c: usize| {
                    &x[spin * layout.x.column + c * layout.x.pitch + start..][..layout.line]
                };
                // Even components are real parts, odd ones imaginary parts: a factor i exchanges
                // the two, with a minus sign for the real part.
                let is_real = c % 2 == 0;
                let is_negative = match power {
                    0 => false,
                    1 => is_real,
                    2 => true,
                    _ => !is_real,
                };
                let other = row(partner, c ^ usize::from(power % 2));
                let sums = to.iter_mut().zip(row(spin, c)).zip(other);
                match is_negative {
                    true => sums.for_each(|((to, own), other)| *to = own.plus(other.negative())),
                    false => sums.for_each(|((to, own), other)| *to = own.plus(*other)),
                }
            }
        }
    }
}
