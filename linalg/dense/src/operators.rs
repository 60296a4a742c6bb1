//! Dense matrices and factors as operators of Krylov methods.

use std::sync::Arc;

use zellige_kernels::formats::frobenius_norm;
use zellige_kernels::{MatMut, MatRef, Op, gemm};
use zellige_krylov::method::{NumbersHandle, Steps, Sums, Workspace, are_done, plus};
use zellige_krylov::{Error as KrylovError, MultiVector, Operator, Space};
use zellige_runtime::{Slot, Submit, TaskError, read, scratch, write};

use crate::error::Error;
use crate::grid::TileGrid;
use crate::policy::SharedPolicy;
use crate::refine::{ResidualBlock, pairs};
use crate::scalar::TileScalar;
use crate::scale::unit_scale;
use crate::solve::solve;
use crate::tile::Tile;
use crate::tiled::{Generator, RectTiled, SymmetricTiled};

/// A symmetric matrix as an operator in float64: every product generates each block on and below
/// the diagonal once, and none is kept.
///
/// ```
/// use zellige_dense::{SymmetricOperator, TileGrid, generator};
/// use zellige_krylov::multiply;
/// use zellige_runtime::Runtime;
///
/// let rt = Runtime::new()?;
/// let ones = generator(|_rows, _cols, out: &mut [f64], _ld: usize| out.fill(1.0));
/// let a = SymmetricOperator::new(&TileGrid::uniform(5, 2)?, &ones)?;
/// assert_eq!(multiply(&rt, &a, &[1.0, 2.0, 3.0, 4.0, 5.0])?, [15.0; 5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SymmetricOperator {
    space: Space,
    grid: TileGrid,
    a: Generator<f64>,
}

impl SymmetricOperator {
    /// Creates an operator from the blocks that `a` generates, between these edges.
    ///
    /// # Errors
    /// [`Error::Grid`] for a matrix without rows.
    pub fn new(grid: &TileGrid, a: &Generator<f64>) -> Result<Self, Error> {
        Ok(SymmetricOperator { space: space(grid)?, grid: grid.clone(), a: Arc::clone(a) })
    }
}

/// Returns the space of vectors whose parts are between the edges of tiles.
fn space(grid: &TileGrid) -> Result<Space, Error> {
    let starts = &grid.edges()[..grid.tiles()];
    Space::cut_at(starts, grid.len()).map_err(|error| Error::Grid(error.to_string()))
}

/// Returns a part as a matrix whose row `c` is column `c` of the vector.
fn rows_of(part: &[f64], columns: usize) -> Result<MatRef<'_, f64>, TaskError> {
    Ok(MatRef::new(part, columns, part.len() / columns, columns)?)
}

fn rows_of_mut(part: &mut [f64], columns: usize) -> Result<MatMut<'_, f64>, TaskError> {
    let len = part.len() / columns;
    Ok(MatMut::new(part, columns, len, columns)?)
}

impl Operator for SymmetricOperator {
    fn domain(&self) -> &Space {
        &self.space
    }

    fn bytes(&self) -> u64 {
        let n = self.space.len() as u64;
        8 * (n * (n + 1) / 2)
    }

    fn memory(&self) -> u64 {
        0
    }

    fn apply(&self, steps: &Steps<'_>, x: &MultiVector, y: &MultiVector) -> Result<(), KrylovError> {
        let m = steps.columns();
        // Diagonal blocks come first: they overwrite `y`.
        for (k, n) in pairs(self.grid.tiles()) {
            let block = ResidualBlock {
                a: Arc::clone(&self.a),
                rows: self.grid.range(k),
                cols: self.grid.range(n),
                at: (k, n),
                m,
            };
            let (numbers, area) = (steps.numbers().read(), scratch(block.rows.len() * block.cols.len()));
            let coords = [k as u32, n as u32];
            let task = steps.graph().task("symv");
            if k == n {
                task.operands((numbers, x.read(n), y.update(n), area))
                    .cpu(move |(s, x, y, area)| -> Result<(), TaskError> {
                        if are_done(s, m) {
                            return Ok(());
                        }
                        let a = block.generate(area)?;
                        Ok(gemm(1.0, rows_of(&x, m)?, Op::None, a, Op::None, 0.0, rows_of_mut(y, m)?)?)
                    })
                    .coords(coords)
                    .submit()?;
            } else {
                let operands = (numbers, x.read(k), x.read(n), y.update(n), y.update(k), area);
                task.operands(operands)
                    .cpu(move |(s, x_k, x_n, y_n, y_k, area)| -> Result<(), TaskError> {
                        if are_done(s, m) {
                            return Ok(());
                        }
                        let a = block.generate(area)?;
                        gemm(1.0, rows_of(&x_k, m)?, Op::None, a, Op::None, 1.0, rows_of_mut(y_n, m)?)?;
                        Ok(gemm(1.0, rows_of(&x_n, m)?, Op::None, a, Op::Trans, 1.0, rows_of_mut(y_k, m)?)?)
                    })
                    .coords(coords)
                    .submit()?;
            }
        }
        Ok(())
    }

