//! The classical programs of discrete stochastic arithmetic, as `bench/peers/cadna_programs.cpp`
//! has them: operations in the order of the formulas, literals rounded to nearest and then exact.

use std::fmt::Debug;
use std::str::FromStr;

use zellige_stochastic::{Sample, Samples, Stochastic};

/// Types with literals.
pub trait Real: Sample + FromStr<Err: Debug> {
    const NAME: &'static str;
    const IS_DOUBLE: bool;
}

impl Real for f32 {
    const NAME: &'static str = "f32";
    const IS_DOUBLE: bool = false;
}

impl Real for f64 {
    const NAME: &'static str = "f64";
    const IS_DOUBLE: bool = true;
}

/// One result of a program.
pub enum Entry {
    Other,
    Number { digits: u32, mean: f64 },
}

/// Results by name, in the order of the program.
#[derive(Default)]
pub struct Results(pub Vec<(String, Entry)>);

impl Results {
    pub fn add<T: Sample, S: Samples>(&mut self, name: impl Into<String>, x: Stochastic<T, S>) {
        let entry = Entry::Number { digits: x.digits(), mean: x.mean() };
        self.0.push((name.into(), entry));
    }

    /// An integer or the answer of a comparison, which has no digits.
    fn add_integer(&mut self, name: impl Into<String>, _: impl Into<i64>) {
        self.0.push((name.into(), Entry::Other));
    }
}

type N<T, S> = Stochastic<T, S>;

fn exact<T: Real, S: Samples>(text: &str) -> N<T, S> {
    Stochastic::new(text.parse().expect("a literal"))
}

fn whole<T: Real, S: Samples>(value: usize) -> N<T, S> {
    Stochastic::new(T::from_f64(value as f64))
}

fn rump<T: Real, S: Samples>(out: &mut Results) {
    let e = exact::<T, S>;
    let (a, b) = (e("77617"), e("33096"));
    out.add(
        "p",
        e("333.75") * b * b * b * b * b * b
            + a * a * (e("11") * a * a * b * b - b * b * b * b * b * b - e("121") * b * b * b * b - e("2"))
            + e("5.5") * b * b * b * b * b * b * b * b
            + a / (e("2") * b),
    );
}

fn rump_powers<T: Real, S: Samples>(out: &mut Results) {
    let e = exact::<T, S>;
    let (a, b) = (e("77617"), e("33096"));
    let (a2, b2) = (a * a, b * b);
    let b4 = b2 * b2;
    let (b6, b8) = (b4 * b2, b4 * b4);
    out.add(
        "p",
        e("333.75") * b6
            + a2 * (e("11") * a2 * b2 - b6 - e("121") * b4 - e("2"))
            + e("5.5") * b8
            + a / (e("2") * b),
    );
}

fn quartic<T: Real, S: Samples>(out: &mut Results) {
    let e = exact::<T, S>;
    let at = |x: N<T, S>, y: N<T, S>| e("9") * x * x * x * x - y * y * y * y + e("2") * y * y;
    out.add("p(10864, 18817)", at(e("10864"), e("18817")));
    out.add("p(1/3, 2/3)", at(e("1") / e("3"), e("2") / e("3")));
}

pub fn quadratic<T: Real, S: Samples>(out: &mut Results) {
    let e = exact::<T, S>;
    let (a, b, c) = (e("0.3"), e("-2.1"), e("3.675"));
    let d = b * b - e("4") * a * c;
    out.add("d", d);
    out.add_integer("d == 0", d == e("0"));
    out.add("root", -b / (e("2") * a));
}

fn quadratic_monic<T: Real, S: Samples>(out: &mut Results) {
    let e = exact::<T, S>;
    let a = e("0.3");
    let (b, c) = (e("-2.1") / a, e("3.675") / a);
    let d = b * b - e("4") * c;
    out.add("d", d);
    out.add_integer("d == 0", d == e("0"));
    out.add("root", -b * e("0.5"));
}

fn cubic_at<T: Real, S: Samples>(x: N<T, S>) -> N<T, S> {
    let e = exact::<T, S>;
    e("1.47") * x * x * x + e("1.19") * x * x - e("1.83") * x + e("0.45")
}

