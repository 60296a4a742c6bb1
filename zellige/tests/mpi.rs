//! Factorisation and solves on the ranks that mpirun has started, against one process: the same
//! bits. `make mpi` runs it.

use zellige::dense::{RectTiled, Rule, SharedPolicy, SymmetricTiled, TileGrid, cholesky, generator, solve};
use zellige::mpi::{BlockCyclic, Cluster, Distribution, Mpi};
use zellige::runtime::{Runtime, Session};

const N: usize = 150;
const ROWS: usize = 40;

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).bind(false).build().unwrap()
}

/// Factor, and solve with it; both whole, on every rank.
fn program<S: Session>(s: &S, policy: &SharedPolicy) -> (Vec<f32>, Vec<f32>) {
    let columns = TileGrid::from_edges([0, 32, 64, 65, 100, 128, N]).unwrap();
    let (a, b) = (
        SymmetricTiled::<f32>::new(s, columns.clone()),
        RectTiled::<f32>::new(s, "B", TileGrid::uniform(ROWS, 16).unwrap(), columns),
    );
    let owners = BlockCyclic::of(s.ranks());
    for j in 0..a.tiles() {
        (j..a.tiles()).for_each(|i| s.set_owner(a.tile(i, j), owners.owner(i, j)).unwrap());
        (0..b.row_grid().tiles()).for_each(|i| s.set_owner(b.tile(i, j), owners.owner(i, j)).unwrap());
    }
    let entries = |diagonal: f32| {
        generator(move |rows, columns, out: &mut [f32], ld: usize| {
            for (c, j) in columns.enumerate() {
                for (r, i) in rows.clone().enumerate() {
                    let on = if i == j { diagonal } else { 0.0 };
                    out[r + c * ld] = on + ((i + 1) * (j + 1) % 17) as f32 / (1.0 + i.abs_diff(j) as f32);
                }
            }
        })
    };
    a.fill(s, &entries(100.0)).unwrap();
    b.fill(s, &entries(0.0)).unwrap();
    cholesky(s, &a, policy).unwrap();
    solve(s, &a, &b, policy).unwrap();
    s.wait_all().unwrap();
    for tile in a.handles().iter().chain(b.handles()) {
        drop(s.read(tile).unwrap());
    }
    (a.gather(s.runtime()).unwrap(), b.gather(s.runtime()).unwrap())
}

fn main() {
    let mpi = Mpi::initialize().unwrap();
    for text in ["fp32", "hp1", "hp2", "hp1:band=2", "hp1:operand=1e-2,else=x3"] {
        let policy: SharedPolicy = text.parse::<Rule>().unwrap().into();
        let wanted = program(&runtime(1), &policy);
        assert!(wanted.1.iter().all(|x| x.is_finite()) && wanted.1.iter().any(|x| *x != 0.0), "{text}");
        for workers in 1..=2 {
            let cluster = Cluster::new(runtime(workers), mpi.transport().unwrap()).unwrap();
            let found = program(&cluster, &policy);
            assert!(found == wanted, "{text}: other bits on {} ranks of {workers} workers", mpi.ranks());
            if mpi.ranks() > 1 {
                assert!(cluster.traffic().sent > 0, "{text}");
            }
        }
        if mpi.rank() == 0 {
            println!("{text}: factor and solution have the bits of one process on {} rank(s)", mpi.ranks());
        }
    }
}
