//! Quadrature of the integrands in the cell of spatial frequencies.

use super::{BudgetInput, ErrorBudget, MirrorResponse, SensorResponse, metres2};
use crate::ARCSEC_PER_RADIAN;
use crate::system::Atmosphere;
use crate::turbulence::{k1, k2};
use rustfft::num_complex::Complex64;
use std::f64::consts::PI;

/// Sizes of the quadrature.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// Largest `|px|` and `|py|` of the frequencies that share a command.
    replicas: i32,
    /// Panels across each square of the outermost level, and of the other ones.
    panels: [usize; 2],
}

impl Default for Effort {
    fn default() -> Self {
        Effort { replicas: 6, panels: [8, 2] }
    }
}

/// Nodes and weights of Gauss's rule of three points on \[0, 1\].
const GAUSS: [(f64, f64); 3] =
    [(0.112_701_665_379_258_31, 5.0 / 18.0), (0.5, 4.0 / 9.0), (0.887_298_334_620_741_7, 5.0 / 18.0)];

/// Response of one of the frequencies that share a command.
#[derive(Debug, Clone, Copy)]
struct Replica {
    f: [f64; 2],
    h: f64,
    g: [Complex64; 2],
}

/// Layers with the same outer scale.
struct LayerGroup {
    /// `1 / L0^2`.
    inner: f64,
    /// Strength and wind of each.
    members: Vec<(f64, [f64; 2])>,
}

/// The integrals of one input.
pub(super) struct Integral<'a> {
    input: &'a BudgetInput,
    effort: Effort,
    layers: Vec<LayerGroup>,
    /// Strength of the spectrum in m^2 for `c = 1`.
    strength: f64,
    noise_gain: f64,
    /// Squared modulus of `D` below which modes are filtered.
    least: f64,
}

impl<'a> Integral<'a> {
    pub(super) fn new(input: &'a BudgetInput, atmosphere: &Atmosphere, effort: Effort) -> Self {
        let mut layers: Vec<LayerGroup> = Vec::new();
        for (layer, wind) in atmosphere.layers.iter().zip(atmosphere.winds()) {
            let inner = layer.outer_scale.powi(-2);
            let at = layers.iter().position(|group| group.inner == inner).unwrap_or(layers.len());
            if at == layers.len() {
                layers.push(LayerGroup { inner, members: Vec::new() });
            }
            layers[at].members.push((layer.cn2, wind));
        }
        // Half of the structure function at infinity is the variance, (6 pi / 5) L0^(5/3) times
        // the strength of the spectrum.
        let strength = metres2() * k1() * k2() * 5.0 / (12.0 * PI);
        let noise_gain = input.time.noise_gain();
        let mut out = Integral { input, effort, layers, strength, noise_gain, least: 0.0 };
        const SCAN: usize = 32;
        let at = |k: usize| (k as f64 + 0.5) / (2 * SCAN) as f64 / input.pitch;
        let largest = (0..SCAN * SCAN)
            .map(|k| interaction(&out.replicas([at(k % SCAN), at(k / SCAN)])).1)
            .fold(0.0, f64::max);
        out.least = largest * input.cutoff * input.cutoff;
        out
    }

    /// Returns the frequencies that share a command, the one in the cell first.
    fn replicas(&self, f: [f64; 2]) -> Vec<Replica> {
        let n = self.effort.replicas;
        let all = (-n..=n).flat_map(|y| (-n..=n).map(move |x| [x, y]));
        let centre = std::iter::once([0, 0]);
        centre.chain(all.filter(|p| *p != [0, 0])).map(|p| self.replica(f, p)).collect()
    }

