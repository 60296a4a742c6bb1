//! Ranges in NVIDIA's profilers: two functions of NVTX, by their names, since the bindings look for
//! the library of CUDA 12 only.

use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;

use libloading::Library;

/// The library as CUDA has it until 12.8, and from then on: with ending and without.
pub(super) const FILES: [&str; 4] =
    ["libnvToolsExt.so.1", "libnvToolsExt.so", "libnvtx3interop.so.1", "libnvtx3interop.so"];

/// The library's functions; it stays loaded as long as the process.
struct Nvtx {
    push: unsafe extern "C" fn(*const c_char) -> c_int,
    pop: unsafe extern "C" fn() -> c_int,
}

/// The first library that has both; none of them is needed.
fn nvtx() -> Option<&'static Nvtx> {
    static NVTX: OnceLock<Option<Nvtx>> = OnceLock::new();
    NVTX.get_or_init(|| FILES.iter().find_map(|file| load(file))).as_ref()
}

fn load(file: &str) -> Option<Nvtx> {
    // SAFETY: NVIDIA's libraries may be loaded at any time; each type is that of the function of
    // this name in nvToolsExt.h, and the library is never unloaded.
    unsafe {
        let library = Library::new(file).ok()?;
        let nvtx = Nvtx {
            push: *library.get(b"nvtxRangePushA\0").ok()?,
            pop: *library.get(b"nvtxRangePop\0").ok()?,
        };
        std::mem::forget(library);
        Some(nvtx)
    }
}

/// Returns true if the library is present.
pub(super) fn is_present() -> bool {
    nvtx().is_some()
}

/// Returns true if a profiler is attached: profilers set these variables to the library to load.
/// Without them a range is a call without effect, and its name need not be built.
pub(super) fn is_heard() -> bool {
    static HEARD: OnceLock<bool> = OnceLock::new();
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    *HEARD
        .get_or_init(|| ["NVTX_INJECTION64_PATH", "NVTX_INJECTION32_PATH"].iter().any(is_set) && is_present())
}

/// Begins a range of this thread.
pub(super) fn push(name: &CStr) {
    if let Some(nvtx) = nvtx() {
        // SAFETY: the name is read during the call.
        unsafe { (nvtx.push)(name.as_ptr()) };
    }
}

/// Ends the range of this thread that began last.
pub(super) fn pop() {
    if let Some(nvtx) = nvtx() {
        // SAFETY: without a range it does nothing.
        unsafe { (nvtx.pop)() };
    }
}
