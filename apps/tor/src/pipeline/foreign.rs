//! Evaluation of a reconstructor from another program.

use super::devices::{DeviceUse, devices};
use super::judge::{command_matrix, doubt, judge};
use super::orders;
use super::plan::{evaluation_bytes, image_bytes, memory_of_workers, with_targets};
use super::results::TargetResult;
use super::{Observer, Options, PipelineError};
use crate::covariance::Covariance;
use crate::files::fits::{Card, CardValue};
use crate::files::{RoundedMatrix, SlopeOrder, fits, npy, reorder_columns, reorder_rows};
use crate::geometry::Geometry;
use crate::image::Psf;
use crate::params::Input;
use crate::system::{Atmosphere, MAX_TARGETS, System};
use crate::{Error, Matrix, dm};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use zellige_files::array::is_array;
use zellige_runtime::Runtime;

/// Files of a reconstructor from another program.
#[derive(Debug, Clone, Default)]
pub struct Foreign {
    /// Reconstructor: FITS, or npy for a name ending in `.npy`. It is `m x n`, or commands `x n`,
    /// or one of them transposed. Several targets are HDUs `R0`, `R1`, ...
    pub reconstructor: PathBuf,
    /// Command matrix, actuators x m, volts per arcsec (FITS or npy); by default that of the
    /// system's own mirror.
    pub command_matrix: Option<PathBuf>,
    /// Order of the slopes in the files, if their header (`SLOPEORD`) lacks it or is wrong; by
    /// default xxyy.
    pub order: Option<SlopeOrder>,
}

/// Evaluation of a reconstructor from another program.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Judgement {
    /// Number of measurements.
    pub n: usize,
    /// Number of truth-sensor slopes.
    pub m: usize,
    /// Time in ms from the measurements to the wavefront that is judged; absent at 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag_ms: Option<f64>,
    /// File of the reconstructor.
    pub reconstructor: PathBuf,
    /// Precision rule of the reconstructor, if the file names it.
    pub rule: Option<String>,
    /// Assumed order of the slopes.
    pub slope_order: SlopeOrder,
    /// Trace of `Cee` in arcsec^2, first target.
    pub trace_cee: f64,
    /// Strehl ratio of the stationary image, first target.
    pub strehl_moao: f64,
    /// Exact long-exposure Strehl ratio, first target; `null` if it was not requested.
    pub strehl_exact: Option<f64>,
    /// Marechal approximation, piston removed, first target.
    pub marechal: f64,
    /// Results for every target.
    pub targets: Vec<TargetResult>,
    /// Unreliable figures, each with the cause; absent from the JSON if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Duration of the evaluation in seconds.
    pub seconds: f64,
    /// Devices with their own memory; absent from the JSON if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceUse>,
    /// Images by target: the first one, or all with [`Options::keep_images`].
    #[serde(skip)]
    pub images: Vec<Psf>,
}

