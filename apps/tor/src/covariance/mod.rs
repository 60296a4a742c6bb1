//! Slope covariances, generated on demand.
//!
//! A slope is the difference of the phase at the middles of two opposite edges of a sub-aperture,
//! divided by its side (the slope model of Vidal, Gendron & Rousset, JOSA A 27, 2010, A253, and of
//! MOAO's generator). With `i+`, `i-` those two points of slope `i` projected on a layer, and `D`
//! the structure function of that layer,
//!
//! `cov(i, j) = K / 2 * sum_layers [ D(i+ - j-) + D(i- - j+) - D(i+ - j+) - D(i- - j-) ]`,
//! `K = (500 nm / (2 pi) * 206265)^2 / (d_i d_j)` in arcsec^2,
//!
//! with `d` the sides in the pupil. This one formula is the four published ones (xx, yy, xy, yx).
//! Two facts make it cheap:
//!
//! * the `+` point of a sub-aperture is the `-` point of its neighbour, so along a row (x slopes)
//!   or a column (y slopes) one evaluation of `D` per entry and layer is enough instead of four
//!   (`direct`), and the differences are taken after the sum over the layers;
//! * two sensors of equal altitude and equal grid see each layer at the same scale: their blocks
//!   depend only on the offset between the two sub-apertures, `(2 nssp - 1)^2` values for a whole
//!   block (`offsets`).
//!
//! Every entry is a function of its two indices alone, with the same bits in any requested part of
//! the matrix, and `cov(i, j) == cov(j, i)` exactly.
//!
//! With a lag ([`System::lag`]), the truth sensor looks at the wavefront that much later than the
//! measurements. Turbulence is frozen: the phase of a layer with the wind `v` is `w(x, t) = w(x - v
//! t, 0)`. So the truth sensor sees what lay `v lag` upwind at the time of the measurements.

pub mod device;
mod direct;
mod kept;
mod offsets;
mod pair;

use crate::geometry::{Axis, Block, Geometry, Projection, SubApertures, truth_star};
use crate::noise::{self, SlopeNoise};
use crate::system::{Atmosphere, GuideStar, Layer, StarKind, System};
use crate::turbulence::{Table, k1};
use crate::{ARCSEC_PER_RADIAN, Error};
use kept::KeptPair;
use offsets::OffsetTable;
pub(crate) use pair::through_layer;
use std::f64::consts::PI;
use std::ops::Range;
use std::sync::Arc;
use zellige_kernels::RealNumber;

/// Covariance matrix to generate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Measurements with measurements, `n x n`, with noise and the tip-tilt constant of laser
    /// stars.
    Cmm,
    /// Truth sensor on the given target, [`System::lag`] later, with measurements, `m x n`, without
    /// noise.
    Ctm(usize),
    /// Truth sensor with itself, `m x m`, without noise; the same for every target.
    Ctt,
}

/// Number type of generated covariances.
pub trait Scalar: Copy + Send + Sync + 'static {
    /// Number type in which they are computed.
    type Real: RealNumber;

    /// Rounds to nearest.
    fn round(value: Self::Real) -> Self;
}

impl Scalar for f64 {
    type Real = f64;

    fn round(value: f64) -> f64 {
        value
    }
}

impl Scalar for f32 {
    type Real = f64;

    fn round(value: f64) -> f32 {
        value as f32
    }
}

/// Parameters of one layer: `weight * g(sqrt(stretch * r^2))` is its structure function.
#[derive(Debug, Clone, Copy)]
struct LayerTerm<R> {
    weight: R,
    stretch: R,
}

impl<R: RealNumber> LayerTerm<R> {
    fn new(layer: &Layer) -> Self {
        let (cn2, outer_scale) = (R::from(layer.cn2), R::from(layer.outer_scale));
        let weight = cn2 * R::from(k1()) * outer_scale.apply(|x| x.powf(5.0 / 3.0));
        let stretch = R::from(2.0 * PI) / outer_scale;
        LayerTerm { weight, stretch: stretch * stretch }
    }
}

