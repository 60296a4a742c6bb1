//! Products on a GPU.

use super::Packed;
use crate::Error;
use std::ops::Deref;
use std::sync::Arc;
use zellige_gpu::{Driver, GpuError};
use zellige_kernels::few_bits::{GpuMatrix, GpuProduct};

/// A GPU that multiplies.
#[derive(Debug, Clone)]
pub struct GpuPlace {
    /// Driver of the GPUs.
    pub driver: Arc<dyn Driver>,
    /// Number of the GPU.
    pub number: u32,
}

/// A reconstructor where it is multiplied: in host memory, and in that of a GPU if one multiplies.
#[derive(Debug)]
pub(super) struct Placed {
    packed: Packed,
    pub(super) on_gpu: Option<Arc<GpuMatrix>>,
}

impl Deref for Placed {
    type Target = Packed;

    fn deref(&self) -> &Packed {
        &self.packed
    }
}

impl Placed {
    /// Copies a reconstructor to the GPU, if there is one.
    ///
    /// # Errors
    /// A reconstructor in float32, which GPUs do not multiply; the errors of the GPU.
    pub(super) fn new(packed: Packed, place: Option<&GpuPlace>) -> Result<Self, Error> {
        let Some(place) = place else { return Ok(Placed { packed, on_gpu: None }) };
        let few = packed.few_bits().ok_or_else(|| {
            let problem = "a GPU multiplies those of 2 to 16 bits: round it by tor build --bits 16";
            Error::numeric("reconstructor in float32", problem)
        })?;
        let on_gpu = GpuMatrix::new(&place.driver, place.number, few).map_err(|error| place.error(&error))?;
        Ok(Placed { packed, on_gpu: Some(Arc::new(on_gpu)) })
    }
}

impl GpuPlace {
    /// Prepares products with reconstructors of `shape`.
    ///
    /// # Errors
    /// The errors of the GPU.
    pub(super) fn product(&self, shape: (usize, usize)) -> Result<GpuProduct, Error> {
        GpuProduct::new(&self.driver, self.number, shape).map_err(|error| self.error(&error))
    }

    pub(super) fn error(&self, error: &GpuError) -> Error {
        Error::numeric(format!("GPU {}", self.number), error.to_string())
    }
}
