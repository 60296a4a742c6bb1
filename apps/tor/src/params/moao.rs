//! MOAO's text files: one comment line before every value line, fixed order, vectors on one line.

use super::check;
use super::entries::{Cursor, Entry};
use super::{Mode, Warning};
use crate::Error;
use crate::system::{
    AngleUnit, Atmosphere, GuideStar, Layer, LoopModel, MAX_LAYERS, MAX_NSSP, MAX_STARS, MAX_TARGETS,
    MirrorModel, NoiseModel, Photometry, StarKind, System, Valid,
};
use std::path::Path;

const DIAMETER: Entry = ("diameter", "telescope.diameter", &["tel diam"]);
const OBSTRUCTION: Entry = ("central obstruction", "telescope.obstruction", &["cent obs"]);
const FRAME: Entry = ("frame time", "photometry.frame_time", &["tframe"]);
const N_WFS: Entry = ("N WFS", "guide_star", &["n wfs"]);
const N_LGS: Entry = ("nlgs", "guide_star.kind", &["nlgs"]);
const N_TARGET: Entry = ("nTarget", "imaging.targets", &["ntarget"]);
const NSSP: Entry = ("Nssp", "sensors.nssp", &["nssp"]);
const GS_ALT: Entry = ("GsAlt", "guide_star.altitude", &["gsalt"]);
const TYPE: Entry = ("type", "guide_star.type", &["type"]);
const ALPHA_X: Entry = ("alphaX", "guide_star.x", &["alphax"]);
const ALPHA_Y: Entry = ("alphaY", "guide_star.y", &["alphay"]);
const X_PUP: Entry = ("XPup", "guide_star.pupil_shift", &["xpup"]);
const Y_PUP: Entry = ("YPup", "guide_star.pupil_shift_y", &["ypup"]);
const THETA_ML: Entry = ("thetaML", "guide_star.rotation", &["thetaml"]);
const THETA_CAM: Entry = ("thetaCam", "theta_cam", &["thetacam"]);
const SENSITIVITY: Entry = ("sensitivity", "sensitivity", &["sensib", "sensit"]);
const TRACKING: Entry = ("tracking", "tracking", &["tracking"]);
const PAS_DPHI: Entry = ("pasDphi", "pas_dphi", &["pasdphi"]);
const N_CPU: Entry = ("ncpu", "ncpu", &["ncpu"]);
const MAGNITUDE: Entry = ("NGS magnitudes", "guide_star.magnitude", &["magnitude"]);
const FLUX: Entry = ("LGS flux", "photometry.lgs_flux", &["flux"]);
const PIXEL_NGS: Entry = ("pixel NGS", "photometry.pixel_ngs", &["pixel size for ngs"]);
const PIXEL_LGS: Entry = ("pixel LGS", "photometry.pixel_lgs", &["pixel size for lgs"]);
const LAMBDA_NGS: Entry = ("wavelength NGS", "photometry.wavelength_ngs", &["wave length for ngs"]);
const LAMBDA_LGS: Entry = ("wavelength LGS", "photometry.wavelength_lgs", &["wave length for lgs"]);
const BANDWIDTH: Entry = ("bandwidth", "photometry.bandwidth", &["bandwidth"]);
const THROUGH_NGS: Entry = ("transmission NGS", "photometry.throughput_ngs", &["transmission for ngs"]);
const THROUGH_LGS: Entry = ("transmission LGS", "photometry.throughput_lgs", &["transmission for lgs"]);
const THROUGH_ATM: Entry =
    ("transmission atmosphere", "photometry.throughput_atmosphere", &["atmosphere trans"]);
const READ_NOISE: Entry = ("read noise", "photometry.read_noise", &["read out noise"]);
const LGS_CST: Entry = ("lgs_cst", "sensors.lgs_cst", &["lgs_cst"]);
const NOISE_VAR: Entry = ("noise_var", "noise.variance", &["noise_var"]);
const SPOT: Entry = ("spot_width", "photometry.spot_width", &["spot_width"]);
const LGS_ALT: Entry = ("lgs_alt", "photometry.sodium_altitude", &["lgs_alt"]);
const LGS_DEPTH: Entry = ("lgs_depth", "photometry.sodium_depth", &["lgs_depth"]);
const TARGET_X: Entry = ("targetX", "imaging.targets", &["targetx"]);
const TARGET_Y: Entry = ("targetY", "imaging.targets", &["targety"]);

/// Current layout.
const CURRENT: [Entry; 36] = [
    DIAMETER,
    OBSTRUCTION,
    FRAME,
    N_WFS,
    N_LGS,
    N_TARGET,
    NSSP,
    GS_ALT,
    TYPE,
    ALPHA_X,
    ALPHA_Y,
    X_PUP,
    Y_PUP,
    THETA_ML,
    THETA_CAM,
    SENSITIVITY,
    TRACKING,
    PAS_DPHI,
    N_CPU,
    MAGNITUDE,
    FLUX,
    PIXEL_NGS,
    PIXEL_LGS,
    LAMBDA_NGS,
    LAMBDA_LGS,
    BANDWIDTH,
    THROUGH_NGS,
    THROUGH_LGS,
    THROUGH_ATM,
    READ_NOISE,
    LGS_CST,
    SPOT,
    LGS_ALT,
    LGS_DEPTH,
    TARGET_X,
    TARGET_Y,
];

