//! Norms of the tiles of a reconstructor's matrices: taken from a run, stored in a file, and
//! interpolated to another size for simulations of rules that use norms.

use std::ops::Range;

use serde::Serialize;
use serde_json::Value;
use zellige_dense::{
    Error as LinalgError, GemmPrecision, GemmQuery, PanelPrecision, Phase, PolicyError, PrecisionPolicy,
    RectTiled, Rule, SharedPolicy, SymmetricTiled, TileGrid, TileScalar, When,
};
use zellige_runtime::Runtime;

/// Frobenius norms of tiles in one run: of `A = L L^T`, of `B`, of `Y = B L^-T` and of `X = Y
/// L^-1`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct TileNorms {
    /// The precision rule of the run.
    pub rule: String,
    /// Boundaries of the tiles along `A`, from 0 to n.
    pub edges: Vec<usize>,
    /// Boundaries of the tiles along the rows of `B`, from 0 to m.
    pub row_edges: Vec<usize>,
    /// Norms of `A`: row `i` has the tiles `(i, 0)` to `(i, i)`.
    pub a: Vec<Vec<f64>>,
    /// Norms of `L`: row `i` has the tiles `(i, 0)` to `(i, i - 1)`.
    pub l: Vec<Vec<f64>>,
    /// Norms of `B`, row by row.
    pub b: Vec<Vec<f64>>,
    /// Norms of `Y`, row by row.
    pub y: Vec<Vec<f64>>,
    /// Norms of `X`, row by row.
    pub x: Vec<Vec<f64>>,
}

/// Error in a file of norms.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("key {key:?}: {problem}")]
pub struct NormsError {
    /// Key with the error, with the index of the row if it matters.
    pub key: String,
    /// Problem with the value, and the accepted values.
    pub problem: String,
}

impl NormsError {
    fn new(key: impl Into<String>, problem: impl Into<String>) -> Self {
        NormsError { key: key.into(), problem: problem.into() }
    }
}

/// Collection of norms during a run.
impl TileNorms {
    /// Returns the norms of generated tiles.
    pub(crate) fn before<T: TileScalar>(
        rt: &Runtime,
        rule: &Rule,
        a: &SymmetricTiled<T>,
        b: &RectTiled<T>,
    ) -> Result<Self, LinalgError> {
        Ok(TileNorms {
            rule: rule.to_string(),
            edges: a.grid().edges().to_vec(),
            row_edges: b.row_grid().edges().to_vec(),
            a: lower(rt, a, |i| 0..i + 1)?,
            b: whole(rt, b)?,
            ..TileNorms::default()
        })
    }

    /// Adds the norms of a factor and of the first half of a solve.
    pub(crate) fn between<T: TileScalar>(
        &mut self,
        rt: &Runtime,
        l: &SymmetricTiled<T>,
        y: &RectTiled<T>,
    ) -> Result<(), LinalgError> {
        // Factored diagonal tiles are not measured.
        self.l = lower(rt, l, |i| 0..i)?;
        self.y = whole(rt, y)?;
        Ok(())
    }

    /// Adds the norms of a solution.
    pub(crate) fn after<T: TileScalar>(&mut self, rt: &Runtime, x: &RectTiled<T>) -> Result<(), LinalgError> {
        self.x = whole(rt, x)?;
        Ok(())
    }
}

fn lower<T: TileScalar>(
    rt: &Runtime,
    tiles: &SymmetricTiled<T>,
    columns: impl Fn(usize) -> Range<usize>,
) -> Result<Vec<Vec<f64>>, LinalgError> {
    let row = |i| columns(i).map(|j| Ok(rt.read(tiles.tile(i, j))?.norm())).collect();
    (0..tiles.tiles()).map(row).collect()
}

fn whole<T: TileScalar>(rt: &Runtime, tiles: &RectTiled<T>) -> Result<Vec<Vec<f64>>, LinalgError> {
    let row = |i| (0..tiles.col_grid().tiles()).map(|j| Ok(rt.read(tiles.tile(i, j))?.norm())).collect();
    (0..tiles.row_grid().tiles()).map(row).collect()
}

