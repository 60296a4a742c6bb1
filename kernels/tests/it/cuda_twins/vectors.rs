//! Vector tasks against this crate's functions on vectors, bit by bit.

use rand::{Rng, RngExt};
use zellige_gpu::Address;
use zellige_kernels::cuda::{Factor, VectorPart, VectorProgram, VectorsAt, vector_task};
use zellige_kernels::vectors::{LANES, accumulate, accumulate_complex, add_lanes, combine, scale_rows};

use super::run;
use super::tile::{assert_same, rng, same_f64};

const OWN: usize = 3;
const WIDTH: usize = 5;

/// A part.
struct Case {
    rows: usize,
    columns: usize,
    grain: usize,
    /// Two that are read, a diagonal, and two that are updated.
    read: [Vec<f64>; 2],
    diagonal: Vec<f64>,
    updated: [Vec<f64>; 2],
    /// Numbers of each column: 0 while it is running, two more, two of the method's own.
    numbers: Vec<f64>,
    sums: Vec<f64>,
}

impl Case {
    fn new(rows: usize, columns: usize, grain: usize, rng: &mut impl Rng) -> Case {
        let mut vector = |len: usize| -> Vec<f64> { (0..len).map(|_| rng.random_range(-2.0..2.0)).collect() };
        let (read, updated) =
            ([0; 2].map(|_| vector(rows * columns)), [0; 2].map(|_| vector(rows * columns)));
        let (diagonal, mut numbers) = (vector(rows), vector(columns * (OWN + 2)));
        numbers.iter_mut().step_by(OWN + 2).for_each(|state| *state = 0.0);
        let sums = vec![f64::NAN; rows.div_ceil(grain) * columns * WIDTH];
        Case { rows, columns, grain, read, diagonal, updated, numbers, sums }
    }

    /// Returns the sums of a reduction block.
    fn dots(&self, grain: usize, x: &[f64], y: &[f64]) -> Vec<f64> {
        let here =
            grain * self.grain * self.columns..((grain + 1) * self.grain).min(self.rows) * self.columns;
        let (x, y) = (&x[here.clone()], &y[here]);
        let mut lanes = vec![0.0; LANES * self.columns];
        let whole = x.len() / lanes.len() * lanes.len();
        accumulate(&x[..whole], &y[..whole], &mut lanes);
        add_lanes(&mut lanes);
        let last = |c: usize| (whole + c..x.len()).step_by(self.columns).map(|i| x[i] * y[i]).sum::<f64>();
        (0..self.columns).map(|c| lanes[c] + last(c)).collect()
    }
}

/// Runs the launches for some parts, with the numbers of the first. Returns `None` without g++.
fn launched(parts: &mut [Case], program: &VectorProgram, unless: Option<usize>, seed: u64) -> Option<()> {
    let at = |v: &mut Vec<f64>| (Address(v.as_mut_ptr().expose_provenance() as u64), 8 * v.len() as u64);
    let (columns, grain, numbers) = (parts[0].columns, parts[0].grain, at(&mut parts[0].numbers).0);
    let places: Vec<_> = parts
        .iter_mut()
        .map(|Case { rows, read: [a, b], diagonal, updated: [y, z], sums, .. }| {
            (*rows, [a, b, diagonal, y, z].map(at), at(sums))
        })
        .collect();
    let parts: Vec<_> = places
        .iter()
        .map(|(rows, vectors, sums)| VectorPart { rows: *rows, vectors, sums: Some(*sums) })
        .collect();
    let at = VectorsAt {
        columns,
        grain,
        numbers,
        stride: OWN + 2,
        own: OWN,
        unless,
        width: WIDTH,
        read: 3,
        updated: 2,
        parts: &parts,
    };
    vector_task(program, &at).unwrap().iter().all(|launch| run(launch, seed)).then_some(())
}

