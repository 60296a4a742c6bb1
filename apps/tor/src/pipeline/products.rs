//! Matrices and images as files.

use super::plan::memory_of_workers;
use super::watch::{Counter, watch};
use super::{Covariances, Observer, Options, Outcome, PipelineError, RuleResult};
use crate::covariance::{Covariance, Kind};
use crate::files::fits::{self, BinaryTable, Card, Hdu, Pixels};
use crate::files::{RoundedMatrix, SlopeOrder, npy, reorder_columns, reorder_rows};
use crate::geometry::{Block, Geometry};
use crate::image::Psf;
use crate::params::Input;
use crate::{Error, Matrix};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zellige_runtime::{Runtime, Submit, update};

/// Number of columns that one task generates.
const PANEL: usize = 256;

/// Generates `Cmm`, `Ctm` of every target and `Ctt`, panels of columns as tasks.
///
/// # Errors
/// Bad parameters, too little memory (reported before anything is allocated), cancellation.
pub fn covariance(
    rt: &Runtime,
    input: &Input,
    options: &Options,
    observer: &dyn Observer,
) -> Result<Covariances, PipelineError> {
    let system = super::plan::with_targets(input, options);
    system.check()?;
    let info = crate::pipeline::info::info(&system, &input.atmosphere)?;
    let (n, m) = (info.measurements as f64, info.truth_slopes as f64);
    let mut memory = memory_of_workers(options.memory_limit, rt.workers());
    memory.add(format!("Cmm, n = {n}"), (8.0 * n * n) as u64);
    memory.add("Ctm", (8.0 * n * m * info.targets as f64) as u64);
    memory.add("Ctt", (8.0 * m * m) as u64);
    memory.check("take fewer targets or a larger machine")?;
    let cov = Arc::new(Covariance::new(&system, &input.atmosphere)?);
    let mut kinds = vec![Kind::Cmm];
    kinds.extend((0..cov.targets()).map(Kind::Ctm));
    kinds.push(Kind::Ctt);
    let panels = kinds.iter().map(|k| cov.shape(*k).1.div_ceil(PANEL) as u64).sum();
    observer.stage("covariances", panels);
    let counter = Counter::default();
    let shared = counter.clone();
    let make =
        || kinds.into_iter().map(|kind| whole(rt, &cov, kind, &counter)).collect::<Result<Vec<_>, _>>();
    let mut matrices = watch(rt, observer, move || shared.get(), make)?.into_iter();
    let mut next = || matrices.next().unwrap_or_else(|| Matrix::zeros(0, 0));
    let cmm = next();
    let ctm = (0..cov.targets()).map(|_| next()).collect();
    Ok(Covariances { input: Input { system, ..input.clone() }, cmm, ctm, ctt: next() })
}

/// Generates one matrix in place, with one task per panel of columns.
fn whole(
    rt: &Runtime,
    cov: &Arc<Covariance>,
    kind: Kind,
    counter: &Counter,
) -> Result<Matrix, PipelineError> {
    let (rows, cols) = cov.shape(kind);
    let mut out = Matrix::zeros(rows, cols);
    rt.scope(|scope| {
        let mut tasks = Vec::new();
        for (k, panel) in out.data_mut().chunks_mut(rows.max(1) * PANEL).enumerate() {
            let width = panel.len() / rows.max(1);
            let slice = scope.slice(panel, rows, rows)?;
            let (cov, counter, first) = (Arc::clone(cov), counter.clone(), k * PANEL);
            let task = rt
                .task("covariance")
                .operands((update(&slice),))
                .cpu(move |(panel,)| {
                    cov.fill(kind, 0..rows, first..first + width, panel.data, panel.ld)?;
                    counter.bump();
                    Ok::<(), Error>(())
                })
                .submit()?;
            tasks.push(task);
        }
        tasks.iter().try_for_each(|task| rt.wait(task))
    })?;
    Ok(out)
}

