//! Rules on norms, in virtual time and in real runs.

use std::path::Path;

use zellige_runtime::Runtime;
use zellige_sim::platform::Platform;
use zellige_tor::params::{Mode, parse};
use zellige_tor::pipeline::simulate::{Request, simulate};
use zellige_tor::pipeline::{self, Options, Silent, TileChoice};

const DEMO: &str = include_str!("../../systems/demo.toml");

/// With the norms of a run on the same tiles, a simulation assigns 16 bits to as many products as
/// that run, in factorisation and solves. This holds for deferred selection and for evaluation in
/// advance, on one machine and on several.
#[test]
fn a_simulation_chooses_as_the_run_that_its_norms_are_from() {
    let text = DEMO.replace("nssp = 16 ", "nssp = 8 ");
    let input = parse(Path::new("system.toml"), &text, None, Mode::Strict).unwrap();
    let rt = Runtime::builder().workers(2).bind(false).build().unwrap();
    let rules = ["hp1:operand=1e-2", "hp1:operand=1e-3", "hp1:operand=1e-4", "hp1:tile=1e-2"];
    // The tile size is a divisor of m = 104. The run cuts rows into equal parts, and the simulation
    // into tiles with a short last one.
    let tile = 52;
    let options = Options {
        rules: rules.map(String::from).to_vec(),
        tile: TileChoice::Uniform(tile),
        exact: false,
        keep_norms: true,
        ..Options::default()
    };
    let outcome = pipeline::run(&rt, &input, &options, &Silent).unwrap();
    let platform = Platform::shipped("v100x4").unwrap();
    let mut mixed = 0;
    for result in &outcome.results {
        let (n, m) = (result.n, result.m);
        let (nt, mt) = (n.div_ceil(tile), m.div_ceil(tile));
        let products = [nt * (nt - 1) * (nt - 2) / 6, mt * nt * (nt - 1)].map(|count| count as f64);
        let shares = [result.measured.as_ref().unwrap().gemm_share.low(), result.extras.solve_share.low()];
        let low = (products[0] * shares[0] + products[1] * shares[1]) / (products[0] + products[1]);
        mixed += u32::from(shares.iter().all(|&share| share > 0.05 && share < 0.95));
        for (fuse_updates, nodes) in [(1, 1), (3, 1), (4, 1), (1, 2), (1, 3)] {
            let request = Request {
                n,
                m,
                tile,
                rule: result.rule.parse().unwrap(),
                norms: result.extras.norms.as_ref(),
                fuse_updates,
                cyclic_block: 1,
                policy: "dmdas".into(),
                ahead: 2,
                nodes,
            };
            let simulated = simulate(&request, &platform).unwrap().0.low_share;
            assert!((simulated - low).abs() < 1e-12, "{}: {simulated} and {low}", result.rule);
        }
    }
    assert!(mixed > 0, "a rule that mixes both in both halves");
}