/// `y = 1 y - n0 a`, `z = n1 (d b) + 3 y + z`, and sums `y . y`, `a . z`, and `z` times its change.
fn program() -> VectorProgram {
    let (a, b, d, y, z) = (0, 1, 2, 3, 4);
    let mut program = VectorProgram::default();
    program.assign(y, [(Factor::Constant(1.0), None, y), (Factor::Negative(0), None, a)].into_iter());
    let terms =
        [(Factor::Number(1), Some(d), b), (Factor::Constant(3.0), None, y), (Factor::Constant(1.0), None, z)];
    program.assign(z, terms.into_iter());
    program.dot(y, y, 4);
    program.dot(a, z, 0);
    program.dot_change(z, 2);
    assert!(program.fits());
    program
}

impl Case {
    /// Returns the CPU's results: the vectors that are updated, and the sums.
    fn expected(&self, numbers: &[f64]) -> [Vec<f64>; 3] {
        let Case { rows, columns, ref read, ref diagonal, ref updated, .. } = *self;
        let number = |at: usize| numbers[OWN + at..].iter().step_by(OWN + 2).copied().take(columns);
        let same = |value: f64| std::iter::repeat_n(value, columns);
        let [mut y, mut z] = updated.clone();
        let of_y: Vec<f64> = same(1.0).chain(number(0).map(|n| -n)).collect();
        combine(&mut y, columns, &of_y, &[None, Some(&read[0])]);
        let mut scaled = vec![0.0; rows * columns];
        scale_rows(&mut scaled, &number(1).collect::<Vec<_>>(), diagonal, &read[1]);
        let of_z: Vec<f64> = same(1.0).chain(same(3.0)).chain(same(1.0)).collect();
        combine(&mut z, columns, &of_z, &[Some(&scaled), Some(&y), None]);
        let change: Vec<f64> = z.iter().zip(&updated[1]).map(|(new, old)| new - old).collect();
        let mut sums = self.sums.clone();
        for (grain, sums) in sums.chunks_exact_mut(columns * WIDTH).enumerate() {
            for (at, x, y) in [(4, &y, &y), (0, &read[0], &z), (2, &z, &change)] {
                let found = self.dots(grain, x, y);
                found.iter().enumerate().for_each(|(c, sum)| sums[c * WIDTH + at] = *sum);
            }
        }
        [y, z, sums]
    }
}

#[test]
fn bits_are_those_of_the_cpu() {
    let cases: [(&[usize], usize, usize); 10] = [
        (&[1], 1, 256),
        (&[31], 2, 256),
        (&[32], 1, 256),
        (&[100], 3, 256),
        (&[256], 1, 256),
        (&[257], 1, 256),
        (&[1000, 0, 31], 8, 256),
        // Grains of several stages.
        (&[2049], 1, 4032),
        (&[9000, 4100], 2, 4096),
        // More parts than a launch takes.
        (&[33; 150], 1, 256),
    ];
    for (seed, (rows, columns, grain)) in (1..).zip(cases) {
        let mut rng = rng(seed);
        let mut parts: Vec<_> = rows.iter().map(|&rows| Case::new(rows, columns, grain, &mut rng)).collect();
        let numbers = parts[0].numbers.clone();
        let expected: Vec<_> = parts.iter().map(|part| part.expected(&numbers)).collect();
        if launched(&mut parts, &program(), None, seed).is_none() {
            return;
        }
        for (i, (part, [y, z, sums])) in parts.iter().zip(&expected).enumerate() {
            let what = format!("part {i} of rows {rows:?}, {columns} columns");
            assert_same(&part.updated[0], y, same_f64, &what);
            assert_same(&part.updated[1], z, same_f64, &what);
            assert_same(&part.sums, sums, same_f64, &what);
        }
    }
}

const GRAIN: usize = 1280;

/// Real and imaginary part.
type Pair = [f64; 2];

fn pairs(words: &[f64]) -> &[Pair] {
    words.as_chunks().0
}

fn plus([a, b]: Pair, [c, d]: Pair) -> Pair {
    [a + c, b + d]
}

