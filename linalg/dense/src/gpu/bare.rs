//! GPU operations of this crate without tasks around them: products of tiles and a factorisation of
//! a whole matrix by the library, on matrices in a body's workspace.

use zellige_cuda::GpuContext;
use zellige_gpu::{Address, Compute, Element, GpuError, Matrix, Transpose};
use zellige_kernels::cuda::{copy, fill};
use zellige_kernels::{GemmPrecision, Op, StorageFormat};
use zellige_runtime::TaskError;
use zellige_runtime::codelet::DeviceRef;

use super::capability::compute_of;
use super::convert::narrow;
use super::product::DIFFERENCE;
use super::tile::length;
use super::view::{GemmArgs, View};
use super::{OnGpu, Ops, element, element_of, multiply};
use crate::error::Error;
use crate::scalar::TileScalar;

/// Entries from the random numbers of one operand to those of the next.
const WINDOW_STEP: usize = 64;

/// Operands and result of a product, in workspace.
struct Triple {
    a: OnGpu,
    b: OnGpu,
    c: OnGpu,
}

/// Products `C -= A B^T` of square tiles in the workspace of a body for GPUs, with and without the
/// other operations of their tasks.
pub struct GpuProducts<'c> {
    ops: Ops<'c>,
    precision: GemmPrecision,
    triples: Vec<Triple>,
    /// Result of the library's products if C has another number type.
    spare: View,
    /// Working space that all these take.
    used: usize,
}

impl<'c> GpuProducts<'c> {
    /// Bytes of one triple of tiles of this order.
    pub fn bytes_of_triple(precision: GemmPrecision, tile: u32) -> u64 {
        let (operand, result) = (precision.operand_format(), precision.output_format());
        u64::from(tile).pow(2) * (2 * operand.bytes() + result.bytes()) as u64
    }

    /// Returns the number of random numbers for `count` triples of tiles of this order.
    pub fn numbers(tile: u32, count: usize) -> usize {
        (tile as usize).pow(2) + 3 * count * WINDOW_STEP
    }

    /// Fills `count` triples of tiles of order `tile` from [`numbers`](GpuProducts::numbers) random
    /// numbers.
    ///
    /// # Errors
    /// Errors of the driver, e.g. for lack of memory, as for all functions here.
    pub fn new<T: TileScalar>(
        cx: GpuContext<'c>,
        precision: GemmPrecision,
        tile: u32,
        count: usize,
        numbers: &DeviceRef<'_, Vec<T>>,
    ) -> Result<Self, GpuError> {
        let ops = Ops::new(cx)?;
        let (element, (first, bytes)): (_, (Address, u64)) = (element_of::<T>(), numbers.part(0));
        let window = |at: usize| {
            let from = (at * WINDOW_STEP) as u64 * element.bytes();
            let (none, shape) = (Address::default(), (tile, tile));
            let values = View::new((first.offset(from), bytes.saturating_sub(from)), shape, tile, element)?;
            Ok(OnGpu { shape, storage: T::FORMAT, values, lo: none, scale: none, stays: false })
        };
        let (operand, result) = (precision.operand_format(), precision.output_format());
        let triple = |at: usize| {
            let next = |which, format| stored(&ops, &window(3 * at + which)?, format);
            Ok(Triple { a: next(0, operand)?, b: next(1, operand)?, c: next(2, result)? })
        };
        let triples = (0..count).map(triple).collect::<Result<_, GpuError>>()?;
        let element = match compute_of(precision) {
            Compute::F64 => Element::F64,
            Compute::F16 => Element::F16,
            Compute::F32 | Compute::Tf32 => Element::F32,
        };
        let spare = ops.scratch_matrix((tile, tile), element)?;
        if element == Element::F32 {
            ops.launch(fill((tile, tile), 0.0, *spare))?;
        }
        let used = ops.scratch_used();
        Ok(GpuProducts { ops, precision, triples, spare, used })
    }

    /// Puts the products of all triples on the body's stream as tasks do them.
    pub fn multiply(&self) -> Result<(), Error> {
        self.triples.iter().try_for_each(|of| {
            // A round may be thousands of products, and all of them are one body's.
            self.ops.scratch_from(self.used);
            multiply(&self.ops, self.precision, Op::Trans, &of.a, &of.b, &of.c)
        })
    }

