//! The turbulence profile from measured slopes (Learn & Apply: Vidal, Gendron & Rousset, JOSA A 27,
//! 2010, A253).
//!
//! Slopes of an open loop have the covariances of [`crate::covariance`]. Their averages over equal
//! baselines, for each pair of sensors and axes, are the data of a weighted least-squares fit:
//!
//! * The mean slopes of each sensor, its tip and tilt, are removed first, in data and model alike.
//!   Their covariances between natural stars are data of their own; laser stars do not measure
//!   them.
//! * Covariances with slopes a lag later show the winds: those of a layer are the covariances of
//!   sensors that lie `v lag` upwind of each other (frozen flow).
//! * Unknown are the strength of each layer, one outer scale, the wind of each layer, and the noise
//!   of each sensor along each axis. Altitudes are those of the system.
//!
//! A mean over `m` pairs of slopes with the variances `va` and `vb` has the weight `m / (va vb)`.
//! Levenberg and Marquardt's method minimises the sum of squares.
//!
//! **Standard errors.** Frozen flow makes frames dependent on each other, so that their number says
//! little. The series is cut into 16 blocks of time. Each block's own data change the unknowns by
//! `d_b = (J^T W J)^-1 J^T W (data_b - model)`, with the derivatives `J` and the weights `W` of the
//! whole fit, and the covariance of the unknowns is `sum_b d_b d_b^T / (16 * 15)`. That is the
//! jackknife over blocks with one Gauss-Newton step instead of a new fit. It holds if a block is
//! longer than the wind needs to cross pupil and outer scale, and has itself an error of
//! `1 / sqrt(2 * 15)`, 18 %. Errors of the model, such as a sensor that measures mean gradients,
//! are not in it.
//!
//! The means over time are removed, which reduces covariances by those of the means: by the part of
//! the duration that slopes keep their sign.

mod baselines;
mod fit;
mod measured;
mod model;
mod profile;
mod slopes;
mod wind;

use crate::geometry::Geometry;
use crate::params::Input;
use crate::pipeline::{Observer, PipelineError};
use crate::system::{Atmosphere, Layer, WIND_SPEED};
use crate::{Error, Matrix};
use fit::Fit;
use measured::{BLOCKS, Series};
use model::{Model, Unknowns};
use std::sync::Arc;
use std::time::Instant;
use zellige_runtime::{Runtime, Submit, update};

pub use profile::{profile_toml, with_profile};
pub use slopes::{MeasuredSlopes, read_slopes};

/// Options of [`learn`].
#[derive(Debug, Clone, Default)]
pub struct LearnOptions {
    /// Time between frames in s; by default that of the system's loop.
    pub frame_time: Option<f64>,
    /// Lag in frames of the covariances that show the winds; by default the time in which 10 m/s
    /// cross a sub-aperture.
    pub lag: Option<usize>,
    /// Whether the winds are searched; otherwise the fit begins with those of the system. Without
    /// winds in the system they are searched in any case.
    pub search: bool,
}

/// A layer that was learnt. Errors are standard errors.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct LearntLayer {
    /// Distance along the line of sight in m.
    pub altitude: f64,
    /// Strength `r0^(-5/3)` at 500 nm in m^(-5/3).
    pub cn2: f64,
    /// Error of the strength.
    pub cn2_error: f64,
    /// Strength relative to all layers.
    pub fraction: f64,
    /// Wind speed in m/s.
    pub wind_speed: f64,
    /// Error of the wind speed; `null` for an empty layer.
    pub wind_speed_error: Option<f64>,
    /// Direction of motion in degrees from x to y.
    pub wind_direction: f64,
    /// Error of the direction; `null` for an empty layer.
    pub wind_direction_error: Option<f64>,
}

/// Profile that was learnt from slopes. Errors are standard errors.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct LearnResult {
    /// Number of frames.
    pub frames: usize,
    /// Time between frames in s.
    pub frame_time: f64,
    /// Lag of the covariances that show the winds, in frames.
    pub lag: usize,
    /// Fried parameter of all layers in m at 500 nm, along the line of sight.
    pub r0: f64,
    /// Error of the Fried parameter.
    pub r0_error: f64,
    /// Outer scale of all layers in m.
    pub outer_scale: f64,
    /// Error of the outer scale.
    pub outer_scale_error: f64,
    /// Layers, as in the system.
    pub layers: Vec<LearntLayer>,
    /// Noise \[x, y\] of the slopes of each sensor in arcsec^2.
    pub noise: Vec<[f64; 2]>,
    /// Weighted root mean square of the residuals relative to that of the data.
    pub misfit: f64,
    /// Duration in seconds, without reading.
    pub seconds: f64,
}

