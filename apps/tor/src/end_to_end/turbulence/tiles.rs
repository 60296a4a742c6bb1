//! Tiles of a screen, computed when they are needed.

use super::kernel::TILE;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Maximum number of tiles that are kept, of 460 kB each.
const CAPACITY: usize = 1024;

/// The address of a tile: number of the level among those of all layers, column and row.
pub(super) type TileKey = (usize, i64, i64);

/// A tile, row by row, once it is computed.
type Tile = Arc<OnceLock<Vec<f64>>>;

/// The tiles that were used last. Values of a tile depend on its address alone, so that it does not
/// matter which ones are kept.
#[derive(Debug, Default)]
pub(super) struct TileCache {
    state: Mutex<CacheState>,
}

#[derive(Debug, Default)]
struct CacheState {
    tiles: HashMap<TileKey, (Tile, u64)>,
    clock: u64,
}

impl CacheState {
    fn get(&mut self, key: TileKey) -> Tile {
        self.clock += 1;
        if self.tiles.len() >= CAPACITY && !self.tiles.contains_key(&key) {
            let oldest = self.tiles.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| *key);
            oldest.map(|key| self.tiles.remove(&key));
        }
        let entry = self.tiles.entry(key).or_default();
        entry.1 = self.clock;
        Arc::clone(&entry.0)
    }
}

impl TileCache {
    /// Returns the tiles that hold the pixels `columns x rows` of a level. `compute` returns the
    /// values of a tile; several threads may compute different ones at once.
    pub(super) fn region(
        &self,
        level: usize,
        columns: RangeInclusive<i64>,
        rows: RangeInclusive<i64>,
        compute: impl Fn(i64, i64) -> Vec<f64>,
    ) -> TileRegion {
        let tile = |pixel: &i64| pixel.div_euclid(TILE as i64);
        let (x, y) = (tile(columns.start())..=tile(columns.end()), tile(rows.start())..=tile(rows.end()));
        let keys = || y.clone().flat_map(|y| x.clone().map(move |x| (level, x, y)));
        let tiles: Vec<Tile> = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            keys().map(|key| state.get(key)).collect()
        };
        for (tile, (_, x, y)) in tiles.iter().zip(keys()) {
            tile.get_or_init(|| compute(x, y));
        }
        TileRegion { first: [*x.start(), *y.start()], across: (x.end() - x.start() + 1) as usize, tiles }
    }
}

/// A rectangle of tiles.
#[derive(Debug)]
pub(super) struct TileRegion {
    first: [i64; 2],
    across: usize,
    tiles: Vec<Tile>,
}

impl TileRegion {
    /// Calls `part` with the parts of row `y`, from pixel `x` on: offset from `x` and values.
    #[inline(always)]
    pub(super) fn row(&self, x: i64, y: i64, width: usize, mut part: impl FnMut(usize, &[f64])) {
        let mut done = 0;
        while done < width {
            let at = x + done as i64;
            let column = at.rem_euclid(TILE as i64) as usize;
            let count = (TILE - column).min(width - done);
            part(done, &self.tile_row(at, y)[column..column + count]);
            done += count;
        }
    }

    /// Returns the row of the tile that holds pixel `[x, y]`.
    #[inline(always)]
    fn tile_row(&self, x: i64, y: i64) -> &[f64] {
        let tile = TILE as i64;
        let column = (x.div_euclid(tile) - self.first[0]) as usize;
        let row = (y.div_euclid(tile) - self.first[1]) as usize;
        let values = self.tiles[row * self.across + column].get().map_or(&[][..], Vec::as_slice);
        let first = y.rem_euclid(tile) as usize * TILE;
        &values[first..first + TILE]
    }
}
