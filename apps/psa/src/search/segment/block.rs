//! Block: the signals of one segment's points in the layout of the search kernels, in one of the
//! sample formats.

use std::sync::OnceLock;

use zellige_kernels::distance::{LANES, Shape, Values, place, squares};
use zellige_kernels::formats::bits::{bf16_from_f32, f16_from_f32};
use zellige_runtime::data::{Portability, Portable};
use zellige_runtime::{Buffer, Data, Format, Meta};

use crate::Error;
use crate::basis::SegmentBasis;

/// Value of the whole charge in reported figures of merit, and in samples in `f16`.
pub const THOUSAND: f64 = 1000.0;
/// Storage format of the samples of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SampleFormat {
    /// `f32`; 1 is the whole charge.
    F32,
    /// `f16`; 1000 is the whole charge.
    F16,
    /// `bf16`; 1 is the whole charge.
    Bf16,
    /// Fixed point, 16 bits: steps of 1/30000 of the charge, or larger ones if a sample would not
    /// fit.
    I16,
}

impl SampleFormat {
    /// Number of steps of the fixed-point format in the whole charge.
    pub const STEPS: f32 = 30_000.0;

    const ALL: [SampleFormat; 4] =
        [SampleFormat::F32, SampleFormat::F16, SampleFormat::Bf16, SampleFormat::I16];

    /// Returns the number of the format in the runtime.
    pub fn number(self) -> Format {
        Format(self as u16)
    }

    /// Returns the number of bytes of a sample.
    pub fn bytes(self) -> usize {
        if self == SampleFormat::F32 { 4 } else { 2 }
    }

    fn of(format: Format) -> Option<Self> {
        SampleFormat::ALL.into_iter().find(|known| known.number() == format)
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Samples {
    Single(Buffer<f32>),
    Half(Buffer<u16>),
    Fixed(Buffer<i16>),
}

/// Description of a block without its samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockHeader {
    points: usize,
    shape: Shape,
    format: SampleFormat,
    /// Stored value of a sample of 1.
    scale: f32,
    /// Largest magnitude of a sample.
    most: f32,
}

/// The signals of the points of one segment, interleaved in 16 lanes
/// ([`zellige_kernels::distance`]). Runtimes convert it to the other formats of [`SampleFormat`] if
/// a task requests one, and transfer it to devices.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    header: BlockHeader,
    samples: Samples,
    /// Positions of the points (mm): x, y, z of each.
    positions: Buffer<f32>,
    /// Squared lengths of the points, once computed; they are not transferred.
    squares: OnceLock<Vec<f32>>,
}

impl Block {
    /// Creates a block in `f32` from the basis of a segment.
    ///
    /// # Errors
    /// [`Error::Shape`] for a basis without points or samples.
    pub fn new(basis: &SegmentBasis) -> Result<Block, Error> {
        let shape = Shape { channels: basis.channels(), samples: basis.samples() };
        let points = basis.positions().len();
        if points == 0 || shape.terms() == 0 {
            let problem = format!("{points} points with {} samples: one at least is needed", shape.terms());
            return Err(Error::shape("basis of a segment", problem));
        }
        let mut header = BlockHeader { points, shape, format: SampleFormat::F32, scale: 1.0, most: 0.0 };
        let mut samples = Buffer::zeroed(header.stored());
        for point in 0..points {
            for (term, &sample) in basis.point(point).iter().enumerate() {
                samples[place(point, term, shape)] = sample;
            }
        }
        header.most = samples.iter().fold(0.0, |most, x| most.max(x.abs()));
        let positions = Buffer::from_slice(basis.positions().as_flattened());
        Ok(Block { header, samples: Samples::Single(samples), positions, squares: OnceLock::new() })
    }

    /// Returns the largest magnitude of a sample of the basis; 1 is the whole charge.
    pub fn most(&self) -> f32 {
        self.header.most
    }

    /// Returns the number of points.
    pub fn points(&self) -> usize {
        self.header.points
    }

    /// Returns the number of points, padded to a multiple of sixteen.
    pub fn stride(&self) -> usize {
        self.header.points.next_multiple_of(LANES)
    }

    /// Returns the number of channels and samples.
    pub fn shape(&self) -> Shape {
        self.header.shape
    }

