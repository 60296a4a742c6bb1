//! FITS images: a small writer of our own and a reader on top of `fitsrs`.
//!
//! A matrix is stored row after row (`NAXIS1` = columns, `NAXIS2` = rows), so that astropy shows an array of shape
//! `(rows, cols)`. Numbers are IEEE, big-endian; HDUs are padded to 2880 bytes (FITS standard 4.0, sections 3 and 4).

mod read;
mod write;

pub use read::{Image, KeyValue, read, read_matrix};
pub use write::{Card, CardValue, Hdu, Pixels, write};

use crate::files::SlopeOrder;
use crate::geometry::Geometry;
use crate::params::{Atmosphere, StarKind, System};

/// The keywords that every product of a system carries: `NMEAS`, `NTS`, `NSSP`, `DIAM`, `R0`, `LGSCST`, `UNITS`, `WFSORDER`,
/// `SLOPEORD`.
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
        Card::new("R0", atmosphere.r0(), "[m] Fried parameter at 500 nm"),
        Card::new("LGSCST", system.lgs_cst, "[arcsec2] LGS tip-tilt variance"),
        Card::new("UNITS", "arcsec", "unit of the slopes"),
        Card::new("WFSORDER", format!("{lgs} LGS, {} NGS", system.stars.len() - lgs), "sensors in order"),
        Card::new("SLOPEORD", order.name(), "order of the slopes in a sensor"),
    ]
}

/// The keywords of a reconstructor: `PRECRULE`, and `BACKERR` and `STREHL` where they are known.
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
