//! The vectors of a Krylov space, stored in as few bits as they deserve.

use std::ops::Range;
use std::str::FromStr;

use zellige_kernels::packed::block::{BlockFormat, blocks_bytes, pack_blocks, unpack_blocks};
use zellige_kernels::packed::{PackedFormat, Rounding, pack, unpack};
use zellige_runtime::{Handle, Read, Runtime, Submit, read, update};

use crate::error::Error;
use crate::krylov::{Scalars, Steps};
use crate::space::{GRAIN, Space, Vector};

/// Elements that are decoded at a time: they stay in the nearest cache. A whole number of them is a grain, and whole blocks are one of them.
pub(super) const PIECE: usize = GRAIN / 8;

/// How the vectors of a Krylov space are stored (compressed basis: Aliaga, Anzt, Grützmacher, Quintana-Ortí and Tomás 2022). Arithmetic is in `f64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BasisFormat {
    /// Number by number, in a format that needs no scale; `fp64` without any conversion.
    Packed(PackedFormat),
    /// In blocks of eight that share an exponent.
    Blocks(BlockFormat),
}

impl Default for BasisFormat {
    fn default() -> Self {
        BasisFormat::Packed(PackedFormat::Fp64)
    }
}

impl BasisFormat {
    /// The name that [`FromStr`] reads back.
    pub const fn name(self) -> &'static str {
        match self {
            BasisFormat::Packed(format) => format.name(),
            BasisFormat::Blocks(format) => format.name(),
        }
    }

    /// Refuses the formats that have no numbers outside `[1, 2^8)`.
    pub(super) fn check(self) -> Result<(), Error> {
        match self {
            BasisFormat::Packed(format) if format.is_scaled() => Err(Error::parameter(
                "basis",
                format!(
                    "{format} stores multiples of a scale, and vectors have none: take fp64 .. rp16, or blocks"
                ),
            )),
            _ => Ok(()),
        }
    }

    /// True where elements are stored as they are computed.
    fn is_plain(self) -> bool {
        self == BasisFormat::default()
    }

    pub(super) fn bytes(self, elements: usize) -> usize {
        match self {
            BasisFormat::Packed(format) => elements * format.bytes(),
            BasisFormat::Blocks(format) => blocks_bytes(format, elements),
        }
    }

    /// Words of 64 bits for so many elements.
    fn words(self, elements: usize) -> usize {
        self.bytes(elements).div_ceil(size_of::<f64>())
    }

    /// Vector `k` among all of a stretch of `len` elements.
    pub(super) fn of_vector(self, all: &[f64], k: usize, len: usize) -> &[f64] {
        let words = self.words(len);
        &all[k * words..(k + 1) * words]
    }

    fn of_vector_mut(self, all: &mut [f64], k: usize, len: usize) -> &mut [f64] {
        let words = self.words(len);
        &mut all[k * words..(k + 1) * words]
    }

    /// Elements `at` of a stretch whose codes are `words`; `at` begins at a multiple of [`PIECE`]. `buffer` is where they are decoded.
    pub(super) fn piece<'a>(
        self,
        words: &'a [f64],
        at: Range<usize>,
        buffer: &'a mut [f64; PIECE],
    ) -> &'a [f64] {
        if self.is_plain() {
            return &words[at];
        }
        let codes = &bytemuck::cast_slice(words)[self.bytes(at.start)..self.bytes(at.end)];
        let decoded = &mut buffer[..at.len()];
        match self {
            BasisFormat::Packed(format) => unpack(codes, format, decoded),
            BasisFormat::Blocks(format) => unpack_blocks(codes, format, decoded),
        }
        .expect("as many codes as elements");
        decoded
    }

    /// Stores elements of a stretch from `start` on, a multiple of [`PIECE`].
    fn store(self, elements: &[f64], words: &mut [f64], start: usize) {
        if self.is_plain() {
            return words[start..start + elements.len()].copy_from_slice(elements);
        }
        let codes = self.bytes(start)..self.bytes(start + elements.len());
        let codes = &mut bytemuck::cast_slice_mut(words)[codes];
        match self {
            BasisFormat::Packed(format) => pack(elements, format, Rounding::Nearest, codes),
            BasisFormat::Blocks(format) => pack_blocks(elements, format, codes),
        }
        .expect("as many codes as elements");
    }
}

impl FromStr for BasisFormat {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let packed = name.parse().map(BasisFormat::Packed).ok();
        let format = packed.or_else(|| name.parse().map(BasisFormat::Blocks).ok());
        let unknown = || {
            let problem = format!(
                "{name:?} is none of fp64, rp56, rp48, rp40, fp32, rp24, rp16, block24, block16, block12, block8"
            );
            Error::parameter("basis", problem)
        };
        let format = format.ok_or_else(unknown)?;
        format.check().map(|()| format)
    }
}

/// Vectors `v_0, v_1, ...`: those of a stretch in one handle, so that a step has the same operands whichever they are.
pub(super) struct Basis {
    pub(super) format: BasisFormat,
    /// Of each stretch, vector after vector: elements, or the bytes of their codes in words of 64 bits.
    stretches: Vec<Handle<Vec<f64>>>,
    bytes: u64,
}

impl Basis {
    pub(super) fn new(rt: &Runtime, space: &Space, vectors: usize, format: BasisFormat) -> Basis {
        let of_stretch = |range: Range<usize>| rt.register(vec![0.0; vectors * format.words(range.len())]);
        let stretches = space.ranges().map(of_stretch).collect();
        let bytes = space.ranges().map(|range| (vectors * format.bytes(range.len())) as u64).sum();
        Basis { format, stretches, bytes }
    }

    /// Bytes of the vectors, as they are stored.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Chunk `i` of all vectors, for a task that reads some.
    pub(super) fn read(&self, i: usize) -> Read<Vec<f64>> {
        read(&self.stretches[i])
    }

    /// Records `v_j = w / s[norm]`, with `j` the steps that have been made; `last` is the same vector as it is read back.
    pub(super) fn store(
        &self,
        steps: &Steps<'_>,
        w: &Vector,
        norm: usize,
        last: &Vector,
    ) -> Result<(), Error> {
        let format = self.format;
        let name = if format.is_plain() { "gmres.normalise" } else { "gmres.compress" };
        steps.each(
            name,
            |i| (steps.scalars(), w.read(i), update(&self.stretches[i]), last.update(i)),
            move |(s, w, all, v)| {
                let s = Scalars::new(s);
                if s.is_done() {
                    return;
                }
                let words = format.of_vector_mut(all, s.steps(), w.len());
                let mut buffer = [0.0; PIECE];
                for (piece, (v, w)) in v.chunks_mut(PIECE).zip(w.chunks(PIECE)).enumerate() {
                    let start = piece * PIECE;
                    v.iter_mut().zip(w).for_each(|(v, w)| *v = w / s[norm]);
                    format.store(v, words, start);
                    if !format.is_plain() {
                        v.copy_from_slice(format.piece(words, start..start + v.len(), &mut buffer));
                    }
                }
            },
        )
    }

    /// Records that vector `j`, the number of steps that have been made, is `z`.
    pub(super) fn keep(&self, steps: &Steps<'_>, z: &Vector) -> Result<(), Error> {
        let format = self.format;
        steps.each(
            "gmres.keep",
            |i| (steps.scalars(), z.read(i), update(&self.stretches[i])),
            move |(s, z, all)| {
                let s = Scalars::new(s);
                if !s.is_done() {
                    format.store(&z, format.of_vector_mut(all, s.steps(), z.len()), 0);
                }
            },
        )
    }
}
