//! Conversion of CUDA's results to errors.

use std::ffi::{CStr, c_char};
use std::ptr;

use cudarc::driver::sys::{self, CUresult};

use crate::error::GpuError;

/// Returns the driver's words for an answer, e.g. `CUDA_ERROR_NO_DEVICE: no CUDA-capable device is
/// detected`.
///
/// The driver library has to be there.
pub(super) fn describe(result: CUresult) -> String {
    let mut text: *const c_char = ptr::null();
    // SAFETY: writes a pointer to a string that is never freed, or leaves null.
    let known = unsafe { sys::cuGetErrorString(result, &mut text) } == CUresult::CUDA_SUCCESS;
    if !known || text.is_null() {
        return format!("{result:?}");
    }
    // SAFETY: not null, so it is such a string.
    format!("{result:?}: {}", unsafe { CStr::from_ptr(text) }.to_string_lossy())
}

/// Returns true if the context is lost. According to CUDA's documentation, the process has to be
/// restarted after these errors to use the GPU again. The documentation does not mention UNKNOWN.
/// It counts as sticky, since the driver cannot say what happened and values are not trusted then.
fn is_sticky(result: CUresult) -> bool {
    use CUresult::*;
    matches!(
        result,
        CUDA_ERROR_ILLEGAL_ADDRESS
            | CUDA_ERROR_LAUNCH_TIMEOUT
            | CUDA_ERROR_CONTEXT_IS_DESTROYED
            | CUDA_ERROR_ASSERT
            | CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUDA_ERROR_MISALIGNED_ADDRESS
            | CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUDA_ERROR_INVALID_PC
            | CUDA_ERROR_LAUNCH_FAILED
            | CUDA_ERROR_ECC_UNCORRECTABLE
            | CUDA_ERROR_NVLINK_UNCORRECTABLE
            | CUDA_ERROR_EXTERNAL_DEVICE
            | CUDA_ERROR_CONTAINED
            | CUDA_ERROR_TENSOR_MEMORY_LEAK
            | CUDA_ERROR_UNKNOWN
            | CUDA_ERROR_DEINITIALIZED
    )
}

/// An answer of the driver as an error.
pub(super) fn failed(gpu: u32, call: &'static str, result: CUresult) -> GpuError {
    GpuError::Failed { gpu, call, reason: describe(result), sticky: is_sticky(result) }
}

/// A call that is not made.
pub(super) fn refused(gpu: u32, call: &'static str, reason: impl Into<String>) -> GpuError {
    GpuError::Failed { gpu, call, reason: reason.into(), sticky: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_lost_where_the_process_has_to_start_anew() {
        use CUresult::*;
        let lost = [
            CUDA_ERROR_ILLEGAL_ADDRESS,
            CUDA_ERROR_CONTAINED,
            CUDA_ERROR_UNKNOWN,
            CUDA_ERROR_ECC_UNCORRECTABLE,
        ];
        assert!(lost.into_iter().all(is_sticky));
        let kept = [
            CUDA_ERROR_OUT_OF_MEMORY,
            CUDA_ERROR_INVALID_VALUE,
            CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
            CUDA_ERROR_NOT_READY,
        ];
        assert!(!kept.into_iter().any(is_sticky));
    }
}