/// Reader of norms from a file.
impl TileNorms {
    /// Reads the JSON that a run wrote.
    ///
    /// # Errors
    /// The key of a value that is missing, unknown, of the wrong length, or no norm.
    pub fn parse(text: &str) -> Result<TileNorms, NormsError> {
        const KEYS: [&str; 8] = ["rule", "edges", "row_edges", "a", "l", "b", "y", "x"];
        let value: Value =
            serde_json::from_str(text).map_err(|error| NormsError::new("", format!("not JSON: {error}")))?;
        let Value::Object(map) = &value else {
            return Err(NormsError::new(
                "",
                format!("the file must hold an object with {}", KEYS.join(", ")),
            ));
        };
        if let Some(key) = map.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(NormsError::new(key, format!("unknown key; known keys are {}", KEYS.join(", "))));
        }
        let get = |key: &str| map.get(key).ok_or_else(|| NormsError::new(key, "missing"));
        let rule = get("rule")?.as_str().ok_or_else(|| NormsError::new("rule", "not a text"))?;
        let edges = edges("edges", get("edges")?, 2)?;
        let row_edges = edges_of_rows(get("row_edges")?)?;
        let (nt, mt) = (edges.len() - 1, row_edges.len() - 1);
        let lists =
            |key: &str, rows: usize, width: &dyn Fn(usize) -> usize| rows_of(key, get(key)?, rows, width);
        Ok(TileNorms {
            rule: rule.into(),
            a: lists("a", nt, &|i| i + 1)?,
            l: lists("l", nt, &|i| i)?,
            b: lists("b", mt, &|_| nt)?,
            y: lists("y", mt, &|_| nt)?,
            x: lists("x", mt, &|_| nt)?,
            edges,
            row_edges,
        })
    }
}

fn edges_of_rows(value: &Value) -> Result<Vec<usize>, NormsError> {
    edges("row_edges", value, 1)
}

/// Parses the boundaries of at least `tiles` tiles.
fn edges(key: &str, value: &Value, tiles: usize) -> Result<Vec<usize>, NormsError> {
    let list = value.as_array().ok_or_else(|| NormsError::new(key, "not a list of edges"))?;
    let number = |value: &Value| value.as_u64().and_then(|edge| usize::try_from(edge).ok());
    let edges: Option<Vec<usize>> = list.iter().map(number).collect();
    let edges = edges.ok_or_else(|| NormsError::new(key, "an edge is not a whole number of 0 or more"))?;
    if edges.first() != Some(&0) || edges.windows(2).any(|pair| pair[0] >= pair[1]) || edges.len() <= tiles {
        let problem = format!("edges must rise from 0 and make at least {tiles} tile(s)");
        return Err(NormsError::new(key, problem));
    }
    Ok(edges)
}

fn rows_of(
    key: &str,
    value: &Value,
    rows: usize,
    width: &dyn Fn(usize) -> usize,
) -> Result<Vec<Vec<f64>>, NormsError> {
    let list = value.as_array().ok_or_else(|| NormsError::new(key, "not a list of rows"))?;
    if list.len() != rows {
        return Err(NormsError::new(
            key,
            format!("has {} rows of tiles, but the edges give {rows}", list.len()),
        ));
    }
    list.iter().enumerate().map(|(i, row)| row_of(&format!("{key}[{i}]"), row, width(i))).collect()
}

fn row_of(key: &str, value: &Value, width: usize) -> Result<Vec<f64>, NormsError> {
    let row = value.as_array().ok_or_else(|| NormsError::new(key, "not a list of norms"))?;
    if row.len() != width {
        return Err(NormsError::new(key, format!("has {} norms, but needs {width}", row.len())));
    }
    let norm = |value: &Value| value.as_f64().filter(|norm| norm.is_finite() && *norm >= 0.0);
    let norms: Option<Vec<f64>> = row.iter().map(norm).collect();
    norms.ok_or_else(|| NormsError::new(key, "a norm is not a number of 0 or more"))
}

/// Norms interpolated to tiles of another size.
#[derive(Debug, Clone)]
pub struct Stretched {
    nt: usize,
    /// Norms of `A`: tile `(i, j)`, `i >= j`, is at `i (i + 1) / 2 + j`. `l` is alike, with zeros
    /// on the diagonal.
    a: Vec<f64>,
    l: Vec<f64>,
    /// Norms of `B`, row by row.
    b: Vec<f64>,
    y: Vec<f64>,
    x: Vec<f64>,
    /// `||A||`, `||B||`, `||Y||`.
    whole: [f64; 3],
}

/// Positions of the tile centres of a grid among the tiles of a file, and the tile widths.
struct TileAxis {
    /// Position in tiles of the file: the centre of its tile `i` is at `i`.
    at: Vec<f64>,
    widths: Vec<f64>,
    file_widths: Vec<f64>,
}