fn newton_step<T: Real, S: Samples>(x: N<T, S>) -> N<T, S> {
    let e = exact::<T, S>;
    x - cubic_at(x) / (e("4.41") * x * x + e("2.38") * x - e("1.83"))
}

fn newton<T: Real, S: Samples>(out: &mut Results) {
    let mut x = exact::<T, S>("0.5");
    let mut step = 1;
    while step <= 100 {
        let before = x;
        x = newton_step(before);
        if x == before {
            break;
        }
        step += 1;
    }
    out.add_integer("steps", step);
    out.add("x", x);
    out.add("f", cubic_at(x));
}

fn newton_tolerance<T: Real, S: Samples>(out: &mut Results) {
    let mut x = exact::<T, S>("0.5");
    let mut step = 1;
    while step <= 100 {
        let before = x;
        x = newton_step(before);
        if (before - x).abs() <= exact("1e-12") {
            break;
        }
        step += 1;
    }
    out.add_integer("steps", step);
    out.add("x", x);
}

fn muller_from<T: Real, S: Samples>(out: &mut Results, second: N<T, S>) {
    let e = exact::<T, S>;
    let (mut before, mut u) = (e("5.5"), second);
    for n in 3..=30 {
        let next = e("111") - e("1130") / u + e("3000") / (before * u);
        (before, u) = (u, next);
        out.add(format!("U({n})"), u);
    }
}

fn muller<T: Real, S: Samples>(out: &mut Results) {
    muller_from(out, exact::<T, S>("5.54545454545454545454545454545454545"));
}

fn muller_quotient<T: Real, S: Samples>(out: &mut Results) {
    muller_from(out, exact::<T, S>("61") / exact("11"));
}

fn logistic<T: Real, S: Samples>(out: &mut Results, factor: &str, start: &str, every: usize, last: usize) {
    let e = exact::<T, S>;
    let mut x = e(start);
    for n in 1..=last {
        x = e(factor) * x * (e("1") - x);
        if n % every == 0 {
            out.add(format!("x({n})"), x);
        }
    }
}

fn logistic_slow<T: Real, S: Samples>(out: &mut Results) {
    logistic::<T, S>(out, "3.6", "0.6", 20, 120);
}

fn logistic_chaotic<T: Real, S: Samples>(out: &mut Results) {
    logistic::<T, S>(out, "4", "0.3", 10, 80);
}

fn harmonic<T: Real, S: Samples>(out: &mut Results, n: usize) {
    let e = exact::<T, S>;
    let (mut up, mut down) = (e("0"), e("0"));
    (1..=n).for_each(|i| up += e("1") / whole(i));
    (1..=n).rev().for_each(|i| down += e("1") / whole(i));
    out.add("upwards", up);
    out.add("downwards", down);
    out.add("difference", up - down);
}

fn harmonic_short<T: Real, S: Samples>(out: &mut Results) {
    harmonic::<T, S>(out, 100_000);
}

fn harmonic_long<T: Real, S: Samples>(out: &mut Results) {
    harmonic::<T, S>(out, 1_000_000);
}

fn dot<T: Real, S: Samples>(out: &mut Results) {
    let e = exact::<T, S>;
    let mut sum = e("0");
    for (i, (x, y)) in [("1e8", "1.1"), ("1", "1"), ("-1e8", "1.1"), ("0.1", "3")].into_iter().enumerate() {
        sum += e(x) * e(y);
        out.add(format!("sum({})", i + 1), sum);
    }
    out.add("3 * 0.1 - 0.3", e("3") * e("0.1") - e("0.3"));
    out.add("0.1 + 0.2 - 0.3", e("0.1") + e("0.2") - e("0.3"));
}

fn roots<T: Real, S: Samples>(out: &mut Results) {
    let times = if T::IS_DOUBLE { 45 } else { 20 };
    let mut x = exact::<T, S>("2");
    (0..times).for_each(|_| x = x.sqrt());
    out.add("roots", x);
    (0..times).for_each(|_| x *= x);
    out.add("squares", x);
}

fn squares<T: Real, S: Samples>(out: &mut Results) {
    let e = exact::<T, S>;
    let (a, close, one) =
        (e("1.00000000186264514923095703125"), e("1.000000000931322574615478515625"), e("1"));
    out.add("a a - b b", a * a - close * close);
    out.add("(a - b) (a + b)", (a - close) * (a + close));
    out.add("a a - 1", a * a - one * one);
    out.add("(a - 1) (a + 1)", (a - one) * (a + one));
}

