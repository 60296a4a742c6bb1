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
                products_only: false,
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

/// The operations of tiles of 100 in a matrix of order 950, counted one product after the other.
#[test]
fn products_alone_are_simulated() {
    let (n, tile) = (950, 100);
    let request = Request {
        n,
        m: 0,
        tile,
        rule: "fp32".parse().unwrap(),
        norms: None,
        fuse_updates: 1,
        products_only: true,
        cyclic_block: 1,
        policy: "dmdas".into(),
        ahead: 2,
        nodes: 1,
    };
    let platform = Platform::shipped("v100x4").unwrap();
    let (report, trace) = simulate(&request, &platform).unwrap();
    assert_eq!((report.tasks, trace.tasks.len()), (120, 120), "10 choose 3");
    assert!(trace.tasks.iter().all(|task| task.name == "gemm"));
    let width = |i: usize| if i == 9 { 50.0 } else { 100.0 };
    let mut operations = 0.0;
    for (i, j) in (0..10).flat_map(|i| (0..i).map(move |j| (i, j))) {
        operations += (0..j).map(|k| 2.0 * width(i) * width(j) * width(k)).sum::<f64>();
    }
    let rate = operations / report.makespan_seconds / 1e12;
    assert!((report.tflops - rate).abs() < 1e-9 * rate, "{} {rate}", report.tflops);
    let none = simulate(&Request { n: 200, ..request.clone() }, &platform).unwrap_err();
    assert!(none.to_string().contains("no products"), "{none}");
    let whole = simulate(&Request { products_only: false, ..request }, &platform).unwrap().0;
    assert!(whole.tasks > report.tasks && whole.makespan_seconds > report.makespan_seconds);
}
