//! Chapter 1: errors of floating-point arithmetic, with the digits of stochastic arithmetic.

use std::hint::black_box;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zellige_stochastic::{Categories, Category, Continuous, Perturbation, Scope, Stochastic};

use super::super::Context;
use super::super::found::Found;

/// Seed of random roundings and of random summands.
const SEED: u64 = 1;

/// Sums `1 + 1/2 + ... + 1/n` in FP32 from either end.
pub fn harmonic(_: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let up = |n: u32| (1..=n).fold(0f32, |sum, i| sum + 1.0 / i as f32);
    let down = |n: u32| (1..=n).rev().fold(0f32, |sum, i| sum + 1.0 / i as f32);
    let wide = |n: u32| (1..=n).rev().fold(0f64, |sum, i| sum + 1.0 / f64::from(i));
    for (column, n) in [("n = 10^6", 1_000_000), ("n = 10^7", 10_000_000)] {
        found.value("large terms first", column, up(n).into());
        found.value("small terms first", column, down(n).into());
        found.value("FP64", column, wide(n));
    }
    let digits = |terms: &mut dyn Iterator<Item = u32>| {
        Scope::new(SEED).run(|| {
            let one = Stochastic::<f32>::new(1.0);
            terms.map(|i| one / i as f32).sum::<Stochastic<f32>>().digits()
        })
    };
    let million = 1_000_000;
    found.value("large terms first", "exact digits, n = 10^6", f64::from(digits(&mut (1..=million))));
    found.value("small terms first", "exact digits, n = 10^6", f64::from(digits(&mut (1..=million).rev())));
    let printed = [15.403_683_f32, 16.686_031_f32];
    found.judge(
        "harmonicSum_1(1000000) is 15.403683, harmonicSum_2(1000000) is 16.686031",
        [up(million), down(million)] == printed,
        format!(
            "these are the sums of 10^7 terms; of 10^6 they are {:.6} and {:.6}",
            up(million),
            down(million)
        ),
    );
    let error = |sum: f32| (f64::from(sum) - wide(million)).abs();
    found.judge(
        "sums from the small terms on are more accurate",
        error(down(million)) < error(up(million)),
        format!("errors of 10^6 terms: {:.1e} and {:.1e}", error(up(million)), error(down(million))),
    );
    Ok(found)
}

/// Computes `x^2 - y^2` in two ways.
pub fn squares(_: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let (x, y) = (1.0 + 2f64.powi(-29), 1.0 + 2f64.powi(-30));
    let plain = black_box(x) * x - black_box(y) * y;
    let product = (black_box(x) - y) * (x + y);
    found.value("x*x - y*y", "result", plain);
    found.value("(x-y)*(x+y)", "result", product);
    let scope = Scope::new(SEED);
    let digits = scope.run(|| {
        let [x, y] = [x, y].map(Stochastic::<f64>::new);
        [(x * x - y * y).digits(), ((x - y) * (x + y)).digits()]
    });
    found.value("x*x - y*y", "exact digits", digits[0].into());
    found.value("(x-y)*(x+y)", "exact digits", digits[1].into());
    // x - y is 2^-30, x + y is 2 + 3 2^-30: both exactly, and so is their product.
    let exact = 2f64.powi(-29) + 3.0 * 2f64.powi(-60);
    found.judge(
        "the difference of squares loses digits, the product of sum and difference none",
        plain != exact && product == exact,
        format!("x = 1 + 2^-29, y = 1 + 2^-30 give both printed numbers; exactly {exact:.16e}"),
    );
    Ok(found)
}

/// Splits FP32 numbers into their fields.
pub fn fields(_: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    for (name, x) in [("+0", 0f32), ("-0", -0.0), ("1", 1.0), ("-1", -1.0), ("10.375", 10.375)] {
        let bits = x.to_bits();
        found.value(name, "sign", f64::from(bits >> 31));
        found.value(name, "exponent", f64::from(bits >> 23 & 0xff));
        found.value(name, "significand", f64::from(bits & 0x7f_ffff));
    }
    let is_same = 10.375f32.to_bits() == 0b1000_0010 << 23 | 0b0100_1100 << 15;
    found.judge("10.375 is 0 1000 0010 0100 1100 ...", is_same, "fields as integers");
    Ok(found)
}

