//! Products, solves and updates through cuBLAS.

use std::ffi::{c_int, c_void};
use std::ptr;

use cudarc::cublas::sys::{self, cublasComputeType_t as Sum, cublasStatus_t, cudaDataType_t as Kind};
use cudarc::driver;
use half::f16;

use super::Cuda;
use super::error::refused;
use super::gpu::Gpu;
use super::stream::{Handles, Queue, Workspace};
use crate::call::{BatchedGemm, Compute, Element, Gemm, Side, Syrk, Transpose, Trsm};
use crate::driver::{Address, Stream};
use crate::error::GpuError;
use crate::info::Library;

/// What cuBLAS asks for where it is to have all its kernels (its documentation, `cublasSetWorkspace`).
const WORKSPACE: usize = 4 << 20;
/// The same from compute capability 9 on.
const LARGE_WORKSPACE: usize = 32 << 20;

/// A stream's handle.
#[derive(Debug)]
pub(super) struct Blas(sys::cublasHandle_t);

impl Drop for Blas {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once; its stream is alive and its context current (`Queue::drop`).
        let _ = unsafe { sys::cublasDestroy_v2(self.0) };
    }
}

fn told(gpu: u32, call: &'static str, status: cublasStatus_t) -> Result<(), GpuError> {
    match status {
        cublasStatus_t::CUBLAS_STATUS_SUCCESS => Ok(()),
        status => Err(refused(gpu, call, format!("{status:?}"))),
    }
}

/// What a number is to cuBLAS.
fn kind(element: Element) -> Kind {
    match element {
        Element::F64 => Kind::CUDA_R_64F,
        Element::F32 => Kind::CUDA_R_32F,
        Element::F16 => Kind::CUDA_R_16F,
        Element::BF16 => Kind::CUDA_R_16BF,
        Element::F8E4M3 => Kind::CUDA_R_8F_E4M3,
    }
}

fn operation(op: Transpose) -> sys::cublasOperation_t {
    match op {
        Transpose::No => sys::cublasOperation_t::CUBLAS_OP_N,
        Transpose::Yes => sys::cublasOperation_t::CUBLAS_OP_T,
    }
}

/// In what a product is summed. Plain `32F` never rounds f32 operands (that is `32F_FAST_TF32`), and uses tensor cores for 16 bits.
fn sum(compute: Compute) -> Sum {
    match compute {
        Compute::F64 => Sum::CUBLAS_COMPUTE_64F,
        Compute::F32 => Sum::CUBLAS_COMPUTE_32F,
        Compute::Tf32 => Sum::CUBLAS_COMPUTE_32F_FAST_TF32,
        Compute::F16 => Sum::CUBLAS_COMPUTE_16F,
    }
}

/// A factor, in the type in which the product is summed.
enum Factor {
    F64(f64),
    F32(f32),
    F16(f16),
}

impl Factor {
    fn new(compute: Compute, x: f64) -> Factor {
        match compute {
            Compute::F64 => Factor::F64(x),
            Compute::F32 | Compute::Tf32 => Factor::F32(x as f32),
            Compute::F16 => Factor::F16(f16::from_f64(x)),
        }
    }

    fn pointer(&self) -> *const c_void {
        match self {
            Factor::F64(x) => ptr::from_ref(x).cast(),
            Factor::F32(x) => ptr::from_ref(x).cast(),
            Factor::F16(x) => ptr::from_ref(x).cast(),
        }
    }
}

/// Device memory as libraries take it.
fn pointer<T>(at: Address) -> *mut T {
    ptr::without_provenance_mut(at.0 as usize)
}

impl Cuda {
    /// Makes what a stream's library routines need, as far as the libraries are there.
    pub(super) fn make_handles(&self, queue: &Queue) -> Result<(), GpuError> {
        let gpu = self.enter(queue.gpu)?;
        let mut handles = queue.handles.lock();
        if self.needs(Library::Cublas).is_ok() {
            self.blas(queue, gpu, &mut handles)?;
        }
        if self.needs(Library::CublasLt).is_ok() {
            self.light(queue, &mut handles)?;
            self.workspace(queue, gpu, &mut handles)?;
        }
        if self.needs(Library::Cusolver).is_ok() {
            self.solver(queue, &mut handles)?;
        }
        Ok(())
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
        let large = self.infos[queue.gpu as usize].compute_capability.0 >= 9;
        let bytes = if large { LARGE_WORKSPACE } else { WORKSPACE };
        let at = self.take(queue, gpu, bytes as u64)?;
        handles.workspace = Some(Workspace { at, bytes, pooled: gpu.pool.is_some() });
        Ok((at, bytes))
    }

