//! Handles of cuBLAS and cuSPARSE for the workers of GPUs.
//!
//! A program that calls these libraries is linked with them, so their functions are looked up in
//! the process. Each worker of a GPU gets handles on its stream.

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use crate::c::dlsym;
use crate::gpus::{self, starpu_cuda_get_local_stream};
use crate::instance::{complain, needed};
use crate::types::*;

type Create = unsafe extern "C" fn(*mut *mut c_void) -> c_int;
type Use = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type Destroy = unsafe extern "C" fn(*mut c_void) -> c_int;

/// A library whose calls take a handle.
struct Library {
    name: &'static str,
    create: &'static CStr,
    set_stream: &'static CStr,
    destroy: &'static CStr,
}

const BLAS: Library = Library {
    name: "cuBLAS",
    create: c"cublasCreate_v2",
    set_stream: c"cublasSetStream_v2",
    destroy: c"cublasDestroy_v2",
};
const SPARSE: Library = Library {
    name: "cuSPARSE",
    create: c"cusparseCreate",
    set_stream: c"cusparseSetStream",
    destroy: c"cusparseDestroy",
};

thread_local! {
    static BLAS_HANDLE: Cell<*mut c_void> = const { Cell::new(ptr::null_mut()) };
    static SPARSE_HANDLE: Cell<*mut c_void> = const { Cell::new(ptr::null_mut()) };
}

/// Returns a function of the process.
///
/// # Safety
/// `F` is a function pointer of the function's type.
unsafe fn function<F: Copy>(name: &CStr) -> Option<F> {
    let found = dlsym(ptr::null_mut(), name.as_ptr());
    // SAFETY: as the caller promises; function pointers have the size of pointers.
    (!found.is_null()).then(|| unsafe { std::mem::transmute_copy(&found) })
}

/// Waits for what the program has queued on a stream of its own.
///
/// # Safety
/// `stream` is null, a worker's, or a stream of the program.
pub unsafe fn wait_for(stream: *mut c_void) {
    if !stream.is_null()
        && stream != starpu_cuda_get_local_stream()
        && let Some(synchronize) = function::<Destroy>(c"cudaStreamSynchronize")
    {
        synchronize(stream);
    }
}

impl Library {
    /// Creates a handle on the stream of the calling worker's GPU.
    unsafe fn create(&self) -> *mut c_void {
        let stream = starpu_cuda_get_local_stream();
        let found = (function::<Create>(self.create), function::<Use>(self.set_stream));
        let (Some(create), Some(set_stream)) = found else {
            complain(format_args!(
                "the program is not linked with {}: {:?} is missing",
                self.name, self.create
            ));
            return ptr::null_mut();
        };
        let mut handle = ptr::null_mut();
        let status = match create(&raw mut handle) {
            0 => set_stream(handle, stream),
            status => status,
        };
        if status != 0 {
            complain(format_args!("{} gives no handle: status {status}", self.name));
            return ptr::null_mut();
        }
        handle
    }

    /// Returns the calling worker's handle; null elsewhere.
    unsafe fn local(&self, handle: &Cell<*mut c_void>) -> *mut c_void {
        if gpus::node_here() == 0 {
            return ptr::null_mut();
        }
        if handle.get().is_null() {
            handle.set(self.create());
        }
        handle.get()
    }

    unsafe fn destroy(&self, handle: &Cell<*mut c_void>) {
        let handle = handle.replace(ptr::null_mut());
        if !handle.is_null()
            && let Some(destroy) = function::<Destroy>(self.destroy)
        {
            destroy(handle);
        }
    }
}

/// Calls a function on the workers of all GPUs, and waits.
unsafe fn on_gpus(function: unsafe extern "C" fn(*mut c_void)) {
    if !gpus::all().is_empty() {
        crate::extras::starpu_execute_on_each_worker(Some(function), ptr::null_mut(), STARPU_CUDA);
    }
}

/// Prepares cuBLAS on all GPUs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_cublas_init() {
    unsafe extern "C" fn prepare(_: *mut c_void) {
        starpu_cublas_set_stream();
        if function::<Create>(BLAS.create).is_some() {
            BLAS_HANDLE.with(|handle| BLAS.local(handle));
        }
    }
    if needed("starpu_cublas_init").is_some() {
        on_gpus(prepare);
    }
}

/// Lets the calls of cuBLAS without a handle go to the stream of the calling worker's GPU.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_cublas_set_stream() {
    if gpus::node_here() > 0
        && let Some(set) = function::<Destroy>(c"cublasSetKernelStream")
    {
        set(starpu_cuda_get_local_stream());
    }
}

/// Returns the calling worker's handle of cuBLAS; null elsewhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_cublas_get_local_handle() -> *mut c_void {
    BLAS_HANDLE.with(|handle| BLAS.local(handle))
}

/// Ends the use of cuBLAS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_cublas_shutdown() {
    unsafe extern "C" fn end(_: *mut c_void) {
        BLAS_HANDLE.with(|handle| BLAS.destroy(handle));
    }
    on_gpus(end);
}

/// Prepares cuSPARSE on all GPUs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_cusparse_init() {
    unsafe extern "C" fn prepare(_: *mut c_void) {
        if function::<Create>(SPARSE.create).is_some() {
            SPARSE_HANDLE.with(|handle| SPARSE.local(handle));
        }
    }
    if needed("starpu_cusparse_init").is_some() {
        on_gpus(prepare);
    }
}

/// Returns the calling worker's handle of cuSPARSE; null elsewhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_cusparse_get_local_handle() -> *mut c_void {
    SPARSE_HANDLE.with(|handle| SPARSE.local(handle))
}

/// Ends the use of cuSPARSE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_cusparse_shutdown() {
    unsafe extern "C" fn end(_: *mut c_void) {
        SPARSE_HANDLE.with(|handle| SPARSE.destroy(handle));
    }
    on_gpus(end);
}

/// Reports an error of cuBLAS and ends the program.
///
/// # Safety
/// The texts are strings of C or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_cublas_report_error(
    function: *const std::ffi::c_char,
    file: *const std::ffi::c_char,
    line: c_int,
    status: c_int,
) {
    report("cuBLAS", function, file, line, status);
}

/// Reports an error of CUDA and ends the program.
///
/// # Safety
/// The texts are strings of C or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_cuda_report_error(
    function: *const std::ffi::c_char,
    file: *const std::ffi::c_char,
    line: c_int,
    status: c_int,
) {
    report("CUDA", function, file, line, status);
}

unsafe fn report(
    library: &str,
    function: *const std::ffi::c_char,
    file: *const std::ffi::c_char,
    line: c_int,
    status: c_int,
) -> ! {
    let text = |at: *const std::ffi::c_char| {
        if at.is_null() { "?".into() } else { CStr::from_ptr(at).to_string_lossy() }
    };
    complain(format_args!("{} at {}:{line}: status {status} from {library}", text(function), text(file)));
    std::process::abort()
}
