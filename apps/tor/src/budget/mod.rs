//! Error budget of a single-conjugate loop from the spectrum of turbulence: fitting, aliasing,
//! delay and noise.
//!
//! All terms are integrals in the plane of spatial frequencies `f` \[1/m\]. A layer of strength
//! `c` and outer scale `L0` has the spectrum `W(f) = 0.0229 c (f^2 + 1 / L0^2)^(-11/6)` rad^2 m^2
//! at 500 nm. Mirror and sensor are infinite square lattices of pitch `d`, so that the frequencies
//! `f_p = f + p / d` of all whole `p` share one command, for each `f` of the cell `|fx|, |fy| <
//! 1 / (2 d)` (Rigaut, Véran & Lai, Proc. SPIE 3353, 1998, 1038; Jolissaint, J. Eur. Opt. Soc. 5,
//! 2010, 10055). With the influence function `H` (transform over `d^2`) and `S = sum_p H_p^2`:
//!
//! * The best fit has the command `sum_p a_p phi_p`, `a_p = H_p / S`.
//! * The slopes are `s = sum_p G_p phi_p`, with two axes. `G` has the phase of the centre of a
//!   sub-aperture, half a pitch from the actuators on both axes. The interaction matrix is `D =
//!   sum_p G_p H_p`, the reconstructor `R = D^* / |D|^2`, the measured command `sum_p m_p phi_p`,
//!   `m_p = R G_p`. Where `|D|` is below a cutoff, no command is made.
//! * A layer with the wind `v` has the temporal frequency `f_p v`, at which the loop leaves the
//!   fraction `E` of a command and applies `T = 1 - E` of the measured one.
//!
//! | term | integral over the cell |
//! | --- | --- |
//! | fitting | `sum_q [W_q (1 - H_q a_q)^2 + H_q^2 sum_{p != q} W_p a_p^2]` |
//! | aliasing | `S sum_p W_p abs(m_p - a_p)^2 abs(T_p)^2` |
//! | delay | `S sum_p W_p a_p^2 abs(E_p)^2` |
//! | noise | `S abs(R)^2 sigma^2 d^2`, times the mean of `abs(T)^2` |
//!
//! The piston of the pupil is removed: from the turbulence, so that the mirror does not follow it,
//! and from commands by aliasing and noise. The phase is constant during a frame, as in a
//! simulation frame by frame. Edges of the pupil are ignored.

mod integral;

use crate::Error;
use crate::system::{Atmosphere, MirrorModel, System};
use integral::{Effort, Integral};
use rustfft::num_complex::Complex64;
use std::f64::consts::PI;

/// Influence function of an infinite mirror.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MirrorResponse {
    /// Gaussian influence functions.
    Gaussian {
        /// Fraction of the peak at a neighbouring actuator.
        coupling: f64,
    },
    /// A mirror that makes every frequency of the cell and none outside.
    Ideal,
}

/// Slopes of an infinite sensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SensorResponse {
    /// Difference between the middles of opposite edges ([`crate::covariance`]): `G = 2 i sin(pi
    /// fx d) / d`.
    EdgeDifference,
    /// Mean gradient over the sub-aperture: `G = 2 i sin(pi fx d) sinc(fy d) / d`.
    MeanGradient,
}

/// Response of a loop in time, with `z = exp(2 pi i nu T)` for the frame time `T`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TimeResponse {
    /// Open loop whose command is that of `delay` frames before: `E = 1 - z^-delay`.
    Open {
        /// Delay in frames.
        delay: f64,
    },
    /// Integrator `c_k = (1 - leak) c_{k-1} + gain e_{k-delay}`: `E = 1 / (1 + gain z^-delay / (1
    /// - (1 - leak) z^-1))`.
    Integrator {
        /// Gain.
        gain: f64,
        /// Fraction of the command that is lost in each frame.
        leak: f64,
        /// Delay in frames, at least 1.
        delay: f64,
    },
}

impl TimeResponse {
    /// Returns `E` at a frequency in periods per frame.
    fn error(self, cycles: f64) -> Complex64 {
        let z = |frames: f64| Complex64::from_polar(1.0, -2.0 * PI * cycles * frames);
        match self {
            TimeResponse::Open { delay } => 1.0 - z(delay),
            TimeResponse::Integrator { gain, leak, delay } => {
                let denominator = 1.0 - (1.0 - leak) * z(1.0);
                denominator / (denominator + gain * z(delay))
            }
        }
    }

    /// Returns the mean of `|T|^2` over all frequencies: the gain for noise.
    fn noise_gain(self) -> f64 {
        const POINTS: usize = 1024;
        let at = |k: usize| (1.0 - self.error((k as f64 + 0.5) / POINTS as f64)).norm_sqr();
        (0..POINTS).map(at).sum::<f64>() / POINTS as f64
    }

    /// Returns the time in frames by which commands are late at low frequencies, without leak.
    fn lag(self) -> f64 {
        match self {
            TimeResponse::Open { delay } => delay,
            TimeResponse::Integrator { gain, .. } => 1.0 / gain,
        }
    }
}

/// Parameters of the error budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BudgetInput {
    /// Diameter of the pupil in m.
    pub diameter: f64,
    /// Diameter of the central obstruction as a fraction of the pupil's.
    pub obstruction: f64,
    /// Side of a sub-aperture and distance of actuators in m.
    pub pitch: f64,
    /// Mirror.
    pub mirror: MirrorResponse,
    /// Sensor.
    pub sensor: SensorResponse,
    /// Fraction of the largest singular value of the interaction matrix below which modes are
    /// filtered. Those with a period above four pitches are kept: on a pupil they are low orders.
    pub cutoff: f64,
    /// Controller.
    pub time: TimeResponse,
    /// Frame time in s.
    pub frame_time: f64,
    /// Variance of the noise of a slope in arcsec^2.
    pub slope_noise: f64,
}