impl TileAxis {
    fn new(file: &[usize], grid: &TileGrid) -> Self {
        let middles = |edges: &[usize]| -> Vec<f64> {
            let len = edges[edges.len() - 1] as f64;
            edges.windows(2).map(|pair| (pair[0] as f64 + pair[1] as f64) / (2.0 * len)).collect()
        };
        let widths = |edges: &[usize]| edges.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let known = middles(file);
        TileAxis {
            at: middles(grid.edges()).into_iter().map(|middle| place(&known, middle)).collect(),
            widths: widths(grid.edges()),
            file_widths: widths(file),
        }
    }

    fn last(&self) -> usize {
        self.file_widths.len() - 1
    }
}

/// Returns the fractional index of `x` among increasing values, between 0 and the last index.
fn place(known: &[f64], x: f64) -> f64 {
    let after = known.partition_point(|&at| at <= x);
    match (after.checked_sub(1), known.get(after)) {
        (Some(i), Some(&next)) => i as f64 + (x - known[i]) / (next - known[i]),
        (Some(i), None) => i as f64,
        (None, _) => 0.0,
    }
}

/// Returns the norm of tile `(i, j)`: an interpolation of the neighbouring tiles of the file that
/// `counts` accepts, each scaled to the tile's area.
fn blend(
    (rows, i): (&TileAxis, usize),
    (cols, j): (&TileAxis, usize),
    (u, v): (f64, f64),
    counts: impl Fn(usize, usize) -> bool,
    norm: impl Fn(usize, usize) -> f64,
) -> f64 {
    let around = |at: f64, last: usize| {
        let first = (at as usize).min(last);
        let share = at - first as f64;
        [(first, 1.0 - share), ((first + 1).min(last), share)]
    };
    let (mut sum, mut weights) = (0.0, 0.0);
    for (p, wp) in around(u, rows.last()) {
        for (q, wq) in around(v, cols.last()) {
            if wp * wq > 0.0 && counts(p, q) {
                let area = rows.widths[i] * cols.widths[j] / (rows.file_widths[p] * cols.file_widths[q]);
                sum += wp * wq * norm(p, q) * area.sqrt();
                weights += wp * wq;
            }
        }
    }
    if weights > 0.0 { sum / weights } else { 0.0 }
}

fn triangle(axis: &TileAxis, file: &[Vec<f64>], diagonal: bool) -> Vec<f64> {
    let nt = axis.at.len();
    let cell = |i: usize, j: usize| {
        if i == j {
            let at = (axis.at[i], axis.at[i]);
            return if diagonal {
                blend((axis, i), (axis, i), at, |p, q| p == q, |p, _| file[p][p])
            } else {
                0.0
            };
        }
        // Tiles off the diagonal are interpolated without diagonal tiles.
        let at = (axis.at[i].max(1.0), axis.at[j].min(axis.last() as f64 - 1.0));
        blend((axis, i), (axis, j), at, |p, q| p > q, |p, q| file[p][q])
    };
    (0..nt).flat_map(|i| (0..=i).map(move |j| (i, j))).map(|(i, j)| cell(i, j)).collect()
}

fn rectangle(rows: &TileAxis, cols: &TileAxis, file: &[Vec<f64>]) -> Vec<f64> {
    let cell = |i: usize, j: usize| {
        blend((rows, i), (cols, j), (rows.at[i], cols.at[j]), |_, _| true, |p, q| file[p][q])
    };
    let (mt, nt) = (rows.at.len(), cols.at.len());
    (0..mt).flat_map(|i| (0..nt).map(move |j| (i, j))).map(|(i, j)| cell(i, j)).collect()
}

fn root(squares: impl Iterator<Item = f64>) -> f64 {
    squares.sum::<f64>().sqrt()
}

fn scaled(norms: Vec<f64>, factor: f64) -> Vec<f64> {
    norms.into_iter().map(|norm| norm * factor).collect()
}

impl Stretched {
    /// Interpolates between tiles at the same relative position. Entries of `A` and `B` keep their
    /// root mean square. Those of `L` and `Y` decrease as `1 / sqrt(n)` and those of `X` as `1 /
    /// n`, so that `L L^T` is still `A`, and `X A` is `B`.
    pub fn new(norms: &TileNorms, rows: &TileGrid, cols: &TileGrid) -> Self {
        let (row_axis, axis) = (TileAxis::new(&norms.row_edges, rows), TileAxis::new(&norms.edges, cols));
        let growth = norms.edges[norms.edges.len() - 1] as f64 / cols.len() as f64;
        let (a, l) = (triangle(&axis, &norms.a, true), triangle(&axis, &norms.l, false));
        let rectangle = |file: &[Vec<f64>]| rectangle(&row_axis, &axis, file);
        let (b, y, x) = (rectangle(&norms.b), rectangle(&norms.y), rectangle(&norms.x));
        let (l, y, x) = (scaled(l, growth.sqrt()), scaled(y, growth.sqrt()), scaled(x, growth));
        let nt = cols.tiles();
        let weights = (0..nt).flat_map(|i| (0..=i).map(move |j| if i == j { 1.0 } else { 2.0 }));
        let whole = [
            root(a.iter().zip(weights).map(|(norm, weight)| weight * norm * norm)),
            root(b.iter().map(|norm| norm * norm)),
            root(y.iter().map(|norm| norm * norm)),
        ];
        Stretched { nt, a, l, b, y, x, whole }
    }

