//! Covariances of two sensors through one layer, the second of them later.

use super::direct::{self, Lattice};
use super::offsets::OffsetTable;
use super::{Diagonal, LayerTerm, Part, View, half_k};
use crate::Matrix;
use crate::geometry::{Axis, Projection, SubApertures};
use crate::system::{GuideStar, Layer};
use crate::turbulence::Table;

const AXES: [Axis; 2] = [Axis::X, Axis::Y];

/// Computes the slope covariances \[arcsec^2\] of two sensors through one layer, without noise:
/// `2 Na x 2 Nb`, all x slopes, then all y slopes. Until the second one measures, the layer moves
/// by `way` \[m\].
pub(crate) fn through_layer(
    stars: [&GuideStar; 2],
    grids: [&SubApertures; 2],
    layer: &Layer,
    way: [f64; 2],
) -> Matrix {
    let view = |k: usize, way| {
        let projection = Projection::new(stars[k], layer.altitude).upwind(way);
        View::<f64>::new(stars[k], grids[k], vec![projection])
    };
    let (rows, cols) = (view(0, [0.0; 2]), view(1, way));
    let (term, table) = ([LayerTerm::new(layer)], Table::get());
    let by_offset = OffsetTable::applies(&rows, &cols)
        .then(|| OffsetTable::new(&rows, OffsetTable::shift(&rows, &cols), &term, table));
    let nothing = Diagonal { constant: 0.0, noise: None };
    let part = |view: usize, axis| Part { view, axis, cells: 0..grids[view].len(), at: 0 };
    let (height, width) = (grids[0].len(), grids[1].len());
    let mut out = Matrix::zeros(2 * height, 2 * width);
    for (j, col_axis) in AXES.into_iter().enumerate() {
        for (i, row_axis) in AXES.into_iter().enumerate() {
            let (r, c) = (part(0, row_axis), part(1, col_axis));
            let block = &mut out.data_mut()[i * height + j * width * 2 * height..];
            match &by_offset {
                Some(offsets) => offsets.fill(grids[0], &r, &c, false, &nothing, block, 2 * height),
                None => {
                    let scale = half_k() / (grids[0].pitch * grids[1].pitch);
                    let points = [Lattice::new(&rows, &r), Lattice::new(&cols, &c)];
                    direct::fill(&points[0], &points[1], &term, table, scale, &nothing, block, 2 * height);
                }
            }
        }
    }
    out
}
