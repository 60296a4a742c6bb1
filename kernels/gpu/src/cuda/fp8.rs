//! Products of 8-bit operands, which cuBLASLt alone has.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ptr;

use cudarc::cublas::sys::cublasOperation_t;
use cudarc::cublaslt::sys::{
    self, cublasLtMatmulDescAttributes_t as Of, cublasLtMatmulHeuristicResult_t as Choice,
    cublasLtPointerMode_t as Mode, cublasStatus_t, cudaDataType_t as Kind,
};

use super::Cuda;
use super::error::refused;
use super::gpu::Gpu;
use super::stream::{Handles, Queue};
use crate::call::{Element, Factors, Gemm};
use crate::driver::{Address, Stream};
use crate::error::GpuError;
use crate::info::Library;

const CALL: &str = "cublasLtMatmul";

/// m, n, k, the three leading dimensions, what C is, and where factors are.
type Shape = ([u32; 6], Element, Mode);

/// A stream's handle, and which kernel was chosen for each shape: asking costs more than a small
/// product.
#[derive(Debug)]
pub(super) struct Light {
    handle: sys::cublasLtHandle_t,
    /// `None`: there is none.
    chosen: HashMap<Shape, Option<Choice>>,
}

impl Drop for Light {
    fn drop(&mut self) {
        // SAFETY: created once, destroyed once, its context current (`Gpu::drop`).
        let _ = unsafe { sys::cublasLtDestroy(self.handle) };
    }
}

/// Something that is destroyed at the end of the call.
struct Owned<T: Copy>(T, unsafe fn(T) -> cublasStatus_t);

impl<T: Copy> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: the function is the one that destroys what was created in `0`, called once.
        let _ = unsafe { (self.1)(self.0) };
    }
}

/// A product as cuBLASLt describes it.
struct Description {
    product: Owned<sys::cublasLtMatmulDesc_t>,
    a: Owned<sys::cublasLtMatrixLayout_t>,
    b: Owned<sys::cublasLtMatrixLayout_t>,
    c: Owned<sys::cublasLtMatrixLayout_t>,
}

fn check_status(gpu: u32, call: &'static str, status: cublasStatus_t) -> Result<(), GpuError> {
    match status {
        cublasStatus_t::CUBLAS_STATUS_SUCCESS => Ok(()),
        status => Err(refused(gpu, call, format!("{status:?}"))),
    }
}

fn kind(element: Element) -> Kind {
    match element {
        Element::F64 => Kind::CUDA_R_64F,
        Element::F32 => Kind::CUDA_R_32F,
        Element::F16 => Kind::CUDA_R_16F,
        Element::BF16 => Kind::CUDA_R_16BF,
        Element::F8E4M3 => Kind::CUDA_R_8F_E4M3,
    }
}

fn layout(
    gpu: u32,
    element: Element,
    rows: u32,
    columns: u32,
    ld: u32,
) -> Result<Owned<sys::cublasLtMatrixLayout_t>, GpuError> {
    let mut layout = ptr::null_mut();
    // SAFETY: writes one handle.
    let status = unsafe {
        sys::cublasLtMatrixLayoutCreate(&mut layout, kind(element), rows.into(), columns.into(), ld.into())
    };
    check_status(gpu, "cublasLtMatrixLayoutCreate", status)?;
    Ok(Owned(layout, sys::cublasLtMatrixLayoutDestroy))
}

impl Description {
    /// `C = alpha A^T B + beta C`, summed in f32, scales 1.
    fn new(gpu: u32, gemm: &Gemm, mode: Mode) -> Result<Description, GpuError> {
        let mut product = ptr::null_mut();
        let (sum, factor) = (sys::cublasComputeType_t::CUBLAS_COMPUTE_32F, Kind::CUDA_R_32F);
        // SAFETY: writes one handle.
        let status = unsafe { sys::cublasLtMatmulDescCreate(&mut product, sum, factor) };
        check_status(gpu, "cublasLtMatmulDescCreate", status)?;
        let product = Owned(product, sys::cublasLtMatmulDescDestroy as unsafe fn(_) -> _);
        // The default for B is not transposed.
        let transposed = cublasOperation_t::CUBLAS_OP_T as u32;
        for (attribute, value) in [
            (Of::CUBLASLT_MATMUL_DESC_TRANSA, transposed),
            (Of::CUBLASLT_MATMUL_DESC_POINTER_MODE, mode as u32),
        ] {
            // SAFETY: both attributes are 32-bit words, as the value is; read during the call.
            let status = unsafe {
                sys::cublasLtMatmulDescSetAttribute(
                    product.0,
                    attribute,
                    ptr::from_ref(&value).cast(),
                    size_of_val(&value),
                )
            };
            check_status(gpu, "cublasLtMatmulDescSetAttribute", status)?;
        }
        let ((rows_a, columns_a), (rows_b, columns_b)) = (gemm.shape_a(), gemm.shape_b());
        Ok(Description {
            product,
            a: layout(gpu, gemm.a.element, rows_a, columns_a, gemm.a.ld)?,
            b: layout(gpu, gemm.b.element, rows_b, columns_b, gemm.b.ld)?,
            c: layout(gpu, gemm.c.element, gemm.m, gemm.n, gemm.c.ld)?,
        })
    }