    /// Puts only the library's products of these operands on the body's stream, with factors that
    /// are known on the host.
    pub fn multiply_plain(&self) -> Result<(), Error> {
        let compute = compute_of(self.precision);
        let (op_a, op_b) = match self.precision {
            // The only layout that 8-bit operands may have.
            GemmPrecision::Fp8 => (Transpose::Yes, Transpose::No),
            _ => (Transpose::No, Transpose::Yes),
        };
        self.triples.iter().try_for_each(|of| {
            // A result of another number type than C's would not fit there.
            let c = if of.c.values.element == self.spare.element { of.c.values } else { self.spare };
            let (a, b) = (of.a.values, of.b.values);
            Ok(self.ops.gemm(&GemmArgs { op_a, op_b, factors: DIFFERENCE, a, b, c, compute })?)
        })
    }
}

/// Returns a window in workspace, converted if the format differs from its own.
fn stored(ops: &Ops<'_>, window: &OnGpu, format: StorageFormat) -> Result<OnGpu, GpuError> {
    let element = element(format);
    let values = ops.scratch_matrix(window.shape, element)?;
    if format == window.storage {
        ops.launch(copy(window.shape, *window.values, *values))?;
        return Ok(OnGpu { values, ..*window });
    }
    let lo = match format {
        StorageFormat::F16x2 => ops.scratch_matrix(window.shape, element)?.at,
        _ => Address::default(),
    };
    let (shape, scale) = (window.shape, ops.scratch(4)?);
    let made = OnGpu { shape, storage: format, values, lo, scale, stays: false };
    narrow(ops, window, &made)?;
    Ok(made)
}

/// A random symmetric matrix in the workspace of a body for GPUs, as one array.
pub struct GpuMatrix<'c> {
    ops: Ops<'c>,
    a: View,
}

impl<'c> GpuMatrix<'c> {
    /// Creates a matrix of order `n` with `n` on its diagonal, made of random numbers in (-1, 1)
    /// / 2.
    ///
    /// # Errors
    /// Errors of the driver, e.g. for lack of memory, as for all functions here.
    pub fn new<T: TileScalar>(
        cx: GpuContext<'c>,
        n: usize,
        numbers: &DeviceRef<'_, Vec<T>>,
    ) -> Result<Self, GpuError> {
        let (ops, element, first) = (Ops::new(cx)?, element_of::<T>(), numbers.part(0).0);
        let (order, column) = (length(n)?, length(*numbers.header())?);
        // Without gaps: it is filled as one column.
        let a = ops.scratch_columns((order, order), order.max(1), element)?;
        let block = |at, ld| Matrix { at, ld, element };
        for (from, rows) in parts(n * n, column) {
            let at = a.at.offset(from as u64 * element.bytes());
            ops.launch(copy((rows, 1), block(first, rows), block(at, rows)))?;
        }
        // From one entry of the diagonal to the next it is a column and an entry.
        ops.launch(fill((1, order), n as f64, block(a.at, order + 1)))?;
        Ok(GpuMatrix { ops, a })
    }

    /// Puts the library's factorisation on the body's stream; `lost` makes the error of a pivot
    /// that is not positive.
    pub fn factor(&self, lost: impl FnOnce(i32) -> TaskError + Send + 'static) -> Result<(), GpuError> {
        self.ops.potrf(self.a, |info, _| if info == 0 { Ok(()) } else { Err(lost(info)) })
    }
}

/// Returns the starts and lengths of parts of at most `most` entries, for `entries` in total, which
/// may exceed 32 bits.
fn parts(entries: usize, most: u32) -> impl Iterator<Item = (usize, u32)> {
    let length = move |from| u32::try_from(entries - from).map_or(most, |left| left.min(most));
    (0..entries).step_by((most as usize).max(1)).map(move |from| (from, length(from)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_of_more_entries_than_32_bits_count_are_made_whole() {
        for (entries, most) in [(0, 7), (6, 7), (7, 7), (15, 7), (100_352 * 100_352, (1 << 22) - 3)] {
            let mut end = 0;
            for (from, length) in parts(entries, most) {
                assert!(from == end && (1..=most).contains(&length), "{from} {length}");
                end += length as usize;
            }
            assert_eq!(end, entries);
        }
    }
}
