//! Each sample is one of the two neighbours of the exact result, by arithmetic without rounding.

use dashu_float::FBig;
use dashu_float::round::mode::Zero;
use half::{bf16, f16};
use zellige_stochastic::{Eight, Sample, Scope, Stochastic, vectorize};

type Big = FBig<Zero, 2>;

fn big(x: f64) -> Big {
    Big::try_from(x).expect("finite").with_precision(0).value()
}

/// Neighbours of a number of one type, independent of the crate.
trait Neighbours: Sample {
    fn up(self) -> f64;
    fn down(self) -> f64;
    fn any(bits: u64) -> Self;
}

macro_rules! neighbours {
    ($name:ident, $bits:ty, $up:expr) => {
        impl Neighbours for $name {
            fn up(self) -> f64 {
                let up: fn($name) -> $name = $up;
                up(self).to_f64()
            }
            fn down(self) -> f64 {
                let up: fn($name) -> $name = $up;
                -up(-self).to_f64()
            }
            fn any(bits: u64) -> $name {
                $name::from_bits(bits as $bits)
            }
        }
    };
}

neighbours!(f64, u64, f64::next_up);
neighbours!(f32, u32, f32::next_up);
neighbours!(f16, u16, |x| next_of_16(x.to_bits(), f16::from_bits, f16::is_nan(x)));
neighbours!(bf16, u16, |x| next_of_16(x.to_bits(), bf16::from_bits, bf16::is_nan(x)));

fn next_of_16<T>(bits: u16, from_bits: fn(u16) -> T, nan: bool) -> T {
    from_bits(match bits {
        _ if nan => bits,
        0x8000 => 1,
        _ if bits & 0x8000 == 0 => bits + 1,
        _ => bits - 1,
    })
}

/// A generator of the tests' own (xorshift64*).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Any finite number; or one near `other`; or one of few bits; or one at an end of the range.
    fn number<T: Neighbours>(&mut self, other: T) -> T {
        let kind = self.next() % 8;
        let x = match kind {
            0..=2 => T::any(self.next()),
            3 => T::from_f64(other.to_f64() * (1.0 + (self.next() % 64) as f64 * 1e-3)),
            4 => T::from_f64(-other.up()),
            5 => T::from_f64((self.next() % 17) as f64 - 8.0),
            6 => T::from_f64((self.next() >> 11) as f64 / (1u64 << 53) as f64),
            _ => T::any(self.next() & 0xff),
        };
        if x.to_f64().is_finite() { x } else { T::from_f64(1.0) }
    }
}

/// `sign(value)` is the sign of exact result minus `value`. A sample is right if it is exact, or
/// if the result lies strictly between its neighbours and is none of them.
fn check<T: Neighbours>(what: &str, samples: &[T], sign: impl Fn(f64) -> i32) -> (bool, bool) {
    let (mut below, mut above) = (false, false);
    for &x in samples {
        // Beyond the largest number, the only neighbour is that number.
        let at = if x.to_f64().is_infinite() { sign_at_infinity(x.to_f64()) } else { sign(x.to_f64()) };
        if at == 0 {
            continue;
        }
        let next = if at > 0 { x.up() } else { x.down() };
        let there = if next.is_infinite() { sign_at_infinity(next) } else { sign(next) };
        assert_eq!(there, -at, "{what}: {:e} of {:e}", x.to_f64(), next);
        below |= at > 0;
        above |= at < 0;
    }
    (below, above)
}

fn sign_at_infinity(x: f64) -> i32 {
    if x > 0.0 { -1 } else { 1 }
}

fn sign(x: &Big) -> i32 {
    match x.partial_cmp(&Big::ZERO).expect("ordered") {
        std::cmp::Ordering::Less => -1,
        std::cmp::Ordering::Equal => 0,
        std::cmp::Ordering::Greater => 1,
    }
}

