use proptest::prelude::*;
use zellige_kernels::packed::Rounding;

use super::*;
use crate::adaptive::{Accuracy, Criterion, ThesisMatrix, error_bound};
use crate::exact::ExactProduct;
use crate::generate::{Elasticity, Elements, Flow, elasticity, flow};

const SETS: [FormatSet; 7] = [
    FormatSet::Fp64,
    FormatSet::Ap2,
    FormatSet::Ap3,
    FormatSet::Ap4,
    FormatSet::Ap7,
    FormatSet::Ap7Re,
    FormatSet::Ap7Reu,
];
const ROUNDINGS: [Rounding; 2] = [Rounding::Nearest, Rounding::Chop];

fn accuracy(log2: i32) -> Accuracy {
    Accuracy::new(libm::ldexp(1.0, log2)).unwrap()
}

/// Returns true if this block size and this adaptation are compatible.
fn go_together(a: &Csr, block_size: usize, adaptation: &Adaptation<'_>) -> bool {
    adaptation.check(a).is_ok() && (block_size == 1 || !adaptation.set.has_scales())
}

fn check_bound(
    a: &Csr,
    block_size: usize,
    adaptation: &Adaptation<'_>,
    x: &[f64],
) -> Result<(), TestCaseError> {
    let matrix = TiledMatrix::new(a, block_size, adaptation).unwrap();
    let mut y = vec![f64::NAN; a.rows()];
    matrix.multiply(x, &mut y).unwrap();
    let bound = error_bound(a, adaptation, x).unwrap();
    let errors = ExactProduct::of(a, x).unwrap().errors(&y).unwrap();
    for (i, error) in errors.into_iter().enumerate() {
        prop_assert!(
            error <= bound[i],
            "row {i}: {error:e} > {:e}, block size {block_size}, {adaptation:?}",
            bound[i]
        );
    }
    let stored: u64 = matrix.counts().iter().map(|count| count.1).sum();
    prop_assert_eq!(stored + matrix.dropped(), a.nonzeros() as u64);
    Ok(())
}

#[test]
fn every_set_keeps_its_bound_on_real_structures() {
    let elements = Elements([6, 5, 4]);
    let matrices = [
        flow(&Flow { cells: [14, 12, 9], ..Flow::default() }).unwrap(),
        elasticity(&Elasticity { elements, ..Elasticity::default() }).unwrap(),
    ];
    for a in &matrices {
        let x: Vec<f64> = (0..a.columns()).map(|j| (j as f64 * 0.37).sin()).collect();
        for criterion in [Criterion::Normwise, Criterion::Componentwise, Criterion::ComponentwiseFor(&x)] {
            for (set, rounding) in SETS.into_iter().flat_map(|set| ROUNDINGS.map(|rounding| (set, rounding)))
            {
                for (block_size, log2) in
                    [1, 2, 3].into_iter().flat_map(|block_size| [-53, -37, -24].map(|e| (block_size, e)))
                {
                    let adaptation =
                        Adaptation { rounding, ..Adaptation::new(set, criterion, accuracy(log2)) };
                    if go_together(a, block_size, &adaptation) && a.rows().is_multiple_of(block_size) {
                        check_bound(a, block_size, &adaptation, &x).unwrap();
                    }
                }
            }
        }
    }
}

/// Single nonzeros have the buckets of the thesis' layout, except for scales that are rounded down.
#[test]
fn single_elements_have_the_buckets_of_the_thesis() {
    let a = flow(&Flow { cells: [14, 12, 9], ..Flow::default() }).unwrap();
    for set in FormatSet::ALL.into_iter().filter(|set| !set.has_scales()) {
        for criterion in [Criterion::Normwise, Criterion::Componentwise] {
            let adaptation = Adaptation::new(set, criterion, accuracy(-24));
            let (tiled, thesis) =
                (TiledMatrix::new(&a, 1, &adaptation).unwrap(), ThesisMatrix::new(&a, &adaptation).unwrap());
            assert_eq!((tiled.counts(), tiled.dropped()), (thesis.counts(), thesis.dropped()));
            assert!(tiled.bytes() < thesis.bytes());
        }
    }
}