/// Sensor data that the covariance needs.
#[derive(Debug)]
struct View<R: RealNumber> {
    grid: SubApertures,
    inverse_altitude: f64,
    projections: Vec<Projection<R>>,
    /// Whether projected sub-apertures share their edges: there is no rotation or magnification, or
    /// they apply to whole sub-apertures.
    lattice: bool,
    /// Whether edges are parallel to the axes, and as long as those in the pupil.
    upright: bool,
}

impl<R: RealNumber> View<R> {
    fn new(star: &GuideStar, grid: &SubApertures, projections: Vec<Projection<R>>) -> Self {
        let upright = star.rotation == 0.0 && star.magnification == 1.0;
        View {
            grid: grid.clone(),
            inverse_altitude: star.inverse_altitude,
            projections,
            lattice: upright || star.slopes_turn,
            upright,
        }
    }
}

/// Maximum memory of offset tables in bytes; further sensor pairs are evaluated entry by entry.
const TABLE_BUDGET: usize = 1 << 30;

/// Maximum memory of kept blocks in bytes.
const KEPT_BUDGET: u64 = 1 << 28;

/// Generator of the covariance matrices of one system under one atmosphere. Any number of threads
/// may call [`Covariance::fill`] at once.
///
/// It computes in `R`. Positions in the pupil, constants of the model and noise are data: they have
/// no rounding errors of their own. Random bits of stochastic entries depend on the requested part.
#[derive(Debug)]
pub struct Covariance<R: RealNumber = f64> {
    geometry: Geometry,
    views: Vec<View<R>>,
    targets: usize,
    layers: Vec<LayerTerm<R>>,
    tables: Vec<OffsetTable<R>>,
    /// Table of views `a <= b` at `a * views + b`.
    pairs: Vec<Option<u32>>,
    /// Kept blocks of views `a <= b` at `a * views + b`.
    kept: Vec<Option<KeptPair<R>>>,
    noise: Vec<Vec<SlopeNoise>>,
    tip_tilt: Vec<f64>,
    table: Arc<Table<R>>,
}

impl Covariance {
    /// Prepares the generator for the system's own targets.
    ///
    /// # Errors
    /// The system or the atmosphere is invalid.
    pub fn new(system: &System, atmosphere: &Atmosphere) -> Result<Self, Error> {
        Self::with_targets(system, atmosphere, &system.targets)
    }

    /// Prepares the generator for the given targets, `[x, y]` in arcsec.
    ///
    /// # Errors
    /// The system or the atmosphere is invalid, or there is no target.
    pub fn with_targets(
        system: &System,
        atmosphere: &Atmosphere,
        targets: &[[f64; 2]],
    ) -> Result<Self, Error> {
        Covariance::with_table(system, atmosphere, targets, Arc::clone(Table::get()))
    }

    /// Returns a whole matrix in float64, for small systems and tests.
    ///
    /// # Errors
    /// The target does not exist.
    pub fn matrix(&self, kind: Kind) -> Result<crate::Matrix, Error> {
        let (rows, cols) = self.shape(kind);
        let mut out = crate::Matrix::zeros(rows, cols);
        self.fill(kind, 0..rows, 0..cols, out.data_mut(), rows.max(1))?;
        Ok(out)
    }
}