    pub(crate) fn a(&self, i: usize, j: usize) -> f64 {
        self.a[i * (i + 1) / 2 + j]
    }

    pub(crate) fn l(&self, i: usize, j: usize) -> f64 {
        self.l[i * (i + 1) / 2 + j]
    }

    /// Returns the norms of tile `(i, j)` of `B`, `Y` and `X`.
    pub(crate) fn byx(&self, i: usize, j: usize) -> [f64; 3] {
        let at = i * self.nt + j;
        [self.b[at], self.y[at], self.x[at]]
    }

    /// Returns the number of tiles along `A`.
    pub(crate) fn columns(&self) -> usize {
        self.nt
    }

    /// Returns `||A||`, `||B||`, `||Y||`.
    pub(crate) fn whole(&self) -> [f64; 3] {
        self.whole
    }
}

/// A policy that applies a rule at submission, with norms known in advance.
pub(crate) struct Foreseen {
    pub(crate) rule: SharedPolicy,
    pub(crate) norms: Stretched,
}

impl PrecisionPolicy for Foreseen {
    fn choose(&self, query: &GemmQuery) -> Result<GemmPrecision, PolicyError> {
        let &GemmQuery { i, j, k, .. } = query;
        let norms = &self.norms;
        let [norm_l_ik, norm_l_jk, norm_a_ij, norm_a] = match query.phase {
            Phase::Factor => [norms.l(i, k), norms.l(j, k), norms.a(i, j), norms.whole[0]],
            Phase::Solve => {
                // The solve with L^T proceeds to the right and computes Y from B. The one with L
                // proceeds to the left and computes X from Y.
                let half = usize::from(j < k);
                let (own, done) = (norms.byx(i, j)[half], norms.byx(i, k)[half + 1]);
                [done, norms.l(j.max(k), j.min(k)), own, norms.whole[half + 1]]
            }
        };
        self.rule.choose(&GemmQuery { norm_a_ij, norm_l_ik, norm_l_jk, norm_a, ..*query })
    }

    fn when(&self) -> When {
        When::AtSubmission
    }

    fn panel(&self) -> PanelPrecision {
        self.rule.panel()
    }

