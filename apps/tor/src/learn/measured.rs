//! Covariances of measured slopes, averaged over equal baselines, by blocks of time.

use super::baselines::Maps;
use crate::geometry::Geometry;
use crate::matrix::gemm;
use crate::{Error, Matrix};

/// Number of blocks of time.
pub(super) const BLOCKS: usize = 16;
/// Smallest number of frames.
const FEWEST_FRAMES: usize = 200;

/// Slopes of a time series, frames x measurements.
#[derive(Debug)]
pub(super) struct Series {
    /// Slopes without their means over time.
    slopes: Matrix,
    lag: usize,
}

impl Series {
    /// Checks slopes \[arcsec\] and removes their means; `lag` is that of the covariances in
    /// frames.
    pub(super) fn new(mut slopes: Matrix, geometry: &Geometry, lag: usize) -> Result<Self, Error> {
        let (frames, measurements) = (slopes.rows(), slopes.cols());
        let bad = |problem: String| Err(Error::shape("slopes", problem));
        if measurements != geometry.measurements() {
            return bad(format!(
                "{measurements} in each frame, the system has {} measurements: give one row for each frame, sensors in the order of the system",
                geometry.measurements()
            ));
        }
        let needed = FEWEST_FRAMES.max(4 * BLOCKS * lag);
        if frames < needed {
            return bad(format!("{frames} frames: give {needed} or more"));
        }
        for j in 0..measurements {
            let column = slopes.col_mut(j);
            if let Some(frame) = column.iter().position(|v| !v.is_finite()) {
                return bad(format!("{} in frame {frame}, measurement {j}", column[frame]));
            }
            let mean = column.iter().sum::<f64>() / frames as f64;
            column.iter_mut().for_each(|v| *v -= mean);
        }
        for block in geometry.blocks() {
            if (block.start..block.start + block.len).all(|j| slopes.col(j).iter().all(|v| *v == 0.0)) {
                let problem = "all its slopes along an axis are constant: does it measure, and are the sensors in the order of the system?";
                return Err(Error::numeric(format!("sensor {}", block.wfs + 1), problem));
            }
        }
        Ok(Series { slopes, lag })
    }

    /// Returns the data of one of the [`BLOCKS`] blocks of time: the maps without a lag, then those
    /// with it.
    pub(super) fn data(&self, block: usize, maps: &[Maps; 2], geometry: &Geometry) -> Vec<f64> {
        let length = (self.slopes.rows() - self.lag) / BLOCKS;
        let first = block * length;
        let mut out = Vec::new();
        for (maps, lag) in maps.iter().zip([0, self.lag]) {
            let [now, later] = [first, first + lag].map(|start| self.slopes.view().subrows(start, length));
            let n = self.slopes.cols();
            let mut all = Matrix::zeros(n, n);
            gemm(all.view_mut(), false, now.transpose(), later, 1.0 / length as f64);
            out.extend(averages(&all, maps, geometry));
        }
        out
    }
}

/// Returns the averages of a whole covariance matrix.
pub(super) fn averages(all: &Matrix, maps: &Maps, geometry: &Geometry) -> Vec<f64> {
    let starts: Vec<usize> = geometry.blocks().iter().step_by(2).map(|block| block.start).collect();
    let mut out = vec![0.0; maps.len()];
    for pair in &maps.pairs {
        let [rows, cols] = pair.sensors.map(|s| 2 * geometry.sensors()[s].len());
        let [row, col] = pair.sensors.map(|s| starts[s]);
        let block = Matrix::from_fn(rows, cols, |i, j| all[(row + i, col + j)]);
        maps.reduce(pair, &block, &mut out[pair.data.clone()]);
    }
    out
}
