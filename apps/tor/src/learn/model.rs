//! Data that a profile predicts.

use super::baselines::Maps;
use crate::Matrix;
use crate::covariance::through_layer;
use crate::geometry::Geometry;
use crate::pipeline::PipelineError;
use crate::system::{Layer, System};
use std::sync::Arc;
use zellige_runtime::{Runtime, Submit, update};

/// Unknowns of a fit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Unknowns {
    /// Logarithm of the outer scale in m, the same for all layers.
    pub(super) log_outer_scale: f64,
    /// Strengths `cn2` of the layers in m^(-5/3).
    pub(super) strengths: Vec<f64>,
    /// Velocity of each layer in m/s.
    pub(super) winds: Vec<[f64; 2]>,
    /// Noise \[x, y\] of each sensor in arcsec^2.
    pub(super) noise: Vec<[f64; 2]>,
}

impl Unknowns {
    /// Returns the number of unknowns.
    pub(super) fn len(&self) -> usize {
        1 + 3 * self.strengths.len() + 2 * self.noise.len()
    }

    /// Returns the place of a layer's strength among the unknowns.
    pub(super) fn strength_at(layer: usize) -> usize {
        1 + layer
    }

    /// Returns the place of a layer's velocity.
    pub(super) fn wind_at(&self, layer: usize) -> usize {
        1 + self.strengths.len() + 2 * layer
    }

    /// Returns the place of a sensor's noise.
    pub(super) fn noise_at(&self, sensor: usize) -> usize {
        1 + 3 * self.strengths.len() + 2 * sensor
    }

    /// Returns the unknowns after a step. Strengths do not become negative, and the outer scale
    /// stays between 0.1 m and 10 km.
    pub(super) fn after(&self, step: &[f64]) -> Unknowns {
        let mut out = self.clone();
        out.log_outer_scale = (out.log_outer_scale + step[0]).clamp(0.1f64.ln(), 1e4f64.ln());
        for (layer, strength) in out.strengths.iter_mut().enumerate() {
            *strength = (*strength + step[Self::strength_at(layer)]).max(0.0);
        }
        for (layer, wind) in out.winds.iter_mut().enumerate() {
            let at = self.wind_at(layer);
            wind.iter_mut().zip(&step[at..]).for_each(|(v, step)| *v += step);
        }
        for (sensor, noise) in out.noise.iter_mut().enumerate() {
            let at = self.noise_at(sensor);
            noise.iter_mut().zip(&step[at..]).for_each(|(v, step)| *v += step);
        }
        out
    }
}

/// Part of the data for a layer of strength 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Template {
    pub(super) layer: usize,
    pub(super) log_outer_scale: f64,
    /// Velocity, of the maps with a lag; `None` for those without.
    pub(super) wind: Option<[f64; 2]>,
}

/// Prediction of data for the system.
#[derive(Debug)]
pub(super) struct Model {
    system: System,
    geometry: Geometry,
    altitudes: Vec<f64>,
    /// Maps without and with the lag.
    pub(super) maps: [Maps; 2],
    /// Lag in s.
    pub(super) lag: f64,
}

/// Relative change for differences.
const CHANGE: f64 = 1e-4;

impl Model {
    pub(super) fn new(system: &System, geometry: &Geometry, altitudes: Vec<f64>, lag: f64) -> Self {
        let maps = [false, true].map(|has_lag| Maps::new(system, geometry, has_lag));
        Model { system: system.clone(), geometry: geometry.clone(), altitudes, maps, lag }
    }

    /// Returns the number of data.
    pub(super) fn data(&self) -> usize {
        self.maps[0].len() + self.maps[1].len()
    }

    /// Returns the number of layers.
    pub(super) fn layers(&self) -> usize {
        self.altitudes.len()
    }

    /// Returns the sub-apertures.
    pub(super) fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Computes a template.
    fn template(&self, of: &Template) -> Vec<f64> {
        let maps = &self.maps[usize::from(of.wind.is_some())];
        let outer_scale = of.log_outer_scale.exp();
        let layer = Layer { altitude: self.altitudes[of.layer], cn2: 1.0, outer_scale, wind: None };
        let way = of.wind.map_or([0.0; 2], |wind| wind.map(|v| v * self.lag));
        let mut out = vec![0.0; maps.len()];
        for pair in &maps.pairs {
            let stars = pair.sensors.map(|s| &self.system.stars[s]);
            let grids = pair.sensors.map(|s| &self.geometry.sensors()[s]);
            let block = through_layer(stars, grids, &layer, way);
            maps.reduce(pair, &block, &mut out[pair.data.clone()]);
        }
        out
    }

    /// Computes templates as tasks.
    pub(super) fn templates(
        self: &Arc<Self>,
        rt: &Runtime,
        wanted: &[Template],
    ) -> Result<Vec<Vec<f64>>, PipelineError> {
        let length = |of: &Template| self.maps[usize::from(of.wind.is_some())].len();
        let handles: Vec<_> = wanted.iter().map(|of| rt.register(vec![0.0; length(of)])).collect();
        for (&of, handle) in wanted.iter().zip(&handles) {
            let model = Arc::clone(self);
            rt.task("template")
                .operands((update(handle),))
                .cpu(move |(out,)| out.copy_from_slice(&model.template(&of)))
                .submit()?;
        }
        rt.wait_all()?;
        handles.into_iter().map(|handle| Ok(rt.take(handle)?)).collect()
    }