    /// Returns the storage format of the samples.
    pub fn format(&self) -> SampleFormat {
        self.header.format
    }

    /// Returns the stored value of a sample of 1, by which samples of events must be multiplied.
    pub fn scale(&self) -> f32 {
        self.header.scale
    }

    /// Returns the scale of the samples in another format.
    pub(in crate::search) fn scale_in(&self, format: SampleFormat) -> f32 {
        match format {
            SampleFormat::F32 | SampleFormat::Bf16 => 1.0,
            SampleFormat::F16 => THOUSAND as f32,
            SampleFormat::I16 => {
                SampleFormat::STEPS.min(f32::from(i16::MAX) / self.header.most.max(f32::MIN_POSITIVE))
            }
        }
    }

    /// Converts the samples to another format; `None` if the block is not in `f32`.
    pub fn to_format(&self, format: SampleFormat) -> Option<Block> {
        let Samples::Single(from) = &self.samples else { return None };
        if format == SampleFormat::F32 {
            return Some(self.clone());
        }
        let scale = self.scale_in(format);
        let samples = match format {
            SampleFormat::I16 => {
                let mut to = Buffer::unfilled(from.len());
                to.iter_mut().zip(from.iter()).for_each(|(to, x)| *to = (x * scale).round_ties_even() as i16);
                Samples::Fixed(to)
            }
            _ => {
                let narrow = if format == SampleFormat::F16 { f16_from_f32 } else { bf16_from_f32 };
                let mut to = Buffer::unfilled(from.len());
                to.iter_mut().zip(from.iter()).for_each(|(to, x)| *to = narrow(x * scale));
                Samples::Half(to)
            }
        };
        let header = BlockHeader { format, scale, ..self.header };
        Some(Block { header, samples, positions: self.positions.clone(), squares: OnceLock::new() })
    }

    /// Returns the samples for the loops of [`zellige_kernels::distance`]. With `halves`, sums of
    /// samples in `f16` are also computed in `f16`.
    pub fn values(&self, halves: bool) -> Values<'_> {
        match &self.samples {
            Samples::Single(samples) => Values::F32(samples),
            Samples::Fixed(samples) => Values::I16(samples),
            Samples::Half(bits) if self.header.format == SampleFormat::Bf16 => Values::Bf16(bits),
            Samples::Half(bits) if halves => Values::Halves(bits),
            Samples::Half(bits) => Values::F16(bits),
        }
    }

    /// Returns the squared lengths of the points as they are stored, with padding. They are
    /// computed on first use and cached.
    pub(in crate::search) fn squares(&self) -> &[f32] {
        let squares = || squares(self.values(false), self.header.shape).expect("a block is whole");
        self.squares.get_or_init(squares)
    }

    /// Returns all samples of a block in `f32`, as they are stored.
    ///
    /// # Panics
    /// If the samples have another format.
    pub(in crate::search) fn singles(&self) -> &[f32] {
        let Samples::Single(samples) = &self.samples else { panic!("samples are not stored as f32") };
        samples
    }

    /// Returns a sample of a block in `f32`.
    ///
    /// # Panics
    /// If the samples have another format, or there is no such point or sample.
    pub fn sample(&self, point: usize, term: usize) -> f32 {
        self.singles()[place(point, term, self.header.shape)]
    }

    /// Copies up to sixteen points to the lanes of `few`, a block from [`few`](Block::few); lanes
    /// without a point keep their content.
    pub(in crate::search) fn gather(&self, points: &[usize], few: &mut Block) {
        let shape = self.header.shape;
        few.header = BlockHeader { points: LANES, ..self.header };
        few.squares.take();
        match (&self.samples, &mut few.samples) {
            (Samples::Single(from), Samples::Single(to)) => gather(from, shape, points, to),
            (Samples::Half(from), Samples::Half(to)) => gather(from, shape, points, to),
            (Samples::Fixed(from), Samples::Fixed(to)) => gather(from, shape, points, to),
            _ => unreachable!("a block of a few points has the format of the block that it was made for"),
        }
    }

    /// Allocates a block for [`gather`](Block::gather).
    pub(in crate::search) fn few(&self) -> Block {
        Block::blank(&BlockHeader { points: LANES, ..self.header })
    }
}

