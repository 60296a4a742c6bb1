//! Communication between the ranks of one pipeline. A single process does none of it.

use super::PipelineError;
use serde::Serialize;
use zellige_dense::{Error as LinalgError, GemmCounts, NotPositiveDefinite};
use zellige_mpi::{BlockCyclic, Distribution};
use zellige_runtime::Session;

/// Resource use of one of several ranks for one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct RankUse {
    /// The rank, from 0.
    pub rank: usize,
    /// Peak memory of its process during this rule (0 if the system does not report it).
    pub peak_memory_bytes: u64,
    /// Bytes of its tiles of the factor and of all reconstructors, without replicas.
    pub tile_bytes: u64,
    /// Bytes of values that it sent to other ranks.
    pub sent_bytes: u64,
}

/// Returns the map from tile row and column to the owner: two-dimensional block cyclic.
pub(super) fn owners(ranks: usize) -> impl Fn(usize, usize) -> usize {
    let ranks = BlockCyclic::of(ranks);
    move |row, column| ranks.owner(row, column)
}

/// Returns the largest fraction of a tiled matrix that a rank holds: its own tiles, and replicas of
/// others in its row and column of ranks, which are kept until they are overwritten.
pub(super) fn share(ranks: usize) -> f64 {
    let (rows, columns) = BlockCyclic::of(ranks).grid();
    let (row, column) = (1.0 / rows as f64, 1.0 / columns as f64);
    row + column - row * column
}

/// Gathers the numbers of each rank, in the order of the ranks.
pub(super) fn of_all_ranks<S: Session>(s: &S, own: &[u64]) -> Result<Vec<Vec<u64>>, PipelineError> {
    let say = |rank| s.register_on(rank, || own.to_vec());
    let said: Vec<_> = (0..s.ranks()).map(say).collect::<Result<_, _>>()?;
    Ok(said.into_iter().map(|said| s.take(said)).collect::<Result<_, _>>()?)
}

/// Returns the non-positive pivot, if it is the reason why a factorisation failed on one of the
/// ranks. Only that rank knows more than the text of the error.
pub(super) fn lost_pivot<S: Session>(
    s: &S,
    error: &LinalgError,
) -> Result<Option<NotPositiveDefinite>, PipelineError> {
    let numbers = |lost: &NotPositiveDefinite| {
        [lost.tile as u64, lost.pivot as u64, lost.row as u64, lost.value.to_bits()]
    };
    let own = error.not_positive_definite().map(numbers);
    let all = of_all_ranks(s, own.as_ref().map_or(&[], |own| own))?;
    Ok(all.iter().find_map(|said| match said[..] {
        [tile, pivot, row, value] => Some(NotPositiveDefinite {
            tile: tile as usize,
            pivot: pivot as usize,
            row: row as usize,
            value: f64::from_bits(value),
        }),
        _ => None,
    }))
}

/// Adds the counts of the other ranks.
pub(super) fn add_counts<S: Session>(s: &S, counts: &GemmCounts) -> Result<(), PipelineError> {
    if s.ranks() == 1 {
        return Ok(());
    }
    let own: Vec<u64> = counts.to_vec().into_iter().map(u64::from).collect();
    for (rank, said) in of_all_ranks(s, &own)?.into_iter().enumerate() {
        if rank != s.rank() {
            counts.add(&said.into_iter().map(|count| count as u32).collect::<Vec<_>>());
        }
    }
    Ok(())
}