/// Bits do not depend on the panels and on the number of vectors.
#[test]
fn panels_and_vectors_do_not_change_bits() {
    let a = flow(&Flow { cells: [50, 40, 30], ..Flow::default() }).unwrap();
    let matrix =
        TiledMatrix::new(&a, 2, &Adaptation::new(FormatSet::Ap4, Criterion::Componentwise, accuracy(-53)));
    let matrix = matrix.unwrap();
    assert!(matrix.panels().len() > 2);
    let x: Vec<f64> = (0..a.columns()).map(|j| (j as f64 * 0.37).sin()).collect();
    let mut y = vec![f64::NAN; a.rows()];
    matrix.multiply(&x, &mut y).unwrap();
    let panel = &matrix.panels()[1];
    let mut part = vec![f64::NAN; panel.rows().len()];
    panel.multiply(&x, &mut part).unwrap();
    assert_eq!(part, y[panel.rows()]);
    let pairs: Vec<f64> = x.iter().flat_map(|&x| [x, -x]).collect();
    let mut both = vec![f64::NAN; 2 * a.rows()];
    matrix.multiply_many(2, &pairs, &mut both).unwrap();
    assert!(both.as_chunks::<2>().0.iter().zip(&y).all(|(both, &y)| *both == [y, -y]));
    // The rows of the top as a separate matrix, cut at another row.
    let rows = panel.rows().start;
    let top: Vec<_> = (0..rows as u32)
        .flat_map(|i| {
            let (column, value) = a.row(i as usize);
            column.iter().zip(value).map(move |(&j, &value)| (i, j, value)).collect::<Vec<_>>()
        })
        .collect();
    let top = Csr::from_triplets(rows, a.columns(), &top).unwrap();
    let top = TiledMatrix::new(&top, 2, &Adaptation::double()).unwrap();
    let whole = TiledMatrix::new(&a, 2, &Adaptation::double()).unwrap();
    let mut few = vec![f64::NAN; rows];
    top.multiply(&x, &mut few).unwrap();
    whole.multiply(&x, &mut y).unwrap();
    assert_eq!(few, y[..rows]);
}

#[test]
fn what_has_no_meaning_together_is_refused() {
    let a = Csr::from_triplets(6, 6, &[(0, 0, 1.0), (1, 1, 2.0)]).unwrap();
    let new = |block_size, set| {
        TiledMatrix::new(&a, block_size, &Adaptation::new(set, Criterion::Normwise, accuracy(-24)))
    };
    for (block_size, set, word) in [
        (2, FormatSet::Ap7Re, "take ap2"),
        (4, FormatSet::Ap7, "block size 1"),
        (0, FormatSet::Ap7, "1, 2, 3 or 4"),
        (5, FormatSet::Ap7, "1"),
    ] {
        assert!(new(block_size, set).unwrap_err().to_string().contains(word));
    }
    let matrix = new(3, FormatSet::Ap7).unwrap();
    assert!(matrix.multiply(&[1.0; 5], &mut [0.0; 6]).is_err());
    assert!(matrix.multiply_many(9, &[1.0; 54], &mut [0.0; 54]).is_err());
    assert_eq!(matrix.counts().iter().map(|count| count.1).sum::<u64>(), 2);
}

#[test]
fn matrices_without_elements_are_zero() {
    for (rows, columns) in [(0, 0), (12, 0), (0, 12), (12, 12)] {
        let a = Csr::from_triplets(rows, columns, &[]).unwrap();
        for (set, block_size) in
            SETS.into_iter().flat_map(|set| [1, 2, 3, 4].map(|block_size| (set, block_size)))
        {
            let adaptation = Adaptation::new(set, Criterion::Componentwise, Accuracy::DOUBLE);
            if go_together(&a, block_size, &adaptation) {
                let mut y = vec![f64::NAN; rows];
                TiledMatrix::new(&a, block_size, &adaptation)
                    .unwrap()
                    .multiply(&vec![1.0; columns], &mut y)
                    .unwrap();
                assert_eq!(y, vec![0.0; rows]);
            }
        }
    }
}

/// A distant column: a window that 16 bits do not reach.
#[test]
fn wide_windows_are_read() {
    let columns = 200_000;
    let triplets: Vec<_> =
        (0..300).flat_map(|i| [(i, i, 1.0), (i, columns - 1 - i, 2.0), (i, 77_777, 3.0)]).collect();
    let a = Csr::from_triplets(300, columns as usize, &triplets).unwrap();
    let x: Vec<f64> = (0..columns).map(f64::from).collect();
    let (mut y, mut exact) = (vec![f64::NAN; 300], vec![0.0; 300]);
    a.multiply(&x, &mut exact).unwrap();
    for block_size in [1, 2] {
        TiledMatrix::new(&a, block_size, &Adaptation::double()).unwrap().multiply(&x, &mut y).unwrap();
        assert_eq!(y, exact);
    }
}

