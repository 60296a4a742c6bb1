//! Least squares, against numbers of SciPy (`tests/fixtures/generate.py`).

use num_complex::Complex;
use serde_json::Value;
use zellige_krylov::{
    History, LeastSquares, LeastSquaresSolution, Reason, Scalar, Space, from_fn_between, least_squares,
};
use zellige_runtime::Runtime;

/// Returns an entry of a band matrix of `rows x columns`, with a formula that any program can
/// compute: those of `generate.py`.
fn entry(i: usize, j: usize, columns: usize) -> f64 {
    let centre = i * columns / (2 * columns);
    let near = j.abs_diff(centre) <= 2;
    if near { ((7 * i + 3 * j) % 11) as f64 / 11.0 - 0.4 + if j == centre { 2.0 } else { 0.0 } } else { 0.0 }
}

fn fixture() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/lsmr.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(number).collect()
}

/// Solves with the matrix times `factor`, for one or several right-hand sides.
fn solved<E: Scalar>(
    rows: usize,
    columns: usize,
    factor: E,
    damping: f64,
    b: &[&[E]],
) -> (Vec<Vec<E>>, Vec<LeastSquaresSolution>, Vec<History>) {
    let rt = Runtime::builder().workers(2).build().unwrap();
    // Several parts, so that sums are of several.
    let (range, domain) = (Space::new(rows, 1 << 30), Space::new(columns, 1 << 30));
    let a = from_fn_between(&domain, &range, move |x: &[E], y: &mut [E]| {
        for i in 0..rows {
            let terms = (0..columns).map(|j| factor * E::from_real(entry(i, j, columns)) * x[j]);
            y[i] = terms.fold(E::default(), |sum, term| sum + term);
        }
    });
    let a = a.with_adjoint(move |y: &[E], x: &mut [E]| {
        for j in 0..columns {
            let terms = (0..rows).map(|i| factor.conj() * E::from_real(entry(i, j, columns)) * y[i]);
            x[j] = terms.fold(E::default(), |sum, term| sum + term);
        }
    });
    let problem = LeastSquares { rt: &rt, a: &a, damping, tolerance: 1e-12, steps: 500, time: None };
    let mut histories = vec![History::default(); b.len()];
    let mut logs: Vec<&mut dyn zellige_krylov::Logger> = Vec::new();
    for history in &mut histories {
        logs.push(history);
    }
    let (x, found) = least_squares(&problem, b, &mut logs).unwrap();
    (x, found, histories)
}

fn close(what: &str, found: f64, wanted: f64, relative: f64) {
    assert!(
        (found - wanted).abs() <= relative * wanted.abs().max(1e-12),
        "{what}: {found:e}, not {wanted:e}"
    );
}

#[test]
fn answers_are_those_of_scipy() {
    for case in fixture()["cases"].as_array().unwrap() {
        let (rows, columns) =
            (case["rows"].as_u64().unwrap() as usize, case["columns"].as_u64().unwrap() as usize);
        let (b, wanted) = (numbers(&case["b"]), numbers(&case["x"]));
        let (x, found, histories) = solved(rows, columns, 1.0, number(&case["damp"]), &[&b]);
        assert_eq!(found[0].reason, Reason::Converged, "{case}");
        let scale = wanted.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        for (x, wanted) in x[0].iter().zip(&wanted) {
            assert!((x - wanted).abs() <= 1e-9 * scale, "{x} {wanted}");
        }
        close("residual", found[0].residual, number(&case["residual"]), 1e-9);
        close("answer", found[0].answer, number(&case["norm_x"]), 1e-9);
        assert!(found[0].gradient <= 1e-10 * found[0].norm * found[0].rhs, "{:?}", found[0]);
        // The number of steps equals that of SciPy's own run with the same tolerances, up to two.
        let steps = case["iterations"].as_u64().unwrap();
        assert!((found[0].steps as u64).abs_diff(steps) <= 2, "{} steps, {steps} in SciPy", found[0].steps);
        assert_eq!(histories[0].steps.len(), found[0].steps);
    }
}

#[test]
fn columns_and_phases_change_nothing() {
    let case = &fixture()["cases"][0];
    let (rows, columns) =
        (case["rows"].as_u64().unwrap() as usize, case["columns"].as_u64().unwrap() as usize);
    let b = numbers(&case["b"]);
    let twice: Vec<f64> = b.iter().rev().map(|x| 2.0 * x).collect();
    let (alone, ..) = solved(rows, columns, 1.0, 0.0, &[&b]);
    let (both, found, _) = solved(rows, columns, 1.0, 0.0, &[&b, &twice]);
    assert_eq!(alone[0], both[0], "a column has the bits that it has alone");
    assert!(found[1].reason.is_converged() && both[1] != both[0]);
    // i A x = i b has the same answer.
    let i = Complex::new(0.0, 1.0);
    let complex: Vec<Complex<f64>> = b.iter().map(|&x| i * x).collect();
    let (x, found, _) = solved(rows, columns, i, 0.0, &[&complex]);
    assert!(found[0].reason.is_converged());
    let scale = alone[0].iter().fold(0.0, |most: f64, x| most.max(x.abs()));
    assert!(
        x[0].iter().zip(&alone[0]).all(|(z, x)| (z.re - x).abs() < 1e-9 * scale && z.im.abs() < 1e-9 * scale)
    );
}

#[test]
fn nothing_to_find_and_nothing_to_begin_with() {
    let (x, found, _) = solved(6, 3, 1.0, 0.0, &[&[0.0; 6]]);
    assert_eq!((x[0].as_slice(), found[0].reason, found[0].steps), (&[0.0; 3][..], Reason::Converged, 1));
    let rt = Runtime::builder().workers(1).build().unwrap();
    let space = Space::new(3, 0);
    let a = from_fn_between(&space, &space, |x: &[f64], y: &mut [f64]| y.copy_from_slice(x));
    let problem = LeastSquares { rt: &rt, a: &a, damping: 0.0, tolerance: 1e-8, steps: 9, time: None };
    let refused = |problem: &LeastSquares<'_>, b: &[f64]| {
        least_squares(problem, &[b], &mut [&mut ()]).unwrap_err().to_string()
    };
    assert!(refused(&problem, &[1.0; 3]).contains("adjoint"));
    assert!(refused(&problem, &[1.0; 4]).contains("4 elements for 3 rows"));
    assert!(refused(&problem, &[f64::NAN; 3]).contains("finite"));
    assert!(refused(&LeastSquares { damping: -1.0, ..problem }, &[1.0; 3]).contains("damping"));
}
