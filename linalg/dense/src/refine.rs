//! Iterative refinement of `X A = B`: residuals in `f64`, corrections from a factor in any
//! precision.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use zellige_kernels::{MatRef, Op, gemm};
use zellige_runtime::{
    Codelet, Cpu, Handle, List, Operands, Read, ReadList, Scratch, Session, Slot, Submit, Subnormals,
    TaskContext, TaskError, TaskInfo, Update, Write, read, reads, scratch, update, write,
};

use crate::SUBNORMALS;
use crate::error::Error;
use crate::format::format_of;
use crate::grid::TileGrid;
use crate::policy::SharedPolicy;
use crate::scalar::TileScalar;
use crate::scale::unit_scale;
use crate::solve::solve;
use crate::tile::{MatrixNorm, Tile};
use crate::tiled::{Generator, RectTiled, SymmetricTiled, mirror};

/// Stopping criteria of refinement; the first that is met ends it. It also ends if a step has not
/// halved the residual.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RefineUntil {
    /// Maximum number of steps.
    pub steps: usize,
    /// `||B - X A||_F / ||B||_F` that is small enough.
    pub tolerance: f64,
}

/// Reason for the end of refinement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefineEnd {
    /// The residual is small enough.
    Converged,
    /// The maximum number of steps was reached.
    Steps,
    /// The last step has not halved the residual; one that has made it larger is undone.
    Stagnated,
}

/// Result of an iterative refinement.
#[derive(Clone, Debug, PartialEq)]
pub struct Refinement {
    /// Reason for the end.
    pub end: RefineEnd,
    /// `||B - X A||_F / ||B||_F` of the `X` before each step that was made; 0 if both norms are
    /// zero.
    pub before: Vec<f64>,
    /// `||B - X A||_F / ||B||_F` of the final `X`, recomputed.
    pub residual: f64,
}

/// Submits the copy of `x` into `f64` tiles, the form that refinement improves.
///
/// # Errors
/// [`Error::Runtime`] if a handle has been taken or never been filled.
pub fn widened<T: TileScalar, S: Submit>(s: &S, x: &RectTiled<T>) -> Result<RectTiled<f64>, Error> {
    let wide = RectTiled::new(s, "X", x.row_grid().clone(), x.col_grid().clone());
    for (from, to) in x.handles().iter().zip(wide.handles()) {
        s.submit(Widen(PhantomData), (read(from).as_format(format_of(T::FORMAT)), write(to)))?;
    }
    Ok(wide)
}

/// Runs iterative refinement, `X += solve(B - X A)` step by step.
///
/// Residuals are computed in `f64` from `A` and `B` themselves, block by block: `a` generates every
/// block on and below the diagonal once per residual, and none is kept. They are multiplied by a
/// power of two before they are rounded to the factor's format, because small residuals would leave
/// its range. Entries of `A`, `B` and `X` are not scaled: products have to be in the range of `f64`
/// ([`Cholesky`](crate::Cholesky) scales its systems first). A correction is solved for with `l`,
/// the factor of `A`, on the tiling of `x`. The largest intermediate is the residual in `f64`, one
/// tile per column of tiles, as tall as `X`.
///
/// # Errors
/// Those of [`solve`], and the first error of a task.
pub fn refine<T: TileScalar, S: Session>(
    rt: &S,
    factor: (&SymmetricTiled<T>, &SharedPolicy),
    system: (&Generator<f64>, &Generator<f64>),
    x: &RectTiled<f64>,
    until: RefineUntil,
) -> Result<Refinement, Error> {
    refine_by(rt, factor, system, x, until, &|_| Ok(None))
}

/// Bytes of the operands of that task of [`refine`] which has the most, for `rows` right-hand
/// sides: two columns of tiles of `X` and of the residual, in `f64`. A runtime with less host
/// memory refuses it.
pub fn refine_bytes(rows: usize, grid: &TileGrid) -> u64 {
    let mut widths: Vec<usize> = (0..grid.tiles()).map(|j| grid.width(j)).collect();
    widths.sort_unstable();
    let two = widths.iter().rev().take(2).sum::<usize>();
    (2 * size_of::<f64>() * rows * two) as u64
}