/// Random operands of `T`; returns how often samples of one result lay on both sides of it.
fn all_operations<T: Neighbours>(rounds: usize) -> (usize, usize) {
    let mut numbers = Numbers(0x1234_5678_9abc_def1);
    let (mut inexact, mut both) = (0, 0);
    let mut count = |(below, above): (bool, bool)| {
        inexact += usize::from(below || above);
        both += usize::from(below && above);
    };
    for round in 0..rounds {
        let a: T = numbers.number(T::from_f64(1.0));
        let b: T = numbers.number(a);
        let c: T = match round % 3 {
            0 => numbers.number(b),
            1 => T::from_f64(-a.to_f64() * b.to_f64()),
            _ => numbers.number(a),
        };
        let c = if c.to_f64().is_finite() { c } else { T::from_f64(0.5) };
        let [x, y, z] = [a, b, c].map(Stochastic::<T, Eight>::new);
        let (fa, fb, fc) = (a.to_f64(), b.to_f64(), c.to_f64());
        let (ba, bb, bc) = (big(fa), big(fb), big(fc));
        let name = |op: &str| format!("{op} of {fa:e}, {fb:e}, {fc:e}");
        let results = vectorize(
            #[inline(always)]
            || [x + y, x - y, x * y, x / y, x.abs().sqrt(), x.mul_add(y, z)],
        );
        let outside = [x + y, x - y, x * y, x / y, x.abs().sqrt(), x.mul_add(y, z)];
        for [sum, difference, product, quotient, root, fused] in [results, outside] {
            count(check(&name("sum"), sum.samples(), |r| sign(&(&ba + &bb - big(r)))));
            count(check(&name("difference"), difference.samples(), |r| sign(&(&ba - &bb - big(r)))));
            count(check(&name("product"), product.samples(), |r| sign(&(&ba * &bb - big(r)))));
            count(check(&name("fused"), fused.samples(), |r| sign(&(&ba * &bb + &bc - big(r)))));
            count(check(&name("root"), root.samples(), |r| {
                if r < 0.0 { 1 } else { sign(&(big(fa.abs()) - big(r) * big(r))) }
            }));
            if fb != 0.0 {
                let side = if fb < 0.0 { -1 } else { 1 };
                count(check(&name("quotient"), quotient.samples(), |r| side * sign(&(&ba - big(r) * &bb))));
            }
        }
    }
    (inexact, both)
}

/// Both neighbours are taken: eight samples agree in one result of 128.
fn both_sides_are_taken<T: Neighbours>(rounds: usize) {
    let (inexact, both) = all_operations::<T>(rounds);
    let share = both as f64 / inexact as f64;
    assert!(inexact > rounds && (0.985..0.999).contains(&share), "{both} of {inexact}");
}

#[test]
fn f64_lies_between_the_exact_neighbours() {
    both_sides_are_taken::<f64>(4000);
}

#[test]
fn f32_lies_between_the_exact_neighbours() {
    both_sides_are_taken::<f32>(6000);
}

#[test]
fn f16_lies_between_the_exact_neighbours() {
    both_sides_are_taken::<f16>(6000);
}

#[test]
fn bf16_lies_between_the_exact_neighbours() {
    both_sides_are_taken::<bf16>(6000);
}

/// IEEE 754: what is exact is not perturbed, infinities and NaN are none of an error.
#[test]
fn special_values_are_those_of_ieee() {
    let number = Stochastic::<f64>::new;
    let inf = f64::INFINITY;
    for (result, value) in [
        (number(inf) + number(1.0), inf),
        (number(inf) * number(-2.0), -inf),
        (number(1.0) / number(0.0), inf),
        (number(1.0) / number(inf), 0.0),
        (number(0.0) * number(3.0), 0.0),
        (number(-0.0).sqrt(), -0.0),
        (number(inf).sqrt(), inf),
        (number(inf).mul_add(number(1.0), number(1.0)), inf),
        (number(3.0).mul_add(number(4.0), number(-12.0)), 0.0),
        (number(f64::MAX) - number(f64::MAX), 0.0),
        (number(6.0) / number(3.0), 2.0),
        (number(2.25).sqrt(), 1.5),
    ] {
        assert!(result.samples().iter().all(|x| x.to_bits() == value.to_bits()), "{result:?} {value}");
    }
    for nan in [
        number(inf) - number(inf),
        number(0.0) / number(0.0),
        number(0.0) * number(inf),
        number(-1.0).sqrt(),
        number(f64::NAN) + number(1.0),
        number(inf).mul_add(number(0.0), number(1.0)),
    ] {
        assert!(nan.samples().iter().all(|x| x.is_nan()), "{nan:?}");
    }
    // An overflow lies between the largest number and infinity.
    let large = number(f64::MAX) * number(2.0);
    assert!(large.samples().iter().all(|&x| x == f64::MAX || x == inf));
    assert_eq!(large.digits(), 0);
}

