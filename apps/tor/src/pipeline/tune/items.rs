//! Items of a search: classes of tiles, with their formats from cheap to dear.

use super::super::PipelineError;
use super::super::problem::Problem;
use super::costs::Costs;
use std::collections::BTreeMap;
use zellige_dense::{GemmPrecision, PanelPrecision, Phase, TileGrid, TileMap};
use zellige_tune::{Assignment, Item, Space};

/// Formats of products from inaccurate to accurate.
const BY_ACCURACY: [GemmPrecision; 8] = [
    GemmPrecision::Fp8,
    GemmPrecision::Hp3,
    GemmPrecision::Hp2,
    GemmPrecision::Bf1,
    GemmPrecision::Hp1,
    GemmPrecision::Tf32,
    GemmPrecision::X3,
    GemmPrecision::Sp,
];

/// Name of the item of diagonal updates and triangular solves.
const PANEL: &str = "panel";

/// Size of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Granularity {
    /// All tiles of one phase, pair of sensors and distance from the diagonal.
    #[default]
    Classes,
    /// Single tiles, in groups that are the classes.
    Tiles,
}

/// Tiles of an item, or the panel.
#[derive(Debug)]
enum Member {
    Tiles(Phase, Vec<(usize, usize)>),
    Panel,
}

/// Items with their tiles.
pub(super) struct Items {
    space: Space,
    members: Vec<Member>,
    edges: Vec<usize>,
    formats: Vec<GemmPrecision>,
}

impl Items {
    pub(super) fn new(
        problem: &Problem,
        costs: &Costs<'_>,
        formats: &[GemmPrecision],
        panels: &[PanelPrecision],
        granularity: Granularity,
    ) -> Result<Items, PipelineError> {
        if formats.contains(&GemmPrecision::Dp) {
            return Err(PipelineError::Options("formats: fp64 is not for float32 tiles".into()));
        }
        let is_known = |format: GemmPrecision| costs.has(format);
        let formats: Vec<GemmPrecision> = BY_ACCURACY
            .into_iter()
            .filter(|format| *format == GemmPrecision::Sp || formats.contains(format))
            .filter(|&format| is_known(format))
            .collect();
        let grid = &problem.plan.grid;
        let sensors = sensors(problem, grid);
        // A run is more than its products: HP2 multiplies as fast as HP1, and moves less.
        let mut runs = Vec::new();
        for &format in &formats {
            runs.push((format, costs.of_run(format)?));
        }
        let all = classes(grid, &sensors, granularity);
        let of_tiles = |phase, tiles: &[(usize, usize)], format| {
            tiles.iter().map(|&(i, j)| costs.of_tile(phase, i, j, format)).sum::<f64>()
        };
        let total: f64 = all.values().map(|(phase, tiles)| of_tiles(*phase, tiles, GemmPrecision::Sp)).sum();
        let (mut items, mut members) = (Vec::new(), Vec::new());
        for ((group, name), (phase, tiles)) in all {
            let share = of_tiles(phase, &tiles, GemmPrecision::Sp) / total;
            let cost = |&(format, run): &(GemmPrecision, Option<f64>)| {
                (format.name(), run.map_or_else(|| of_tiles(phase, &tiles, format), |run| share * run))
            };
            let candidates = useful(runs.iter().map(cost).collect());
            if candidates.len() > 1 {
                items.push(Item::new(name, group, candidates));
                members.push(Member::Tiles(phase, tiles));
            }
        }
        let panels: Vec<PanelPrecision> = [PanelPrecision::Tf32, PanelPrecision::X3, PanelPrecision::Native]
            .into_iter()
            .filter(|panel| *panel == PanelPrecision::Native || panels.contains(panel))
            .filter(|panel| is_known(panel.gemm(GemmPrecision::Sp)))
            .collect();
        let candidates = useful(panels.iter().map(|&panel| (panel.name(), costs.of_panel(panel))).collect());
        if candidates.len() > 1 {
            items.push(Item::new(PANEL, "", candidates));
            members.push(Member::Panel);
        }
        if items.is_empty() {
            return Err(PipelineError::Options(format!(
                "nothing to tune: {} tile(s) along a side have no products, or no format is cheaper than fp32; use \
                 smaller tiles (--tile) or other formats",
                grid.tiles()
            )));
        }
        let space = Space::new(items)?;
        Ok(Items { space, members, edges: grid.edges().to_vec(), formats })
    }

    pub(super) fn space(&self) -> &Space {
        &self.space
    }

    /// Returns the formats of products from inaccurate to accurate.
    pub(super) fn formats(&self) -> &[GemmPrecision] {
        &self.formats
    }

