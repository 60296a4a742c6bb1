//! Products on a GPU.

use std::hint::spin_loop;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use zellige_gpu::source::Loaded;
use zellige_gpu::{Address, Driver, Event, GpuError, Place, Stream};

use super::{Digits, FewBits, ROWS, Records};
use crate::cuda::{FEW_BITS_SOURCES, FewBitsAt, few_bits_product};

/// A stream, and memory that is used on it alone. It is freed once all operations have ended.
#[derive(Debug)]
struct Memory {
    driver: Arc<dyn Driver>,
    gpu: u32,
    stream: Stream,
    arrays: Vec<Address>,
    pinned: Vec<Pinned>,
}

/// Words of page-locked host memory.
#[derive(Clone, Copy, Debug)]
struct Pinned {
    at: *mut u32,
    words: usize,
}

// SAFETY: the memory belongs to nobody but the owner of this value, who may move to other threads.
unsafe impl Send for Pinned {}
// SAFETY: a shared reference gives no access to the memory.
unsafe impl Sync for Pinned {}

impl Memory {
    fn new(driver: &Arc<dyn Driver>, gpu: u32, urgent: bool) -> Result<Self, GpuError> {
        let (driver, stream) = (Arc::clone(driver), driver.create_stream(gpu, urgent)?);
        Ok(Memory { driver, gpu, stream, arrays: Vec::new(), pinned: Vec::new() })
    }

    /// Allocates an array of at least one word.
    fn array(&mut self, bytes: usize) -> Result<Address, GpuError> {
        let at = self.driver.allocate(self.stream, bytes.max(4) as u64)?;
        self.arrays.push(at);
        Ok(at)
    }

    fn array_of<T: bytemuck::Pod>(&mut self, values: &[T]) -> Result<Address, GpuError> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        let at = self.array(bytes.len())?;
        let from = Place::Host(bytes.as_ptr().cast_mut());
        // SAFETY: `at` has these bytes and is new; `values` outlives the copy, which has ended
        // before this function returns, or the GPU is lost.
        unsafe { self.driver.copy(self.stream, Place::Gpu(self.gpu, at), from, bytes.len() as u64)? };
        self.driver.synchronize(self.stream)?;
        Ok(at)
    }

    fn pinned(&mut self, words: usize) -> Result<Pinned, GpuError> {
        let (gpu, words) = (self.gpu, words.max(1));
        if words > isize::MAX as usize / 4 {
            return Err(GpuError::OutOfMemory { gpu, bytes: u64::MAX });
        }
        let at = self.driver.allocate_pinned(4 * words)?.cast::<u32>();
        // SAFETY: the block has these bytes, is aligned to a page and new.
        unsafe { ptr::write_bytes(at, 0, words) };
        let pinned = Pinned { at, words };
        self.pinned.push(pinned);
        Ok(pinned)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // It fails on a GPU that is lost, where nothing runs any more.
        let _ = self.driver.synchronize(self.stream);
        for at in self.arrays.drain(..) {
            // SAFETY: it came from this driver for this GPU, and is freed once.
            let _ = unsafe { self.driver.free(self.stream, at) };
        }
        for Pinned { at, words } in self.pinned.drain(..) {
            // SAFETY: it came from this driver with this size; all operations have ended.
            unsafe { self.driver.free_pinned(at.cast(), 4 * words) };
        }
        self.driver.destroy_stream(self.stream);
    }
}

/// A matrix in the memory of a GPU.
#[derive(Debug)]
pub struct GpuMatrix {
    memory: Memory,
    at: FewBitsAt,
    edges: Vec<usize>,
    records: Records,
}

impl GpuMatrix {
    /// Copies a matrix to a GPU.
    ///
    /// # Errors
    /// The driver's: there is no such GPU, or its memory is full.
    pub fn new(driver: &Arc<dyn Driver>, gpu: u32, matrix: &FewBits) -> Result<Self, GpuError> {
        // Frames of another matrix go first.
        let mut memory = Memory::new(driver, gpu, false)?;
        let records = Records::new(matrix.edges());
        let starts: Vec<u64> = matrix.starts().iter().map(|&start| start as u64).collect();
        let arrays = [
            memory.array_of(matrix.data())?,
            memory.array_of(&starts)?,
            memory.array_of(matrix.bits())?,
            memory.array_of(records.places())?,
        ];
        let at = FewBitsAt::new(matrix, arrays);
        Ok(GpuMatrix { memory, at, edges: matrix.edges().to_vec(), records })
    }

