//! The lower triangle of a symmetric matrix, which its Cholesky factor overwrites.

use zellige_runtime::{Handle, Runtime, Session, Submit};

use super::{Generate, Generator, native_meta, planned_norm, submit_generation, submit_norm, total_bytes};
use crate::error::Error;
use crate::gpu::GpuGenerator;
use crate::grid::TileGrid;
use crate::scalar::TileScalar;
use crate::tile::{MatrixNorm, Tile};

/// The tiles of a symmetric matrix on and below its diagonal. The handle of tile `(i, j)` is named
/// `A[i,j]`.
#[derive(Clone, Debug)]
pub struct SymmetricTiled<T: TileScalar> {
    grid: TileGrid,
    /// Column by column.
    tiles: Vec<Handle<Tile<T>>>,
    /// The tiles do not exist.
    planned: bool,
}

impl<T: TileScalar> SymmetricTiled<T> {
    /// Handles without values: [`fill`](SymmetricTiled::fill) gives them some.
    pub fn new<S: Submit>(s: &S, grid: TileGrid) -> Self {
        let nt = grid.tiles();
        let tiles = (0..nt)
            .flat_map(|j| (j..nt).map(move |i| (i, j)))
            .map(|(i, j)| {
                s.register_sized(native_meta::<T>(grid.width(i), grid.width(j))).named(format!("A[{i},{j}]"))
            })
            .collect();
        SymmetricTiled { grid, tiles, planned: false }
    }

    /// Handles for tiles that do not exist, for graphs that are recorded to be looked at or
    /// simulated.
    pub fn planned<S: Submit>(s: &S, grid: TileGrid) -> Self {
        let nt = grid.tiles();
        let tiles = (0..nt)
            .flat_map(|j| (j..nt).map(move |i| (i, j)))
            .map(|(i, j)| {
                s.register_planned(native_meta::<T>(grid.width(i), grid.width(j)))
                    .named(format!("A[{i},{j}]"))
            })
            .collect();
        SymmetricTiled { grid, tiles, planned: true }
    }

    /// Creates the handles, and submits tasks that fill them from `fill`.
    ///
    /// # Errors
    /// Those of [`fill`](SymmetricTiled::fill).
    pub fn generate<S: Submit>(s: &S, grid: TileGrid, fill: &Generator<T>) -> Result<Self, Error> {
        let matrix = Self::new(s, grid);
        matrix.fill(s, fill)?;
        Ok(matrix)
    }

    /// Submits one task per tile that writes it and its norm; previous values and failures of the
    /// tiles are discarded.
    ///
    /// `fill` is called for blocks on and below the diagonal; of diagonal blocks only the lower
    /// triangle is used.
    ///
    /// # Errors
    /// [`Error::Runtime`] if a handle has been taken.
    pub fn fill<S: Submit>(&self, s: &S, fill: &Generator<T>) -> Result<(), Error> {
        self.fill_with(s, fill, None)
    }

    /// Fills the tiles like [`fill`](SymmetricTiled::fill); with `gpu`, GPUs fill tiles too.
    ///
    /// # Errors
    /// Those of [`fill`](SymmetricTiled::fill).
    pub fn fill_with<S: Submit>(
        &self,
        s: &S,
        fill: &Generator<T>,
        gpu: Option<&GpuGenerator>,
    ) -> Result<(), Error> {
        let nt = self.grid.tiles();
        for j in 0..nt {
            for i in j..nt {
                let codelet = Generate {
                    fill: Generator::clone(fill),
                    rows: self.grid.range(i),
                    cols: self.grid.range(j),
                    at: (i, j),
                    symmetric: i == j,
                };
                // The factorisation of earlier columns has priority; that of this column waits for
                // its tiles.
                let priority = crate::factor::generation_priority(j);
                submit_generation(s, codelet, self.tile(i, j), gpu, priority)?;
            }
        }
        Ok(())
    }

    /// Returns the edges of the tiles.
    pub fn grid(&self) -> &TileGrid {
        &self.grid
    }

    /// Returns the number of tiles along one side.
    pub fn tiles(&self) -> usize {
        self.grid.tiles()
    }

    /// Rows of the matrix.
    pub fn n(&self) -> usize {
        self.grid.len()
    }

    /// Returns tile `(i, j)`, `i >= j`.
    ///
    /// # Panics
    /// If there is no such tile.
    pub fn tile(&self, i: usize, j: usize) -> &Handle<Tile<T>> {
        let nt = self.tiles();
        assert!(j <= i && i < nt, "tile ({i}, {j}) of the lower triangle of {nt} x {nt} tiles");
        // Columns 0..j hold nt, nt - 1, ... tiles.
        &self.tiles[j * nt - j * (j + 1) / 2 + i]
    }

    /// Tiles `(i, 0) ..= (i, i)`.
    pub(crate) fn row(&self, i: usize) -> impl Iterator<Item = &Handle<Tile<T>>> {
        (0..=i).map(move |j| self.tile(i, j))
    }

    /// Returns all tiles, column by column.
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
        let nt = self.tiles();
        let weights = (0..nt).flat_map(|j| (j..nt).map(move |i| if i == j { 1.0 } else { 2.0 }));
        submit_norm(s, &self.tiles, weights.collect(), i32::MAX)
    }

    /// Waits, and copies the lower triangle into a dense column-major `n x n` matrix with zeros
    /// above the diagonal.
    ///
    /// # Errors
    /// The error that left a tile without a value.
    pub fn gather(&self, rt: &Runtime) -> Result<Vec<T>, Error> {
        let n = self.n();
        let mut dense = vec![T::ZERO; n * n];
        for j in 0..self.tiles() {
            for i in j..self.tiles() {
                let guard = rt.read(self.tile(i, j))?;
                let tile = guard.to_storage(T::FORMAT);
                let tile = tile.as_ref().ok_or_else(|| Error::Shape {
                    what: "gathering tiles",
                    got: guard.storage().to_string(),
                    want: T::FORMAT.to_string(),
                })?;
                let (rows, cols) = (self.grid.range(i), self.grid.range(j));
                for (c, column) in cols.clone().enumerate() {
                    let skip = if i == j { c } else { 0 };
                    dense[column * n..][rows.clone()][skip..].copy_from_slice(&tile.mat()?.col(c)[skip..]);
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
