//! Iterative refinement of `X A = B`: residuals in `f64`, corrections from a factor in any precision.

use std::ops::Range;
use std::sync::Arc;

use zellige_kernels::formats::{narrow, widen};
use zellige_kernels::{MatRef, Op, gemm};
use zellige_runtime::{
    Codelet, Cpu, Handle, List, Operands, Read, ReadList, Runtime, Scratch, Slot, Submit, Subnormals,
    TaskContext, TaskError, TaskInfo, Update, Write, read, reads, scratch, update, write,
};

use crate::SUBNORMALS;
use crate::error::Error;
use crate::factor::GemmCounts;
use crate::policy::SharedPolicy;
use crate::solve::{Solution, solve};
use crate::tile::{MatrixNorm, Tile};
use crate::tiled::{Generator, RectTiled, SymmetricTiled, mirror};

/// A refinement step that has been submitted.
#[derive(Debug)]
pub struct Refinement {
    solution: Solution,
    residual: Handle<MatrixNorm>,
    right_hand_side: Handle<MatrixNorm>,
}

impl Refinement {
    /// Waits, and returns `||B - X A||_F / ||B||_F` of the `X` before the step. 0 where both are zero.
    ///
    /// # Errors
    /// Whatever failed first.
    pub fn wait(&self, rt: &Runtime) -> Result<f64, Error> {
        self.solution.wait(rt)?;
        let (r, b) = (rt.read(&self.residual)?.0, rt.read(&self.right_hand_side)?.0);
        Ok(if r == 0.0 { 0.0 } else { r / b })
    }

    /// The products of the correction's solve, by precision.
    pub fn counts(&self) -> &GemmCounts {
        self.solution.counts()
    }
}

/// Submits the copy of `x` into `f64` tiles, the form that refinement improves.
///
/// # Errors
/// [`Error::Runtime`] if a handle has been taken or never been filled.
pub fn widened<S: Submit>(s: &S, x: &RectTiled<f32>) -> Result<RectTiled<f64>, Error> {
    let wide = RectTiled::new(s, "X", x.row_grid().clone(), x.col_grid().clone());
    for (from, to) in x.handles().iter().zip(wide.handles()) {
        s.submit(Widen, (read(from).as_format(crate::format::F32), write(to)))?;
    }
    Ok(wide)
}

/// Submits one step of refinement, `X += solve(B - X A)`.
///
/// The residual is computed in `f64` from `A` and `B` themselves, block by block: `a` is asked for every block on and below
/// the diagonal once per step, none is kept. The correction is solved for with `l`, the factor of `A`, on tiles cut as `x` is.
/// The largest intermediate is the residual in `f64`, one tile per column of tiles, as tall as `X`.
///
/// # Errors
/// As [`solve`].
pub fn refine<S: Submit>(
    s: &S,
    l: &SymmetricTiled<f32>,
    policy: &SharedPolicy,
    a: &Generator<f64>,
    b: &Generator<f64>,
    x: &RectTiled<f64>,
) -> Result<Refinement, Error> {
    let grid = l.grid();
    if grid.edges() != x.col_grid().edges() {
        return Err(Error::Shape {
            what: "refining X",
            got: format!("X with column edges {:?}", x.col_grid().edges()),
            want: format!("A with edges {:?}", grid.edges()),
        });
    }
    let m = x.row_grid().len();
    let whole = crate::TileGrid::uniform(m, m.max(1))?;
    let r = RectTiled::<f64>::generate(s, "R", whole, grid.clone(), b)?;
    let right_hand_side = r.norm(s)?;
    // R has no row of tiles where X has no rows.
    if m > 0 {
        for (k, n) in pairs(grid.tiles()) {
            submit_block(s, a, grid.range(k), grid.range(n), x, &r, (k, n))?;
        }
    }
    let d = RectTiled::<f32>::new(s, "D", x.row_grid().clone(), x.col_grid().clone());
    for i in 0..x.row_grid().tiles() {
        for j in 0..grid.tiles() {
            let cut = Cut { rows: x.row_grid().range(i) };
            s.submit(cut, (read(r.tile(0, j)), write(d.tile(i, j))))?;
        }
    }
    let residual = d.norm(s)?;
    let solution = solve(s, l, &d, policy)?;
    for (correction, x) in d.handles().iter().zip(x.handles()) {
        s.submit(Correct, (read(correction), update(x)))?;
    }
    Ok(Refinement { solution, residual, right_hand_side })
}

