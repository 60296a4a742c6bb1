//! The von Karman phase structure function.
//!
//! For a layer of strength `c = r0^(-5/3)` and outer scale `L0`, with `x = 2 pi r / L0`,
//!
//! `D(r) = c k1 L0^(5/3) g(x)`, `g(x) = k2 - x^(5/6) K_{5/6}(x)`, `k1 = 2 Gamma(11/6) 2^(-5/6)
//! pi^(-8/3) (24 Gamma(6/5) / 5)^(5/6)`, `k2 = Gamma(5/6) 2^(-1/6) = lim x^(5/6) K_{5/6}(x)`
//!
//! (R. Conan, thesis, Nice 2000; the same constants follow from the von Karman spectrum). `L0`
//! occurs in `x` only, so one table of `g` serves every layer.
//!
//! [`g_exact`] uses the ascending series of the two modified Bessel functions of the first kind
//! below `x = 2`, in which the constant term cancels analytically. Above it uses Temme's continued
//! fraction (J. Comput. Phys. 19, 1975, 324). [`Table`] holds polynomials in `t = x^2`, which need
//! no root, power or exponential per value.

use std::f64::consts::PI;
use std::sync::{Arc, OnceLock};

use zellige_kernels::RealNumber;

const NU: f64 = 5.0 / 6.0;
const GAMMA_1_6: f64 = 5.566_316_001_780_235;
const GAMMA_5_6: f64 = 1.128_787_029_908_126;
const GAMMA_6_5: f64 = 0.918_168_742_399_760_6;

/// Returns `k1` of the structure function, 0.171661...
pub fn k1() -> f64 {
    let gamma_11_6 = NU * GAMMA_5_6;
    2.0 * gamma_11_6 * 2f64.powf(-NU) * PI.powf(-8.0 / 3.0) * (24.0 * GAMMA_6_5 / 5.0).powf(NU)
}

/// Returns `k2` of the structure function, 1.005634...: the value of `g` at infinity.
pub fn k2() -> f64 {
    GAMMA_5_6 * 2f64.powf(-1.0 / 6.0)
}

/// Computes `g(x) = k2 - x^(5/6) K_{5/6}(x)` for `x >= 0`, with a relative error of about 1e-15
/// below `x = 2` and 1e-14 above.
///
/// A negative or non-finite argument gives NaN or `k2`, never a panic.
pub fn g_exact<R: RealNumber>(x: R) -> R {
    if x.value() < 2.0 { g_series(x) } else { R::from(k2()) - x.apply(|x| x.powf(NU)) * bessel_k(x) }
}

/// Computes `-sum_n A_n x^(5/3) q^n - sum_{n>0} B_n q^n` with `q = (x/2)^2`, `A_n = (-1)^n
/// Gamma(-n - 5/6) 2^(-5/6) / (2 n!)`, `B_n = (-1)^n Gamma(-n + 5/6) 2^(5/6) / (2 n!)`.
fn g_series<R: RealNumber>(x: R) -> R {
    let q = x * x / R::from(4.0);
    // Gamma(z - 1) = Gamma(z) / (z - 1) turns the coefficients into a recurrence.
    let [mut a, mut b] = series_start().map(R::from);
    let (mut sum_a, mut sum_b) = (a, R::from(0.0));
    let mut power = R::from(1.0);
    for n in 1..24 {
        let m = f64::from(n);
        a = a / R::from((m + NU) * m);
        b = b / R::from((m - NU) * m);
        power = power * q;
        let (ta, tb) = (a * power, b * power);
        sum_a = sum_a + ta;
        sum_b = sum_b + tb;
        let size = |x: R| x.value().abs();
        if size(ta) + size(tb) < 1e-18 * (size(sum_a) + size(sum_b)) {
            break;
        }
    }
    -x.apply(|x| x.powf(2.0 * NU)) * sum_a - sum_b
}

