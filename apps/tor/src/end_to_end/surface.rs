//! Deformable mirrors as a wavefront.

use super::PupilGrid;
use super::conjugate::LoopMirror;
use crate::Matrix;
use crate::dm::{DeformableMirror, Footprint, STROKE};
use crate::matrix::gemm;
use crate::system::GuideStar;
use faer::{MatMut, MatRef};

/// Wavefront of all mirrors at the positions of a grid, as the light of a star sees it.
///
/// Commands are those of one mirror after another.
#[derive(Debug)]
pub struct MirrorSurface {
    parts: Vec<MirrorPart>,
}

impl MirrorSurface {
    /// Prepares the wavefront of `mirrors` on `grid` towards `star`; `radius` is that of the pupil
    /// in m. Shift, rotation and magnification of the star's pupil are left out.
    pub fn new(mirrors: &[LoopMirror], radius: f64, star: &GuideStar, grid: &PupilGrid) -> Self {
        let part = |plane: &LoopMirror| {
            let beam = Footprint::of(star, plane.altitude, radius);
            let places = |positions: &[f64], k: usize| -> Vec<f64> {
                positions.iter().map(|p| p / radius * beam.radius + beam.centre[k]).collect()
            };
            MirrorPart::new(&plane.mirror, &places(&grid.xs, 0), &places(&grid.ys, 1))
        };
        MirrorSurface { parts: mirrors.iter().map(part).collect() }
    }

    /// Returns the number of actuators of all mirrors.
    pub fn actuators(&self) -> usize {
        self.parts.iter().map(MirrorPart::actuators).sum()
    }

    /// Subtracts the mirrors' wavefront for `commands` \[volts\] from `wavefront` \[m\].
    ///
    /// # Panics
    /// A length differs from the number of actuators or positions.
    pub fn subtract(&self, commands: &[f64], wavefront: &mut [f64]) {
        assert_eq!(commands.len(), self.actuators(), "one command for each actuator");
        let mut rest = commands;
        for part in &self.parts {
            let (own, others) = rest.split_at(part.actuators());
            part.subtract(own, wavefront);
            rest = others;
        }
    }

    /// Returns the sum of `wavefront` times each influence function (m^2 per volt): the adjoint of
    /// the mirrors' wavefront.
    ///
    /// # Panics
    /// The length differs from the number of positions.
    pub fn adjoint(&self, wavefront: &[f64]) -> Vec<f64> {
        self.parts.iter().flat_map(|part| part.adjoint(wavefront)).collect()
    }
}

/// Wavefront of one mirror.
///
/// A Gaussian influence function is a product of one factor in x and one in y, so that the
/// wavefront is a product of three matrices.
#[derive(Debug)]
struct MirrorPart {
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

impl MirrorPart {
    /// Prepares the wavefront at every pair of `xs` and `ys`, in pupil radii.
    fn new(mirror: &DeformableMirror, xs: &[f64], ys: &[f64]) -> Self {
        let factor = |positions: &[f64], scale: f64| {
            Matrix::from_fn(positions.len(), mirror.across, |p, k| {
                scale * mirror.profile(positions[p] - mirror.coordinate(k))
            })
        };
        let dense = mirror.sampled().map(|functions| {
            let across = xs.len();
            Matrix::from_fn(across * ys.len(), functions.actuators(), |p, a| {
                functions.at(a, [xs[p % across], ys[p / across]])
            })
        });
        let places = mirror.cells.iter().map(|c| usize::from(c[0]) + mirror.across * usize::from(c[1]));
        MirrorPart {
            places: places.collect(),
            across: mirror.across,
            columns: factor(xs, STROKE),
            rows: factor(ys, 1.0),
            dense,
        }
    }

    fn actuators(&self) -> usize {
        self.dense.as_ref().map_or(self.places.len(), Matrix::cols)
    }

    fn subtract(&self, commands: &[f64], wavefront: &mut [f64]) {
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

    fn adjoint(&self, wavefront: &[f64]) -> Vec<f64> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{Mode, parse};
    use std::path::Path;

    /// Every mirror adds the influence functions of its actuators where the light crosses its
    /// plane: shifted by direction times altitude, and shrunk by the cone of a laser star.
    #[test]
    fn mirrors_are_seen_along_the_light() {
        let text = include_str!("../../systems/mcao.toml");
        let system = parse(Path::new("mcao.toml"), text, None, Mode::Strict).unwrap().system;
        let mirrors = LoopMirror::of_system(&system);
        let grid = PupilGrid { xs: vec![-3.1, 0.2, 1.7], ys: vec![-0.6, 2.5] };
        for star in [&system.stars[1], &system.stars[5]] {
            let surface = MirrorSurface::new(&mirrors, 4.0, star, &grid);
            let commands: Vec<f64> = (0..surface.actuators()).map(|a| (1.7 * a as f64).sin()).collect();
            let mut wavefront = vec![0.0; grid.len()];
            surface.subtract(&commands, &mut wavefront);
            for (p, found) in wavefront.iter().enumerate() {
                let place = [grid.xs[p % 3], grid.ys[p / 3]];
                let (mut wanted, mut first) = (0.0, 0);
                for (mirror, altitude, pitch) in
                    [(&mirrors[0].mirror, 0.0, 0.8), (&mirrors[1].mirror, 8000.0, 1.0)]
                {
                    let at: [f64; 2] = std::array::from_fn(|k| {
                        let scale = 1.0 - altitude * star.inverse_altitude;
                        place[k] * scale + star.direction[k] / 206265.0 * altitude
                    });
                    for (cell, command) in mirror.cells.iter().zip(&commands[first..]) {
                        let middle = (mirror.across as f64 - 1.0) / 2.0;
                        let [x, y] = cell.map(|c| (f64::from(c) - middle) * pitch);
                        let distance = ((at[0] - x).powi(2) + (at[1] - y).powi(2)) / (pitch * pitch);
                        wanted += 1e-6 * command * 0.3f64.powf(distance);
                    }
                    first += mirror.len();
                }
                assert_eq!(first, commands.len());
                assert!((found + wanted).abs() < 1e-15, "{place:?}: {found} {wanted}");
            }
        }
    }

    #[test]
    fn a_mirror_that_is_conjugated_to_the_pupil_is_the_usual_one() {
        let text = include_str!("../../systems/mcao.toml");
        let mut system = parse(Path::new("mcao.toml"), text, None, Mode::Strict).unwrap().system;
        let conjugated = LoopMirror::of_system(&system).swap_remove(0);
        system.simulation.field = None;
        assert_eq!(LoopMirror::of_system(&system), [conjugated]);
    }
}
