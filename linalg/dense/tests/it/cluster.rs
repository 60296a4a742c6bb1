//! The factorisation and solves on several ranks, threads of this process: the bits of one process,
//! and the bytes that the owners of the tiles say.

use std::collections::{HashMap, HashSet};

use zellige_dense::{
    Error, NotPositiveDefinite, RectTiled, Rule, SharedPolicy, SymmetricTiled, TileGrid, cholesky, solve,
};
use zellige_mpi::{BlockCyclic, Cluster, Distribution, RemoteError, run_local};
use zellige_runtime::{Error as RuntimeError, Submit};

use crate::common::*;

const N: usize = 150;
const ROWS: usize = 40;

fn rule(text: &str) -> SharedPolicy {
    text.parse::<Rule>().unwrap().into()
}

fn grids() -> (TileGrid, TileGrid) {
    (TileGrid::from_edges([0, 32, 64, 65, 100, 128, N]).unwrap(), TileGrid::uniform(ROWS, 16).unwrap())
}

type Tiled = (SymmetricTiled<f32>, RectTiled<f32>);

/// Creates the handles, sets their owners if there are ranks, and submits all tasks: factorisation
/// and solve.
fn submit<S: Submit>(s: &S, policy: &SharedPolicy, own: impl Fn(&Tiled)) -> Result<Tiled, Error> {
    let (columns, rows) = grids();
    let tiled =
        (SymmetricTiled::<f32>::new(s, columns.clone()), RectTiled::<f32>::new(s, "B", rows, columns));
    own(&tiled);
    tiled.0.fill(s, &dense32(&random_spd(N, 1.0, 5), N))?;
    tiled.1.fill(s, &dense32(&random_rect(ROWS, N, 6), ROWS))?;
    cholesky(s, &tiled.0, policy)?;
    solve(s, &tiled.0, &tiled.1, policy)?;
    Ok(tiled)
}

/// Gives the tiles owners.
fn distribute(cluster: &Cluster, (a, b): &Tiled) {
    let ranks = BlockCyclic::of(cluster.ranks());
    for j in 0..a.tiles() {
        for i in j..a.tiles() {
            cluster.set_owner(a.tile(i, j), ranks.owner(i, j)).unwrap();
        }
        for i in 0..b.row_grid().tiles() {
            cluster.set_owner(b.tile(i, j), ranks.owner(i, j)).unwrap();
        }
    }
}

#[test]
fn the_same_functions_give_the_same_bits_on_any_number_of_ranks() {
    // Asked at submission, and when norms are known; a result that is kept in 16 bits.
    for text in ["fp32", "hp1", "hp2", "hp1:band=2", "hp1:operand=1e-2,else=x3"] {
        let policy = rule(text);
        let rt = runtime(2, "lws");
        let (l, x) = submit(&rt, &policy, |_| ()).unwrap();
        let wanted = (l.gather(&rt).unwrap(), x.gather(&rt).unwrap());
        for ranks in [1, 2, 4] {
            for workers in [1, 2] {
                let program = |cluster: &Cluster| {
                    let (l, x) = submit(cluster, &policy, |tiled| distribute(cluster, tiled)).unwrap();
                    cluster.wait_all().unwrap();
                    // On every rank, whole.
                    for tile in l.handles().iter().chain(x.handles()) {
                        drop(cluster.read(tile).unwrap());
                    }
                    (l.gather(cluster.runtime()).unwrap(), x.gather(cluster.runtime()).unwrap())
                };
                for result in run_local(ranks, workers, program).unwrap() {
                    assert!(result == wanted, "{text}: other bits on {ranks} ranks of {workers} workers");
                }
            }
        }
    }
}

