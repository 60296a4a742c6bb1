//! Operations on the stream of one body.
//!
//! This is the only module of the crate with `unsafe`. Operations name only memory of the body's
//! operands ([`OnGpu`](super::OnGpu)) or its workspace ([`Ops::scratch`]). Operations of libraries
//! take [`View`]s, which stay within these; the sibling modules describe launches on nothing else.
//! A caller that passes an operand to be written has exclusive access to it.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use zellige_cuda::GpuContext;
use zellige_gpu::{Address, Arg, Element, Gemm, GpuError, Potrf, Side, Syrk, Transpose, Trsm};
use zellige_kernels::cuda::{
    Launch, LaunchError, Loaded, Measure, PARTIALS_BYTES, SOURCES, Source, measure, mirror,
};
use zellige_runtime::TaskError;
use zellige_runtime::codelet::DeviceMut;

use super::OnGpu;
use super::view::{GemmArgs, View, refused};
use crate::scalar::TileScalar;
use crate::tile::Tile;

/// Alignment of columns of workspace, in entries.
const ALIGNED: u32 = 16;

/// Cached operand layouts of tiles.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// `[hi|hi|lo|hi]`: from its first block on the first operand of X3, from its second on the
    /// second.
    Tripled,
    /// The second operand of X3 if it is not transposed, with its blocks stacked vertically.
    TripledBelow,
    /// The transpose, zeros around it.
    Transposed,
    /// The inverses of the diagonal blocks of a factor in consecutive columns, then the blocks.
    Diagonals,
    /// The lower triangle of a factor as a sum of two `f16`, and its scale.
    LowerSplit,
    /// The inverses likewise.
    InverseSplit,
}

/// A context, and the kernels of its device.
pub(crate) struct Ops<'c> {
    cx: GpuContext<'c>,
    kernels: Arc<Loaded>,
    space: RefCell<Space>,
}

/// Requested blocks of workspace, in order, and the number of them in use.
#[derive(Default)]
struct Space {
    blocks: Vec<(Address, u64)>,
    used: usize,
}

impl<'c> Ops<'c> {
    /// Loads the kernels of the context's device.
    ///
    /// # Errors
    /// Errors of the driver, if the kernels cannot be loaded.
    pub(crate) fn new(cx: GpuContext<'c>) -> Result<Self, GpuError> {
        let kernels = Loaded::shared(cx.driver(), cx.gpu(), SOURCES)?;
        Ok(Ops { cx, kernels, space: RefCell::default() })
    }

    /// Launches a kernel of another source, which reads `from` and writes `to`, operands of the
    /// body: a description that names other memory is refused.
    pub(super) fn launch_of(
        &self,
        source: &'static Source,
        launch: &Launch,
        [from, to]: [(Address, u64); 2],
    ) -> Result<(), GpuError> {
        let lies = |(at, bytes): (Address, u64), (first, all): (Address, u64)| {
            at.0 >= first.0 && at.0.saturating_add(bytes) <= first.0 + all
        };
        let is_ours = |arg: &Arg| match *arg {
            Arg::Read(at, bytes) => lies((at, bytes), from) || lies((at, bytes), to),
            Arg::Write(at, bytes) | Arg::Update(at, bytes) => lies((at, bytes), to),
            _ => true,
        };
        if !launch.args.iter().all(is_ours) {
            return Err(GpuError::Failed {
                gpu: self.cx.gpu(),
                call: "cuLaunchKernel",
                reason: format!(
                    "{} is described with memory that is neither its model nor its block",
                    launch.kernel
                ),
                sticky: false,
            });
        }
        let kernels = Loaded::shared(self.cx.driver(), self.cx.gpu(), std::slice::from_ref(source))?;
        // SAFETY: see the module.
        unsafe { kernels.launch(&**self.cx.driver(), self.cx.stream(), launch) }
    }

    /// Copies the lower triangle of a square matrix above its diagonal.
    pub(super) fn mirror(&self, a: View) -> Result<(), GpuError> {
        self.launch(mirror(order(a)?, *a))
    }

    /// Returns workspace until the body's operations have ended; its content is undefined.
    pub(super) fn scratch(&self, bytes: u64) -> Result<Address, GpuError> {
        let mut space = self.space.borrow_mut();
        let at = space.used;
        if let Some(&(block, room)) = space.blocks.get(at)
            && room >= bytes
        {
            space.used += 1;
            return Ok(block);
        }
        let block = (self.cx.scratch(bytes)?.at, bytes);
        // A block that was too small is in use until the body's operations have ended, and is not
        // requested again.
        if at < space.blocks.len() {
            space.blocks[at] = block;
        } else {
            space.blocks.push(block);
        }
        space.used += 1;
        Ok(block.0)
    }

