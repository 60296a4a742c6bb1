//! What several ranks that run one pipeline tell each other. In one process all of this is nothing.

use super::Error;
use serde::Serialize;
use zellige_dense::{Error as LinalgError, GemmCounts, NotPositiveDefinite};
use zellige_mpi::{BlockCyclic, Distribution};
use zellige_runtime::Session;

/// What one rule took on one of several ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct RankUse {
    /// The rank, from 0.
    pub rank: usize,
    /// Most memory its process held during this rule (0 where the system does not tell).
    pub peak_memory_bytes: u64,
    /// Bytes of its tiles of the factor and of all reconstructors, without replicas.
    pub tile_bytes: u64,
    /// Bytes of values that it sent to other ranks.
    pub sent_bytes: u64,
}

/// Which of so many ranks owns the tile in a row and a column: two-dimensional block cyclic.
pub(super) fn owners(ranks: usize) -> impl Fn(usize, usize) -> usize {
    let ranks = BlockCyclic::of(ranks);
    move |row, column| ranks.owner(row, column)
}

/// The part of a matrix in tiles that one of so many ranks holds at most: its own tiles, and
/// replicas of others in its row and its column of ranks, which are kept until they are written
/// again.
pub(super) fn share(ranks: usize) -> f64 {
    let (rows, columns) = BlockCyclic::of(ranks).grid();
    let (row, column) = (1.0 / rows as f64, 1.0 / columns as f64);
    row + column - row * column
}

/// What each rank says, in the order of the ranks.
pub(super) fn of_all_ranks<S: Session>(s: &S, own: &[u64]) -> Result<Vec<Vec<u64>>, Error> {
    let say = |rank| s.register_on(rank, || own.to_vec());
    let said: Vec<_> = (0..s.ranks()).map(say).collect::<Result<_, _>>()?;
    Ok(said.into_iter().map(|said| s.take(said)).collect::<Result<_, _>>()?)
}

/// The pivot that was not positive, if that is why a factorisation has failed on one of the ranks:
/// it alone knows more than the words of the error.
pub(super) fn lost_pivot<S: Session>(
    s: &S,
    error: &LinalgError,
) -> Result<Option<NotPositiveDefinite>, Error> {
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

/// Adds what the other ranks have counted.
pub(super) fn add_counts<S: Session>(s: &S, counts: &GemmCounts) -> Result<(), Error> {
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