    fn entries(&self) -> usize {
        self.edges[self.edges.len() - 1]
    }
}

/// Products of matrices of one shape with vectors, on a GPU, one after the other. Results have the
/// bits of [`FewBits::multiply_blocks`].
///
/// ```
/// use std::sync::Arc;
/// use zellige_gpu::Driver;
/// use zellige_kernels::few_bits::{Digits, FewBits, GpuMatrix, GpuProduct};
///
/// fn multiply(driver: Arc<dyn Driver>, a: &FewBits, x: &[f32]) -> Result<Vec<f32>, zellige_gpu::GpuError> {
///     let matrix = Arc::new(GpuMatrix::new(&driver, 0, a)?);
///     let mut product = GpuProduct::new(&driver, 0, a.shape())?;
///     let mut digits = Digits::new(x.len());
///     digits.put(a.edges(), 0..a.groups(), x);
///     product.add(&matrix, 0..a.groups(), &digits)?;
///     let mut y = vec![0.0; a.shape().0];
///     product.finish(&mut y)?;
///     Ok(y)
/// }
/// ```
#[derive(Debug)]
pub struct GpuProduct {
    /// Matrix of the product in progress, which therefore is not freed.
    matrix: Option<Arc<GpuMatrix>>,
    /// Groups whose records may still be read by a copy.
    added: Vec<bool>,
    /// First error of the product in progress.
    error: Option<GpuError>,
    memory: Memory,
    kernels: Arc<Loaded>,
    ended: Event,
    /// Records of the vector, on the host and on the GPU.
    staged: Pinned,
    records: Address,
    sums: Address,
    result: Pinned,
    shape: (usize, usize),
}

impl GpuProduct {
    /// Prepares products with matrices of `shape` (rows, columns).
    ///
    /// # Errors
    /// The driver's; without NVRTC and an archive of kernels, too.
    pub fn new(driver: &Arc<dyn Driver>, gpu: u32, shape: (usize, usize)) -> Result<Self, GpuError> {
        let kernels = Loaded::shared(driver, gpu, FEW_BITS_SOURCES)?;
        let mut memory = Memory::new(driver, gpu, true)?;
        let (words, sums) = (Records::most_words(shape.1), shape.0.next_multiple_of(ROWS));
        let (staged, result) = (memory.pinned(words)?, memory.pinned(sums)?);
        let (records, at) = (memory.array(4 * words)?, memory.array(4 * sums)?);
        let ended = driver.create_event(gpu, false)?;
        let (matrix, added, error) = (None, vec![false; shape.1], None);
        Ok(GpuProduct {
            matrix,
            added,
            error,
            memory,
            kernels,
            ended,
            staged,
            records,
            sums: at,
            result,
            shape,
        })
    }

