//! How a tile travels: a header, and its numbers as bytes.

use zellige_kernels::StorageFormat;
use zellige_kernels::formats::HalfKind;
use zellige_runtime::{Buffer, Portable};

use super::{Payload, Tile};
use crate::scalar::TileScalar;

/// A tile without its numbers: what travels ahead of them.
#[derive(Clone, Copy, Debug)]
pub struct TileHeader {
    shape: (usize, usize),
    storage: StorageFormat,
    scale_exp: i32,
    norm: f64,
}

impl<T: TileScalar> Portable for Tile<T> {
    type Header = TileHeader;

    fn header(&self) -> TileHeader {
        let scale_exp = match self.payload {
            Payload::Native(_) => 0,
            Payload::Half { scale_exp, .. }
            | Payload::Split { scale_exp, .. }
            | Payload::Fp8 { scale_exp, .. } => scale_exp,
        };
        TileHeader { shape: self.shape(), storage: self.storage(), scale_exp, norm: self.norm }
    }

    fn blank(header: &TileHeader) -> Self {
        let &TileHeader { shape: (rows, cols), storage, scale_exp, norm } = header;
        let zeros = || Buffer::zeroed(rows * cols);
        let half = |kind| Payload::Half { bits: zeros(), kind, scale_exp };
        let payload = match storage {
            StorageFormat::F16 => half(HalfKind::F16),
            StorageFormat::BF16 => half(HalfKind::BF16),
            StorageFormat::F16x2 => Payload::Split { hi: zeros(), lo: zeros(), scale_exp },
            StorageFormat::E4M3 => Payload::Fp8 { bits: Buffer::zeroed(rows * cols), scale_exp },
            StorageFormat::F32 | StorageFormat::F64 => Payload::Native(Buffer::zeroed(rows * cols)),
        };
        Tile { rows, cols, payload, norm }
    }

    fn refill(&mut self, header: &TileHeader) -> bool {
        let &TileHeader { shape: (rows, cols), storage, scale_exp: scale, norm } = header;
        if self.storage() != storage || self.rows * self.cols != rows * cols {
            return false;
        }
        if let Payload::Half { scale_exp, .. }
        | Payload::Split { scale_exp, .. }
        | Payload::Fp8 { scale_exp, .. } = &mut self.payload
        {
            *scale_exp = scale;
        }
        (self.rows, self.cols, self.norm) = (rows, cols, norm);
        true
    }

    fn parts(&self) -> Vec<&[u8]> {
        match &self.payload {
            Payload::Native(values) => vec![values.as_bytes()],
            Payload::Half { bits, .. } => vec![bits.as_bytes()],
            Payload::Split { hi, lo, .. } => vec![hi.as_bytes(), lo.as_bytes()],
            Payload::Fp8 { bits, .. } => vec![bits.as_bytes()],
        }
    }

    fn parts_mut(&mut self) -> Vec<&mut [u8]> {
        match &mut self.payload {
            Payload::Native(values) => vec![values.as_bytes_mut()],
            Payload::Half { bits, .. } => vec![bits.as_bytes_mut()],
            Payload::Split { hi, lo, .. } => vec![hi.as_bytes_mut(), lo.as_bytes_mut()],
            Payload::Fp8 { bits, .. } => vec![bits.as_bytes_mut()],
        }
    }
}
