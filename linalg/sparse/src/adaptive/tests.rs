use proptest::prelude::*;
use zellige_kernels::packed::PackedFormat;

use super::thresholds::Thresholds;
use super::*;
use crate::exact::ExactProduct;
use crate::generate::{Elasticity, Elements, Flow, elasticity, flow};

const ROUNDINGS: [Rounding; 2] = [Rounding::Nearest, Rounding::Chop];

fn accuracy(log2: i32) -> Accuracy {
    Accuracy::new(libm::ldexp(1.0, log2)).unwrap()
}

fn product(a: &Csr, adaptation: &Adaptation<'_>, x: &[f64]) -> Vec<f64> {
    let mut y = vec![f64::NAN; a.rows()];
    ThesisMatrix::new(a, adaptation).unwrap().multiply(x, &mut y).unwrap();
    y
}

/// Checks that no row is further from the exact product than its bound.
fn check_bound(a: &Csr, adaptation: &Adaptation<'_>, x: &[f64]) -> Result<(), TestCaseError> {
    let bound = error_bound(a, adaptation, x).unwrap();
    let errors = ExactProduct::of(a, x).unwrap().errors(&product(a, adaptation, x)).unwrap();
    for (i, error) in errors.into_iter().enumerate() {
        prop_assert!(error <= bound[i], "row {i}: {error:e} > {:e}, {adaptation:?}", bound[i]);
    }
    Ok(())
}

#[test]
fn limits_are_those_of_the_thesis() {
    let adapt = |set| Thresholds::new(&Adaptation::new(set, Criterion::Normwise, accuracy(-37)));
    let place = |set: FormatSet, log2: i32| {
        adapt(set).bucket(libm::ldexp(1.0, log2), 1.0).map(|k| set.formats()[k].name())
    };
    // (eps theta / u_{k+1}, eps theta / u_k]: a magnitude at a limit belongs below it.
    let ap7 = [
        (16, "fp64"),
        (8, "rp56"),
        (0, "rp48"),
        (-1, "rp48"),
        (-8, "rp40"),
        (-13, "fp32"),
        (-21, "rp24"),
        (-29, "rp16"),
    ];
    for (log2, name) in ap7 {
        assert_eq!(place(FormatSet::Ap7, log2), Some(name), "2^{log2}");
    }
    assert_eq!(place(FormatSet::Ap7, -37), None);
    // [eps theta / u_{k+1}, eps theta / u_k): above it.
    let re = [
        (8, "fp64"),
        (7, "rpre48"),
        (0, "rpre48"),
        (-1, "rpre40"),
        (-9, "rpre32"),
        (-13, "rpre32"),
        (-14, "fp32"),
        (-25, "rpre16"),
        (-37, "rpre8"),
    ];
    for (log2, name) in re {
        assert_eq!(place(FormatSet::Ap7Re, log2), Some(name), "2^{log2}");
    }
    assert_eq!(place(FormatSet::Ap7Re, -38), None);
    let dropless =
        Adaptation { drops: false, ..Adaptation::new(FormatSet::Ap4, Criterion::Normwise, accuracy(-37)) };
    assert_eq!(Thresholds::new(&dropless).bucket(1e-300, 1.0), Some(3));
    assert_eq!(Thresholds::new(&dropless).bucket(0.0, 1.0), None);
}

#[test]
fn accuracies_are_read_and_refused() {
    assert_eq!("2^-24".parse::<Accuracy>().unwrap().get(), 2f64.powi(-24));
    assert_eq!("1e-8".parse::<Accuracy>().unwrap().get(), 1e-8);
    assert_eq!(["2^-53", "3e-9"].map(|s| s.parse::<Accuracy>().unwrap().to_string()), ["2^-53", "3e-9"]);
    for wrong in ["2^-54", "1", "2^0", "0", "nan", "2^", "2^-2.5", "x", "", "-1e-8", "2^-99999999999"] {
        assert!(wrong.parse::<Accuracy>().is_err(), "{wrong}");
    }
}

#[test]
fn what_has_no_meaning_together_is_refused() {
    let a = Csr::from_triplets(2, 2, &[(0, 0, 1.0), (1, 1, 2.0)]).unwrap();
    let exact = Criterion::ComponentwiseFor(&[1.0, 2.0]);
    let new = |adaptation: &Adaptation<'_>| ThesisMatrix::new(&a, adaptation);
    assert!(new(&Adaptation::new(FormatSet::Ap7Re, exact, accuracy(-24))).is_err());
    assert!(
        new(&Adaptation::new(FormatSet::Ap7, Criterion::ComponentwiseFor(&[1.0]), accuracy(-24))).is_err()
    );
    let dropless =
        Adaptation { drops: false, ..Adaptation::new(FormatSet::Ap7Reu, Criterion::Normwise, accuracy(-24)) };
    assert!(new(&dropless).is_err());
    let b = new(&Adaptation::new(FormatSet::Ap7, exact, accuracy(-24))).unwrap();
    assert!(b.multiply(&[1.0], &mut [0.0; 2]).is_err());
}

