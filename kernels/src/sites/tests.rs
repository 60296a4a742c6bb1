use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::lanes::{One, Real, WithLanes};
use super::multiply::Line;
use super::*;

/// The words of one site.
fn words(format: SiteFormat, site: [f64; COMPONENTS]) -> Vec<u32> {
    let mut codes = vec![f64::NAN; format.words(1)];
    encode_sites(format, &site, 1, &mut codes, (1, 0), 0..1);
    bytemuck::cast_slice(&codes).to_vec()
}

fn numbers(format: SiteFormat, words: &[u32]) -> [f64; COMPONENTS] {
    let mut rows = [0.0; COMPONENTS];
    decode_sites(format, bytemuck::cast_slice(words), (1, 0), 0..1, &mut rows, 1);
    rows
}

fn random(count: usize, seed: u64) -> Vec<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..count).map(|_| random.random_range(-1.0..1.0)).collect()
}

#[test]
fn records_are_what_they_are_by_hand() {
    // The largest magnitude is 32767 times 2^-10, which is the scale: 0x3a800000 in float32.
    let step = 1.0 / 1024.0;
    let site = [32767.0, -32767.0, 1.0, -1.0, 0.0, 258.0].map(|x| x * step);
    assert_eq!(words(SiteFormat::Half, site), [0x8001_7fff, 0xffff_0001, 0x0102_0000, 0x3a80_0000]);
    // 300000 2^-20: 300000 / 524287 is between 1/2 and 1, the scale 2^-20, its biased exponent
    // 107 = 0x6b.
    let step = (-20f64).exp2();
    let site = [300_000.0, -2.0, 74_565.0, -299_999.0, 0x1_2345 as f64, -1.0].map(|x| x * step);
    // -2 is ffffe, 74565 is 12345, -299999 is b6c21, -1 is fffff, and 300000 is 493e0.
    let expected = [0xfff4_93e0, 0xb123_45fe, 0x1234_6c21, 0x6bff_fff5];
    assert_eq!(words(SiteFormat::Int20, site), expected);
    assert_eq!(numbers(SiteFormat::Int20, &expected), site);
    // 500000000 / 536870911 is between 1/2 and 1; the exponent 107 is 3, 2, 2, 1 from below.
    let site = [500_000_000.0, -1.0, 2.0, -500_000_000.0, 0.0, -3.0].map(|x| x * step);
    let expected = [0xddcd_6500, 0xbfff_ffff, 0x8000_0002, 0x6232_9b00, 0, 0x3fff_fffd];
    assert_eq!(words(SiteFormat::Int30, site), expected);
    assert_eq!(numbers(SiteFormat::Int30, &expected), site);
    let ten = SiteFormat::integers(10).expect("a format");
    // 500 / 511 is between 1/2 and 1: ten bits of each, then the exponent, 107.
    let site = [500.0, -1.0, 2.0, -500.0, 0.0, -3.0].map(|x| x * step);
    // -500 is 20c, whose two lowest bits are in the first word.
    let expected = [0x002f_fdf4, 0xbff4_0083, 6, 0];
    assert_eq!(words(ten, site), expected);
    assert_eq!(numbers(ten, &expected), site);
    assert_eq!(
        [8, 9, 10, 20, 21, 30, 31].map(|bits| SiteFormat::integers(bits).map_or(0, SiteFormat::bytes)),
        [8, 8, 16, 16, 24, 24, 32]
    );
    assert_eq!([7, 32].map(SiteFormat::integers), [None; 2]);
    assert_eq!(
        words(SiteFormat::Fp32, [1.0, -2.0, 0.0, 0.5, 0.0, 0.0])[..4],
        [0x3f80_0000, 0xc000_0000, 0, 0x3f00_0000]
    );
}

#[test]
fn ties_are_rounded_to_even() {
    let step = (-20f64).exp2();
    let site = [300_000.0, 0.5, 1.5, 2.5, -0.5, -1.5];
    let rounded = [300_000.0, 0.0, 2.0, 2.0, 0.0, -2.0];
    for (format, factor) in [(SiteFormat::Int20, 1.0), (SiteFormat::Int30, 1.0)] {
        let most = if format == SiteFormat::Int30 { 500_000_000.0 } else { 300_000.0 };
        let (mut site, mut rounded) = (site, rounded);
        (site[0], rounded[0]) = (most, most);
        let of_words = numbers(format, &words(format, site.map(|x| x * step * factor)));
        assert_eq!(of_words, rounded.map(|x| x * step));
    }
}

#[test]
fn zeros_are_records_of_zeros() {
    for format in SiteFormat::ALL {
        assert!(words(format, [0.0; COMPONENTS]).iter().all(|word| *word == 0), "{format}");
        assert_eq!(numbers(format, &words(format, [0.0, -0.0, 0.0, 0.0, 0.0, 0.0])), [0.0; COMPONENTS]);
    }
}

