use super::*;
use crate::csr::Csr;

fn is_symmetric(a: &Csr, tolerance: f64) -> bool {
    let norm = a.norm_inf();
    let t = a.transposed();
    (0..a.rows()).all(|i| {
        let ((columns, values), (others, mirrored)) = (a.row(i), t.row(i));
        columns == others && values.iter().zip(mirrored).all(|(x, y)| (x - y).abs() <= tolerance * norm)
    })
}

fn row_sums(a: &Csr) -> Vec<f64> {
    let mut sums = vec![0.0; a.rows()];
    a.multiply(&vec![1.0; a.columns()], &mut sums).unwrap();
    sums
}

#[test]
fn full_blocks_define_the_block_size() {
    let solid = Elasticity { elements: Elements([4, 4, 4]), ..Elasticity::default() };
    assert_eq!(elasticity(&solid).unwrap().block_size(), 3);
    let fluid = Flow { cells: [6, 6, 6], ..Flow::default() };
    assert_eq!(flow(&fluid).unwrap().block_size(), 1);
}

#[test]
fn flow_is_a_laplacian_between_two_fixed_ends() {
    let a = flow(&Flow { cells: [5, 4, 3], ..Flow::default() }).unwrap();
    assert_eq!((a.rows(), a.nonzeros()), (60, 7 * 60 - 2 * (12 + 15 + 20)));
    assert!(is_symmetric(&a, 0.0));
    for (i, sum) in row_sums(&a).into_iter().enumerate() {
        let is_end = !(12..48).contains(&i);
        assert!(if is_end { sum > 0.0 } else { sum.abs() <= 1e-14 * a.get(i, i) }, "row {i}: {sum}");
        assert!(a.get(i, i) > 0.0);
    }
    // The faces across the last axis are ten times as large for their distance.
    let uniform = flow(&Flow { cells: [3, 3, 3], spread: 0.0, seed: 0 }).unwrap();
    assert_eq!((uniform.get(13, 12), uniform.get(13, 10), uniform.get(13, 4)), (-1.0, -0.1, -0.1));
}

#[test]
fn transport_keeps_what_streams() {
    let a = transport(&Transport {
        flow: Flow { cells: [5, 4, 3], spread: 0.8, seed: 1 },
        ..Transport::default()
    })
    .unwrap();
    assert!(!is_symmetric(&a, 1e-6));
    // The outflow of a cell enters its neighbours or leaves the domain: columns sum to at least 1 /
    // step.
    for sum in row_sums(&a.transposed()) {
        assert!(sum >= 1.0 - 1e-12, "{sum}");
    }
    assert!(transport(&Transport { step: 0.0, ..Transport::default() }).is_err());
}

#[test]
fn elasticity_has_the_pattern_of_the_thesis_and_moves_rigidly_for_free() {
    let elements = Elements([15; 3]);
    let a = elasticity(&Elasticity { elements, ..Elasticity::default() }).unwrap();
    // Those of the matrix that was made for comparisons with other programs.
    assert_eq!((a.rows(), a.nonzeros()), (11520, 818_892));
    assert!(is_symmetric(&a, 1e-15));
    // Far from the clamp, translations along each axis and a rotation cost nothing.
    let place = |unknown: usize| {
        let (node, component) = (unknown / 3, unknown % 3);
        ([node / 240, node / 15 % 16, node % 15], component)
    };
    let mut y = vec![0.0; a.rows()];
    for axis in 0..3 {
        let x: Vec<f64> =
            (0..a.rows()).map(|unknown| f64::from(u8::from(place(unknown).1 == axis))).collect();
        a.multiply(&x, &mut y).unwrap();
        for (unknown, y) in y.iter().enumerate().filter(|(unknown, _)| place(*unknown).0[2] > 0) {
            let scale: f64 = a.row(unknown).1.iter().map(|a| a.abs()).sum();
            assert!(y.abs() < 1e-13 * scale, "{unknown}: {y} of {scale}");
        }
    }
}

#[test]
fn biot_numbers_displacements_first() {
    let a = biot(&Biot { elements: Elements([10; 3]), ..Biot::default() }).unwrap();
    assert_eq!((a.rows(), a.nonzeros() <= 500_000), (4961, true));
    assert!(is_symmetric(&a, 1e-15));
    let displacements = 3 * 11 * 11 * 10;
    for i in 0..a.rows() {
        assert_eq!(a.get(i, i) > 0.0, i < displacements, "row {i}");
    }
    assert!(biot(&Biot { step: f64::NAN, ..Biot::default() }).is_err());
}

#[test]
fn stokes_is_symmetric_with_negative_pressures() {
    let a = stokes(&Stokes { elements: Elements([5, 4, 3]), ..Stokes::default() }).unwrap();
    assert_eq!(a.rows(), 6 * 5 * (4 * 4 - 3));
    assert!(is_symmetric(&a, 1e-14));
    // Constant pressure is in no cell's C, and is held by B^T only.
    assert_eq!((0..a.rows()).filter(|&i| a.get(i, i) < 0.0).count(), 6 * 5 * 4);
}

#[test]
fn sizes_that_are_none_are_errors() {
    assert!(flow(&Flow { cells: [0, 4, 3], ..Flow::default() }).is_err());
    assert!(flow(&Flow { cells: [1 << 20; 3], ..Flow::default() }).is_err());
    assert!(flow(&Flow { cells: [usize::MAX; 3], ..Flow::default() }).is_err());
    assert!(elasticity(&Elasticity { elements: Elements([0; 3]), ..Elasticity::default() }).is_err());
}
