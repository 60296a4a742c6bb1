//! Bottom levels: for each task of a factorisation, the work on the longest path from it to the
//! end.

use crate::grid::TileGrid;

/// Bottom levels of `potrf` and `trsm` tasks [flop]; those of the others follow from the edges of
/// the grid.
///
/// All products on a tile form a chain that ends in the tile's solve, so only the tails of the
/// chains are stored.
pub(super) struct Levels {
    edges: Vec<f64>,
    potrf: Vec<f64>,
    /// `(i, k)` at `i * nt + k`.
    trsm: Vec<f64>,
}

/// The longest path of all has this priority.
const TOP: f64 = 1e9;

/// Number of consecutive products on a tile that have the last one's level and run one after the
/// other if possible: the updated tile then stays in the cache of its worker (measured at n = 4096
/// with 2 workers, medians of whole factorisations: 4 % faster at tile 256 in `f32`, 1 % in `f64`,
/// 6 % at tile 128 in `f32`; products of tile 512 gain nothing). More would distort the order of
/// urgency further.
const SAME_LEVEL: usize = 4;

impl Levels {
    pub(super) fn new(grid: &TileGrid) -> Self {
        let nt = grid.tiles();
        let mut levels = Levels {
            edges: grid.edges().iter().map(|&edge| edge as f64).collect(),
            potrf: vec![0.0; nt],
            trsm: vec![0.0; nt * nt],
        };
        for k in (0..nt).rev() {
            let mut longest = 0.0f64;
            for i in k + 1..nt {
                let along_row = (k + 1..i).map(|j| levels.gemm_flops(i, j, k));
                let along_column = (i + 1..nt).map(|j| levels.gemm_flops(j, i, k));
                let next = along_row.chain(along_column).fold(levels.syrk_flops(i, k), f64::max);
                let (m, n) = (levels.width(i), levels.width(k));
                let level = m * n * n + next;
                levels.trsm[i * nt + k] = level;
                longest = longest.max(level);
            }
            let n = levels.width(k);
            levels.potrf[k] = n * n * n / 3.0 + longest;
        }
        levels
    }

    fn width(&self, i: usize) -> f64 {
        self.edges[i + 1] - self.edges[i]
    }

    /// Returns the work from step `k` to the factorisation of tile `(i, i)` and after it.
    fn syrk_flops(&self, i: usize, k: usize) -> f64 {
        let n = self.width(i);
        n * n * (self.edges[i] - self.edges[k]) + self.potrf[i]
    }

    /// Returns the work from step `k` to the solve of tile `(i, j)` and after it.
    fn gemm_flops(&self, i: usize, j: usize, k: usize) -> f64 {
        let chain = self.edges[j] - self.edges[k];
        2.0 * self.width(i) * self.width(j) * chain + self.trsm[i * self.potrf.len() + j]
    }

    fn priority(&self, level: f64) -> i32 {
        (level / self.potrf[0].max(1.0) * TOP) as i32
    }

    pub(super) fn potrf(&self, k: usize) -> i32 {
        self.priority(self.potrf[k])
    }

    pub(super) fn trsm(&self, i: usize, k: usize) -> i32 {
        self.priority(self.trsm[i * self.potrf.len() + k])
    }

    pub(super) fn syrk(&self, i: usize, k: usize) -> i32 {
        self.priority(self.syrk_flops(i, k))
    }

    pub(super) fn gemm(&self, i: usize, j: usize, k: usize) -> i32 {
        let last = (k | (SAME_LEVEL - 1)).min(j - 1);
        let level = self.priority(self.gemm_flops(i, j, last));
        level.saturating_add((k % SAME_LEVEL) as i32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each task's level is above those of the tasks that wait for it, except for products that
    /// share a launch.
    #[test]
    fn priorities_fall_along_every_dependency() {
        for grid in
            [TileGrid::uniform(80, 10).unwrap(), TileGrid::from_edges([0, 3, 11, 12, 40, 47, 90]).unwrap()]
        {
            let (nt, levels) = (grid.tiles(), Levels::new(&grid));
            assert_eq!(levels.potrf(0), 1_000_000_000);
            for k in 0..nt {
                for i in k + 1..nt {
                    assert!(levels.potrf(k) > levels.trsm(i, k));
                    assert!(levels.trsm(i, k) > levels.syrk(i, k));
                    assert!(levels.syrk(i, k) > levels.potrf(i));
                    for j in k + 1..i {
                        assert!(levels.trsm(i, k) > levels.gemm(i, j, k));
                        assert!(levels.trsm(j, k) > levels.gemm(i, j, k));
                        assert!(levels.gemm(i, j, k) > levels.trsm(i, j));
                        if k + 1 < j {
                            let (now, next) = (levels.gemm(i, j, k), levels.gemm(i, j, k + 1));
                            let is_same_level = k / SAME_LEVEL == (k + 1) / SAME_LEVEL;
                            assert_eq!(next > now, is_same_level, "{i} {j} {k}");
                        }
                    }
                }
            }
        }
    }
}
