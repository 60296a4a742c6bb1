//! Cholesky factorisations through cuSOLVER.

use std::ffi::c_int;
use std::ptr;

use cudarc::cusolver::sys::{self, cublasFillMode_t, cusolverStatus_t};
use cudarc::driver;

use super::Cuda;
use super::error::refused;
use super::gpu::Gpu;
use super::stream::{Handles, Queue};
use crate::call::{Element, Matrix, Potrf};
use crate::driver::{Address, Stream};
use crate::error::GpuError;
use crate::info::Library;

/// A stream's handle.
#[derive(Debug)]
pub(super) struct Solver(sys::cusolverDnHandle_t);

impl Drop for Solver {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; its context current (`Gpu::drop`).
        let _ = unsafe { sys::cusolverDnDestroy(self.0) };
    }
}

/// The largest order whose entries an `int` counts. Larger matrices take the 64-bit calls, which
/// also need working space on the host. Tiles do not: calls with ints never wait, and can be
/// captured.
const MOST_BY_INTS: u32 = 46_340;

/// Parameters of the 64-bit calls: the defaults.
#[derive(Debug)]
struct Params(sys::cusolverDnParams_t);

impl Params {
    /// The library has to be there.
    fn new(gpu: u32) -> Result<Self, GpuError> {
        let mut params = ptr::null_mut();
        // SAFETY: the library is there; writes one handle.
        check_status(gpu, "cusolverDnCreateParams", unsafe { sys::cusolverDnCreateParams(&mut params) })?;
        Ok(Params(params))
    }
}

impl Drop for Params {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once.
        let _ = unsafe { sys::cusolverDnDestroyParams(self.0) };
    }
}

const LOWER: cublasFillMode_t = cublasFillMode_t::CUBLAS_FILL_MODE_LOWER;

fn check_status(gpu: u32, call: &'static str, status: cusolverStatus_t) -> Result<(), GpuError> {
    match status {
        cusolverStatus_t::CUSOLVER_STATUS_SUCCESS => Ok(()),
        status => Err(refused(gpu, call, format!("{status:?}"))),
    }
}

fn pointer<T>(at: Address) -> *mut T {
    ptr::without_provenance_mut(at.0 as usize)
}

impl Cuda {
    /// The stream's handle.
    pub(super) fn solver(
        &self,
        queue: &Queue,
        gpu: &Gpu,
        handles: &mut Handles,
    ) -> Result<sys::cusolverDnHandle_t, GpuError> {
        self.needs(Library::Cusolver)?;
        if let Some(solver) = &handles.solver {
            return Ok(solver.0);
        }
        self.refuse_first(queue, "cusolverDnCreate")?;
        let spare = gpu.spare.lock().iter_mut().find_map(|spare| spare.solver.take());
        let solver = match spare {
            Some(solver) => solver,
            None => {
                let mut handle = ptr::null_mut();
                // SAFETY: the library is there and the GPU's context current; writes one handle.
                check_status(queue.gpu, "cusolverDnCreate", unsafe { sys::cusolverDnCreate(&mut handle) })?;
                Solver(handle)
            }
        };
        let handle = solver.0;
        // SAFETY: handle and stream are alive.
        let status = unsafe { sys::cusolverDnSetStream(handle, queue.stream.cast()) };
        check_status(queue.gpu, "cusolverDnSetStream", status)?;
        self.used.lock().insert(Library::Cusolver);
        Ok(handles.solver.insert(solver).0)
    }

    /// Bytes of working space of a factorisation.
    pub(super) fn factor_space(&self, stream: Stream, n: u32, element: Element) -> Result<u64, GpuError> {
        const CALL: &str = "cusolverDnPotrf_bufferSize";
        self.needs(Library::Cusolver)?;
        let (queue, gpu) = self.queue(stream, CALL)?;
        let order =
            c_int::try_from(n).map_err(|_| refused(queue.gpu, CALL, format!("order {n} is too large")))?;
        if !matches!(element, Element::F32 | Element::F64) {
            return Err(refused(
                queue.gpu,
                CALL,
                format!("{element:?} is not factorised: f32 or f64 is needed"),
            ));
        }
        if n == 0 {
            return Ok(element.bytes()); // nothing is done; an allocation is not empty
        }
        let mut handles = queue.handles.lock();
        let handle = self.solver(&queue, gpu, &mut handles)?;
        if n > MOST_BY_INTS {
            let params = Params::new(queue.gpu)?;
            let a = Matrix { at: Address::default(), ld: n, element };
            return Ok((wide_space(queue.gpu, handle, &params, n, a)?.0 as u64).max(1));
        }
        let mut entries = 0;
        // SAFETY: the handle is alive; the matrix is not looked at; writes one int.
        let status = unsafe {
            if element == Element::F64 {
                sys::cusolverDnDpotrf_bufferSize(handle, LOWER, order, ptr::null_mut(), order, &mut entries)
            } else {
                sys::cusolverDnSpotrf_bufferSize(handle, LOWER, order, ptr::null_mut(), order, &mut entries)
            }
        };
        check_status(queue.gpu, CALL, status)?;
        // The result counts numbers, not bytes.
        Ok(u64::from(entries.max(1).unsigned_abs()) * element.bytes())
    }