/// Judges a reconstructor from a file. Of `options`, only the targets, the exact Strehl ratio and
/// the memory limit apply.
///
/// # Errors
/// A file that cannot be read or does not fit the system, a non-finite value, too little memory,
/// cancellation.
pub fn evaluate(
    rt: &Runtime,
    input: &Input,
    options: &Options,
    foreign: &Foreign,
    observer: &dyn Observer,
) -> Result<Judgement, PipelineError> {
    let system = with_targets(input, options);
    system.check()?;
    let info = crate::pipeline::info::info(&system, &input.atmosphere)?;
    let (n, m) = (info.measurements as f64, info.truth_slopes as f64);
    let mut memory = memory_of_workers(options.memory_limit, rt.workers());
    memory.add("reconstructor while it is read", (24.0 * n * m) as u64);
    memory.add("image", image_bytes(&system));
    memory.add("evaluation", evaluation_bytes(n, m, rt.workers()));
    memory.check("take a larger machine")?;

    observer.stage("preparation", 1);
    let cov = Arc::new(Covariance::new(&system, &input.atmosphere)?);
    let geometry = cov.geometry();
    let cards = fits::system_cards(&system, &input.atmosphere, geometry, SlopeOrder::default());
    let (order, rule, doubts) = what_the_file_says(&foreign.reconstructor, foreign.order, &cards)?;
    let dx = match &foreign.command_matrix {
        Some(path) => {
            let (order, ..) = what_the_file_says(path, foreign.order, &[])?;
            let dx = read(path)?;
            check_mirror(path, &dx, dm::DeformableMirror::new(&system).len(), info.truth_slopes)?;
            reorder_columns(&dx, &geometry.truth_blocks(), order, SlopeOrder::Xxyy)?
        }
        None => command_matrix(rt, &system, geometry, observer)?,
    };
    observer.advance(1);
    let start = Instant::now();
    let (mut targets, mut images, mut warnings) = (Vec::new(), Vec::new(), doubts);
    warnings.iter().for_each(|text| observer.warn(text));
    let name = foreign.reconstructor.display().to_string();
    for t in 0..cov.targets() {
        let (file, of_commands, doubts) =
            reconstructor(&foreign.reconstructor, t, &system.targets, geometry, &dx)?;
        for text in doubts {
            observer.warn(&text);
            warnings.push(text);
        }
        let r = in_own_order(&file, of_commands, geometry, order)?;
        let (result, image) = judge(rt, &system, &cov, t, &Arc::new(r), &dx, options.exact, observer)?;
        let mut said = Vec::new();
        if result.relative_error > orders::USELESS {
            let advice = orders::advice(rt, &cov, t, &file, !of_commands, result.relative_error, observer)?;
            said.push(format!("{name}, target ({}, {}): {advice}", result.x, result.y));
        }
        said.extend(doubt(&name, &result, &image));
        for text in said {
            observer.warn(&text);
            warnings.push(text);
        }
        targets.push(result);
        if t == 0 || options.keep_images {
            images.push(image);
        }
    }
    let first = targets[0].clone();
    Ok(Judgement {
        n: info.measurements,
        m: info.truth_slopes,
        lag_ms: system.lag_ms(),
        reconstructor: foreign.reconstructor.clone(),
        rule,
        slope_order: order,
        trace_cee: first.trace_cee,
        strehl_moao: first.strehl_moao,
        strehl_exact: first.strehl_exact,
        marechal: first.marechal,
        targets,
        warnings,
        seconds: start.elapsed().as_secs_f64(),
        devices: devices(rt),
        images,
    })
}

/// Reads the reconstructors of a system's targets, truth-sensor slopes x measurements in zellige's
/// order, and returns them with notes on the file.
///
/// # Errors
/// A file that cannot be read or does not fit the system.
pub fn read_reconstructors(
    system: &System,
    atmosphere: &Atmosphere,
    foreign: &Foreign,
) -> Result<(Vec<Matrix>, Vec<String>), Error> {
    let geometry = Geometry::new(system)?;
    let cards = fits::system_cards(system, atmosphere, &geometry, SlopeOrder::default());
    let (order, _, mut notes) = what_the_file_says(&foreign.reconstructor, foreign.order, &cards)?;
    let dx = dm::command_matrix(system, &geometry)?.dx;
    let mut out = Vec::with_capacity(system.targets.len());
    for t in 0..system.targets.len() {
        let (file, of_commands, doubts) =
            reconstructor(&foreign.reconstructor, t, &system.targets, &geometry, &dx)?;
        notes.extend(doubts);
        out.push(in_own_order(&file, of_commands, &geometry, order)?);
    }
    Ok((out, notes))
}

