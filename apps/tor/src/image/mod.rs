//! The image, from the covariance of the residual on the actuators.
//!
//! There are three measures of the same `Cvv`, from the fastest to the most accurate:
//!
//! * [`residual`]: rms wavefront error over the pupil and the Marechal approximation of the Strehl
//!   ratio;
//! * [`psf`]: the stationary image that MOAO computes, comparable with published values. It
//!   averages `Cvv` over equal actuator offsets and so counts noisy edge actuators fully, which
//!   makes it pessimistic for small systems;
//! * [`ExactStrehl`]: the long-exposure Strehl ratio of the non-stationary residual, over all pairs
//!   of pupil points.
//!
//! All of them include the tomographic error only: no fitting, aliasing or bandwidth error.

mod exact;
mod exponential;
mod fft;
mod pupil;
mod sampled;
mod stationary;

pub use exact::ExactStrehl;
pub(crate) use fft::Fft2;
pub(crate) use pupil::variances;
pub use pupil::{Pupil, Residual, residual};
pub use stationary::{Psf, psf, size, uncorrected};

use crate::dm::DeformableMirror;
use crate::{Error, Matrix};

fn check_cvv(cvv: &Matrix, mirror: &DeformableMirror) -> Result<(), Error> {
    let n = mirror.len();
    if (cvv.rows(), cvv.cols()) != (n, n) {
        return Err(Error::shape(
            "Cvv",
            format!("{} x {}, the mirror has {n} actuators", cvv.rows(), cvv.cols()),
        ));
    }
    // Squares and sums of larger values would overflow, and no mirror has such strokes.
    if !cvv.data().iter().all(|x| x.abs() < 1e120) {
        return Err(Error::numeric(
            "Cvv",
            "it holds a value that is not finite, or above 1e120 V^2: the reconstructor or Dx is broken",
        ));
    }
    Ok(())
}
