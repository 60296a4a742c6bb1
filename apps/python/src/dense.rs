//! Dense symmetric positive definite systems.

use std::sync::Arc;

use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2};
use pyo3::prelude::*;
use zellige_dense::{
    self as dense, GemmPrecision, Generator, NotPositiveDefinite, RectTiled, RefineUntil, Rule, SharedPolicy,
    SymmetricTiled, TileGrid, TileScalar,
};
use zellige_runtime::Runtime;

use crate::{error, on_runtime};

/// Rows of a tile where nobody says how many, as in `zellige_dense::Cholesky`, whose tiles nobody can choose.
const TILE: usize = 256;

/// Refinement halves the residual in each step: more are not needed for any number of digits.
const MOST_STEPS: usize = 60;

/// A matrix and its factor.
#[pyclass(frozen)]
pub struct Cholesky {
    n: usize,
    #[pyo3(get)]
    tile: usize,
    /// Column by column.
    a: Arc<[f64]>,
    l: SymmetricTiled<f32>,
    policy: SharedPolicy,
    shares: Vec<(GemmPrecision, f64)>,
}

/// The columns of an array, one after the other.
fn columns(array: &PyReadonlyArray2<'_, f64>) -> Arc<[f64]> {
    let array = array.as_array();
    array.columns().into_iter().flat_map(|column| column.to_vec()).collect()
}

/// Blocks of what `element` says of a row and a column.
fn blocks<T: TileScalar>(element: impl Fn(usize, usize) -> T + Send + Sync + 'static) -> Generator<T> {
    dense::generator(move |rows, columns, out: &mut [T], ld: usize| {
        for (c, j) in columns.enumerate() {
            for (r, i) in rows.clone().enumerate() {
                out[r + c * ld] = element(i, j);
            }
        }
    })
}

/// A symmetric matrix by its lower triangle.
fn symmetric<T: TileScalar>(a: &Arc<[f64]>, n: usize, convert: fn(f64) -> T) -> Generator<T> {
    let a = Arc::clone(a);
    blocks(move |i, j| convert(a[i.max(j) + i.min(j) * n]))
}

/// Right-hand sides as rows.
fn rows<T: TileScalar>(b: &Arc<[f64]>, n: usize, convert: fn(f64) -> T) -> Generator<T> {
    let b = Arc::clone(b);
    blocks(move |i, j| convert(b[j + i * n]))
}

/// Where positive definiteness was lost, with advice that can be followed: no product comes before the first tile, and there is no rule with more precision
/// than `fp32`.
fn lost(lost: &NotPositiveDefinite, rule: &Rule) -> String {
    if lost.tile > 0 && *rule != Rule::uniform(GemmPrecision::Sp) {
        return lost.to_string();
    }
    let pivot = match lost.value {
        value if value.is_nan() => "no positive pivot".to_owned(),
        value => format!("pivot {value:e}"),
    };
    format!(
        "not positive definite in float32: row {} of the matrix (from 0) has {pivot}, and no rule has more precision there; add to its diagonal, or take \
         zellige.solve where it is indefinite",
        lost.row
    )
}

#[pymethods]
impl Cholesky {
    #[new]
    #[pyo3(signature = (a, rule, tile))]
    fn new(py: Python<'_>, a: PyReadonlyArray2<'_, f64>, rule: &str, tile: Option<usize>) -> PyResult<Self> {
        let (n, width) = a.as_array().dim();
        if n != width {
            return Err(error(format!("a matrix of {n} x {width} is not square")));
        }
        let rule: Rule = rule.parse().map_err(error)?;
        if matches!(rule.parts(), Some((GemmPrecision::Dp, ..))) {
            return Err(error(format!(
                "precision rule {rule}: factors are in float32 here; take fp32, and refine(b) for answers in float64"
            )));
        }
        let (a, tile) = (columns(&a), tile.unwrap_or(TILE));
        let factor = |rt: &Runtime| {
            let policy: SharedPolicy = rule.clone().into();
            let fill = symmetric::<f32>(&a, n, |x| x as f32);
            let l = SymmetricTiled::generate(rt, TileGrid::uniform(n, tile)?, &fill)?;
            let factor = dense::cholesky(rt, &l, &policy)?;
            factor.wait(rt)?;
            let shares = factor.counts().shares();
            Ok(Cholesky { n, tile, a: Arc::clone(&a), l, policy, shares })
        };
        let said = |error: dense::Error| match error.not_positive_definite() {
            Some(at) => lost(at, &rule),
            None => error.to_string(),
        };
        on_runtime(py, || (), |rt| factor(rt).map_err(said))
    }

    /// The share of tile products in each precision.
    #[getter]
    fn shares(&self) -> Vec<(&'static str, f64)> {
        self.shares.iter().map(|(precision, share)| (precision.name(), *share)).collect()
    }

    /// As accurate as the factor.
    fn solve<'py>(
        &self,
        py: Python<'py>,
        b: PyReadonlyArray2<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let (count, b) = (b.as_array().dim().1, columns(&b));
        let x = on_runtime(py, || (), |rt| self.solved(rt, count, &b)?.gather(rt))?;
        self.array(py, count, x.into_iter().map(f64::from).collect())
    }

    /// Refined in float64: `x`, its relative residual, and the steps.
    fn refine<'py>(
        &self,
        py: Python<'py>,
        b: PyReadonlyArray2<'py, f64>,
        tolerance: f64,
    ) -> PyResult<(Bound<'py, PyArray2<f64>>, f64, usize)> {
        let (count, b) = (b.as_array().dim().1, columns(&b));
        let refined = |rt: &Runtime| {
            let x = dense::widened(rt, &self.solved(rt, count, &b)?)?;
            let (a, b) = (symmetric::<f64>(&self.a, self.n, |x| x), rows::<f64>(&b, self.n, |x| x));
            let until = RefineUntil { steps: MOST_STEPS, tolerance };
            let found = dense::refine(rt, (&self.l, &self.policy), (&a, &b), &x, until)?;
            Ok::<_, dense::Error>((x.gather(rt)?, found))
        };
        let (x, found) = on_runtime(py, || (), refined)?;
        Ok((self.array(py, count, x)?, found.residual, found.before.len()))
    }
}

impl Cholesky {
    /// `X A = B`, with the right-hand sides as rows.
    fn solved(&self, rt: &Runtime, count: usize, b: &Arc<[f64]>) -> Result<RectTiled<f32>, dense::Error> {
        let (b, grid) = (rows::<f32>(b, self.n, |x| x as f32), TileGrid::uniform(count, TILE)?);
        let x = RectTiled::generate(rt, "B", grid, self.l.grid().clone(), &b)?;
        dense::solve(rt, &self.l, &x, &self.policy)?.wait(rt)?;
        Ok(x)
    }

    /// Solutions, which are the rows of `x`, column by column, as columns.
    fn array<'py>(&self, py: Python<'py>, count: usize, x: Vec<f64>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        PyArray1::from_vec(py, x).reshape([self.n, count])
    }
}