proptest! {
    /// Nonzeros of any magnitude without overflow in their products.
    #[test]
    fn errors_stay_below_their_bounds(
        triplets in prop::collection::vec(
            (0..12u32, 0..24u32, (-1.0..1.0f64, -400..300i32).prop_map(|(m, e)| libm::ldexp(m, e))), 1..120,
        ),
        x in prop::collection::vec(-1.0..1.0f64, 24),
        at in 0..SETS.len(),
        log2 in -53.0..0.0f64,
        chop: bool,
    ) {
        let a = Csr::from_triplets(12, 24, &triplets).unwrap();
        let (rounding, eps) = (ROUNDINGS[usize::from(chop)], Accuracy::new(log2.exp2()).unwrap());
        for criterion in [Criterion::Normwise, Criterion::Componentwise, Criterion::ComponentwiseFor(&x)] {
            for block_size in 1..=4 {
                let adaptation = Adaptation { rounding, ..Adaptation::new(SETS[at], criterion, eps) };
                if go_together(&a, block_size, &adaptation) {
                    check_bound(&a, block_size, &adaptation, &x)?;
                }
            }
        }
    }
}

/// Each part keeps the bound of its set, and has the bytes that it has in a matrix of that set
/// alone.
#[test]
fn policies_choose_by_stretch() -> Result<(), Error> {
    let a = flow(&Flow { cells: [30, 25, 20], ..Flow::default() })?;
    let x: Vec<f64> = (0..a.columns()).map(|j| (j as f64 * 0.37).sin()).collect();
    let space = Space::new(a.rows(), 1 << 40);
    let adaptation = Adaptation::new(FormatSet::Fp64, Criterion::Componentwise, accuracy(-24));
    let norms = std::sync::Mutex::new(Vec::new());
    let set_of = |id: usize| [FormatSet::Ap2, FormatSet::Ap7Re, FormatSet::Ap7][id % 3];
    let policy = |id: usize, of_block: &BlockNorms, _: Accuracy| {
        norms.lock().expect("nobody panicked").push((id, of_block.clone()));
        set_of(id)
    };
    let matrix = TiledMatrix::cut_by(&a, 1, &adaptation, &space, &policy, 2)?;
    let mut y = vec![0.0; a.rows()];
    matrix.multiply(&x, &mut y)?;
    let errors = ExactProduct::of(&a, &x)?.errors(&y)?;
    for (id, rows) in space.ranges().enumerate() {
        let of_set = Adaptation { set: set_of(id), ..adaptation };
        let bound = error_bound(&a, &of_set, &x)?;
        assert!(rows.clone().all(|i| errors[i] <= bound[i]), "part {id}");
        let alone = TiledMatrix::cut(&a, 1, &of_set, &space, 1)?;
        assert_eq!(matrix.panels()[id].bytes(), alone.panels()[id].bytes());
    }
    let norms = norms.lock().expect("nobody panicked").clone();
    assert_eq!(norms.iter().map(|(id, _)| *id).collect::<Vec<_>>(), (0..space.parts()).collect::<Vec<_>>());
    assert!(space.parts() >= 3);
    let largest = norms.iter().map(|(_, of_block)| of_block.norm).fold(0.0, f64::max);
    assert!(
        norms.iter().all(|(_, of_block)| of_block.of_matrix == largest && of_block.largest <= of_block.norm)
    );
    assert_eq!(norms.iter().map(|(_, of_block)| of_block.nonzeros).sum::<usize>(), a.nonzeros());

    let error = TiledMatrix::cut_by(&a, 2, &adaptation, &space, &policy, 2).expect_err("scales").to_string();
    assert!(error.contains("part 1") && error.contains("AP7RE"), "{error}");
    Ok(())
}

/// Returns the stored matrix, from products with unit vectors.
fn stored(matrix: &TiledMatrix) -> Vec<Vec<f64>> {
    let unit = |j: usize| (0..matrix.columns()).map(|i| f64::from(u8::from(i == j))).collect::<Vec<_>>();
    let mut columns = vec![vec![f64::NAN; matrix.rows()]; matrix.columns()];
    columns.iter_mut().enumerate().for_each(|(j, column)| matrix.multiply(&unit(j), column).unwrap());
    columns
}

