//! Systems whose rows, columns and right-hand sides have any size, against residuals in binary128.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use zellige_runtime::Runtime;
use zellige_sparse::system::{Options, solve};
use zellige_sparse::{Csr, Error};
use zellige_tests::amount;

/// `tests/fixtures/residual128.c`, running.
struct Quad {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    _folder: tempfile::TempDir,
}

impl Quad {
    /// Starts the process; `None`, with a printed line, if no compiler supports binary128.
    fn start() -> Option<Quad> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("residual128");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/residual128.c");
        let compiled = Command::new("cc").args(["-O2", "-o"]).arg(&program).arg(source).arg("-lm").output();
        if !compiled.as_ref().is_ok_and(|output| output.status.success()) {
            zellige_tests::skipped("not installed: a C compiler with __float128");
            return None;
        }
        let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Some(Quad { child, to, from, _folder: folder })
    }

    /// Returns the relative residual, and with `direct` that of the solution by elimination in
    /// binary128, which is negative for a singular matrix.
    fn ask(&mut self, a: &Csr, b: &[f64], x: &[f64], direct: bool) -> (f64, f64) {
        let triplets: Vec<(i32, i32, f64)> = a
            .iter()
            .enumerate()
            .flat_map(|(i, (column, value))| {
                column.iter().zip(value).map(move |(&j, &value)| (i as i32, j as i32, value))
            })
            .collect();
        let mut bytes = Vec::new();
        let mut int = |value: i32| bytes.extend(value.to_ne_bytes());
        [b.len() as i32, triplets.len() as i32, direct.into()].into_iter().for_each(&mut int);
        triplets.iter().for_each(|(i, _, _)| int(*i));
        triplets.iter().for_each(|(_, j, _)| int(*j));
        let numbers = triplets.iter().map(|(_, _, value)| value).chain(b).chain(x);
        numbers.for_each(|number| bytes.extend(number.to_ne_bytes()));
        self.to.write_all(&bytes).unwrap();
        self.to.flush().unwrap();
        let mut line = String::new();
        self.from.read_line(&mut line).unwrap();
        let mut words = line.split_whitespace().map(|word| word.parse::<f64>().unwrap());
        (words.next().unwrap(), words.next().unwrap_or(f64::NAN))
    }
}

impl Drop for Quad {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Numbers of a seed (splitmix64).
struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.word() % n as u64) as usize
    }

    /// Returns a number between -1 and 1.
    fn number(&mut self) -> f64 {
        self.word() as i64 as f64 / i64::MAX as f64
    }

    fn exponent(&mut self, most: i32) -> i32 {
        self.below(2 * most as usize + 1) as i32 - most
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Definite,
    Indefinite,
    General,
    Permuted,
    Skew,
    /// No diagonal stands out: it may be ill-conditioned, or singular.
    Loose,
}

const KINDS: [Kind; 6] =
    [Kind::Definite, Kind::Indefinite, Kind::General, Kind::Permuted, Kind::Skew, Kind::Loose];

struct System {
    what: String,
    a: Csr,
    b: Vec<f64>,
}

/// Nonzeros of a matrix of numbers near 1.
fn near_one(random: &mut Random, kind: Kind, n: usize) -> Vec<(usize, usize, f64)> {
    let mut all: Vec<(usize, usize, f64)> = Vec::new();
    let is_symmetric = matches!(kind, Kind::Definite | Kind::Indefinite | Kind::Skew);
    let mut sums = vec![0.0; n];
    for i in 0..n {
        for _ in 0..1 + random.below(4) {
            let (j, value) = (random.below(n), random.number());
            if i == j || all.iter().rev().take(8 * n).any(|&(r, c, _)| (r, c) == (i, j) || (r, c) == (j, i)) {
                continue;
            }
            all.push((i, j, value));
            sums[i] += value.abs();
            if is_symmetric {
                all.push((j, i, if kind == Kind::Skew { -value } else { value }));
                sums[j] += value.abs();
            }
        }
    }
    for i in 0..n {
        let size = 1.1 * sums[i] + 0.5 + random.number().abs();
        match kind {
            Kind::Definite => all.push((i, i, size)),
            Kind::Indefinite | Kind::General | Kind::Permuted => {
                all.push((i, i, if random.below(2) == 0 { size } else { -size }));
            }
            Kind::Loose => all.push((i, i, random.number())),
            // Pairs of rows hold each other up.
            Kind::Skew => {}
        }
    }
    if kind == Kind::Skew {
        let most = 1.1 * sums.iter().fold(0.0, |most: f64, sum| most.max(*sum)) + 1.0;
        all.retain(|(i, j, _)| i / 2 != j / 2);
        (0..n / 2).for_each(|k| all.extend([(2 * k, 2 * k + 1, most), (2 * k + 1, 2 * k, -most)]));
    }
    if kind == Kind::Permuted {
        let shift = 1 + random.below(n);
        all.iter_mut().for_each(|(i, _, _)| *i = (*i + shift) % n);
    }
    all
}

