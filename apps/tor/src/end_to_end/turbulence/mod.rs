//! Frozen turbulence: von Karman phase screens that the wind moves across the pupil.
//!
//! A layer is an infinite plane: white noise convolved with a kernel whose transform is the square
//! root of the spectrum. The kernel falls exponentially beyond the outer scale, so that any tile of
//! the plane follows from the noise of the tile and of a margin around it. The noise of a pixel
//! depends on the seed, the layer and the pixel alone. A screen therefore has no period and no
//! state: any position at any time gives the same bits, whatever was computed before, on any number
//! of threads.
//!
//! A large outer scale would need a wide margin. The spectrum is therefore split into levels:
//!
//! `S(L0) = S(L) + [S(4 L) - S(L)] + [S(16 L) - S(4 L)] + ...`, with `L` of 64 pixels.
//!
//! The differences are positive and hold low frequencies only, `f^(-17/3)` above `1 / L`, so that
//! each one has pixels four times as large as the previous one. Between pixels all levels are cubic
//! B-splines, whose low-pass effect the kernels compensate.

mod kernel;
mod spline;
mod tiles;

use super::grid::PupilGrid;
use super::random::CounterRandom;
use crate::Error;
use crate::geometry::Projection;
use crate::image::Fft2;
use crate::system::{Atmosphere, GuideStar};
use kernel::{COARSENING, Kernel, LARGEST_OUTER_SCALE, MARGIN, SIDE, TILE};
use spline::{SplineTaps, TAPS, taps};
use std::f64::consts::TAU;
use std::sync::Arc;
use tiles::{TileCache, TileRegion};
use zellige_stochastic::vectorize;

/// Pixels of the finest level across one pixel of the pupil. With one, values between pixels would
/// be smoother than those on pixels.
const REFINEMENT: f64 = 2.0;
/// Maximum number of levels: outer scales above 3e11 pixels count as that.
const LEVELS: usize = 17;
/// Metres of wavefront per radian of phase: layers are given at 500 nm.
const METRES_PER_RADIAN: f64 = 500e-9 / TAU;

/// The layers of an atmosphere as moving phase screens. Any number of threads may use it at once.
#[derive(Debug)]
pub struct FrozenTurbulence {
    layers: Vec<ScreenLayer>,
    fft: Fft2,
    tiles: TileCache,
}

#[derive(Debug)]
struct ScreenLayer {
    altitude: f64,
    wind: [f64; 2],
    levels: Vec<ScreenLevel>,
}

/// A part of the spectrum of a layer.
#[derive(Debug)]
struct ScreenLevel {
    /// Number among the levels of all layers.
    number: usize,
    /// Size of a pixel in m.
    pixel: f64,
    /// Wavefront in m of a screen of the kernel.
    amplitude: f64,
    kernel: Arc<Kernel>,
    noise: CounterRandom,
}

impl FrozenTurbulence {
    /// Prepares the layers of an atmosphere for grids whose positions are about `pixel` \[m\]
    /// apart. Details smaller than half a pixel are left out.
    ///
    /// # Errors
    /// A strength is negative, or an outer scale, a strength or the pixel is not finite and
    /// positive.
    pub fn new(atmosphere: &Atmosphere, pixel: f64, seed: u64) -> Result<Self, Error> {
        let failed = |problem: String| Error::numeric("turbulence", problem);
        if !(pixel > 0.0 && pixel.is_finite()) {
            return Err(failed(format!("the pixel of {pixel} m is not positive")));
        }
        let fft = Fft2::new(SIDE);
        let mut kernels = Vec::new();
        let mut layers = Vec::new();
        let mut number = 0;
        for (i, (layer, wind)) in atmosphere.layers.iter().zip(atmosphere.winds()).enumerate() {
            if !(layer.cn2 >= 0.0 && layer.cn2.is_finite() && layer.outer_scale > 0.0) {
                let values = format!("strength {}, outer scale {} m", layer.cn2, layer.outer_scale);
                return Err(failed(format!("layer {} has no physical meaning: {values}", i + 1)));
            }
            let splits =
                if layer.cn2 > 0.0 { splits(layer.outer_scale * REFINEMENT / pixel) } else { Vec::new() };
            let levels = splits.iter().enumerate().map(|(l, &scales)| {
                let pixel = pixel / REFINEMENT * COARSENING.powi(l as i32);
                number += 1;
                ScreenLevel {
                    number,
                    pixel,
                    amplitude: METRES_PER_RADIAN * (layer.cn2 * pixel.powf(5.0 / 3.0)).sqrt(),
                    kernel: kernel_of(&mut kernels, &fft, scales),
                    noise: CounterRandom::new(seed, &[i as u64, l as u64]),
                }
            });
            layers.push(ScreenLayer { altitude: layer.altitude, wind, levels: levels.collect() });
        }
        Ok(FrozenTurbulence { layers, fft, tiles: TileCache::default() })
    }

    /// Returns the number of layers.
    pub fn layers(&self) -> usize {
        self.layers.len()
    }

    /// Computes the wavefront \[m\] of a star at a time \[s\], row by row: the sum of all layers
    /// below the star. A rotation or magnification of its pupil applies to the whole grid.
    ///
    /// # Panics
    /// `out` does not have the length of the grid.
    pub fn wavefront(&self, star: &GuideStar, time: f64, grid: &PupilGrid, out: &mut [f64]) {
        out.fill(0.0);
        for (i, layer) in self.layers.iter().enumerate() {
            self.add(i, &Projection::new(star, layer.altitude), time, grid, out);
        }
    }

