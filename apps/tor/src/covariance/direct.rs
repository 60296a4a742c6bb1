//! Blocks without offset structure (sensors of different altitude or grid, rotated sensors),
//! evaluated for each pair of points.

use super::{Diagonal, LayerTerm, Part, Scalar, View};
use crate::geometry::Axis;
use crate::turbulence::Table;
use zellige_kernels::RealNumber;

/// Consecutive sub-apertures along the slope's axis, so that neighbours share an edge point:
/// `cells.len() + 1` points.
#[derive(Debug)]
struct Run {
    /// Index of its first point in [`Lattice::u`] and [`Lattice::v`].
    point: usize,
    /// Indices of the sub-apertures.
    cells: Vec<usize>,
}

/// The edge points of a part of a block, projected on every layer.
#[derive(Debug)]
pub(super) struct Lattice<R> {
    runs: Vec<Run>,
    points: usize,
    first_cell: usize,
    /// `u[layer * points + point]`, in m.
    u: Vec<R>,
    v: Vec<R>,
    visible: Vec<bool>,
}

impl<R: RealNumber> Lattice<R> {
    pub(super) fn new(view: &View<R>, part: &Part) -> Self {
        let grid = &view.grid;
        let along = if part.axis == Axis::X { 0 } else { 1 };
        // Order the cells so that those of a row (x slopes) or a column (y slopes) follow each
        // other.
        let mut cells: Vec<usize> = part.cells.clone().collect();
        if along == 1 {
            cells.sort_by_key(|&i| (grid.cells[i][0], grid.cells[i][1]));
        }
        let mut runs: Vec<Run> = Vec::new();
        let mut points = 0;
        for &cell in &cells {
            let joins = runs.last().is_some_and(|run| {
                let last = grid.cells[run.cells[run.cells.len() - 1]];
                let this = grid.cells[cell];
                view.lattice && last[1 - along] == this[1 - along] && last[along] + 1 == this[along]
            });
            if joins {
                if let Some(run) = runs.last_mut() {
                    run.cells.push(cell);
                }
                points += 1;
            } else {
                runs.push(Run { point: points, cells: vec![cell] });
                points += 2;
            }
        }
        let layers = view.projections.len();
        let (mut u, mut v) = (Vec::with_capacity(layers * points), Vec::with_capacity(layers * points));
        for (l, p) in view.projections.iter().enumerate() {
            for run in &runs {
                for k in 0..=run.cells.len() {
                    // Rows and columns of a part may hold the same point.
                    let after = if view.lattice { k } else { 0 };
                    R::begin(number_of_point(part, l, grid.cells[run.cells[0]], along, after));
                    let point = if view.lattice {
                        // The position depends on the grid position alone, so that both neighbours
                        // get the same bits in any part.
                        let first = grid.cells[run.cells[0]].map(f64::from);
                        let mut position = [first[0] + 0.5, first[1] + 0.5];
                        position[along] = first[along] + k as f64;
                        p.point(position.map(|x| grid.coordinate(x)))
                    } else {
                        let mut centre = p.point(grid.centre(run.cells[0]));
                        centre[along] = centre[along] + R::from((k as f64 - 0.5) * grid.pitch) * p.scale;
                        centre
                    };
                    u.push(point[0]);
                    v.push(point[1]);
                }
            }
        }
        let visible = view.projections.iter().map(|p| p.visible()).collect();
        Lattice { runs, points, first_cell: part.cells.start, u, v, visible }
    }

    /// Returns the number of edge points on a layer.
    pub(super) fn points(&self) -> usize {
        self.points
    }

    /// Returns `u, v` of every edge point, layer by layer.
    pub(super) fn coordinates(&self) -> impl Iterator<Item = R> {
        self.u.iter().zip(&self.v).flat_map(|(&u, &v)| [u, v])
    }

    /// Returns for each sub-aperture, in measurement order, the index of the point before it. The
    /// next point is the one after it.
    pub(super) fn first_points(&self) -> Vec<usize> {
        let mut out = vec![0; self.runs.iter().map(|run| run.cells.len()).sum()];
        for run in &self.runs {
            for (k, &cell) in run.cells.iter().enumerate() {
                out[cell - self.first_cell] = run.point + k;
            }
        }
        out
    }
}

/// Returns the number of an edge point on layer `l`, `after` points after the first one of `cell`.
fn number_of_point(part: &Part, l: usize, cell: [u16; 2], along: usize, after: usize) -> u64 {
    let mut position = cell.map(u64::from);
    position[along] += after as u64;
    let lattice = 2 * part.view as u64 + along as u64;
    lattice << 48 | (l as u64) << 36 | position[1] << 18 | position[0]
}

/// Writes the block `rows x cols`; `scale` is `K / 2`.
pub(super) fn fill<T: Scalar>(
    rows: &Lattice<T::Real>,
    cols: &Lattice<T::Real>,
    layers: &[LayerTerm<T::Real>],
    table: &Table<T::Real>,
    scale: f64,
    diagonal: &Diagonal<'_>,
    out: &mut [T],
    ld: usize,
) {
    let number = |x: f64| <T::Real>::from(x);
    let mut sums = Vec::new();
    for c in &cols.runs {
        for r in &rows.runs {
            let (height, width) = (r.cells.len() + 1, c.cells.len() + 1);
            sums.clear();
            sums.resize(height * width, number(0.0));
            for (l, layer) in layers.iter().enumerate() {
                if rows.visible[l] && cols.visible[l] {
                    let (a, b) = (l * rows.points + r.point, l * cols.points + c.point);
                    add_layer(
                        &mut sums,
                        (&rows.u[a..a + height], &rows.v[a..a + height]),
                        (&cols.u[b..b + width], &cols.v[b..b + width]),
                        layer,
                        table,
                    );
                }
            }
            for (j, &cj) in c.cells.iter().enumerate() {
                let column = &mut out[(cj - cols.first_cell) * ld..];
                let (near, far) =
                    (&sums[j * height..(j + 1) * height], &sums[(j + 1) * height..(j + 2) * height]);
                for (i, &ci) in r.cells.iter().enumerate() {
                    let mut value = number(scale) * ((near[i + 1] + far[i]) - (far[i + 1] + near[i]))
                        + number(diagonal.constant);
                    if ci == cj {
                        value = value + number(diagonal.noise(ci));
                    }
                    column[ci - rows.first_cell] = T::round(value);
                }
            }
        }
    }
}

/// Adds the structure function of one layer between all points of two runs, column by column.
fn add_layer<R: RealNumber>(
    sums: &mut [R],
    rows: (&[R], &[R]),
    cols: (&[R], &[R]),
    layer: &LayerTerm<R>,
    table: &Table<R>,
) {
    let LayerTerm { weight, stretch } = *layer;
    R::vectorize(
        #[inline(always)]
        || {
            for ((column, &uc), &vc) in sums.chunks_exact_mut(rows.0.len()).zip(cols.0).zip(cols.1) {
                for ((slot, &ur), &vr) in column.iter_mut().zip(rows.0).zip(rows.1) {
                    let (du, dv) = (ur - uc, vr - vc);
                    *slot = *slot + weight * table.g_of_square((du * du + dv * dv) * stretch);
                }
            }
        },
    );
}