fn is_symmetric(matrix: &TiledMatrix) -> bool {
    let stored = stored(matrix);
    let same = |i: usize, j: usize| stored[i][j].to_bits() == stored[j][i].to_bits();
    (0..matrix.rows()).all(|i| (0..i).all(|j| same(i, j)))
}

#[test]
fn rows_with_thresholds_of_their_own_are_not_symmetric() {
    let a =
        Csr::from_triplets(2, 2, &[(0, 0, 1e6), (0, 1, 1.0 / 3.0), (1, 0, 1.0 / 3.0), (1, 1, 1.0)]).unwrap();
    let by_row = Adaptation::new(FormatSet::Ap7, Criterion::Componentwise, accuracy(-24));
    assert!(!is_symmetric(&TiledMatrix::new(&a, 1, &by_row).unwrap()));
    let symmetric = Adaptation { symmetric: true, ..by_row };
    assert!(is_symmetric(&TiledMatrix::new(&a, 1, &symmetric).unwrap()));
    let scaled = Adaptation { set: FormatSet::Ap7Re, ..symmetric };
    let error = TiledMatrix::new(&a, 1, &scaled).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("ap7, or nw"), "{error}");
    let normwise = Adaptation { criterion: Criterion::Normwise, ..scaled };
    assert!(is_symmetric(&TiledMatrix::new(&a, 1, &normwise).unwrap()));
    let flat = Csr::from_triplets(2, 3, &[(0, 0, 1.0)]).unwrap();
    assert!(TiledMatrix::new(&flat, 1, &symmetric).is_err());
}

/// Rows of any magnitude, some beyond the range of `f32`.
#[test]
fn tiny_rows_survive_in_one_format() {
    for (small, x) in [(2f64.powi(-200), [1.0, -1.0]), (2f64.powi(-1000), [3.0, 1e-3])] {
        let a = Csr::from_triplets(2, 2, &[(0, 0, 1.0), (1, 0, small / 3.0), (1, 1, -small / 7.0)]).unwrap();
        check_bound(&a, 1, &Adaptation::single(), &x).unwrap();
        let mut y = [0.0; 2];
        TiledMatrix::new(&a, 1, &Adaptation::single()).unwrap().multiply(&x, &mut y).unwrap();
        let expected = small * (x[0] / 3.0 - x[1] / 7.0);
        assert!((y[1] / expected - 1.0).abs() < 1e-6, "{:e} for {expected:e}", y[1]);
        ThesisMatrix::new(&a, &Adaptation::single()).unwrap().multiply(&x, &mut y).unwrap();
        assert!((y[1] / expected - 1.0).abs() < 1e-6, "{:e} for {expected:e}", y[1]);
    }
}

proptest! {
    #[test]
    fn symmetric_matrices_are_stored_as_such(
        triplets in prop::collection::vec(
            (0..12u32, 0..12u32, (-1.0..1.0f64, -200..200i32).prop_map(|(m, e)| libm::ldexp(m, e))), 1..80,
        ),
        x in prop::collection::vec(-1.0..1.0f64, 12),
        at in 0..5usize,
        log2 in -53..0i32,
        chop: bool,
    ) {
        let both = triplets.iter().flat_map(|&(i, j, a)| [(i, j, a), (j, i, a)]).collect::<Vec<_>>();
        let a = Csr::from_triplets(12, 12, &both).unwrap();
        prop_assert!(a.is_symmetric());
        for block_size in [1, 2, 3, 4] {
            for criterion in [Criterion::Componentwise, Criterion::ComponentwiseFor(&x)] {
                let rounding = ROUNDINGS[usize::from(chop)];
                let set = Adaptation { rounding, ..Adaptation::new(SETS[at], criterion, accuracy(log2)) };
                for adaptation in [set, Adaptation { drops: false, ..set }, Adaptation::single()] {
                    let adaptation = Adaptation { symmetric: true, ..adaptation };
                    let matrix = TiledMatrix::new(&a, block_size, &adaptation).unwrap();
                    prop_assert!(is_symmetric(&matrix), "block size {block_size}, {adaptation:?}");
                    check_bound(&a, block_size, &adaptation, &x)?;
                }
            }
        }
    }
}
