//! Detection of NVIDIA's libraries on this machine.
//!
//! The bindings panic when a function of a missing library is called. So every library is searched
//! for before its first call, and every other module of this folder checks here first.

use std::ffi::c_int;
use std::sync::OnceLock;

use cudarc::{cublas, cublaslt, cusolver, driver, nvrtc};

use super::{find, nvml, nvtx};
use crate::error::GpuError;
use crate::info::{Library, LibraryState};

/// Returns the state of every library, with its version if it is available without a GPU. Searches
/// once and needs no driver.
pub fn libraries() -> Vec<(Library, LibraryState)> {
    Library::ALL.iter().map(|library| (*library, state(*library).clone())).collect()
}

/// The state of one library.
pub(crate) fn state(library: Library) -> &'static LibraryState {
    static STATES: [OnceLock<LibraryState>; Library::ALL.len()] =
        [const { OnceLock::new() }; Library::ALL.len()];
    let at = Library::ALL.iter().position(|other| *other == library).unwrap_or_default();
    STATES[at].get_or_init(|| look(library))
}

/// Returns an error if the library is missing.
pub(crate) fn needs(library: Library) -> Result<(), GpuError> {
    match state(library) {
        LibraryState::There(_) => Ok(()),
        LibraryState::Missing(reason) => {
            Err(GpuError::Missing { library, reason: reason.clone(), needed_for: library.needed_for() })
        }
    }
}

fn look(library: Library) -> LibraryState {
    find::preload(library);
    if !is_present(library) {
        // The driver's libraries belong to its installation.
        let or = if find::is_of_cuda(library) { " or with --cuda-libs" } else { "" };
        return LibraryState::Missing(format!(
            "no {} can be loaded: install it, or name its folder in LD_LIBRARY_PATH{or}",
            file(library)
        ));
    }
    if let Some(why) = find::wrong_version(library) {
        return LibraryState::Missing(format!("{why}: name the folder of another with --cuda-libs"));
    }
    match version(library) {
        Some(version) => LibraryState::There(version),
        None => LibraryState::Missing(format!("{} is there and does not tell its version", file(library))),
    }
}

fn file(library: Library) -> &'static str {
    match library {
        Library::Driver => "libcuda.so",
        Library::Cublas => "libcublas.so",
        Library::CublasLt => "libcublasLt.so",
        Library::Cusolver => "libcusolver.so",
        Library::Nvrtc => "libnvrtc.so",
        Library::Nvtx => "libnvToolsExt.so or, with CUDA 13, libnvtx3interop.so",
        Library::Nvml => "libnvidia-ml.so.1",
    }
}

/// Returns true if the bindings find the library.
pub(super) fn is_present(library: Library) -> bool {
    // SAFETY: NVIDIA's libraries may be loaded at any time; what runs then is their own set-up.
    unsafe {
        match library {
            Library::Driver => driver::sys::is_culib_present(),
            Library::Cublas => cublas::sys::is_culib_present(),
            Library::CublasLt => cublaslt::sys::is_culib_present(),
            Library::Cusolver => cusolver::sys::is_culib_present(),
            Library::Nvrtc => nvrtc::sys::is_culib_present(),
            Library::Nvtx => nvtx::is_present(),
            Library::Nvml => nvml::is_present(),
        }
    }
}

/// Returns true if a present library has a function of this name (with a 0 at its end).
macro_rules! has {
    ($library:ident, $name:literal) => {
        // SAFETY: the library is present, and the function is looked up only, not called.
        unsafe { $library::sys::culib().get::<unsafe extern "C" fn()>($name).is_ok() }
    };
}

