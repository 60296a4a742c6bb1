//! Compiling kernels with NVRTC. Needs no GPU and no driver.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

use cudarc::nvrtc::sys::{self, nvrtcResult};

use super::probe;
use crate::error::GpuError;
use crate::info::Library;

/// Returns NVRTC's version.
///
/// # Errors
/// [`GpuError::Missing`].
pub(crate) fn version() -> Result<(c_int, c_int), GpuError> {
    probe::needs(Library::Nvrtc)?;
    probe::nvrtc_version().ok_or_else(|| GpuError::Missing {
        library: Library::Nvrtc,
        reason: "it does not tell its version".into(),
        needed_for: Library::Nvrtc.needed_for(),
    })
}

/// A program, destroyed when it is dropped.
struct Program(sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: created in `new`, destroyed once.
        let _ = unsafe { sys::nvrtcDestroyProgram(&mut self.0) };
    }
}

/// Returns NVRTC's message for a result.
fn describe(result: nvrtcResult) -> String {
    // SAFETY: gives a string that is never freed, for any answer.
    let text = unsafe { sys::nvrtcGetErrorString(result) };
    if text.is_null() {
        return format!("{result:?}");
    }
    // SAFETY: not null, so it is such a string.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn check_status(result: nvrtcResult) -> Result<(), String> {
    if result == nvrtcResult::NVRTC_SUCCESS { Ok(()) } else { Err(describe(result)) }
}

impl Program {
    fn new(name: &CStr, source: &CStr) -> Result<Program, String> {
        let mut program = ptr::null_mut();
        // SAFETY: both texts are read during the call; there are no headers; writes one handle.
        check_status(unsafe {
            sys::nvrtcCreateProgram(&mut program, source.as_ptr(), name.as_ptr(), 0, ptr::null(), ptr::null())
        })?;
        Ok(Program(program))
    }

    /// Returns the compiler's log; empty if there is none.
    fn log(&self) -> String {
        // SAFETY: the program is alive; the first call returns the number of bytes that the second
        // writes.
        let bytes = unsafe { self.bytes(sys::nvrtcGetProgramLogSize, sys::nvrtcGetProgramLog) };
        let bytes = bytes.unwrap_or_default();
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').trim().to_owned()
    }

    /// # Safety
    /// `get` writes as many bytes as `size` returns.
    unsafe fn bytes(
        &self,
        size: unsafe fn(sys::nvrtcProgram, *mut usize) -> nvrtcResult,
        get: unsafe fn(sys::nvrtcProgram, *mut c_char) -> nvrtcResult,
    ) -> Result<Vec<u8>, String> {
        let mut length = 0;
        // SAFETY: the program is alive; writes one number.
        check_status(unsafe { size(self.0, &mut length) })?;
        let mut bytes = vec![0u8; length];
        // SAFETY: as many bytes as the caller promises.
        check_status(unsafe { get(self.0, bytes.as_mut_ptr().cast()) })?;
        Ok(bytes)
    }
}

/// The image of a source for an architecture: CUBIN for a real one (`sm_90`), PTX (with a 0 at its
/// end) for a virtual one (`compute_90`).
///
/// # Errors
/// [`GpuError::Missing`], [`GpuError::Compile`].
pub(crate) fn compile(name: &str, source: &str, arch: &str, options: &[String]) -> Result<Vec<u8>, GpuError> {
    version()?;
    let failed = |log| GpuError::Compile { source_name: name.into(), arch: arch.into(), log };
    let text =
        |text: &str| CString::new(text).map_err(|_| failed(format!("a text with a 0 in it: {text:.40?}")));
    let program = Program::new(&text(name)?, &text(source)?).map_err(failed)?;
    let options = [format!("--gpu-architecture={arch}")].into_iter().chain(options.iter().cloned());
    let options = options.map(|option| text(&option)).collect::<Result<Vec<CString>, GpuError>>()?;
    let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    // SAFETY: the program is alive, the options are read during the call.
    let result = unsafe { sys::nvrtcCompileProgram(program.0, pointers.len() as c_int, pointers.as_ptr()) };
    check_status(result).map_err(|what| {
        let log = program.log();
        failed(if log.is_empty() { what } else { log })
    })?;
    // SAFETY: the first call of each pair returns the number of bytes that the second writes.
    let image = unsafe {
        if arch.starts_with("sm_") {
            program.bytes(sys::nvrtcGetCUBINSize, sys::nvrtcGetCUBIN)
        } else {
            program.bytes(sys::nvrtcGetPTXSize, sys::nvrtcGetPTX)
        }
    };
    image.map_err(failed)
}
