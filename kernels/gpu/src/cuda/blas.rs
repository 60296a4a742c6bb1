//! Solves and updates through cuBLAS, and the handles that products use too.

use std::ffi::c_int;
use std::ptr;

use cudarc::cublas::sys::{self, cublasStatus_t};

use super::Cuda;
use super::error::refused;
use super::gpu::Gpu;
use super::stream::{Handles, Queue, Workspace};
use crate::call::{Element, Side, Syrk, Transpose, Trsm};
use crate::driver::{Address, Stream};
use crate::error::GpuError;
use crate::info::Library;

/// Workspace that cuBLAS requires for all its kernels to be available (its documentation,
/// `cublasSetWorkspace`).
const WORKSPACE: usize = 4 << 20;
/// Workspace from compute capability 9 on.
const LARGE_WORKSPACE: usize = 32 << 20;

/// A stream's handle.
#[derive(Debug)]
pub(super) struct Blas(sys::cublasHandle_t);

impl Drop for Blas {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once, its context current (`Gpu::drop`).
        let _ = unsafe { sys::cublasDestroy_v2(self.0) };
    }
}

pub(super) fn check_status(gpu: u32, call: &'static str, status: cublasStatus_t) -> Result<(), GpuError> {
    match status {
        cublasStatus_t::CUBLAS_STATUS_SUCCESS => Ok(()),
        status => Err(refused(gpu, call, format!("{status:?}"))),
    }
}

pub(super) fn operation(op: Transpose) -> sys::cublasOperation_t {
    match op {
        Transpose::No => sys::cublasOperation_t::CUBLAS_OP_N,
        Transpose::Yes => sys::cublasOperation_t::CUBLAS_OP_T,
    }
}

/// Device memory as libraries take it.
pub(super) fn pointer<T>(at: Address) -> *mut T {
    ptr::without_provenance_mut(at.0 as usize)
}

impl Cuda {
    /// Creates the handles and workspace of a stream, for those libraries that are wanted and
    /// available.
    pub(super) fn make_handles(
        &self,
        queue: &Queue,
        wanted: impl Fn(Library) -> bool,
    ) -> Result<(), GpuError> {
        let gpu = self.enter(queue.gpu)?;
        let mut handles = queue.handles.lock();
        let is_there = |library| wanted(library) && self.needs(library).is_ok();
        if is_there(Library::Cublas) {
            self.blas(queue, gpu, &mut handles)?;
        }
        if is_there(Library::CublasLt) {
            self.light(queue, gpu, &mut handles)?;
            self.workspace(queue, gpu, &mut handles)?;
        }
        if is_there(Library::Cusolver) {
            self.solver(queue, gpu, &mut handles)?;
        }
        Ok(())
    }

    /// Bytes of the workspace of each stream on this GPU.
    pub(super) fn workspace_bytes(&self, gpu: u32) -> usize {
        match self.infos.get(gpu as usize) {
            None => 0,
            Some(info) if info.compute_capability.0 >= 9 => LARGE_WORKSPACE,
            Some(_) => WORKSPACE,
        }
    }

    /// The stream's workspace.
    pub(super) fn workspace(
        &self,
        queue: &Queue,
        gpu: &Gpu,
        handles: &mut Handles,
    ) -> Result<(u64, usize), GpuError> {
        if let Some(workspace) = &handles.workspace {
            return Ok((workspace.at, workspace.bytes));
        }
        self.refuse_first(queue, "cuMemAllocAsync")?;
        let bytes = self.workspace_bytes(queue.gpu);
        let at = self.take(queue, gpu, bytes as u64)?;
        handles.workspace = Some(Workspace { at, bytes, pooled: gpu.pool.is_some() });
        Ok((at, bytes))
    }

    /// The stream's handle, ready for its stream.
    pub(super) fn blas(
        &self,
        queue: &Queue,
        gpu: &Gpu,
        handles: &mut Handles,
    ) -> Result<sys::cublasHandle_t, GpuError> {
        self.needs(Library::Cublas)?;
        if let Some(blas) = &handles.blas {
            return Ok(blas.0);
        }
        self.refuse_first(queue, "cublasCreate")?;
        let (at, bytes) = self.workspace(queue, gpu, handles)?;
        let spare = gpu.spare.lock().iter_mut().find_map(|spare| spare.blas.take());
        let blas = match spare {
            Some(blas) => blas,
            None => {
                let mut handle = ptr::null_mut();
                // SAFETY: the library is there and the GPU's context current; writes one handle.
                check_status(queue.gpu, "cublasCreate", unsafe { sys::cublasCreate_v2(&mut handle) })?;
                Blas(handle)
            }
        };
        let handle = blas.0;
        // SAFETY: handle and stream are alive.
        let status = unsafe { sys::cublasSetStream_v2(handle, queue.stream.cast()) };
        check_status(queue.gpu, "cublasSetStream", status)?;
        // After the stream: setting that puts the library's own workspace back.
        // SAFETY: the workspace is the stream's own and freed after the handle.
        let status = unsafe { sys::cublasSetWorkspace_v2(handle, pointer(Address(at)), bytes) };
        check_status(queue.gpu, "cublasSetWorkspace", status)?;
        // Partial sums of products with a 16-bit C are to stay in what sums are held in.
        let exact = sys::cublasMath_t::CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
        // SAFETY: the handle is alive.
        check_status(queue.gpu, "cublasSetMathMode", unsafe { sys::cublasSetMathMode(handle, exact) })?;
        self.used.lock().insert(Library::Cublas);
        Ok(handles.blas.insert(blas).0)
    }

