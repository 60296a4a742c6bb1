//! Link data of all formats: matrices for each site and direction, site by site.

use zellige_kernels::sites::{Group, LANES, MatrixFormat};

use super::{ByteOrder, FieldFile};
use crate::error::Error;
use crate::gauge::Gauge;
use crate::geometry::{COLOURS, DIRECTIONS, Geometry};
use crate::su3::{C64, Matrix, ZERO, deviation, third_row};

/// Maximum deviation of a link from SU(3): data in 32 bits are within 1e-6.
pub const TOLERANCE: f64 = 1e-5;

const NAMES: [char; DIRECTIONS] = ['x', 'y', 'z', 't'];

/// Storage format of links.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkFormat {
    pub order: ByteOrder,
    /// Number of bits of a number: 32 or 64; 16 to 64 in packed links.
    pub precision: u32,
    pub numbers: Numbers,
}

/// Set of the stored numbers of a link.
#[derive(Clone, Copy, Debug)]
pub(super) enum Numbers {
    /// This number of rows in floating point: 3, or 2, from which the third is computed.
    Rows(usize),
    /// Numbers of a packed format, big-endian, in its own order, with steps for numbers of at
    /// most 1.
    Packed(MatrixFormat),
}

impl LinkFormat {
    /// Creates a format with all rows.
    pub const fn rows(order: ByteOrder, precision: u32) -> LinkFormat {
        LinkFormat { order, precision, numbers: Numbers::Rows(3) }
    }

    /// Creates a packed format.
    pub const fn packed(format: MatrixFormat) -> LinkFormat {
        let precision = 8 * format.number.bytes() as u32;
        LinkFormat { order: ByteOrder::Big, precision, numbers: Numbers::Packed(format) }
    }

    /// Returns the bytes of a link.
    pub fn bytes_of_link(self) -> usize {
        match self.numbers {
            Numbers::Rows(rows) => rows * COLOURS * 2 * self.precision as usize / 8,
            // Eight links have as many words of eight bytes.
            Numbers::Packed(format) => format.words(),
        }
    }

    /// Returns the bytes of a site.
    pub fn bytes_of_site(self) -> usize {
        DIRECTIONS * self.bytes_of_link()
    }

    /// Returns the bytes of a lattice.
    pub fn bytes(self, geometry: Geometry) -> u64 {
        self.bytes_of_site() as u64 * geometry.sites() as u64
    }

    /// Returns the maximum deviation of a stored link from SU(3).
    fn tolerance(self) -> f64 {
        match self.numbers {
            Numbers::Rows(_) => TOLERANCE,
            Numbers::Packed(format) => TOLERANCE.max(16.0 * format.number.unit_roundoff()),
        }
    }

    fn decode(self, bytes: &[u8]) -> Matrix {
        let rows = match self.numbers {
            Numbers::Rows(rows) => rows,
            Numbers::Packed(format) => return unpack(format, bytes),
        };
        let number = |i: usize| match self.precision {
            32 => {
                let four = bytes[4 * i..4 * i + 4].try_into().expect("four bytes");
                f64::from(f32::from_bits(self.order.u32(four)))
            }
            _ => {
                let eight = bytes[8 * i..8 * i + 8].try_into().expect("eight bytes");
                f64::from_bits(self.order.u64(eight))
            }
        };
        let mut link = ZERO;
        for (i, element) in link[..rows].iter_mut().flatten().enumerate() {
            *element = C64::new(number(2 * i), number(2 * i + 1));
        }
        if rows == 2 {
            link[2] = third_row(&link[0], &link[1]);
        }
        link
    }

    /// Returns the bytes of the links of a site: float32 or float64, big-endian, or packed.
    pub fn encode(self, links: &[Matrix; DIRECTIONS]) -> Vec<u8> {
        let elements = links.iter().flatten().flatten().flat_map(|z| [z.re, z.im]);
        match (self.numbers, self.precision) {
            (Numbers::Packed(format), _) => pack(format, links),
            (_, 32) => elements.flat_map(|x| (x as f32).to_be_bytes()).collect(),
            _ => elements.flat_map(f64::to_be_bytes).collect(),
        }
    }
}

/// Returns the group of one matrix of SU(3) for each of eight lanes, whose entries are at most 1.
fn lanes(format: MatrixFormat) -> Group {
    Group::new(format, 1, 1.0, 1.0)
}

fn pack(format: MatrixFormat, links: &[Matrix; DIRECTIONS]) -> Vec<u8> {
    let mut words = vec![0.0; format.words()];
    lanes(format).encode(&std::array::from_fn(|lane| bytemuck::cast(links[lane % DIRECTIONS])), &mut words);
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    let width = format.number.bytes();
    swap_to_big(bytes, width);
    let numbers: Vec<&[u8]> = bytes.chunks_exact(width).collect();
    (0..DIRECTIONS)
        .flat_map(|lane| numbers.iter().skip(lane).step_by(LANES))
        .copied()
        .flatten()
        .copied()
        .collect()
}