impl LearnResult {
    /// Returns the learnt profile.
    pub fn atmosphere(&self) -> Atmosphere {
        let layer = |l: &LearntLayer| {
            let (sin, cos) = l.wind_direction.to_radians().sin_cos();
            Layer {
                altitude: l.altitude,
                cn2: l.cn2,
                outer_scale: self.outer_scale,
                wind: Some([l.wind_speed * cos, l.wind_speed * sin]),
            }
        };
        Atmosphere { layers: self.layers.iter().map(layer).collect() }
    }
}

/// Learns the profile from `slopes` \[arcsec\] of an open loop, frames x measurements in the order
/// of [`crate::geometry`]. The fit begins with the profile of the input and keeps its altitudes.
///
/// # Errors
/// Slopes that do not fit the system or are not finite, too few frames, a sensor that is constant,
/// an unknown frame time, no convergence, cancellation.
pub fn learn(
    rt: &Runtime,
    input: &Input,
    slopes: Matrix,
    options: &LearnOptions,
    observer: &dyn Observer,
) -> Result<LearnResult, PipelineError> {
    let begin = Instant::now();
    let (system, layers) = (&input.system, &input.atmosphere.layers);
    let frame_time = options.frame_time.or_else(|| system.frame_time()).ok_or_else(|| {
        Error::numeric("frame time", "neither the slopes nor the system have one: give it (--frame-ms)")
    })?;
    let geometry = Geometry::new(system)?;
    let altitudes = layers.iter().map(|l| l.altitude).collect();
    let smallest = geometry.sensors().iter().map(|s| s.pitch).fold(f64::INFINITY, f64::min);
    let lag = options.lag.unwrap_or((smallest / WIND_SPEED / frame_time).round() as usize).max(1);
    let frames = slopes.rows();
    let series = Series::new(slopes, &geometry, lag)?;
    let model = Arc::new(Model::new(system, &geometry, altitudes, lag as f64 * frame_time));
    let blocks = data_of_blocks(rt, series, &model, observer)?;
    let data = mean(&blocks);
    let weights = weights(&model, &data);
    let is_known = layers.iter().all(|l| l.wind.is_some());
    let fit =
        estimate(&model, rt, &data, &weights, &input.atmosphere, options.search || !is_known, observer)?;
    let errors = covariance(&fit, &blocks, &weights)?;
    Ok(LearnResult {
        frames,
        frame_time,
        lag,
        misfit: fit.misfit(&data, &weights),
        seconds: begin.elapsed().as_secs_f64(),
        ..result(&fit.unknowns, layers, &errors)
    })
}

/// Computes the data of all blocks of time as tasks.
fn data_of_blocks(
    rt: &Runtime,
    series: Series,
    model: &Arc<Model>,
    observer: &dyn Observer,
) -> Result<Vec<Vec<f64>>, PipelineError> {
    observer.stage("covariances", 1);
    let series = Arc::new(series);
    let handles: Vec<_> = (0..BLOCKS).map(|_| rt.register(vec![0.0; model.data()])).collect();
    for (block, handle) in handles.iter().enumerate() {
        let (series, model) = (Arc::clone(&series), Arc::clone(model));
        rt.task("slope_covariances")
            .operands((update(handle),))
            .cpu(move |(out,)| out.copy_from_slice(&series.data(block, &model.maps, model.geometry())))
            .submit()?;
    }
    rt.wait_all()?;
    handles.into_iter().map(|handle| Ok(rt.take(handle)?)).collect()
}

fn mean(blocks: &[Vec<f64>]) -> Vec<f64> {
    let mut out = vec![0.0; blocks[0].len()];
    for block in blocks {
        out.iter_mut().zip(block).for_each(|(sum, v)| *sum += v / blocks.len() as f64);
    }
    out
}

/// Returns the weights of all data.
fn weights(model: &Model, data: &[f64]) -> Vec<f64> {
    let sensors = model.geometry().sensors().len();
    let (mut slopes, mut tilts) = (vec![[0.0; 2]; sensors], vec![[0.0; 2]; sensors]);
    let maps = &model.maps[0];
    let own = |pair: &&baselines::SensorPair| pair.sensors[0] == pair.sensors[1];
    for pair in maps.pairs.iter().filter(own) {
        let of = |places: [usize; 4]| [places[0], places[3]].map(|at| data[pair.data.start + at]);
        slopes[pair.sensors[0]] = maps.zeros(pair).map_or([0.0; 2], of);
        tilts[pair.sensors[0]] = maps.tilts(pair).map_or([0.0; 2], of);
    }
    let all = model.maps.iter().flat_map(|maps| maps.pairs.iter().map(move |pair| (maps, pair)));
    let mut out: Vec<f64> = all.flat_map(|(maps, pair)| maps.weights(pair, &slopes, &tilts)).collect();
    // Spots that are elongated have a noise that is common to x and y.
    for pair in maps.pairs.iter().filter(own) {
        for at in maps.zeros(pair).into_iter().flat_map(|places| [places[1], places[2]]) {
            out[pair.data.start + at] = 0.0;
        }
    }
    // A sensor with one sub-aperture has nothing but mean slopes.
    out.iter_mut().filter(|w| !w.is_finite()).for_each(|w| *w = 0.0);
    out
}