#[test]
fn bytes_are_counted_as_the_thesis_does() {
    // Accuracy 2^-24 and a norm of 1: one nonzero in fp32, one in rp16, one dropped.
    let a = Csr::from_triplets(2, 3, &[(0, 0, -0.9), (0, 1, 1e-6), (1, 2, 1e-9)]).unwrap();
    let b =
        ThesisMatrix::new(&a, &Adaptation::new(FormatSet::Ap4, Criterion::Normwise, accuracy(-24))).unwrap();
    let counts: Vec<_> = b.counts().into_iter().filter(|count| count.1 > 0).collect();
    assert_eq!(counts, [(PackedFormat::Fp32, 1, 0), (PackedFormat::Rp16, 1, 1)]);
    assert_eq!(b.dropped(), 1);
    assert_eq!(b.bytes(), (12 + 4 + 4) + (12 + 4 + 2));
    assert_eq!(b.bytes_with_all_row_starts(), b.bytes() + 2 * 12);
}

/// A row of 1e-295 has all the digits that its neighbours have, under the componentwise criterion.
#[test]
fn tiny_rows_keep_their_digits() {
    const TINY: f64 = f64::from_bits(43 << 52); // 2^-980
    let value = |k: u32| f64::from(k + 1) / 7.0 * 2f64.powi(-(k as i32) * 9);
    let triplets: Vec<_> = (0..5)
        .flat_map(|k| [(0, k, value(k)), (1, k, value(k) * TINY), (2, k, value(k) * 2f64.powi(990))])
        .collect();
    let a = Csr::from_triplets(4, 5, &triplets).unwrap();
    let x = [1.0, -2.0, 3.0, 4.0, -5.0];
    for set in FormatSet::ALL {
        for log2 in [-53, -37, -24] {
            for rounding in ROUNDINGS {
                let adaptation =
                    Adaptation { rounding, ..Adaptation::new(set, Criterion::Componentwise, accuracy(log2)) };
                let y = product(&a, &adaptation, &x);
                let scaled = y[0] * TINY;
                assert_eq!((y[1], y[3]), (scaled, 0.0), "{set} 2^{log2}");
            }
        }
    }
}

#[test]
fn every_set_keeps_its_bound_on_real_structures() {
    let elements = Elements([6, 5, 4]);
    let matrices = [
        flow(&Flow { cells: [14, 12, 9], ..Flow::default() }).unwrap(),
        elasticity(&Elasticity { elements, ..Elasticity::default() }).unwrap(),
    ];
    for a in &matrices {
        let ones = vec![1.0; a.columns()];
        let exact = ExactProduct::of(a, &ones).unwrap();
        let waves: Vec<f64> = (0..a.columns()).map(|j| (j as f64 * 0.37).sin()).collect();
        for (set, rounding) in
            FormatSet::ALL.into_iter().flat_map(|set| ROUNDINGS.map(|rounding| (set, rounding)))
        {
            for log2 in [-53, -37, -24, -12] {
                for x in [&ones, &waves] {
                    for criterion in
                        [Criterion::Normwise, Criterion::Componentwise, Criterion::ComponentwiseFor(x)]
                    {
                        let adaptation =
                            Adaptation { rounding, ..Adaptation::new(set, criterion, accuracy(log2)) };
                        if adaptation.check(a).is_ok() {
                            check_bound(a, &adaptation, x).unwrap();
                        }
                    }
                }
                // Accuracy that the criteria promise: x = ones, rows of at most 81 nonzeros.
                let eps = accuracy(log2).get();
                let of = |criterion| {
                    let adaptation =
                        Adaptation { rounding, ..Adaptation::new(set, criterion, accuracy(log2)) };
                    exact.backward_error(&product(a, &adaptation, &ones)).unwrap()
                };
                let (nw, cw) = (of(Criterion::Normwise).normwise, of(Criterion::Componentwise).componentwise);
                let limit = if rounding == Rounding::Nearest { 12.0 } else { 16.0 } * eps;
                assert!(nw <= limit && cw <= limit, "{set} 2^{log2} {rounding:?}: {nw:e} {cw:e}");
            }
        }
    }
}

#[test]
fn matrices_without_elements_are_zero() {
    for (rows, columns) in [(0, 0), (3, 0), (0, 3), (2, 2)] {
        let a = Csr::from_triplets(rows, columns, &[]).unwrap();
        for set in FormatSet::ALL {
            for criterion in [Criterion::Normwise, Criterion::Componentwise] {
                let adaptation = Adaptation::new(set, criterion, Accuracy::DOUBLE);
                assert_eq!(product(&a, &adaptation, &vec![1.0; columns]), vec![0.0; rows]);
            }
        }
    }
}

proptest! {
    /// Nonzeros of any magnitude without overflow in their products.
    #[test]
    fn errors_stay_below_their_bounds(
        triplets in prop::collection::vec(
            (0..6u32, 0..9u32, (-1.0..1.0f64, -400..300i32).prop_map(|(m, e)| libm::ldexp(m, e))), 1..50,
        ),
        x in prop::collection::vec(-1.0..1.0f64, 9),
        at in 0..FormatSet::ALL.len(),
        log2 in -53..0i32,
        chop: bool,
    ) {
        let a = Csr::from_triplets(6, 9, &triplets).unwrap();
        let rounding = ROUNDINGS[usize::from(chop)];
        for criterion in [Criterion::Normwise, Criterion::Componentwise, Criterion::ComponentwiseFor(&x)] {
            let adaptation = Adaptation { rounding, ..Adaptation::new(FormatSet::ALL[at], criterion, accuracy(log2)) };
            if adaptation.check(&a).is_ok() {
                check_bound(&a, &adaptation, &x)?;
            }
        }
    }
}
