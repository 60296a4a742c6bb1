//! Tests of copies, constants and triangles, and of refused arguments.

use bytemuck::Pod;
use rand::RngExt;
use zellige_gpu::{Address, Element, Matrix};
use zellige_kernels::cuda::{
    INVERTED, Launch, LaunchError, SmallProduct, SmallProducts, copy, fill, invert_blocks, measure, mirror,
    narrow, pack, small_products, sum, transpose, triple, zero_upper,
};
use zellige_kernels::cuda::{Scales, Third};
use zellige_kernels::precision::Sign;

use super::run;
use super::tile::{SHAPES, Tile, rng};

fn copied<T: Pod + PartialEq + std::fmt::Debug>(element: Element, mut draw: impl FnMut(u64) -> T) -> bool {
    for (s, shape @ (m, n, ld)) in SHAPES.into_iter().enumerate() {
        let mut rng = rng(s as u64);
        let mut a = Tile::new(shape, element, |_, _| draw(rng.random()));
        let mut out = Tile::new((m, n, ld + 1), element, |_, _| T::zeroed());
        if !run(&copy(a.shape(), a.matrix(), out.matrix()).unwrap(), 3) {
            return false;
        }
        assert_eq!(a.entries(), out.entries());
    }
    true
}

#[test]
fn blocks_are_copied_bit_for_bit() {
    let _ = copied(Element::F8E4M3, |x| x as u8)
        && copied(Element::F16, |x| x as u16)
        && copied(Element::BF16, |x| x as u16)
        && copied(Element::F32, |x| x as u32)
        && copied(Element::F64, |x| x);
}

#[test]
fn eight_bit_blocks_are_transposed_and_filled_up_with_zeros() {
    for (s, shape @ (m, n, _)) in SHAPES.into_iter().enumerate() {
        let mut rng = rng(s as u64);
        let mut a = Tile::<u8>::new(shape, Element::F8E4M3, |_, _| rng.random());
        let sixteens = (n.next_multiple_of(16), m.next_multiple_of(16));
        for (rows, cols, gap) in [(n, m, 0), (n, m, 3), (sixteens.0, sixteens.1, 0), (n + 70, m + 1, 2)] {
            let mut out = Tile::<u8>::new((rows, cols, rows + gap), Element::F8E4M3, |_, _| 0xff);
            let launch = transpose(a.shape(), a.matrix(), out.shape(), out.matrix()).unwrap();
            // One block that goes over all squares does the same.
            for grid in [launch.grid, [1; 3]] {
                if !run(&Launch { grid, ..launch.clone() }, s as u64) {
                    return;
                }
                for i in 0..cols {
                    for j in 0..rows {
                        let want = if i < m && j < n { a.at(i, j) } else { 0 };
                        assert_eq!(out.at(j, i), want, "{shape:?} in {rows} x {cols}: ({j}, {i})");
                    }
                }
                out.entries();
            }
        }
        a.entries();
    }
}

#[test]
fn constants_and_triangles() {
    for (s, (m, n, ld)) in SHAPES.into_iter().enumerate() {
        let mut single = Tile::<f32>::zeros((m, n, ld), Element::F32);
        let mut double = Tile::<f64>::zeros((m, n, ld), Element::F64);
        if !run(&fill(single.shape(), 0.1, single.matrix()).unwrap(), 1) {
            return;
        }
        run(&fill(double.shape(), 0.1, double.matrix()).unwrap(), 1);
        assert!(single.entries().iter().all(|&x| x == 0.1f32) && double.entries().iter().all(|&x| x == 0.1));

        let mut rng = rng(s as u64);
        let order = m.min(n);
        let full: Tile<f32> = Tile::new((order, order, ld), Element::F32, |_, _| rng.random_range(1.0..2.0));
        let wide: Tile<f64> = Tile::new((order, order, ld), Element::F64, |i, j| full.at(i, j).into());
        let (mut zeroed, mut mirrored) = (full.clone(), full.clone());
        let (mut zeroed64, mut mirrored64) = (wide.clone(), wide);
        run(&zero_upper(order as u32, zeroed.matrix()).unwrap(), 2);
        run(&zero_upper(order as u32, zeroed64.matrix()).unwrap(), 2);
        run(&mirror(order as u32, mirrored.matrix()).unwrap(), 2);
        run(&mirror(order as u32, mirrored64.matrix()).unwrap(), 2);
        for j in 0..order {
            for i in 0..order {
                let x = full.at(i, j);
                assert_eq!(zeroed.at(i, j), if i < j { 0.0 } else { x });
                assert_eq!(mirrored.at(i, j), if i < j { full.at(j, i) } else { x });
                assert_eq!(zeroed64.at(i, j), f64::from(zeroed.at(i, j)));
                assert_eq!(mirrored64.at(i, j), f64::from(mirrored.at(i, j)));
            }
        }
        zeroed.entries();
        mirrored.entries();
    }
}

