//! Handles of cuBLAS and cuSPARSE for the workers of GPUs.
//!
//! A program that calls these libraries is linked with them, so their functions are looked up in
//! the process. Each worker of a GPU gets handles on its stream.

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::thread::LocalKey;

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
    /// The calling worker's handle.
    handle: &'static LocalKey<Cell<*mut c_void>>,
}

static BLAS: Library = Library {
    name: "cuBLAS",
    create: c"cublasCreate_v2",
    set_stream: c"cublasSetStream_v2",
    destroy: c"cublasDestroy_v2",
    handle: &BLAS_HANDLE,
};
static SPARSE: Library = Library {
    name: "cuSPARSE",
    create: c"cusparseCreate",
    set_stream: c"cusparseSetStream",
    destroy: c"cusparseDestroy",
    handle: &SPARSE_HANDLE,
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
    unsafe fn local(&self) -> *mut c_void {
        if gpus::node_here() > 0 && self.handle.get().is_null() {
            self.handle.set(self.create());
        }
        self.handle.get()
    }

    /// Creates the handles of all GPUs, if the program has the library.
    unsafe fn prepare(&'static self) {
        unsafe extern "C" fn prepare(library: *mut c_void) {
            (*library.cast::<Library>()).local();
        }
        if function::<Create>(self.create).is_some() {
            self.on_gpus(prepare);
        }
    }

    /// Destroys the handles of all GPUs.
    unsafe fn end(&'static self) {
        unsafe extern "C" fn end(library: *mut c_void) {
            let library = &*library.cast::<Library>();
            let handle = library.handle.replace(ptr::null_mut());
            if !handle.is_null()
                && let Some(destroy) = function::<Destroy>(library.destroy)
            {
                destroy(handle);
            }
        }
        self.on_gpus(end);
    }

    /// Calls a function with this on the workers of all GPUs, and waits.
    unsafe fn on_gpus(&'static self, function: unsafe extern "C" fn(*mut c_void)) {
        if gpus::is_any() {
            let library = ptr::from_ref(self).cast_mut().cast();
            crate::extras::starpu_execute_on_each_worker(Some(function), library, STARPU_CUDA);
        }
    }
}

/// Prepares cuBLAS on all GPUs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_cublas_init() {
    unsafe extern "C" fn set_stream(_: *mut c_void) {
        starpu_cublas_set_stream();
    }
    if needed("starpu_cublas_init").is_some() {
        BLAS.on_gpus(set_stream);
        BLAS.prepare();
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
    BLAS.local()
}

/// Ends the use of cuBLAS.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_cublas_shutdown() {
    BLAS.end();
}

/// Prepares cuSPARSE on all GPUs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_cusparse_init() {
    if needed("starpu_cusparse_init").is_some() {
        SPARSE.prepare();
    }
}

/// Returns the calling worker's handle of cuSPARSE; null elsewhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_cusparse_get_local_handle() -> *mut c_void {
    SPARSE.local()
}

/// Ends the use of cuSPARSE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn starpu_cusparse_shutdown() {
    SPARSE.end();
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