    fn replica(&self, f: [f64; 2], p: [i32; 2]) -> Replica {
        let d = self.input.pitch;
        let u = [0, 1].map(|k| f[k] * d + f64::from(p[k]));
        let h = match self.input.mirror {
            MirrorResponse::Ideal => f64::from(u8::from(p == [0, 0])),
            MirrorResponse::Gaussian { coupling } => {
                // Squared width in pitches.
                let width2 = -0.5 / coupling.ln();
                2.0 * PI * width2 * (-2.0 * PI * PI * width2 * (u[0] * u[0] + u[1] * u[1])).exp()
            }
        };
        let sinc = |x: f64| if x == 0.0 { 1.0 } else { (PI * x).sin() / (PI * x) };
        let to_centre = Complex64::from_polar(1.0, PI * (u[0] + u[1]));
        let g = [0, 1].map(|k| {
            let difference = Complex64::new(0.0, 2.0 * (PI * u[k]).sin() / d);
            let mean = match self.input.sensor {
                SensorResponse::EdgeDifference => 1.0,
                SensorResponse::MeanGradient => sinc(u[1 - k]),
            };
            difference * mean * to_centre
        });
        Replica { f: u.map(|u| u / d), h, g }
    }

    pub(super) fn run(&self) -> ErrorBudget {
        let mut sum = ErrorBudget::default();
        let half = 0.5 / self.input.pitch;
        // Squares towards the origin, until the spectrum of all layers is flat, and the pupil
        // smaller than a period.
        let flat =
            self.layers.iter().map(|group| group.inner.sqrt()).fold(1.0 / self.input.diameter, f64::min);
        let levels = (half / (1e-3 * flat)).log2().ceil().max(1.0) as usize;
        for level in 0..=levels {
            let side = half * 0.5f64.powi(level as i32 + 1);
            let panels = self.effort.panels[usize::from(level > 0)];
            let corners: &[[f64; 2]] = match level == levels {
                false => &[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]],
                true => &[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]],
            };
            for corner in corners {
                self.square(corner.map(|c| c * side), side, panels, &mut sum);
            }
        }
        let outside: f64 = self.layers.iter().map(|group| self.outside(group, |_| 1.0)).sum();
        sum.fitting += outside;
        sum.total += outside;
        sum
    }

    /// Adds a square of the first quadrant, with its images in the other three.
    fn square(&self, corner: [f64; 2], side: f64, panels: usize, sum: &mut ErrorBudget) {
        let panel = side / panels as f64;
        for k in 0..panels * panels {
            let start = [corner[0] + panel * (k % panels) as f64, corner[1] + panel * (k / panels) as f64];
            for (x, wx) in GAUSS {
                for (y, wy) in GAUSS {
                    let f = [start[0] + panel * x, start[1] + panel * y];
                    // Opposite frequencies have the same value, so that two quadrants suffice.
                    let weight = 2.0 * wx * wy * panel * panel;
                    self.node(f, weight, sum);
                    self.node([-f[0], f[1]], weight, sum);
                }
            }
        }
    }

    /// Adds the integrands at one frequency of the cell.
    fn node(&self, f: [f64; 2], weight: f64, sum: &mut ErrorBudget) {
        let replicas = self.replicas(f);
        let piston = self.without_piston(f[0].hypot(f[1]));
        let kept = |k: usize| if k == 0 { piston } else { 1.0 };
        let spectrum = |(k, r): (usize, &Replica)| -> f64 {
            let each = |group: &LayerGroup| {
                self.shape(r.f, group.inner) * group.members.iter().map(|(cn2, _)| cn2).sum::<f64>()
            };
            kept(k) * self.layers.iter().map(each).sum::<f64>()
        };
        let w: Vec<f64> = replicas.iter().enumerate().map(spectrum).collect();
        let ([dx, dy], square) = interaction(&replicas);
        if square < self.least && f[0].hypot(f[1]) > 0.25 / self.input.pitch {
            let all = weight * w.iter().sum::<f64>();
            sum.fitting += all;
            sum.total += all;
            return;
        }
        let own: f64 = replicas.iter().map(|r| r.h * r.h).sum();
        let on_pupil: f64 = replicas.iter().enumerate().map(|(k, r)| kept(k) * r.h * r.h).sum();
        let fitted: f64 = replicas.iter().zip(&w).map(|(r, w)| w * (r.h / own).powi(2)).sum();
        let mut fitting = 0.0;
        for (r, w) in replicas.iter().zip(&w) {
            let a = r.h / own;
            fitting += w * (1.0 - r.h * a).powi(2) + r.h * r.h * (fitted - w * a * a);
        }
        let measured = |g: [Complex64; 2]| (dx.conj() * g[0] + dy.conj() * g[1]) / square;
        let [mut aliasing, mut delay, mut both] = [0.0; 3];
        for (k, r) in replicas.iter().enumerate() {
            let a = r.h / own;
            let alias = measured(r.g) - a;
            // Of the turbulence in the cell, the piston is removed already.
            let on_pupil = if k == 0 { piston * own } else { on_pupil };
            for group in &self.layers {
                let shape = self.shape(r.f, group.inner);
                for (cn2, wind) in &group.members {
                    let cycles = (r.f[0] * wind[0] + r.f[1] * wind[1]) * self.input.frame_time;
                    let error = self.input.time.error(cycles);
                    let late = a * error;
                    let false_part = alias * (1.0 - error);
                    aliasing += on_pupil * shape * cn2 * false_part.norm_sqr();
                    delay += on_pupil * shape * cn2 * late.norm_sqr();
                    both += on_pupil * shape * cn2 * (late - false_part).norm_sqr();
                }
            }
        }
        let far = self.far_aliasing(&replicas[0], measured);
        let slope_noise = self.input.slope_noise / ARCSEC_PER_RADIAN.powi(2);
        let noise = self.noise_gain * slope_noise * self.input.pitch.powi(2) / square;
        sum.fitting += weight * fitting;
        sum.aliasing += weight * (aliasing + on_pupil * far);
        sum.delay += weight * delay;
        sum.noise += weight * on_pupil * noise;
        sum.total += weight * (fitting + both + on_pupil * (far + noise));
    }

    /// Returns the spectrum in m^4 of a layer with `c = 1`.
    fn shape(&self, [x, y]: [f64; 2], inner: f64) -> f64 {
        self.strength * (x * x + y * y + inner).powf(-11.0 / 6.0)
    }

    /// Integrates the spectrum beyond the used frequencies, with a factor for each wind: `(3/5) 8
    /// int_0^(pi/4) (M^2 / cos^2 t + 1 / L0^2)^(-5/6) dt` outside a square of half side `M`.
    fn outside(&self, group: &LayerGroup, factor: impl Fn([f64; 2]) -> f64) -> f64 {
        let edge = (f64::from(self.effort.replicas) + 0.5) / self.input.pitch;
        let at = |angle: f64| ((edge / angle.cos()).powi(2) + group.inner).powf(-5.0 / 6.0);
        let mean: f64 = GAUSS.iter().map(|(x, w)| w * at(0.25 * PI * x)).sum();
        let cn2: f64 = group.members.iter().map(|(cn2, wind)| cn2 * factor(*wind)).sum();
        1.2 * PI * mean * self.strength * cn2
    }

    /// Returns the aliasing of frequencies beyond the used ones. Edge differences see them as well
    /// as low ones: their slopes have the modulus of those in the cell, and signs by the parity of
    /// `p`. Mean gradients average them out.
    fn far_aliasing(&self, base: &Replica, measured: impl Fn([Complex64; 2]) -> Complex64) -> f64 {
        if self.input.sensor == SensorResponse::MeanGradient {
            return 0.0;
        }
        let [x, y] = base.g;
        let commands = 0.5 * (measured([x, y]).norm_sqr() + measured([x, -y]).norm_sqr());
        let gain = |wind: [f64; 2]| {
            if wind == [0.0; 2] { (1.0 - self.input.time.error(0.0)).norm_sqr() } else { self.noise_gain }
        };
        let power: f64 = self.layers.iter().map(|group| self.outside(group, gain)).sum();
        commands * power * self.input.pitch.powi(2)
    }

    /// Returns the fraction of the power at frequency `f` that is not piston of the annular pupil.
    fn without_piston(&self, f: f64) -> f64 {
        let disc = |x: f64| if x < 1e-4 { 0.5 } else { bessel_j1(x) / x };
        let hole = self.input.obstruction;
        let x = PI * self.input.diameter * f;
        let mean = 2.0 * (disc(x) - hole * hole * disc(hole * x)) / (1.0 - hole * hole);
        1.0 - mean * mean
    }
}

