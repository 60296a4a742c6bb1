//! Precision maps, from their file to the bits of a solution.

use crate::common::*;
use zellige_dense::{
    Error, GemmPrecision, PanelPrecision, Phase, RectTiled, Rule, SharedPolicy, SymmetricTiled, TileGrid,
    TileMap, cholesky, solve,
};

const N: usize = 80;

/// Bits of `X` with `X A = B`, and the shares of the factorisation's products.
type Solution = (Vec<u32>, Vec<(GemmPrecision, f64)>);

fn solution(rule: &Rule, tile: usize) -> Result<Solution, Error> {
    let rt = runtime(2, "lws");
    let grid = TileGrid::uniform(N, tile).unwrap();
    let a = SymmetricTiled::generate(&rt, grid.clone(), &dense32(&random_spd(N, 1.0, 40), N))?;
    let rows = random_spd(N, 1.0, 41);
    let b = RectTiled::generate(&rt, "B", TileGrid::uniform(N, 32).unwrap(), grid, &dense32(&rows, N))?;
    let policy: SharedPolicy = rule.clone().into();
    let factor = cholesky(&rt, &a, &policy)?;
    factor.wait(&rt)?;
    solve(&rt, &a, &b, &policy)?.wait(&rt)?;
    Ok((b.gather(&rt)?.into_iter().map(f32::to_bits).collect(), factor.counts().shares()))
}

/// Writes a map to a file and parses its rule.
fn through_a_file(name: &str, map: &TileMap) -> Rule {
    let file = std::env::temp_dir().join(format!("zellige-dense-{}-{name}.json", std::process::id()));
    std::fs::write(&file, map.to_string()).unwrap();
    let text = format!("map:{}", file.display());
    let rule: Rule = text.parse().unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(rule.to_string(), text);
    rule
}

#[test]
fn a_map_that_equals_a_rule_gives_the_same_bits() {
    let edges: Vec<usize> = (0..=5).map(|i| 16 * i).collect();
    let far = |_: Phase, i: usize, j: usize| if i - j >= 2 { GemmPrecision::Hp1 } else { GemmPrecision::X3 };
    let map = TileMap::new("m", &edges, far).unwrap().with_panel(PanelPrecision::X3);
    let want = solution(&"hp1:band=2,else=x3,panel=x3".parse().unwrap(), 16).unwrap();
    assert_eq!(solution(&through_a_file("equal", &map), 16).unwrap(), want);
    assert_eq!(solution(&map.into(), 16).unwrap(), want);
}

#[test]
fn solves_have_a_triangle_of_their_own() {
    let edges: Vec<usize> = (0..=5).map(|i| 16 * i).collect();
    let of = |phase: Phase, _, _| if phase == Phase::Solve { GemmPrecision::Bf1 } else { GemmPrecision::Sp };
    let map = TileMap::new("m", &edges, of).unwrap();
    let (mixed, shares) = solution(&through_a_file("solves", &map), 16).unwrap();
    assert_eq!(shares, [(GemmPrecision::Sp, 1.0)]);
    assert_ne!(mixed, solution(&"fp32".parse().unwrap(), 16).unwrap().0);
    assert_ne!(mixed, solution(&"bf1".parse().unwrap(), 16).unwrap().0);
}

#[test]
fn another_number_of_tiles_is_refused_before_anything_runs() {
    let map = TileMap::new("m", &[0, 40, 80], |_, _, _| GemmPrecision::Hp1).unwrap();
    let error = solution(&map.into(), 16).unwrap_err();
    assert!(matches!(error, Error::Rule(_)), "{error:?}");
    assert!(error.to_string().contains("2 tiles along a side (n = 80, --tile 40)"), "{error}");
}
