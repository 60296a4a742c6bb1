//! Parameters of the end-to-end simulation.

use super::FieldCorrection;

/// Relation between sensors and mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoopMode {
    /// Sensors do not see the mirror (multi-object adaptive optics): `v = C s`.
    Open,
    /// Sensors see the mirror, and its slopes are added to theirs again (laser tomography): `v = C
    /// (s + D u)`.
    PseudoOpen,
    /// Sensors see the mirror, and commands integrate the residual: `u += g C s`.
    Closed,
}

impl LoopMode {
    /// Returns the name that files use.
    pub fn name(self) -> &'static str {
        match self {
            LoopMode::Open => "open",
            LoopMode::PseudoOpen => "pseudo-open",
            LoopMode::Closed => "closed",
        }
    }

    /// Returns whether sensors see the mirror.
    pub fn sees_mirror(self) -> bool {
        self != LoopMode::Open
    }
}

/// Model of the wavefront sensors.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SensorModel {
    /// Difference between the middles of opposite edges, as the covariances assume.
    Edges,
    /// Mean gradient over the sub-aperture.
    Gradients,
    /// Images of the star behind each sub-aperture, and their centres of gravity.
    Spots,
}

impl SensorModel {
    /// Returns the name that files use.
    pub fn name(self) -> &'static str {
        match self {
            SensorModel::Edges => "edges",
            SensorModel::Gradients => "gradients",
            SensorModel::Spots => "spots",
        }
    }
}

/// Parameters of the end-to-end simulation, the table `[loop]` of a system's file.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoopModel {
    /// Relation between sensors and mirror; by default [`LoopMode::PseudoOpen`] for the correction
    /// of a field, else [`LoopMode::Closed`] for a single natural star and [`LoopMode::Open`] for
    /// others.
    pub mode: Option<LoopMode>,
    /// Model of the sensors.
    pub sensor: SensorModel,
    /// Gain of the integrator, or of the low-pass filter of a pseudo-open loop; by default 0.4 and
    /// 1 (no filter). An open loop has none.
    pub gain: Option<f64>,
    /// Fraction of the commands that an integrator loses in every frame.
    pub leak: f64,
    /// Number of frames after which slopes move the mirror.
    pub delay: usize,
    /// Largest stroke of an actuator in m.
    pub stroke: f64,
    /// Smallest singular value of a measured interaction matrix that its inverse uses, relative to
    /// the largest.
    pub cutoff: f64,
    /// Exposure of one frame in s; by default that of the photometry.
    pub frame_time: Option<f64>,
    /// Number of pixels of the wavefront across a sub-aperture of the truth sensor.
    pub pixels: usize,
    /// Number of detector pixels across a sub-aperture's field, for images.
    pub detector_pixels: usize,
    /// Number of electrons that is subtracted from each detector pixel; what is below counts as 0.
    pub threshold: f64,
    /// Wavelengths of the images in m; by default the system's imaging wavelength.
    pub wavelengths: Vec<f64>,
    /// Correction of all targets by the same mirrors; without it, each target has its own, or that
    /// of the first.
    #[serde(skip)]
    pub field: Option<FieldCorrection>,
}

impl LoopModel {
    /// Replaces parameters of a file by those that are given. With a mode, a gain of the file is
    /// left out: it is for the file's mode.
    pub fn replace(
        &mut self,
        mode: Option<LoopMode>,
        sensor: Option<SensorModel>,
        gain: Option<f64>,
        delay: Option<usize>,
    ) {
        self.gain = if mode.is_some() { gain } else { gain.or(self.gain) };
        self.mode = mode.or(self.mode);
        self.sensor = sensor.unwrap_or(self.sensor);
        self.delay = delay.unwrap_or(self.delay);
    }
}

impl Default for LoopModel {
    fn default() -> Self {
        LoopModel {
            mode: None,
            sensor: SensorModel::Gradients,
            gain: None,
            leak: 0.0,
            delay: 1,
            stroke: 1e-4,
            cutoff: 0.02,
            frame_time: None,
            pixels: 8,
            detector_pixels: 16,
            threshold: 0.0,
            wavelengths: Vec::new(),
            field: None,
        }
    }
}
