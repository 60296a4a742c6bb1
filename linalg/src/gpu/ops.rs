//! Operations on the stream of one body.
//!
//! With [`timed`](super::timed) the one place of this crate with `unsafe`. Memory that an operation names is that of the body's operands ([`OnGpu`](super::OnGpu)) or its
//! working space ([`Ops::scratch`]): the modules beside this one describe operations on nothing else, and whoever gives them an operand that
//! is written has it to itself.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use zellige_gpu::{Address, Arg, Element, Gemm, GpuError, Matrix, Potrf, Syrk, Trsm};
use zellige_kernels::cuda::{
    Launch, LaunchError, Loaded, Measure, PARTIALS_BYTES, SOURCES, Source, measure, mirror,
};
use zellige_runtime::{CudaMut, GpuContext, TaskError};

use super::OnGpu;
use crate::scalar::TileScalar;
use crate::tile::Tile;

/// Entries to multiples of which columns of working space are padded.
const ALIGNED: u32 = 16;

/// Forms of tiles that lie beside them.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// `[hi|hi|lo|hi]`: from its first block on the first operand of X3, from its second on the second.
    Tripled,
    /// The second operand of X3 where it is not transposed, its blocks one below the other.
    TripledBelow,
    /// The transpose, zeros around it.
    Transposed,
}

/// A context, and the kernels of its device.
pub(crate) struct Ops<'c> {
    cx: &'c GpuContext<'c>,
    kernels: Arc<Loaded>,
    space: RefCell<Space>,
}

/// Working space that has been asked for, in order, and how much of it is in use.
#[derive(Default)]
struct Space {
    blocks: Vec<(Address, u64)>,
    used: usize,
}

impl<'c> Ops<'c> {
    /// # Errors
    /// The driver's, where the kernels cannot be loaded.
    pub(crate) fn new(cx: &'c GpuContext<'c>) -> Result<Self, GpuError> {
        let kernels = Loaded::shared(cx.driver(), cx.gpu(), SOURCES)?;
        Ok(Ops { cx, kernels, space: RefCell::default() })
    }

    /// A launch of a kernel of another source, which reads `from` and writes `to`, operands of the body: a description that names other
    /// memory is refused.
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

    /// The lower triangle of a matrix of order `n`, above its diagonal too.
    pub(super) fn mirror(&self, n: u32, a: Matrix) -> Result<(), GpuError> {
        self.launch(mirror(n, a))
    }