#[test]
fn what_is_too_large_or_no_number_is_nan_everywhere() {
    let integers = SiteFormat::ALL.into_iter().skip(2);
    for format in integers {
        for x in [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -3.5e38] {
            for c in 0..COMPONENTS {
                let mut site = [1.0; COMPONENTS];
                site[c] = x;
                let found = numbers(format, &words(format, site));
                assert!(found.iter().all(|x| x.is_nan()), "{format} {x} {found:?}");
            }
        }
        let found = numbers(format, &words(format, [3.4e38, 0.0, 1.0, -3.4e38, 1.7e38, 0.0]));
        let bound = 2e-5_f64.max(format.unit_roundoff());
        assert!((found[0] / 3.4e38 - 1.0).abs() < bound && found[3] == -found[0], "{format} {found:?}");
    }
}

#[test]
fn what_is_small_loses_bits_and_becomes_zero() {
    let least = f64::from(f32::MIN_POSITIVE);
    for format in [SiteFormat::Half, SiteFormat::Int20, SiteFormat::Int30] {
        let site = [100.0, -100.0, 3.0, 0.25, 0.0, 1.0].map(|x| x * least);
        assert_eq!(
            numbers(format, &words(format, site)),
            [100.0, -100.0, 3.0, 0.0, 0.0, 1.0].map(|x| x * least)
        );
        assert_eq!(numbers(format, &words(format, [1e-300; COMPONENTS])), [0.0; COMPONENTS]);
    }
}

/// For numbers of any magnitude the error is within the bound of the format, and storing again
/// changes nothing.
#[test]
fn errors_are_bounded() {
    for format in SiteFormat::ALL {
        for exponent in -80..80 {
            let size = f64::from(exponent).exp2() * (1.0 + f64::from(exponent % 7) / 7.0);
            let rows: Vec<f64> = random(48, 7).iter().map(|x| x * size).collect();
            let mut codes = vec![0.0; format.words(8)];
            encode_sites(format, &rows, 8, &mut codes, (1, 0), 0..8);
            let mut again = vec![0.0; 48];
            decode_sites(format, &codes, (1, 0), 0..8, &mut again, 8);
            for site in 0..8 {
                let most = (0..6).map(|c| rows[8 * c + site].abs()).fold(0.0, f64::max);
                for c in 0..6 {
                    let error = (rows[8 * c + site] - again[8 * c + site]).abs();
                    assert!(error <= 1.0001 * format.unit_roundoff() * most, "{format} {error:e} {most:e}");
                }
            }
        }
    }
}

/// Sites of several columns, and some of many, have the bits that each has alone, in both
/// precisions.
#[test]
fn columns_and_ranges_are_apart() {
    let (sites, columns) = (21, 3);
    for format in SiteFormat::ALL {
        let mut codes = vec![0.0; format.words(sites * columns)];
        let rows: Vec<Vec<f64>> = (0..columns).map(|c| random(sites * 6, c as u64)).collect();
        for (column, rows) in rows.iter().enumerate() {
            encode_sites(format, rows, sites, &mut codes, (columns, column), 0..sites);
        }
        for (column, rows) in rows.iter().enumerate() {
            let mut found = vec![0.0; sites * 6];
            decode_sites(format, &codes, (columns, column), 0..sites, &mut found, sites);
            let mut part = vec![0.0; 6 * 6];
            decode_sites(format, &codes, (columns, column), 9..14, &mut part, 6);
            let mut single = vec![0f32; 6 * 6];
            decode_sites(format, &codes, (columns, column), 9..14, &mut single, 6);
            for c in 0..6 {
                for i in 0..5 {
                    let number = found[c * sites + 9 + i];
                    let site = [0, 1, 2, 3, 4, 5].map(|c| rows[c * sites + 9 + i]);
                    assert_eq!(number, numbers(format, &words(format, site))[c]);
                    assert_eq!(part[c * 6 + i], number);
                    assert_eq!(single[c * 6 + i], number as f32);
                }
            }
        }
    }
}

