//! Sensors that measure differences of the wavefront between opposite edges.

use super::noise::NormalSlopeNoise;
use super::{WavefrontSensor, check_lengths};
use crate::ARCSEC_PER_RADIAN;
use crate::end_to_end::grid::PupilGrid;
use crate::geometry::SubApertures;
use crate::noise::SlopeNoise;

/// A sensor whose slopes are differences between opposite edges of a sub-aperture, divided by its
/// side.
#[derive(Debug)]
pub struct GeometricSensor {
    cells: SubApertures,
    grid: PupilGrid,
    /// Weights of the points along an edge; their sum is 1.
    weights: Vec<f64>,
    noise: Option<NormalSlopeNoise>,
}

impl GeometricSensor {
    /// Returns the sensor that the covariances assume: differences between the middles of the
    /// edges.
    pub fn edge_middles(cells: &SubApertures) -> Self {
        GeometricSensor::new(cells, vec![0.0, 1.0, 0.0])
    }

    /// Returns the sensor of mean gradients over the sub-apertures, with `intervals` (at least 1)
    /// between points along an edge. A mean gradient is the difference of the means over the edges,
    /// which are exact for a wavefront that is linear between points.
    pub fn mean_gradients(cells: &SubApertures, intervals: usize) -> Self {
        let step = 1.0 / intervals.max(1) as f64;
        let mut weights = vec![step; intervals.max(1) + 1];
        weights[0] = step / 2.0;
        weights[intervals.max(1)] = step / 2.0;
        GeometricSensor::new(cells, weights)
    }

    fn new(cells: &SubApertures, weights: Vec<f64>) -> Self {
        let intervals = weights.len() - 1;
        let positions: Vec<f64> =
            (0..=cells.nssp * intervals).map(|k| cells.coordinate(k as f64 / intervals as f64)).collect();
        let grid = PupilGrid { xs: positions.clone(), ys: positions };
        GeometricSensor { cells: cells.clone(), grid, weights, noise: None }
    }

    /// Adds normal noise with the variance of each sub-aperture.
    ///
    /// # Panics
    /// There is not one variance for each sub-aperture.
    pub fn with_noise(mut self, noise: &[SlopeNoise], seed: u64, star: usize) -> Self {
        assert_eq!(noise.len(), self.cells.len(), "one variance for each sub-aperture");
        self.noise = Some(NormalSlopeNoise::new(noise, seed, star));
        self
    }
}

impl WavefrontSensor for GeometricSensor {
    fn grid(&self) -> &PupilGrid {
        &self.grid
    }

    fn slopes(&self) -> usize {
        2 * self.cells.len()
    }

    fn measure(&self, wavefront: &[f64], frame: u64, out: &mut [f64]) {
        check_lengths(self, wavefront, out);
        let across = self.grid.xs.len();
        let intervals = self.weights.len() - 1;
        let scale = ARCSEC_PER_RADIAN / self.cells.pitch;
        let (x, y) = out.split_at_mut(self.cells.len());
        for ((cell, x), y) in self.cells.cells.iter().zip(x).zip(y) {
            let first = usize::from(cell[1]) * intervals * across + usize::from(cell[0]) * intervals;
            let (mut dx, mut dy) = (0.0, 0.0);
            for (k, weight) in self.weights.iter().enumerate() {
                let (row, column) = (first + k * across, first + k);
                dx += weight * (wavefront[row + intervals] - wavefront[row]);
                dy += weight * (wavefront[column + intervals * across] - wavefront[column]);
            }
            *x = scale * dx;
            *y = scale * dy;
        }
        if let Some(noise) = &self.noise {
            noise.add(frame, out);
        }
    }
}