fn system(seed: u64) -> Result<System, Error> {
    let mut random = Random(seed);
    let kind = KINDS[random.below(KINDS.len())];
    let largest = if random.below(8) == 0 { 400 } else { 40 };
    let mut n = 1 + random.below(largest);
    if kind == Kind::Skew {
        n += n % 2;
    }
    let nonzeros = near_one(&mut random, kind, n);
    let most = [0, 0, 10, 60, 150, 300, 450][random.below(7)];
    let mut exponents = || -> Vec<i32> { (0..n).map(|_| random.exponent(most)).collect() };
    let (mut rows, mut columns) = (exponents(), exponents());
    let uniform = exponents()[0];
    let which = random.below(5);
    match which {
        0 => columns.fill(0),
        1 => rows.fill(0),
        2 => columns.clone_from(&rows),
        3 => (rows, columns) = (vec![uniform; n], vec![uniform; n]),
        _ => {}
    }
    let scaled = nonzeros.iter().map(|&(i, j, v)| (i as u32, j as u32, libm::ldexp(v, rows[i] + columns[j])));
    let triplets: Vec<(u32, u32, f64)> = scaled.collect();
    let y: Vec<f64> = (0..n).map(|_| random.number()).collect();
    let mut product = vec![0.0; n];
    nonzeros.iter().for_each(|&(i, j, v)| product[i] += v * y[j]);
    // The solution is y / columns times this: in range, and so is the right-hand side.
    let range = |exponents: &[i32], sign: i32| {
        let of = exponents.iter().map(|exponent| sign * exponent);
        (of.clone().min().unwrap(), of.max().unwrap())
    };
    let ((least_x, most_x), (least_b, most_b)) = (range(&columns, -1), range(&rows, 1));
    let (low, high) = (-960 - least_x.min(least_b), 960 - most_x.max(most_b));
    let power = if low < high { low + random.below((high - low) as usize) as i32 } else { 0 };
    let power = if random.below(3) == 0 { 0.clamp(low.min(high), high.max(low)) } else { power };
    let b: Vec<f64> = product.iter().zip(&rows).map(|(v, row)| libm::ldexp(*v, row + power)).collect();
    let what = format!("seed {seed}: {kind:?}, n {n}, scaling {which} to 2^{most}, b times 2^{power}");
    Ok(System { what, a: Csr::from_triplets(n, n, &triplets)?, b })
}

const TOLERANCE: f64 = 1e-10;
/// Seeds of systems whose residual in float64 meets the tolerance by rounding errors: 1.6e-10 was
/// taken for 9.9e-11.
const NEAR_ROUNDING: [u64; 1] = [16_698];