/// Every block `(k, n)`, `k >= n`, in an order in which neighbours update different columns of the residual: one diagonal
/// after the other.
fn pairs(nt: usize) -> impl Iterator<Item = (usize, usize)> {
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
    let block = Block { a: Arc::clone(a), rows, cols, at: (k, n), m: x.row_grid().len() };
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
struct Block {
    a: Generator<f64>,
    rows: Range<usize>,
    cols: Range<usize>,
    at: (usize, usize),
    m: usize,
}

impl Block {
    fn info(&self, products: f64) -> TaskInfo {
        let area = self.rows.len() as f64 * self.cols.len() as f64;
        TaskInfo {
            flops: 2.0 * products * area * self.m as f64,
            coords: Some([self.at.0 as u32, self.at.1 as u32, u32::MAX]),
            label: "fp64",
            ..TaskInfo::default()
        }
    }

    fn generate<'a>(&self, area: &'a mut [f64]) -> Result<MatRef<'a, f64>, TaskError> {
        let (rows, cols) = (self.rows.len(), self.cols.len());
        (self.a)(self.rows.clone(), self.cols.clone(), area, rows)?;
        if self.at.0 == self.at.1 {
            mirror(area, rows);
        }
        Ok(MatRef::new(area, rows, cols, rows)?)
    }
}

/// `R -= X op(A)`, `X` in tiles from the top.
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

struct OnDiagonal(Block);

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

struct OffDiagonal(Block);

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

/// Some rows of the residual, rounded to `f32`, with the norm that they had before.
struct Cut {
    rows: Range<usize>,
}

impl Codelet for Cut {
    type Operands = (Read<Tile<f64>>, Write<Tile<f32>>);
    const SUBNORMALS: Option<Subnormals> = SUBNORMALS;

    fn name(&self) -> &'static str {
        "narrow"
    }

    fn cpu(
        &self,
        (r, mut d): (&Tile<f64>, Slot<'_, Tile<f32>>),
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        let source = r.mat()?.sub(self.rows.start, 0, self.rows.len(), r.cols());
        let mut tile = Tile::zeros(source.rows(), source.cols());
        narrow(source, tile.mat_mut()?)?;
        tile.set_norm(zellige_kernels::formats::frobenius_norm(source));
        d.put(tile);
        Ok(())
    }
}

struct Widen;

impl Codelet for Widen {
    type Operands = (Read<Tile<f32>>, Write<Tile<f64>>);
    const SUBNORMALS: Option<Subnormals> = SUBNORMALS;

    fn name(&self) -> &'static str {
        "widen"
    }

    fn cpu(
        &self,
        (x, mut wide): (&Tile<f32>, Slot<'_, Tile<f64>>),
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        let mut tile = Tile::zeros(x.rows(), x.cols());
        widen(x.mat()?, tile.mat_mut()?)?;
        tile.measure()?;
        wide.put(tile);
        Ok(())
    }
}

/// `X += D`.
struct Correct;

impl Codelet for Correct {
    type Operands = (Read<Tile<f32>>, Update<Tile<f64>>);
    const SUBNORMALS: Option<Subnormals> = SUBNORMALS;

    fn name(&self) -> &'static str {
        "correct"
    }

    fn cpu(&self, (d, x): (&Tile<f32>, &mut Tile<f64>), _cx: &mut TaskContext<'_>) -> Result<(), TaskError> {
        for (x, &d) in x.as_mut_slice()?.iter_mut().zip(d.as_slice()?) {
            *x += f64::from(d);
        }
        x.measure()?;
        Ok(())
    }
}
