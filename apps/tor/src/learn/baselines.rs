//! Averages of slope covariances over equal baselines.

use crate::Matrix;
use crate::geometry::{Geometry, SubApertures};
use crate::system::{StarKind, System};
use std::collections::BTreeMap;
use std::ops::Range;

/// Pairs of sub-apertures of two grids by their baseline.
#[derive(Debug)]
struct Baselines {
    /// Number of the baseline of each pair `i + j * rows`.
    of: Vec<u32>,
    /// Number of pairs with each baseline.
    pairs: Vec<f64>,
    /// Number of the baseline 0, if there is one.
    zero: Option<usize>,
}

impl Baselines {
    fn new(rows: &SubApertures, cols: &SubApertures) -> Self {
        // In units of the diameter over 2 nssp nssp', centres have whole coordinates.
        let place = |cell: [u16; 2], scale: usize| cell.map(|k| (2 * i64::from(k) + 1) * scale as i64);
        let mut known: BTreeMap<[i64; 2], u32> = BTreeMap::new();
        let (mut of, mut pairs) = (Vec::with_capacity(rows.len() * cols.len()), Vec::new());
        for col in &cols.cells {
            let b = place(*col, rows.nssp);
            for row in &rows.cells {
                let a = place(*row, cols.nssp);
                let next = known.len() as u32;
                let number = *known.entry([a[0] - b[0], a[1] - b[1]]).or_insert(next);
                if number == next {
                    pairs.push(0.0);
                }
                pairs[number as usize] += 1.0;
                of.push(number);
            }
        }
        Baselines { of, pairs, zero: known.get(&[0, 0]).map(|k| *k as usize) }
    }
}

/// Two sensors, the data of which are a range of all data: by axes (xx, yx, xy, yy, the first is
/// that of the row) and by baseline, then the covariances of the mean slopes.
#[derive(Debug)]
pub(super) struct SensorPair {
    /// Sensor of the rows, then sensor of the columns.
    pub(super) sensors: [usize; 2],
    /// The pair's data.
    pub(super) data: Range<usize>,
    baselines: usize,
    /// Whether mean slopes, that is tip and tilt, are data; those of laser stars are not.
    has_tilt: bool,
}

/// Reduction of covariance matrices to averages over equal baselines, after the mean slopes of each
/// sensor are removed.
#[derive(Debug)]
pub(super) struct Maps {
    /// Pairs of sensors, each once.
    pub(super) pairs: Vec<SensorPair>,
    baselines: Vec<Baselines>,
    length: usize,
}

/// Number of combinations of axes.
const AXES: usize = 4;

impl Maps {
    /// Prepares the maps of a system: of all ordered pairs of sensors with a lag, of each pair once
    /// without.
    pub(super) fn new(system: &System, geometry: &Geometry, has_lag: bool) -> Self {
        let sensors = geometry.sensors();
        let mut out = Maps { pairs: Vec::new(), baselines: Vec::new(), length: 0 };
        let mut known: BTreeMap<[usize; 2], usize> = BTreeMap::new();
        for a in 0..sensors.len() {
            let first = if has_lag { 0 } else { a };
            for b in first..sensors.len() {
                let baselines = *known.entry([sensors[a].nssp, sensors[b].nssp]).or_insert_with(|| {
                    out.baselines.push(Baselines::new(&sensors[a], &sensors[b]));
                    out.baselines.len() - 1
                });
                let has_tilt = [a, b].iter().all(|&s| system.stars[s].kind == StarKind::Ngs);
                let count = AXES * (out.baselines[baselines].pairs.len() + usize::from(has_tilt));
                let data = out.length..out.length + count;
                out.length = data.end;
                out.pairs.push(SensorPair { sensors: [a, b], data, baselines, has_tilt });
            }
        }
        out
    }

    /// Returns the number of data.
    pub(super) fn len(&self) -> usize {
        self.length
    }

    /// Reduces the covariances of a pair, `2 Na x 2 Nb`, to its data.
    pub(super) fn reduce(&self, pair: &SensorPair, block: &Matrix, out: &mut [f64]) {
        let baselines = &self.baselines[pair.baselines];
        let (height, width) = (block.rows() / 2, block.cols() / 2);
        let count = baselines.pairs.len();
        for axes in 0..AXES {
            let (row, col) = (axes % 2 * height, axes / 2 * width);
            let column = |j: usize| &block.col(col + j)[row..row + height];
            let col_means: Vec<f64> = (0..width).map(|j| mean(column(j))).collect();
            let mut row_means = vec![0.0; height];
            for j in 0..width {
                row_means.iter_mut().zip(column(j)).for_each(|(sum, v)| *sum += v / width as f64);
            }
            let tilt = mean(&col_means);
            let map = &mut out[axes * count..(axes + 1) * count];
            map.fill(0.0);
            for j in 0..width {
                let of = &baselines.of[j * height..(j + 1) * height];
                for ((number, value), row_mean) in of.iter().zip(column(j)).zip(&row_means) {
                    map[*number as usize] += value - row_mean - col_means[j] + tilt;
                }
            }
            map.iter_mut().zip(&baselines.pairs).for_each(|(sum, pairs)| *sum /= pairs);
            if pair.has_tilt {
                out[AXES * count + axes] = tilt;
            }
        }
    }