impl BudgetInput {
    /// Returns the parameters of a system's truth sensor and mirror, with the usual cutoff `1 /
    /// sqrt(30)` and without noise. A mirror with sampled functions counts as an ideal one.
    pub fn new(system: &System, sensor: SensorResponse, time: TimeResponse, frame_time: f64) -> Self {
        BudgetInput {
            diameter: system.diameter,
            obstruction: system.obstruction,
            pitch: system.diameter / system.nssp as f64,
            mirror: match &system.mirror {
                MirrorModel::Gaussian { coupling, .. } => MirrorResponse::Gaussian { coupling: *coupling },
                MirrorModel::Sampled(_) => MirrorResponse::Ideal,
            },
            sensor,
            cutoff: 1.0 / 30f64.sqrt(),
            time,
            frame_time,
            slope_noise: 0.0,
        }
    }

    fn check(&self) -> Result<(), Error> {
        let is_positive = |x: f64| x.is_finite() && x > 0.0;
        let bad = |problem: String| Err(Error::numeric("error budget", problem));
        if !(is_positive(self.pitch) && is_positive(self.frame_time) && self.diameter >= self.pitch) {
            return bad(
                "pitch, diameter and frame time have to be above 0, the diameter at least a pitch".into()
            );
        }
        if !((0.0..1.0).contains(&self.obstruction) && (0.0..1.0).contains(&self.cutoff)) {
            return bad("obstruction and cutoff have to be at least 0 and below 1".into());
        }
        if !(self.slope_noise.is_finite() && self.slope_noise >= 0.0) {
            return bad("the noise of a slope has to be finite and at least 0".into());
        }
        match self.mirror {
            MirrorResponse::Gaussian { coupling } if !(0.01..=0.9).contains(&coupling) => {
                return bad(format!("the coupling {coupling} is not in 0.01 to 0.9"));
            }
            _ => {}
        }
        match self.time {
            TimeResponse::Open { delay } if delay.is_finite() && delay >= 0.0 => Ok(()),
            TimeResponse::Open { delay } => bad(format!("a delay of {delay} frames")),
            TimeResponse::Integrator { gain, leak, delay } => {
                if !(delay.is_finite() && delay >= 1.0 && (0.0..1.0).contains(&leak)) {
                    return bad(format!("a delay of {delay} frames and a leak of {leak}"));
                }
                // At the frequency 1 / (2 (2 delay - 1)) the loop without leak returns errors in
                // phase.
                let most = 2.0 * (PI / (2.0 * (2.0 * delay - 1.0))).sin();
                if !(gain > 0.0 && gain < most) {
                    return bad(format!(
                        "the loop is stable for gains above 0 and below {most:.3}, not {gain}"
                    ));
                }
                Ok(())
            }
        }
    }
}

/// Variances of the wavefront over the pupil in m^2, without piston.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct ErrorBudget {
    /// Difference between the turbulence and the best fit of the mirror.
    pub fitting: f64,
    /// Commands from turbulence that the mirror cannot make.
    pub aliasing: f64,
    /// Lag of the commands.
    pub delay: f64,
    /// Commands from noise.
    pub noise: f64,
    /// All of it. Aliasing and lag of the same turbulence are correlated, so that this is not
    /// exactly the sum.
    pub total: f64,
}

impl ErrorBudget {
    /// Returns the standard deviations in nm.
    pub fn nm(&self) -> ErrorBudget {
        let rms = |variance: f64| 1e9 * variance.max(0.0).sqrt();
        ErrorBudget {
            fitting: rms(self.fitting),
            aliasing: rms(self.aliasing),
            delay: rms(self.delay),
            noise: rms(self.noise),
            total: rms(self.total),
        }
    }
}

/// Returns textbook estimates \[m^2\] without noise. In rad^2 at 500 nm they are `0.28 (d /
/// r0)^(5/3)` for fitting (Hardy, Adaptive Optics for Astronomical Telescopes, 1998), `0.08 (d /
/// r0)^(5/3)` for aliasing and `(t / t0)^(5/3)` for the delay. `t0 = 0.314 r0 / v` with the mean
/// wind `v` (Fried, JOSA A 7, 1990, 1224); `t` is the delay of an open loop, and the frame time
/// over the gain of an integrator.
pub fn textbook(input: &BudgetInput, atmosphere: &Atmosphere) -> ErrorBudget {
    let pitch = (input.pitch / atmosphere.r0()).powf(5.0 / 3.0);
    let lag = input.time.lag() * input.frame_time;
    let moved = atmosphere.layers.iter().zip(atmosphere.winds());
    let delay =
        moved.map(|(layer, [x, y])| 6.88 * layer.cn2 * (x.hypot(y) * lag).powf(5.0 / 3.0)).sum::<f64>();
    let [fitting, aliasing, delay] = [0.28 * pitch, 0.08 * pitch, delay].map(|rad2| rad2 * metres2());
    ErrorBudget { fitting, aliasing, delay, noise: 0.0, total: fitting + aliasing + delay }
}

/// Computes the error budget.
///
/// # Errors
/// A parameter is out of range, or the loop is not stable.
pub fn error_budget(input: &BudgetInput, atmosphere: &Atmosphere) -> Result<ErrorBudget, Error> {
    input.check()?;
    atmosphere.check()?;
    Ok(Integral::new(input, atmosphere, Effort::default()).run())
}

/// Returns m^2 of wavefront per rad^2 of phase at 500 nm.
fn metres2() -> f64 {
    (500e-9 / (2.0 * PI)).powi(2)
}