/// Checks `L X = I` for each block within the error of substitution in `f32`. The part above a
/// block's diagonal is zero, and the rest does not change.
#[test]
fn diagonal_blocks_are_inverted() {
    let width = INVERTED as usize;
    for (s, n) in [0, 1, 63, 64, 65, 200].into_iter().enumerate() {
        let mut rng = rng(s as u64);
        let mut l: Tile<f32> = Tile::new((n, n, n + 1), Element::F32, |i, j| {
            let x = rng.random_range(-0.1..0.1);
            // The part above the diagonal is not read.
            if i < j { f32::NAN } else { x + if i == j { 1.5 } else { 0.0 } }
        });
        let mut out: Tile<f32> = Tile::new((n, n, n + 2), Element::F32, |_, _| 7.0);
        if !run(&invert_blocks(n as u32, l.matrix(), out.matrix()).unwrap(), 4) {
            return;
        }
        for j in 0..n {
            let block = j / width * width..n.min((j / width + 1) * width);
            for i in 0..n {
                if !block.contains(&i) {
                    assert_eq!(out.at(i, j), 7.0, "{i}, {j}");
                    continue;
                }
                let terms = (block.start..=i).map(|k| f64::from(l.at(i, k)) * f64::from(out.at(k, j)));
                let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), x| (sum + x, size + x.abs()));
                let error = (sum - f64::from(u8::from(i == j))).abs();
                assert!(error <= width as f64 * 6e-8 * size, "{n}: {i}, {j}: {error:e} of {size:e}");
                assert!(i >= j || out.at(i, j) == 0.0, "{n}: {i}, {j}");
            }
        }
        l.entries();
        out.entries();
    }
}

/// Bad operands are errors that name kernel and operand; nothing is launched, so no memory is
/// needed.
#[test]
fn bad_operands_are_refused() {
    let place = |element, ld| Matrix { at: Address(256), ld, element };
    let at = Address(512);
    let (f16, f32, f64) = (place(Element::F16, 4), place(Element::F32, 4), place(Element::F64, 4));
    let f8 = place(Element::F8E4M3, 4);
    let shape = (4, 3);
    let scales = Scales { a: at, b: at };
    let refused = [
        narrow(shape, f32, f32).unwrap_err(),
        narrow(shape, place(Element::F64, 3), f32).unwrap_err(),
        pack(shape, f32, at, f64, at).unwrap_err(),
        pack(shape, f64, at, f16, at).unwrap_err(),
        measure(shape, f16, at, at).unwrap_err(),
        copy(shape, f32, f16).unwrap_err(),
        transpose(shape, f16, (4, 4), f8).unwrap_err(),
        transpose(shape, f8, (4, 4), f16).unwrap_err(),
        transpose(shape, f8, (5, 4), f8).unwrap_err(),
        fill(shape, 1.0, f16).unwrap_err(),
        mirror(5, f32).unwrap_err(),
        zero_upper(4, f16).unwrap_err(),
        invert_blocks(4, f32, f64).unwrap_err(),
        invert_blocks(5, f32, f32).unwrap_err(),
        sum(shape, f32, Sign::Plus, scales, (f16, at), f16).unwrap_err(),
        triple((1 << 31, 1), place(Element::F16, 1 << 31), at, Third::SecondAlongRows, f16).unwrap_err(),
    ];
    for error in refused {
        let text = error.to_string();
        assert!(text.len() > 20 && !text.contains("512"), "{text}");
    }
    for (padded, words) in [
        ((2, 4), "the number of rows of out is 2, at least 3"),
        ((3, 3), "the number of columns of out is 3, at least 4"),
    ] {
        let error = transpose(shape, f8, padded, f8).unwrap_err();
        assert!(
            matches!(error, LaunchError::TooSmall { .. }) && error.to_string().contains(words),
            "{error}"
        );
    }
    let products = SmallProducts {
        shape: (65, 4, 4),
        alpha: 1.0,
        ld: [65, 4, 65],
        element: Element::F32,
        transposed: false,
        beta: 0.0,
    };
    let large = small_products(&products, &[]).unwrap_err();
    assert!(matches!(large, LaunchError::TooLarge { what: "m", got: 65, most: 64, .. }), "{large}");
    let other = SmallProducts { element: Element::F64, shape: (4, 4, 4), ..products };
    assert!(matches!(small_products(&other, &[]).unwrap_err(), LaunchError::Element { .. }));
    let narrow_c = SmallProducts { ld: [64, 4, 3], shape: (4, 4, 4), ..products };
    let error = small_products(&narrow_c, &[SmallProduct { tiles: [at; 3], scales: [at; 2] }]).unwrap_err();
    assert!(matches!(error, LaunchError::Overlap { operand: "c", rows: 4, ld: 3, .. }), "{error}");
}