    /// Returns a cached operand layout of a tile, made by `make` unless it is cached already
    /// ([`GpuContext::cached_operand`]); it is in workspace if the cache has no memory for it, and
    /// for a tile that is no operand.
    pub(super) fn cached_operand(
        &self,
        of: &OnGpu,
        form: Form,
        ((rows, cols), element): ((u32, u32), Element),
        make: impl Fn(View) -> Result<(), GpuError>,
    ) -> Result<View, GpuError> {
        let ld = rows.max(1).next_multiple_of(ALIGNED);
        let bytes = u64::from(ld) * u64::from(cols) * element.bytes();
        let matrix = |at| View::new((at, bytes), (rows, cols), ld, element);
        let make_at = |at| make(matrix(at)?);
        let cached = |of: &OnGpu| self.cx.cached_operand(of.values.at, form as u32, bytes, make_at);
        match Some(of).filter(|of| of.stays).map_or(Ok(None), cached)? {
            Some(at) => matrix(at),
            None => {
                let there = self.scratch_matrix((rows, cols), element)?;
                make(there)?;
                Ok(there)
            }
        }
    }

    /// Returns the number of blocks of workspace in use.
    pub(super) fn scratch_used(&self) -> usize {
        self.space.borrow().used
    }

    /// Releases the workspace except the first `used` blocks. Later operations on the stream may
    /// use it again, because they run after the earlier ones.
    pub(crate) fn scratch_from(&self, used: usize) {
        self.space.borrow_mut().used = used;
    }

    /// Returns a matrix in workspace.
    pub(super) fn scratch_matrix(
        &self,
        (rows, cols): (u32, u32),
        element: Element,
    ) -> Result<View, GpuError> {
        // Columns are aligned for tensor cores.
        self.scratch_columns((rows, cols), rows.max(1).next_multiple_of(ALIGNED), element)
    }

    /// Returns a matrix in workspace with columns `ld` entries apart.
    pub(super) fn scratch_columns(
        &self,
        (rows, cols): (u32, u32),
        ld: u32,
        element: Element,
    ) -> Result<View, GpuError> {
        let bytes = u64::from(ld) * u64::from(cols) * element.bytes();
        View::new((self.scratch(bytes)?, bytes), (rows, cols), ld, element)
    }

    pub(crate) fn launch(&self, launch: Result<Launch, LaunchError>) -> Result<(), GpuError> {
        let launch = launch.map_err(|error| GpuError::Failed {
            gpu: self.cx.gpu(),
            call: "cuLaunchKernel",
            reason: error.to_string(),
            sticky: false,
        })?;
        // SAFETY: see the module.
        unsafe { self.kernels.launch(&**self.cx.driver(), self.cx.stream(), &launch) }
    }

    /// Fills with zeros, also between the columns.
    pub(super) fn zero(&self, a: View) -> Result<(), GpuError> {
        // SAFETY: a view lies within the body's memory; see the module.
        unsafe { self.cx.driver().zero(self.cx.stream(), a.at, a.bytes()) }
    }

    /// Multiplies matrices by the library.
    ///
    /// # Errors
    /// Operands with incompatible shapes, and errors of the driver, as for all operations below.
    pub(super) fn gemm(&self, product: &GemmArgs) -> Result<(), GpuError> {
        let [m, n, k] = product.lengths()?;
        let &GemmArgs { op_a, op_b, factors, a, b, c, compute } = product;
        let gemm = Gemm { op_a, op_b, m, n, k, factors, a: *a, b: *b, c: *c, compute };
        // SAFETY: views lie within the body's memory, and the lengths are those of the views; see
        // the module.
        unsafe { self.cx.driver().gemm(self.cx.stream(), &gemm) }
    }

    /// Solves `X op(L) = B` in place of `B`.
    pub(super) fn trsm(&self, op: Transpose, l: View, b: View) -> Result<(), GpuError> {
        let ((m, n), order) = (b.shape(), order(l)?);
        if n != order {
            return Err(refused("trsm", format!("a matrix of order {order} on the right of {m} x {n}")));
        }
        let trsm = Trsm { side: Side::Right, op, m, n, l: *l, b: *b };
        // SAFETY: the operands are views within the body's memory, and the lengths are theirs; see
        // the module.
        unsafe { self.cx.driver().trsm(self.cx.stream(), &trsm) }
    }