impl Covariances {
    /// Writes the matrices with their slopes in `order`. It is one FITS file with HDUs `CMM`, `CTM`
    /// (`CTM0`, `CTM1`, ... for several targets) and `CTT`. For a name ending in `.npy` it is one
    /// file per matrix, with the matrix's name before the ending. Returns the written paths.
    ///
    /// # Errors
    /// A file cannot be written; it is left unchanged.
    pub fn write(&self, path: &Path, order: SlopeOrder) -> Result<Vec<PathBuf>, PipelineError> {
        let geometry = Geometry::new(&self.input.system)?;
        let (blocks, truth) = (geometry.blocks(), geometry.truth_blocks());
        let turned = |a: &Matrix, rows: &[Block], cols: &[Block]| -> Result<Option<Matrix>, Error> {
            if order == SlopeOrder::Xxyy {
                return Ok(None);
            }
            let columns = reorder_columns(a, cols, SlopeOrder::Xxyy, order)?;
            reorder_rows(&columns, rows, SlopeOrder::Xxyy, order).map(Some)
        };
        let mut list: Vec<(String, &Matrix, Option<Matrix>)> =
            vec![("CMM".into(), &self.cmm, turned(&self.cmm, blocks, blocks)?)];
        for (t, ctm) in self.ctm.iter().enumerate() {
            list.push((numbered("CTM", t, self.ctm.len()), ctm, turned(ctm, &truth, blocks)?));
        }
        list.push(("CTT".into(), &self.ctt, turned(&self.ctt, &truth, &truth)?));
        let named: Vec<_> = list.iter().map(|(name, a, b)| (name.clone(), b.as_ref().unwrap_or(a))).collect();
        let tables = [fits::stars_table(&self.input.system), fits::geometry_table(&geometry, order)];
        let axes = |k: usize| match k {
            0 => &["measurements", "measurements"],
            _ if k <= self.ctm.len() => &["truth-sensor slopes", "measurements"],
            _ => &["truth-sensor slopes", "truth-sensor slopes"],
        };
        write_matrices(path, &named, axes, &tables, &|k| {
            let mut cards = vec![Card::new("BUNIT", "arcsec2", "unit of the values")];
            cards.extend(fits::provenance_cards());
            cards.extend(fits::system_cards(&self.input.system, &self.input.atmosphere, &geometry, order));
            if k > 0 && k <= self.ctm.len() {
                cards.extend(target_cards(self.input.system.targets[k - 1]));
            }
            cards
        })
    }
}

/// Meaning of the axes of an image.
const IMAGE_AXES: [&str; 2] = ["pixels along y", "pixels along x"];

fn numbered(name: &str, at: usize, of: usize) -> String {
    if of == 1 { name.into() } else { format!("{name}{at}") }
}

fn target_cards([x, y]: [f64; 2]) -> [Card; 2] {
    [Card::new("TARGETX", x, "[arcsec] direction"), Card::new("TARGETY", y, "[arcsec] direction")]
}

fn is_npy(path: &Path) -> bool {
    ends_with(path, "npy")
}

fn ends_with(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case(ending))
}

/// Returns the file name of a matrix: `out.npy` and `CMM` give `out-cmm.npy`.
fn file_of(path: &Path, name: &str) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{}.{ending}", name.to_ascii_lowercase()))
}

/// Writes matrices, each with the meaning of its axes and its cards, followed by tables if the
/// format has tables.
fn write_matrices(
    path: &Path,
    list: &[(String, &Matrix)],
    axes: impl Fn(usize) -> &'static [&'static str; 2],
    tables: &[BinaryTable],
    cards: &dyn Fn(usize) -> Vec<Card>,
) -> Result<Vec<PathBuf>, PipelineError> {
    if !is_npy(path) {
        let hdus: Vec<Hdu> = list
            .iter()
            .enumerate()
            .map(|(k, (name, matrix))| Hdu {
                name: name.clone(),
                pixels: Pixels::Matrix(matrix),
                axes: axes(k),
                cards: cards(k),
            })
            .collect();
        fits::write(path, &hdus, tables)?;
        return Ok(vec![path.to_owned()]);
    }
    let mut written = Vec::new();
    for (name, matrix) in list {
        let file = if list.len() == 1 { path.to_owned() } else { file_of(path, name) };
        npy::write_f64(&file, matrix)?;
        written.push(file);
    }
    Ok(written)
}