fn times([a, b]: Pair, [c, d]: Pair) -> Pair {
    [a * c - b * d, a * d + b * c]
}

/// Tests complex numbers: `y = 1 y - n0 a`, `z = n1 b + 3 y + z`, and sums `y . y`, `a . z`, and
/// `z` times its change, with numbers that are real, and others.
#[test]
fn complex_bits_are_those_of_the_cpu() {
    let (a, b, y, z) = (0, 1, 2, 3);
    let mut program = VectorProgram::complex();
    program.assign(y, [(Factor::Constant(1.0), None, y), (Factor::Negative(0), None, a)].into_iter());
    let terms =
        [(Factor::Number(1), None, b), (Factor::Constant(3.0), None, y), (Factor::Constant(1.0), None, z)];
    program.assign(z, terms.into_iter());
    program.dot(y, y, 4);
    program.dot(a, z, 0);
    program.dot_change(z, 2);
    assert!(program.fits());
    let stride = OWN + 4;
    for (seed, (rows, columns)) in
        (21..).zip([(1, 1), (31, 2), (32, 1), (100, 3), (1280, 1), (1281, 4), (3000, 2), (700, 8)])
    {
        for are_real in [true, false] {
            let mut rng = rng(seed);
            let mut vector = |numbers: usize| -> Vec<f64> {
                (0..2 * numbers).map(|_| rng.random_range(-2.0..2.0)).collect()
            };
            let all: [Vec<f64>; 4] = std::array::from_fn(|_| vector(rows * columns));
            let mut numbers: Vec<f64> = vector(columns * stride).split_off(columns * stride);
            for numbers in numbers.chunks_exact_mut(stride) {
                numbers[0] = 0.0;
                if are_real {
                    (numbers[OWN + 1], numbers[OWN + 3]) = (0.0, -0.0);
                }
            }
            let number = |at: usize| -> Vec<Pair> {
                numbers.chunks_exact(stride).map(|n| [n[OWN + 2 * at], n[OWN + 2 * at + 1]]).collect()
            };
            // Combinations with real factors take another path, as on the CPU.
            let combined = |y: &mut Vec<f64>, factors: &[Vec<Pair>], x: &[Option<&[f64]>]| {
                if are_real && [1, 2, 4].contains(&columns) {
                    let each = if columns == 1 { 1 } else { 2 };
                    let factors: Vec<f64> =
                        factors.iter().flatten().flat_map(|a| std::iter::repeat_n(a[0], each)).collect();
                    return combine(y, each * columns, &factors, x);
                }
                let old = y.clone();
                for (i, y) in y.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                    let term = |t: usize| times(factors[t][i % columns], pairs(x[t].unwrap_or(&old))[i]);
                    *y = (1..x.len()).fold(term(0), |sum, t| plus(sum, term(t)));
                }
            };
            let same = |value: f64| vec![[value, 0.0]; columns];
            let [of_a, of_b, mut of_y, mut of_z] = all.clone();
            let negative: Vec<Pair> = number(0).iter().map(|[re, im]| [-re, -im]).collect();
            combined(&mut of_y, &[same(1.0), negative], &[None, Some(&of_a)]);
            let before = of_z.clone();
            combined(&mut of_z, &[number(1), same(3.0), same(1.0)], &[Some(&of_b), Some(&of_y), None]);
            let change: Vec<f64> = of_z.iter().zip(&before).map(|(new, old)| new - old).collect();
            let grains = rows.div_ceil(GRAIN);
            let mut sums = vec![[f64::NAN; 2]; grains * columns * WIDTH];
            for (grain, sums) in sums.chunks_exact_mut(columns * WIDTH).enumerate() {
                for (at, x, y) in [(4, &of_y, &of_y), (0, &of_a, &of_z), (2, &of_z, &change)] {
                    let here = 2 * grain * GRAIN * columns..2 * ((grain + 1) * GRAIN).min(rows) * columns;
                    let (x, y) = (&x[here.clone()], &y[here]);
                    let mut lanes = vec![0.0; 2 * LANES * columns];
                    let whole = x.len() / lanes.len() * lanes.len();
                    accumulate_complex(&x[..whole], &y[..whole], &mut lanes);
                    let mut half = LANES * columns;
                    while half > columns {
                        half /= 2;
                        (0..2 * half).for_each(|i| lanes[i] += lanes[2 * half + i]);
                    }
                    let (x, y) = (pairs(&x[whole..]), pairs(&y[whole..]));
                    for c in 0..columns {
                        let product = |i: usize| times([x[i][0], -x[i][1]], y[i]);
                        let last = (c..x.len()).step_by(columns).map(product).fold([0.0; 2], plus);
                        sums[c * WIDTH + at] = plus([lanes[2 * c], lanes[2 * c + 1]], last);
                    }
                }
            }
            let mut there = all;
            let mut found = vec![f64::NAN; 2 * sums.len()];
            let at = |v: &mut [f64]| (Address(v.as_mut_ptr().expose_provenance() as u64), 8 * v.len() as u64);
            let [a, b, y, z] = &mut there;
            let vectors = [at(a), at(b), at(y), at(z)];
            let part = VectorPart { rows, vectors: &vectors, sums: Some(at(&mut found)) };
            let at = VectorsAt {
                columns,
                grain: GRAIN,
                numbers: at(&mut numbers).0,
                stride,
                own: OWN,
                unless: None,
                width: WIDTH,
                read: 2,
                updated: 2,
                parts: &[part],
            };
            if !vector_task(&program, &at).unwrap().iter().all(|launch| run(launch, seed)) {
                return;
            }
            let what = format!("{rows} rows, {columns} columns, real: {are_real}");
            assert_same(&there[2], &of_y, same_f64, &what);
            assert_same(&there[3], &of_z, same_f64, &what);
            assert_same(&found, sums.as_flattened(), same_f64, &what);
        }
    }
}