    /// Working space until the body's operations have ended; it holds garbage.
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
        // One that was too small is in use until the body's operations have ended, and not asked for again.
        if at < space.blocks.len() {
            space.blocks[at] = block;
        } else {
            space.blocks.push(block);
        }
        space.used += 1;
        Ok(block.0)
    }

    /// A matrix that is another form of a tile, made by `make` unless it lies beside the tile already ([`GpuContext::beside`]); in working
    /// space where it has no room there, and for a tile that is no operand.
    pub(super) fn beside(
        &self,
        of: &OnGpu,
        form: Form,
        ((rows, cols), element): ((u32, u32), Element),
        make: impl Fn(Matrix) -> Result<(), GpuError>,
    ) -> Result<Matrix, GpuError> {
        let ld = rows.max(1).next_multiple_of(ALIGNED);
        let matrix = |at| Matrix { at, ld, element };
        let bytes = u64::from(ld) * u64::from(cols) * element.bytes();
        let beside = |of: &OnGpu| self.cx.beside(of.values.at, form as u32, bytes, |at| make(matrix(at)));
        match Some(of).filter(|of| of.stays).map_or(Ok(None), beside)? {
            Some(at) => Ok(matrix(at)),
            None => {
                let there = self.scratch_matrix((rows, cols), element)?;
                make(there)?;
                Ok(there)
            }
        }
    }

    /// What is put on the stream from here on may use the same working space as what was put there before: it runs later.
    pub(crate) fn scratch_again(&self) {
        self.space.borrow_mut().used = 0;
    }

    /// A matrix in working space.
    pub(super) fn scratch_matrix(
        &self,
        (rows, cols): (u32, u32),
        element: Element,
    ) -> Result<Matrix, GpuError> {
        // Columns begin where tensor cores like them to.
        let ld = rows.max(1).next_multiple_of(ALIGNED);
        let at = self.scratch(u64::from(ld) * u64::from(cols) * element.bytes())?;
        Ok(Matrix { at, ld, element })
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

    pub(super) fn zero(&self, at: Address, bytes: u64) -> Result<(), GpuError> {
        // SAFETY: see the module.
        unsafe { self.cx.driver().zero(self.cx.stream(), at, bytes) }
    }

    pub(super) fn gemm(&self, gemm: &Gemm) -> Result<(), GpuError> {
        // SAFETY: see the module.
        unsafe { self.cx.driver().gemm(self.cx.stream(), gemm) }
    }

    pub(super) fn trsm(&self, trsm: &Trsm) -> Result<(), GpuError> {
        // SAFETY: see the module.
        unsafe { self.cx.driver().trsm(self.cx.stream(), trsm) }
    }

    pub(super) fn syrk(&self, syrk: &Syrk) -> Result<(), GpuError> {
        // SAFETY: see the module.
        unsafe { self.cx.driver().syrk(self.cx.stream(), syrk) }
    }

    /// Factors a matrix of order `n` in place. `then` gets 0, or one more than the number of the column whose pivot is not positive, and the
    /// measure of the factor's diagonal, once they are known.
    pub(super) fn potrf(
        &self,
        n: u32,
        a: Matrix,
        then: impl FnOnce(i32, Measure) -> Result<(), TaskError> + Send + 'static,
    ) -> Result<(), GpuError> {
        let (driver, stream) = (self.cx.driver(), self.cx.stream());
        let workspace_bytes = driver.potrf_workspace(stream, n, a.element)?;
        let (workspace, info) = (self.scratch(workspace_bytes)?, self.scratch(4)?);
        let potrf = Potrf { n, a, workspace, workspace_bytes, info };
        // SAFETY: see the module.
        unsafe { driver.potrf(stream, &potrf)? };
        let diagonal = self.measure((1, n), Matrix { ld: a.ld + 1, ..a })?;
        let known = Arc::new(AtomicI32::new(0));
        let told = Arc::clone(&known);
        // SAFETY: working space of this body, both; what is read back is told in this order.
        unsafe {
            self.cx.read_back(info, 4, move |bytes| {
                told.store(i32::from_le_bytes(bytes.try_into()?), Ordering::Relaxed);
                Ok(())
            })?;
            self.cx.read_back(diagonal, Measure::BYTES as usize, move |bytes| {
                then(known.load(Ordering::Relaxed), Measure::from_bytes(bytes.try_into()?))
            })
        }
    }

    /// Norm, largest magnitude and scale of a matrix, left in working space as a [`Measure`].
    pub(super) fn measure(&self, shape: (u32, u32), a: Matrix) -> Result<Address, GpuError> {
        let (partials, to) = (self.scratch(PARTIALS_BYTES)?, self.scratch(Measure::BYTES)?);
        match measure(shape, a, partials, to) {
            Ok(launches) => launches.into_iter().try_for_each(|launch| self.launch(Ok(launch)))?,
            Err(error) => self.launch(Err(error))?,
        }
        Ok(to)
    }

    /// Measures a native tile; its norm is known once the body's operations have ended.
    pub(crate) fn set_norm<T: TileScalar>(&self, tile: &CudaMut<'_, Tile<T>>) -> Result<(), GpuError> {
        let here = OnGpu::update(tile)?;
        let measured = (self.measure(here.shape, here.values)?, Measure::BYTES as usize);
        // SAFETY: working space of this body.
        unsafe {
            tile.read_back(self.cx, measured, |bytes, header, meta| {
                let norm = bytes.try_into().map_or(f64::NAN, |bytes| Measure::from_bytes(bytes).norm);
                (header.norm, meta.norm) = (norm, norm);
            })
        }
    }
}
