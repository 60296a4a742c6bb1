//! Arrays of links in NumPy's npy files, complex128 or complex64.
//!
//! | shape | order |
//! | --- | --- |
//! | `(4, T, Z, Y, X, 3, 3)` | that of PyQUDA's arrays and npy files: directions x, y, z, t |
//! | `(T, Z, Y, X, 4, 3, 3)` | that of ILDG's data, which lyncs-io reads: directions x, y, z, t |
//! | `(T, X, Y, Z, 4, 3, 3)` | that of openQCD's fields, which lyncs-io reads: directions t, x, y, z |
//!
//! The first order that the shape allows is taken, unless the plaquette of another possible order
//! is larger by 0.1. Links in a wrong order are unitary as well, but have plaquettes near 0. The
//! description names the order.

use num_complex::Complex;
use zellige_files::array::Array;

use super::links;
use super::{ByteOrder, FieldFile, Lattice};
use crate::error::Error;
use crate::gauge::Gauge;
use crate::geometry::{COLOURS, DIRECTIONS, Geometry, T};
use crate::observables::plaquettes;
use crate::su3::{C64, Matrix, ZERO};

/// Margin by which the plaquette of one order has to exceed those of the others to decide for it.
const LARGER: f64 = 0.1;

/// Number of entries of a link.
const LINK: usize = COLOURS * COLOURS;

/// An order of links.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    PyQuda,
    Ildg,
    OpenQcd,
}

impl Order {
    const ALL: [Order; 3] = [Order::PyQuda, Order::Ildg, Order::OpenQcd];

    const fn shape(self) -> &'static str {
        match self {
            Order::PyQuda => "(4, T, Z, Y, X, 3, 3)",
            Order::Ildg => "(T, Z, Y, X, 4, 3, 3)",
            Order::OpenQcd => "(T, X, Y, Z, 4, 3, 3), direction t first",
        }
    }

    /// Returns the extents in x, y, z, t of an array with these sides; `None` for another order.
    fn extents(self, sides: &[usize]) -> Option<[usize; DIRECTIONS]> {
        match (self, sides) {
            (Order::PyQuda, &[DIRECTIONS, t, z, y, x, COLOURS, COLOURS])
            | (Order::Ildg, &[t, z, y, x, DIRECTIONS, COLOURS, COLOURS])
            | (Order::OpenQcd, &[t, x, y, z, DIRECTIONS, COLOURS, COLOURS]) => Some([x, y, z, t]),
            _ => None,
        }
    }

    /// Returns the index in the array of the link of a site and direction.
    fn at(self, geometry: Geometry, [x, y, z, t]: [usize; DIRECTIONS], direction: usize) -> usize {
        let [nx, ny, nz, _] = geometry.extents();
        let site = x + nx * (y + ny * (z + nz * t));
        match self {
            Order::PyQuda => direction * geometry.sites() + site,
            Order::Ildg => DIRECTIONS * site + direction,
            Order::OpenQcd => {
                let site = z + nz * (y + ny * (x + nx * t));
                DIRECTIONS * site + if direction == T { 0 } else { direction + 1 }
            }
        }
    }
}

/// Reads an npy file.
pub(super) fn read(mut source: FieldFile) -> Result<Lattice, Error> {
    let array = Array::open(&source.path)?;
    let header = source.beginning(array.begin() as usize)?;
    let is_big = header.windows(2).any(|two| two == b">c");
    let sides = array.sides().to_owned();
    let orders: Vec<(Order, [usize; DIRECTIONS])> =
        Order::ALL.into_iter().filter_map(|order| Some((order, order.extents(&sides)?))).collect();
    if orders.is_empty() {
        let shapes = Order::ALL.map(Order::shape).join(", ");
        let problem = format!("an array of shape {sides:?}: gauge fields are {shapes}");
        return Err(source.wrong_all(problem));
    }
    // An invalid lattice is refused before its links are read.
    for (_, extents) in &orders {
        links::geometry(&source, extents.map(|extent| extent as u64))?;
    }
    let (begin, array) = (array.begin(), array.of(&["c16", "c8"], sides.len())?);
    let precision = if array.kind() == "c16" { 64 } else { 32 };
    let values: Vec<C64> = match precision {
        64 => array.values()?,
        _ => {
            let wide = |z: Complex<f32>| C64::new(z.re.into(), z.im.into());
            array.values::<Complex<f32>>()?.into_iter().map(wide).collect()
        }
    };
    let mut found: Option<(Order, Gauge, f64)> = None;
    for (order, extents) in orders {
        let geometry = links::geometry(&source, extents.map(|extent| extent as u64))?;
        let gauge = field(&source, begin, &values, geometry, order, precision)?;
        let plaquette = plaquettes(&gauge).mean();
        if found.as_ref().is_none_or(|(_, _, before)| plaquette > before + LARGER) {
            found = Some((order, gauge, plaquette));
        }
    }
    let (order, gauge, _) = found.ok_or_else(|| source.wrong_all("no links"))?;
    Ok(Lattice {
        gauge,
        format: "npy",
        byte_order: if is_big { ByteOrder::Big } else { ByteOrder::Little },
        precision,
        packed: None,
        checksum: None,
        description: format!("read as {}", order.shape()),
    })
}

/// Returns the links of a lattice in an order.
fn field(
    source: &FieldFile,
    begin: u64,
    values: &[C64],
    geometry: Geometry,
    order: Order,
    precision: u32,
) -> Result<Gauge, Error> {
    let mut gauge = Gauge::constant(geometry, ZERO);
    for rank in 0..geometry.sites() {
        let at = links::coordinates(geometry, rank);
        for direction in 0..DIRECTIONS {
            let place = order.at(geometry, at, direction);
            let mut link: Matrix = ZERO;
            let stored = &values[LINK * place..LINK * (place + 1)];
            link.iter_mut().flatten().zip(stored).for_each(|(element, stored)| *element = *stored);
            if let Some(problem) = links::problem(&link, links::TOLERANCE, (at, direction)) {
                let offset = begin + (LINK * place) as u64 * u64::from(precision) / 4;
                let problem = format!("{problem}: the file is damaged, or not a gauge field of SU(3)");
                return Err(Error::content(&source.path, Some(offset), problem));
            }
            *gauge.link_mut(geometry.site(at), direction) = link;
        }
    }
    Ok(gauge)
}