/// Evaluates Rump's polynomial at (77617, 33096).
pub fn rump(_: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let (x, y) = (77617.0f64, 33096.0f64);
    let single = {
        let (x, y) = (black_box(x as f32), black_box(y as f32));
        let (x2, y2) = (x * x, y * y);
        let (y4, y6) = (y2 * y2, y2 * y2 * y2);
        333.75 * y6 + x2 * (11.0 * x2 * y2 - y6 - 121.0 * y4 - 2.0) + 5.5 * y4 * y4 + x / (2.0 * y)
    };
    let double = {
        let (x, y) = (black_box(x), black_box(y));
        let (x2, y2) = (x * x, y * y);
        let (y4, y6) = (y2 * y2, y2 * y2 * y2);
        333.75 * y6 + x2 * (11.0 * x2 * y2 - y6 - 121.0 * y4 - 2.0) + 5.5 * y4 * y4 + x / (2.0 * y)
    };
    // y^8 - y^8 and the like cancel first in this order: what is left is x / (2 y).
    let cancelled = x / (2.0 * y);
    let exact = exact_rump();
    found.value("float", "P", single.into());
    found.value("double", "P", double);
    found.value("double, x / (2 y) alone", "P", cancelled);
    found.value("exact", "P", exact);
    let scope = Scope::new(SEED);
    let value = scope.run(|| {
        let [x, y] = [x, y].map(Stochastic::<f64>::new);
        let (x2, y2) = (x * x, y * y);
        let (y4, y6) = (y2 * y2, y2 * y2 * y2);
        333.75 * y6 + x2 * (11.0 * x2 * y2 - y6 - 121.0 * y4 - 2.0) + 5.5 * y4 * y4 + x / (2.0 * y)
    });
    let lost = scope.report().count(Category::Cancellation);
    found.value("double", "exact digits", value.digits().into());
    found.judge(
        "in single and in double no digit is right",
        [single.into(), double].iter().all(|p: &f64| (p / exact - 1.0).abs() > 0.5) && value.is_zero(),
        format!("stochastic arithmetic finds {} exact digits and {lost} cancellation(s)", value.digits()),
    );
    found.judge(
        "in double the result is 1.17260394005318",
        (double - 1.172_603_940_053_18).abs() < 1e-14,
        format!("in the order of the formula it is {double:.4e}: all other terms cancel where it is x / (2 y) = {cancelled:.14}"),
    );
    Ok(found)
}

/// Returns the value by integers: the terms without `x / (2 y)`, times four, fit 128 bits.
fn exact_rump() -> f64 {
    let (x, y) = (77617i128, 33096i128);
    let (x2, y2) = (x * x, y * y);
    let y6 = y2 * y2 * y2;
    // 4 P = 1335 y^6 + 4 x^2 (...) + 22 y^8 + 2 x / y.
    let four = 1335 * y6 + 4 * x2 * (11 * x2 * y2 - y6 - 121 * y2 * y2 - 2) + 22 * y6 * y2;
    four as f64 / 4.0 + x as f64 / (2 * y) as f64
}

/// Bounds sums and a product of intervals, whose ends are rounded outwards.
pub fn intervals(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let (count, mut contained, mut widest) = (if context.full { 1_000_000 } else { 10_000 }, true, 0.0f64);
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    for n in [10, 100, 1000] {
        let (mut sum, mut exact) = ([0.0, 0.0], 0i128);
        for _ in 0..n {
            // Products of 20-bit integers, scaled: exact in 128 bits, and the sum is rounded.
            let [a, b] = [0; 2].map(|_| random.random_range(-0xf_ffff_i64..0xf_ffff));
            let product = [a as f64 / 3.0, b as f64];
            sum = add(sum, multiply(around(product[0]), [product[1]; 2]));
            exact += i128::from(a) * i128::from(b);
        }
        let value = exact as f64 / 3.0;
        contained &= sum[0] <= value && value <= sum[1];
        widest = widest.max((sum[1] - sum[0]) / value.abs());
        found.value(format!("inner product of {n}"), "width, relative", (sum[1] - sum[0]) / value.abs());
        found.value(
            format!("inner product of {n}"),
            "error of FP64, relative",
            ((sum[0] / 2.0 + sum[1] / 2.0) / value - 1.0).abs(),
        );
    }
    let mut same = [0.0; 2];
    for _ in 0..count {
        let x = around(random.random_range(1.0..2.0));
        same = add(x, [-x[1], -x[0]]);
    }
    found.value("x - x", "width", same[1] - same[0]);
    found.judge(
        "intervals contain the exact result",
        contained,
        format!("relative widths up to {widest:.0e}"),
    );
    found.judge("the same variable twice makes them too wide", same[1] > 0.0, "x - x is not [0, 0]");
    Ok(found)
}

/// Returns the interval of the neighbours of a rounded number.
fn around(x: f64) -> [f64; 2] {
    [x.next_down(), x.next_up()]
}

fn add(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    [(a[0] + b[0]).next_down(), (a[1] + b[1]).next_up()]
}

fn multiply(a: [f64; 2], b: [f64; 2]) -> [f64; 2] {
    let ends = [a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1]];
    let (low, high) =
        ends.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
    [low.next_down(), high.next_up()]
}

/// Draws a number with a normal distribution (Box and Muller 1958).
fn gaussian(random: &mut ChaCha8Rng, mean: f64, deviation: f64) -> f64 {
    let (u, v) = (random.random_range(f64::MIN_POSITIVE..1.0), random.random_range(0.0..1.0));
    mean + deviation * (-2.0 * f64::ln(u)).sqrt() * f64::cos(std::f64::consts::TAU * v)
}