/// Returns the version of a present library; `None` if it is not available.
fn version(library: Library) -> Option<String> {
    match library {
        Library::Driver => driver_version().map(|v| {
            let driver = nvml::driver_version().map_or_else(String::new, |own| format!(", driver {own}"));
            format!("CUDA {}.{}{driver}", v / 1000, v % 1000 / 10)
        }),
        Library::Cublas => cublas_version(),
        Library::CublasLt => {
            // SAFETY: the function is there, takes nothing and needs no GPU.
            has!(cublaslt, b"cublasLtGetVersion\0")
                .then(|| packed(unsafe { cublaslt::sys::cublasLtGetVersion() }))
        }
        Library::Cusolver => cusolver_version(),
        Library::Nvrtc => nvrtc_version().map(|(major, minor)| format!("{major}.{minor}")),
        Library::Nvtx => Some(String::new()),
        Library::Nvml => nvml::version(),
    }
}

/// The version of CUDA that the driver knows: 1000 major + 10 minor.
pub(super) fn driver_version() -> Option<c_int> {
    let mut version = 0;
    // SAFETY: the function is there; it writes one int and needs no `cuInit`.
    (has!(driver, b"cuDriverGetVersion\0")
        && unsafe { driver::sys::cuDriverGetVersion(&mut version) } == driver::sys::CUresult::CUDA_SUCCESS)
        .then_some(version)
}

fn cublas_version() -> Option<String> {
    use cublas::sys::{cublasGetProperty, cublasStatus_t, libraryPropertyType_t as Part};
    if !has!(cublas, b"cublasGetProperty\0") {
        return None;
    }
    let part = |part| {
        let mut value = 0;
        // SAFETY: the function is there; it writes one int and needs no GPU.
        let status = unsafe { cublasGetProperty(part, &mut value) };
        (status == cublasStatus_t::CUBLAS_STATUS_SUCCESS).then_some(value)
    };
    let (major, minor, patch) =
        (part(Part::MAJOR_VERSION)?, part(Part::MINOR_VERSION)?, part(Part::PATCH_LEVEL)?);
    Some(format!("{major}.{minor}.{patch}"))
}

fn cusolver_version() -> Option<String> {
    let mut version = 0;
    // SAFETY: the function is there; it writes one int and needs no GPU.
    (has!(cusolver, b"cusolverGetVersion\0")
        && unsafe { cusolver::sys::cusolverGetVersion(&mut version) }
            == cusolver::sys::cusolverStatus_t::CUSOLVER_STATUS_SUCCESS)
        .then(|| packed(version.unsigned_abs() as usize))
}

/// (major, minor) of NVRTC.
pub(super) fn nvrtc_version() -> Option<(c_int, c_int)> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the function is there; it writes two ints.
    (has!(nvrtc, b"nvrtcVersion\0")
        && unsafe { nvrtc::sys::nvrtcVersion(&mut major, &mut minor) }
            == nvrtc::sys::nvrtcResult::NVRTC_SUCCESS)
        .then_some((major, minor))
}

/// A version that is packed into one number: 10000 major + 100 minor + patch, before 12 with 1000
/// major (and so still in cuSOLVER 11).
fn packed(version: usize) -> String {
    let unit = if version >= 100_000 { 10_000 } else { 1000 };
    format!("{}.{}.{}", version / unit, version % unit / 100, version % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_versions_are_taken_apart() {
        assert_eq!(packed(120_901), "12.9.1");
        assert_eq!(packed(130_000), "13.0.0");
        assert_eq!(packed(11_603), "11.6.3");
    }

    #[test]
    fn every_library_is_there_or_says_why_not() {
        let all = libraries();
        assert_eq!(all.iter().map(|(library, _)| *library).collect::<Vec<_>>(), Library::ALL);
        for (library, state) in all {
            match state {
                LibraryState::There(version) => {
                    assert!(library == Library::Nvtx || version.contains('.'), "{version}")
                }
                LibraryState::Missing(why) => {
                    assert!(why.contains(file(library)), "{why}");
                    let error = needs(library).unwrap_err().to_string();
                    assert!(
                        error.contains(library.name()) && error.contains(library.needed_for()),
                        "{error}"
                    );
                }
            }
        }
    }
}
