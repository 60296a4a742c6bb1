//! Tiles of numbers of several samples, and their digits.

use std::ops::Range;
use std::sync::Arc;

use zellige_runtime::{Buffer, Handle, TaskError};
use zellige_stochastic::{DigitMap, Sample, Samples, Stochastic};

use crate::grid::TileGrid;

/// Function that fills a block of a matrix. Its arguments are the rows, the columns, and the slice
/// for the entries (column-major, without gaps). It runs as a task of the scope: for each entry
/// that it computes it calls [`element`](zellige_stochastic::element).
pub type Fill<T, S> =
    Arc<dyn Fn(Range<usize>, Range<usize>, &mut [Stochastic<T, S>]) -> Result<(), TaskError> + Send + Sync>;

/// A matrix in tiles of numbers of several samples, or its lower triangle.
#[derive(Clone, Debug)]
pub struct SampledTiles<T: Sample, S: Samples> {
    pub(super) rows: TileGrid,
    pub(super) cols: TileGrid,
    /// Whether tiles above the diagonal do not exist.
    pub(super) is_lower: bool,
    /// Row by row; tiles that do not exist are empty.
    pub(super) tiles: Vec<Handle<Buffer<Stochastic<T, S>>>>,
}

impl<T: Sample, S: Samples> SampledTiles<T, S> {
    /// Returns the entries of tile `(i, j)`, column-major.
    ///
    /// # Panics
    /// If there is no such tile.
    pub fn tile(&self, i: usize, j: usize) -> &Handle<Buffer<Stochastic<T, S>>> {
        let columns = self.cols.tiles();
        assert!(i < self.rows.tiles() && j < columns && self.has(i, j), "tile ({i}, {j})");
        &self.tiles[i * columns + j]
    }

    /// Whether tile `(i, j)` is part of the matrix.
    pub(super) fn has(&self, i: usize, j: usize) -> bool {
        !self.is_lower || j <= i
    }

    /// Rows and columns of tile `(i, j)`.
    pub(super) fn shape(&self, i: usize, j: usize) -> (usize, usize) {
        (self.rows.width(i), self.cols.width(j))
    }

    /// Positions of all tiles, row by row.
    pub(super) fn positions(&self) -> impl Iterator<Item = (usize, usize)> + use<T, S> {
        let columns = self.cols.tiles();
        (0..self.rows.tiles()).flat_map(move |i| (0..columns).map(move |j| (i, j)))
    }

    /// The map of digits by tile, where `worst` gives the digits of a tile; those above the
    /// diagonal are exact zeros.
    pub(super) fn map<E>(
        &self,
        name: &str,
        worst: impl Fn(usize, usize) -> Result<u32, E>,
    ) -> Result<DigitMap, E> {
        let digits = self.positions().map(|(i, j)| if self.has(i, j) { worst(i, j) } else { Ok(T::DIGITS) });
        let digits = digits.map(|digits| digits.map(|digits| digits as u8)).collect::<Result<_, E>>()?;
        Ok(DigitMap::new(name, "tile", [self.rows.tiles(), self.cols.tiles()], digits, T::DIGITS as u8))
    }

    /// Entries of a tile that count: of a diagonal one of a triangle those not above the diagonal.
    pub(super) fn entries<'t>(
        &self,
        (i, j): (usize, usize),
        tile: &'t [Stochastic<T, S>],
    ) -> impl Iterator<Item = &'t Stochastic<T, S>> + use<'t, T, S> {
        let (rows, on_diagonal) = (self.rows.width(i), self.is_lower && i == j);
        tile.iter().enumerate().filter(move |(at, _)| !on_diagonal || at % rows >= at / rows).map(|(_, x)| x)
    }
}
