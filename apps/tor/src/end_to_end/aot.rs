//! Telemetry in the AOT standard 2.0.0 (adaptive optics telemetry), a FITS file that the Python
//! package aotpy reads.
//!
//! Images are named in tables: `SLOPES_1` (frames, x and y, sub-apertures) and `MASK_1` of each
//! sensor, `COMMANDS_1` (frames, actuators) of each mirror. The standard knows one sensor for a
//! control loop: the first one stands there. Directions of stars are offsets of azimuth (x) and
//! elevation (y).

use super::telemetry::{FRAME_TIME_KEY, SAW_MIRROR_KEY, Telemetry, slopes_image};
use crate::Error;
use crate::files::fits::{self, BinaryTable, Card, Column, Hdu, Pixels};
use crate::geometry::{Geometry, SubApertures};
use crate::system::{GuideStar, LoopMode, StarKind, System};
use std::path::Path;

/// A table: name and columns, each with form (A text, J count, D number, Q list) and unit.
type Layout = (&'static str, &'static str);

const TIME: Layout = ("AOT_TIME", "UID:A TIMESTAMPS:Q:s FRAME_NUMBERS:Q:count");
const ATMOSPHERE: Layout = (
    "AOT_ATMOSPHERIC_PARAMETERS",
    "UID:A WAVELENGTH:D:m TIME_UID:A R0:Q:m SEEING:Q:arcsec TAU0:Q:s THETA0:Q:rad LAYERS_REL_WEIGHT:A \
     LAYERS_HEIGHT:A LAYERS_LO:A LAYERS_WIND_SPEED:A LAYERS_WIND_DIRECTION:A TRANSFORMATION_MATRIX:A",
);
const ABERRATIONS: Layout =
    ("AOT_ABERRATIONS", "UID:A MODES:A COEFFICIENTS:A X_OFFSETS:Q:rad Y_OFFSETS:Q:rad");
const TELESCOPES: Layout = (
    "AOT_TELESCOPES",
    "UID:A TYPE:A LATITUDE:D:deg LONGITUDE:D:deg ELEVATION:D:deg AZIMUTH:D:deg PARALLACTIC:D:deg PUPIL_MASK:A \
     PUPIL_ANGLE:D:rad ENCLOSING_D:D:m INSCRIBED_D:D:m OBSTRUCTION_D:D:m SEGMENT_TYPE:A SEGMENT_SIZE:D:m \
     SEGMENTS_X:Q:m SEGMENTS_Y:Q:m TRANSFORMATION_MATRIX:A ABERRATION_UID:A",
);
const SOURCES: Layout = (
    "AOT_SOURCES",
    "UID:A TYPE:A RIGHT_ASCENSION:D:deg DECLINATION:D:deg ELEVATION_OFFSET:D:deg AZIMUTH_OFFSET:D:deg FWHM:D:rad",
);
const LASERS: Layout = ("AOT_SOURCES_SODIUM_LGS", "UID:A HEIGHT:D:m PROFILE:A ALTITUDES:Q:m LLT_UID:A");
const DETECTORS: Layout = (
    "AOT_DETECTORS",
    "UID:A TYPE:A SAMPLING_TECHNIQUE:A SHUTTER_TYPE:A FLAT_FIELD:A READOUT_NOISE:D:electron*s^-1*pix^-1 \
     PIXEL_INTENSITIES:A FIELD_CENTRE_X:D:pix FIELD_CENTRE_Y:D:pix INTEGRATION_TIME:D:s COADDS:J:count DARK:A \
     WEIGHT_MAP:A QUANTUM_EFFICIENCY:D PIXEL_SCALE:D:rad*pix^-1 BINNING:J:count BANDWIDTH:D:m \
     TRANSMISSION_WAVELENGTH:Q:m TRANSMISSION:Q SKY_BACKGROUND:A GAIN:D:electron EXCESS_NOISE:D:electron FILTER:A \
     BAD_PIXEL_MAP:A DYNAMIC_RANGE:D:dB READOUT_RATE:D:pix*s^-1 FRAME_RATE:D:frame*s^-1 TRANSFORMATION_MATRIX:A",
);
const CAMERAS: Layout = (
    "AOT_SCORING_CAMERAS",
    "UID:A PUPIL_MASK:A WAVELENGTH:D:m TRANSFORMATION_MATRIX:A DETECTOR_UID:A ABERRATION_UID:A",
);
const SENSORS: Layout = (
    "AOT_WAVEFRONT_SENSORS",
    "UID:A TYPE:A SOURCE_UID:A DIMENSIONS:J:count N_VALID_SUBAPERTURES:J:count MEASUREMENTS:A REF_MEASUREMENTS:A \
     SUBAPERTURE_MASK:A MASK_X_OFFSETS:Q:pix MASK_Y_OFFSETS:Q:pix SUBAPERTURE_SIZE:D:pix SUBAPERTURE_INTENSITIES:A \
     WAVELENGTH:D:m OPTICAL_GAIN:A TRANSFORMATION_MATRIX:A DETECTOR_UID:A ABERRATION_UID:A NCPA_UID:A",
);
const SHACK_HARTMANNS: Layout =
    ("AOT_WAVEFRONT_SENSORS_SHACK_HARTMANN", "UID:A CENTROIDING_ALGORITHM:A CENTROID_GAINS:A SPOT_FWHM:A");