/// Without perturbation the samples have the bits of the plain type.
#[test]
fn without_perturbation_bits_are_plain() {
    use zellige_stochastic::{Categories, Perturbation};
    let scope = Scope::with(3, Perturbation::None, Categories::NONE);
    let mut numbers = Numbers(77);
    scope.run(|| {
        for _ in 0..5000 {
            let (a, b, c): (f64, f64, f64) = (numbers.number(1.0), numbers.number(2.0), numbers.number(3.0));
            let [x, y, z] = [a, b, c].map(Stochastic::<f64>::new);
            let pairs = [
                (x + y, a + b),
                (x - y, a - b),
                (x * y, a * b),
                (x / y, a / b),
                (x.abs().sqrt(), a.abs().sqrt()),
                (x.mul_add(y, z), a.mul_add(b, c)),
            ];
            for (result, plain) in pairs {
                assert!(
                    result
                        .samples()
                        .iter()
                        .all(|s| s.to_bits() == plain.to_bits() || s.is_nan() && plain.is_nan())
                );
            }
        }
    });
}

/// Elementary functions stay within one unit in the last place, and exact values are not moved.
#[test]
fn functions_move_by_one_unit_and_exact_values_not_at_all() {
    type F = fn(Stochastic<f64>) -> Stochastic<f64>;
    type Exact = &'static [(f64, f64)];
    type Function = (F, fn(f64) -> f64, Exact);
    let functions: [Function; 12] = [
        (Stochastic::exp, f64::exp, &[(0.0, 1.0)]),
        (Stochastic::exp2, f64::exp2, &[(0.0, 1.0), (3.0, 8.0), (-7.0, 0.0078125)]),
        (Stochastic::ln, f64::ln, &[(1.0, 0.0)]),
        (Stochastic::log2, f64::log2, &[(1.0, 0.0), (8.0, 3.0), (0.125, -3.0)]),
        (Stochastic::log10, f64::log10, &[(1.0, 0.0), (1000.0, 3.0), (1e22, 22.0)]),
        (Stochastic::sin, f64::sin, &[(0.0, 0.0)]),
        (Stochastic::cos, f64::cos, &[(0.0, 1.0)]),
        (Stochastic::tan, f64::tan, &[(0.0, 0.0)]),
        (Stochastic::atan, f64::atan, &[(0.0, 0.0)]),
        (Stochastic::sinh, f64::sinh, &[(0.0, 0.0)]),
        (Stochastic::tanh, f64::tanh, &[(0.0, 0.0)]),
        (Stochastic::cbrt, f64::cbrt, &[(0.0, 0.0), (27.0, 3.0), (1.0, 1.0), (-8.0, -2.0)]),
    ];
    for (k, (stochastic, plain, exact)) in functions.into_iter().enumerate() {
        for x in [0.3, 0.77, 1.9, 5.5] {
            let (y, near) = (stochastic(Stochastic::new(x)), plain(x));
            let far = y.samples().iter().map(|s| s.to_bits().abs_diff(near.to_bits())).max();
            assert!(far <= Some(2) && y.digits() >= 14, "function {k} at {x}: {y:?} {near}");
        }
        for &(x, value) in exact {
            let y = stochastic(Stochastic::new(x));
            assert!(y.samples().iter().all(|&s| s == value), "function {k} at {x}: {y:?}");
        }
    }
    let third = Stochastic::<f64>::new(1.0) / 3.0;
    assert!(third.powi(2).digits() >= 14);
    assert!(Stochastic::<f64>::new(3.0).powi(7).samples().iter().all(|&x| x == 2187.0));
    assert!(Stochastic::<f64>::new(3.0).hypot(Stochastic::new(4.0)).samples().iter().all(|&x| x == 5.0));
    assert!(Stochastic::<f32>::new(2.0).powi(-3).samples().iter().all(|&x| x == 0.125));
}

/// Complex numbers of stochastic parts compute.
#[test]
fn complex_numbers_compute() {
    use num_complex::Complex;
    let number = |re: f64, im: f64| Complex::new(Stochastic::<f64>::new(re), Stochastic::<f64>::new(im));
    let product = number(1.0, 2.0) * number(3.0, -1.0) / number(3.0, 0.0);
    assert!((product.re.mean() - 5.0 / 3.0).abs() < 1e-15 && product.re.digits() >= 14);
    assert!((product.im.mean() - 5.0 / 3.0).abs() < 1e-15);
}
