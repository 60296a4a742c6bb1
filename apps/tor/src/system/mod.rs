//! Systems and atmospheres: telescope, guide stars, sensors, mirror and turbulence profile.

mod cells;
mod field;
mod loop_model;
mod mirror;

use crate::ARCSEC_PER_RADIAN;

pub use cells::CellMap;
pub use field::{ConjugateMirror, FieldCorrection};
pub use loop_model::{LoopMode, LoopModel, SensorModel};
pub use mirror::{COUPLING, InfluenceFunctions, MirrorModel};

/// Maximum number of sub-apertures across the pupil.
pub const MAX_NSSP: usize = 256;
/// Maximum number of guide stars.
pub const MAX_STARS: usize = 64;
/// Maximum number of turbulent layers.
pub const MAX_LAYERS: usize = 1024;
/// Maximum number of targets.
pub const MAX_TARGETS: usize = 4096;
/// Natural star (at infinity) or laser guide star (at the sodium layer).
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StarKind {
    /// Natural guide star.
    Ngs,
    /// Laser guide star: cone effect, elongated spot, no tip-tilt.
    Lgs,
}

/// A guide star and the wavefront sensor that looks at it.
#[derive(Debug, Clone, PartialEq)]
pub struct GuideStar {
    /// Natural or laser.
    pub kind: StarKind,
    /// Direction from the axis, `[x, y]` in arcsec.
    pub direction: [f64; 2],
    /// Inverse altitude in 1/m; 0 means infinity.
    pub inverse_altitude: f64,
    /// Number of sub-apertures across the pupil.
    pub nssp: usize,
    /// Shift of the pupil, `[x, y]` in m.
    pub pupil_shift: [f64; 2],
    /// Rotation of the pupil in degrees.
    pub rotation: f64,
    /// Magnification of the pupil.
    pub magnification: f64,
    /// Whether rotation and magnification apply to whole sub-apertures, whose slopes are then along
    /// rotated axes (pyTomoAO, COMPASS's simulation), or to the positions alone (MOAO).
    pub slopes_turn: bool,
    /// Magnitude of a natural star (needed for photometric noise).
    pub magnitude: Option<f64>,
    /// Position of the laser launcher, `[x, y]` in m. `None`: at the pupil edge in the direction of
    /// the star.
    pub launcher: Option<[f64; 2]>,
}

/// Detector, light and star parameters of the photometric noise model (see [`crate::noise`]).
#[derive(Debug, Clone, PartialEq)]
pub struct Photometry {
    /// Exposure of one frame in s.
    pub frame_time: f64,
    /// Photons of a laser star in 1/(m^2 s).
    pub lgs_flux: f64,
    /// Pixel size of the natural-star sensors in arcsec.
    pub pixel_ngs: f64,
    /// Pixel size of the laser-star sensors in arcsec.
    pub pixel_lgs: f64,
    /// Wavelength of the natural-star sensors in m.
    pub wavelength_ngs: f64,
    /// Wavelength of the laser-star sensors in m.
    pub wavelength_lgs: f64,
    /// Bandwidth of the natural-star sensors in m.
    pub bandwidth: f64,
    /// Transmission to the natural-star sensors.
    pub throughput_ngs: f64,
    /// Transmission to the laser-star sensors, including the atmosphere.
    pub throughput_lgs: f64,
    /// Transmission of the atmosphere.
    pub throughput_atmosphere: f64,
    /// Read noise in electrons rms per pixel.
    pub read_noise: f64,
    /// Width of the laser spot on the sky in arcsec.
    pub spot_width: f64,
    /// Altitude of the sodium layer in m.
    pub sodium_altitude: f64,
    /// Thickness of the sodium layer in m.
    pub sodium_depth: f64,
}

/// Noise model of the slopes.
#[derive(Debug, Clone, PartialEq)]
pub enum NoiseModel {
    /// Noise from photons and detector.
    Photometric(Photometry),
    /// The same variance for every slope, in arcsec^2.
    Uniform {
        /// Variance in arcsec^2.
        variance: f64,
    },
}

/// Unit of the angles in a file, for callers that want results in it. Inside the crate all angles
/// are in arcsec.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum AngleUnit {
    /// Arcseconds.
    #[default]
    Arcsec,
    /// Radians.
    Rad,
    /// Milliarcseconds.
    Mas,
}

impl AngleUnit {
    /// Returns the number of arcseconds in one unit.
    pub fn in_arcsec(self) -> f64 {
        match self {
            AngleUnit::Arcsec => 1.0,
            AngleUnit::Rad => ARCSEC_PER_RADIAN,
            AngleUnit::Mas => 1e-3,
        }
    }

    /// Returns the name used in files.
    pub fn name(self) -> &'static str {
        match self {
            AngleUnit::Arcsec => "arcsec",
            AngleUnit::Rad => "rad",
            AngleUnit::Mas => "mas",
        }
    }
}

/// Rule for valid sub-apertures. A sensor's only sub-aperture is always valid.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Valid {
    /// Sub-apertures with their centre in the pupil.
    #[default]
    Centre,
    /// Sub-apertures with at least this fraction of their area illuminated, above 0 and at most 1.
    Illuminated(f64),
    /// Sub-apertures of a map, which all sensors with more than one sub-aperture share.
    Map(CellMap),
}