const CORRECTORS: Layout = (
    "AOT_WAVEFRONT_CORRECTORS",
    "UID:A TYPE:A TELESCOPE_UID:A N_VALID_ACTUATORS:J:count PUPIL_MASK:A TFZ_NUM:Q TFZ_DEN:Q \
     TRANSFORMATION_MATRIX:A ABERRATION_UID:A",
);
const MIRRORS: Layout =
    ("AOT_WAVEFRONT_CORRECTORS_DM", "UID:A ACTUATORS_X:Q:m ACTUATORS_Y:Q:m INFLUENCE_FUNCTION:A STROKE:D:m");
const LOOPS: Layout = (
    "AOT_LOOPS",
    "UID:A TYPE:A COMMANDED_UID:A TIME_UID:A STATUS:A COMMANDS:A REF_COMMANDS:A FRAMERATE:D:Hz DELAY:D:frame \
     TIME_FILTER_NUM:A TIME_FILTER_DEN:A",
);
const CONTROLS: Layout = (
    "AOT_LOOPS_CONTROL",
    "UID:A INPUT_SENSOR_UID:A MODES:A MODAL_COEFFICIENTS:A CONTROL_MATRIX:A MEASUREMENTS_TO_MODES:A \
     MODES_TO_COMMANDS:A INTERACTION_MATRIX:A COMMANDS_TO_MODES:A MODES_TO_MEASUREMENTS:A RESIDUAL_COMMANDS:A",
);

/// Value of a cell; others of its table are null.
enum Cell {
    Text(String),
    Count(usize),
    Number(f64),
}

/// Cells of a row by the name of their column.
type Row = Vec<(&'static str, Cell)>;

const TELESCOPE: &str = "Telescope";

fn text(value: impl Into<String>) -> Cell {
    Cell::Text(value.into())
}

fn row_reference(uid: &str) -> Cell {
    text(format!("ROWREF<{uid}>"))
}

fn image_reference(name: &str) -> Cell {
    text(format!("INTREF<{name}>"))
}

/// Makes a table.
fn table((name, columns): Layout, rows: &[Row]) -> BinaryTable {
    let column = |column: &'static str| {
        let mut parts = column.split(':');
        let (name, form) = (parts.next().unwrap_or(""), parts.next());
        let cells = rows.iter().map(|row| row.iter().find(|(key, _)| *key == name).map(|(_, cell)| cell));
        let values = match form {
            Some("D") => Column::Real(
                cells.map(|cell| if let Some(Cell::Number(v)) = cell { *v } else { f64::NAN }).collect(),
            ),
            Some("J") => Column::Integer(
                cells.map(|cell| if let Some(Cell::Count(v)) = cell { *v as i32 } else { 0 }).collect(),
            ),
            Some("Q") => Column::NoLists(rows.len()),
            _ => Column::Text(
                cells
                    .map(|cell| if let Some(Cell::Text(v)) = cell { v.clone() } else { String::new() })
                    .collect(),
            ),
        };
        (name, parts.next().unwrap_or(""), values)
    };
    BinaryTable { name, columns: columns.split_whitespace().map(column).collect(), cards: Vec::new() }
}

