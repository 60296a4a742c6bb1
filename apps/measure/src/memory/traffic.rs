//! Compulsory traffic of a factorisation, and the lower bound of its loads.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use zellige_dense::TileGrid;
use zellige_kernels::GemmPrecision;
use zellige_runtime::trace::TaskEvent;

/// Compulsory traffic to and from devices of unlimited memory (bytes). A tile that tasks on a
/// device name is loaded once, and their results are stored once, each in the narrowest form that
/// suffices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Traffic {
    /// Bytes that go to devices.
    #[serde(rename = "compulsory_loads")]
    pub loads: u64,
    /// Bytes that leave them.
    #[serde(rename = "compulsory_stores")]
    pub stores: u64,
}

/// Returns the least bytes that a device with `capacity` bytes of memory loads for `flops`
/// operations of a Cholesky factorisation: `w flops / sqrt(2 M)` for `M = capacity / w` numbers of
/// `w` bytes, without lower-order terms.
///
/// A multiply-add is two operations, and at most `sqrt(M / 2)` of them can be done per number that
/// is loaded (Beaumont, Eyraud-Dubois, Vérité and Langou, I/O-optimal algorithms for symmetric
/// linear algebra kernels, SPAA 2022, who reach it): with `n^3 / 6` multiply-adds it is their
/// `n^3 / (3 sqrt(2) sqrt(M))` for a whole factorisation. Earlier bounds, among them that of Olivry
/// et al. (PLDI 2020), are `sqrt(2)` times smaller. Since it counts arbitrary multiply-adds, it
/// holds for the part that one device does.
pub fn load_bound(flops: f64, capacity: u64, bytes_per_number: u64) -> f64 {
    let width = bytes_per_number as f64;
    width * flops / (2.0 * capacity as f64 / width).sqrt()
}

/// Bytes of a number of a task's operands `A` and `B`.
pub(super) fn width(task: &TaskEvent) -> u64 {
    precision(task).map_or(4, |precision| precision.operand_format().bytes() as u64)
}

/// The precision of a product; `None` for other tasks.
fn precision(task: &TaskEvent) -> Option<GemmPrecision> {
    if task.name == "gemm" { task.label.parse().ok() } else { None }
}

/// A tile, by its row and column.
pub(super) type At = (u32, u32);

/// The tiles that a task reads, and the one that it changes; `None` for tasks of other kinds.
fn tiles(task: &TaskEvent) -> Option<(Vec<At>, At)> {
    let [i, j, k] = task.coords?;
    match task.name {
        "potrf" => Some((vec![], (k, k))),
        "trsm" => Some((vec![(k, k)], (i, k))),
        "syrk" => Some((vec![(i, k)], (i, i))),
        "gemm" => Some((vec![(i, k), (j, k)], (i, j))),
        _ => None,
    }
}

/// Bytes of a number of each tile in the narrowest form that a task has left it in.
pub(super) fn narrowest<'a>(tasks: impl Iterator<Item = &'a TaskEvent>) -> BTreeMap<At, u64> {
    let mut found = BTreeMap::new();
    for task in tasks {
        let Some((_, target)) = tiles(task) else { continue };
        let bytes = precision(task).map_or(4, |precision| precision.output_format().bytes() as u64);
        found.entry(target).and_modify(|least: &mut u64| *least = bytes.min(*least)).or_insert(bytes);
    }
    found
}

/// Returns the loads and stores of the tasks that ran on one device; `of_all` is [`narrowest`] of
/// all tasks.
pub(super) fn traffic<'a>(
    grid: &TileGrid,
    tasks: impl Iterator<Item = &'a TaskEvent> + Clone,
    of_all: &BTreeMap<At, u64>,
) -> Traffic {
    let written = narrowest(tasks.clone());
    // A tile that is only read has to come in the widest form that is requested; a tile that is
    // changed may come in any form that it has had.
    let mut loaded: BTreeMap<At, u64> = BTreeMap::new();
    for task in tasks {
        let Some((reads, _)) = tiles(task) else { continue };
        for tile in reads.into_iter().filter(|tile| !written.contains_key(tile)) {
            let widest = loaded.entry(tile).or_default();
            *widest = width(task).max(*widest);
        }
    }
    loaded.extend(written.keys().map(|tile| (*tile, of_all[tile])));
    let area = |(i, j): At| (grid.width(i as usize) * grid.width(j as usize)) as u64;
    let bytes = |of: &BTreeMap<At, u64>| of.iter().map(|(&tile, &width)| area(tile) * width).sum();
    Traffic { loads: bytes(&loaded), stores: bytes(&written) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_of_a_whole_factorisation_is_the_published_one() {
        let (n, m) = (8192f64, 5_000_000u64);
        let words = load_bound(n.powi(3) / 3.0, 4 * m, 4) / 4.0;
        let published = n.powi(3) / (3.0 * 2f64.sqrt() * (m as f64).sqrt());
        assert!((words / published - 1.0).abs() < 1e-12, "{words} {published}");
    }
}
