//! Real systems, solved as `zellige solve` does where nothing is chosen.

use std::path::Path;

use serde_json::Value;
use zellige_runtime::Runtime;
use zellige_sparse::exact::ExactProduct;
use zellige_sparse::system::{Options, solve};
use zellige_sparse::{Csr, files};
use zellige_tests::data;

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// Defaults reach a recomputed residual of 1e-10, in twice the precision. The answer for ones is
/// too large for that on biot_small, for any method.
#[test]
fn defaults_solve_real_systems() {
    for name in ["memplus", "bcsstk16", "norne_flow", "elas3d_small", "biot_small"] {
        let Some(path) = data(&format!("sparse/{name}.mtx.gz")) else { return };
        let a = files::read_real(&path).unwrap().without_zeros();
        let mut b = vec![1.0; a.rows()];
        if name == "biot_small" {
            let x: Vec<f64> = (0..a.columns()).map(|j| ((j * 7919) % 1000) as f64 / 500.0 - 1.0).collect();
            a.multiply(&x, &mut b).unwrap();
        }
        solved(name, &a, &b);
    }
}

/// Returns the solution of a system, after a check of its residual.
fn solved(name: &str, a: &Csr, b: &[f64]) -> Vec<f64> {
    let rt = Runtime::builder().workers(2).build().unwrap();
    let mut x = vec![0.0; a.columns()];
    let answer = solve(&rt, a, b, &mut x, &Options::default(), &mut ()).unwrap();
    assert!(answer.solution.reason.is_converged(), "{name}: {:?}", answer.attempts);
    let residual: Vec<f64> = ExactProduct::of(a, &x).unwrap().errors(b).unwrap();
    assert!(norm(&residual) <= 1.001e-10 * norm(b), "{name}: {:e}", norm(&residual) / norm(b));
    x
}

/// Defaults solve the project's own matrices, whose solutions another program has computed.
#[test]
fn defaults_solve_generated_systems() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures"));
    let expected = std::fs::read(folder.join("expected.json")).unwrap();
    let expected: Value = serde_json::from_slice(&expected).unwrap();
    for name in ["flow", "elastic", "circuit"] {
        let a = files::read_real(&folder.join(format!("{name}.mtx.gz"))).unwrap().without_zeros();
        let x = solved(name, &a, &vec![1.0; a.rows()]);
        let of = |key: &str| expected[name][key].as_f64().unwrap();
        // Bound that a residual of 1e-10 gives for the solution, if the condition number leaves any
        // digit.
        let bound = 1e-10 * of("condition");
        let error = (norm(&x) / of("solution_norm") - 1.0).abs();
        assert!(error <= bound, "{name}: the solution is wrong by {error:e} at least, {bound:e} allowed");
    }
}
