//! Serialisation of a tile: a header, and its numbers as bytes.
//!
//! The exponent of a scale is one of the numbers, since a GPU that makes a narrow tile chooses it:
//! the host need not know it.

use zellige_cuda::{CUDA, GpuContext};
use zellige_kernels::StorageFormat;
use zellige_kernels::formats::HalfKind;
use zellige_runtime::data::{ConversionTable, Portable};
use zellige_runtime::{Buffer, Meta};

use super::{Payload, Tile};
use crate::format::{format_of, storage_of};
use crate::gpu;
use crate::scalar::TileScalar;

/// A tile's metadata without its numbers, transferred before them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TileHeader {
    pub(crate) shape: (usize, usize),
    pub(crate) storage: StorageFormat,
    pub(crate) norm: f64,
}

/// Bytes of a scale's exponent.
const SCALE: usize = size_of::<i32>();

impl<T: TileScalar> Portable for Tile<T> {
    type Header = TileHeader;

    fn header(&self) -> TileHeader {
        TileHeader { shape: self.shape(), storage: self.storage(), norm: self.norm }
    }

    fn blank(header: &TileHeader) -> Self {
        let &TileHeader { shape: (rows, cols), storage, norm } = header;
        let (space, scale_exp) = (|| Buffer::unfilled(rows * cols), 0);
        let half = |kind| Payload::Half { bits: space(), kind, scale_exp };
        let payload = match storage {
            StorageFormat::F16 => half(HalfKind::F16),
            StorageFormat::BF16 => half(HalfKind::BF16),
            StorageFormat::F16x2 => Payload::Split { hi: space(), lo: space(), scale_exp },
            StorageFormat::E4M3 => Payload::Fp8 { bits: Buffer::unfilled(rows * cols), scale_exp },
            StorageFormat::F32 | StorageFormat::F64 => Payload::Native(Buffer::unfilled(rows * cols)),
        };
        Tile { rows, cols, payload, norm }
    }

    fn part_sizes(header: &TileHeader) -> Vec<usize> {
        let numbers = header.shape.0 * header.shape.1;
        match header.storage {
            StorageFormat::F32 | StorageFormat::F64 => vec![numbers * T::FORMAT.bytes()],
            StorageFormat::F16 | StorageFormat::BF16 => vec![2 * numbers, SCALE],
            StorageFormat::F16x2 => vec![2 * numbers, 2 * numbers, SCALE],
            StorageFormat::E4M3 => vec![numbers, SCALE],
        }
    }

    fn header_meta(header: &TileHeader) -> Meta {
        let &TileHeader { shape: (rows, cols), storage, norm } = header;
        Meta { format: format_of(storage), norm, bytes: rows * cols * storage.bytes() }
    }

    fn encode_header(header: &TileHeader) -> Option<Vec<u8>> {
        let &TileHeader { shape: (rows, cols), storage, norm } = header;
        let storage = StorageFormat::ALL.iter().position(|&known| known == storage)?;
        let numbers = [rows as u64, cols as u64, storage as u64, norm.to_bits()];
        Some(numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
    }

    fn decode_header(bytes: &[u8]) -> Option<TileHeader> {
        let (numbers, []) = bytes.as_chunks() else { return None };
        let &[rows, cols, storage, norm] = numbers else { return None };
        let length = |bytes| usize::try_from(u64::from_le_bytes(bytes)).ok();
        let (rows, cols) = (length(rows)?, length(cols)?);
        // A tile that exceeds the address space is invalid.
        rows.checked_mul(cols)?.checked_mul(size_of::<f64>())?;
        let storage = *StorageFormat::ALL.get(length(storage)?)?;
        let own =
            |storage| !matches!(storage, StorageFormat::F32 | StorageFormat::F64) || storage == T::FORMAT;
        own(storage).then_some(TileHeader { shape: (rows, cols), storage, norm: f64::from_le_bytes(norm) })
    }

    fn parts(&self) -> Vec<&[u8]> {
        let mut parts = Vec::with_capacity(3);
        match &self.payload {
            Payload::Native(values) => parts.push(values.as_bytes()),
            Payload::Half { bits, scale_exp, .. } => {
                parts.push(bits.as_bytes());
                parts.extend(scale_exp.parts());
            }
            Payload::Split { hi, lo, scale_exp } => {
                parts.extend([hi.as_bytes(), lo.as_bytes()]);
                parts.extend(scale_exp.parts());
            }
            Payload::Fp8 { bits, scale_exp } => {
                parts.push(bits.as_bytes());
                parts.extend(scale_exp.parts());
            }
        }
        parts
    }

    fn parts_mut(&mut self) -> Vec<&mut [u8]> {
        let mut parts = Vec::with_capacity(3);
        match &mut self.payload {
            Payload::Native(values) => parts.push(values.as_bytes_mut()),
            Payload::Half { bits, scale_exp, .. } => {
                parts.push(bits.as_bytes_mut());
                parts.extend(scale_exp.parts_mut());
            }
            Payload::Split { hi, lo, scale_exp } => {
                parts.extend([hi.as_bytes_mut(), lo.as_bytes_mut()]);
                parts.extend(scale_exp.parts_mut());
            }
            Payload::Fp8 { bits, scale_exp } => {
                parts.push(bits.as_bytes_mut());
                parts.extend(scale_exp.parts_mut());
            }
        }
        parts
    }

    fn conversions(table: &mut ConversionTable<Self>) {
        table.add(*CUDA, |value, to, cx| match storage_of(to) {
            Some(to) => Ok(gpu::convert(value, to, GpuContext::of(cx))?),
            None => Ok(None),
        });
    }
}

#[cfg(test)]
mod tests {
    use zellige_runtime::Data;

    use super::*;

    #[test]
    fn tiles_of_every_format_leave_their_process() {
        let tile = Tile::<f32>::from_slice(3, 2, &[1.0, -2.0, 0.5, 4.0, 8.0, -0.25]).unwrap();
        let mut formats = 0;
        for storage in StorageFormat::ALL {
            let Some(tile) = tile.to_storage(storage) else { continue };
            formats += 1;
            let travel = Tile::<f32>::portability().unwrap();
            let mut bytes = Vec::new();
            let size = travel.pack(&tile, &mut bytes).unwrap();
            let again = travel.unpack(&bytes).unwrap();
            assert_eq!(size, tile.meta().bytes);
            assert_eq!(again.parts(), tile.parts());
            let header = |tile: &Tile<f32>| Tile::<f32>::encode_header(&tile.header());
            assert_eq!(header(&again), header(&tile));
            // Truncated bytes are no tile, and no byte of a header causes a panic.
            assert!((0..bytes.len()).all(|length| travel.unpack(&bytes[..length]).is_none()));
            for at in 0..36 {
                let mut wrong = bytes.clone();
                wrong[at] ^= 0xff;
                drop(travel.unpack(&wrong));
            }
        }
        assert!(formats > 3, "{formats}");
    }
}
