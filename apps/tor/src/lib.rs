//! Tomographic reconstructors for adaptive optics.
//!
//! A telescope looks at several guide stars with wavefront sensors. The reconstructor `R` converts
//! their measurements into those of a sensor that looks at the target: `R = Ctm Cmm^-1`. Both
//! matrices follow from the geometry and from the turbulence profile alone. This crate holds the
//! mathematics and the files:
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`system`] | telescope, guide stars, sensors and mirror of a [`System`]; layers of an [`Atmosphere`] |
//! | [`params`] | readers and checks of both |
//! | [`geometry`] | sub-apertures, measurement order, blocks, projections on turbulent layers |
//! | [`turbulence`] | the von Karman phase structure function |
//! | [`noise`] | variance of the measurements |
//! | [`covariance`] | any part of the matrices `Cmm`, `Ctm`, `Ctt`, generated where it is needed |
//! | [`dm`] | deformable mirror, interaction matrix, command matrix `Dx` |
//! | [`evaluate`] | error covariance `Cee` of any reconstructor, and what it costs on the actuators |
//! | [`change`] | the same for many changes of one reconstructor |
//! | [`budget`] | fitting, aliasing, delay and noise from the spectrum of turbulence |
//! | [`end_to_end`] | the same judged by simulation, frame by frame |
//! | [`learn`] | the turbulence profile from measured slopes |
//! | [`image`] | long-exposure image and Strehl ratio |
//! | [`mod@reference`] | a small dense float64 reconstructor, the yardstick of every other one |
//! | [`files`] | FITS and npy, slope orders |
//! | [`trust`] | exact digits of covariances, factor and reconstructor |
//! | [`pipeline`] | all of it, from parameters to judged reconstructors; sizes before anything runs, and runs in virtual time |
//! | [`rtc`] | products with packed reconstructors in real time, from packets of slopes |
//! | [`report`] | results as pages |
//!
//! Units: metres, arcseconds (slopes and directions), arcsec^2 (covariances); `cn2` of a layer is
//! its `r0^(-5/3)` in m^(-5/3) at 500 nm. Matrices are column-major ([`matrix::Matrix`]).
#![forbid(unsafe_code)]

pub mod budget;
pub mod change;
pub mod covariance;
pub mod dm;
pub mod end_to_end;
pub mod error;
pub mod evaluate;
pub mod files;
pub mod geometry;
pub mod image;
pub mod learn;
pub mod matrix;
pub mod noise;
pub mod params;
pub mod pipeline;
pub mod reference;
pub mod report;
pub mod rtc;
pub mod system;
pub mod trust;
pub mod turbulence;

pub use covariance::{Covariance, Kind};
pub use error::Error;
pub use matrix::Matrix;
pub use params::Warning;
pub use system::{Atmosphere, System};

/// Arcseconds per radian, as rounded in adaptive-optics codes (the exact value is 206264.806...).
/// It is part of the model: published matrices were made with it.
pub const ARCSEC_PER_RADIAN: f64 = 206265.0;