/// Older layout, of MOAO's benchmark systems.
const OLD: [Entry; 22] = [
    DIAMETER,
    OBSTRUCTION,
    N_WFS,
    NSSP,
    GS_ALT,
    TYPE,
    N_LGS,
    ALPHA_X,
    ALPHA_Y,
    X_PUP,
    Y_PUP,
    THETA_ML,
    THETA_CAM,
    SENSITIVITY,
    TRACKING,
    PAS_DPHI,
    N_CPU,
    LGS_CST,
    NOISE_VAR,
    SPOT,
    LGS_ALT,
    LGS_DEPTH,
];

const PROFILE: [Entry; 5] = [
    ("Nlayer", "atmosphere.layers", &["nlayer"]),
    ("r0", "atmosphere.r0", &["r0"]),
    ("cn2", "atmosphere.cn2", &["cn2"]),
    ("h", "atmosphere.altitude", &["h in"]),
    ("L0", "atmosphere.outer_scale", &["l0"]),
];

/// Reads `sys-params.txt` in the current or the older layout.
///
/// A wrong number or order of entries; a value that is no number, out of range, or of the wrong
/// count; in strict mode also a missing truth-sensor value.
pub fn parse_system(file: &Path, text: &str, mode: Mode) -> Result<(System, Vec<Warning>), Error> {
    let layouts: [(&str, &'static [Entry]); 2] =
        [("the current sys-params layout", &CURRENT), ("the older one with noise_var", &OLD)];
    let mut c = Cursor::new(file, text, &layouts)?;
    let mut warnings = Vec::new();
    let current = c.layout.len() == CURRENT.len();

    let diameter = c.scalar(DIAMETER)?;
    let obstruction = c.scalar(OBSTRUCTION)?;
    let frame_time = if current { c.scalar(FRAME)? } else { 0.0 };
    let sensors = c.count(N_WFS, MAX_STARS + 1)?;
    if sensors < 2 {
        return Err(c.place.error(
            N_WFS.1,
            format!("{sensors} sensors"),
            "it counts the truth sensor: give at least 2",
        ));
    }
    let (mut lgs, mut target_count) = (0, 1);
    if current {
        lgs = c.count(N_LGS, MAX_STARS)?;
        target_count = c.count(N_TARGET, MAX_TARGETS)?;
    }
    let nssp = c.count(NSSP, MAX_NSSP)?;
    let inverse = c.per_sensor(GS_ALT, sensors, 0.0, mode, &mut warnings)?;
    let kinds = c.per_sensor(TYPE, sensors, 1.0, mode, &mut warnings)?;
    if !current {
        lgs = c.count(N_LGS, MAX_STARS)?;
    }
    let x = c.per_sensor(ALPHA_X, sensors, 0.0, mode, &mut warnings)?;
    let y = c.per_sensor(ALPHA_Y, sensors, 0.0, mode, &mut warnings)?;
    let shift_x = c.per_sensor(X_PUP, sensors, 0.0, mode, &mut warnings)?;
    let shift_y = c.per_sensor(Y_PUP, sensors, 0.0, mode, &mut warnings)?;
    let rotation = c.per_sensor(THETA_ML, sensors, 0.0, mode, &mut warnings)?;
    for unused in [THETA_CAM, SENSITIVITY, TRACKING, PAS_DPHI, N_CPU] {
        c.ignore(unused)?;
    }

    for (missing, stands_for) in [("guide_star.launcher", ALPHA_X.1), ("guide_star.nssp", NSSP.1)] {
        c.place.alias(missing, stands_for);
    }

    let measuring = sensors - 1;
    if lgs > measuring {
        return Err(c.place.error(
            N_LGS.1,
            format!("{lgs} laser stars among {measuring} measuring sensors"),
            "correct nlgs or N WFS",
        ));
    }
    for (i, &k) in kinds.iter().enumerate() {
        let wanted = if i < lgs { 2.0 } else { 1.0 };
        if k != wanted {
            return Err(c.place.error(
                TYPE.1,
                format!("sensor {} has type {k}", i + 1),
                format!("nlgs = {lgs}: the first {lgs} are laser stars (2), all others natural (1)"),
            ));
        }
    }
    let mut magnitudes = vec![None; measuring];
    let mut targets = vec![[0.0, 0.0]];
    let (noise, lgs_cst);
    if current {
        let wanted = sensors - lgs;
        let mut given = c.vector(MAGNITUDE, MAX_STARS + 1)?;
        if given.len() + 1 == wanted && mode == Mode::Lenient {
            warnings.push(
                c.place.warning(MAGNITUDE.1, "the truth sensor's magnitude is missing; it is not used"),
            );
            given.push(0.0);
        }
        c.exactly(MAGNITUDE, &given, wanted, "N WFS - nlgs (truth sensor included)")?;
        for (slot, m) in magnitudes[lgs..].iter_mut().zip(&given) {
            *slot = Some(*m);
        }
        let mut p = Photometry {
            frame_time,
            lgs_flux: c.scalar(FLUX)?,
            pixel_ngs: c.scalar(PIXEL_NGS)?,
            pixel_lgs: c.scalar(PIXEL_LGS)?,
            wavelength_ngs: c.scalar(LAMBDA_NGS)?,
            wavelength_lgs: c.scalar(LAMBDA_LGS)?,
            bandwidth: c.scalar(BANDWIDTH)?,
            throughput_ngs: c.scalar(THROUGH_NGS)?,
            throughput_lgs: c.scalar(THROUGH_LGS)?,
            throughput_atmosphere: c.scalar(THROUGH_ATM)?,
            read_noise: c.scalar(READ_NOISE)?,
            spot_width: 0.0,
            sodium_altitude: 0.0,
            sodium_depth: 0.0,
        };
        lgs_cst = c.scalar(LGS_CST)?;
        p.spot_width = c.scalar(SPOT)?;
        p.sodium_altitude = c.scalar(LGS_ALT)?;
        p.sodium_depth = c.scalar(LGS_DEPTH)?;
        noise = NoiseModel::Photometric(p);
        let tx = c.vector(TARGET_X, MAX_TARGETS)?;
        c.exactly(TARGET_X, &tx, target_count, "nTarget")?;
        let ty = c.vector(TARGET_Y, MAX_TARGETS)?;
        c.exactly(TARGET_Y, &ty, target_count, "nTarget")?;
        targets = tx.iter().zip(&ty).map(|(&a, &b)| [a, b]).collect();
    } else {
        lgs_cst = c.scalar(LGS_CST)?;
        noise = NoiseModel::Uniform { variance: c.scalar(NOISE_VAR)? };
        for unused in [SPOT, LGS_ALT, LGS_DEPTH] {
            c.ignore(unused)?;
        }
    }

    let stars = (0..measuring)
        .map(|i| GuideStar {
            kind: if i < lgs { StarKind::Lgs } else { StarKind::Ngs },
            direction: [x[i], y[i]],
            inverse_altitude: inverse[i],
            nssp,
            pupil_shift: [shift_x[i], shift_y[i]],
            rotation: rotation[i],
            magnification: 1.0,
            slopes_turn: false,
            magnitude: magnitudes[i],
            launcher: None,
        })
        .collect();
    let system = System {
        diameter,
        obstruction,
        zenith_angle: 0.0,
        valid: Valid::Centre,
        mirror: MirrorModel::default(),
        nssp,
        stars,
        targets,
        lgs_cst,
        noise,
        lag: 0.0,
        wavelength: 1.65e-6,
        units: AngleUnit::Arcsec,
        simulation: LoopModel::default(),
    };
    warnings.extend(check::system(&system, &c.place)?);
    Ok((system, warnings))
}

/// Reads `atm-params.txt`.
///
/// A wrong number or order of entries; a value that is no number, out of range (in particular a
/// negative strength), or of the wrong count.
pub fn parse_atmosphere(file: &Path, text: &str) -> Result<(Atmosphere, Vec<Warning>), Error> {
    let mut c = Cursor::new(file, text, &[("atm-params", &PROFILE as &'static [Entry])])?;
    let count = c.count(PROFILE[0], MAX_LAYERS)?;
    let r0 = c.scalar(PROFILE[1])?;
    let mut columns = Vec::with_capacity(3);
    for entry in &PROFILE[2..] {
        let mut values = c.vector(*entry, MAX_LAYERS)?;
        if values.len() == 1 && *entry == PROFILE[4] {
            // A single outer scale applies to all layers.
            values.resize(count, values[0]);
        }
        if columns.is_empty() {
            // This check comes first, because a failed fit shows in the strengths first.
            check::strengths(&values, &c.place)?;
        }
        c.exactly(*entry, &values, count, "Nlayer")?;
        columns.push(values);
    }
    let layers = (0..count)
        .map(|i| Layer {
            cn2: columns[0][i],
            altitude: columns[1][i],
            outer_scale: columns[2][i],
            wind: None,
        })
        .collect();
    let atmosphere = Atmosphere { layers };
    check::atmosphere(&atmosphere, &c.place)?;
    let mut warnings = Vec::new();
    let used = atmosphere.r0();
    if (r0 / used - 1.0).abs() > 0.01 {
        warnings.push(c.place.warning(
            PROFILE[1].1,
            format!("the file has {r0} m but its cn2 give {used:.6} m; as in MOAO, cn2 is used and this entry is not"),
        ));
    }
    Ok((atmosphere, warnings))
}
