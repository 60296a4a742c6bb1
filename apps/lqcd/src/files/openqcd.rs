//! Configurations that openQCD exports (`export_cnfg`).
//!
//! All numbers are little-endian.
//!
//! | byte | what |
//! | --- | --- |
//! | 0 | extents `N0`, `N1`, `N2`, `N3` in t, x, y and z, 32 bits each |
//! | 16 | mean of `Re tr` of the plaquettes, float64: 3 for unit matrices |
//! | 24 | for each odd point eight matrices in float64, row by row: the links forwards and backwards in t, x, y and z |
//!
//! Points are in the order of `z + N3 (y + N2 (x + N1 t))`. The backward link is that of the
//! neighbour, which ends at the point. PyQUDA writes the extents in the order t, z, y, x, for data
//! in the order t, x, y, z. If the plaquette matches in that order only, it is used.

use super::links::{self, LinkFormat};
use super::{ByteOrder, FieldFile, Lattice};
use crate::error::Error;
use crate::gauge::Gauge;
use crate::geometry::{DIRECTIONS, Geometry, T};
use crate::observables::plaquettes;
use crate::su3::ZERO;

/// Size of a header in bytes.
const HEADER: usize = 24;

/// Maximum extent.
const MOST: u32 = 1 << 12;

/// Tolerance for the plaquette, for rounding errors of sums.
const MEASURED: f64 = 1e-10;

/// Number of links at a point.
const LINKS: usize = 2 * DIRECTIONS;

const LAYOUT: LinkFormat = LinkFormat::rows(ByteOrder::Little, 64);

/// Contents of a header.
pub(super) struct Header {
    /// Extents in t, x, y, z.
    extents: [u64; DIRECTIONS],
    /// Mean plaquette; 1 for unit matrices.
    plaquette: f64,
}

/// Reads the header, if the file begins like one of openQCD, which has no magic number. Afterwards
/// the source is after the header, or at the beginning.
pub(super) fn header(source: &mut FieldFile) -> Result<Option<Header>, Error> {
    let first = source.beginning(HEADER)?;
    let Ok(first) = <[u8; HEADER]>::try_from(first) else { return Ok(None) };
    let word = |at: usize| u32::from_le_bytes(first[at..at + 4].try_into().expect("four bytes"));
    let extents = [0, 4, 8, 12].map(word);
    let sum = f64::from_le_bytes(first[16..].try_into().expect("eight bytes"));
    if !(extents.iter().all(|extent| (1..=MOST).contains(extent)) && sum.abs() <= 3.0 + MEASURED) {
        return Ok(None);
    }
    source.back_to(HEADER as u64)?;
    Ok(Some(Header { extents: extents.map(u64::from), plaquette: sum / 3.0 }))
}

/// Reads the file after its header.
pub(super) fn read(mut source: FieldFile, header: Header) -> Result<Lattice, Error> {
    let [t, x, y, z] = header.extents;
    let geometry = links::geometry(&source, [x, y, z, t])?;
    source.expect_left(LAYOUT.bytes(geometry), "this lattice, if it is openQCD's,")?;
    let mut gauge = field(&mut source, geometry)?;
    let own = plaquettes(&gauge).mean();
    let mut description = "plaquette as in the header";
    if (own - header.plaquette).abs() > MEASURED {
        let mut others = String::new();
        if x != z {
            source.back_to(HEADER as u64)?;
            let turned = links::geometry(&source, [z, y, x, t])?;
            gauge = field(&mut source, turned)?;
            others = format!(" ({:.12} with extents in the order t, z, y, x)", plaquettes(&gauge).mean());
            description = "plaquette as in the header, whose extents are in the order t, z, y, x";
        }
        if x == z || (plaquettes(&gauge).mean() - header.plaquette).abs() > MEASURED {
            return Err(source.wrong_all(format!(
                "the plaquette of the links is {own:.12}{others}, the header has {:.12}: the file is damaged, or its field has other than periodic boundaries, which are not supported",
                header.plaquette
            )));
        }
    }
    Ok(Lattice {
        gauge,
        format: "openqcd",
        byte_order: ByteOrder::Little,
        precision: 64,
        packed: None,
        checksum: None,
        description: description.into(),
    })
}

/// Reads the links of a lattice.
fn field(source: &mut FieldFile, geometry: Geometry) -> Result<Gauge, Error> {
    let [nx, ny, nz, nt] = geometry.extents();
    let mut gauge = Gauge::constant(geometry, ZERO);
    let mut bytes = vec![0; LINKS * LAYOUT.bytes_of_link()];
    for rank in 0..nx * ny * nz * nt {
        let at = [rank / (nz * ny) % nx, rank / nz % ny, rank % nz, rank / (nz * ny * nx)];
        if at.iter().sum::<usize>() % 2 == 0 {
            continue;
        }
        let (begin, site) = (source.offset, geometry.site(at));
        source.fill(&mut bytes, "the links")?;
        for (k, stored) in bytes.chunks_exact(LAYOUT.bytes_of_link()).enumerate() {
            let direction = [T, 0, 1, 2][k / 2];
            let from = if k % 2 == 0 { site } else { geometry.neighbour(site, direction, -1) };
            let offset = begin + (k * LAYOUT.bytes_of_link()) as u64;
            if direction == T && stored.iter().all(|byte| *byte == 0) {
                let problem = "a link in time is zero, as with open boundary conditions: only periodic fields are supported";
                return Err(Error::content(&source.path, Some(offset), problem));
            }
            let place = (geometry.coordinates(from), direction);
            *gauge.link_mut(from, direction) = links::link(source, LAYOUT, stored, offset, place)?;
        }
    }
    Ok(gauge)
}
