//! Rounding of a solution to few bits within its solve, so that later columns make up for the
//! errors of earlier ones.
//!
//! The second half of a solve, `X L = Y`, finishes columns from the last one to the first. A
//! column that is rounded before it is subtracted from the others leaves its error in them: with
//! `q_k` the rounded columns, column `j` is `x_j + sum_{k>j} (x_k - q_k) L_kj / L_jj` when it is
//! rounded itself. This minimises, column by column, `||(X - Q) L||_F^2 = tr((X - Q) A (X -
//! Q)^T)`, the loss of a least-squares solution. (The method is Babai's nearest plane; Frantar et
//! al., GPTQ, 2022, reach it by the inverse of `A`.) The nearest numbers minimise `||X - Q||_F`
//! instead. The scale of each row of a group is the one with the least loss of several.

mod tile;

use std::marker::PhantomData;
use std::sync::Arc;

use zellige_runtime::{
    Codelet, Handle, Read, Runtime, Slot, Submit, Subnormals, TaskContext, TaskError, TaskInfo, TaskRef,
    Update, Write, read, write,
};

use zellige_kernels::StorageFormat;

pub use tile::{RoundedTile, Rounding, RoundingBlock};

use crate::SUBNORMALS;
use crate::error::Error;
use crate::factor::native_update;
use crate::grid::TileGrid;
use crate::scalar::TileScalar;
use crate::tile::Tile;
use crate::tiled::{RectTiled, SymmetricTiled};

/// Tiles of a rounded solution.
#[derive(Clone, Debug)]
pub struct RoundedTiles {
    rounding: Rounding,
    rows: TileGrid,
    cols: TileGrid,
    /// Row by row.
    tiles: Arc<[Handle<RoundedTile>]>,
}

impl RoundedTiles {
    pub(crate) fn new<S: Submit>(s: &S, rounding: Rounding, rows: &TileGrid, cols: &TileGrid) -> Self {
        let bytes = |i, j| tile::bytes(rows.width(i), cols.width(j), rounding.group());
        let tiles = (0..rows.tiles()).flat_map(|i| (0..cols.tiles()).map(move |j| (i, j)));
        let tiles = tiles.map(|(i, j)| s.register_sized(tile::meta(bytes(i, j)))).collect();
        RoundedTiles { rounding, rows: rows.clone(), cols: cols.clone(), tiles }
    }

    /// Returns the format.
    pub fn rounding(&self) -> &Rounding {
        &self.rounding
    }

    /// Returns the edges along the rows.
    pub fn row_grid(&self) -> &TileGrid {
        &self.rows
    }

    /// Returns the edges along the columns.
    pub fn col_grid(&self) -> &TileGrid {
        &self.cols
    }

    /// Waits for tile `(i, j)`, and copies it.
    ///
    /// # Errors
    /// The error that left it without a value.
    ///
    /// # Panics
    /// If there is no such tile.
    pub fn tile(&self, rt: &Runtime, i: usize, j: usize) -> Result<RoundedTile, Error> {
        Ok(rt.read(self.handle(i, j))?.clone())
    }

    fn handle(&self, i: usize, j: usize) -> &Handle<RoundedTile> {
        &self.tiles[i * self.cols.tiles() + j]
    }

    /// Submits the rounding of tile `at` of a solution, which it changes.
    pub(crate) fn submit<T: TileScalar, S: Submit>(
        &self,
        s: &S,
        (l, x): (&SymmetricTiled<T>, &RectTiled<T>),
        (m, k): (usize, usize),
        priority: i32,
    ) -> Result<TaskRef, Error> {
        let codelet = Round {
            rounding: self.rounding.clone(),
            at: (m, k),
            first: (self.rows.range(m).start, self.cols.range(k).start),
            shape: (self.rows.width(m), self.cols.width(k)),
            element: PhantomData,
        };
        let operands = (read(l.tile(k, k)), native_update(x.tile(m, k)), write(self.handle(m, k)));
        Ok(s.codelet(codelet, operands).priority(priority).submit()?)
    }
}

/// Rounds a tile of the solution, and replaces it by the rounded numbers.
struct Round<T> {
    rounding: Rounding,
    at: (usize, usize),
    /// First row and column of the tile.
    first: (usize, usize),
    shape: (usize, usize),
    element: PhantomData<fn() -> T>,
}

impl<T: TileScalar> Codelet for Round<T> {
    type Operands = (Read<Tile<T>>, Update<Tile<T>>, Write<RoundedTile>);
    const SUBNORMALS: Option<Subnormals> = SUBNORMALS;

    fn name(&self) -> &'static str {
        "round"
    }

    fn info(&self) -> TaskInfo {
        let ((m, n), (i, k)) = (self.shape, self.at);
        TaskInfo {
            flops: m as f64 * n as f64 * n as f64,
            coords: Some([i as u32, k as u32, k as u32]),
            label: if T::FORMAT == StorageFormat::F64 { "fp64" } else { "fp32" },
            shape: [m as u32, n as u32, 0],
            ..TaskInfo::default()
        }
    }

    fn cpu(
        &self,
        (l, x, mut rounded): (&Tile<T>, &mut Tile<T>, Slot<'_, RoundedTile>),
        _cx: &mut TaskContext<'_>,
    ) -> Result<(), TaskError> {
        rounded.put(RoundedTile::round(&self.rounding, self.first, l.mat()?, x.mat_mut()?));
        x.measure()?;
        Ok(())
    }
}