/// Returns `A_0` and `B_0` of the series.
fn series_start() -> [f64; 2] {
    [GAMMA_1_6 / -NU * 2f64.powf(-NU) / 2.0, GAMMA_5_6 * 2f64.powf(NU) / 2.0]
}

/// Returns the data for `g` outside of the table: its value at infinity, and the first coefficients
/// of the series near 0.
pub(crate) fn outside_the_table() -> [f64; 3] {
    let [a, b] = series_start();
    [k2(), a, b]
}

/// Computes `K_{5/6}(x)` for `x >= 2` by Temme's continued fraction for `K_mu` and `K_{mu+1}`, `mu
/// = -1/6`.
fn bessel_k<R: RealNumber>(x: R) -> R {
    if x.value() > 700.0 {
        return R::from(0.0);
    }
    let mu = -1.0 / 6.0;
    let a1 = 0.25 - mu * mu;
    let (one, two) = (R::from(1.0), R::from(2.0));
    let mut b = two * (one + x);
    let mut d = one / b;
    let mut step = d;
    let mut ratio = d;
    let (mut q_prev, mut q_now) = (R::from(0.0), one);
    let mut c = a1;
    let mut weight = R::from(a1);
    let mut a = -a1;
    let mut sum = one + weight * step;
    for i in 2..2000 {
        let m = f64::from(i);
        a -= 2.0 * (m - 1.0);
        c = -a * c / m;
        let q_next = (q_prev - b * q_now) / R::from(a);
        q_prev = q_now;
        q_now = q_next;
        weight = weight + R::from(c) * q_next;
        b = b + two;
        d = one / (b + R::from(a) * d);
        step = step * (b * d - one);
        ratio = ratio + step;
        let term = weight * step;
        sum = sum + term;
        if (term.value() / sum.value()).abs() < 1e-17 {
            break;
        }
    }
    let k_mu = (R::from(PI) / (two * x)).sqrt() * (-x).apply(f64::exp) / sum;
    k_mu * (R::from(mu) + x + R::from(0.5) - R::from(a1) * ratio) / x
}

/// Number of octaves of `t = x^2` in the table: `2^-40 <= t < 2^11`, i.e. `9.5e-7 <= x < 45`.
const OCTAVES: usize = 51;
const FIRST_EXPONENT: i32 = -40;
const BITS: u32 = 5;
const PER_OCTAVE: usize = 1 << BITS;
const COEFFICIENTS: usize = 7;
const MANTISSA: u32 = 52;

/// Piecewise polynomials of degree 6 for `g` as a function of `t = x^2`, 32 pieces per octave.
///
/// Error bound: on a piece `[t0, t0 (1 + 1/32)]`, let `s` be the distance to its centre relative to
/// `t0`, `|s| <= 1/64`. Interpolation in the 7 Chebyshev points leaves at most `2 (1/128)^7 max
/// |d^7 g / ds^7| / 7!`. Near zero `g ~ t^(5/6)`, and its seventh relative derivative is below `25
/// g`. At large `t`, that of the term `x^(5/6) e^-x` is below `(x/2)^7 x^(1/3) e^-x * 1.3 < 16`. In
/// both cases the interpolation error stays below 1e-15. With the rounding of both sides, the tests
/// find less than 1e-14 from [`g_exact`].
#[derive(Debug)]
pub struct Table<R: RealNumber = f64> {
    coefficients: Vec<[R; COEFFICIENTS]>,
}

impl Table {
    /// Returns the table, which is computed once per process.
    pub fn get() -> &'static Arc<Table> {
        static TABLE: OnceLock<Arc<Table>> = OnceLock::new();
        TABLE.get_or_init(|| Arc::new(Table::new()))
    }
}