    /// Computes `C = alpha A A^T + beta C` in the lower triangle.
    pub(super) fn syrk(&self, (alpha, a): (f64, View), (beta, c): (f64, View)) -> Result<(), GpuError> {
        let ((n, k), order) = (a.shape(), order(c)?);
        if n != order {
            return Err(refused("syrk", format!("the square of {n} x {k} is not a matrix of order {order}")));
        }
        let syrk = Syrk { n, k, alpha, a: *a, beta, c: *c };
        // SAFETY: the operands are views within the body's memory, and the lengths are theirs; see
        // the module.
        unsafe { self.cx.driver().syrk(self.cx.stream(), &syrk) }
    }

    /// Factors a square matrix in place. `then` gets 0, or one more than the number of the column
    /// whose pivot is not positive, and the measure of the factor's diagonal, once they are known.
    pub(super) fn potrf(
        &self,
        a: View,
        then: impl FnOnce(i32, Measure) -> Result<(), TaskError> + Send + 'static,
    ) -> Result<(), GpuError> {
        let (driver, stream, n) = (self.cx.driver(), self.cx.stream(), order(a)?);
        let workspace_bytes = driver.potrf_workspace(stream, n, a.element)?;
        let (workspace, info) = (self.scratch(workspace_bytes)?, self.scratch(4)?);
        let potrf = Potrf { n, a: *a, workspace, workspace_bytes, info };
        // SAFETY: the matrix is a view within the body's memory, and the order is its own; the rest
        // is workspace.
        unsafe { driver.potrf(stream, &potrf)? };
        let diagonal = self.measure(a.diagonal())?;
        let known = Arc::new(AtomicI32::new(0));
        let received = Arc::clone(&known);
        // SAFETY: both are workspace of this body; the results are read back in this order.
        unsafe {
            self.cx.read_back(info, 4, move |bytes| {
                received.store(i32::from_le_bytes(bytes.try_into()?), Ordering::Relaxed);
                Ok(())
            })?;
            self.cx.read_back(diagonal, Measure::BYTES as usize, move |bytes| {
                then(known.load(Ordering::Relaxed), Measure::from_bytes(bytes.try_into()?))
            })
        }
    }

    /// Computes the norm, the largest magnitude and the scale of a matrix into workspace, as a
    /// [`Measure`].
    pub(super) fn measure(&self, a: View) -> Result<Address, GpuError> {
        let to = self.scratch(Measure::BYTES)?;
        self.measure_to(a, to)?;
        Ok(to)
    }

    /// Computes the norms of some matrices; `then` gets them once the body's operations have ended.
    pub(super) fn norms(
        &self,
        matrices: impl ExactSizeIterator<Item = View>,
        then: impl FnOnce(&[f64]) -> Result<(), TaskError> + Send + 'static,
    ) -> Result<(), GpuError> {
        let bytes = Measure::BYTES as usize;
        let count = matrices.len();
        let to = self.scratch(Measure::BYTES * count.max(1) as u64)?;
        for (at, matrix) in (0u64..).zip(matrices) {
            self.measure_to(matrix, to.offset(Measure::BYTES * at))?;
        }
        // SAFETY: workspace of this body, with `count` measures.
        unsafe {
            self.cx.read_back(to, bytes * count, move |received| {
                let norm = |one: &[u8]| one.try_into().map_or(f64::NAN, |one| Measure::from_bytes(one).norm);
                then(&received.chunks_exact(bytes).map(norm).collect::<Vec<f64>>())
            })
        }
    }

    fn measure_to(&self, a: View, to: Address) -> Result<(), GpuError> {
        let partials = self.scratch(PARTIALS_BYTES)?;
        match measure(a.shape(), *a, partials, to) {
            Ok(launches) => launches.into_iter().try_for_each(|launch| self.launch(Ok(launch)))?,
            Err(error) => self.launch(Err(error))?,
        }
        Ok(())
    }

    /// Measures a native tile; its norm is known once the body's operations have ended.
    pub(crate) fn set_norm<T: TileScalar>(&self, tile: &DeviceMut<'_, Tile<T>>) -> Result<(), GpuError> {
        let here = OnGpu::update(tile)?;
        let measured = (self.measure(here.values)?, Measure::BYTES as usize);
        // SAFETY: workspace of this body.
        let read_back = unsafe {
            tile.read_back(&self.cx, measured, |bytes, header, meta| {
                let norm = bytes.try_into().map_or(f64::NAN, |bytes| Measure::from_bytes(bytes).norm);
                (header.norm, meta.norm) = (norm, norm);
            })
        };
        read_back.map_err(|error| self.cx.error(error))
    }
}

/// Returns the order of a square matrix.
fn order(a: View) -> Result<u32, GpuError> {
    match a.shape() {
        (rows, cols) if rows == cols => Ok(rows),
        (rows, cols) => Err(refused("describing a matrix", format!("{rows} x {cols} is not square"))),
    }
}