/// The relative residual of a caller's own, of `B - X A`; `None` for that in the Frobenius norm.
pub(crate) type Measured<'m> = &'m dyn Fn(&RectTiled<f64>) -> Result<Option<f64>, Error>;

/// Runs [`refine`] until the residual as `measured` is small enough. It continues while a step
/// halves this or the Frobenius norm.
pub(crate) fn refine_by<T: TileScalar, S: Session>(
    rt: &S,
    (l, policy): (&SymmetricTiled<T>, &SharedPolicy),
    (a, b): (&Generator<f64>, &Generator<f64>),
    x: &RectTiled<f64>,
    until: RefineUntil,
    measured: Measured<'_>,
) -> Result<Refinement, Error> {
    if l.grid().edges() != x.col_grid().edges() {
        return Err(Error::Shape {
            what: "refining X",
            got: format!("X with column edges {:?}", x.col_grid().edges()),
            want: format!("A with edges {:?}", l.grid().edges()),
        });
    }
    let residual = || Residual::new(rt, a, b, x, measured);
    let (mut before, mut now) = (Vec::new(), residual()?);
    loop {
        let end = match () {
            () if now.relative <= until.tolerance => RefineEnd::Converged,
            () if before.len() >= until.steps => RefineEnd::Steps,
            () => {
                let was = [now.relative, now.frobenius];
                before.push(now.relative);
                let correction = now.solved(rt, l, policy, x)?;
                correction.add(rt, 1.0, x)?;
                now = residual()?;
                if now.relative <= 0.5 * was[0] || now.frobenius <= 0.5 * was[1] {
                    continue;
                }
                // NaN is more than anything.
                if now.relative.is_nan() || now.relative > was[0] {
                    correction.add(rt, -1.0, x)?;
                    now = residual()?;
                }
                if now.relative <= until.tolerance { RefineEnd::Converged } else { RefineEnd::Stagnated }
            }
        };
        return Ok(Refinement { end, before, residual: now.relative });
    }
}

/// `B - X A`.
pub(crate) struct Residual {
    pub(crate) r: RectTiled<f64>,
    norm: Handle<MatrixNorm>,
    /// Its norm relative to that of `B`, as refinement uses it.
    pub(crate) relative: f64,
    /// Its norm relative to that of `B`, in the Frobenius norm.
    frobenius: f64,
}

impl Residual {
    pub(crate) fn new<S: Session>(
        rt: &S,
        a: &Generator<f64>,
        b: &Generator<f64>,
        x: &RectTiled<f64>,
        measured: Measured<'_>,
    ) -> Result<Residual, Error> {
        let (m, grid) = (x.row_grid().len(), x.col_grid());
        let whole = TileGrid::uniform(m, m.max(1))?;
        let r = RectTiled::<f64>::new(rt, "R", whole, grid.clone());
        // The column of the residual has the owner of that of X.
        if m > 0 {
            for j in 0..grid.tiles() {
                rt.set_owner(r.tile(0, j), rt.owner_of(x.tile(0, j))?.unwrap_or(0))?;
            }
        }
        r.fill(rt, b)?;
        let right_hand_side = r.norm(rt)?;
        // R has no row of tiles if X has no rows.
        if m > 0 {
            for (k, n) in pairs(grid.tiles()) {
                submit_block(rt, a, grid.range(k), grid.range(n), x, &r, (k, n))?;
            }
        }
        for tile in r.handles() {
            rt.submit(Measure, (update(tile),))?;
        }
        let norm = r.norm(rt)?;
        let (of_r, of_b) = (rt.read(&norm)?.0, rt.read(&right_hand_side)?.0);
        let frobenius = if of_r == 0.0 { 0.0 } else { of_r / of_b };
        let relative = measured(&r)?.unwrap_or(frobenius);
        Ok(Residual { r, norm, relative, frobenius })
    }

    /// Solves for the correction of `X` with the factor.
    fn solved<T: TileScalar, S: Session>(
        self,
        rt: &S,
        l: &SymmetricTiled<T>,
        policy: &SharedPolicy,
        x: &RectTiled<f64>,
    ) -> Result<Correction<T>, Error> {
        let d = RectTiled::<T>::new(rt, "D", x.row_grid().clone(), x.col_grid().clone());
        for i in 0..x.row_grid().tiles() {
            for j in 0..x.col_grid().tiles() {
                let cut = Cut { rows: x.row_grid().range(i), element: PhantomData };
                rt.submit(cut, (read(self.r.tile(0, j)), read(&self.norm), write(d.tile(i, j))))?;
            }
        }
        solve(rt, l, &d, policy)?.wait(rt.runtime())?;
        Ok(Correction { d, norm: self.norm })
    }
}