impl<R: RealNumber> Table<R> {
    /// Computes the table.
    pub(crate) fn new() -> Self {
        let nodes: [f64; COEFFICIENTS] =
            std::array::from_fn(|k| 0.5 * (PI * (k as f64 + 0.5) / COEFFICIENTS as f64).cos());
        let mut coefficients = Vec::with_capacity(OCTAVES * PER_OCTAVE);
        for octave in 0..OCTAVES {
            let base = 2f64.powi(FIRST_EXPONENT + octave as i32);
            for piece in 0..PER_OCTAVE {
                R::begin((octave * PER_OCTAVE + piece) as u64);
                let value = |z: f64| {
                    let t = base * (1.0 + (piece as f64 + 0.5 + z) / PER_OCTAVE as f64);
                    g_exact(R::from(t).sqrt())
                };
                coefficients.push(interpolate(&nodes, nodes.map(value)));
            }
        }
        Table { coefficients }
    }

    /// Returns the coefficients of every piece.
    pub(crate) fn pieces(&self) -> &[[R; COEFFICIENTS]] {
        &self.coefficients
    }

    /// Computes `g(sqrt(t))`, `t = x^2 >= 0`.
    #[inline(always)]
    pub fn g_of_square(&self, t: R) -> R {
        match self.coefficients.get(piece_of(t.value())) {
            // Samples may lie in neighbouring pieces.
            Some(_) if R::WORDS > 1 => self.of_samples(t).map_or_else(|| outside(t), |c| polynomial(&c, t)),
            Some(c) => polynomial(c, t),
            None => outside(t),
        }
    }

    /// Returns the coefficients of the piece of each sample, if all samples lie in the table.
    #[inline(always)]
    fn of_samples(&self, t: R) -> Option<[R; COEFFICIENTS]> {
        let mut all = *self.coefficients.get(piece_of(t.value()))?;
        for (lane, &sample) in R::words(&[t]).iter().enumerate() {
            let own = self.coefficients.get(piece_of(sample))?;
            for (to, from) in all.iter_mut().zip(own) {
                R::words_mut(std::slice::from_mut(to))[lane] = R::words(std::slice::from_ref(from))[lane];
            }
        }
        Some(all)
    }
}

/// Returns the index of the piece in which `t` lies.
#[inline(always)]
fn piece_of(t: f64) -> usize {
    let first = ((1023 + FIRST_EXPONENT) as u64) << BITS;
    (t.to_bits() >> (MANTISSA - BITS)).wrapping_sub(first) as usize
}

/// Computes the polynomial of a piece.
#[inline(always)]
fn polynomial<R: RealNumber>(c: &[R; COEFFICIENTS], t: R) -> R {
    let z = t.exactly(|t| {
        let mask = (1u64 << (MANTISSA - BITS)) - 1;
        f64::from_bits((1023u64 << MANTISSA) | ((t.to_bits() & mask) << BITS)) - 1.5
    });
    let z2 = z * z;
    // Estrin's order has short dependency chains, because neighbouring evaluations overlap.
    (c[0] + c[1] * z) + z2 * ((c[2] + c[3] * z) + z2 * ((c[4] + c[5] * z) + z2 * c[6]))
}

#[cold]
fn outside<R: RealNumber>(t: R) -> R {
    if t.value() == 0.0 {
        R::from(0.0)
    } else if t.value() < 1.0 {
        g_series(t.sqrt())
    } else {
        // x > 45: x^(5/6) K_{5/6}(x) < 1e-19.
        R::from(k2())
    }
}

/// Computes the monomial coefficients of the polynomial through `(nodes, values)`: Newton's divided
/// differences, expanded.
fn interpolate<R: RealNumber>(nodes: &[f64; COEFFICIENTS], values: [R; COEFFICIENTS]) -> [R; COEFFICIENTS] {
    let mut newton = values;
    for level in 1..COEFFICIENTS {
        for k in (level..COEFFICIENTS).rev() {
            newton[k] = (newton[k] - newton[k - 1]) / R::from(nodes[k] - nodes[k - level]);
        }
    }
    let mut out = [R::from(0.0); COEFFICIENTS];
    for k in (0..COEFFICIENTS).rev() {
        // out = out * (z - node_k) + newton_k
        for i in (1..COEFFICIENTS).rev() {
            out[i] = out[i - 1] - R::from(nodes[k]) * out[i];
        }
        out[0] = newton[k] - R::from(nodes[k]) * out[0];
    }
    out
}