    /// Returns the kernel that the library's heuristic selects for this workspace; `None` if it has
    /// none for these types, shapes and factors.
    fn choose(
        &self,
        gpu: u32,
        handle: sys::cublasLtHandle_t,
        workspace: usize,
    ) -> Result<Option<Choice>, GpuError> {
        let mut preference = ptr::null_mut();
        // SAFETY: writes one handle.
        let status = unsafe { sys::cublasLtMatmulPreferenceCreate(&mut preference) };
        check_status(gpu, "cublasLtMatmulPreferenceCreate", status)?;
        let preference = Owned(preference, sys::cublasLtMatmulPreferenceDestroy as unsafe fn(_) -> _);
        let most = sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        let bytes = workspace as u64;
        // SAFETY: the attribute is a 64-bit number, read during the call.
        let status = unsafe {
            sys::cublasLtMatmulPreferenceSetAttribute(preference.0, most, ptr::from_ref(&bytes).cast(), 8)
        };
        check_status(gpu, "cublasLtMatmulPreferenceSetAttribute", status)?;
        let mut choice = std::mem::MaybeUninit::<Choice>::uninit();
        let mut found: c_int = 0;
        // SAFETY: all descriptions are alive; writes at most one choice, and how many.
        let status = unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                handle,
                self.product.0,
                self.a.0,
                self.b.0,
                self.c.0,
                self.c.0,
                preference.0,
                1,
                choice.as_mut_ptr(),
                &mut found,
            )
        };
        if status == cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED {
            return Ok(None);
        }
        check_status(gpu, "cublasLtMatmulAlgoGetHeuristic", status)?;
        // SAFETY: one was found, so one was written.
        Ok((found > 0).then(|| unsafe { choice.assume_init() }))
    }
}

/// Returns the pointer mode for a product's factors, and their addresses. Factors of the host are
/// stored to `host` as `f32`.
fn factors(gemm: &Gemm, host: &mut [f32; 2]) -> (Mode, [*const c_void; 2]) {
    match gemm.factors {
        Factors::Host { alpha, beta } => {
            *host = [alpha as f32, beta as f32];
            (Mode::CUBLASLT_POINTER_MODE_HOST, host.each_ref().map(|factor| ptr::from_ref(factor).cast()))
        }
        Factors::Device(at) => {
            (Mode::CUBLASLT_POINTER_MODE_DEVICE, [at, at.offset(4)].map(|at| pointer(at).cast_const()))
        }
    }
}

impl Cuda {
    /// The stream's handle.
    pub(super) fn light<'a>(
        &self,
        queue: &Queue,
        gpu: &Gpu,
        handles: &'a mut Handles,
    ) -> Result<&'a mut Light, GpuError> {
        self.needs(Library::CublasLt)?;
        if handles.light.is_none() {
            handles.light = gpu.spare.lock().iter_mut().find_map(|spare| spare.light.take());
        }
        if handles.light.is_none() {
            self.refuse_first(queue, "cublasLtCreate")?;
            let mut handle = ptr::null_mut();
            // SAFETY: the library is there and the GPU's context current; writes one handle.
            check_status(queue.gpu, "cublasLtCreate", unsafe { sys::cublasLtCreate(&mut handle) })?;
            self.used.lock().insert(Library::CublasLt);
            handles.light = Some(Light { handle, chosen: HashMap::new() });
        }
        handles.light.as_mut().ok_or_else(|| refused(queue.gpu, CALL, "no handle"))
    }

    /// # Safety
    /// As the trait says.
    pub(super) unsafe fn multiply_fp8(&self, stream: Stream, gemm: &Gemm) -> Result<(), GpuError> {
        self.needs(Library::CublasLt)?;
        let (queue, gpu) = self.queue(stream, CALL)?;
        gemm.check().map_err(|reason| refused(queue.gpu, CALL, reason))?;
        self.has_product(queue.gpu, CALL, gemm)?;
        if gemm.m == 0 || gemm.n == 0 {
            return Ok(());
        }
        let mut host = [0.0; 2];
        let (mode, [alpha, beta]) = factors(gemm, &mut host);
        let description = Description::new(queue.gpu, gemm, mode)?;
        let mut handles = queue.handles.lock();
        let (workspace, bytes) = self.workspace(&queue, gpu, &mut handles)?;
        let light = self.light(&queue, gpu, &mut handles)?;
        let lengths = [gemm.m, gemm.n, gemm.k, gemm.a.ld, gemm.b.ld, gemm.c.ld];
        let shape: Shape = (lengths, gemm.c.element, mode);
        let choice = match light.chosen.get(&shape) {
            Some(choice) => *choice,
            None => {
                let choice = description.choose(queue.gpu, light.handle, bytes)?;
                light.chosen.insert(shape, choice);
                choice
            }
        };
        let choice = choice.ok_or(GpuError::NoKernel { gpu: queue.gpu, call: CALL })?;
        // SAFETY: descriptions and the handle are alive, factors are where the description says,
        // the workspace is the stream's own, and the matrices are the caller's promise.
        let status = unsafe {
            sys::cublasLtMatmul(
                light.handle,
                description.product.0,
                alpha,
                pointer(gemm.a.at),
                description.a.0,
                pointer(gemm.b.at),
                description.b.0,
                beta,
                pointer(gemm.c.at),
                description.c.0,
                pointer(gemm.c.at),
                description.c.0,
                &choice.algo,
                pointer(Address(workspace)),
                bytes,
                queue.stream.cast(),
            )
        };
        check_status(queue.gpu, CALL, status)
    }
}

fn pointer(at: Address) -> *mut c_void {
    ptr::without_provenance_mut(at.0 as usize)
}
