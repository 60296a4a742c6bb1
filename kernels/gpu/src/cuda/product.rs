//! Products through cuBLAS.

use std::ffi::{c_int, c_void};
use std::ptr;

use cudarc::cublas::sys::{
    self, cublasComputeType_t as Sum, cublasPointerMode_t as Mode, cublasStatus_t, cudaDataType_t as Kind,
};
use cudarc::driver;
use half::f16;

use super::Cuda;
use super::blas::{check_status, operation, pointer};
use super::error::refused;
use super::gpu::Gpu;
use super::stream::Queue;
use crate::call::{BatchedGemm, Compute, Element, Factors, Gemm};
use crate::driver::{Address, Stream};
use crate::error::GpuError;
use crate::info::Library;

/// Returns cuBLAS's constant for a number type.
fn kind(element: Element) -> Kind {
    match element {
        Element::F64 => Kind::CUDA_R_64F,
        Element::F32 => Kind::CUDA_R_32F,
        Element::F16 => Kind::CUDA_R_16F,
        Element::BF16 => Kind::CUDA_R_16BF,
        Element::F8E4M3 => Kind::CUDA_R_8F_E4M3,
    }
}

/// Returns cuBLAS's constant for the precision of the sums. Plain `32F` never rounds f32 operands
/// (that is `32F_FAST_TF32`), and uses tensor cores for 16 bits.
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

/// While it lives, a handle takes factors from device memory. All other calls rely on it to take
/// them from the host.
struct InDeviceMemory(sys::cublasHandle_t);

impl InDeviceMemory {
    fn new(gpu: u32, handle: sys::cublasHandle_t) -> Result<InDeviceMemory, GpuError> {
        // SAFETY: the handle is alive, and its stream's lock is held.
        let status = unsafe { sys::cublasSetPointerMode_v2(handle, Mode::CUBLAS_POINTER_MODE_DEVICE) };
        check_status(gpu, "cublasSetPointerMode", status)?;
        Ok(InDeviceMemory(handle))
    }
}

impl Drop for InDeviceMemory {
    fn drop(&mut self) {
        // SAFETY: the handle is alive, and its stream's lock is held until after this. It is
        // refused only for what is no handle.
        let _ = unsafe { sys::cublasSetPointerMode_v2(self.0, Mode::CUBLAS_POINTER_MODE_HOST) };
    }
}

/// Calls with pointers to the factors of a product, as the handle takes them during the call.
fn with_factors(
    gpu: u32,
    handle: sys::cublasHandle_t,
    gemm: &Gemm,
    name: &'static str,
    call: impl FnOnce(*const c_void, *const c_void) -> cublasStatus_t,
) -> Result<(), GpuError> {
    let status = match gemm.factors {
        Factors::Host { alpha, beta } => {
            let (alpha, beta) = (Factor::new(gemm.compute, alpha), Factor::new(gemm.compute, beta));
            call(alpha.pointer(), beta.pointer())
        }
        Factors::Device(at) => {
            let _mode = InDeviceMemory::new(gpu, handle)?;
            call(pointer(at), pointer(at.offset(4)))
        }
    };
    check_status(gpu, name, status)
}

