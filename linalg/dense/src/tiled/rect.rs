//! A rectangular matrix of tiles: right-hand sides and solutions.

use zellige_runtime::{Handle, Runtime, Session, Submit};

use super::{Generate, Generator, native_meta, planned_norm, submit_generation, submit_norm, total_bytes};
use crate::error::Error;
use crate::gpu::GpuGenerator;
use crate::grid::TileGrid;
use crate::scalar::TileScalar;
use crate::tile::{MatrixNorm, Tile};

/// The tiles of an `m x n` matrix. The handle of tile `(i, j)` is named after its matrix, e.g.
/// `B[i,j]`.
#[derive(Clone, Debug)]
pub struct RectTiled<T: TileScalar> {
    rows: TileGrid,
    cols: TileGrid,
    /// Row by row.
    tiles: Vec<Handle<Tile<T>>>,
    /// The tiles do not exist.
    planned: bool,
}

impl<T: TileScalar> RectTiled<T> {
    /// Handles without values, named `name[i,j]`.
    pub fn new<S: Submit>(s: &S, name: &str, rows: TileGrid, cols: TileGrid) -> Self {
        let (mt, nt) = (rows.tiles(), cols.tiles());
        let tiles = (0..mt)
            .flat_map(|i| (0..nt).map(move |j| (i, j)))
            .map(|(i, j)| {
                s.register_sized(native_meta::<T>(rows.width(i), cols.width(j)))
                    .named(format!("{name}[{i},{j}]"))
            })
            .collect();
        RectTiled { rows, cols, tiles, planned: false }
    }

    /// Handles for tiles that do not exist, for graphs that are recorded to be looked at or
    /// simulated.
    pub fn planned<S: Submit>(s: &S, name: &str, rows: TileGrid, cols: TileGrid) -> Self {
        let (mt, nt) = (rows.tiles(), cols.tiles());
        let tiles = (0..mt)
            .flat_map(|i| (0..nt).map(move |j| (i, j)))
            .map(|(i, j)| {
                s.register_planned(native_meta::<T>(rows.width(i), cols.width(j)))
                    .named(format!("{name}[{i},{j}]"))
            })
            .collect();
        RectTiled { rows, cols, tiles, planned: true }
    }

    /// Creates the handles, and submits tasks that fill them from `fill`.
    ///
    /// # Errors
    /// Those of [`fill`](RectTiled::fill).
    pub fn generate<S: Submit>(
        s: &S,
        name: &str,
        rows: TileGrid,
        cols: TileGrid,
        fill: &Generator<T>,
    ) -> Result<Self, Error> {
        let matrix = Self::new(s, name, rows, cols);
        matrix.fill(s, fill)?;
        Ok(matrix)
    }

    /// Submits one task per tile that writes it and its norm; previous values and failures of the
    /// tiles are discarded.
    ///
    /// # Errors
    /// [`Error::Runtime`] if a handle has been taken.
    pub fn fill<S: Submit>(&self, s: &S, fill: &Generator<T>) -> Result<(), Error> {
        self.fill_with(s, fill, None)
    }

    /// Fills the tiles like [`fill`](RectTiled::fill); with `gpu`, GPUs fill tiles too.
    ///
    /// # Errors
    /// Those of [`fill`](RectTiled::fill).
    pub fn fill_with<S: Submit>(
        &self,
        s: &S,
        fill: &Generator<T>,
        gpu: Option<&GpuGenerator>,
    ) -> Result<(), Error> {
        for i in 0..self.rows.tiles() {
            for j in 0..self.cols.tiles() {
                let codelet = Generate {
                    fill: Generator::clone(fill),
                    rows: self.rows.range(i),
                    cols: self.cols.range(j),
                    at: (i, j),
                    symmetric: false,
                };
                submit_generation(s, codelet, self.tile(i, j), gpu, 0)?;
            }
        }
        Ok(())
    }

    /// Returns the edges along the rows.
    pub fn row_grid(&self) -> &TileGrid {
        &self.rows
    }

    /// Returns the edges along the columns.
    pub fn col_grid(&self) -> &TileGrid {
        &self.cols
    }

    /// Returns tile `(i, j)`.
    ///
    /// # Panics
    /// If there is no such tile.
    pub fn tile(&self, i: usize, j: usize) -> &Handle<Tile<T>> {
        let (mt, nt) = (self.rows.tiles(), self.cols.tiles());
        assert!(i < mt && j < nt, "tile ({i}, {j}) of {mt} x {nt} tiles");
        &self.tiles[i * nt + j]
    }

    /// Returns the tiles of column `j`, from the top.
    pub(crate) fn column(&self, j: usize) -> impl Iterator<Item = &Handle<Tile<T>>> {
        (0..self.rows.tiles()).map(move |i| self.tile(i, j))
    }

    /// Returns all tiles, row by row.
    pub fn handles(&self) -> &[Handle<Tile<T>>] {
        &self.tiles
    }

    /// Submits the reduction to the matrix' norm, from the norms that the tiles carry when it runs.
    /// Planned tiles are skipped: the reduction reads only their metadata, and a simulation would
    /// transfer their bytes.
    pub(crate) fn norm<S: Submit>(&self, s: &S) -> Result<Handle<MatrixNorm>, Error> {
        if self.planned {
            return Ok(planned_norm(s));
        }
        submit_norm(s, &self.tiles, vec![1.0; self.tiles.len()], 0)
    }

    /// Waits, and copies the tiles into a dense column-major `m x n` matrix.
    ///
    /// # Errors
    /// The error that left a tile without a value.
    pub fn gather(&self, rt: &Runtime) -> Result<Vec<T>, Error> {
        let m = self.rows.len();
        let mut dense = vec![T::ZERO; m * self.cols.len()];
        for i in 0..self.rows.tiles() {
            for j in 0..self.cols.tiles() {
                let guard = rt.read(self.tile(i, j))?;
                let tile = guard.to_storage(T::FORMAT);
                let tile = tile.as_ref().ok_or_else(|| Error::Shape {
                    what: "gathering tiles",
                    got: guard.storage().to_string(),
                    want: T::FORMAT.to_string(),
                })?;
                for (c, column) in self.cols.range(j).enumerate() {
                    dense[column * m..][self.rows.range(i)].copy_from_slice(tile.mat()?.col(c));
                }
            }
        }
        Ok(dense)
    }

    /// Waits, and adds up the bytes of the tiles in their storage formats, without replicas; on
    /// several ranks, those of this rank's tiles.
    ///
    /// # Errors
    /// The error that left a tile without a value.
    pub fn bytes<S: Session>(&self, rt: &S) -> Result<usize, Error> {
        total_bytes(rt, &self.tiles)
    }
}