/// Bytes that a factorisation moves: each tile of L goes once to every rank that reads it, in
/// `narrow` bytes for each number where only products read it.
fn bytes_of_factorisation(grid: &TileGrid, ranks: &impl Distribution, narrow: Option<usize>) -> u64 {
    let nt = grid.tiles();
    let mut there: HashMap<(usize, usize, usize), HashSet<bool>> = HashMap::new();
    let mut bytes = 0;
    let mut need = |(i, k): (usize, usize), rank: usize, whole: bool| {
        let has = there.entry((i, k, rank)).or_default();
        if ranks.owner(i, k) == rank || has.contains(&true) || has.contains(&whole) {
            return;
        }
        has.insert(whole);
        let numbers = grid.width(i) * grid.width(k);
        bytes += (narrow.filter(|_| !whole).unwrap_or(4) * numbers) as u64;
    };
    for k in 0..nt {
        (k + 1..nt).for_each(|i| need((k, k), ranks.owner(i, k), true));
        (k + 1..nt).for_each(|j| need((j, k), ranks.owner(j, j), true));
        for j in k + 1..nt {
            for i in j + 1..nt {
                need((i, k), ranks.owner(i, j), narrow.is_none());
                need((j, k), ranks.owner(i, j), narrow.is_none());
            }
        }
    }
    bytes
}

#[test]
fn bytes_follow_from_the_owners_and_mixed_precision_moves_fewer() {
    let (grid, _) = grids();
    for ranks in [2, 4] {
        // The last rule decides when norms are known, with one precision for all products: their
        // operands are requested then.
        let moved = ["fp32", "hp1", "hp1:operand=1e9,else=x3"].map(|text| {
            let policy = rule(text);
            let program = |cluster: &Cluster| {
                let a = SymmetricTiled::<f32>::new(cluster, grid.clone());
                let owners = BlockCyclic::of(ranks);
                for j in 0..a.tiles() {
                    (j..a.tiles()).for_each(|i| cluster.set_owner(a.tile(i, j), owners.owner(i, j)).unwrap());
                }
                a.fill(cluster, &dense32(&random_spd(N, 1.0, 5), N)).unwrap();
                cholesky(cluster, &a, &policy).unwrap();
                cluster.wait_all().unwrap();
                cluster.traffic().sent_bytes
            };
            run_local(ranks, 1, program).unwrap().into_iter().sum::<u64>()
        });
        let owners = BlockCyclic::of(ranks);
        let [whole, narrow] = [None, Some(2)].map(|narrow| bytes_of_factorisation(&grid, &owners, narrow));
        // Who asks late needs the norm of the matrix, too.
        let norm = 8 * (ranks as u64 - 1);
        assert_eq!(moved, [whole, narrow, narrow + norm], "{ranks} ranks");
        assert!(moved[1] < moved[0], "{moved:?}");
    }
}

#[test]
fn a_matrix_without_a_factor_is_named_on_every_rank() {
    let mut values = random_spd(N, 1.0, 5);
    values[70 + 70 * N] = -1.0;
    let program = |cluster: &Cluster| {
        let (grid, _) = grids();
        let a = SymmetricTiled::<f32>::new(cluster, grid);
        let owners = BlockCyclic::of(cluster.ranks());
        for j in 0..a.tiles() {
            (j..a.tiles()).for_each(|i| cluster.set_owner(a.tile(i, j), owners.owner(i, j)).unwrap());
        }
        a.fill(cluster, &dense32(&values, N)).unwrap();
        cholesky(cluster, &a, &rule("fp32")).unwrap();
        let Err(RuntimeError::Failed(failure)) = cluster.wait_all() else { panic!("it has no factor") };
        assert_eq!(failure.task, "potrf[3, 3, 3]");
        if cluster.rank() == owners.owner(3, 3) {
            let lost: &NotPositiveDefinite = failure.downcast_ref().expect("as the task left it");
            assert_eq!(lost.row, 70);
        } else {
            let remote: &RemoteError = failure.downcast_ref().expect("of another rank");
            assert_eq!(remote.rank, owners.owner(3, 3));
            assert!(remote.message.contains("row 70"), "{remote}");
        }
        let Err(RuntimeError::Poisoned { .. }) = cluster.read(a.tile(5, 5)).map(drop) else {
            panic!("what follows has no value")
        };
    };
    run_local(4, 1, program).unwrap();
}