/// Computes the phase structure function in rad^2 at 500 nm of one layer.
///
/// `r` separation \[m\], `cn2` strength `r0^(-5/3)` \[m^(-5/3)\], `outer_scale` \[m\].
pub fn structure_function(r: f64, cn2: f64, outer_scale: f64) -> f64 {
    let x = 2.0 * PI * r.abs() / outer_scale;
    cn2 * k1() * outer_scale.powf(5.0 / 3.0) * g_exact(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes `K_nu(x) = int_0^inf exp(-x cosh u) cosh(nu u) du`. The integrand decreases double
    /// exponentially, so that the trapezoidal rule converges faster than any power of the step. The
    /// method is independent of the one under test.
    fn k_by_integral(x: f64) -> f64 {
        let h = 1.0 / 512.0;
        let mut sum = 0.5 * (-x).exp();
        for i in 1.. {
            let u = f64::from(i) * h;
            let term = (-x * u.cosh()).exp() * (NU * u).cosh();
            sum += term;
            if term < 1e-20 * sum {
                break;
            }
        }
        sum * h
    }

    #[test]
    fn constants_are_the_published_ones() {
        assert!((k1() - 0.171_661_362_124_57).abs() < 1e-14);
        assert!((k2() - 1.005_634_917_998_59).abs() < 1e-14);
        // Gamma(1/6) Gamma(5/6) = pi / sin(pi/6).
        assert!((GAMMA_1_6 * GAMMA_5_6 - 2.0 * PI).abs() < 1e-14);
    }

    #[test]
    fn agrees_with_the_integral_representation() {
        let mut x = 0.01;
        while x < 60.0 {
            let want = k2() - f64::powf(x, NU) * k_by_integral(x);
            let got = g_exact(x);
            assert!((got - want).abs() < 1e-13, "x = {x}: {got} against {want}");
            x *= 1.037;
        }
        // Both methods agree at the switch.
        assert!((g_series(2.0) - (k2() - 2f64.powf(NU) * bessel_k(2.0))).abs() < 1e-14);
    }

    #[test]
    fn kolmogorov_is_the_limit_of_a_large_outer_scale() {
        // D(r) -> 6.88 (r/r0)^(5/3): it is 1.4 % below this limit at r = 1 cm, L0 = 10 km
        // (published), and converges.
        let ratio = |l0: f64| structure_function(0.01, 1.0, l0) / (6.88 * 0.01f64.powf(5.0 / 3.0));
        assert!((ratio(1e4) - 0.986).abs() < 1e-3, "{}", ratio(1e4));
        assert!((ratio(1e12) - 1.0).abs() < 1e-3, "{}", ratio(1e12));
    }

    #[test]
    fn table_follows_the_exact_function_everywhere() {
        let table = Table::get();
        let mut worst: f64 = 0.0;
        let mut worst_relative: f64 = 0.0;
        let mut x = 1e-8;
        while x < 100.0 {
            let (got, want) = (table.g_of_square(x * x), g_exact(x));
            worst = worst.max((got - want).abs());
            worst_relative = worst_relative.max((got - want).abs() / want);
            x *= 1.000_37;
        }
        assert!(worst < 2e-14, "{worst:e}");
        assert!(worst_relative < 5e-14, "{worst_relative:e}");
        assert_eq!(table.g_of_square(0.0), 0.0);
        assert_eq!(table.g_of_square(1e30), k2());
        assert!(table.g_of_square(f64::INFINITY).is_finite());
    }
}