/// Returns a reconstructor with its slopes in zellige's order. One that was made of commands has
/// rows in this order already.
fn in_own_order(
    file: &Matrix,
    of_commands: bool,
    geometry: &Geometry,
    order: SlopeOrder,
) -> Result<Matrix, Error> {
    let r = reorder_columns(file, geometry.blocks(), order, SlopeOrder::Xxyy)?;
    match of_commands {
        true => Ok(r),
        false => reorder_rows(&r, &geometry.truth_blocks(), order, SlopeOrder::Xxyy),
    }
}

fn read(path: &Path) -> Result<Matrix, Error> {
    finite(path, read_any(path)?)
}

/// Reads an array, a matrix in few bits, or the first image of a FITS file.
fn read_any(path: &Path) -> Result<Matrix, Error> {
    if RoundedMatrix::is_in(path) {
        return Ok(RoundedMatrix::read(path)?.to_matrix());
    }
    if is_array(path) { npy::read(path) } else { fits::read_matrix(path, None) }
}

fn finite(path: &Path, matrix: Matrix) -> Result<Matrix, Error> {
    match matrix.data().iter().position(|v| !v.is_finite()) {
        Some(at) => Err(Error::content(
            path,
            format!("entry ({}, {}) is not a finite number", at % matrix.rows(), at / matrix.rows()),
        )),
        None => Ok(matrix),
    }
}

/// Returns the slope order (from the header, unless the caller gives one), the precision rule of
/// the header, and the cards that differ from those of the system. Without a header nothing is
/// known.
///
/// # Errors
/// A file for another telescope.
fn what_the_file_says(
    path: &Path,
    asked: Option<SlopeOrder>,
    system: &[Card],
) -> Result<(SlopeOrder, Option<String>, Vec<String>), Error> {
    if is_array(path) {
        return Ok((asked.unwrap_or_default(), None, Vec::new()));
    }
    let image = fits::read(path, None)?;
    let mut doubts = Vec::new();
    for card in system {
        let Some(differs) = difference(&image, card) else { continue };
        match card.key.as_str() {
            "NSSP" | "DIAM" | "UNITS" | "WFSORDER" => {
                return Err(Error::content(path, format!("made for another instrument: {differs}")));
            }
            // The file is for another atmosphere or lag, whose effect users may want to study.
            "R0" | "LGSCST" | "LAG" => doubts.push(format!("{}: {differs}", path.display())),
            _ => {}
        }
    }
    let rule = image.text("PRECRULE").map(str::to_owned);
    let order = match (asked, image.text("SLOPEORD")) {
        (Some(order), _) => order,
        (None, None) => SlopeOrder::default(),
        (None, Some(name)) => SlopeOrder::from_name(name).ok_or_else(|| {
            Error::content(path, format!("SLOPEORD = '{name}' is not known: give the order, xxyy or xyxy"))
        })?,
    };
    Ok((order, rule, doubts))
}

/// Describes the difference between the header's value of a card and ours; `None` if they are equal
/// or the card is missing.
fn difference(image: &fits::Image, card: &Card) -> Option<String> {
    let (found, wanted) = match &card.value {
        CardValue::Text(wanted) => (image.text(&card.key)?.to_owned(), wanted.clone()),
        CardValue::Real(wanted) => {
            let found = image.number(&card.key)?;
            // Other programs may write fewer digits.
            if (found - wanted).abs() <= 1e-6 * wanted.abs() {
                return None;
            }
            (found.to_string(), wanted.to_string())
        }
        CardValue::Integer(wanted) => (image.number(&card.key)?.to_string(), wanted.to_string()),
        CardValue::Logical(_) => return None,
    };
    (found != wanted)
        .then(|| format!("{} = {found}, but this system has {wanted} ({})", card.key, card.comment))
}