/// Correction of `X`, multiplied by a power of two that depends on the norm of the residual.
struct Correction<T: TileScalar> {
    d: RectTiled<T>,
    norm: Handle<MatrixNorm>,
}

impl<T: TileScalar> Correction<T> {
    /// Submits `X += sign D`.
    fn add<S: Submit>(&self, rt: &S, sign: f64, x: &RectTiled<f64>) -> Result<(), Error> {
        for (d, x) in self.d.handles().iter().zip(x.handles()) {
            rt.submit(Correct { sign, element: PhantomData }, (read(d), read(&self.norm), update(x)))?;
        }
        Ok(())
    }
}

/// Returns every block `(k, n)`, `k >= n`, diagonal by diagonal, so that neighbours in the order
/// update different columns of the residual.
pub(crate) fn pairs(nt: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..nt).flat_map(move |distance| (distance..nt).map(move |k| (k, k - distance)))
}

fn submit_block<S: Submit>(
    s: &S,
    a: &Generator<f64>,
    rows: Range<usize>,
    cols: Range<usize>,
    x: &RectTiled<f64>,
    r: &RectTiled<f64>,
    (k, n): (usize, usize),
) -> Result<(), Error> {
    let block = ResidualBlock { a: Arc::clone(a), rows, cols, at: (k, n), m: x.row_grid().len() };
    let area = scratch(block.rows.len() * block.cols.len());
    if k == n {
        let operands = (reads(x.column(n)), update(r.tile(0, n)), area);
        s.submit(OnDiagonal(block), operands)?;
    } else {
        let operands =
            (reads(x.column(k)), reads(x.column(n)), update(r.tile(0, n)), update(r.tile(0, k)), area);
        s.submit(OffDiagonal(block), operands)?;
    }
    Ok(())
}

/// A block `A_kn` of the symmetric matrix, and its part in the residual.
pub(crate) struct ResidualBlock {
    pub(crate) a: Generator<f64>,
    pub(crate) rows: Range<usize>,
    pub(crate) cols: Range<usize>,
    pub(crate) at: (usize, usize),
    pub(crate) m: usize,
}

impl ResidualBlock {
    fn info(&self, products: f64) -> TaskInfo {
        let area = self.rows.len() as f64 * self.cols.len() as f64;
        TaskInfo {
            flops: 2.0 * products * area * self.m as f64,
            coords: Some([self.at.0 as u32, self.at.1 as u32, u32::MAX]),
            label: "fp64",
            ..TaskInfo::default()
        }
    }

    pub(crate) fn generate<'a>(&self, area: &'a mut [f64]) -> Result<MatRef<'a, f64>, TaskError> {
        let (rows, cols) = (self.rows.len(), self.cols.len());
        (self.a)(self.rows.clone(), self.cols.clone(), area, rows)?;
        if self.at.0 == self.at.1 {
            mirror(area, rows);
        }
        Ok(MatRef::new(area, rows, cols, rows)?)
    }
}

/// Computes `R -= X op(A)`, with `X` in tiles from the top.
fn subtract(x: &List<'_, Tile<f64>>, a: MatRef<'_, f64>, op: Op, r: &mut Tile<f64>) -> Result<(), Error> {
    let mut top = 0;
    for x in x.iter() {
        let cols = r.cols();
        let part = r.mat_mut()?.sub(top, 0, x.rows(), cols);
        gemm(-1.0, x.mat()?, Op::None, a, op, 1.0, part)?;
        top += x.rows();
    }
    Ok(())
}

struct OnDiagonal(ResidualBlock);

impl Codelet for OnDiagonal {
    type Operands = (ReadList<Tile<f64>>, Update<Tile<f64>>, Scratch<f64>);
    const SUBNORMALS: Option<Subnormals> = SUBNORMALS;