/// An answer that is reported as converged is correct, and a system that elimination in binary128
/// solves is not given up.
#[test]
fn systems_of_any_size_are_solved_or_refused_by_name() {
    let Some(mut quad) = Quad::start() else { return };
    let rt = Runtime::builder().workers(1).build().unwrap();
    let first: u64 = std::env::var("ZELLIGE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0);
    let (mut converged, mut refused, mut wrong) = (0, 0, Vec::new());
    for seed in (first..first + amount(300) as u64).chain(NEAR_ROUNDING) {
        let System { what, a, b } = system(seed).unwrap();
        let mut x = vec![0.0; b.len()];
        let begun = std::time::Instant::now();
        let found = solve(&rt, &a, &b, &mut x, &Options::default(), &mut ());
        let took = begun.elapsed();
        if took.as_secs() >= 10 {
            eprintln!("{what}: {took:?}");
        }
        let said = match &found {
            Ok(answer) if answer.solution.reason.is_converged() => {
                converged += 1;
                let (residual, _) = quad.ask(&a, &b, &x, false);
                // A residual in float64 differs from that in binary128 by its rounding errors.
                if residual.is_nan() || residual > 1.001 * TOLERANCE {
                    wrong.push(format!("{what}: called converged, with a residual of {residual:e}"));
                }
                continue;
            }
            Ok(answer) => format!(
                "{:?} at {:e}",
                answer.solution.reason,
                answer.solution.true_residual / answer.solution.rhs
            ),
            Err(error) => error.to_string(),
        };
        refused += 1;
        let (_, direct) = quad.ask(&a, &b, &x, true);
        if (0.0..0.5 * TOLERANCE).contains(&direct) {
            wrong.push(format!("{what}: {said}; elimination leaves {direct:e}"));
        }
    }
    println!("{converged} converged, {refused} refused");
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), converged + refused, wrong.join("\n"));
}

fn tridiagonal(n: usize, scale: impl Fn(usize) -> f64) -> Csr {
    let n = n as u32;
    let element = |i: u32, j: u32| (i, j, scale(i as usize) * if i == j { 2.0 } else { -1.0 });
    let row = |i: u32| (i.saturating_sub(1)..(i + 2).min(n)).map(move |j| (i, j));
    let all: Vec<_> = (0..n).flat_map(row).map(|(i, j)| element(i, j)).collect();
    Csr::from_triplets(n as usize, n as usize, &all).unwrap()
}

/// A run that makes no step ends, whatever its norms underflow to.
#[test]
fn rows_of_other_units_end() {
    let rt = Runtime::builder().workers(1).build().unwrap();
    for (n, sizes) in [(3, [1e-150, 1.0, 1e150]), (3, [1.0, 1.0, 1e300]), (400, [1.0, 1.0, 1e300])] {
        let scale = |i: usize| sizes[i * 3 / n];
        let (a, mut x) = (tridiagonal(n, scale), vec![0.0; n]);
        let b: Vec<f64> = a.iter().map(|(_, value)| value.iter().sum()).collect();
        let answer = solve(&rt, &a, &b, &mut x, &Options::default(), &mut ()).unwrap();
        assert!(answer.solution.reason.is_converged(), "{:?}", answer.solution);
        // The least rows are below the tolerance of the largest.
        assert!(
            (x[n - 1] - x[n - 2] - 0.5 * x[n - 1]).abs() < 1.0 && x.iter().all(|x| x.is_finite()),
            "{x:?}"
        );
    }
}

/// Right-hand sides to the end of the range of numbers: what is written has the residual, or it is
/// said that none has.
#[test]
fn right_hand_sides_of_any_size_are_solved_for() {
    let Some(mut quad) = Quad::start() else { return };
    let rt = Runtime::builder().workers(1).build().unwrap();
    for n in [3, 50, 400] {
        let a = tridiagonal(n, |_| 1.0);
        let y: Vec<f64> = (0..n).map(|i| (i as f64 / 7.0).sin() + 0.3).collect();
        for size in [1e-290, 1e-300, 1e-304, 1e-306, 1e-308, 1e-310, 1e-320, 1e300, 1e307] {
            let product: Vec<f64> =
                a.iter().map(|(c, v)| c.iter().zip(v).map(|(&j, v)| v * y[j as usize]).sum()).collect();
            let b: Vec<f64> = product.iter().map(|v| v * size).collect();
            let mut x = vec![0.0; n];
            let answer = solve(&rt, &a, &b, &mut x, &Options::default(), &mut ()).unwrap();
            let (residual, direct) = quad.ask(&a, &b, &x, true);
            let said = format!("n {n}, b {size:e}: {:?}, {residual:e}, {direct:e}", answer.solution);
            match answer.solution.reason.is_converged() {
                true => assert!(residual <= 1.001 * TOLERANCE && answer.backward_error < 1e-9, "{said}"),
                false => assert!(
                    direct > 0.5 * TOLERANCE && answer.solution.reason.name() == "out of range",
                    "{said}"
                ),
            }
        }
    }
}