    /// Returns the weights of a pair's data, inverse variances of independent samples up to one
    /// factor: `m / (va vb)` for a mean over `m` pairs of slopes with the variances `va` and `vb`.
    /// `slopes` are the variances \[x, y\] of each sensor without mean slopes, `tilts` those of the
    /// mean slopes.
    pub(super) fn weights(&self, pair: &SensorPair, slopes: &[[f64; 2]], tilts: &[[f64; 2]]) -> Vec<f64> {
        let baselines = &self.baselines[pair.baselines];
        let [a, b] = pair.sensors;
        let of = |v: &[[f64; 2]], axes: usize| 1.0 / (v[a][axes % 2] * v[b][axes / 2]);
        let mut out = Vec::with_capacity(pair.data.len());
        for axes in 0..AXES {
            out.extend(baselines.pairs.iter().map(|pairs| pairs * of(slopes, axes)));
        }
        if pair.has_tilt {
            out.extend((0..AXES).map(|axes| of(tilts, axes)));
        }
        out
    }

    /// Returns the places, relative to a pair's data, of the baseline 0 for each combination of
    /// axes.
    pub(super) fn zeros(&self, pair: &SensorPair) -> Option<[usize; AXES]> {
        let baselines = &self.baselines[pair.baselines];
        baselines.zero.map(|zero| std::array::from_fn(|axes| axes * baselines.pairs.len() + zero))
    }

    /// Returns the places, relative to a pair's data, of the covariances of mean slopes.
    pub(super) fn tilts(&self, pair: &SensorPair) -> Option<[usize; AXES]> {
        let first = AXES * self.baselines[pair.baselines].pairs.len();
        pair.has_tilt.then(|| std::array::from_fn(|axes| first + axes))
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{self, Mode};
    use std::path::Path;

    /// Sums over all pairs with a baseline, whose mean slopes were removed from the slopes
    /// themselves, are independent of the reduction.
    #[test]
    fn maps_are_direct_sums_of_products_without_tilt() {
        let text = params::EXAMPLE.replace("nssp = 16", "nssp = 5");
        let mut input = params::parse(Path::new("s.toml"), &text, None, Mode::Strict).unwrap();
        input.system.stars[6].nssp = 3;
        let geometry = Geometry::new(&input.system).unwrap();
        let maps = Maps::new(&input.system, &geometry, true);
        let sensors = geometry.sensors();
        for pair in maps.pairs.iter().filter(|p| [[0, 5], [5, 6], [4, 5], [5, 5]].contains(&p.sensors)) {
            let [rows, cols] = pair.sensors.map(|s| &sensors[s]);
            // One sample of slopes, from whole numbers without order.
            let slope = |k: usize, seed: usize| ((k * 7919 + seed * 104_729) % 97) as f64 - 48.0;
            let samples = [(rows, 1), (cols, 2)]
                .map(|(grid, seed)| (0..2 * grid.len()).map(|k| slope(k, seed)).collect::<Vec<f64>>());
            let block = Matrix::from_fn(2 * rows.len(), 2 * cols.len(), |i, j| samples[0][i] * samples[1][j]);
            let mut data = vec![f64::NAN; pair.data.len()];
            maps.reduce(pair, &block, &mut data);
            let places = [rows, cols].map(|g| (0..g.len()).map(|i| g.centre(i)).collect::<Vec<_>>());
            let mut next = 0;
            for axes in 0..4 {
                let axis = [axes % 2, axes / 2];
                let part = |k: usize| {
                    let n = samples[k].len() / 2;
                    &samples[k][axis[k] * n..(axis[k] + 1) * n]
                };
                let means = [0, 1].map(|k| mean(part(k)));
                let mut seen: Vec<([f64; 2], f64, f64)> = Vec::new();
                for (j, b) in part(1).iter().enumerate() {
                    for (i, a) in part(0).iter().enumerate() {
                        let baseline = [0, 1].map(|c| places[0][i][c] - places[1][j][c]);
                        let product = (a - means[0]) * (b - means[1]);
                        let near = |s: &([f64; 2], f64, f64)| {
                            (s.0[0] - baseline[0]).hypot(s.0[1] - baseline[1]) < 1e-9
                        };
                        match seen.iter().position(near) {
                            Some(k) => (seen[k].1, seen[k].2) = (seen[k].1 + product, seen[k].2 + 1.0),
                            None => seen.push((baseline, product, 1.0)),
                        }
                    }
                }
                for (baseline, sum, count) in seen {
                    assert!((data[next] - sum / count).abs() < 1e-9, "{:?} {baseline:?}", pair.sensors);
                    next += 1;
                }
                if let Some(tilts) = maps.tilts(pair) {
                    assert!((data[tilts[axes]] - means[0] * means[1]).abs() < 1e-9);
                }
            }
            assert_eq!(maps.tilts(pair).is_some(), pair.sensors != [0, 5]);
            assert_eq!(next + if pair.sensors == [0, 5] { 0 } else { 4 }, data.len());
        }
    }
}
