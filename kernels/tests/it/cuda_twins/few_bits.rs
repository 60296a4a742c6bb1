//! Products with matrices of few bits: the bits of the CPU.

use std::sync::Arc;

use rand::RngExt;
use zellige_gpu::mock::{Fault, Mock};
use zellige_gpu::{Address, Driver};
use zellige_kernels::cuda::{FEW_BITS_SOURCES, FewBitsAt, LaunchError, few_bits_product};
use zellige_kernels::few_bits::{Digits, FewBits, GpuMatrix, GpuProduct, ROWS, Records};

use super::run;
use super::tile::rng;

/// A random matrix, with these bits in turn.
fn matrix(rows: usize, edges: &[usize], bits: &[u8], seed: u64) -> FewBits {
    let (mut rng, groups) = (rng(seed), edges.len() - 1);
    let bits: Vec<u8> = bits.iter().copied().cycle().take(rows.div_ceil(ROWS) * groups).collect();
    let mut codes = Vec::new();
    for row in 0..rows {
        for group in 0..groups {
            let half = 1i32 << (bits[row / ROWS * groups + group] - 1);
            codes.extend((edges[group]..edges[group + 1]).map(|_| rng.random_range(-half..half) as i16));
        }
    }
    let scales: Vec<f32> = (0..rows * groups).map(|_| 2f32.powi(rng.random_range(-9..9))).collect();
    FewBits::new(rows, &bits, edges, &codes, &scales)
}

/// A vector of numbers of very different sizes.
fn vector(entries: usize, seed: u64) -> Vec<f32> {
    let mut rng = rng(seed);
    (0..entries).map(|_| rng.random_range(-1.0..1.0f32) * 2f32.powi(rng.random_range(-30..30))).collect()
}

fn digits(matrix: &FewBits, x: &[f32]) -> Digits {
    let mut digits = Digits::new(x.len());
    digits.put(matrix.edges(), 0..matrix.groups(), x);
    digits
}