impl<R: RealNumber + Scalar<Real = R>> Covariance<R> {
    /// Prepares the generator, see [`Covariance::with_targets`].
    pub(crate) fn with_table(
        system: &System,
        atmosphere: &Atmosphere,
        targets: &[[f64; 2]],
        table: Arc<Table<R>>,
    ) -> Result<Self, Error> {
        let system = System { targets: targets.to_vec(), ..system.clone() };
        system.check()?;
        atmosphere.check()?;
        let geometry = Geometry::new(&system)?;
        // An empty layer contributes nothing and costs as much as any other.
        let all = atmosphere.layers.iter().zip(atmosphere.winds());
        let layers: Vec<_> = all.filter(|(l, _)| l.cn2 > 0.0).collect();
        let views = views(&system, &geometry, &layers);
        let terms: Vec<LayerTerm<R>> = layers.iter().map(|(l, _)| LayerTerm::new(l)).collect();
        let noise = (0..system.stars.len())
            .map(|i| noise::of_sensor(&system, atmosphere, i, &geometry.sensors()[i]))
            .collect::<Result<_, _>>()?;
        let tip_tilt =
            system.stars.iter().map(|s| if s.kind == StarKind::Lgs { system.lgs_cst } else { 0.0 }).collect();
        let mut out = Covariance {
            pairs: vec![None; views.len() * views.len()],
            kept: std::iter::repeat_with(|| None).take(views.len() * views.len()).collect(),
            geometry,
            views,
            targets: targets.len(),
            layers: terms,
            tables: Vec::new(),
            noise,
            tip_tilt,
            table,
        };
        out.build_tables();
        Ok(out)
    }

    /// Keeps blocks of `Cmm` and `Ctm` that are evaluated entry by entry, after their first use and
    /// up to `budget` bytes, for callers that generate the matrices more than once.
    pub(crate) fn keep(mut self, mut budget: u64) -> Self {
        let sensors = self.geometry.sensors().len();
        for pair in kept::pairs(&self.views, sensors) {
            let Some(rest) = budget.checked_sub(kept::bytes(&self.views, pair)) else { break };
            budget = rest;
            self.kept[pair[1] * self.views.len() + pair[0]] = Some(KeptPair::default());
        }
        self
    }

    /// Builds the tables of all pairs of views that have the offset structure and occur in a
    /// matrix.
    fn build_tables(&mut self) {
        let sensors = self.geometry.sensors().len();
        let mut bytes = 0;
        for a in 0..self.views.len() {
            for b in a..self.views.len() {
                // Two truth sensors are paired for Ctt only.
                if a >= sensors && (a, b) != (sensors, sensors) {
                    continue;
                }
                let (va, vb) = (&self.views[a], &self.views[b]);
                if !OffsetTable::applies(va, vb) {
                    continue;
                }
                let shift = OffsetTable::shift(va, vb);
                let known = self.tables.iter().position(|t| t.same(va, &shift));
                let index = known.unwrap_or_else(|| {
                    bytes += OffsetTable::<R>::bytes(va.grid.nssp);
                    if bytes <= TABLE_BUDGET {
                        self.tables.push(OffsetTable::new(va, shift, &self.layers, &self.table));
                    }
                    self.tables.len() - 1
                });
                if known.is_some() || bytes <= TABLE_BUDGET {
                    self.pairs[a * self.views.len() + b] = Some(index as u32);
                }
            }
        }
    }

    /// Returns the sub-apertures and the order of the measurements.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Returns the number of measurements `n`.
    pub fn measurements(&self) -> usize {
        self.geometry.measurements()
    }

    /// Returns the number of truth-sensor slopes `m`.
    pub fn truth_slopes(&self) -> usize {
        self.geometry.truth_slopes()
    }

    /// Returns the number of targets.
    pub fn targets(&self) -> usize {
        self.targets
    }

    /// Returns the noise of every sub-aperture of a measuring sensor, or `None` if there is no such
    /// sensor.
    pub fn noise(&self, sensor: usize) -> Option<&[SlopeNoise]> {
        self.noise.get(sensor).map(Vec::as_slice)
    }

    /// Returns the number of rows and columns of a matrix.
    pub fn shape(&self, kind: Kind) -> (usize, usize) {
        let (n, m) = (self.measurements(), self.truth_slopes());
        match kind {
            Kind::Cmm => (n, n),
            Kind::Ctm(_) => (m, n),
            Kind::Ctt => (m, m),
        }
    }

