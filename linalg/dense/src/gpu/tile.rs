//! Layout of a tile in a GPU's memory.

use zellige_gpu::{Address, GpuError};
use zellige_kernels::StorageFormat;
use zellige_runtime::codelet::{DeviceMut, DeviceRef, NewValue};

use super::element;
use super::view::{View, refused};
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
    pub(super) values: View,
    /// The low ones of a split tile.
    pub(super) lo: Address,
    /// The exponent of a narrow tile's scale, an `int`.
    pub(super) scale: Address,
    /// True if a task reads the tile as an operand: it does not change while it is there, so its
    /// operand layouts can be cached.
    pub(super) stays: bool,
}

impl OnGpu {
    fn new(header: &TileHeader, part: impl Fn(usize) -> (Address, u64)) -> Result<Self, GpuError> {
        let &TileHeader { shape: (rows, cols), storage, .. } = header;
        let shape = (length(rows)?, length(cols)?);
        let matrix = |i| View::new(part(i), shape, shape.0.max(1), element(storage));
        let (lo, scale) = match storage {
            StorageFormat::F32 | StorageFormat::F64 => (Address::default(), Address::default()),
            StorageFormat::F16 | StorageFormat::BF16 | StorageFormat::E4M3 => (Address::default(), part(1).0),
            StorageFormat::F16x2 => (matrix(1)?.at, part(2).0),
        };
        let values = matrix(0)?;
        Ok(OnGpu { shape, storage, values, lo, scale, stays: false })
    }

    /// Returns the layout of a tile that is read.
    pub(crate) fn read<T: TileScalar>(tile: &DeviceRef<'_, Tile<T>>) -> Result<Self, GpuError> {
        Ok(OnGpu { stays: true, ..OnGpu::new(tile.header(), |i| tile.part(i))? })
    }

    /// Returns the layout of a tile that is updated.
    pub(crate) fn update<T: TileScalar>(tile: &DeviceMut<'_, Tile<T>>) -> Result<Self, GpuError> {
        OnGpu::new(tile.header(), |i| tile.part(i))
    }

    /// Returns the layout of a tile that was just created.
    pub(super) fn fresh<T: TileScalar>(tile: &NewValue<Tile<T>>) -> Result<Self, GpuError> {
        OnGpu::new(tile.header(), |i| tile.part(i))
    }

    /// Returns true for a tile without numbers.
    pub(crate) fn is_empty(&self) -> bool {
        self.shape.0 == 0 || self.shape.1 == 0
    }

    /// Checks the storage format.
    ///
    /// # Errors
    /// [`Error::Format`] for a tile in another format.
    pub(crate) fn want(&self, want: StorageFormat) -> Result<&Self, Error> {
        if self.storage == want { Ok(self) } else { Err(Error::Format { got: self.storage, want }) }
    }
}

/// Converts a length to the type of CUDA's libraries.
pub(super) fn length(x: usize) -> Result<u32, GpuError> {
    let reason = || format!("{x} rows or columns: {} are possible, choose smaller tiles", u32::MAX);
    u32::try_from(x).map_err(|_| refused("describing a tile", reason()))
}