    fn describe(&self) -> String {
        self.rule.describe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(edges: &[usize], row_edges: &[usize]) -> TileNorms {
        let (nt, mt) = (edges.len() - 1, row_edges.len() - 1);
        let full =
            |from: f64| (0..mt).map(|i| (0..nt).map(|j| from + (i * nt + j) as f64).collect()).collect();
        TileNorms {
            rule: "fp32".into(),
            edges: edges.to_vec(),
            row_edges: row_edges.to_vec(),
            a: (0..nt).map(|i| (0..=i).map(|j| 100.0 / (1 + i - j) as f64 + i as f64).collect()).collect(),
            l: (0..nt).map(|i| (0..i).map(|j| 10.0 / (1 + i - j) as f64 + j as f64).collect()).collect(),
            b: full(1.0),
            y: full(0.5),
            x: full(0.25),
        }
    }

    #[test]
    fn the_same_tiles_have_the_same_norms() {
        let norms = sample(&[0, 30, 31, 80, 120], &[0, 20, 50]);
        let grid = |edges: &[usize]| TileGrid::from_edges(edges).unwrap();
        let same = Stretched::new(&norms, &grid(&norms.row_edges), &grid(&norms.edges));
        for i in 0..4 {
            assert!((0..=i).all(|j| same.a(i, j) == norms.a[i][j]));
            assert!((0..i).all(|j| same.l(i, j) == norms.l[i][j]));
        }
        for (i, j) in (0..2).flat_map(|i| (0..4).map(move |j| (i, j))) {
            assert_eq!(same.byx(i, j), [norms.b[i][j], norms.y[i][j], norms.x[i][j]]);
        }
        let off: f64 = (0..4).flat_map(|i| &norms.a[i][..i]).map(|x| x * x).sum();
        let on: f64 = (0..4).map(|i| norms.a[i][i].powi(2)).sum();
        assert!((same.whole()[0] - (2.0 * off + on).sqrt()).abs() < 1e-12);
    }

    /// A matrix of equal entries has norms proportional to the tile sizes on any grid, and
    /// `||L||^2` remains the trace of `A`.
    #[test]
    fn stretching_keeps_what_scales() {
        let mut norms = sample(&[0, 10, 20, 30], &[0, 10]);
        norms.a.iter_mut().flatten().for_each(|norm| *norm = 10.0);
        norms.l.iter_mut().flatten().for_each(|norm| *norm = 2.0);
        let grid = |n, nb| TileGrid::uniform(n, nb).unwrap();
        let large = Stretched::new(&norms, &grid(120, 60), &grid(300, 20));
        assert!((large.a(7, 3) - 20.0).abs() < 1e-12 && (large.a(7, 7) - 20.0).abs() < 1e-12);
        assert!((large.whole()[0] - 300.0).abs() < 1e-9);
        // Tiles twice as wide, and ten times as many measurements: 2 * 2 / sqrt(10).
        assert!((large.l(14, 0) - 4.0 / 10f64.sqrt()).abs() < 1e-12 && large.l(1, 0) > 0.0);
        assert!(large.l(14, 13) > 0.0 && large.byx(1, 14).iter().all(|&norm| norm > 0.0));
    }

    #[test]
    fn errors_name_the_key() {
        let good = serde_json::to_value(sample(&[0, 5, 9], &[0, 4])).unwrap();
        let parsed = |value: &Value| TileNorms::parse(&value.to_string());
        assert_eq!(parsed(&good).unwrap(), sample(&[0, 5, 9], &[0, 4]));
        for (key, value, named) in [
            ("rule", Value::from(3), "rule"),
            ("edges", Value::from(vec![0, 5, 5]), "edges"),
            ("edges", Value::from(vec![0, 5]), "edges"),
            ("edges", Value::from(vec![1, 5, 9]), "edges"),
            ("row_edges", Value::from(vec![0.5]), "row_edges"),
            ("a", Value::from(vec![1, 2]), "a[0]"),
            ("a", Value::from("no"), "a"),
            ("l", serde_json::json!([[], [-1.0]]), "l[1]"),
            ("l", serde_json::json!([[], [1.0, 2.0]]), "l[1]"),
            ("b", serde_json::json!([[1.0, null]]), "b[0]"),
            ("y", serde_json::json!([]), "y"),
            ("z", Value::Null, "z"),
        ] {
            let mut bad = good.clone();
            bad[key] = value;
            assert_eq!(parsed(&bad).unwrap_err().key, named, "{bad}");
        }
        let mut bad = good;
        bad.as_object_mut().unwrap().remove("x");
        assert_eq!(parsed(&bad).unwrap_err(), NormsError::new("x", "missing"));
        assert!(TileNorms::parse("{").unwrap_err().to_string().contains("line 1"));
        assert!(TileNorms::parse("[]").unwrap_err().to_string().contains("row_edges"));
    }

    proptest! {
        #[test]
        fn files_round_trip(
            widths in prop::collection::vec(1usize..100, 2..7),
            heights in prop::collection::vec(1usize..100, 1..4),
        ) {
            let edges = |widths: &[usize]| -> Vec<usize> {
                let mut sum = 0;
                std::iter::once(0).chain(widths.iter().map(|w| { sum += w; sum })).collect()
            };
            let norms = sample(&edges(&widths), &edges(&heights));
            prop_assert_eq!(TileNorms::parse(&serde_json::to_string(&norms).unwrap()).unwrap(), norms);
        }

        #[test]
        fn no_text_panics(text in "\\PC*") {
            let _ = TileNorms::parse(&text);
        }

        /// A file with one changed byte, or a truncated file, is refused with a key or read. A file
        /// that is read can be interpolated to any grid.
        #[test]
        fn near_misses_are_refused_or_usable(at in 0usize..400, byte in 32u8..127, cut: bool, n in 1usize..60, tile in 1usize..60) {
            let mut text = serde_json::to_string(&sample(&[0, 5, 9, 12], &[0, 4, 7])).unwrap().into_bytes();
            let at = at % text.len();
            if cut { text.truncate(at) } else { text[at] = byte }
            if let Ok(norms) = TileNorms::parse(std::str::from_utf8(&text).unwrap()) {
                let grid = TileGrid::uniform(n, tile).unwrap();
                let large = Stretched::new(&norms, &grid, &grid);
                prop_assert!(large.whole().iter().all(|norm| *norm >= 0.0));
            }
        }
    }
}
