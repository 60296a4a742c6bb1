//! Conversions between errors of the driver and errors of the runtime's streams.

use zellige_gpu::GpuError;
use zellige_runtime::device::StreamError;

pub(super) fn stream_error(error: GpuError) -> StreamError {
    match error {
        GpuError::OutOfMemory { bytes, .. } => StreamError::OutOfMemory { bytes },
        error => StreamError::Failed(error.into()),
    }
}

pub(super) fn gpu_error(gpu: u32, error: StreamError) -> GpuError {
    match error {
        StreamError::OutOfMemory { bytes } => GpuError::OutOfMemory { gpu, bytes },
        StreamError::Failed(error) => match error.downcast() {
            Ok(error) => *error,
            Err(error) => {
                GpuError::Failed { gpu, call: "memory of a body", reason: error.to_string(), sticky: false }
            }
        },
    }
}