fn hilbert<T: Real, S: Samples>(out: &mut Results) {
    let n = if T::IS_DOUBLE { 11 } else { 7 };
    let e = exact::<T, S>;
    let mut a: Vec<Vec<N<T, S>>> =
        (0..n).map(|i| (0..n).map(|j| e("1") / whole(i + j + 1)).collect()).collect();
    let mut determinant = e("1");
    for i in 0..n {
        out.add(format!("pivot({})", i + 1), a[i][i]);
        determinant *= a[i][i];
        for j in i + 1..n {
            let factor = a[j][i] / a[i][i];
            for k in i + 1..n {
                let product = factor * a[i][k];
                a[j][k] -= product;
            }
        }
    }
    out.add("determinant", determinant);
}

/// Pivot search by comparisons, from the diagonal or from 0; rows scaled by 1 / pivot or not.
fn system_of_four<T: Real, S: Samples>(out: &mut Results, from_zero: bool, scaled: bool) {
    let e = exact::<T, S>;
    let rows = [
        ["21", "130", "0", "2.1", "153.1"],
        ["13", "80", "4.74e8", "752", "849.74"],
        ["0", "-0.4", "3.9816e8", "4.2", "7.7816"],
        ["0", "0", "1.7", "9e-9", "2.6e-8"],
    ];
    let mut a: [[N<T, S>; 5]; 4] = rows.map(|row| row.map(e));
    for i in 0..3 {
        let mut pivot = i;
        let mut largest = if from_zero { e("0") } else { a[i][i].abs() };
        for j in if from_zero { i } else { i + 1 }..4 {
            if a[j][i].abs() > largest {
                largest = a[j][i].abs();
                pivot = j;
            }
        }
        a.swap(i, pivot);
        out.add(format!("pivot({})", i + 1), a[i][i]);
        if scaled {
            let inverse = e("1") / a[i][i];
            for j in i + 1..5 {
                a[i][j] *= inverse;
            }
        }
        for j in i + 1..4 {
            let factor = if scaled { a[j][i] } else { a[j][i] / a[i][i] };
            for k in i + 1..5 {
                let product = factor * a[i][k];
                a[j][k] -= product;
            }
        }
    }
    out.add("pivot(4)", a[3][3]);
    let mut x = [e("0"); 4];
    for i in (0..4).rev() {
        let mut sum = a[i][4];
        for j in i + 1..4 {
            sum -= a[i][j] * x[j];
        }
        x[i] = if scaled && i < 3 { sum } else { sum / a[i][i] };
    }
    for (i, x) in x.into_iter().enumerate() {
        out.add(format!("x({})", i + 1), x);
    }
}

fn system_diagonal<T: Real, S: Samples>(out: &mut Results) {
    system_of_four::<T, S>(out, false, false);
}

fn system_diagonal_scaled<T: Real, S: Samples>(out: &mut Results) {
    system_of_four::<T, S>(out, false, true);
}

fn system_zero<T: Real, S: Samples>(out: &mut Results) {
    system_of_four::<T, S>(out, true, false);
}

fn system_zero_scaled<T: Real, S: Samples>(out: &mut Results) {
    system_of_four::<T, S>(out, true, true);
}

fn jacobi<T: Real, S: Samples>(out: &mut Results) {
    let n = 20;
    let e = exact::<T, S>;
    let entry = |i: usize, j: usize| if i == j { e("25.5") } else { e("1") / whole(1 + i + j) };
    let a: Vec<Vec<N<T, S>>> = (0..n).map(|i| (0..n).map(|j| entry(i, j)).collect()).collect();
    let b: Vec<N<T, S>> = (0..n)
        .map(|i| {
            (0..n).fold(e("0"), |sum, j| sum + a[i][j] * N::new(T::from_f64((37 * j % 11) as f64 + 0.125)))
        })
        .collect();
    let mut x = vec![e("0"); n];
    let mut iteration = 1;
    while iteration <= 100 {
        let mut largest = e("0");
        let mut next = x.clone();
        for i in 0..n {
            let mut sum = b[i];
            for j in (0..n).filter(|&j| j != i) {
                sum -= a[i][j] * x[j];
            }
            next[i] = sum / a[i][i];
            let step = (next[i] - x[i]).abs();
            if step > largest {
                largest = step;
            }
        }
        x = next;
        if largest == e("0") {
            break;
        }
        iteration += 1;
    }
    out.add_integer("iterations", iteration);
    for (i, x) in x.into_iter().enumerate() {
        out.add(format!("x({i})"), x);
    }
}

