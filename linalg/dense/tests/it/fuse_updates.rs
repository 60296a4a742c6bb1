//! Several products on a tile in one task give what separate tasks give, bit by bit.

use std::time::Duration;

use crate::common::*;
use proptest::prelude::*;
use zellige_dense::{
    Error, GemmPrecision, GemmQuery, PolicyError, PrecisionPolicy, RectTiled, Rule, SharedPolicy, Submission,
    SymmetricTiled, TileGrid, at_submission, cholesky_with, solve_with,
};
use zellige_runtime::{Bindings, Emulated, Graph, Recorder, Runtime, Submit};

fn rule(text: &str) -> SharedPolicy {
    text.parse::<Rule>().unwrap().into()
}

/// A system, cut in tiles.
struct Case {
    a: Vec<f64>,
    b: Vec<f64>,
    cols: TileGrid,
    rows: TileGrid,
}

impl Case {
    fn new(edges: Vec<usize>, seed: u64) -> Case {
        let cols = TileGrid::from_edges(edges).unwrap();
        let (n, m) = (cols.len(), 21);
        let a = graded(random_spd(n, 1.0, seed), n, 1e-2);
        Case { a, b: random_rect(m, n, seed + 1), cols, rows: TileGrid::uniform(m, 8).unwrap() }
    }

    fn usual() -> Case {
        Case::new(vec![0, 7, 32, 64, 65, 100, 128, 150], 20)
    }

    fn matrices<S: Submit>(&self, s: &S) -> (SymmetricTiled<f32>, RectTiled<f32>) {
        let a = SymmetricTiled::new(s, self.cols.clone());
        (a, RectTiled::new(s, "B", self.rows.clone(), self.cols.clone()))
    }

    /// Products by precision.
    fn submit<S: Submit>(
        &self,
        s: &S,
        (a, b): &(SymmetricTiled<f32>, RectTiled<f32>),
        policy: &SharedPolicy,
        fuse_updates: usize,
    ) -> Result<impl Fn() -> Vec<u64> + use<S>, Error> {
        a.fill(s, &dense32(&self.a, self.cols.len()))?;
        b.fill(s, &dense32(&self.b, self.rows.len()))?;
        let submission = Submission::default().fuse_updates(fuse_updates);
        let factor = cholesky_with(s, a, policy, &submission)?;
        let solution = solve_with(s, a, b, policy, &submission, |_| Ok(()))?;
        let count = move |p| factor.counts().count_of(p) + solution.counts().count_of(p);
        Ok(move || GemmPrecision::ALL.into_iter().map(&count).collect())
    }

    fn bits(rt: &Runtime, (a, b): &(SymmetricTiled<f32>, RectTiled<f32>)) -> Result<Vec<u32>, Error> {
        let mut all = a.gather(rt)?;
        all.extend(b.gather(rt)?);
        Ok(all.into_iter().map(f32::to_bits).collect())
    }

    /// Bits of factor and solution, and products by precision.
    fn run(
        &self,
        rt: &Runtime,
        policy: &SharedPolicy,
        fuse_updates: usize,
    ) -> Result<(Vec<u32>, Vec<u64>), Error> {
        let matrices = self.matrices(rt);
        let counts = self.submit(rt, &matrices, policy, fuse_updates)?;
        Ok((Case::bits(rt, &matrices)?, counts()))
    }
}

const RULES: [&str; 14] = [
    "fp32",
    "hp1",
    "bf1",
    "x3",
    "tf32,panel=tf32",
    "hp1:band=2",
    "hp1:band=3,else=x3,panel=x3",
    "hp2",
    "hp3:band=3",
    "hp2:operand=1e-2,else=hp1",
    "fp8:band=2,else=hp1",
    "hp1:tile=1e-1",
    "hp1:operand=1e-2",
    "bf1:operand=1e-2,else=x3",
];