    /// # Safety
    /// As the trait says.
    pub(super) unsafe fn solve(&self, stream: Stream, trsm: &Trsm) -> Result<(), GpuError> {
        const CALL: &str = "cublasTrsm";
        self.needs(Library::Cublas)?;
        let (queue, gpu) = self.queue(stream, CALL)?;
        trsm.check().map_err(|reason| refused(queue.gpu, CALL, reason))?;
        if trsm.m == 0 || trsm.n == 0 {
            return Ok(());
        }
        let mut handles = queue.handles.lock();
        let handle = self.blas(&queue, gpu, &mut handles)?;
        let side = match trsm.side {
            Side::Left => sys::cublasSideMode_t::CUBLAS_SIDE_LEFT,
            Side::Right => sys::cublasSideMode_t::CUBLAS_SIDE_RIGHT,
        };
        let (m, n) = (trsm.m as c_int, trsm.n as c_int);
        let (l, b) = (trsm.l.ld as c_int, trsm.b.ld as c_int);
        let (lower, diagonal) =
            (sys::cublasFillMode_t::CUBLAS_FILL_MODE_LOWER, sys::cublasDiagType_t::CUBLAS_DIAG_NON_UNIT);
        let op = operation(trsm.op);
        let (at_l, at_b) = (trsm.l.at, trsm.b.at);
        // SAFETY: the handle is alive, sizes were checked to fit an int, both matrices are of the
        // type of the call, and they are the caller's promise.
        let status = unsafe {
            if trsm.l.element == Element::F64 {
                sys::cublasDtrsm_v2(
                    handle,
                    side,
                    lower,
                    op,
                    diagonal,
                    m,
                    n,
                    &1.0,
                    pointer(at_l),
                    l,
                    pointer(at_b),
                    b,
                )
            } else {
                sys::cublasStrsm_v2(
                    handle,
                    side,
                    lower,
                    op,
                    diagonal,
                    m,
                    n,
                    &1.0,
                    pointer(at_l),
                    l,
                    pointer(at_b),
                    b,
                )
            }
        };
        check_status(queue.gpu, CALL, status)
    }

    /// # Safety
    /// As the trait says.
    pub(super) unsafe fn update(&self, stream: Stream, syrk: &Syrk) -> Result<(), GpuError> {
        const CALL: &str = "cublasSyrk";
        self.needs(Library::Cublas)?;
        let (queue, gpu) = self.queue(stream, CALL)?;
        syrk.check().map_err(|reason| refused(queue.gpu, CALL, reason))?;
        if syrk.n == 0 {
            return Ok(());
        }
        let mut handles = queue.handles.lock();
        let handle = self.blas(&queue, gpu, &mut handles)?;
        let (n, k) = (syrk.n as c_int, syrk.k as c_int);
        let (a, c) = (syrk.a.ld as c_int, syrk.c.ld as c_int);
        let (lower, op) = (sys::cublasFillMode_t::CUBLAS_FILL_MODE_LOWER, operation(Transpose::No));
        let (at_a, at_c) = (syrk.a.at, syrk.c.at);
        // SAFETY: as in `solve`.
        let status = unsafe {
            if syrk.c.element == Element::F64 {
                let (alpha, beta) = (syrk.alpha, syrk.beta);
                sys::cublasDsyrk_v2(
                    handle,
                    lower,
                    op,
                    n,
                    k,
                    &alpha,
                    pointer(at_a),
                    a,
                    &beta,
                    pointer(at_c),
                    c,
                )
            } else {
                let (alpha, beta) = (syrk.alpha as f32, syrk.beta as f32);
                sys::cublasSsyrk_v2(
                    handle,
                    lower,
                    op,
                    n,
                    k,
                    &alpha,
                    pointer(at_a),
                    a,
                    &beta,
                    pointer(at_c),
                    c,
                )
            }
        };
        check_status(queue.gpu, CALL, status)
    }
}