    /// Returns the map of an assignment. Tiles without an item have the dearest format.
    pub(super) fn map(&self, name: &str, formats: &Assignment) -> Result<TileMap, PipelineError> {
        let mut found = BTreeMap::new();
        let mut panel = PanelPrecision::Native;
        for ((_, format), member) in formats.iter().zip(&self.members) {
            let unknown = |_| PipelineError::Options(format!("unknown format {:?}", format.name));
            match member {
                Member::Panel => panel = format.name.parse().map_err(unknown)?,
                Member::Tiles(phase, tiles) => {
                    let precision: GemmPrecision = format.name.parse().map_err(unknown)?;
                    found.extend(tiles.iter().map(|&(i, j)| ((*phase == Phase::Solve, i, j), precision)));
                }
            }
        }
        let at =
            |phase, i, j| found.get(&(phase == Phase::Solve, i, j)).copied().unwrap_or(GemmPrecision::Sp);
        let map = TileMap::new(name, &self.edges, at);
        Ok(map.map_err(|error| PipelineError::Options(error.to_string()))?.with_panel(panel))
    }
}

/// Keeps the formats that cost less than all more accurate ones, from cheap to dear. They come from
/// inaccurate to accurate.
fn useful(formats: Vec<(&'static str, f64)>) -> Vec<(&'static str, f64)> {
    let mut kept: Vec<(&'static str, f64)> = Vec::new();
    for (name, cost) in formats.into_iter().rev() {
        if kept.last().is_none_or(|&(_, dearer)| cost < dearer) {
            kept.push((name, cost));
        }
    }
    kept.reverse();
    kept
}

/// Returns the sensor in which the middle of each tile lies.
fn sensors(problem: &Problem, grid: &TileGrid) -> Vec<usize> {
    let blocks = &problem.plan.info.blocks;
    let of_tile = |i: usize| {
        let range = grid.range(i);
        let middle = range.start + range.len() / 2;
        let block = blocks.iter().find(|block| (block.start..block.start + block.len).contains(&middle));
        block.map_or(0, |block| block.wfs)
    };
    (0..grid.tiles()).map(of_tile).collect()
}

/// Tiles by group and name.
type Classes = BTreeMap<(String, String), (Phase, Vec<(usize, usize)>)>;

/// Collects the tiles with products into items: phase, pair of sensors, distance from the diagonal.
fn classes(grid: &TileGrid, sensors: &[usize], granularity: Granularity) -> Classes {
    let mut all = Classes::new();
    for (phase, label) in [(Phase::Factor, "factor"), (Phase::Solve, "solve")] {
        for i in 1..grid.tiles() {
            // No product of a factorisation updates the first column.
            let first = usize::from(phase == Phase::Factor);
            for j in first..i {
                let pair = format!("{label}/{:02}-{:02}", sensors[i], sensors[j]);
                let class = format!("{pair}/d{:02}", i - j);
                let key = match granularity {
                    Granularity::Classes => (pair, class),
                    Granularity::Tiles => {
                        let tile = format!("{class}/{i:02},{j:02}");
                        (class, tile)
                    }
                };
                all.entry(key).or_insert_with(|| (phase, Vec::new())).1.push((i, j));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tile_with_products_is_in_one_item() {
        let grid = TileGrid::uniform(100, 10).unwrap();
        let sensors = [0, 0, 0, 0, 1, 1, 1, 2, 2, 2];
        for granularity in [Granularity::Classes, Granularity::Tiles] {
            let all = classes(&grid, &sensors, granularity);
            let count = |wanted: Phase| {
                all.values()
                    .filter(|(phase, _)| *phase == wanted)
                    .map(|(_, tiles)| tiles.len())
                    .sum::<usize>()
            };
            assert_eq!((count(Phase::Factor), count(Phase::Solve)), (36, 45));
        }
        let classes = classes(&grid, &sensors, Granularity::Classes);
        let (phase, tiles) = &classes[&("solve/01-00".into(), "solve/01-00/d04".into())];
        assert_eq!((*phase, &tiles[..]), (Phase::Solve, &[(4, 0), (5, 1), (6, 2)][..]));
    }

    #[test]
    fn formats_that_save_nothing_are_left_out() {
        let all = vec![("hp3", 2.0), ("hp2", 2.0), ("hp1", 3.0), ("x3", 4.0), ("fp32", 4.0)];
        assert_eq!(useful(all), [("hp2", 2.0), ("hp1", 3.0), ("fp32", 4.0)]);
        assert_eq!(useful(vec![("x3", 5.0), ("fp32", 4.0)]), [("fp32", 4.0)]);
    }
}
