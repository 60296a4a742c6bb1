//! Two copies of each tile give what replicas give, bit by bit, with tasks of their own.

use crate::common::*;
use zellige_dense::{
    Copies, Error, RectTiled, Rule, SharedPolicy, Submission, SymmetricTiled, TileGrid, cholesky_with,
    solve_with,
};
use zellige_runtime::{Graph, Recorder};

const N: usize = 170;
const M: usize = 50;

fn rule(text: &str) -> SharedPolicy {
    text.parse::<Rule>().unwrap().into()
}

fn both() -> Submission<f32> {
    Submission::default().copies(Copies::both())
}

/// Returns the factor and the solution; solves a second time with other right-hand sides if there
/// is `more`.
fn solved(submission: &Submission<f32>, policy: &str) -> Result<(Vec<f32>, Vec<f32>), Error> {
    let rt = runtime(2, "lws");
    let (cols, rows) = (TileGrid::from_edges([0, 30, 31, 80, 120, N])?, TileGrid::uniform(M, 20)?);
    let a = random_spd(N, 1.0, 7);
    let l = SymmetricTiled::generate(&rt, cols.clone(), &dense32(&a, N))?;
    cholesky_with(&rt, &l, &rule(policy), submission)?;
    let mut x = Vec::new();
    // Twice, so that second copies of a first solution would be seen in the second one.
    for seed in [8, 9] {
        let b = random_rect(M, N, seed);
        let b = RectTiled::generate(&rt, "B", rows.clone(), cols.clone(), &dense32(&b, M))?;
        solve_with(&rt, &l, &b, &rule(policy), submission, |_| Ok(()))?.wait(&rt)?;
        x.extend(b.gather(&rt)?);
    }
    Ok((l.gather(&rt)?, x))
}

#[test]
fn both_copies_give_the_bits_of_replicas() {
    let single = solved(&Submission::default(), "fp32").unwrap();
    for policy in [
        "fp32",
        "hp1",
        "hp1:band=2",
        "bf1",
        "x3",
        "hp1:band=2,else=bf1",
        "tf32,panel=tf32",
        "fp8:band=2,panel=x3",
        "fp32,panel=x3",
    ] {
        let replicas = solved(&Submission::default(), policy).unwrap();
        for fuse_updates in [1, 3] {
            assert_eq!(solved(&both().fuse_updates(fuse_updates), policy).unwrap(), replicas, "{policy}");
        }
        assert_eq!(replicas == single, policy == "fp32", "{policy} is a precision of its own");
    }
}

#[test]
fn rules_that_second_copies_cannot_serve_are_refused() {
    for (policy, part) in [
        ("hp1:operand=1e-2", "submitted before; use replicas"),
        ("hp2", "to and fro"),
        ("hp1:band=2,else=hp3", "precision hp3"),
    ] {
        let error = solved(&both(), policy).unwrap_err();
        assert!(matches!(error, Error::Copies { .. }) && error.to_string().contains(part), "{error}");
    }
}

/// Tasks of each name in the graph of a factorisation on planned tiles.
fn recorded(submission: &Submission<f32>, policy: &str) -> (Graph, usize) {
    let graph = Graph::record(|g: &Recorder| {
        let a = SymmetricTiled::<f32>::planned(g, TileGrid::uniform(60, 10)?);
        cholesky_with(g, &a, &rule(policy), submission).map(drop)
    });
    let graph: Graph = graph.unwrap();
    let converts = graph.to_petgraph().node_weights().filter(|node| node.name == "convert").count();
    (graph, converts)
}

#[test]
fn what_products_read_in_16_bits_is_converted_once() {
    assert_eq!(recorded(&Submission::default(), "hp1").1, 0);
    assert_eq!(recorded(&both(), "fp32").1, 0);
    // 6 x 6 tiles: columns 0 to 3 of L below the diagonal are operands of products, column 4 is
    // not.
    let (graph, converts) = recorded(&both(), "hp1");
    assert_eq!(converts, 5 + 4 + 3 + 2);
    assert_eq!(graph.slots().iter().filter(|name| name.starts_with("H[")).count(), converts);
    // (i, j, k) with i - j >= 4: (5, 1, 0) alone.
    assert_eq!(recorded(&both(), "hp1:band=4").1, 2);
    // An equal number if products share tasks.
    assert_eq!(recorded(&both().fuse_updates(4), "hp1").1, converts);
}