    /// Adds the wavefront \[m\] of one layer at a time \[s\], unless the layer lies above the star.
    ///
    /// # Panics
    /// There is no such layer, or `out` does not have the length of the grid.
    pub fn add(&self, layer: usize, view: &Projection, time: f64, grid: &PupilGrid, out: &mut [f64]) {
        assert_eq!(out.len(), grid.len(), "the wavefront does not have the length of the grid");
        if !view.visible() {
            return;
        }
        let layer = &self.layers[layer];
        let moved: [f64; 2] = std::array::from_fn(|k| view.offset[k] - layer.wind[k] * time);
        let turned = view.turn[0][1] != 0.0 || view.turn[1][0] != 0.0;
        for level in &layer.levels {
            if turned {
                let view = Projection { offset: moved, ..*view };
                self.add_points(level, &view, grid, out);
            } else {
                let [x, y] = [(0, &grid.xs), (1, &grid.ys)].map(|(k, positions)| {
                    let scale = view.turn[k][k] * view.scale;
                    SplineTaps::new(positions.iter().map(|p| (p * scale + moved[k]) / level.pixel))
                });
                self.add_grid(level, &x, &y, out);
            }
        }
    }

    /// Adds a level at every pair of a column and a row: first along y, then along x.
    fn add_grid(&self, level: &ScreenLevel, x: &SplineTaps, y: &SplineTaps, out: &mut [f64]) {
        let region = self.region(level, [x.first, x.last()], [y.first, y.last()]);
        let mut line = vec![0.0; x.width];
        for ((row, weights), out) in y.positions.iter().zip(out.chunks_exact_mut(x.positions.len().max(1))) {
            line.fill(0.0);
            for (k, weight) in weights.iter().enumerate() {
                region.row(x.first, y.first + (row + k) as i64, x.width, |at, values| {
                    for (sum, value) in line[at..].iter_mut().zip(values) {
                        *sum += weight * value;
                    }
                });
            }
            for ((column, [a, b, c, d]), out) in x.positions.iter().zip(out) {
                if let Some([p, q, r, s]) = line[*column..].first_chunk::<TAPS>() {
                    *out += (a * p + b * q) + (c * r + d * s);
                }
            }
        }
    }

    /// Adds a level at every point of a turned grid.
    fn add_points(&self, level: &ScreenLevel, view: &Projection, grid: &PupilGrid, out: &mut [f64]) {
        let pixel = |x: f64, y: f64| view.point([x, y]).map(|u| u / level.pixel);
        let points: Vec<[(i64, [f64; TAPS]); 2]> =
            (grid.ys.iter()).flat_map(|&y| grid.xs.iter().map(move |&x| pixel(x, y).map(taps))).collect();
        let range = |k: usize| {
            let first = points.iter().map(|point| point[k].0).min().unwrap_or(0);
            [first, points.iter().map(|point| point[k].0).max().unwrap_or(0) + TAPS as i64 - 1]
        };
        let region = self.region(level, range(0), range(1));
        for ([(column, across), (row, along)], out) in points.iter().zip(out) {
            for (k, weight) in along.iter().enumerate() {
                region.row(*column, row + k as i64, TAPS, |at, values| {
                    *out += weight * values.iter().zip(&across[at..]).map(|(v, w)| v * w).sum::<f64>();
                });
            }
        }
    }

    fn region(&self, level: &ScreenLevel, columns: [i64; 2], rows: [i64; 2]) -> TileRegion {
        self.tiles.region(level.number, columns[0]..=columns[1], rows[0]..=rows[1], |x, y| {
            level.kernel.convolve(&self.fft, &level.noise_around(x, y), level.amplitude)
        })
    }
}

impl ScreenLevel {
    /// Returns the white noise of a tile and its margin, row by row.
    fn noise_around(&self, x: i64, y: i64) -> Vec<f64> {
        // Margin and tile are even, so that a pair of normal numbers belongs to two pixels.
        let first = |tile: i64| tile * TILE as i64 - MARGIN as i64;
        let mut noise = vec![0.0; SIDE * SIDE];
        for (row, values) in (first(y)..).zip(noise.chunks_exact_mut(SIDE)) {
            let sequence = self.noise.sequence(row as u64);
            vectorize(
                #[inline(always)]
                || {
                    for (k, pair) in (first(x) / 2..).zip(values.as_chunks_mut().0) {
                        *pair = sequence.normals(k as u64);
                    }
                },
            );
        }
        noise
    }
}

/// Returns outer scale and next finer one, in its pixels, of each level of a layer.
fn splits(outer_scale: f64) -> Vec<[f64; 2]> {
    let mut splits = vec![[outer_scale.min(LARGEST_OUTER_SCALE), 0.0]];
    let mut rest = outer_scale;
    while rest > LARGEST_OUTER_SCALE && splits.len() < LEVELS {
        rest /= COARSENING;
        splits.push([rest.min(LARGEST_OUTER_SCALE), LARGEST_OUTER_SCALE / COARSENING]);
    }
    splits
}

/// Returns the kernel of a level, computed once for all layers.
fn kernel_of(kernels: &mut Vec<([f64; 2], Arc<Kernel>)>, fft: &Fft2, scales: [f64; 2]) -> Arc<Kernel> {
    if let Some((_, kernel)) = kernels.iter().find(|(key, _)| *key == scales) {
        return Arc::clone(kernel);
    }
    let kernel = Arc::new(Kernel::new(fft, scales[0], scales[1]));
    kernels.push((scales, Arc::clone(&kernel)));
    kernel
}

#[cfg(test)]
mod tests;