fn comparisons<T: Real, S: Samples>(out: &mut Results) {
    let e = exact::<T, S>;
    let pairs =
        [("z, 0", e("0.1") + e("0.2") - e("0.3"), e("0")), ("y, 1", e("1") / e("3") * e("3"), e("1"))];
    for (name, a, b) in pairs {
        out.add_integer(format!("{name} =="), a == b);
        out.add_integer(format!("{name} !="), a != b);
        out.add_integer(format!("{name} >"), a > b);
        out.add_integer(format!("{name} <"), a < b);
        out.add_integer(format!("{name} >="), a >= b);
        out.add_integer(format!("{name} <="), a <= b);
    }
}

fn extremes<T: Real, S: Samples>(out: &mut Results) {
    let e = exact::<T, S>;
    let (a, b) = (e("0.1") + e("0.2"), e("0.3"));
    out.add("fmax", a.max(b));
    out.add("fmin", a.min(b));
    out.add("fabs(a - b)", (a - b).abs());
}

fn conversions<T: Real, S: Samples>(out: &mut Results) {
    let e = exact::<T, S>;
    let three = e("0.1") * e("10") * e("3");
    let sum = e("2") + e("1") / e("3") * e("3");
    let noise = (e("0.1") + e("0.2") - e("0.3")) * e("1e17");
    out.add_integer("int(noise)", noise.to_i64());
    out.add("three", three);
    out.add("sum", sum);
    out.add("noise", noise);
    out.add("floor(noise)", noise.floor());
}

// The difference of a number and itself is the point.
#[allow(clippy::eq_op)]
fn absorption<T: Real, S: Samples>(out: &mut Results) {
    let e = exact::<T, S>;
    let (one, big) = (e("1"), e("1e16"));
    out.add("1e16 + 1 - 1e16", big + one - big);
    let (x, again) = (one / e("3"), one / e("3"));
    let copy = x;
    out.add("x - x", x - x);
    out.add("x - copy", x - copy);
    out.add("x - again", x - again);
    out.add("x / x", x / x);
}

pub fn chance<T: Real, S: Samples>(out: &mut Results) {
    let e = exact::<T, S>;
    out.add("100 (1/3) - 33.3333", e("100") * (e("1") / e("3")) - e("33.3333"));
}

fn functions<T: Real, S: Samples>(out: &mut Results) {
    let e = exact::<T, S>;
    let (one, two) = (e("1"), e("2"));
    let x = one / e("3");
    let z = e("0.1") + e("0.2") - e("0.3");
    out.add("exp(log(x)) - x", x.ln().exp() - x);
    out.add("pow(x, 2) - x x", x.powf(two) - x * x);
    out.add("sin(314159265358979 / 1e14)", (e("314159265358979") / e("1e14")).sin());
    out.add("log(1 + z)", (one + z).ln());
    out.add("1 / z", one / z);
    out.add("z z", z * z);
    out.add("sqrt(z)", z.sqrt());
    out.add("pow(z, 2)", z.powf(two));
    out.add("pow(2, z)", two.powf(z));
}

/// A program, its type, and how to run it.
pub type Program = (&'static str, &'static str, fn(&mut Results));

/// All programs in f32 and in f64 with `S` samples.
pub fn all<S: Samples>() -> Vec<Program> {
    macro_rules! both {
        ($($name:ident)*) => {
            vec![$((stringify!($name), <f32 as Real>::NAME, $name::<f32, S> as fn(&mut Results)),
                   (stringify!($name), <f64 as Real>::NAME, $name::<f64, S>)),*]
        };
    }
    both!(
        rump rump_powers quartic quadratic quadratic_monic muller muller_quotient hilbert system_diagonal
        system_diagonal_scaled system_zero system_zero_scaled newton newton_tolerance jacobi harmonic_short harmonic_long dot
        roots squares comparisons extremes conversions absorption functions chance logistic_slow logistic_chaotic
    )
}