#[test]
fn every_rule_gives_the_bits_of_separate_tasks() {
    let case = Case::usual();
    let rt = runtime(2, "lws");
    for text in RULES {
        let policy = rule(text);
        let separate = case.run(&runtime(1, "eager"), &policy, 1).unwrap();
        for fuse_updates in [2, 3, 24] {
            assert!(case.run(&rt, &policy, fuse_updates).unwrap() == separate, "{text}, {fuse_updates}");
        }
    }
}

#[test]
fn on_devices_that_hold_a_part_of_the_matrix_too() {
    let case = Case::usual();
    for text in RULES {
        let policy = rule(text);
        let separate = case.run(&runtime(1, "eager"), &policy, 1).unwrap();
        for sched in ["lws", "dmdas"] {
            // Room for three products of tiles of 36 x 36 in f32, and a little.
            let device = |seed| Emulated::new(40_000).late(seed, Duration::from_micros(40));
            let rt =
                Runtime::builder().workers(1).policy(sched).peers(5e9).device(device(1)).device(device(2));
            let rt = rt.build().unwrap();
            assert!(case.run(&rt, &policy, 3).unwrap() == separate, "{text}, {sched}");
        }
    }
}

#[test]
fn recorded_and_replayed_too() {
    let (case, rt) = (Case::usual(), runtime(2, "lws"));
    for text in ["hp1:band=2", "hp1:operand=1e-2,else=x3"] {
        let separate = case.run(&runtime(1, "eager"), &rule(text), 1).unwrap().0;
        let matrices = case.matrices(&rt);
        let graph = rt.record(|g| case.submit(g, &matrices, &rule(text), 4).map(drop)).unwrap();
        for _ in 0..3 {
            let replay = rt.replay(&Bindings::recorded(&graph)).unwrap();
            rt.wait(&replay).unwrap();
            assert!(Case::bits(&rt, &matrices).unwrap() == separate, "{text}");
        }
    }
}