/// Returns the kind of adaptive optics, as the standard names it.
fn mode(telemetry: &Telemetry, system: &System) -> &'static str {
    let has_laser = system.stars.iter().any(|star| star.kind == StarKind::Lgs);
    match (system.stars.len(), telemetry.law.mode) {
        (1, _) if !has_laser => "SCAO",
        (1, _) => "SLAO",
        (_, LoopMode::Open) => "MOAO",
        _ if has_laser => "LTAO",
        _ => "GLAO",
    }
}

fn source(star: usize, of: &GuideStar) -> Row {
    let kind = match of.kind {
        StarKind::Lgs => "Sodium Laser Guide Star",
        StarKind::Ngs => "Natural Guide Star",
    };
    vec![
        ("UID", text(format!("Star {}", star + 1))),
        ("TYPE", text(kind)),
        ("AZIMUTH_OFFSET", Cell::Number(of.direction[0] / 3600.0)),
        ("ELEVATION_OFFSET", Cell::Number(of.direction[1] / 3600.0)),
    ]
}

fn sensor(star: usize, grid: &SubApertures) -> Row {
    vec![
        ("UID", text(format!("WFS {}", star + 1))),
        ("TYPE", text("Shack-Hartmann")),
        ("SOURCE_UID", row_reference(&format!("Star {}", star + 1))),
        ("DIMENSIONS", Cell::Count(2)),
        ("N_VALID_SUBAPERTURES", Cell::Count(grid.len())),
        ("MEASUREMENTS", image_reference(&slopes_image(star))),
        ("SUBAPERTURE_MASK", image_reference(&mask_image(star))),
    ]
}

fn mask_image(star: usize) -> String {
    format!("MASK_{}", star + 1)
}

/// Returns the number of each valid sub-aperture on the grid, -1 for others.
fn mask(grid: &SubApertures) -> Vec<f32> {
    let mut out = vec![-1.0; grid.nssp * grid.nssp];
    for (i, cell) in grid.cells.iter().enumerate() {
        out[usize::from(cell[0]) + grid.nssp * usize::from(cell[1])] = i as f32;
    }
    out
}

fn control_loop(mirror: usize, telemetry: &Telemetry) -> Row {
    let status = if telemetry.law.mode.sees_mirror() { "Closed" } else { "Open" };
    vec![
        ("UID", text(format!("Loop {}", mirror + 1))),
        ("TYPE", text("Control Loop")),
        ("COMMANDED_UID", row_reference(&format!("DM {}", mirror + 1))),
        ("STATUS", text(status)),
        ("COMMANDS", image_reference(&commands_image(mirror))),
        ("FRAMERATE", Cell::Number(1.0 / telemetry.frame_time)),
        ("DELAY", Cell::Number(telemetry.law.delay as f64)),
    ]
}

fn commands_image(mirror: usize) -> String {
    format!("COMMANDS_{}", mirror + 1)
}