/// Checks that the bits of eight interleaved columns are those of each column alone.
#[test]
fn columns_are_stored_side_by_side_as_they_are_alone() {
    let (columns, first, sites) = (11, 2, 5);
    for (format, seed) in SiteFormat::ALL.into_iter().zip(1..) {
        let mut numbers = random(6 * sites * columns, seed);
        numbers[..6].fill(0.0);
        let mut codes = vec![0.0; format.words(sites * columns)];
        for column in 0..columns {
            let rows = &numbers[column * 6 * sites..][..6 * sites];
            encode_sites(format, rows, sites, &mut codes, (columns, column), 0..sites);
        }
        let mut across = vec![0.0; 3 * 48];
        decode_columns(format, &codes, (columns, first), 1..4, &mut across);
        for k in 0..8 {
            let mut alone = vec![0.0; 6 * 3];
            decode_sites(format, &codes, (columns, first + k), 1..4, &mut alone, 3);
            for at in 0..18 {
                assert_eq!(across[(at % 3 * 6 + at / 3) * 8 + k], alone[at], "{format}");
            }
        }
        let mut again = codes.clone();
        for site in 1..4 {
            for k in first..first + 8 {
                encode_sites(format, &[7.0; 6], 1, &mut again, (columns, k), site..site + 1);
            }
        }
        let bits = |codes: &[f64]| codes.iter().map(|code| code.to_bits()).collect::<Vec<_>>();
        assert_ne!(bits(&again), bits(&codes));
        encode_columns(format, &across, &mut again, (columns, first), 1..4);
        // Records are bits: some are no numbers.
        assert_eq!(bits(&again), bits(&codes), "{format}");
    }
}

/// Unitary matrices times `unit`: products of three rotations with phases.
fn unitary(seed: u64, unit: f64) -> [f64; 18] {
    let angles = random(9, seed);
    let mut a = [[(0.0, 0.0); 3]; 3];
    (0..3).for_each(|i| a[i][i] = (1.0, 0.0));
    for (k, (i, j)) in [(0, 1), (0, 2), (1, 2)].into_iter().enumerate() {
        let (s, c) = (3.0 * angles[3 * k]).sin_cos();
        let (ps, pc) = (3.0 * angles[3 * k + 1]).sin_cos();
        for column in 0..3 {
            let (x, y) = (a[i][column], a[j][column]);
            let turned = (y.0 * pc - y.1 * ps, y.0 * ps + y.1 * pc);
            a[i][column] = (c * x.0 - s * turned.0, c * x.1 - s * turned.1);
            a[j][column] = (s * x.0 + c * turned.0, s * x.1 + c * turned.1);
        }
    }
    let flat: Vec<f64> = a.iter().flatten().flat_map(|z| [unit * z.0, unit * z.1]).collect();
    flat.try_into().expect("18 numbers")
}

/// `y = sum of a x` for one site, in float64.
fn product(matrices: &[[f64; 18]], x: &[[f64; 6]]) -> [f64; 6] {
    let mut y = [0.0; 6];
    for (a, x) in matrices.iter().zip(x) {
        for i in 0..3 {
            for j in 0..3 {
                let (re, im) = (a[(3 * i + j) * 2], a[(3 * i + j) * 2 + 1]);
                y[2 * i] += re * x[2 * j] - im * x[2 * j + 1];
                y[2 * i + 1] += re * x[2 * j + 1] + im * x[2 * j];
            }
        }
    }
    y
}

/// Multiplies two groups of matrices on a line of sixteen sites, with each implementation. Returns
/// the largest error relative to the largest number.
fn lines<R: Real>(format: MatrixFormat, columns: usize) -> f64 {
    let (hops, unit, pitch) = (4, 0.375, 24);
    let groups =
        [Group::new(MatrixFormat::full(format.number), hops, 1.0, 1.0), Group::new(format, hops, unit, unit)];
    let matrix = |site: usize, hop: usize| match hop < hops {
        true => random(18, (97 * site + hop) as u64).try_into().expect("18 numbers"),
        false => unitary((97 * site + hop) as u64, unit),
    };
    let mut codes = Vec::new();
    for block in 0..2 {
        for hop in 0..2 * hops {
            let group = &groups[hop / hops];
            let mut words = vec![0.0; group.words() / hops];
            group.encode(&std::array::from_fn(|lane| matrix(8 * block + lane, hop)), &mut words);
            codes.extend(words);
        }
    }
    let starts: Vec<usize> = (0..2 * hops).map(|hop| hop * 6 * pitch + hop % 5).collect();
    let column = 2 * hops * 6 * pitch;
    let x: Vec<R> = random(columns * column, 5).into_iter().map(R::from_f64).collect();
    let of_x = Rows { pitch, column };
    let of_y = Rows { pitch: 16, column: 96 };
    let mut results = Vec::new();
    for is_wide in [false, true] {
        let (mut y, mut buffer) = (vec![R::from_f64(f64::NAN); columns * 96], Vec::new());
        let line = Line::new(&groups, &codes, (&x, of_x), &starts, (&mut y, of_y), 0, columns, &mut buffer);
        if is_wide {
            R::with_lanes(line)
        } else {
            line.call(One)
        }
        results.push(y);
    }
    assert_eq!(results[0], results[1]);
    let mut alone = vec![R::default(); 96];
    let last = &x[(columns - 1) * column..];
    multiply_line(&groups, &codes, (last, of_x), &starts, (&mut alone, of_y), 0, 1, &mut Vec::new());
    assert_eq!(alone, results[0][(columns - 1) * 96..]);
    if columns == LANES {
        let across = |at: usize| {
            let (site, c, k) = (at / 48, at / 8 % 6, at % 8);
            x[k * column + site / pitch * 6 * pitch + c * pitch + site % pitch]
        };
        let x: Vec<R> = (0..8 * column).map(across).collect();
        let starts: Vec<usize> =
            starts.iter().map(|start| start / (6 * pitch) * pitch + start % pitch).collect();
        // The last eight sites are not whole.
        let mut y = vec![R::from_f64(f64::NAN); 15 * 48];
        multiply_columns(&groups, &codes, &x, &starts, &mut y, 15, &mut Vec::new());
        for (at, y) in y.iter().enumerate() {
            let (site, c, k) = (at / 48, at / 8 % 6, at % 8);
            assert_eq!(*y, results[0][k * 96 + c * 16 + site], "{format}");
        }
    }
    let mut worst = 0f64;
    for site in 0..16 {
        let matrices: Vec<_> = (0..2 * hops).map(|hop| matrix(site, hop)).collect();
        let place = |start: &usize| std::array::from_fn(|c| last[start + c * pitch + site].to_f64());
        let x: Vec<[f64; 6]> = starts.iter().map(place).collect();
        let exact = product(&matrices, &x);
        (0..6).for_each(|c| worst = worst.max((alone[16 * c + site].to_f64() - exact[c]).abs()));
    }
    worst
}

