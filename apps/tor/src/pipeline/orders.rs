//! Diagnosis of reconstructors that leave nearly all of the error, or increase it: the order, sign
//! and unit in which their slopes would fit.

use super::watch::watch;
use super::{Observer, PipelineError};
use crate::covariance::{Covariance, Kind};
use crate::evaluate::panels;
use crate::geometry::{Block, Geometry};
use crate::matrix::gemm;
use crate::{ARCSEC_PER_RADIAN, Matrix};
use zellige_runtime::Runtime;

/// Limit on the operations of all trials: some seconds.
const MOST_OPERATIONS: f64 = 2e12;

/// Minimum remaining error (fraction of the slope variance) of a reconstructor that is diagnosed.
/// In a wrong larger unit, nearly all of the error remains.
pub(super) const USELESS: f64 = 0.95;

/// Maximum remaining error of an interpretation that is reported. A fitted factor alone slightly
/// reduces the error of any matrix.
const WORTH_NAMING: f64 = 0.9;

/// Order of the slopes of a sensor.
#[derive(Clone, Copy)]
enum Slopes {
    XThenY,
    YThenX,
    XyTogether,
    YxTogether,
    /// The x slopes of all sensors, then all y slopes.
    AllXThenAllY,
}

const SLOPES: [(Slopes, &str); 5] = [
    (Slopes::XThenY, ""),
    (Slopes::XyTogether, "x and y of each sub-aperture together"),
    (Slopes::YThenX, "all y slopes of a sensor before its x slopes"),
    (Slopes::YxTogether, "y and x of each sub-aperture together"),
    (Slopes::AllXThenAllY, "x slopes of all sensors before all y slopes"),
];

/// Factors between the units of two files, with their names.
const FACTORS: [(f64, &str); 4] = [
    (1.0, ""),
    (ARCSEC_PER_RADIAN, "206265 (radians and arcsec)"),
    (1000.0, "1000 (mas and arcsec)"),
    (1000.0 * ARCSEC_PER_RADIAN, "206265000 (radians and mas)"),
];

/// Returns for each slope in zellige's order its index in a file with another order.
fn places(geometry: &Geometry, truth: bool, slopes: Slopes, by_columns: bool) -> Vec<usize> {
    let grids: Vec<_> = if truth { vec![geometry.truth()] } else { geometry.sensors().iter().collect() };
    let truth_blocks = geometry.truth_blocks();
    let blocks: &[Block] = if truth { &truth_blocks } else { geometry.blocks() };
    let half = blocks.iter().map(|block| block.len).sum::<usize>() / 2;
    let mut before = 0;
    let mut out = Vec::with_capacity(2 * half);
    for (grid, pair) in grids.iter().zip(blocks.chunks(2)) {
        let (start, count) = (pair[0].start, grid.len());
        let mut by_column: Vec<usize> = (0..count).collect();
        by_column.sort_by_key(|&i| grid.cells[i]);
        let mut rank: Vec<usize> = (0..count).collect();
        if by_columns {
            by_column.iter().enumerate().for_each(|(place, &cell)| rank[cell] = place);
        }
        for axis in 0..2 {
            out.extend(rank.iter().map(|&cell| match slopes {
                Slopes::XThenY => start + axis * count + cell,
                Slopes::YThenX => start + (1 - axis) * count + cell,
                Slopes::XyTogether => start + 2 * cell + axis,
                Slopes::YxTogether => start + 2 * cell + 1 - axis,
                Slopes::AllXThenAllY => axis * half + before + cell,
            }));
        }
        before += count;
    }
    out
}

/// An interpretation of the matrix, with its `trace(R Ctm^T)` and `trace(R Cmm R^T)`.
struct Trial {
    slopes: Slopes,
    words: String,
    cross: f64,
    square: f64,
}

/// Returns advice on a matrix that leaves the fraction `left` of the turbulence. Its columns are in
/// the file's order, and so are its rows if `rows` is set.
pub(super) fn advice(
    rt: &Runtime,
    cov: &Covariance,
    target: usize,
    r: &Matrix,
    rows: bool,
    left: f64,
    observer: &dyn Observer,
) -> Result<String, PipelineError> {
    let than = if left > 1.0 { "more than" } else { "nearly as much as" };
    let mut said = format!(
        "it leaves {:.1} % of the turbulence, {than} without correction; the usual causes are another order of sub-apertures or of slopes, the sign and the unit",
        100.0 * left
    );
    let (m, n) = (r.rows() as f64, r.cols() as f64);
    if 20.0 * n * n * m > MOST_OPERATIONS {
        said.push_str("; orders are tried for smaller systems only: use a system of fewer sub-apertures, made the same way");
        return Ok(said);
    }
    observer.stage("orders of slopes", 1);
    let (trials, total) = watch(rt, observer, || 0, || Ok(trials(cov, target, r, rows)?))?;
    match best(&trials, total) {
        Some((words, remedy, share)) => said.push_str(&format!(
            ". Of the orders, signs and units of known programs one fits: with {words} it would leave {:.2} %; {remedy}",
            100.0 * share
        )),
        None => said.push_str(". None of the orders, signs and units of known programs fits: check that it is a reconstructor of this system"),
    }
    Ok(said)
}

