//! Digits that are promised beside digits that are right, by 200-bit arithmetic.

use dashu_float::FBig;
use dashu_float::round::mode::HalfEven;
use zellige_stochastic::{Eight, Samples, Scope, Sixteen, Stochastic, Three};

type Big = FBig<HalfEven, 2>;

fn big(x: f64) -> Big {
    Big::try_from(x).expect("finite").with_precision(200).value()
}

/// Digits of `x` that are right: -log10 of its relative error, at most 15.
fn right_digits(x: f64, truth: &Big) -> f64 {
    let error = (big(x) - truth).to_f64().value().abs();
    let scale = truth.to_f64().value().abs();
    if error == 0.0 { 15.0 } else { (scale / error).log10().min(15.0) }
}

/// Uniform numbers in (-1, 1).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
    fn below(&mut self, n: usize) -> usize {
        ((self.next() + 1.0) * 0.5 * n as f64) as usize % n
    }
}

/// Numbers of many sizes, and for `cancelled` of them nearly the negative sum at the end.
fn terms(numbers: &mut Numbers, n: usize, cancelled: bool) -> Vec<f64> {
    let mut x: Vec<f64> = (0..n).map(|_| numbers.next() * 10f64.powi(numbers.below(12) as i32)).collect();
    if cancelled {
        let sum: f64 = x.iter().sum();
        x.push(-sum * (1.0 + numbers.next() * 10f64.powi(-(numbers.below(14) as i32))));
    }
    x
}

/// A matrix: random, with a dominant diagonal, Hilbert's, or with nearly dependent rows.
fn matrix(numbers: &mut Numbers, n: usize, kind: usize) -> Vec<f64> {
    let mut a: Vec<f64> = (0..n * n).map(|_| numbers.next()).collect();
    match kind {
        0 => {}
        1 => (0..n).for_each(|i| a[i * n + i] += n as f64),
        2 => (0..n * n).for_each(|at| a[at] = 1.0 / (1.0 + (at / n + at % n) as f64)),
        _ => {
            let near = 10f64.powi(-(1 + numbers.below(9) as i32));
            for j in 0..n {
                a[(n - 1) * n + j] = a[j] + near * a[(n - 1) * n + j];
            }
        }
    }
    a
}

/// Elimination with partial pivoting; `key` orders candidates.
fn solve<N: Clone>(
    n: usize,
    mut a: Vec<N>,
    mut b: Vec<N>,
    key: impl Fn(&N) -> f64,
    fma: impl Fn(&N, &N, &N) -> N,
    over: impl Fn(&N, &N) -> N,
) -> Vec<N> {
    for k in 0..n {
        let pivot = (k..n).max_by(|&i, &j| key(&a[i * n + k]).total_cmp(&key(&a[j * n + k]))).expect("rows");
        (0..n).for_each(|j| a.swap(k * n + j, pivot * n + j));
        b.swap(k, pivot);
        for i in k + 1..n {
            let factor = over(&a[i * n + k], &a[k * n + k]);
            for j in k + 1..n {
                a[i * n + j] = fma(&a[i * n + j], &factor, &a[k * n + j]);
            }
            b[i] = fma(&b[i], &factor, &b[k]);
        }
    }
    for k in (0..n).rev() {
        for j in k + 1..n {
            b[k] = fma(&b[k], &a[k * n + j], &b[j].clone());
        }
        b[k] = over(&b[k], &a[k * n + k]);
    }
    b
}

/// Pairs of promised and right digits.
type Pairs = Vec<(u32, f64)>;

fn sums<S: Samples>(numbers: &mut Numbers, cases: usize) -> Pairs {
    (0..cases)
        .map(|case| {
            let n = 10 + numbers.below(990);
            let x = terms(numbers, n, case % 2 == 0);
            let truth = x.iter().fold(big(0.0), |sum, &x| sum + big(x));
            let sum = x.iter().fold(Stochastic::<f64, S>::new(0.0), |sum, &x| sum + x);
            (sum.digits(), right_digits(sum.mean(), &truth))
        })
        .collect()
}

