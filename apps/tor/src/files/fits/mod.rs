//! FITS images: a small writer, and a reader based on `fitsrs`.
//!
//! A matrix is stored row after row (`NAXIS1` = columns, `NAXIS2` = rows), so that astropy shows an
//! array of shape `(rows, cols)`. Numbers are IEEE, big-endian; HDUs are padded to 2880 bytes (FITS
//! standard 4.0, sections 3 and 4).

mod read;
mod write;

pub use read::{Image, KeyValue, has_image, is_fits, names_image, read, read_matrix};
pub use write::{BinaryTable, Card, CardValue, Column, Hdu, Pixels, write};

use crate::files::SlopeOrder;
use crate::geometry::{Geometry, SubApertures};
use crate::system::{Atmosphere, StarKind, System};
use std::time::SystemTime;

/// Returns the cards for the program that made a file and its date: `CREATOR`, `DATE` (UTC).
pub fn provenance_cards() -> Vec<Card> {
    // A clock before 1970 gives no useful date, and the library refuses it.
    let now = SystemTime::now().max(SystemTime::UNIX_EPOCH);
    let date = humantime::format_rfc3339_seconds(now).to_string();
    vec![
        Card::new("CREATOR", concat!("zellige ", env!("CARGO_PKG_VERSION")), "program that wrote this file"),
        Card::new("DATE", date.trim_end_matches('Z'), "UTC"),
    ]
}

/// Returns the guide stars as table `STARS`, one row each in the order of the sensors.
pub fn stars_table(system: &System) -> BinaryTable {
    let stars = &system.stars;
    let real = |of: &dyn Fn(&crate::system::GuideStar) -> f64| Column::Real(stars.iter().map(of).collect());
    let kind = |kind| if kind == StarKind::Lgs { "LGS".to_owned() } else { "NGS".to_owned() };
    BinaryTable {
        name: "STARS",
        columns: vec![
            ("WFS", "", Column::Integer((0..stars.len() as i32).collect())),
            ("KIND", "", Column::Text(stars.iter().map(|star| kind(star.kind)).collect())),
            ("X", "arcsec", real(&|star| star.direction[0])),
            ("Y", "arcsec", real(&|star| star.direction[1])),
            ("ALTITUDE", "m", real(&|star| 1.0 / star.inverse_altitude)),
            ("MAGNITUDE", "mag", real(&|star| star.magnitude.unwrap_or(f64::NAN))),
            ("NSSP", "", Column::Integer(stars.iter().map(|star| star.nssp as i32).collect())),
        ],
        cards: Vec::new(),
    }
}

/// Returns the sub-apertures as table `GEOMETRY`, one row each. `WFS` counts the sensors from 0, -1
/// is the truth sensor. `XSLOPE` and `YSLOPE` are the indices of its slopes among the measurements
/// (for the truth sensor among its slopes), from 0, in the file's order.
pub fn geometry_table(geometry: &Geometry, order: SlopeOrder) -> BinaryTable {
    let (mut wfs, mut places) = (Vec::new(), [Vec::new(), Vec::new()]);
    let (mut cells, mut slopes) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    let mut add = |sensor: i32, grid: &SubApertures, start: usize| {
        for i in 0..grid.len() {
            wfs.push(sensor);
            let (centre, cell) = (grid.centre(i), grid.cells[i]);
            for axis in 0..2 {
                places[axis].push(centre[axis]);
                cells[axis].push(i32::from(cell[axis]));
                let at = match order {
                    SlopeOrder::Xxyy => axis * grid.len() + i,
                    SlopeOrder::Xyxy => 2 * i + axis,
                };
                slopes[axis].push((start + at) as i32);
            }
        }
    };
    let starts = geometry.blocks().iter().step_by(2).map(|block| block.start);
    for (sensor, (grid, start)) in geometry.sensors().iter().zip(starts).enumerate() {
        add(sensor as i32, grid, start);
    }
    add(-1, geometry.truth(), 0);
    let ([x, y], [column, row], [x_slope, y_slope]) = (places, cells, slopes);
    BinaryTable {
        name: "GEOMETRY",
        columns: vec![
            ("WFS", "", Column::Integer(wfs)),
            ("X", "m", Column::Real(x)),
            ("Y", "m", Column::Real(y)),
            ("COLUMN", "", Column::Integer(column)),
            ("ROW", "", Column::Integer(row)),
            ("XSLOPE", "", Column::Integer(x_slope)),
            ("YSLOPE", "", Column::Integer(y_slope)),
        ],
        cards: Vec::new(),
    }
}

/// Returns the keywords of every product of a system: `NMEAS`, `NTS`, `NSSP`, `DIAM`, `OBSTRUCT`,
/// `ZENITH`, `R0`, `LGSCST`, `LAG`, `WAVELEN`, `UNITS`, `WFSORDER`, `SLOPEORD`.
pub fn system_cards(
    system: &System,
    atmosphere: &Atmosphere,
    geometry: &Geometry,
    order: SlopeOrder,
) -> Vec<Card> {
    let lgs = system.stars.iter().filter(|s| s.kind == StarKind::Lgs).count();
    vec![
        Card::new("NMEAS", geometry.measurements(), "measurements"),
        Card::new("NTS", geometry.truth_slopes(), "truth-sensor slopes"),
        Card::new("NSSP", system.nssp, "sub-apertures across"),
        Card::new("DIAM", system.diameter, "[m] telescope diameter"),
        Card::new("OBSTRUCT", system.obstruction, "obstruction, of the diameter"),
        Card::new("ZENITH", system.zenith_angle, "[deg] zenith angle, applied"),
        Card::new("R0", atmosphere.r0(), "[m] Fried parameter at 500 nm"),
        Card::new("LGSCST", system.lgs_cst, "[arcsec2] LGS tip-tilt variance"),
        Card::new("LAG", system.lag, "[s] from measurements to target"),
        Card::new("WAVELEN", system.wavelength, "[m] wavelength of images"),
        Card::new("UNITS", "arcsec", "unit of the slopes"),
        Card::new("WFSORDER", format!("{lgs} LGS, {} NGS", system.stars.len() - lgs), "sensors in order"),
        Card::new("SLOPEORD", order.name(), "order of the slopes in a sensor"),
    ]
}

/// Returns the keywords of a reconstructor: `PRECRULE`, and `BACKERR` and `STREHL` if they are
/// known.
pub fn reconstructor_cards(
    precision_rule: &str,
    backward_error: Option<f64>,
    strehl: Option<f64>,
) -> Vec<Card> {
    let mut cards = vec![Card::new("PRECRULE", precision_rule, "precision rule")];
    cards.extend(backward_error.map(|v| Card::new("BACKERR", v, "relative backward error of the factor")));
    cards.extend(strehl.map(|v| Card::new("STREHL", v, "Strehl ratio (stationary)")));
    cards
}
