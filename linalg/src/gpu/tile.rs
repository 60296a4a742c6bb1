//! Where a tile lies in a GPU's memory.

use zellige_gpu::{Address, GpuError, Matrix};
use zellige_kernels::StorageFormat;
use zellige_runtime::{CudaMut, CudaRef, CudaValue};

use super::element;
use crate::error::Error;
use crate::scalar::TileScalar;
use crate::tile::{Tile, TileHeader};

/// A tile's numbers, column by column without gaps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OnGpu {
    /// Rows and columns.
    pub(crate) shape: (u32, u32),
    pub(crate) storage: StorageFormat,
    /// The numbers; the high ones of a split tile.
    pub(super) values: Matrix,
    /// The low ones of a split tile.
    pub(super) lo: Address,
    /// The exponent of a narrow tile's scale, an `int`.
    pub(super) scale: Address,
    /// A task reads it as an operand: while it is there it does not change, and what was made of it can lie beside it.
    pub(super) stays: bool,
}

impl OnGpu {
    fn new(header: &TileHeader, part: impl Fn(usize) -> Address) -> Result<Self, GpuError> {
        let &TileHeader { shape: (rows, cols), storage, .. } = header;
        let shape = (length(rows)?, length(cols)?);
        let (lo, scale) = match storage {
            StorageFormat::F32 | StorageFormat::F64 => (Address::default(), Address::default()),
            StorageFormat::F16 | StorageFormat::BF16 | StorageFormat::E4M3 => (Address::default(), part(1)),
            StorageFormat::F16x2 => (part(1), part(2)),
        };
        let values = Matrix { at: part(0), ld: shape.0.max(1), element: element(storage) };
        Ok(OnGpu { shape, storage, values, lo, scale, stays: false })
    }

    /// A tile that is read.
    pub(crate) fn read<T: TileScalar>(tile: &CudaRef<'_, Tile<T>>) -> Result<Self, GpuError> {
        Ok(OnGpu { stays: true, ..OnGpu::new(tile.header(), |i| tile.part(i).0)? })
    }

    /// A tile that is updated.
    pub(crate) fn update<T: TileScalar>(tile: &CudaMut<'_, Tile<T>>) -> Result<Self, GpuError> {
        OnGpu::new(tile.header(), |i| tile.part(i).0)
    }

    /// A tile that has just been made.
    pub(super) fn fresh<T: TileScalar>(tile: &CudaValue<Tile<T>>) -> Result<Self, GpuError> {
        OnGpu::new(tile.header(), |i| tile.part(i).0)
    }

    /// True for a tile without numbers.
    pub(crate) fn is_empty(&self) -> bool {
        self.shape.0 == 0 || self.shape.1 == 0
    }

    /// # Errors
    /// [`Error::Format`] for a tile that is stored otherwise.
    pub(crate) fn want(&self, want: StorageFormat) -> Result<&Self, Error> {
        if self.storage == want { Ok(self) } else { Err(Error::Format { got: self.storage, want }) }
    }
}

/// The block of a matrix from row `i` and column `j` on.
pub(super) fn block(matrix: Matrix, i: u32, j: u32) -> Matrix {
    let entries = u64::from(j) * u64::from(matrix.ld) + u64::from(i);
    Matrix { at: matrix.at.offset(entries * matrix.element.bytes()), ..matrix }
}

/// A length as CUDA's libraries take it.
pub(super) fn length(x: usize) -> Result<u32, GpuError> {
    u32::try_from(x).map_err(|_| GpuError::Failed {
        gpu: 0,
        call: "describing a tile",
        reason: format!("{x} rows or columns: {} are possible, choose smaller tiles", u32::MAX),
        sticky: false,
    })
}