fn tables(telemetry: &Telemetry, system: &System, geometry: &Geometry) -> Vec<BinaryTable> {
    let uid = |name: &str, k: usize| ("UID", text(format!("{name} {}", k + 1)));
    let mirrors = 0..telemetry.commands.len();
    let telescope = vec![
        ("UID", text(TELESCOPE)),
        ("TYPE", text("Main Telescope")),
        ("SEGMENT_TYPE", text("Monolithic")),
        ("ENCLOSING_D", Cell::Number(system.diameter)),
        ("OBSTRUCTION_D", Cell::Number(system.diameter * system.obstruction)),
    ];
    let stars = system.stars.iter().enumerate();
    let lasers = stars.clone().filter(|(_, star)| star.kind == StarKind::Lgs);
    let laser = |(k, star): (usize, &GuideStar)| {
        vec![uid("Star", k), ("HEIGHT", Cell::Number(1.0 / star.inverse_altitude))]
    };
    let corrector = |k: usize| {
        let actuators = telemetry.commands[k].len() / telemetry.frames;
        vec![
            uid("DM", k),
            ("TYPE", text("Deformable Mirror")),
            ("TELESCOPE_UID", row_reference(TELESCOPE)),
            ("N_VALID_ACTUATORS", Cell::Count(actuators)),
        ]
    };
    let sensors = geometry.sensors().iter().enumerate();
    let control = |k| vec![uid("Loop", k), ("INPUT_SENSOR_UID", row_reference("WFS 1"))];
    let mut out = vec![
        table(TIME, &[]),
        table(ATMOSPHERE, &[]),
        table(ABERRATIONS, &[]),
        table(TELESCOPES, &[telescope]),
        table(SOURCES, &stars.map(|(k, star)| source(k, star)).collect::<Vec<_>>()),
        table(DETECTORS, &[]),
        table(CAMERAS, &[]),
        table(SENSORS, &sensors.clone().map(|(k, grid)| sensor(k, grid)).collect::<Vec<_>>()),
        table(SHACK_HARTMANNS, &sensors.map(|(k, _)| vec![uid("WFS", k)]).collect::<Vec<_>>()),
        table(CORRECTORS, &mirrors.clone().map(corrector).collect::<Vec<_>>()),
        table(MIRRORS, &mirrors.clone().map(|k| vec![uid("DM", k)]).collect::<Vec<_>>()),
        table(LOOPS, &mirrors.clone().map(|k| control_loop(k, telemetry)).collect::<Vec<_>>()),
        table(CONTROLS, &mirrors.map(control).collect::<Vec<_>>()),
    ];
    let lasers: Vec<Row> = lasers.map(laser).collect();
    if !lasers.is_empty() {
        out.push(table(LASERS, &lasers));
    }
    out
}

/// Writes telemetry.
///
/// # Errors
/// The file cannot be written. No partial file remains.
pub(super) fn write(
    path: &Path,
    telemetry: &Telemetry,
    system: &System,
    geometry: &Geometry,
) -> Result<(), Error> {
    let frames = telemetry.frames;
    let mut primary = vec![
        Card::new("AOT-VERS", "2.0.0", "adaptive optics telemetry standard"),
        Card::new("TIMESYS", "UTC", ""),
        Card::new("AO-MODE", mode(telemetry, system), ""),
    ];
    primary.extend(fits::provenance_cards());
    let mut images = vec![Hdu { name: String::new(), pixels: Pixels::None, axes: &[], cards: primary }];
    let masks: Vec<Vec<f32>> = geometry.sensors().iter().map(mask).collect();
    for (star, ((grid, mask), slopes)) in
        geometry.sensors().iter().zip(&masks).zip(&telemetry.slopes).enumerate()
    {
        images.push(Hdu {
            name: slopes_image(star),
            pixels: Pixels::F32 { shape: vec![frames, 2, grid.len()], values: slopes },
            axes: &["frames", "x, y", "sub-apertures"],
            cards: vec![
                Card::new("BUNIT", "arcsec", ""),
                Card::new(FRAME_TIME_KEY, telemetry.frame_time, "[s] between frames"),
                Card::new(SAW_MIRROR_KEY, telemetry.law.mode.sees_mirror(), "the sensor saw the mirror"),
            ],
        });
        images.push(Hdu {
            name: mask_image(star),
            pixels: Pixels::F32 { shape: vec![grid.nssp; 2], values: mask },
            axes: &["y", "x"],
            cards: Vec::new(),
        });
    }
    for (mirror, commands) in telemetry.commands.iter().enumerate() {
        images.push(Hdu {
            name: commands_image(mirror),
            pixels: Pixels::F32 { shape: vec![frames, commands.len() / frames], values: commands },
            axes: &["frames", "actuators"],
            cards: vec![Card::new("BUNIT", "V", "")],
        });
    }
    fits::write(path, &images, &tables(telemetry, system, geometry))
}