    /// Writes `matrix[rows, cols]` in arcsec^2 to `out`, column-major: entry `(i, j)` goes to
    /// `out[i - rows.start + (j - cols.start) * ld]`. Other elements of `out` are not touched.
    ///
    /// # Errors
    /// A range ends outside the matrix, the target does not exist, `ld` or `out` is too small.
    pub fn fill<T: Scalar<Real = R>>(
        &self,
        kind: Kind,
        rows: Range<usize>,
        cols: Range<usize>,
        out: &mut [T],
        ld: usize,
    ) -> Result<(), Error> {
        let (height, width) = self.shape(kind);
        let bad = |problem: String| Err(Error::shape(format!("part of {kind:?}"), problem));
        if let Kind::Ctm(t) = kind
            && t >= self.targets
        {
            return bad(format!("target {t} of {}", self.targets));
        }
        if rows.start > rows.end || rows.end > height || cols.start > cols.end || cols.end > width {
            return bad(format!("rows {rows:?}, columns {cols:?} of a {height} x {width} matrix"));
        }
        if rows.is_empty() || cols.is_empty() {
            return Ok(());
        }
        let needed = (cols.len() - 1).checked_mul(ld).and_then(|x| x.checked_add(rows.len()));
        if ld < rows.len() || needed.is_none_or(|x| x > out.len()) {
            return bad(format!(
                "{} x {} entries do not fit {} elements with leading dimension {ld}",
                rows.len(),
                cols.len(),
                out.len()
            ));
        }
        let row_parts = self.parts(kind, true, &rows);
        let col_parts = self.parts(kind, false, &cols);
        for c in &col_parts {
            for r in &row_parts {
                let out = &mut out[c.at * ld + r.at..];
                self.fill_block(kind, r, c, out, ld);
            }
        }
        Ok(())
    }

    /// Splits `range` into parts that lie in one block each.
    fn parts(&self, kind: Kind, rows: bool, range: &Range<usize>) -> Vec<Part> {
        let sensors = self.geometry.sensors().len();
        let part = |b: &Block, view: usize| {
            let (start, end) = (range.start.max(b.start), range.end.min(b.start + b.len));
            (start < end).then(|| Part {
                view,
                axis: b.axis,
                cells: start - b.start..end - b.start,
                at: start - range.start,
            })
        };
        match (kind, rows) {
            (Kind::Cmm, _) | (Kind::Ctm(_), false) => {
                self.geometry.blocks().iter().filter_map(|b| part(b, b.wfs)).collect()
            }
            (Kind::Ctm(t), true) => {
                self.geometry.truth_blocks().iter().filter_map(|b| part(b, sensors + t)).collect()
            }
            (Kind::Ctt, _) => self.geometry.truth_blocks().iter().filter_map(|b| part(b, sensors)).collect(),
        }
    }

    fn fill_block<T: Scalar<Real = R>>(&self, kind: Kind, r: &Part, c: &Part, out: &mut [T], ld: usize) {
        let same = kind == Kind::Cmm && r.view == c.view;
        let diagonal = Diagonal {
            constant: if same && r.axis == c.axis { self.tip_tilt[r.view] } else { 0.0 },
            noise: if same { Some((&self.noise[r.view], r.axis, c.axis)) } else { None },
        };
        let (a, b) = (r.view.min(c.view), r.view.max(c.view));
        match self.pairs[a * self.views.len() + b] {
            Some(index) => {
                let grid = &self.views[r.view].grid;
                R::begin(number_of_block(r, c));
                self.tables[index as usize].fill(grid, r, c, r.view > c.view, &diagonal, out, ld);
            }
            None => match &self.kept[a * self.views.len() + b] {
                Some(pair) => {
                    let swapped = r.view < c.view;
                    let [rows, cols] = if swapped { [c, r] } else { [r, c] }.map(|part| {
                        let cells = 0..self.views[part.view].grid.len();
                        Part { view: part.view, axis: part.axis, cells, at: 0 }
                    });
                    let height = rows.cells.len();
                    let block = pair.block(rows.axis, cols.axis, || {
                        let mut block = vec![R::default(); height * cols.cells.len()];
                        let nothing = Diagonal { constant: 0.0, noise: None };
                        self.evaluate(&rows, &cols, &nothing, &mut block, height);
                        block
                    });
                    kept::copy(block, height, swapped, [r, c], &diagonal, out, ld);
                }
                None => self.evaluate(r, c, &diagonal, out, ld),
            },
        }
    }

