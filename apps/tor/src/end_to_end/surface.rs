//! The deformable mirror as a wavefront.

use super::PupilGrid;
use crate::dm::{DeformableMirror, STROKE};
use crate::matrix::gemm;
use crate::{Error, Matrix};
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
}

/// Least-squares fit of a mirror to wavefronts over the pupil.
#[derive(Debug)]
pub struct MirrorFit {
    surface: MirrorSurface,
    lit: Vec<usize>,
    /// Pseudo-inverse of the influence functions at the lit positions, actuators x positions.
    inverse: Matrix,
}

/// Smallest singular value of the influence functions that a fit uses, relative to the largest.
const FIT_CUTOFF: f64 = 1e-4;

impl MirrorFit {
    /// Prepares the fit over the positions `lit` of `grid`.
    ///
    /// # Errors
    /// No position is lit, or the influence functions are not finite.
    pub fn new(
        mirror: &DeformableMirror,
        radius: f64,
        grid: &PupilGrid,
        lit: &[usize],
    ) -> Result<Self, Error> {
        let surface = MirrorSurface::new(mirror, radius, grid);
        let mut functions = Matrix::zeros(lit.len(), surface.actuators());
        let mut command = vec![0.0; surface.actuators()];
        for a in 0..command.len() {
            command[a] = -1.0;
            let mut wavefront = vec![0.0; grid.len()];
            surface.subtract(&command, &mut wavefront);
            command[a] = 0.0;
            functions.col_mut(a).iter_mut().zip(lit).for_each(|(v, p)| *v = wavefront[*p]);
        }
        let inverse = crate::dm::pseudo_inverse(&functions, FIT_CUTOFF)?.dx;
        Ok(MirrorFit { surface, lit: lit.to_vec(), inverse })
    }

    /// Replaces a wavefront by what the mirror can produce of it: the fit without piston. Positions
    /// outside of the pupil have the mirror's values, too.
    ///
    /// # Panics
    /// The wavefront is not on the grid.
    pub fn project(&self, wavefront: &mut [f64]) {
        let mean = self.lit.iter().map(|p| wavefront[*p]).sum::<f64>() / self.lit.len() as f64;
        let values: Vec<f64> = self.lit.iter().map(|p| mean - wavefront[*p]).collect();
        let mut commands = vec![0.0; self.inverse.rows()];
        gemm(
            MatMut::from_column_major_slice_mut(&mut commands, self.inverse.rows(), 1),
            false,
            self.inverse.view(),
            MatRef::from_column_major_slice(&values, values.len(), 1),
            1.0,
        );
        wavefront.fill(0.0);
        self.surface.subtract(&commands, wavefront);
    }
}