fn gather<T: Copy>(from: &[T], shape: Shape, points: &[usize], to: &mut [T]) {
    for (lane, &point) in points.iter().enumerate() {
        let block = &from[point / LANES * LANES * shape.terms()..][..LANES * shape.terms()];
        let terms = to.as_chunks_mut::<LANES>().0.iter_mut().zip(block.as_chunks::<LANES>().0);
        terms.for_each(|(to, from)| to[lane % LANES] = from[point % LANES]);
    }
}

impl BlockHeader {
    /// Returns the number of points of the block.
    pub(in crate::search) fn points(&self) -> usize {
        self.points
    }

    /// Returns the number of channels and samples.
    pub(in crate::search) fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the storage format of the samples.
    pub(in crate::search) fn format(&self) -> SampleFormat {
        self.format
    }

    /// Returns the stored value of a sample of 1.
    pub(in crate::search) fn scale(&self) -> f32 {
        self.scale
    }

    /// Returns the number of samples, with padding.
    fn stored(&self) -> usize {
        self.points.next_multiple_of(LANES) * self.shape.terms()
    }

    /// Returns the metadata; the size ignores the positions, a few bytes for each point.
    fn meta(&self) -> Meta {
        Meta { format: self.format.number(), bytes: self.stored() * self.format.bytes(), ..Meta::default() }
    }
}

impl Data for Block {
    type Ref<'v> = &'v Block;
    type Mut<'v> = &'v mut Block;

    fn view(&self) -> &Block {
        self
    }

    fn view_mut(&mut self) -> &mut Block {
        self
    }

    fn meta(&self) -> Meta {
        self.header.meta()
    }

    fn size_as(meta: &Meta, to: Format) -> Option<usize> {
        let (from, format) = (SampleFormat::of(meta.format)?, SampleFormat::of(to)?);
        Some(meta.bytes / from.bytes() * format.bytes())
    }

    fn format_name(format: Format) -> &'static str {
        match SampleFormat::of(format) {
            Some(SampleFormat::F32) => "f32",
            Some(SampleFormat::F16) => "f16",
            Some(SampleFormat::Bf16) => "bf16",
            Some(SampleFormat::I16) => "i16",
            None => "",
        }
    }

    fn convert(&self, to: Format) -> Option<Block> {
        self.to_format(SampleFormat::of(to)?)
    }

    fn portability() -> Option<Portability<Block>> {
        Some(Portability::of())
    }
}

impl Portable for Block {
    type Header = BlockHeader;

    fn header(&self) -> BlockHeader {
        self.header
    }

    fn blank(header: &BlockHeader) -> Block {
        let len = header.stored();
        let samples = match header.format {
            SampleFormat::F32 => Samples::Single(Buffer::zeroed(len)),
            SampleFormat::F16 | SampleFormat::Bf16 => Samples::Half(Buffer::zeroed(len)),
            SampleFormat::I16 => Samples::Fixed(Buffer::zeroed(len)),
        };
        let positions = Buffer::zeroed(3 * header.points);
        Block { header: *header, samples, positions, squares: OnceLock::new() }
    }

    fn part_sizes(header: &BlockHeader) -> Vec<usize> {
        vec![header.meta().bytes, 3 * size_of::<f32>() * header.points]
    }

    fn header_meta(header: &BlockHeader) -> Meta {
        header.meta()
    }

    fn parts(&self) -> Vec<&[u8]> {
        let samples = match &self.samples {
            Samples::Single(samples) => samples.as_bytes(),
            Samples::Half(samples) => samples.as_bytes(),
            Samples::Fixed(samples) => samples.as_bytes(),
        };
        vec![samples, self.positions.as_bytes()]
    }

    fn parts_mut(&mut self) -> Vec<&mut [u8]> {
        self.squares.take();
        let samples = match &mut self.samples {
            Samples::Single(samples) => samples.as_bytes_mut(),
            Samples::Half(samples) => samples.as_bytes_mut(),
            Samples::Fixed(samples) => samples.as_bytes_mut(),
        };
        vec![samples, self.positions.as_bytes_mut()]
    }
}
