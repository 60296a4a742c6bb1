//! Blocks that depend only on the offset between two sub-apertures.

use super::{Diagonal, LayerTerm, Part, Scalar, View, half_k};
use crate::geometry::{Axis, SubApertures};
use crate::turbulence::Table;
use zellige_kernels::RealNumber;

/// Covariances of two sensors with equal grids and equal altitude, by offset `(ix_a - ix_b, iy_a -
/// iy_b)`.
#[derive(Debug)]
pub(super) struct OffsetTable<R> {
    nssp: usize,
    inverse_altitude: f64,
    pitch: f64,
    /// Distance of the two views on each layer in m.
    shift: Vec<[R; 2]>,
    xx: Vec<R>,
    yy: Vec<R>,
    /// xy and yx are equal because the two sub-apertures have the same projected size.
    xy: Vec<R>,
}

impl<R: RealNumber> OffsetTable<R> {
    pub(super) fn applies(a: &View<R>, b: &View<R>) -> bool {
        a.upright && b.upright && a.grid.nssp == b.grid.nssp && a.inverse_altitude == b.inverse_altitude
    }

    /// Returns the offset of view `a` from view `b` on every layer.
    pub(super) fn shift(a: &View<R>, b: &View<R>) -> Vec<[R; 2]> {
        a.projections
            .iter()
            .zip(&b.projections)
            .map(|(p, q)| std::array::from_fn(|k| p.offset[k] - q.offset[k]))
            .collect()
    }

    pub(super) fn bytes(nssp: usize) -> usize {
        let side = 2 * nssp - 1;
        3 * side * side * size_of::<R>()
    }

    /// Returns the number of offsets along an axis.
    pub(super) fn side(&self) -> usize {
        2 * self.nssp - 1
    }

    /// Returns the values xx, yy, xy by offset, x fastest; [`side`](Self::side) along each axis.
    pub(super) fn values(&self) -> [&[R]; 3] {
        [&self.xx, &self.yy, &self.xy]
    }

    /// Returns whether this is the table of a view like `a` with that shift.
    pub(super) fn same(&self, a: &View<R>, shift: &[[R; 2]]) -> bool {
        self.nssp == a.grid.nssp
            && self.inverse_altitude == a.inverse_altitude
            && self.pitch == a.grid.pitch
            && R::words(self.shift.as_flattened()) == R::words(shift.as_flattened())
    }

    pub(super) fn new(a: &View<R>, shift: Vec<[R; 2]>, layers: &[LayerTerm<R>], table: &Table<R>) -> Self {
        let nssp = a.grid.nssp;
        let pitch = a.grid.pitch;
        // The structure function is summed over the layers at whole (and at half) offsets, one more
        // than needed on each side.
        let reach = nssp as f64;
        let wide = 2 * nssp + 1;
        let sum = |count: usize, first: f64| {
            let mut out = vec![R::from(0.0); count * count];
            for ((layer, p), s) in
                layers.iter().zip(&a.projections).zip(&shift).filter(|((_, p), _)| p.visible())
            {
                let size = R::from(pitch) * p.scale;
                let at = |k: usize, shift: R| R::from(first + k as f64) * size + shift;
                for ky in 0..count {
                    let v = at(ky, s[1]);
                    for kx in 0..count {
                        let u = at(kx, s[0]);
                        let slot = &mut out[kx + ky * count];
                        *slot = *slot + layer.weight * table.g_of_square((u * u + v * v) * layer.stretch);
                    }
                }
            }
            out
        };
        let whole = sum(wide, -reach);
        let half = sum(wide - 1, 0.5 - reach);
        let side = 2 * nssp - 1;
        let (scale, two) = (R::from(half_k() / (pitch * pitch)), R::from(2.0));
        let mut out = OffsetTable {
            nssp,
            inverse_altitude: a.inverse_altitude,
            pitch,
            shift,
            xx: Vec::with_capacity(side * side),
            yy: Vec::with_capacity(side * side),
            xy: Vec::with_capacity(side * side),
        };
        for ky in 0..side {
            for kx in 0..side {
                let w = |i: usize, j: usize| whole[i + j * wide];
                let h = |i: usize, j: usize| half[i + j * (wide - 1)];
                let (i, j) = (kx + 1, ky + 1);
                out.xx.push(scale * ((w(i + 1, j) + w(i - 1, j)) - two * w(i, j)));
                out.yy.push(scale * ((w(i, j + 1) + w(i, j - 1)) - two * w(i, j)));
                // Half offset (kx, ky) lies half a cell before whole offset (i, j) on both axes.
                let same = h(kx + 1, ky + 1) + h(kx, ky);
                let cross = h(kx + 1, ky) + h(kx, ky + 1);
                out.xy.push(scale * (same - cross));
            }
        }
        out
    }

    /// Writes one block; `swapped` if the rows belong to the table's second view.
    pub(super) fn fill<T: Scalar<Real = R>>(
        &self,
        grid: &SubApertures,
        r: &Part,
        c: &Part,
        swapped: bool,
        diagonal: &Diagonal<'_>,
        out: &mut [T],
        ld: usize,
    ) {
        let values = match (r.axis, c.axis) {
            (Axis::X, Axis::X) => &self.xx,
            (Axis::Y, Axis::Y) => &self.yy,
            _ => &self.xy,
        };
        let side = self.side() as isize;
        let linear = |cell: &[u16; 2]| cell[0] as isize + cell[1] as isize * side;
        let centre = (self.nssp as isize - 1) * (side + 1);
        let sign = if swapped { -1 } else { 1 };
        let rows: Vec<isize> = grid.cells[r.cells.clone()].iter().map(|cell| sign * linear(cell)).collect();
        for (j, cell) in c.cells.clone().zip(&grid.cells[c.cells.clone()]) {
            let base = centre - sign * linear(cell);
            let column = &mut out[(j - c.cells.start) * ld..][..rows.len()];
            for (slot, row) in column.iter_mut().zip(&rows) {
                *slot = T::round(values[(base + row) as usize] + R::from(diagonal.constant));
            }
            if diagonal.noise.is_some() && r.cells.contains(&j) {
                let i = j - r.cells.start;
                let value = values[(base + rows[i]) as usize] + R::from(diagonal.constant);
                column[i] = T::round(value + R::from(diagonal.noise(j)));
            }
        }
    }
}