/// Products of sums of two terms that may cancel.
fn products<S: Samples>(numbers: &mut Numbers, cases: usize) -> Pairs {
    (0..cases)
        .map(|_| {
            let n = 2 + numbers.below(40);
            let factors: Vec<[f64; 2]> = (0..n)
                .map(|_| {
                    let x = 1.0 + numbers.next() / 3.0;
                    [x, -x * (1.0 - 10f64.powi(-(numbers.below(9) as i32)) * (1.0 + 0.1 * numbers.next()))]
                })
                .collect();
            let third = Stochastic::<f64, S>::new(1.0) / 3.0;
            let truth = factors
                .iter()
                .fold(big(1.0) / big(3.0), |p, [x, y]| p * (big(*x) + big(*y) / big(3.0) * big(3.0)));
            let product = factors.iter().fold(third, |p, &[x, y]| p * (Stochastic::new(y) / 3.0 * 3.0 + x));
            (product.digits(), right_digits(product.mean(), &truth))
        })
        .collect()
}

fn systems<S: Samples>(numbers: &mut Numbers, cases: usize, largest: usize) -> Pairs {
    let mut pairs = Vec::new();
    for case in 0..cases {
        let n = if case % 4 == 2 { 3 + numbers.below(8) } else { 3 + numbers.below(largest - 2) };
        let a = matrix(numbers, n, case % 4);
        let b: Vec<f64> = (0..n).map(|_| numbers.next()).collect();
        let truth = solve(
            n,
            a.iter().map(|&x| big(x)).collect(),
            b.iter().map(|&x| big(x)).collect(),
            |x| x.to_f64().value().abs(),
            |c, f, x| c - f * x,
            |a, b| a / b,
        );
        let number = |x: &f64| Stochastic::<f64, S>::new(*x);
        let x = solve(
            n,
            a.iter().map(number).collect(),
            b.iter().map(number).collect(),
            Stochastic::pivot_key,
            |&c, &f, &x| c - f * x,
            |&a, &b| a / b,
        );
        pairs.extend(x.iter().zip(&truth).map(|(x, truth)| (x.digits(), right_digits(x.mean(), truth))));
    }
    pairs
}

/// Prints one row of the table, and returns the share of promises that are at most one digit too
/// high.
fn row(what: &str, samples: usize, pairs: &Pairs) -> f64 {
    let share = |more: f64| {
        pairs.iter().filter(|&&(promised, right)| f64::from(promised) <= right + more).count() as f64
            / pairs.len() as f64
    };
    let mean = |f: fn(&(u32, f64)) -> f64| pairs.iter().map(f).sum::<f64>() / pairs.len() as f64;
    println!(
        "{what:<9} {samples:>2} samples, {:>5} numbers: promised {:>4.1} digits, right {:>4.1}; at most one too many {:.2} %, two {:.2} %",
        pairs.len(),
        mean(|&(promised, _)| f64::from(promised)),
        mean(|&(_, right)| right),
        100.0 * share(1.0),
        100.0 * share(2.0)
    );
    share(1.0)
}

fn check<S: Samples>() {
    let scale = std::env::var("ZELLIGE_TEST_SCALE").ok().and_then(|s| s.parse().ok()).unwrap_or(1usize);
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    Scope::new(1).run(|| {
        for (what, pairs) in [
            ("sums", sums::<S>(&mut numbers, 80 * scale)),
            ("products", products::<S>(&mut numbers, 60 * scale)),
            ("systems", systems::<S>(&mut numbers, 60 * scale, if scale > 1 { 200 } else { 24 })),
        ] {
            let share = row(what, S::COUNT, &pairs);
            assert!(share >= 0.95, "{what}: {share}");
        }
    });
}

/// More promised than right in at most one of twenty numbers.
#[test]
fn at_most_one_digit_too_many_is_promised() {
    check::<Three>();
    check::<Eight>();
    check::<Sixteen>();
}