    /// Returns the data of a noise of 1 in the slopes of a sensor along an axis, among the maps
    /// without a lag: the range of the sensor's own pair, and the values.
    pub(super) fn noise(&self, sensor: usize, axis: usize) -> (usize, Vec<f64>) {
        let maps = &self.maps[0];
        let own = maps.pairs.iter().find(|pair| pair.sensors == [sensor; 2]);
        let Some(pair) = own else { return (0, Vec::new()) };
        let n = self.geometry.sensors()[sensor].len();
        let is_noisy = |i: usize, j: usize| i == j && i / n == axis;
        let block = Matrix::from_fn(2 * n, 2 * n, |i, j| f64::from(u8::from(is_noisy(i, j))));
        let mut out = vec![0.0; pair.data.len()];
        maps.reduce(pair, &block, &mut out);
        (pair.data.start, out)
    }

    /// Returns the predicted data.
    pub(super) fn predict(self: &Arc<Self>, rt: &Runtime, at: &Unknowns) -> Result<Vec<f64>, PipelineError> {
        let templates = self.templates(rt, &self.both(at, at.log_outer_scale))?;
        let mut out = vec![0.0; self.data()];
        for (k, template) in templates.iter().enumerate() {
            add(&mut out, self.start(k), at.strengths[k / 2], template);
        }
        self.add_noise(at, &mut out);
        Ok(out)
    }

    fn add_noise(&self, at: &Unknowns, out: &mut [f64]) {
        for (sensor, noise) in at.noise.iter().enumerate() {
            for (axis, noise) in noise.iter().enumerate() {
                let (start, values) = self.noise(sensor, axis);
                add(out, start, *noise, &values);
            }
        }
    }

    /// Returns the templates of all layers, without and with the lag in turn.
    fn both(&self, at: &Unknowns, log_outer_scale: f64) -> Vec<Template> {
        let of = |layer: usize| {
            [None, Some(at.winds[layer])].map(|wind| Template { layer, log_outer_scale, wind })
        };
        (0..self.layers()).flat_map(of).collect()
    }

    /// Returns the first datum of template `k` of [`Self::both`].
    fn start(&self, k: usize) -> usize {
        k % 2 * self.maps[0].len()
    }

    /// Returns the predicted data and their derivatives by each unknown. Those by outer scale and
    /// wind are differences.
    pub(super) fn derivatives(
        self: &Arc<Self>,
        rt: &Runtime,
        at: &Unknowns,
    ) -> Result<(Vec<f64>, Vec<Vec<f64>>), PipelineError> {
        let layers = self.layers();
        let moved = |layer: usize, axis: usize| {
            let mut wind = at.winds[layer];
            wind[axis] += self.change_of_wind();
            Template { layer, log_outer_scale: at.log_outer_scale, wind: Some(wind) }
        };
        let mut wanted = self.both(at, at.log_outer_scale);
        wanted.extend(self.both(at, at.log_outer_scale + CHANGE));
        wanted.extend((0..layers).flat_map(|layer| [0, 1].map(|axis| moved(layer, axis))));
        let templates = self.templates(rt, &wanted)?;
        let (here, rest) = templates.split_at(2 * layers);
        let (scaled, moved) = rest.split_at(2 * layers);

        let mut data = vec![0.0; self.data()];
        let mut columns = vec![vec![0.0; self.data()]; at.len()];
        for (k, (template, scaled)) in here.iter().zip(scaled).enumerate() {
            let (layer, start) = (k / 2, self.start(k));
            let strength = at.strengths[layer];
            add(&mut data, start, strength, template);
            add(&mut columns[Unknowns::strength_at(layer)], start, 1.0, template);
            add(&mut columns[0], start, strength / CHANGE, scaled);
            add(&mut columns[0], start, -strength / CHANGE, template);
        }
        for (k, moved) in moved.iter().enumerate() {
            let (layer, axis) = (k / 2, k % 2);
            let column = &mut columns[at.wind_at(layer) + axis];
            let scale = at.strengths[layer] / self.change_of_wind();
            add(column, self.maps[0].len(), scale, moved);
            add(column, self.maps[0].len(), -scale, &here[2 * layer + 1]);
        }
        for (sensor, _) in at.noise.iter().enumerate() {
            for axis in 0..2 {
                let (start, values) = self.noise(sensor, axis);
                add(&mut columns[at.noise_at(sensor) + axis], start, 1.0, &values);
            }
        }
        self.add_noise(at, &mut data);
        Ok((data, columns))
    }

    /// Returns the change of a velocity for differences: a layer moves by a small part of a
    /// sub-aperture.
    fn change_of_wind(&self) -> f64 {
        CHANGE * self.pitch() / self.lag
    }

    /// Returns the side of the smallest sub-aperture in m.
    pub(super) fn pitch(&self) -> f64 {
        self.geometry.sensors().iter().map(|s| s.pitch).fold(f64::INFINITY, f64::min)
    }
}

/// Adds `scale * values` to `out[start..]`.
fn add(out: &mut [f64], start: usize, scale: f64, values: &[f64]) {
    out[start..].iter_mut().zip(values).for_each(|(sum, v)| *sum += scale * v);
}