    /// # Safety
    /// As the trait says.
    pub(super) unsafe fn factor(&self, stream: Stream, potrf: &Potrf) -> Result<(), GpuError> {
        const CALL: &str = "cusolverDnPotrf";
        self.needs(Library::Cusolver)?;
        let (queue, gpu) = self.queue(stream, CALL)?;
        // The caller has queried the required size; cuSOLVER checks it again.
        potrf.check(1).map_err(|reason| refused(queue.gpu, CALL, reason))?;
        if potrf.n == 0 {
            // SAFETY: an int, the caller's promise.
            let result = unsafe { driver::sys::cuMemsetD8Async(potrf.info.0, 0, 4, queue.stream) };
            return self.check_status(queue.gpu, "cuMemsetD8Async", result);
        }
        let mut handles = queue.handles.lock();
        let handle = self.solver(&queue, gpu, &mut handles)?;
        if potrf.n > MOST_BY_INTS {
            // SAFETY: the handle is alive, and the memory is the caller's promise.
            return unsafe { self.factor_wide(&queue, handle, potrf) };
        }
        let (n, ld) = (potrf.n as c_int, potrf.a.ld as c_int);
        let entries = potrf.workspace_bytes / potrf.a.element.bytes();
        let entries = c_int::try_from(entries).unwrap_or(c_int::MAX); // more than it can use is no mistake
        let (a, workspace, info) = (potrf.a.at, potrf.workspace, potrf.info);
        // SAFETY: the handle is alive, sizes were checked to fit an int, and the memory is the
        // caller's promise, all of the type of the call.
        let status = unsafe {
            if potrf.a.element == Element::F64 {
                sys::cusolverDnDpotrf(
                    handle,
                    LOWER,
                    n,
                    pointer(a),
                    ld,
                    pointer(workspace),
                    entries,
                    pointer(info),
                )
            } else {
                sys::cusolverDnSpotrf(
                    handle,
                    LOWER,
                    n,
                    pointer(a),
                    ld,
                    pointer(workspace),
                    entries,
                    pointer(info),
                )
            }
        };
        check_status(queue.gpu, CALL, status)
    }

    /// Factorizes by the 64-bit calls. If they need working space on the host, it has to live until
    /// the stream has ended, so this call waits for it.
    ///
    /// # Safety
    /// As for the trait; the handle is the stream's, and alive.
    unsafe fn factor_wide(
        &self,
        queue: &Queue,
        handle: sys::cusolverDnHandle_t,
        potrf: &Potrf,
    ) -> Result<(), GpuError> {
        const CALL: &str = "cusolverDnXpotrf";
        let params = Params::new(queue.gpu)?;
        let (needed, on_host) = wide_space(queue.gpu, handle, &params, potrf.n, potrf.a)?;
        potrf.check(needed as u64).map_err(|reason| refused(queue.gpu, CALL, reason))?;
        if on_host > 0 {
            self.refuse_capture(queue, CALL)?; // nobody can wait for what is recorded
        }
        let mut host = vec![0u64; on_host.div_ceil(8)]; // aligned as any number is
        let number = kind(potrf.a.element);
        // SAFETY: handle and params are alive, the space on the host has the requested size and
        // stays until the stream has ended, and the memory of the GPU is the caller's promise, all
        // of the type of the call.
        let status = unsafe {
            sys::cusolverDnXpotrf(
                handle,
                params.0,
                LOWER,
                potrf.n.into(),
                number,
                pointer(potrf.a.at),
                potrf.a.ld.into(),
                number,
                pointer(potrf.workspace),
                needed,
                host.as_mut_ptr().cast(),
                on_host,
                pointer(potrf.info),
            )
        };
        if on_host > 0 {
            // SAFETY: the stream is alive. Also after a refusal: part of it may be queued.
            let result = unsafe { driver::sys::cuStreamSynchronize(queue.stream) };
            self.check_status(queue.gpu, "cuStreamSynchronize", result)?;
        }
        check_status(queue.gpu, CALL, status)
    }
}

/// Returns the bytes of working space of the 64-bit calls: on the GPU, and on the host. The matrix
/// is not read.
fn wide_space(
    gpu: u32,
    handle: sys::cusolverDnHandle_t,
    params: &Params,
    n: u32,
    a: Matrix,
) -> Result<(usize, usize), GpuError> {
    let number = kind(a.element);
    let (mut on_gpu, mut on_host) = (0, 0);
    // SAFETY: handle and params are alive; writes two numbers.
    let status = unsafe {
        sys::cusolverDnXpotrf_bufferSize(
            handle,
            params.0,
            LOWER,
            n.into(),
            number,
            pointer(a.at),
            a.ld.into(),
            number,
            &mut on_gpu,
            &mut on_host,
        )
    };
    check_status(gpu, "cusolverDnXpotrf_bufferSize", status).map(|()| (on_gpu, on_host))
}

fn kind(element: Element) -> sys::cudaDataType {
    if element == Element::F64 { sys::cudaDataType::CUDA_R_64F } else { sys::cudaDataType::CUDA_R_32F }
}