    /// The stream's handle, ready for its stream.
    fn blas(&self, queue: &Queue, gpu: &Gpu, handles: &mut Handles) -> Result<sys::cublasHandle_t, GpuError> {
        self.needs(Library::Cublas)?;
        if let Some(blas) = &handles.blas {
            return Ok(blas.0);
        }
        self.refuse_first(queue, "cublasCreate")?;
        let (at, bytes) = self.workspace(queue, gpu, handles)?;
        let mut handle = ptr::null_mut();
        // SAFETY: the library is there and the GPU's context current; writes one handle.
        told(queue.gpu, "cublasCreate", unsafe { sys::cublasCreate_v2(&mut handle) })?;
        let blas = Blas(handle);
        // SAFETY: handle and stream are alive.
        let status = unsafe { sys::cublasSetStream_v2(handle, queue.stream.cast()) };
        told(queue.gpu, "cublasSetStream", status)?;
        // After the stream: setting that puts the library's own workspace back.
        // SAFETY: the workspace is the stream's own and freed after the handle.
        let status = unsafe { sys::cublasSetWorkspace_v2(handle, pointer(Address(at)), bytes) };
        told(queue.gpu, "cublasSetWorkspace", status)?;
        // Partial sums of products with a 16-bit C are to stay in what sums are held in.
        let exact = sys::cublasMath_t::CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
        // SAFETY: the handle is alive.
        told(queue.gpu, "cublasSetMathMode", unsafe { sys::cublasSetMathMode(handle, exact) })?;
        Ok(handles.blas.insert(blas).0)
    }