#[test]
fn products_are_those_of_float64_with_one_number_at_a_time_and_with_several() {
    for number in MatrixNumber::ALL {
        for reals in MatrixReals::ALL {
            let format = MatrixFormat { number, reals };
            assert_eq!(format.to_string().parse(), Ok(format));
            for columns in [1, 3, 8] {
                let bound = 20.0 * number.unit_roundoff();
                let (single, double) = (lines::<f32>(format, columns), lines::<f64>(format, columns));
                assert!(double <= bound.max(1e-14), "{format}: {double:e}");
                assert!(single <= bound.max(1e-5), "{format}: {single:e}");
            }
        }
    }
}

/// Matrices are restored from their words to the accuracy of the format.
#[test]
fn matrices_come_back() {
    for number in MatrixNumber::ALL {
        for reals in MatrixReals::ALL {
            let (format, unit) = (MatrixFormat { number, reals }, 0.375);
            let group = Group::new(format, 1, unit, unit);
            let stored = std::array::from_fn(|lane| unitary(lane as u64, unit));
            let mut words = vec![0.0; group.words()];
            group.encode(&stored, &mut words);
            let each = group.matrices(&words).into_iter().flatten().zip(stored.into_iter().flatten());
            let apart = each.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            let bound = if reals == MatrixReals::All { 1.01 } else { 20.0 };
            assert!(apart <= (bound * unit * number.unit_roundoff()).max(1e-15), "{format}: {apart:e}");
        }
    }
}

/// For one column, numbers in the float64 layout are stored with the same bits as rows, from any
/// site on.
#[test]
fn numbers_are_stored_as_rows_are() {
    for (format, seed) in SiteFormat::ALL.into_iter().zip(1..) {
        for (first, count) in [(0, 1), (0, 8), (3, 5), (2, 24), (5, 61)] {
            let (sites, end) = (first..first + count, first + count);
            let mut numbers = random(COMPONENTS * count, seed);
            numbers[..COMPONENTS].fill(0.0);
            if count > 9 {
                numbers[COMPONENTS * 9 + 2] = f64::INFINITY;
            }
            let rows: Vec<f64> =
                (0..COMPONENTS * count).map(|at| numbers[at % count * COMPONENTS + at / count]).collect();
            let (mut by_rows, mut by_numbers) = (vec![0.0; format.words(end)], vec![0.0; format.words(end)]);
            encode_sites(format, &rows, count, &mut by_rows, (1, 0), sites.clone());
            encode_numbers(format, &numbers, &mut by_numbers, sites.clone());
            let bits = |words: &[f64]| words.iter().map(|word| word.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&by_numbers), bits(&by_rows), "{format} {first} {count}");
            let (mut back, mut rows) = (vec![7.0; COMPONENTS * count], vec![7.0; COMPONENTS * count]);
            decode_numbers(format, &by_rows, sites.clone(), &mut back);
            decode_sites(format, &by_rows, (1, 0), sites, &mut rows, count);
            let transposed: Vec<f64> =
                (0..COMPONENTS * count).map(|at| rows[at % COMPONENTS * count + at / COMPONENTS]).collect();
            // NaNs are equal, independently of their bits.
            let same = back.iter().zip(&transposed).all(|(a, b)| a == b || a.is_nan() && b.is_nan());
            assert!(same, "{format} {first} {count}");
        }
    }
}