/// Telescope, guide stars and targets.
#[derive(Debug, Clone, PartialEq)]
pub struct System {
    /// Diameter of the pupil in m.
    pub diameter: f64,
    /// Diameter of the central obstruction as a fraction of the pupil's.
    pub obstruction: f64,
    /// Angle of the telescope from the zenith in degrees. Altitudes and strengths of a system and
    /// its atmosphere are along the line of sight: readers have applied the angle.
    pub zenith_angle: f64,
    /// Rule for valid sub-apertures.
    pub valid: Valid,
    /// The deformable mirror.
    pub mirror: MirrorModel,
    /// Number of sub-apertures across the pupil of the truth sensor; the mirror has `nssp + 1`
    /// actuators across.
    pub nssp: usize,
    /// Measuring sensors in measurement order: laser stars first.
    pub stars: Vec<GuideStar>,
    /// Directions to reconstruct, `[x, y]` in arcsec.
    pub targets: Vec<[f64; 2]>,
    /// Assumed variance in arcsec^2 of the unknown tip and tilt of a laser star.
    pub lgs_cst: f64,
    /// Measurement noise.
    pub noise: NoiseModel,
    /// Time in s from the measurements to the wavefront to reconstruct. Layers move by their wind
    /// during this time.
    pub lag: f64,
    /// Wavelength of the image in m.
    pub wavelength: f64,
    /// Unit of the angles in the original file.
    pub units: AngleUnit,
    /// End-to-end simulation.
    pub simulation: LoopModel,
}

/// One turbulent layer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Layer {
    /// Altitude above the pupil in m.
    pub altitude: f64,
    /// Strength `r0^(-5/3)` at 500 nm in m^(-5/3).
    pub cn2: f64,
    /// Outer scale in m.
    pub outer_scale: f64,
    /// Velocity `[x, y]` of the frozen turbulence in m/s, if it is known ([`Atmosphere::winds`]).
    pub wind: Option<[f64; 2]>,
}

/// Wind speed in m/s of a layer whose wind is not given.
pub const WIND_SPEED: f64 = 10.0;

/// The turbulence profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Atmosphere {
    /// Layers, lowest first as in files.
    pub layers: Vec<Layer>,
}

impl Atmosphere {
    /// Returns the Fried parameter in m at 500 nm of all layers, `(sum cn2)^(-3/5)`.
    pub fn r0(&self) -> f64 {
        self.layers.iter().map(|l| l.cn2).sum::<f64>().powf(-0.6)
    }

    /// Returns the seeing (FWHM for an infinite outer scale, `0.976 lambda / r0`) at 500 nm in
    /// arcsec.
    pub fn seeing(&self) -> f64 {
        0.976 * 500e-9 / self.r0() * ARCSEC_PER_RADIAN
    }

    /// Returns the velocity `[x, y]` of each layer in m/s. A layer without one has [`WIND_SPEED`],
    /// in a direction that differs from those of its neighbours by the golden angle.
    pub fn winds(&self) -> Vec<[f64; 2]> {
        let golden = std::f64::consts::PI * (3.0 - 5f64.sqrt());
        let default = |i: usize| {
            let (sin, cos) = (golden * i as f64).sin_cos();
            [WIND_SPEED * cos, WIND_SPEED * sin]
        };
        self.layers.iter().enumerate().map(|(i, layer)| layer.wind.unwrap_or_else(|| default(i))).collect()
    }
}

/// Returns the airmass `1 / cos z` at an angle from the zenith in degrees.
pub(crate) fn airmass(zenith_angle: f64) -> f64 {
    // It is exactly 1 at 0, so that values for the zenith keep their bits.
    if zenith_angle == 0.0 { 1.0 } else { 1.0 / zenith_angle.to_radians().cos() }
}

impl System {
    /// Returns the time between frames in s: that of the loop, else that of the photometry.
    pub fn frame_time(&self) -> Option<f64> {
        let light = match &self.noise {
            NoiseModel::Photometric(light) => Some(light.frame_time),
            NoiseModel::Uniform { .. } => None,
        };
        self.simulation.frame_time.or(light)
    }

    /// Returns the lag in ms, if there is one.
    pub(crate) fn lag_ms(&self) -> Option<f64> {
        (self.lag != 0.0).then_some(1e3 * self.lag)
    }

    /// Converts altitudes of laser stars, mirrors and sodium layer above the telescope to distances
    /// along the line of sight.
    pub(crate) fn slant(&mut self) {
        let airmass = airmass(self.zenith_angle);
        self.stars.iter_mut().for_each(|star| star.inverse_altitude /= airmass);
        for mirror in self.simulation.field.iter_mut().flat_map(|field| &mut field.mirrors) {
            mirror.altitude *= airmass;
        }
        if let NoiseModel::Photometric(light) = &mut self.noise {
            light.sodium_altitude *= airmass;
            light.sodium_depth *= airmass;
        }
    }
}

impl Atmosphere {
    /// Converts a profile above the telescope to one along a line of sight: distances and strengths
    /// of layers grow by the factor `1 / cos z`.
    pub(crate) fn slant(&mut self, zenith_angle: f64) {
        let airmass = airmass(zenith_angle);
        for layer in &mut self.layers {
            layer.altitude *= airmass;
            layer.cn2 *= airmass;
        }
    }
}