/// Tries every order, with and without its rows in it; also returns the variance of all slopes on
/// the target.
fn trials(
    cov: &Covariance,
    target: usize,
    r: &Matrix,
    rows: bool,
) -> Result<(Vec<Trial>, f64), crate::Error> {
    let geometry = cov.geometry();
    let (m, n) = (r.rows(), r.cols());
    let several = geometry.sensors().len() > 1;
    let mut out = Vec::new();
    let ctm = cov.matrix(Kind::Ctm(target))?;
    for by_columns in [false, true] {
        for (slopes, name) in SLOPES {
            if matches!(slopes, Slopes::AllXThenAllY) && !several {
                continue;
            }
            let columns = places(geometry, false, slopes, by_columns);
            let turned = Matrix::from_fn(m, n, |i, j| r[(i, columns[j])]);
            let mut square = 0.0;
            for part in panels(n, 256) {
                let mut cmm = Matrix::zeros(n, part.len());
                cov.fill(Kind::Cmm, 0..n, part.clone(), cmm.data_mut(), n)?;
                let mut product = Matrix::zeros(m, part.len());
                gemm(product.view_mut(), false, turned.view(), cmm.view(), 1.0);
                let same = &turned.data()[part.start * m..part.end * m];
                square += product.data().iter().zip(same).map(|(a, b)| a * b).sum::<f64>();
            }
            let mut words = [name, if by_columns { "sub-apertures counted column by column" } else { "" }]
                .into_iter()
                .filter(|word| !word.is_empty())
                .collect::<Vec<_>>()
                .join(", ");
            // For one sensor, this order is the same as x slopes, then y slopes.
            let of_truth = if matches!(slopes, Slopes::AllXThenAllY) { Slopes::XThenY } else { slopes };
            let lines = places(geometry, true, of_truth, by_columns);
            let plain: Vec<usize> = (0..m).collect();
            // Rows of a matrix of commands are in zellige's order. Other rows may be in the order
            // of the columns or not.
            let both = rows && lines != plain;
            let row_orders =
                if both { vec![(&lines, ""), (&plain, " in the columns alone")] } else { vec![(&plain, "")] };
            for (lines, note) in row_orders {
                let cross = (0..n)
                    .map(|j| (0..m).map(|i| turned[(lines[i], j)] * ctm[(i, j)]).sum::<f64>())
                    .sum::<f64>();
                words.push_str(note);
                out.push(Trial { slopes, words: words.clone(), cross, square });
            }
        }
    }
    let ctt = cov.matrix(Kind::Ctt)?;
    Ok((out, ctt.trace()))
}

/// Returns the interpretation with the least remaining error, in words, with a remedy and that
/// error.
fn best(trials: &[Trial], total: f64) -> Option<(String, String, f64)> {
    let mut found: Option<(String, String, f64)> = None;
    let mut offer = |words: String, remedy: String, share: f64, margin: f64| {
        let least = found.as_ref().map_or(WORTH_NAMING, |(.., share)| *share);
        if share < least * margin {
            found = Some((words, remedy, share));
        }
    };
    let left = |trial: &Trial, factor: f64| {
        1.0 + (factor * factor * trial.square - 2.0 * factor * trial.cross) / total
    };
    let joined = |parts: &[&str]| {
        parts.iter().filter(|part| !part.is_empty()).copied().collect::<Vec<_>>().join(" and ")
    };
    // Named factors come first: a fitted factor must be much better to be accepted.
    for trial in trials {
        for (sign, minus) in [(1.0, ""), (-1.0, "the other sign")] {
            for (factor, name) in FACTORS {
                for (factor, way) in [(factor, "times "), (1.0 / factor, "divided by ")] {
                    let scale =
                        if name.is_empty() { String::new() } else { format!("all numbers {way}{name}") };
                    let mut reading = joined(&[&trial.words, minus, &scale]);
                    if reading.is_empty() {
                        reading = "x slopes of a sensor before its y slopes".into();
                    }
                    let only_order = minus.is_empty() && scale.is_empty();
                    offer(reading, remedy(trial, only_order), left(trial, sign * factor), 0.999);
                }
            }
        }
    }
    for trial in trials.iter().filter(|trial| trial.square > 0.0) {
        let factor = trial.cross / trial.square;
        let scale = format!("all numbers times {factor:.4e} (pixels, a gain, a calibration?)");
        offer(joined(&[&trial.words, &scale]), remedy(trial, false), left(trial, factor), 0.7);
    }
    found
}

/// Returns a remedy that converts the matrix to zellige's order.
fn remedy(trial: &Trial, only_order: bool) -> String {
    match (trial.slopes, trial.words.contains(',') || trial.words.contains("column")) {
        (Slopes::XyTogether, false) if only_order => "use --slope-order xyxy".into(),
        (Slopes::XThenY, false) if only_order => "use --slope-order xxyy".into(),
        _ => "nothing was applied: convert the file (the table GEOMETRY of `zellige tor cov` has the order that is read)".into(),
    }
}