    fn name(&self) -> &'static str {
        "residual"
    }

    fn info(&self) -> TaskInfo {
        self.0.info(1.0)
    }

    fn cpu(
        &self,
        (x, r, area): <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        let a = self.0.generate(area)?;
        Ok(subtract(&x, a, Op::None, r)?)
    }
}

struct OffDiagonal(ResidualBlock);

impl Codelet for OffDiagonal {
    type Operands =
        (ReadList<Tile<f64>>, ReadList<Tile<f64>>, Update<Tile<f64>>, Update<Tile<f64>>, Scratch<f64>);
    const SUBNORMALS: Option<Subnormals> = SUBNORMALS;

    fn name(&self) -> &'static str {
        "residual"
    }

    fn info(&self) -> TaskInfo {
        self.0.info(2.0)
    }

    fn cpu(
        &self,
        (x_k, x_n, r_n, r_k, area): <Self::Operands as Operands>::Views<'_, Cpu>,
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        let a = self.0.generate(area)?;
        subtract(&x_k, a, Op::None, r_n)?;
        Ok(subtract(&x_n, a, Op::Trans, r_k)?)
    }
}

/// Leaves a tile's norm.
struct Measure;

impl Codelet for Measure {
    type Operands = (Update<Tile<f64>>,);

    fn name(&self) -> &'static str {
        "measure"
    }

    fn cpu(&self, (r,): (&mut Tile<f64>,), _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        r.measure()?;
        Ok(())
    }
}

/// Some rows of the residual, scaled and rounded to the factor's format, with the norm that they
/// had before they were rounded.
struct Cut<T> {
    rows: Range<usize>,
    element: PhantomData<T>,
}

impl<T: TileScalar> Codelet for Cut<T> {
    type Operands = (Read<Tile<f64>>, Read<MatrixNorm>, Write<Tile<T>>);
    const SUBNORMALS: Option<Subnormals> = SUBNORMALS;

    fn name(&self) -> &'static str {
        "narrow"
    }

    fn cpu(
        &self,
        (r, norm, mut d): (&Tile<f64>, &MatrixNorm, Slot<'_, Tile<T>>),
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        let source = r.mat()?.sub(self.rows.start, 0, self.rows.len(), r.cols());
        let (mut tile, scale) = (Tile::zeros(source.rows(), source.cols()), unit_scale(norm.0));
        let mut to = tile.mat_mut()?;
        for j in 0..source.cols() {
            let column = to.col_mut(j).iter_mut().zip(source.col(j));
            column.for_each(|(to, from)| *to = T::from_f64(scale * from));
        }
        tile.set_norm(scale * zellige_kernels::formats::frobenius_norm(source));
        d.put(tile);
        Ok(())
    }
}

struct Widen<T>(PhantomData<T>);

impl<T: TileScalar> Codelet for Widen<T> {
    type Operands = (Read<Tile<T>>, Write<Tile<f64>>);
    const SUBNORMALS: Option<Subnormals> = SUBNORMALS;

    fn name(&self) -> &'static str {
        "widen"
    }

    fn cpu(
        &self,
        (x, mut wide): (&Tile<T>, Slot<'_, Tile<f64>>),
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        let mut tile = Tile::zeros(x.rows(), x.cols());
        tile.as_mut_slice()?.iter_mut().zip(x.as_slice()?).for_each(|(to, from)| *to = from.to_f64());
        tile.measure()?;
        wide.put(tile);
        Ok(())
    }
}

/// `X += sign D`.
struct Correct<T> {
    sign: f64,
    element: PhantomData<T>,
}

impl<T: TileScalar> Codelet for Correct<T> {
    type Operands = (Read<Tile<T>>, Read<MatrixNorm>, Update<Tile<f64>>);
    const SUBNORMALS: Option<Subnormals> = SUBNORMALS;

    fn name(&self) -> &'static str {
        "correct"
    }

    fn cpu(
        &self,
        (d, norm, x): (&Tile<T>, &MatrixNorm, &mut Tile<f64>),
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        let scale = self.sign * unit_scale(norm.0);
        for (x, &d) in x.as_mut_slice()?.iter_mut().zip(d.as_slice()?) {
            *x += d.to_f64() / scale;
        }
        x.measure()?;
        Ok(())
    }
}