#[test]
fn columns_that_are_done_stay_as_they_are() {
    let mut case = Case::new(70, 3, 256, &mut rng(9));
    // The first has ended, the second is left alone by a number of its own.
    case.numbers[0] = 1.0;
    (case.numbers[OWN + 1], case.numbers[OWN + 2 + OWN + 1], case.numbers[2 * (OWN + 2) + OWN + 1]) =
        (0.0, 2.0, 0.0);
    let before = case.updated.clone();
    if launched(std::slice::from_mut(&mut case), &program(), Some(1), 9).is_none() {
        return;
    }
    for (now, before) in case.updated.iter().zip(&before) {
        for (i, (now, before)) in now.iter().zip(before).enumerate() {
            assert_eq!(now == before, i % 3 < 2, "{i}");
        }
    }
    let is_written = |c: usize| !case.sums[c * WIDTH].is_nan();
    assert_eq!([0, 1, 2].map(is_written), [false, false, true]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let (mut program, vector) = (program(), (Address(64), 64));
    let part = |read: &[(Address, u64)], width: usize| {
        let vectors = [read, &[vector; 2]].concat();
        let part = VectorPart { rows: 8, vectors: &vectors, sums: Some((Address(64), 40)) };
        let at = VectorsAt {
            columns: 1,
            grain: 256,
            numbers: Address(64),
            stride: 5,
            own: OWN,
            unless: None,
            width,
            read: read.len(),
            updated: 2,
            parts: &[part],
        };
        vector_task(&program, &at).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(part(&[vector; 3], WIDTH), Ok(()));
    for (wrong, word) in [
        (part(&[vector; 2], WIDTH), "number of vectors"),
        (part(&[vector, vector, (Address(64), 56)], WIDTH), "that is read"),
        (part(&[vector; 3], 6), "the sums"),
        (part(&[vector; 15], WIDTH), "at most 16"),
    ] {
        let said = wrong.expect_err(word);
        assert!(said.contains(word), "{said}");
    }
    (0..3).for_each(|_| program.dot_change(3, 1));
    assert!(!program.fits(), "three changes");
}