fn unpack(format: MatrixFormat, bytes: &[u8]) -> Matrix {
    let mut words = vec![0.0; format.words()];
    let width = format.number.bytes();
    let all: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    for (lanes, number) in all.chunks_exact_mut(width * LANES).zip(bytes.chunks_exact(width)) {
        lanes.chunks_exact_mut(width).for_each(|lane| lane.copy_from_slice(number));
    }
    swap_to_big(all, width);
    bytemuck::cast(lanes(format).matrices(&words)[0])
}

/// Converts numbers of `width` bytes from the order of the memory to big-endian, or back. Numbers
/// of three bytes begin with the lowest in the memory of any machine.
fn swap_to_big(bytes: &mut [u8], width: usize) {
    if cfg!(target_endian = "little") || width == 3 {
        bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
}

/// Reads the links of a lattice, which have to be in SU(3) unless they are `smeared`; `look` gets
/// the bytes of each site, in the order of the file.
pub(super) fn read(
    source: &mut FieldFile,
    geometry: Geometry,
    layout: LinkFormat,
    smeared: bool,
    mut look: impl FnMut(&[u8]),
) -> Result<Gauge, Error> {
    if source.left() < layout.bytes(geometry) {
        let problem = format!(
            "{} bytes of links instead of {}: the file is truncated",
            source.left(),
            layout.bytes(geometry)
        );
        return Err(source.wrong(problem));
    }
    let mut gauge = Gauge::constant(geometry, ZERO);
    let mut bytes = vec![0; layout.bytes_of_site()];
    for rank in 0..geometry.sites() {
        let at = coordinates(geometry, rank);
        let begin = source.offset;
        source.fill(&mut bytes, "the links")?;
        look(&bytes);
        for (direction, stored) in bytes.chunks_exact(layout.bytes_of_link()).enumerate() {
            let offset = begin + (direction * layout.bytes_of_link()) as u64;
            *gauge.link_mut(geometry.site(at), direction) = match smeared {
                true => finite_link(source, layout, stored, offset)?,
                false => link(source, layout, stored, offset, (at, direction))?,
            };
        }
    }
    Ok(gauge)
}

/// Decodes a smeared link from its bytes at an offset.
fn finite_link(source: &FieldFile, layout: LinkFormat, stored: &[u8], offset: u64) -> Result<Matrix, Error> {
    let link = layout.decode(stored);
    match link.iter().flatten().all(|z| z.is_finite()) {
        true => Ok(link),
        false => Err(Error::content(&source.path, Some(offset), "a link is not finite: the file is damaged")),
    }
}

/// Decodes a link from its bytes at an offset, if it is in SU(3).
pub(super) fn link(
    source: &FieldFile,
    layout: LinkFormat,
    stored: &[u8],
    offset: u64,
    place: ([usize; DIRECTIONS], usize),
) -> Result<Matrix, Error> {
    let link = layout.decode(stored);
    if let Some(problem) = problem(&link, layout.tolerance(), place) {
        let swapped = deviation(&LinkFormat { order: layout.order.other(), ..layout }.decode(stored));
        let why = match swapped <= TOLERANCE {
            true => "in the other byte order it is unitary: the data are swapped, the header is not",
            false => {
                "the file is damaged, or not a gauge field of SU(3) (smeared links are those of lqcd invert --long)"
            }
        };
        return Err(Error::content(&source.path, Some(offset), format!("{problem}: {why}")));
    }
    Ok(link)
}

/// Describes the problem of a link that is not in SU(3).
pub(super) fn problem(
    link: &Matrix,
    tolerance: f64,
    (at, direction): ([usize; DIRECTIONS], usize),
) -> Option<String> {
    let off = deviation(link);
    // A NaN is not in SU(3) either.
    (off > tolerance || off.is_nan()).then(|| {
        let name = NAMES[direction];
        format!(
            "the link of site {at:?} in direction {name} is not unitary with determinant 1 (off by {off:.1e})"
        )
    })
}

/// Returns the coordinates of a site from its index in a file.
pub(super) fn coordinates(geometry: Geometry, rank: usize) -> [usize; DIRECTIONS] {
    let [nx, ny, nz, _] = geometry.extents();
    [rank % nx, rank / nx % ny, rank / (nx * ny) % nz, rank / (nx * ny * nz)]
}

/// Returns the lattice of a header.
pub(super) fn geometry(source: &FieldFile, extents: [u64; DIRECTIONS]) -> Result<Geometry, Error> {
    // Values larger than any lattice stay too large.
    let extents = extents.map(|extent| usize::try_from(extent).unwrap_or(usize::MAX));
    Geometry::new(extents).map_err(|error| source.wrong(error.to_string()))
}