    /// Applies the operator, which is symmetric.
    fn apply_adjoint(&self, steps: &Steps<'_>, x: &MultiVector, y: &MultiVector) -> Result<(), KrylovError> {
        self.apply(steps, x, y)
    }
}

/// The inverse of a matrix by its Cholesky factor, as an operator: a preconditioner for the matrix
/// in float64.
///
/// Vectors are multiplied by a power of two before they are rounded to the factor's format, so that
/// their magnitude does not matter. If the policy uses norms, they are those of all columns:
/// rounding errors of a column may differ from those of a single solve.
pub struct FactorOperator<'l, T: TileScalar = f32> {
    space: Space,
    l: &'l SymmetricTiled<T>,
    policy: &'l SharedPolicy,
    workspace: Workspace<Workspaces<T>>,
}

/// Workspace for a number of columns.
struct Workspaces<T: TileScalar> {
    numbers: NumbersHandle<f64>,
    sums: Sums<f64>,
    scaled: MultiVector,
    d: RectTiled<T>,
}

/// Indices of each column's scale and of its inverse.
const SCALE: usize = 0;
const INVERSE: usize = 1;

impl<'l, T: TileScalar> FactorOperator<'l, T> {
    /// Creates an operator from the factor of [`cholesky`](crate::cholesky), with products in the
    /// precisions of a policy.
    ///
    /// # Errors
    /// [`Error::Grid`] for a factor without rows.
    pub fn new(l: &'l SymmetricTiled<T>, policy: &'l SharedPolicy) -> Result<Self, Error> {
        Ok(FactorOperator { space: space(l.grid())?, l, policy, workspace: Workspace::default() })
    }
}

impl<T: TileScalar> Operator for FactorOperator<'_, T> {
    fn domain(&self) -> &Space {
        &self.space
    }

    fn bytes(&self) -> u64 {
        let n = self.space.len() as u64;
        2 * size_of::<T>() as u64 * (n * (n + 1) / 2)
    }

    fn memory(&self) -> u64 {
        self.bytes() / 2
    }

    fn accuracy(&self) -> f64 {
        T::FORMAT.unit_roundoff()
    }

    fn apply(&self, steps: &Steps<'_>, x: &MultiVector, y: &MultiVector) -> Result<(), KrylovError> {
        let (rt, graph, m) = (steps.executor(), steps.graph(), steps.columns());
        let rows = TileGrid::uniform(m, m).map_err(KrylovError::from)?;
        let made = self.workspace.of(m, || Workspaces {
            numbers: NumbersHandle::new(rt, m, 2),
            sums: Sums::new(rt, &self.space, m, 1),
            scaled: MultiVector::zeros(rt, &self.space, m),
            d: RectTiled::new(graph, "D", rows, self.l.grid().clone()),
        });
        let Workspaces { numbers, sums, scaled, d } = &*made;
        let scaling = steps.by(numbers).with_sums(sums);
        scaling.task("factor.norm").dot(x, x, 0).submit()?;
        scaling.update_numbers("factor.scale", |sums, s| {
            let scale = unit_scale(sums[0].sqrt());
            s.set_reals([(SCALE, scale), (INVERSE, 1.0 / scale)]);
        })?;
        scaling.task("factor.scaled").assign(scaled, [plus(SCALE, x)]).submit()?;
        for (j, tile) in d.handles().iter().enumerate() {
            graph
                .task("narrow")
                .operands((scaled.read(j), write(tile)))
                .cpu(move |(x, mut d)| -> Result<(), TaskError> { narrowed(&x, m, &mut d) })
                .coords([j as u32])
                .submit()?;
        }
        solve(graph, self.l, d, self.policy).map_err(KrylovError::from)?;
        for (j, tile) in d.handles().iter().enumerate() {
            graph
                .task("widen")
                .operands((read(tile), y.update(j)))
                .cpu(move |(d, y)| -> Result<(), TaskError> {
                    y.iter_mut().zip(d.as_slice()?).for_each(|(y, d)| *y = d.to_f64());
                    Ok(())
                })
                .coords([j as u32])
                .submit()?;
        }
        scaling.task("factor.unscaled").assign(y, [plus(INVERSE, y)]).submit()
    }

    /// Applies the operator, which is symmetric.
    fn apply_adjoint(&self, steps: &Steps<'_>, x: &MultiVector, y: &MultiVector) -> Result<(), KrylovError> {
        self.apply(steps, x, y)
    }
}

/// Converts a part of a vector to a tile in the factor's format, with its norm.
fn narrowed<T: TileScalar>(x: &[f64], columns: usize, d: &mut Slot<'_, Tile<T>>) -> Result<(), TaskError> {
    let source = rows_of(x, columns)?;
    let mut tile = Tile::zeros(source.rows(), source.cols());
    tile.as_mut_slice()?.iter_mut().zip(x).for_each(|(to, from)| *to = T::from_f64(*from));
    tile.set_norm(frobenius_norm(source));
    d.put(tile);
    Ok(())
}
