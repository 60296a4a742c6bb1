//! Systems of programs with unsupported file formats. The error names the program and explains how
//! to transfer the values.

use crate::Error;
use std::path::Path;

/// A program: at least `least` of these words occur in its files. `values` explains how to transfer
/// its values.
struct ForeignFormat {
    what: &'static str,
    words: &'static [&'static str],
    least: usize,
    values: &'static str,
}

const KINDS: [ForeignFormat; 4] = [
    ForeignFormat {
        what: "a configuration of soapy",
        words: &[
            "Atmosphere:",
            "Telescope:",
            "WFS:",
            "scrnHeights:",
            "scrnStrengths:",
            "telDiam:",
            "nxSubaps:",
            "GSPosition:",
        ],
        least: 3,
        values: "Telescope telDiam, obsDiam / telDiam; WFS nxSubaps, GSPosition, GSHeight; Atmosphere r0 (500 nm), scrnHeights, scrnStrengths, L0",
    },
    ForeignFormat {
        what: "a simulation of SPECULA",
        words: &[
            "class:",
            "SimulParams",
            "AtmoEvolution",
            "pixel_pupil:",
            "pixel_pitch:",
            "polar_coordinates:",
            "class_name:",
        ],
        least: 2,
        values: "main pixel_pupil x pixel_pitch (m), sources polar_coordinates (arcsec, degrees) and height; AtmoEvolution heights, Cn2, L0; seeing (r0 = 0.976 x 500 nm / seeing in rad)",
    },
    ForeignFormat {
        what: "parameters of OOPAO",
        words: &[
            "'diameter'",
            "'nSubaperture'",
            "'nPixelPerSubap'",
            "'resolution'",
            "'r0'",
            "'fractionnalR0'",
            "'altitude'",
            "'windSpeed'",
        ],
        least: 3,
        values: "diameter, centralObstruction, nSubaperture; r0 (500 nm, along the line of sight), fractionnalR0, altitude, L0; lightThreshold is sensors.illumination",
    },
    ForeignFormat {
        what: "parameters of TIPTOP",
        words: &[
            "[telescope]",
            "[sources_science]",
            "[sources_HO]",
            "[sensor_HO]",
            "TelescopeDiameter",
            "ObscurationRatio",
            "Cn2Weights",
            "Cn2Heights",
            "NumberLenslets",
        ],
        least: 3,
        values: "TelescopeDiameter, ObscurationRatio, ZenithAngle; sources_HO Zenith and Azimuth (polar), Height; NumberLenslets; Seeing (r0 = 0.976 x Wavelength / Seeing in rad), Cn2Weights, Cn2Heights, L0",
    },
];

/// Returns an error that names the program, if the file is from one of these.
pub(super) fn named(file: &Path, text: &str) -> Option<Error> {
    let plain = text.replace('"', "'");
    let holds =
        |kind: &&ForeignFormat| kind.words.iter().filter(|word| plain.contains(**word)).count() >= kind.least;
    let kind = KINDS.iter().find(holds)?;
    Some(Error::Parameter {
        file: file.to_owned(),
        line: None,
        key: "format".into(),
        problem: format!("{}, which is not supported", kind.what),
        remedy: format!("put its values into the file that `zellige tor example` prints: {}", kind.values),
    })
}

/// Returns an error that names the format, for known binary files.
pub(super) fn named_bytes(file: &Path, bytes: &[u8]) -> Option<Error> {
    if !bytes.starts_with(b"SIMPLE  =") {
        return None;
    }
    let is_aot = bytes
        .chunks(80)
        .take_while(|card| !card.starts_with(b"END "))
        .any(|card| card.starts_with(b"AOT-VERS"));
    let what = if is_aot { "an AOT file (FITS of telemetry)" } else { "a FITS file" };
    Some(Error::Parameter {
        file: file.to_owned(),
        line: None,
        key: "format".into(),
        problem: format!("{what}, which is not supported as a system"),
        remedy: "put the values of its telescope, sources and atmosphere into the file that `zellige tor example` prints; matrices in it are read by \
                 tor eval --rec FILE.fits/NAME"
            .into(),
    })
}