    /// Evaluates a part of a block entry by entry.
    fn evaluate<T: Scalar<Real = R>>(
        &self,
        r: &Part,
        c: &Part,
        diagonal: &Diagonal<'_>,
        out: &mut [T],
        ld: usize,
    ) {
        let rows = direct::Lattice::new(&self.views[r.view], r);
        let cols = direct::Lattice::new(&self.views[c.view], c);
        let d = self.views[r.view].grid.pitch * self.views[c.view].grid.pitch;
        R::begin(number_of_block(r, c));
        direct::fill(&rows, &cols, &self.layers, &self.table, half_k() / d, diagonal, out, ld);
    }
}

/// Returns the bytes of the blocks that are worth keeping for a system.
///
/// # Errors
/// The system is invalid.
pub(crate) fn worth_keeping(system: &System) -> Result<u64, Error> {
    let geometry = Geometry::new(system)?;
    let views = views::<f64>(system, &geometry, &[]);
    let all = kept::pairs(&views, geometry.sensors().len()).map(|pair| kept::bytes(&views, pair));
    Ok(all.sum::<u64>().min(KEPT_BUDGET))
}

/// Returns the views of all sensors, and of the truth sensor on every target. Layers have a wind.
fn views<R: RealNumber>(system: &System, geometry: &Geometry, layers: &[(&Layer, [f64; 2])]) -> Vec<View<R>> {
    let view = |star: &GuideStar, grid: &SubApertures| {
        View::new(star, grid, layers.iter().map(|(l, _)| Projection::new(star, l.altitude)).collect())
    };
    let mut views: Vec<View<R>> =
        system.stars.iter().zip(geometry.sensors()).map(|(s, g)| view(s, g)).collect();
    views.extend(system.targets.iter().map(|t| {
        let mut truth = view(&truth_star(system.nssp, *t), geometry.truth());
        if system.lag != 0.0 {
            for (projection, (_, wind)) in truth.projections.iter_mut().zip(layers) {
                *projection = projection.upwind(wind.map(|v| v * system.lag));
            }
        }
        truth
    }));
    views
}

/// Returns `K / 2` times the product of the two pitches: arcsec^2 m^2 per rad^2 of phase at 500 nm.
fn half_k() -> f64 {
    0.5 * (500e-9 / (2.0 * PI) * ARCSEC_PER_RADIAN).powi(2)
}

/// Returns the number of a block of the requested part among the elements of a task; smaller ones
/// are points.
fn number_of_block(r: &Part, c: &Part) -> u64 {
    1 << 63 | (r.at as u64) << 32 | c.at as u64
}

/// Part of one block: sub-apertures `cells` of a view along `axis`, written from row or column `at`
/// on.
#[derive(Debug)]
struct Part {
    view: usize,
    axis: Axis,
    cells: Range<usize>,
    at: usize,
}

/// Terms added to the turbulence: a constant for the whole block, and noise on the diagonal of a
/// sub-aperture with itself.
struct Diagonal<'a> {
    constant: f64,
    noise: Option<(&'a [SlopeNoise], Axis, Axis)>,
}

impl Diagonal<'_> {
    fn noise(&self, cell: usize) -> f64 {
        match self.noise {
            None => 0.0,
            Some((list, Axis::X, Axis::X)) => list[cell].xx,
            Some((list, Axis::Y, Axis::Y)) => list[cell].yy,
            Some((list, _, _)) => list[cell].xy,
        }
    }
}