    /// # Safety
    /// As the trait says.
    pub(super) unsafe fn multiply(&self, stream: Stream, gemm: &Gemm) -> Result<(), GpuError> {
        const CALL: &str = "cublasGemmEx";
        self.needs(Library::Cublas)?;
        let (queue, gpu) = self.queue(stream, CALL)?;
        gemm.check().map_err(|reason| refused(queue.gpu, CALL, reason))?;
        if gemm.m == 0 || gemm.n == 0 {
            return Ok(());
        }
        let mut handles = queue.handles.lock();
        let handle = self.blas(&queue, gpu, &mut handles)?;
        let (alpha, beta) = (Factor::new(gemm.compute, gemm.alpha), Factor::new(gemm.compute, gemm.beta));
        // SAFETY: the handle is alive, factors are read during the call, sizes were checked to fit an int, and the matrices are the
        // caller's promise.
        let status = unsafe {
            sys::cublasGemmEx(
                handle,
                operation(gemm.op_a),
                operation(gemm.op_b),
                gemm.m as c_int,
                gemm.n as c_int,
                gemm.k as c_int,
                alpha.pointer(),
                pointer(gemm.a.at),
                kind(gemm.a.element),
                gemm.a.ld as c_int,
                pointer(gemm.b.at),
                kind(gemm.b.element),
                gemm.b.ld as c_int,
                beta.pointer(),
                pointer(gemm.c.at),
                kind(gemm.c.element),
                gemm.c.ld as c_int,
                sum(gemm.compute),
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        };
        told(queue.gpu, CALL, status)
    }

    /// # Safety
    /// As the trait says.
    pub(super) unsafe fn multiply_batch(
        &self,
        stream: Stream,
        batch: &BatchedGemm<'_>,
    ) -> Result<(), GpuError> {
        const CALL: &str = "cublasGemmBatchedEx";
        self.needs(Library::Cublas)?;
        let (queue, gpu) = self.queue(stream, CALL)?;
        batch.check().map_err(|reason| refused(queue.gpu, CALL, reason))?;
        let gemm = &batch.shape;
        if batch.at.is_empty() || gemm.m == 0 || gemm.n == 0 {
            return Ok(());
        }
        if let Some(strides) = strides(batch) {
            // SAFETY: as the caller promises.
            return unsafe { self.multiply_strided(&queue, gpu, batch, strides) };
        }
        // Its three lists of addresses go to the device by a copy from here, which a recording would make again at each launch.
        self.refuse_capture(&queue, CALL)?;
        let lists: Vec<u64> = (0..3).flat_map(|i| batch.at.iter().map(move |at| at[i].0)).collect();
        let bytes = size_of_val(lists.as_slice());
        let at = self.take(&queue, gpu, bytes as u64)?;
        // SAFETY: so many bytes were allocated just now, on this stream; the host's are pageable and so copied before the call returns.
        let copied =
            unsafe { driver::sys::cuMemcpyHtoDAsync_v2(at, lists.as_ptr().cast(), bytes, queue.stream) };
        let list = |i: usize| Address(at + (i * bytes / 3) as u64);
        let done = self.told(queue.gpu, "cuMemcpyHtoDAsync", copied).and_then(|()| {
            let mut handles = queue.handles.lock();
            let handle = self.blas(&queue, gpu, &mut handles)?;
            let (alpha, beta) = (Factor::new(gemm.compute, gemm.alpha), Factor::new(gemm.compute, gemm.beta));
            // SAFETY: as in `multiply`; the lists are there before the product, in the order of the stream.
            let status = unsafe {
                sys::cublasGemmBatchedEx(
                    handle,
                    operation(gemm.op_a),
                    operation(gemm.op_b),
                    gemm.m as c_int,
                    gemm.n as c_int,
                    gemm.k as c_int,
                    alpha.pointer(),
                    pointer::<*const c_void>(list(0)),
                    kind(gemm.a.element),
                    gemm.a.ld as c_int,
                    pointer::<*const c_void>(list(1)),
                    kind(gemm.b.element),
                    gemm.b.ld as c_int,
                    beta.pointer(),
                    pointer::<*mut c_void>(list(2)),
                    kind(gemm.c.element),
                    gemm.c.ld as c_int,
                    batch.at.len() as c_int,
                    sum(gemm.compute),
                    sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
                )
            };
            told(queue.gpu, CALL, status)
        });
        // SAFETY: allocated above; what uses it is before this on the stream.
        let freed = unsafe { self.give(&queue, gpu, at) };
        done.and(freed)
    }

    /// # Safety
    /// As the trait says.
    unsafe fn multiply_strided(
        &self,
        queue: &Queue,
        gpu: &Gpu,
        batch: &BatchedGemm<'_>,
        [a, b, c]: [i64; 3],
    ) -> Result<(), GpuError> {
        let gemm = batch.product(batch.at[0]);
        let mut handles = queue.handles.lock();
        let handle = self.blas(queue, gpu, &mut handles)?;
        let (alpha, beta) = (Factor::new(gemm.compute, gemm.alpha), Factor::new(gemm.compute, gemm.beta));
        // SAFETY: as in `multiply`; the addresses are those of the batch.
        let status = unsafe {
            sys::cublasGemmStridedBatchedEx(
                handle,
                operation(gemm.op_a),
                operation(gemm.op_b),
                gemm.m as c_int,
                gemm.n as c_int,
                gemm.k as c_int,
                alpha.pointer(),
                pointer(gemm.a.at),
                kind(gemm.a.element),
                gemm.a.ld as c_int,
                a,
                pointer(gemm.b.at),
                kind(gemm.b.element),
                gemm.b.ld as c_int,
                b,
                beta.pointer(),
                pointer(gemm.c.at),
                kind(gemm.c.element),
                gemm.c.ld as c_int,
                c,
                batch.at.len() as c_int,
                sum(gemm.compute),
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        };
        told(queue.gpu, "cublasGemmStridedBatchedEx", status)
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
        // SAFETY: as in `multiply`; both matrices are of the type of the call.
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
        told(queue.gpu, CALL, status)
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
        // SAFETY: as in `multiply`; both matrices are of the type of the call.
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
        told(queue.gpu, CALL, status)
    }
}

/// Entries from one product's A, B and C to the next ones, where they lie evenly spaced, in ascending order.
fn strides(batch: &BatchedGemm<'_>) -> Option<[i64; 3]> {
    let sizes = [batch.shape.a, batch.shape.b, batch.shape.c].map(|matrix| matrix.element.bytes());
    let mut strides = [0; 3];
    for (i, (stride, size)) in strides.iter_mut().zip(sizes).enumerate() {
        let steps = batch.at.windows(2).map(|pair| pair[1][i].0.checked_sub(pair[0][i].0));
        let first = steps.clone().next().unwrap_or(Some(0))?;
        if !first.is_multiple_of(size) || steps.clone().any(|step| step != Some(first)) {
            return None;
        }
        *stride = i64::try_from(first / size).ok()?;
    }
    Some(strides)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Matrix;

    #[test]
    fn evenly_spaced_batches_are_seen() {
        let matrix = |element| Matrix { at: Address(0), ld: 4, element };
        let shape = Gemm {
            op_a: Transpose::No,
            op_b: Transpose::No,
            m: 4,
            n: 4,
            k: 4,
            alpha: 1.0,
            a: matrix(Element::F16),
            b: matrix(Element::F16),
            beta: 0.0,
            c: matrix(Element::F32),
            compute: Compute::F32,
        };
        let at = |a: u64, b: u64, c: u64| [Address(a), Address(b), Address(c)];
        let of = |at: &[[Address; 3]]| strides(&BatchedGemm { shape, at });
        assert_eq!(of(&[at(256, 512, 1024)]), Some([0, 0, 0]));
        let even = [at(0, 512, 1024), at(32, 512, 1088), at(64, 512, 1152)];
        assert_eq!(of(&even), Some([16, 0, 16])); // B is one for all
        let uneven = [at(0, 512, 1024), at(32, 512, 1088), at(65, 512, 1152)];
        assert_eq!(of(&uneven), None);
        let backwards = [at(64, 512, 1024), at(32, 512, 1088)];
        assert_eq!(of(&backwards), None);
        assert_eq!(of(&[at(0, 0, 0), at(1, 0, 0)]), None);
    }
}
