//! Link data of all formats: matrices for each site and direction, site by site.

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
    /// Number of bits of a number: 32 or 64.
    pub precision: u32,
    /// Number of rows of a matrix: 3, or 2, from which the third is computed.
    pub rows: usize,
}

impl LinkFormat {
    /// Returns the bytes of a link.
    pub fn bytes_of_link(self) -> usize {
        self.rows * COLOURS * 2 * self.precision as usize / 8
    }

    /// Returns the bytes of a site.
    pub fn bytes_of_site(self) -> usize {
        DIRECTIONS * self.bytes_of_link()
    }

    /// Returns the bytes of a lattice.
    pub fn bytes(self, geometry: Geometry) -> u64 {
        self.bytes_of_site() as u64 * geometry.sites() as u64
    }

    fn decode(self, bytes: &[u8]) -> Matrix {
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
        for (i, element) in link[..self.rows].iter_mut().flatten().enumerate() {
            *element = C64::new(number(2 * i), number(2 * i + 1));
        }
        if self.rows == 2 {
            link[2] = third_row(&link[0], &link[1]);
        }
        link
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
    if let Some(problem) = problem(&link, place) {
        let swapped = deviation(&LinkFormat { order: layout.order.other(), ..layout }.decode(stored));
        let why = match swapped <= TOLERANCE {
            true => "in the other byte order it is unitary: the data are swapped, the header is not",
            false => "the file is damaged, or not a gauge field of SU(3)",
        };
        return Err(Error::content(&source.path, Some(offset), format!("{problem}: {why}")));
    }
    Ok(link)
}

/// Describes the problem of a link that is not in SU(3).
pub(super) fn problem(link: &Matrix, (at, direction): ([usize; DIRECTIONS], usize)) -> Option<String> {
    let off = deviation(link);
    // A NaN is not in SU(3) either.
    (off > TOLERANCE || off.is_nan()).then(|| {
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
