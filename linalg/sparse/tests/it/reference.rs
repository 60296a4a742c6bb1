//! Storage and errors of adaptive matrices against numbers that another program computed: of the
//! project's own matrices (`fixtures/README.md`), and of published ones (external test data,
//! `sparse/reference_small.json`).

use std::path::{Path, PathBuf};

use serde_json::Value;
use zellige_kernels::packed::{PackedFormat, Rounding};
use zellige_sparse::adaptive::{Accuracy, Adaptation, Criterion, ThesisMatrix};
use zellige_sparse::exact::{BackwardError, ExactProduct};
use zellige_sparse::{Csr, files};
use zellige_tests::{data, every};

/// Loads a matrix without the zeros of its file, and its reference results.
fn load(matrix: &Path, reference: &Path, name: &str) -> (Csr, Value) {
    let reference = std::fs::read(reference).unwrap();
    let mut reference: Value = serde_json::from_slice(&reference).unwrap();
    let matrix = files::read_real(matrix).unwrap().without_zeros();
    (matrix, reference[name].take())
}

/// Returns the backward errors of the product with ones.
fn errors(exact: &ExactProduct, stored: &ThesisMatrix, a: &Csr) -> BackwardError {
    let mut y = vec![0.0; a.rows()];
    stored.multiply(&vec![1.0; a.columns()], &mut y).unwrap();
    exact.backward_error(&y).unwrap()
}

fn is_near(found: f64, wanted: &Value) -> bool {
    let wanted = wanted.as_f64().unwrap();
    (found - wanted).abs() <= 0.01 * wanted
}

/// Checks one of the project's own matrices with all sets of formats.
fn check_own(name: &str) {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures"));
    check(name, &folder.join(format!("{name}.mtx.gz")), &folder.join("expected.json"), 36, 1);
}

/// Checks a published matrix with one of five results, so that each set of formats occurs, and each
/// accuracy under each criterion; at full size with all results.
#[track_caller]
fn check_published(name: &str) {
    let files = (data(&format!("sparse/{name}.mtx.gz")), data("sparse/reference_small.json"));
    let (Some(matrix), Some(reference)) = files else { return };
    check(name, &matrix, &reference, 30, every(5));
}

fn check(name: &str, matrix: &Path, reference: &Path, adaptations: usize, step: usize) {
    let (a, reference) = load(matrix, reference, name);
    let get = |key: &str| reference[key].as_u64().unwrap();
    assert_eq!(
        (a.rows() as u64, a.nonzeros() as u64, a.bytes()),
        (get("n"), get("nnz"), get("fp64_csr_bytes"))
    );
    assert!(is_near(a.norm_inf(), &reference["norm_inf"]));
    let exact = ExactProduct::of(&a, &vec![1.0; a.columns()]).unwrap();
    let short_rows = get("max_row_nnz") < 110;
    let results = reference["results"].as_array().unwrap();
    assert_eq!(results.len(), adaptations);
    for wanted in results.iter().step_by(step) {
        let log2 = wanted["eps_log2"].as_i64().unwrap();
        let eps = Accuracy::new(2f64.powi(log2 as i32)).unwrap();
        let is_normwise = wanted["crit"] == "NW";
        let criterion = if is_normwise { Criterion::Normwise } else { Criterion::Componentwise };
        let adaptation = Adaptation::new(wanted["set"].as_str().unwrap().parse().unwrap(), criterion, eps);
        let here = format!("{name} {} 2^{log2} {}", adaptation.set, criterion.name());
        let stored = ThesisMatrix::new(&a, &adaptation).unwrap();
        check_storage(&here, &stored, wanted);

        let near = errors(&exact, &stored, &a);
        let chopped = ThesisMatrix::new(&a, &Adaptation { rounding: Rounding::Chop, ..adaptation }).unwrap();
        assert_eq!((chopped.bytes(), chopped.counts()), (stored.bytes(), stored.counts()), "{here}");
        let chopped = errors(&exact, &chopped, &a);
        if short_rows {
            let of = |error: BackwardError| if is_normwise { error.normwise } else { error.componentwise };
            assert!(of(near) <= 12.0 * eps.get(), "{here}: {near:?}");
            assert!(of(chopped) <= 16.0 * eps.get(), "{here}: {chopped:?}");
        }
        if log2 > -53 {
            let chop = &wanted["chop"];
            assert!(is_near(chopped.normwise, &chop["nw_ones"]), "{here}: {chopped:?} {chop}");
            assert!(is_near(chopped.componentwise, &chop["cw_ones"]), "{here}: {chopped:?} {chop}");
        }
    }
}

fn check_storage(here: &str, stored: &ThesisMatrix, wanted: &Value) {
    for (format, elements, positive) in stored.counts() {
        let key = format.name().to_uppercase();
        let found = (Some(elements), Some(positive));
        assert_eq!(
            found,
            (wanted["counts"][&key].as_u64(), wanted["positive"][&key].as_u64()),
            "{here} {key}"
        );
    }
    assert_eq!(Some(stored.dropped()), wanted["counts"]["drop"].as_u64(), "{here}");
    assert_eq!(Some(stored.bytes()), wanted["bytes"].as_u64(), "{here}");
    assert_eq!(Some(stored.bytes_with_all_row_starts()), wanted["bytes_all_rowptr"].as_u64(), "{here}");
    let widest = stored.counts()[0].0;
    assert_eq!(widest, PackedFormat::Fp64);
}

#[test]
fn flow() {
    check_own("flow");
}

#[test]
fn elastic() {
    check_own("elastic");
}

#[test]
fn circuit() {
    check_own("circuit");
}

#[test]
fn memplus() {
    check_published("memplus");
}

#[test]
fn bcsstk16() {
    check_published("bcsstk16");
}

#[test]
fn norne_flow() {
    check_published("norne_flow");
}

#[test]
fn elas3d_small() {
    check_published("elas3d_small");
}

#[test]
fn biot_small() {
    check_published("biot_small");
}