/// Returns `D = sum_p G_p H_p` by axis, and its squared modulus.
fn interaction(replicas: &[Replica]) -> ([Complex64; 2], f64) {
    let d = [0, 1].map(|axis| replicas.iter().map(|r| r.g[axis] * r.h).sum::<Complex64>());
    (d, d[0].norm_sqr() + d[1].norm_sqr())
}

/// Computes the Bessel function `J_1(x)`, `x >= 0`.
///
/// Below 50 it is the mean of `cos(t - x sin t)` over half a period. Above, the first asymptotic
/// term is within 1 % of the largest values.
fn bessel_j1(x: f64) -> f64 {
    const POINTS: usize = 64;
    if x > 50.0 {
        return (2.0 / (PI * x)).sqrt() * (x - 0.75 * PI).cos();
    }
    let at = |k: usize| {
        let t = PI * (k as f64 + 0.5) / POINTS as f64;
        (t - x * t.sin()).cos()
    };
    (0..POINTS).map(at).sum::<f64>() / POINTS as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Matrix;
    use crate::budget::{TimeResponse, error_budget};
    use crate::dm::pseudo_inverse;
    use crate::system::Layer;
    use crate::turbulence::structure_function;

    fn input(mirror: MirrorResponse, sensor: SensorResponse, time: TimeResponse) -> BudgetInput {
        BudgetInput {
            diameter: 8.0,
            obstruction: 0.14,
            pitch: 0.5,
            mirror,
            sensor,
            cutoff: 1.0 / 30f64.sqrt(),
            time,
            frame_time: 0.002,
            slope_noise: 1e-3,
        }
    }

    fn atmosphere(outer_scale: f64) -> Atmosphere {
        let layer = |cn2, altitude, wind| Layer { altitude, cn2, outer_scale, wind: Some(wind) };
        Atmosphere { layers: vec![layer(20.0, 0.0, [8.0, 3.0]), layer(6.0, 8000.0, [-5.0, 25.0])] }
    }

    const GAUSSIAN: MirrorResponse = MirrorResponse::Gaussian { coupling: 0.2 };
    const AT_ONCE: TimeResponse = TimeResponse::Open { delay: 0.0 };
    const LOOP: TimeResponse = TimeResponse::Integrator { gain: 0.4, leak: 0.01, delay: 2.0 };

    #[test]
    fn known_coefficients_are_the_limit_of_a_large_outer_scale() {
        let air = atmosphere(1e5);
        let rad2 = metres2() * (0.5 / air.r0()).powf(5.0 / 3.0);
        let of = |mirror, sensor| error_budget(&input(mirror, sensor, AT_ONCE), &air).unwrap();
        let ideal = of(MirrorResponse::Ideal, SensorResponse::MeanGradient);
        // 0.0229 * 4.8 * 2^(5/3) * int_0^(pi/4) cos^(5/3) t dt, a square high-pass.
        assert!((ideal.fitting / rad2 - 0.2313).abs() < 5e-4, "{}", ideal.fitting / rad2);
        assert_eq!(ideal.delay, 0.0);
        let gaussian = of(GAUSSIAN, SensorResponse::MeanGradient);
        let edges = of(GAUSSIAN, SensorResponse::EdgeDifference);
        // Textbooks say 0.08.
        assert!((ideal.aliasing / rad2 - 0.0734).abs() < 1e-3, "{}", ideal.aliasing / rad2);
        assert!((0.2313..0.28).contains(&(gaussian.fitting / rad2)), "{}", gaussian.fitting / rad2);
        assert!(edges.aliasing > gaussian.aliasing);
    }

    #[test]
    fn lag_of_an_open_loop_follows_the_structure_function() {
        let air = atmosphere(25.0);
        let fine = BudgetInput {
            diameter: 1e4,
            obstruction: 0.0,
            pitch: 0.05,
            frame_time: 0.02,
            ..input(MirrorResponse::Ideal, SensorResponse::MeanGradient, TimeResponse::Open { delay: 1.5 })
        };
        let found = error_budget(&fine, &air).unwrap();
        let moved = |l: &Layer| l.wind.map_or(0.0, |[x, y]| x.hypot(y) * 0.03);
        let want: f64 = air.layers.iter().map(|l| structure_function(moved(l), l.cn2, l.outer_scale)).sum();
        // Frequencies beyond the pitch would add twice their variance.
        let got = (found.delay + 2.0 * found.fitting) / metres2();
        assert!((got / want - 1.0).abs() < 3e-3, "{got} {want}");
    }

    #[test]
    fn quadratures_converge() {
        for sensor in [SensorResponse::EdgeDifference, SensorResponse::MeanGradient] {
            let input = input(GAUSSIAN, sensor, LOOP);
            let air = atmosphere(25.0);
            let run = |effort| Integral::new(&input, &air, effort).run();
            let usual = run(Effort::default());
            let finer = run(Effort { replicas: 8, panels: [12, 3] });
            for (a, b) in [
                (usual.fitting, finer.fitting),
                (usual.aliasing, finer.aliasing),
                (usual.delay, finer.delay),
                (usual.noise, finer.noise),
                (usual.total, finer.total),
            ] {
                assert!((a / b - 1.0).abs() < 0.01, "{usual:?} {finer:?}");
            }
            let sum = usual.fitting + usual.aliasing + usual.delay + usual.noise;
            assert!((usual.total / sum - 1.0).abs() < 0.1, "{usual:?}");
        }
    }

    /// A wave on a periodic mirror of 8 x 8 actuators with pitch 0.5: projection and measurement
    /// by explicit matrices.
    #[test]
    fn waves_on_a_periodic_mirror_have_the_commands_of_the_theory() {
        const N: usize = 8;
        let pitch = 0.5;
        let width2 = -0.5 / 0.2f64.ln();
        let actuator = |a: usize| [(a % N) as f64, (a / N) as f64];
        // Influence in units of the pitch, with its periodic images.
        let line = |x: f64| -> f64 {
            (-2..=2).map(|image| (-(x + f64::from(image * N as i32)).powi(2) / (2.0 * width2)).exp()).sum()
        };
        let influence = |a: usize, [x, y]: [f64; 2]| line(x - actuator(a)[0]) * line(y - actuator(a)[1]);
        for (sensor, points) in [(SensorResponse::EdgeDifference, 1), (SensorResponse::MeanGradient, 32)] {
            let input = input(GAUSSIAN, sensor, AT_ONCE);
            let air = atmosphere(25.0);
            let theory = Integral::new(&input, &air, Effort::default());
            let slopes = |phase: &dyn Fn([f64; 2]) -> f64| -> Vec<f64> {
                let one = |axis: usize, s: usize| -> f64 {
                    let centre = actuator(s).map(|k| k + 0.5);
                    let along = |k: usize| (k as f64 + 0.5) / points as f64 - 0.5;
                    let at = |k: usize, side: f64| {
                        let mut p = centre;
                        p[axis] += side;
                        p[1 - axis] += along(k);
                        phase(p)
                    };
                    (0..points).map(|k| at(k, 0.5) - at(k, -0.5)).sum::<f64>() / (points as f64 * pitch)
                };
                (0..2 * N * N).map(|i| one(i / (N * N), i % (N * N))).collect()
            };
            let columns: Vec<Vec<f64>> = (0..N * N).map(|a| slopes(&|p| influence(a, p))).collect();
            let interaction = Matrix::from_fn(2 * N * N, N * N, |i, a| columns[a][i]);
            let commands = pseudo_inverse(&interaction, 1e-3).unwrap().dx;
            const PIXELS: usize = 8 * N;
            let pixel = |k: usize| [(k % PIXELS) as f64 / 8.0, (k / PIXELS) as f64 / 8.0];
            let functions = Matrix::from_fn(PIXELS * PIXELS, N * N, |k, a| influence(a, pixel(k)));
            let fit = pseudo_inverse(&functions, 1e-5).unwrap().dx;
            for (k, p) in [([1, 2], [0, 0]), ([3, -2], [0, 0]), ([1, 2], [1, 0]), ([-3, 1], [1, -2])] {
                let cell = k.map(|k: i32| f64::from(k) / N as f64);
                let all = theory.replicas(cell.map(|f| f / pitch));
                let wave = theory.replica(cell.map(|f| f / pitch), p);
                let phase = |[x, y]: [f64; 2]| {
                    (2.0 * PI * ((cell[0] + f64::from(p[0])) * x + (cell[1] + f64::from(p[1])) * y)).cos()
                };
                let (d, square) = super::interaction(&all);
                let measured = (d[0].conj() * wave.g[0] + d[1].conj() * wave.g[1]) / square;
                let best = wave.h / all.iter().map(|r| r.h * r.h).sum::<f64>();
                let from_slopes = times(&commands, &slopes(&phase));
                let projected =
                    times(&fit, &(0..PIXELS * PIXELS).map(|k| phase(pixel(k))).collect::<Vec<_>>());
                for a in 0..N * N {
                    let [x, y] = actuator(a);
                    let shift = Complex64::from_polar(1.0, 2.0 * PI * (cell[0] * x + cell[1] * y));
                    assert!((from_slopes[a] - (measured * shift).re).abs() < 2e-3, "{sensor:?} {k:?} {p:?}");
                    assert!((projected[a] - best * shift.re).abs() < 1e-6, "{k:?} {p:?}");
                }
            }
        }
    }

    fn times(a: &Matrix, x: &[f64]) -> Vec<f64> {
        (0..a.rows()).map(|i| x.iter().enumerate().map(|(j, x)| a[(i, j)] * x).sum()).collect()
    }

    #[test]
    fn wrong_parameters_are_refused() {
        let good = input(GAUSSIAN, SensorResponse::MeanGradient, LOOP);
        let refused = |input: BudgetInput| error_budget(&input, &atmosphere(25.0)).is_err();
        assert!(!refused(good));
        assert!(refused(BudgetInput { pitch: 0.0, ..good }));
        assert!(refused(BudgetInput { frame_time: f64::NAN, ..good }));
        assert!(refused(BudgetInput { time: TimeResponse::Open { delay: -1.0 }, ..good }));
        let unstable = TimeResponse::Integrator { gain: 1.1, leak: 0.0, delay: 2.0 };
        assert!(refused(BudgetInput { time: unstable, ..good }));
        assert!(refused(BudgetInput { mirror: MirrorResponse::Gaussian { coupling: 0.0 }, ..good }));
    }

    #[test]
    fn bessel_function_has_published_values() {
        for (x, want) in
            [(1.0, 0.440_050_585_744_934), (10.0, 0.043_472_746_168_861), (50.0, -0.097_511_828_125_175)]
        {
            assert!((bessel_j1(x) - want).abs() < 1e-12, "{x}");
        }
        assert!((bessel_j1(50.0) - bessel_j1(50.000_001)).abs() < 1e-2);
    }
}