/// Writes the reconstructors of one rule with their slopes in `order`. It is one FITS file with
/// one HDU per target (`R`, or `R0`, `R1`, ...). For a name ending in `.npy` it is the matrix
/// alone, with one file per target if there are several (`name-r0.npy`). In few bits
/// ([`Options::rounding`](super::Options::rounding)) FITS and npz get integers and scales, a file
/// per target. The run must have kept them ([`Options::keep_reconstructors`]). Returns the written
/// paths.
///
/// # Errors
/// There is no reconstructor, because it was not kept or the rule failed; the file cannot be
/// written and is left unchanged.
pub fn write_reconstructors(
    path: &Path,
    outcome: &Outcome,
    result: &RuleResult,
    order: SlopeOrder,
) -> Result<Vec<PathBuf>, PipelineError> {
    let Some(measured) = &result.measured else {
        return Err(PipelineError::Options(format!(
            "rule {} failed, so that no reconstructor is written",
            result.rule
        )));
    };
    let kept = &result.extras.reconstructors;
    if kept.is_empty() {
        return Err(PipelineError::Options(format!("the reconstructors of {} were not kept", result.rule)));
    }
    let input = &outcome.input;
    let geometry = Geometry::new(&input.system)?;
    let tables = || [fits::stars_table(&input.system), fits::geometry_table(&geometry, order)];
    let all_cards = |t: usize| {
        let mut cards = fits::provenance_cards();
        cards.extend(fits::system_cards(&input.system, &input.atmosphere, &geometry, order));
        let strehl = measured.targets.get(t).map(|r| r.strehl_moao);
        let error = Some(measured.backward_error).filter(|error| !error.is_nan());
        cards.extend(fits::reconstructor_cards(&result.rule, error, strehl));
        cards.extend(input.system.targets.get(t).copied().map(target_cards).into_iter().flatten());
        cards
    };
    let rounded = &result.extras.rounded;
    if ends_with(path, "npz") || (!is_npy(path) && !rounded.is_empty()) {
        return write_rounded(path, rounded, order, |t, path, matrix| match ends_with(path, "npz") {
            true => matrix.write(path),
            false => matrix.write_fits(path, all_cards(t), &tables()),
        });
    }
    let mut turned: Vec<Matrix> = Vec::new();
    if order != SlopeOrder::Xxyy {
        for r in kept {
            let columns = reorder_columns(r, geometry.blocks(), SlopeOrder::Xxyy, order)?;
            turned.push(reorder_rows(&columns, &geometry.truth_blocks(), SlopeOrder::Xxyy, order)?);
        }
    }
    let list: Vec<(String, &Matrix)> =
        (0..kept.len()).map(|t| (numbered("R", t, kept.len()), turned.get(t).unwrap_or(&kept[t]))).collect();
    write_matrices(path, &list, |_| &["truth-sensor slopes", "measurements"], &tables(), &|t| {
        let mut cards = vec![Card::new("BUNIT", "", "slopes of slopes: no unit")];
        cards.extend(all_cards(t));
        cards
    })
}

/// Writes reconstructors in few bits, a file for each target.
fn write_rounded(
    path: &Path,
    list: &[Arc<RoundedMatrix>],
    order: SlopeOrder,
    write: impl Fn(usize, &Path, &RoundedMatrix) -> Result<(), Error>,
) -> Result<Vec<PathBuf>, PipelineError> {
    let refused = |problem: &str| Err(PipelineError::Options(format!("{}: {problem}", path.display())));
    if list.is_empty() {
        return refused("an npz file has reconstructors in few bits: give --bits, or write .fits or .npy");
    }
    if order != SlopeOrder::Xxyy {
        return refused("reconstructors in few bits have the slopes in the order xxyy");
    }
    let name = |t| if list.len() == 1 { path.to_owned() } else { file_of(path, &format!("r{t}")) };
    let files: Vec<PathBuf> = (0..list.len()).map(name).collect();
    files.iter().zip(list).enumerate().try_for_each(|(t, (file, matrix))| write(t, file, matrix))?;
    Ok(files)
}

/// Writes images, scaled so that the peak of the diffraction-limited image is 1. It is a FITS file
/// with one HDU per image (`PSF`, or `PSF0`, `PSF1`, ...), or for a name ending in `.npy` one file
/// per image.
///
/// # Errors
/// There is no image, or a file cannot be written; it is left unchanged.
pub fn write_images(path: &Path, images: &[Psf]) -> Result<Vec<PathBuf>, PipelineError> {
    if images.is_empty() {
        return Err(PipelineError::Options("no rule survived, so that no image is written".into()));
    }
    if is_npy(path) {
        let matrix = |p: &Psf| Matrix::from_fn(p.size, p.size, |y, x| p.image[y * p.size + x]);
        let all: Vec<Matrix> = images.iter().map(matrix).collect();
        let list: Vec<_> = all.iter().enumerate().map(|(t, a)| (numbered("PSF", t, all.len()), a)).collect();
        return write_matrices(path, &list, |_| &IMAGE_AXES, &[], &|_| Vec::new());
    }
    let hdus: Vec<Hdu> = images
        .iter()
        .enumerate()
        .map(|(t, psf)| Hdu {
            name: numbered("PSF", t, images.len()),
            pixels: Pixels::F64 { shape: vec![psf.size, psf.size], values: &psf.image },
            axes: &IMAGE_AXES,
            cards: [
                Card::new("BUNIT", "", "peak of the diffraction-limited image is 1"),
                Card::new("PIXEL", psf.pixel, "[arcsec] size of a pixel"),
                Card::new("STREHL", psf.strehl, "Strehl ratio (stationary)"),
            ]
            .into_iter()
            .chain(fits::provenance_cards())
            .collect(),
        })
        .collect();
    fits::write(path, &hdus, &[])?;
    Ok(vec![path.to_owned()])
}