/// Fits the unknowns, from the profile of the input on.
fn estimate(
    model: &Arc<Model>,
    rt: &Runtime,
    data: &[f64],
    weights: &[f64],
    start: &Atmosphere,
    search: bool,
    observer: &dyn Observer,
) -> Result<Fit, PipelineError> {
    let strength: f64 = start.layers.iter().map(|l| l.cn2).sum();
    let outer_scale = start.layers.iter().map(|l| l.cn2 * l.outer_scale).sum::<f64>() / strength;
    let mut unknowns = Unknowns {
        log_outer_scale: outer_scale.ln(),
        strengths: start.layers.iter().map(|l| l.cn2).collect(),
        winds: start.winds(),
        noise: vec![[0.0; 2]; model.geometry().sensors().len()],
    };
    // Strengths and noise first, from the maps without a lag: they are linear.
    let mut still = weights.to_vec();
    still[model.maps[0].len()..].fill(0.0);
    unknowns = fit::fit(model, rt, data, &still, unknowns, observer)?.unknowns;
    if search {
        wind::search(model, rt, data, weights, &mut unknowns, observer)?;
    }
    fit::fit(model, rt, data, weights, unknowns, observer)
}

/// Returns the covariance of the unknowns, from blocks of time.
fn covariance(fit: &Fit, blocks: &[Vec<f64>], weights: &[f64]) -> Result<Matrix, PipelineError> {
    let count = fit.unknowns.len();
    let mut out = Matrix::zeros(count, count);
    let scale = 1.0 / (blocks.len() * (blocks.len() - 1)) as f64;
    for block in blocks {
        let change = fit.change(block, weights)?;
        for j in 0..count {
            (0..count).for_each(|i| out[(i, j)] += scale * change[i] * change[j]);
        }
    }
    Ok(out)
}

/// Returns the standard error of a function of the unknowns with these derivatives.
fn error_of(covariance: &Matrix, derivatives: &[(usize, f64)]) -> f64 {
    let product = |(i, a): &(usize, f64)| -> f64 {
        derivatives.iter().map(|(j, b)| a * b * covariance[(*i, *j)]).sum()
    };
    derivatives.iter().map(product).sum::<f64>().max(0.0).sqrt()
}