/// Returns the reconstructor of a target from a FITS file: the one for the target's direction, if
/// the file has directions. If there is none, a note says that it is for another direction.
fn of_target(path: &Path, target: usize, targets: &[[f64; 2]]) -> Result<(Matrix, Option<String>), Error> {
    let wanted = targets[target];
    let direction = |image: &fits::Image| Some([image.number("TARGETX")?, image.number("TARGETY")?]);
    let is_wanted = |made: [f64; 2]| made.iter().zip(wanted).all(|(a, b)| (a - b).abs() <= 1e-6);
    let numbered = |number: usize| format!("R{number}");
    let image = fits::read(path, (targets.len() > 1).then(|| numbered(target)).as_deref())?;
    let matrix = |image: fits::Image| match RoundedMatrix::is_in(path) {
        true => Ok(RoundedMatrix::read(path)?.to_matrix()),
        false => image.into_matrix(path),
    };
    let Some([x, y]) = direction(&image).filter(|&made| !is_wanted(made)) else {
        return Ok((matrix(image)?, None));
    };
    let mut others = (0..MAX_TARGETS).map_while(|number| fits::read(path, Some(&numbered(number))).ok());
    match others.find(|other| direction(other).is_some_and(is_wanted)) {
        Some(other) => Ok((matrix(other)?, None)),
        None => {
            let name = path.display();
            let doubt =
                format!("{name}: made for the target ({x}, {y}), judged at ({}, {})", wanted[0], wanted[1]);
            Ok((matrix(image)?, Some(doubt)))
        }
    }
}

/// Returns the reconstructor of a target, its slopes in the file's order; whether it was made of
/// commands, whose rows are then in zellige's order; and notes on it.
fn reconstructor(
    path: &Path,
    target: usize,
    targets: &[[f64; 2]],
    geometry: &Geometry,
    dx: &Matrix,
) -> Result<(Matrix, bool, Vec<String>), Error> {
    let is_one =
        is_array(path) || fits::names_image(path) || (targets.len() > 1 && RoundedMatrix::is_in(path));
    let (r, doubt) = match (is_one, targets.len()) {
        (false, _) => of_target(path, target, targets)?,
        (true, 1) => (read_any(path)?, None),
        (true, count) => {
            let problem = format!(
                "this is one reconstructor, but the system has {count} targets: choose one with --target X,Y"
            );
            return Err(Error::content(path, problem));
        }
    };
    let mut r = finite(path, r)?;
    let (m, n, commands) = (geometry.truth_slopes(), geometry.measurements(), dx.rows());
    let mut said: Vec<String> = doubt.into_iter().collect();
    let name = path.display();
    let found = (r.rows(), r.cols());
    if found != (m, n) && found != (commands, n) && [(n, m), (n, commands)].contains(&found) {
        said.push(format!(
            "{name}: {} x {} is read transposed: measurements are rows in it",
            found.0, found.1
        ));
        r = r.transposed();
    }
    match (r.rows(), r.cols()) {
        shape if shape == (m, n) => Ok((r, false, said)),
        shape if shape == (commands, n) => {
            said.push(format!(
                "{name}: read as {commands} commands x {n} measurements, in the unit of the mirror's command matrix (--dm, else the system's \
                 mirror); slopes are those that its commands make"
            ));
            // The effect of commands on slopes is the inverse of the command matrix. Filtered modes
            // stay filtered.
            let slopes = dm::pseudo_inverse(dx, 1e-4)?.dx;
            Ok((slopes.times(&r)?, true, said))
        }
        (rows, cols) => Err(Error::content(
            path,
            format!(
                "the reconstructor is {rows} x {cols}, but this system needs {m} x {n} (truth-sensor slopes x measurements) or {commands} x {n} \
                 (commands x measurements; --dm gives the mirror)"
            ),
        )),
    }
}

fn check_mirror(path: &Path, dx: &Matrix, actuators: usize, m: usize) -> Result<(), Error> {
    if (dx.rows(), dx.cols()) == (actuators, m) {
        return Ok(());
    }
    Err(Error::content(
        path,
        format!(
            "Dx is {} x {}, but this system's mirror needs {actuators} x {m} (actuators x truth-sensor slopes)",
            dx.rows(),
            dx.cols()
        ),
    ))
}
