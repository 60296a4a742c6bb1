//! A user's own policy in a file, from its text to a task's failure.
#![cfg(feature = "script")]

use crate::common::*;
use zellige_dense::{Error, GemmPrecision, Rule, SharedPolicy, SymmetricTiled, TileGrid, cholesky};

const N: usize = 80;

/// Factors with the script `source` in a file of its own.
fn factor(name: &str, source: &str) -> Result<Vec<(GemmPrecision, f64)>, Error> {
    let file = std::env::temp_dir().join(format!("zellige-dense-{}-{name}.rhai", std::process::id()));
    std::fs::write(&file, source).unwrap();
    let rule = format!("script:{}", file.display()).parse::<Rule>();
    std::fs::remove_file(&file).unwrap();
    let rule = rule?;
    assert_eq!(rule.to_string(), format!("script:{}", file.display()));
    let rt = runtime(2, "lws");
    let grid = TileGrid::uniform(N, 16).unwrap();
    let a = SymmetricTiled::generate(&rt, grid, &dense32(&random_spd(N, 1.0, 40), N))?;
    let policy: SharedPolicy = rule.into();
    let run = cholesky(&rt, &a, &policy)?;
    run.wait(&rt)?;
    Ok(run.counts().shares())
}

const HEAD: &str = "fn precision(i, j, k, nt, norm_a_ij, norm_l_ik, norm_l_jk, norm_a) {\n";

#[test]
fn scripts_choose() {
    let body = "    if i - j < 2 { return \"fp32\"; }\n    if norm_l_ik * norm_l_jk < norm_a { \"hp1\" } else { \"bf1\" }\n}\n";
    let shares = factor("chooses", &format!("{HEAD}{body}")).unwrap();
    // 5 x 5 tiles, 10 products; on tiles next to the diagonal: 1 on (2,1), 2 on (3,2), 3 on (4,3).
    assert_eq!(shares, [(GemmPrecision::Sp, 0.6), (GemmPrecision::Hp1, 0.4)]);
}

#[test]
fn a_script_that_fails_names_file_line_and_product() {
    let body = "    if i == 3 {\n        nonsense(j)\n    } else { \"hp1\" }\n}\n";
    let error = factor("fails", &format!("{HEAD}{body}")).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Policy(_)), "{error:?}");
    assert!(text.contains("fails.rhai") && text.contains("line 3") && text.contains("(3, "), "{text}");
}

#[test]
fn an_endless_script_is_stopped() {
    let error = factor("endless", &format!("{HEAD} loop {{}} \n}}\n")).unwrap_err();
    assert!(error.to_string().contains("operations"), "{error}");
}

#[test]
fn a_file_that_is_no_policy_is_refused_before_anything_runs() {
    let error = factor("empty", "fn other() { 1 }").unwrap_err();
    assert!(matches!(error, Error::Rule(_)), "{error:?}");
    assert!(error.to_string().contains("fn precision(i, j"), "{error}");
}