/// Returns a policy with any precision, by position alone.
fn scattered(seed: u64) -> SharedPolicy {
    let choose = move |q: &GemmQuery| {
        let hash =
            (q.i as u64 * 31 + q.j as u64 * 17 + q.k as u64 / 2 + seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let low = GemmPrecision::ALL.map(|p| if p == GemmPrecision::Dp { GemmPrecision::Sp } else { p });
        low[(hash >> 40) as usize % low.len()]
    };
    std::sync::Arc::new(at_submission(choose))
}

proptest! {
    #![proptest_config(zellige_tests::cases(24))]
    #[test]
    fn any_tiles_any_number_of_products_together(
        widths in prop::collection::vec(1usize..20, 1..9),
        fuse_updates in 1usize..30,
        seed in 0u64..1000,
        text in prop::option::of(prop::sample::select(RULES.to_vec())),
    ) {
        let mut edges = vec![0];
        widths.iter().for_each(|width| edges.push(edges[edges.len() - 1] + width));
        let case = Case::new(edges, seed);
        let policy = text.map_or_else(|| scattered(seed), rule);
        // Some precisions lose definiteness: then both do.
        let separate = case.run(&runtime(1, "eager"), &policy, 1);
        let together = case.run(&runtime(2, "lws"), &policy, fuse_updates);
        match (separate, together) {
            (Ok(separate), Ok(together)) => prop_assert!(separate == together),
            (Err(separate), Err(together)) => prop_assert_eq!(separate.to_string(), together.to_string()),
            (separate, together) => prop_assert!(false, "{} {}", separate.is_ok(), together.is_ok()),
        }
    }
}

/// Returns the inner lengths of the products' tasks on each tile, in order, and the operations of
/// all tasks.
fn recorded(policy: &SharedPolicy, fuse_updates: usize) -> (Vec<Vec<u32>>, f64) {
    let graph: Result<Graph, Error> = Graph::record(|g: &Recorder| {
        let a = SymmetricTiled::<f32>::planned(g, TileGrid::uniform(72, 10)?);
        cholesky_with(g, &a, policy, &Submission::default().fuse_updates(fuse_updates)).map(drop)
    });
    let graph = graph.unwrap().to_petgraph();
    let mut lengths = vec![Vec::new(); 64];
    for node in graph.node_weights().filter(|node| node.name == "gemm") {
        let [i, j, _] = node.info.coords.unwrap();
        lengths[(8 * i + j) as usize].push(node.info.shape[2]);
    }
    let flops = graph.node_weights().map(|node| node.info.flops).sum();
    (lengths, flops)
}

#[test]
fn products_share_tasks_where_their_sums_stay_in_f32() {
    // Eight tiles, the last of 2 columns: tile (7, 6) has products with k = 0 to 5.
    let of = |text: &str, fuse_updates| recorded(&rule(text), fuse_updates).0[8 * 7 + 6].clone();
    for text in ["fp32", "hp1", "bf1", "x3", "tf32", "hp1:operand=1e-2,else=x3", "hp1:tile=1e-2"] {
        assert_eq!(of(text, 1), [10; 6], "{text}");
        assert_eq!(of(text, 4), [40, 20], "{text}");
        assert_eq!(of(text, 24), [60], "{text}");
    }
    for text in ["hp2", "hp3", "fp8", "hp2:operand=1e-2", "fp8:tile=1e-2"] {
        assert_eq!(of(text, 4), [10; 6], "{text}");
    }
    // A closure with deferred selection may return any precision.
    let closure: SharedPolicy = std::sync::Arc::new(|_: &GemmQuery| GemmPrecision::Sp);
    assert_eq!(recorded(&closure, 4).0[8 * 7 + 6], [10; 6]);
    // Runs of one precision: 0 and 1, then 2 alone, then 3 to 5.
    let runs = |q: &GemmQuery| match q.k {
        0 | 1 => GemmPrecision::Hp1,
        2 => GemmPrecision::Hp2,
        _ => GemmPrecision::Sp,
    };
    let runs: SharedPolicy = std::sync::Arc::new(at_submission(runs));
    assert_eq!(recorded(&runs, 24).0[8 * 7 + 6], [20, 10, 30]);
    let (separate, together) = (recorded(&runs, 1).1, recorded(&runs, 24).1);
    assert!((separate / together - 1.0).abs() < 1e-12, "{separate} {together}");
}

/// Answers one of its two precisions, or what it denied.
struct Sly(GemmPrecision);

impl PrecisionPolicy for Sly {
    fn choose(&self, query: &GemmQuery) -> Result<GemmPrecision, PolicyError> {
        match (query.i, query.j, query.k) {
            (4, 3, 1) => Ok(self.0),
            (4, 3, 2) if self.0 == GemmPrecision::Hp1 => Err(PolicyError::new("sly", query, "enough of it")),
            _ => Ok(GemmPrecision::Sp),
        }
    }

    fn may_select(&self, precision: GemmPrecision) -> bool {
        [GemmPrecision::Sp, GemmPrecision::Hp1].contains(&precision)
    }

    fn describe(&self) -> String {
        "sly".into()
    }
}

#[test]
fn a_policy_that_fails_within_a_task_is_named_with_its_product() {
    let (case, rt) = (Case::usual(), runtime(2, "lws"));
    for (precision, parts) in [
        (GemmPrecision::Hp1, ["product (4, 3, 2)", "enough of it"]),
        (GemmPrecision::Dp, ["product (4, 3, 1)", "fp64"]),
        (GemmPrecision::Hp2, ["sly", "those that it declares"]),
    ] {
        let policy: SharedPolicy = std::sync::Arc::new(Sly(precision));
        let error = case.run(&rt, &policy, 4).unwrap_err().to_string();
        assert!(parts.iter().all(|part| error.contains(part)), "{precision}: {error}");
    }
}
