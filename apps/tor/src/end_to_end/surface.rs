//! The deformable mirror as a wavefront.

use super::PupilGrid;
use crate::Matrix;
use crate::dm::{DeformableMirror, STROKE};
use crate::matrix::gemm;
use faer::{MatMut, MatRef};

/// Wavefront of a mirror at the positions of a grid.
///
/// A Gaussian influence function is a product of one factor in x and one in y, so that the
/// wavefront is a product of three matrices.
#[derive(Debug)]
pub struct MirrorSurface {
    /// Place of each actuator on the mirror's square grid, x inner.
    places: Vec<usize>,
    across: usize,
    /// Influence of an actuator column at each column of the grid, in m per volt.
    columns: Matrix,
    /// The same for rows, without unit.
    rows: Matrix,
    /// Influence functions of a mirror with sampled functions, positions x actuators, in m.
    dense: Option<Matrix>,
}

impl MirrorSurface {
    /// Prepares the wavefront of `mirror` on `grid`; `radius` is that of the pupil in m.
    pub fn new(mirror: &DeformableMirror, radius: f64, grid: &PupilGrid) -> Self {
        let factor = |positions: &[f64], scale: f64| {
            Matrix::from_fn(positions.len(), mirror.across, |p, k| {
                scale * mirror.profile(positions[p] / radius - mirror.coordinate(k))
            })
        };
        let dense = mirror.sampled().map(|functions| {
            let across = grid.xs.len();
            Matrix::from_fn(grid.len(), functions.actuators(), |p, a| {
                functions.at(a, [grid.xs[p % across] / radius, grid.ys[p / across] / radius])
            })
        });
        let places = mirror.cells.iter().map(|c| usize::from(c[0]) + mirror.across * usize::from(c[1]));
        MirrorSurface {
            places: places.collect(),
            across: mirror.across,
            columns: factor(&grid.xs, STROKE),
            rows: factor(&grid.ys, 1.0),
            dense,
        }
    }

    /// Returns the number of actuators.
    pub fn actuators(&self) -> usize {
        self.dense.as_ref().map_or(self.places.len(), Matrix::cols)
    }

    /// Subtracts the mirror's wavefront for `commands` \[volts\] from `wavefront` \[m\].
    ///
    /// # Panics
    /// A length differs from the number of actuators or positions.
    pub fn subtract(&self, commands: &[f64], wavefront: &mut [f64]) {
        assert_eq!(commands.len(), self.actuators(), "one command for each actuator");
        if let Some(dense) = &self.dense {
            let commands = MatRef::from_column_major_slice(commands, commands.len(), 1);
            let out = MatMut::from_column_major_slice_mut(wavefront, dense.rows(), 1);
            return gemm(out, true, dense.view(), commands, -1.0);
        }
        let mut on_grid = Matrix::zeros(self.across, self.across);
        for (place, command) in self.places.iter().zip(commands) {
            on_grid.data_mut()[*place] = *command;
        }
        let mut by_column = Matrix::zeros(self.columns.rows(), self.across);
        gemm(by_column.view_mut(), false, self.columns.view(), on_grid.view(), 1.0);
        let out = MatMut::from_column_major_slice_mut(wavefront, self.columns.rows(), self.rows.rows());
        gemm(out, true, by_column.view(), self.rows.view().transpose(), -1.0);
    }
    /// Returns the sum of `wavefront` times each influence function (m^2 per volt): the adjoint of
    /// the mirror's wavefront.
    ///
    /// # Panics
    /// The length differs from the number of positions.
    pub fn adjoint(&self, wavefront: &[f64]) -> Vec<f64> {
        if let Some(dense) = &self.dense {
            let values = MatRef::from_column_major_slice(wavefront, dense.rows(), 1);
            let mut out = Matrix::zeros(dense.cols(), 1);
            gemm(out.view_mut(), false, dense.view().transpose(), values, 1.0);
            return out.into_vec();
        }
        let (across, down) = (self.columns.rows(), self.rows.rows());
        let values = MatRef::from_column_major_slice(wavefront, across, down);
        let mut by_row = Matrix::zeros(self.across, down);
        gemm(by_row.view_mut(), false, self.columns.view().transpose(), values, 1.0);
        let mut on_grid = Matrix::zeros(self.across, self.across);
        gemm(on_grid.view_mut(), false, by_row.view(), self.rows.view(), 1.0);
        self.places.iter().map(|place| on_grid.data()[*place]).collect()
    }
}