/// Edges of groups of widths from 1 to 33, more of them than a block of threads takes at a time.
fn uneven() -> Vec<usize> {
    let widths = (0..70).map(|group| 1 + group * 7 % 33);
    let ends = widths.scan(0, |end, width| {
        *end += width;
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

fn cases() -> Vec<(FewBits, u64)> {
    let regular: Vec<usize> = (0..=5).map(|group| 32 * group).collect();
    let mut cases: Vec<(FewBits, u64)> =
        (2..=16).map(|bits| (matrix(70, &regular, &[bits], bits.into()), bits.into())).collect();
    let all: Vec<u8> = (2..=16).collect();
    cases.push((matrix(150, &uneven(), &all, 1), 1));
    cases.push((matrix(1, &[0, 1], &[6], 2), 2));
    cases.push((matrix(64, &[0, 128, 131], &[8, 9], 3), 30));
    cases
}

fn at<T>(values: &[T]) -> Address {
    Address(values.as_ptr().expose_provenance() as u64)
}

fn same(found: &[f32], want: &[f32]) -> bool {
    found.iter().zip(want).all(|(f, w)| f.to_bits() == w.to_bits() || f.is_nan() && w.is_nan())
}

#[test]
fn products_have_the_bits_of_the_cpu() {
    for (matrix, seed) in cases() {
        let (rows, cols) = matrix.shape();
        let mut x = vector(cols, seed);
        if seed == 3 {
            x[cols / 2] = f32::INFINITY;
        }
        let digits = digits(&matrix, &x);
        let records = Records::new(matrix.edges());
        let groups = matrix.groups();
        let mut words = vec![0; records.words(0..groups).len()];
        records.write(&digits, matrix.edges(), 0..groups, &mut words);
        let starts: Vec<u64> = matrix.starts().iter().map(|&start| start as u64).collect();
        // Bytes of the matrix at an address that is a multiple of four, as everywhere on a GPU.
        let mut aligned = vec![0u64; matrix.bytes().div_ceil(8)];
        bytemuck::cast_slice_mut(&mut aligned)[..matrix.bytes()].copy_from_slice(matrix.data());
        let of =
            FewBitsAt::new(&matrix, [at(&aligned), at(&starts), at(matrix.bits()), at(records.places())]);
        let mut found = vec![[f32::NAN; ROWS]; matrix.blocks()];
        // In two parts.
        let half = groups / 2;
        for (part, is_new) in [(0..half, true), (half..groups, half == 0)] {
            let to = (at(&words), words.len() as u64);
            let launch = few_bits_product(&of, to, part, is_new, at(&found)).unwrap();
            if !run(&launch, seed) {
                return;
            }
        }
        let mut want = vec![0.0; rows];
        matrix.multiply(&x, &mut want);
        // The compiler does not see that the kernel writes.
        let found = std::hint::black_box(&mut found);
        assert!(same(&found.as_flattened()[..rows], &want), "{rows} x {cols}, seed {seed}");
        assert_eq!(want.iter().any(|y| y.is_nan()), seed == 3);
    }
}

#[test]
fn wrong_groups_are_refused() {
    let matrix = matrix(70, &[0, 32, 64], &[8], 0);
    let of = FewBitsAt::new(&matrix, [Address(256); 4]);
    let refused = few_bits_product(&of, (Address(256), 1), 1..3, true, Address(256)).unwrap_err();
    assert!(matches!(refused, LaunchError::TooLarge { got: 3, most: 2, .. }), "{refused}");
    let empty = FewBits::new(0, &[], &[0, 32], &[], &[]);
    let of = FewBitsAt::new(&empty, [Address(256); 4]);
    let refused = few_bits_product(&of, (Address(256), 1), 0..1, true, Address(256)).unwrap_err();
    assert!(refused.to_string().contains("number of rows"), "{refused}");
}

/// The largest sums: 128 columns of the smallest integers and digits.
#[test]
fn the_largest_sums_are_exact() {
    let Some(mock) = mock() else { return };
    let driver: Arc<dyn Driver> = mock;
    for bits in [7u8, 8, 15, 16] {
        let smallest = (-(1i32 << (bits - 1))) as i16;
        let matrix = FewBits::new(64, &[bits], &[0, 128], &[smallest; 64 * 128], &[1.0; 64]);
        // Digits of -128 in all three places: -128 (1 + 256 + 65536), as far as 22 bits go.
        let x = vec![-(32f32 * 65_536.0 + 127.0 * 256.0 + 128.0); 128];
        let mut product = GpuProduct::new(&driver, 0, (64, 128)).unwrap();
        let on_gpu = Arc::new(GpuMatrix::new(&driver, 0, &matrix).unwrap());
        product.add(&on_gpu, 0..1, &digits(&matrix, &x)).unwrap();
        let (mut y, mut want) = (vec![0.0; 64], vec![0.0; 64]);
        product.finish(&mut y).unwrap();
        matrix.multiply(&x, &mut want);
        assert!(same(&y, &want) && y[0] > 0.0, "{bits} bits: {} instead of {}", y[0], want[0]);
    }
}

fn mock() -> Option<Arc<Mock>> {
    Some(Arc::new(zellige_twins::mock(FEW_BITS_SOURCES)?.build()))
}

#[test]
fn frames_on_a_gpu_are_those_of_the_cpu() {
    let Some(mock) = mock() else { return };
    let driver: Arc<dyn Driver> = mock.clone();
    let (first, other) = (matrix(150, &uneven(), &[8, 6, 12], 5), matrix(150, &uneven(), &[3], 6));
    let (rows, cols) = first.shape();
    let mut product = GpuProduct::new(&driver, 0, (rows, cols)).unwrap();
    let on_gpu = [&first, &other].map(|matrix| Arc::new(GpuMatrix::new(&driver, 0, matrix).unwrap()));
    let (mut y, mut want) = (vec![0.0; rows], vec![0.0; rows]);
    for frame in 0..6 {
        let which = frame / 2 % 2;
        let matrix = [&first, &other][which];
        let x = vector(cols, frame as u64);
        let digits = digits(matrix, &x);
        for groups in [0..7, 7..8, 8..matrix.groups()] {
            product.add(&on_gpu[which], groups, &digits).unwrap();
        }
        product.finish(&mut y).unwrap();
        matrix.multiply(&x, &mut want);
        assert!(same(&y, &want), "frame {frame}");
    }
    // Another matrix drops a product that was not finished; groups may come twice.
    let x = vector(cols, 1);
    product.add(&on_gpu[0], 0..3, &digits(&first, &x)).unwrap();
    product.add(&on_gpu[1], 0..2, &digits(&other, &x)).unwrap();
    product.add(&on_gpu[1], 0..2, &digits(&other, &x)).unwrap();
    product.finish(&mut y).unwrap();
    let mut sums = vec![[0.0; ROWS]; other.blocks()];
    for _ in 0..2 {
        other.multiply_blocks(0..other.blocks(), 0..2, &digits(&other, &x), &mut sums);
    }
    assert!(same(&y, &sums.as_flattened()[..rows]));
    product.finish(&mut y).unwrap();
    assert!(y.iter().all(|&y| y == 0.0), "a product of nothing");
    product.add(&on_gpu[0], 0..3, &digits(&first, &x)).unwrap();
    product.finish(&mut y).unwrap();
    // An error of a part is one of the whole product, and the next one begins anew.
    mock.inject(0, Fault::Operation(1)).unwrap();
    product.add(&on_gpu[0], 0..3, &digits(&first, &x)).unwrap_err();
    product.add(&on_gpu[0], 3..4, &digits(&first, &x)).unwrap_err();
    product.finish(&mut y).unwrap_err();
    drop((product, on_gpu));
    assert_eq!((mock.violations(), mock.leaks()), (vec![], vec![]));
}

#[test]
fn a_gpu_without_room_is_an_error() {
    let Some(mock) =
        zellige_twins::mock(FEW_BITS_SOURCES).map(|builder| Arc::new(builder.memory(4096).build()))
    else {
        return;
    };
    let driver: Arc<dyn Driver> = mock.clone();
    let matrix = matrix(150, &uneven(), &[8], 5);
    let error = GpuMatrix::new(&driver, 0, &matrix).unwrap_err();
    assert!(error.to_string().contains("no room"), "{error}");
    assert!(GpuProduct::new(&driver, 0, (150, 3000)).is_err());
    assert!(GpuMatrix::new(&driver, 7, &matrix).is_err());
    assert_eq!((mock.violations(), mock.leaks()), (vec![], vec![]));
}