/// Converts unknowns to a result without its circumstances.
fn result(unknowns: &Unknowns, layers: &[Layer], covariance: &Matrix) -> LearnResult {
    let all: f64 = unknowns.strengths.iter().sum();
    let r0 = all.powf(-0.6);
    let by_strengths: Vec<(usize, f64)> =
        (0..layers.len()).map(|l| (Unknowns::strength_at(l), -0.6 * r0 / all)).collect();
    let outer_scale = unknowns.log_outer_scale.exp();
    let layer = |(l, given): (usize, &Layer)| {
        let (cn2, [x, y], at) = (unknowns.strengths[l], unknowns.winds[l], unknowns.wind_at(l));
        let speed = x.hypot(y);
        let is_moving = cn2 > 0.0 && speed > 0.0;
        let error = |of: [f64; 2]| is_moving.then(|| error_of(covariance, &[(at, of[0]), (at + 1, of[1])]));
        LearntLayer {
            altitude: given.altitude,
            cn2,
            cn2_error: error_of(covariance, &[(Unknowns::strength_at(l), 1.0)]),
            fraction: cn2 / all,
            wind_speed: speed,
            wind_speed_error: error([x / speed, y / speed]),
            wind_direction: y.atan2(x).to_degrees(),
            wind_direction_error: error([-y, x].map(|v| (v / (speed * speed)).to_degrees())),
        }
    };
    LearnResult {
        frames: 0,
        frame_time: 0.0,
        lag: 0,
        r0,
        r0_error: error_of(covariance, &by_strengths),
        outer_scale,
        outer_scale_error: error_of(covariance, &[(0, outer_scale)]),
        layers: layers.iter().enumerate().map(layer).collect(),
        noise: unknowns.noise.clone(),
        misfit: 0.0,
        seconds: 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::measured::averages;
    use super::*;
    use crate::covariance::{Covariance, Kind};
    use crate::params::{self, Mode};
    use crate::pipeline::Silent;
    use crate::system::{NoiseModel, StarKind, System};
    use std::path::Path;

    const LAG: f64 = 0.08;

    /// Returns the demonstration with 6 sub-apertures across and three layers.
    fn system() -> Input {
        let text =
            params::EXAMPLE.replace("nssp = 16", "nssp = 6").replace("diameter = 8.0", "diameter = 4.0");
        let mut input = params::parse(Path::new("s.toml"), &text, None, Mode::Strict).unwrap();
        let wind = |speed: f64, angle: f64| Some([speed * angle.cos(), speed * angle.sin()]);
        let layer = |altitude, cn2, wind| Layer { altitude, cn2, outer_scale: 22.0, wind };
        input.system.noise = NoiseModel::Uniform { variance: 3e-3 };
        input.atmosphere.layers = vec![
            layer(0.0, 15.0, wind(8.0, 0.3)),
            layer(4000.0, 6.0, wind(14.0, 2.5)),
            layer(9000.0, 4.0, wind(21.0, -1.2)),
        ];
        input
    }

    fn model(input: &Input) -> Arc<Model> {
        let altitudes = input.atmosphere.layers.iter().map(|l| l.altitude).collect();
        let geometry = Geometry::new(&input.system).unwrap();
        Arc::new(Model::new(&input.system, &geometry, altitudes, LAG))
    }

    fn truth(input: &Input) -> Unknowns {
        let layers = &input.atmosphere.layers;
        Unknowns {
            log_outer_scale: layers[0].outer_scale.ln(),
            strengths: layers.iter().map(|l| l.cn2).collect(),
            winds: input.atmosphere.winds(),
            noise: vec![[3e-3; 2]; input.system.stars.len()],
        }
    }

    fn runtime() -> Runtime {
        Runtime::builder().workers(2).build().unwrap()
    }

    /// Returns the data of the matrices `Cmm`, and `Ctm` of truth sensors on the stars a lag later.
    /// Natural stars only: truth sensors see no cone.
    fn data_of_matrices(input: &Input, model: &Model) -> Vec<f64> {
        let system = System {
            targets: input.system.stars.iter().map(|star| star.direction).collect(),
            lag: LAG,
            ..input.system.clone()
        };
        let cov = Covariance::new(&system, &input.atmosphere).unwrap();
        let n = cov.measurements();
        let mut out = averages(&cov.matrix(Kind::Cmm).unwrap(), &model.maps[0], model.geometry());
        let later: Vec<Matrix> = (0..cov.targets()).map(|t| cov.matrix(Kind::Ctm(t)).unwrap()).collect();
        let m = cov.truth_slopes();
        let all = Matrix::from_fn(n, n, |i, j| later[j / m][(j % m, i)]);
        out.extend(averages(&all, &model.maps[1], model.geometry()));
        out
    }

    #[test]
    fn covariances_of_other_parameters_give_these_back() {
        let mut input = system();
        input.system.stars.retain(|star| star.kind == StarKind::Ngs);
        let model = model(&input);
        let (rt, truth) = (runtime(), truth(&input));
        let data = data_of_matrices(&input, &model);
        let weights = weights(&model, &data);
        let mut start = input.atmosphere.clone();
        for (layer, cn2) in start.layers.iter_mut().zip([9.0, 9.0, 9.0]) {
            *layer = Layer { cn2, outer_scale: 40.0, wind: None, ..*layer };
        }
        let found = estimate(&model, &rt, &data, &weights, &start, true, &Silent).unwrap().unknowns;
        let near = |a: f64, b: f64| (a - b).abs() < 1e-6 * (1.0 + b.abs());
        assert!(near(found.log_outer_scale, truth.log_outer_scale), "{found:?}");
        assert!(found.strengths.iter().zip(&truth.strengths).all(|(a, b)| near(*a, *b)), "{found:?}");
        let winds = found.winds.as_flattened().iter().zip(truth.winds.as_flattened());
        assert!(winds.clone().all(|(a, b)| near(*a, *b)), "{found:?}");
        assert!(found.noise.as_flattened().iter().all(|n| (n - 3e-3).abs() < 1e-8), "{found:?}");
    }

    /// Laser stars: cone, blocks without offset structure, unknown tip and tilt.
    #[test]
    fn predictions_are_the_averages_of_the_matrix() {
        let mut input = system();
        input.system.stars[5].nssp = 4;
        let model = model(&input);
        let cov = Covariance::new(&input.system, &input.atmosphere).unwrap();
        let wanted = averages(&cov.matrix(Kind::Cmm).unwrap(), &model.maps[0], model.geometry());
        let got = model.predict(&runtime(), &truth(&input)).unwrap();
        let largest = wanted.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        for (k, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
            assert!((got - wanted).abs() < 1e-11 * largest, "{k}: {got} {wanted}");
        }
    }
}