    /// Begins to add the products of all rows with `groups` of columns, whose entries `x` has.
    /// Another matrix than that of the last call begins a new product.
    ///
    /// # Errors
    /// The driver's. The product then has no result: all calls until the end of
    /// [`finish`](GpuProduct::finish) return the error.
    ///
    /// # Panics
    /// The matrix has another shape or is on another GPU; it has no such groups; `x` has more or
    /// fewer entries.
    pub fn add(&mut self, matrix: &Arc<GpuMatrix>, groups: Range<usize>, x: &Digits) -> Result<(), GpuError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let added = self.begin_to_add(matrix, groups, x);
        self.error = added.clone().err();
        added
    }

    fn begin_to_add(
        &mut self,
        matrix: &Arc<GpuMatrix>,
        groups: Range<usize>,
        x: &Digits,
    ) -> Result<(), GpuError> {
        let (Memory { driver, gpu, stream, .. }, staged) = (&self.memory, self.staged);
        let is_here = Arc::ptr_eq(driver, &matrix.memory.driver) && *gpu == matrix.memory.gpu;
        assert!(is_here, "the matrix is on another GPU");
        let (blocks, entries) = (self.shape.0.div_ceil(ROWS), self.shape.1);
        assert_eq!((matrix.at.blocks, matrix.entries()), (blocks, entries), "shape of the matrix");
        assert_eq!(x.entries(), entries, "entries of x");
        assert!(groups.end <= matrix.at.groups, "groups {groups:?}");
        let is_new = self.matrix.as_ref().is_none_or(|of| !Arc::ptr_eq(of, matrix));
        if is_new || self.added[groups.clone()].contains(&true) {
            // Nothing is in progress where a product has been finished.
            if self.matrix.is_some() {
                driver.synchronize(*stream)?;
            }
            self.matrix = Some(Arc::clone(matrix));
            self.added.fill(false);
        }
        self.added[groups.clone()].fill(true);
        let words = matrix.records.words(groups.clone());
        assert!(words.end <= staged.words, "records");
        // SAFETY: the words are within the block, which is initialised. No copy reads them: since
        // the last wait for all copies, none of these groups was added.
        let staging = unsafe { std::slice::from_raw_parts_mut(staged.at.add(words.start), words.len()) };
        matrix.records.write(x, &matrix.edges, groups.clone(), staging);
        let to = Place::Gpu(*gpu, self.records.offset(4 * words.start as u64));
        let from = Place::Host(staging.as_mut_ptr().cast());
        // SAFETY: both arrays have these words and live until the stream has ended. The staged
        // words are written next after a wait for it.
        unsafe { driver.copy(*stream, to, from, 4 * words.len() as u64)? };
        let all = matrix.records.words(0..matrix.at.groups).end as u64;
        let launch = few_bits_product(&matrix.at, (self.records, all), groups, is_new, self.sums);
        let launch = launch.map_err(|error| GpuError::Failed {
            gpu: *gpu,
            call: "cuLaunchKernel",
            reason: error.to_string(),
            sticky: false,
        })?;
        // SAFETY: the arrays are those of the matrix, which this product keeps, and its own; they
        // live until the stream has ended, and are used on it alone.
        unsafe { self.kernels.launch(&**driver, *stream, &launch) }
    }

    /// Waits for all products that were added, without giving up the core, and writes their sums to
    /// `y`; zeros if there are none. The next [`add`](GpuProduct::add) begins a new product, also
    /// after an error.
    ///
    /// # Errors
    /// The driver's, and that of an [`add`](GpuProduct::add) of this product.
    ///
    /// # Panics
    /// `y` has another length than there are rows.
    pub fn finish(&mut self, y: &mut [f32]) -> Result<(), GpuError> {
        assert_eq!(y.len(), self.shape.0, "entries of y");
        let result = match self.error.take() {
            Some(error) => Err(error),
            None => self.wait_for(y),
        };
        if result.is_err() {
            // The next product writes the same memory. A GPU that is lost fails here, too, and
            // runs nothing any more.
            let _ = self.memory.driver.synchronize(self.memory.stream);
        }
        self.matrix = None;
        result
    }

    fn wait_for(&mut self, y: &mut [f32]) -> Result<(), GpuError> {
        if self.matrix.is_none() {
            y.fill(0.0);
            return Ok(());
        }
        let Memory { driver, gpu, stream, .. } = &self.memory;
        let (to, bytes) = (Place::Host(self.result.at.cast()), 4 * y.len() as u64);
        // SAFETY: both arrays have these bytes and live until the stream has ended; the result is
        // read below, after the event.
        unsafe { driver.copy(*stream, to, Place::Gpu(*gpu, self.sums), bytes)? };
        driver.record(self.ended, *stream)?;
        while !driver.is_done(self.ended)? {
            spin_loop();
        }
        // SAFETY: the block is initialised, and the copy to it has ended.
        let result = unsafe { std::slice::from_raw_parts(self.result.at, y.len()) };
        y.iter_mut().zip(result).for_each(|(y, bits)| *y = f32::from_bits(*bits));
        Ok(())
    }
}

impl Drop for GpuProduct {
    fn drop(&mut self) {
        // The matrix and the memory are freed afterwards.
        let _ = self.memory.driver.synchronize(self.memory.stream);
        self.memory.driver.destroy_event(self.ended);
    }
}