impl Cuda {
    /// # Safety
    /// As the trait says.
    pub(super) unsafe fn multiply(&self, stream: Stream, gemm: &Gemm) -> Result<(), GpuError> {
        const CALL: &str = "cublasGemmEx";
        self.needs(Library::Cublas)?;
        let (queue, gpu) = self.queue(stream, CALL)?;
        gemm.check().map_err(|reason| refused(queue.gpu, CALL, reason))?;
        self.has_product(queue.gpu, CALL, gemm)?;
        if gemm.m == 0 || gemm.n == 0 {
            return Ok(());
        }
        let mut handles = queue.handles.lock();
        let handle = self.blas(&queue, gpu, &mut handles)?;
        // SAFETY: the handle is alive, factors are where it looks for them, sizes were checked to
        // fit an int, and the matrices are the caller's promise.
        let call = |alpha, beta| unsafe {
            sys::cublasGemmEx(
                handle,
                operation(gemm.op_a),
                operation(gemm.op_b),
                gemm.m as c_int,
                gemm.n as c_int,
                gemm.k as c_int,
                alpha,
                pointer(gemm.a.at),
                kind(gemm.a.element),
                gemm.a.ld as c_int,
                pointer(gemm.b.at),
                kind(gemm.b.element),
                gemm.b.ld as c_int,
                beta,
                pointer(gemm.c.at),
                kind(gemm.c.element),
                gemm.c.ld as c_int,
                sum(gemm.compute),
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        };
        with_factors(queue.gpu, handle, gemm, CALL, call)
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
        self.has_product(queue.gpu, CALL, gemm)?;
        if batch.at.is_empty() || gemm.m == 0 || gemm.n == 0 {
            return Ok(());
        }
        if let Some(strides) = strides(batch) {
            // SAFETY: as the caller promises.
            return unsafe { self.multiply_strided(&queue, gpu, batch, strides) };
        }
        // Its three lists of addresses are copied to the device from here, and a captured graph
        // would repeat the copy at each launch.
        self.refuse_capture(&queue, CALL)?;
        let lists: Vec<u64> = (0..3).flat_map(|i| batch.at.iter().map(move |at| at[i].0)).collect();
        let bytes = size_of_val(lists.as_slice());
        let at = self.take(&queue, gpu, bytes as u64)?;
        // SAFETY: so many bytes were allocated just now, on this stream; the host's are pageable
        // and so copied before the call returns.
        let copied =
            unsafe { driver::sys::cuMemcpyHtoDAsync_v2(at, lists.as_ptr().cast(), bytes, queue.stream) };
        let list = |i: usize| Address(at + (i * bytes / 3) as u64);
        let done = self.check_status(queue.gpu, "cuMemcpyHtoDAsync", copied).and_then(|()| {
            let mut handles = queue.handles.lock();
            let handle = self.blas(&queue, gpu, &mut handles)?;
            // SAFETY: as in `multiply`; the lists are there before the product, in the order of the
            // stream.
            let call = |alpha, beta| unsafe {
                sys::cublasGemmBatchedEx(
                    handle,
                    operation(gemm.op_a),
                    operation(gemm.op_b),
                    gemm.m as c_int,
                    gemm.n as c_int,
                    gemm.k as c_int,
                    alpha,
                    pointer::<*const c_void>(list(0)),
                    kind(gemm.a.element),
                    gemm.a.ld as c_int,
                    pointer::<*const c_void>(list(1)),
                    kind(gemm.b.element),
                    gemm.b.ld as c_int,
                    beta,
                    pointer::<*mut c_void>(list(2)),
                    kind(gemm.c.element),
                    gemm.c.ld as c_int,
                    batch.at.len() as c_int,
                    sum(gemm.compute),
                    sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
                )
            };
            with_factors(queue.gpu, handle, gemm, CALL, call)
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
        // SAFETY: as in `multiply`; the addresses are those of the batch.
        let call = |alpha, beta| unsafe {
            sys::cublasGemmStridedBatchedEx(
                handle,
                operation(gemm.op_a),
                operation(gemm.op_b),
                gemm.m as c_int,
                gemm.n as c_int,
                gemm.k as c_int,
                alpha,
                pointer(gemm.a.at),
                kind(gemm.a.element),
                gemm.a.ld as c_int,
                a,
                pointer(gemm.b.at),
                kind(gemm.b.element),
                gemm.b.ld as c_int,
                b,
                beta,
                pointer(gemm.c.at),
                kind(gemm.c.element),
                gemm.c.ld as c_int,
                c,
                batch.at.len() as c_int,
                sum(gemm.compute),
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        };
        with_factors(queue.gpu, handle, &gemm, "cublasGemmStridedBatchedEx", call)
    }
}

/// Returns the strides in entries from one product's A, B and C to the next ones, if they are
/// evenly spaced in ascending order.
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
    use crate::call::{Matrix, Transpose};

    #[test]
    fn evenly_spaced_batches_are_seen() {
        let matrix = |element| Matrix { at: Address(0), ld: 4, element };
        let shape = Gemm {
            op_a: Transpose::No,
            op_b: Transpose::No,
            m: 4,
            n: 4,
            k: 4,
            factors: Factors::Host { alpha: 1.0, beta: 0.0 },
            a: matrix(Element::F16),
            b: matrix(Element::F16),
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