/// Compares the formulas of continuous stochastic arithmetic with samples of Gaussian variables.
pub fn continuous(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let count = if context.full { 1_000_000 } else { 20_000 };
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let ([a, b], deviation) = ([2.0, 3.0], [1e-4, 4e-4]);
    let (x, y) = (Continuous::new(a, deviation[0]), Continuous::new(b, deviation[1]));
    type Operation = fn(f64, f64) -> f64;
    let rows: [(&str, Continuous, Operation); 4] = [
        ("x + y", x + y, |x, y| x + y),
        ("x - y", x - y, |x, y| x - y),
        ("x y", x * y, |x, y| x * y),
        ("x / y", x / y, |x, y| x / y),
    ];
    let mut worst = 0.0f64;
    for (name, formula, operation) in rows {
        let mut draw = || {
            let x = gaussian(&mut random, a, deviation[0]);
            operation(x, gaussian(&mut random, b, deviation[1]))
        };
        let exact = operation(a, b);
        let square = (0..count).map(|_| (draw() - exact).powi(2)).sum::<f64>() / f64::from(count);
        found.value(name, "deviation, formula", formula.deviation());
        found.value(name, "deviation, samples", square.sqrt());
        found.value(name, "exact digits", f64::from(formula.digits(1.96)));
        worst = worst.max((square.sqrt() / formula.deviation() - 1.0).abs());
    }
    found.judge(
        "deviations of the four operations follow the formulas",
        worst < 5.0 / (2.0 * f64::from(count)).sqrt(),
        format!("deviations of {count} samples differ by at most {:.2} %", 100.0 * worst),
    );
    Ok(found)
}

/// Computes digits of a sum by Monte Carlo arithmetic, for several virtual precisions.
pub fn monte_carlo(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let terms = if context.full { 100_000 } else { 1000 };
    let exact: f64 = (1..=terms).rev().map(|k| 1.0 / f64::from(k)).sum();
    let (mut points, mut worst) = (Vec::new(), 0.0f64);
    for bits in [10, 20, 30, 40, 50] {
        let scope = Scope::with(SEED, Perturbation::MonteCarlo { bits }, Categories::NONE);
        let sum = scope.run(|| {
            (1..=terms).fold(Stochastic::<f64>::new(0.0), |sum, k| {
                sum + Stochastic::new(1.0) / Stochastic::new(f64::from(k))
            })
        });
        let right = -(sum.samples().iter().map(|x| (x / exact - 1.0).abs()).fold(0.0, f64::max)).log10();
        let row = format!("virtual precision of {bits} bits");
        found.value(&row, "exact digits", f64::from(sum.digits()));
        found.value(&row, "right digits of the worst sample", right);
        points.push((f64::from(bits), f64::from(sum.digits())));
        worst = worst.max((f64::from(sum.digits()) - right).abs());
    }
    found.curve("harmonic sum", points);
    found.judge(
        "the spread of samples with relative errors of 2^-t tells the digits of a result",
        worst <= 1.5,
        format!("digits differ by at most {worst:.1} from those of a sum in FP64"),
    );
    Ok(found)
}

/// Adds numbers of different magnitude, the smaller one with fewer and fewer bits.
pub fn lost_bits(context: &Context<'_>) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let count = if context.full { 1_000_000 } else { 20_000 };
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    for shift in [10, 20, 30, 40] {
        let pairs: Vec<(f64, f64)> = (0..count)
            .map(|_| {
                let mut draw = || random.random_range(1.0..2.0);
                (draw(), draw() * 0.5f64.powi(shift))
            })
            .collect();
        let unchanged = |kept: i32| {
            let same = pairs.iter().filter(|(a, b)| a + shortened(*b, kept) == a + b).count();
            100.0 * same as f64 / f64::from(count)
        };
        let points: Vec<(f64, f64)> = (1..=53).map(|kept| (kept.into(), unchanged(kept))).collect();
        let needed = points.iter().find(|point| point.1 > 99.0).map_or(53.0, |point| point.0);
        found.value(format!("b = 2^-{shift} a"), "bits of b that are lost", f64::from(shift));
        found.value(format!("b = 2^-{shift} a"), "bits of b for 99 % of sums", needed);
        found.curve(format!("b = 2^-{shift} a"), points);
    }
    let needed = |shift: i32| {
        let row = format!("b = 2^-{shift} a");
        found
            .values
            .iter()
            .find(|value| value.0 == row && value.1.contains("99 %"))
            .map_or(53.0, |value| value.2)
    };
    // Eight bits more leave one sum of 256 on the other side of a tie.
    let agrees = [20, 30, 40].iter().all(|&shift| needed(shift) <= f64::from(53 - shift + 8));
    found.judge(
        "reducing the precision of b by the bits that are lost does not change a + b",
        agrees,
        "for 99 % of random sums b needs its 53 bits less those that are lost, and up to eight more against ties",
    );
    Ok(found)
}

/// Returns a number rounded to so many significant bits.
fn shortened(x: f64, bits: i32) -> f64 {
    if bits >= 53 {
        return x;
    }
    let scale = 2f64.powi(bits - 1 - x.abs().log2().floor() as i32);
    (x * scale).round_ties_even() / scale
}
