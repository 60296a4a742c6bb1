//! Real systems, solved as `zellige solve` does where nothing is chosen.

use zellige_runtime::Runtime;
use zellige_sparse::exact::ExactProduct;
use zellige_sparse::market;
use zellige_sparse::system::{Options, solve};

use crate::data::test_data;

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// To a true residual of 1e-10, computed in twice the precision. The answer for ones is too large for that on biot_small, whatever the method.
#[test]
fn defaults_solve_real_systems() {
    for name in ["memplus", "bcsstk16", "norne_flow", "elas3d_small", "biot_small"] {
        let Some(path) = test_data(&format!("{name}.mtx.gz")) else { return };
        let a = market::read(&path).unwrap().matrix.without_zeros();
        let mut b = vec![1.0; a.rows()];
        if name == "biot_small" {
            let x: Vec<f64> = (0..a.columns()).map(|j| ((j * 7919) % 1000) as f64 / 500.0 - 1.0).collect();
            a.multiply(&x, &mut b).unwrap();
        }
        let rt = Runtime::builder().workers(2).build().unwrap();
        let mut x = vec![0.0; a.columns()];
        let answer = solve(&rt, &a, &b, &mut x, &Options::default(), &mut ()).unwrap();
        assert!(answer.solution.reason.is_converged(), "{name}: {:?}", answer.attempts);
        let residual: Vec<f64> = ExactProduct::of(&a, &x).unwrap().errors(&b).unwrap();
        assert!(norm(&residual) <= 1.001e-10 * norm(&b), "{name}: {:e}", norm(&residual) / norm(&b));
    }
}
