//! Unitary 3 x 3 matrices by Hermitian ones: nine real numbers, as many as U(3) has dimensions.
//!
//! `V = C^2` with the Cayley transform `C = (1 + i H) (1 - i H)^-1 = 2 (1 - i H)^-1 - 1`. Where `V`
//! has the eigenvalue `e^(i phi)`, `H` has `tan(phi / 4)`, between -1 and 1. So the elements of `H`
//! are between -1 and 1, `1 - i H` has singular values between 1 and `sqrt(2)`, and `V` changes by
//! no more than four times the change of `H`: no matrix loses digits. Reconstruction from eight
//! numbers and a phase as in QUDA divides by `|V_01|^2 + |V_02|^2`, which is zero for the unit
//! matrix.

use std::array::from_fn;
use std::ops::{Add, Div, Mul, Neg};

use super::matrices::REALS;
use super::{LANES, Real};

/// Real numbers of a Hermitian matrix: its diagonal, then the elements `(0, 1)`, `(0, 2)` and `(1,
/// 2)`.
pub(super) const NUMBERS: usize = 9;

/// A complex number.
type Complex<R> = (R, R);
/// `[row][column]`.
type Matrix<R> = [[Complex<R>; 3]; 3];

/// Rotations of each pair of columns at most that make a matrix diagonal; they converge
/// quadratically.
const SWEEPS: usize = 12;
/// Threshold below which an off-diagonal entry counts as zero. Entries of cosines and sines are at
/// most 1.
const ZERO: f64 = 1e-17;

/// The matrix with these elements. What arrays offer for this is not always inlined, where vector
/// instructions are lost.
#[inline(always)]
fn matrix<R: Copy + Default>(element: impl Fn(usize, usize) -> Complex<R>) -> Matrix<R> {
    let mut all = Matrix::default();
    for i in 0..3 {
        for j in 0..3 {
            all[i][j] = element(i, j);
        }
    }
    all
}

/// Operand of the computations: a number, or several in lanes.
pub(super) trait Number:
    Copy + Default + Add<Output = Self> + Mul<Output = Self> + Neg<Output = Self> + Div<Output = Self>
{
}

impl Number for f64 {}

/// A number of each of eight matrices. Loops over whole matrices do not become vector instructions,
/// those over the lanes of each operation do.
#[derive(Clone, Copy, Default)]
pub(super) struct EightReals<R>(pub [R; LANES]);

impl<R: Real> EightReals<R> {
    #[inline(always)]
    fn with(self, other: Self, f: impl Fn(R, R) -> R) -> Self {
        let mut results = [R::default(); LANES];
        for lane in 0..LANES {
            results[lane] = f(self.0[lane], other.0[lane]);
        }
        EightReals(results)
    }
}

impl<R: Real> Number for EightReals<R> {}

impl<R: Real> Add for EightReals<R> {
    type Output = Self;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.with(other, |a, b| a + b)
    }
}

impl<R: Real> Mul for EightReals<R> {
    type Output = Self;

    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.with(other, |a, b| a * b)
    }
}

impl<R: Real> Neg for EightReals<R> {
    type Output = Self;

    #[inline(always)]
    fn neg(self) -> Self {
        self.with(self, |a, _| -a)
    }
}

impl<R: Real> Div for EightReals<R> {
    type Output = Self;

    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self.with(other, |a, b| a / b)
    }
}

#[inline(always)]
fn plus<N: Number>(a: Complex<N>, b: Complex<N>) -> Complex<N> {
    (a.0 + b.0, a.1 + b.1)
}

#[inline(always)]
fn times<N: Number>(a: Complex<N>, b: Complex<N>) -> Complex<N> {
    (a.0 * b.0 + -(a.1 * b.1), a.0 * b.1 + a.1 * b.0)
}

#[inline(always)]
fn product<N: Number>(a: &Matrix<N>, b: &Matrix<N>) -> Matrix<N> {
    matrix(|i, j| plus(plus(times(a[i][0], b[0][j]), times(a[i][1], b[1][j])), times(a[i][2], b[2][j])))
}

fn adjoint(a: &Matrix<f64>) -> Matrix<f64> {
    matrix(|i, j| (a[j][i].0, -a[j][i].1))
}

/// `V` of the numbers of `H`; `one` is 1.
#[inline(always)]
pub(super) fn unitary<N: Number>(numbers: &[N; NUMBERS], one: N) -> Matrix<N> {
    // 1 - i H.
    let a = matrix(|i, j| match i == j {
        true => (one, -numbers[i]),
        false => {
            let (re, im) = (numbers[2 * (i + j) + 1], numbers[2 * (i + j) + 2]);
            (if i < j { im } else { -im }, -re)
        }
    });
    // Cyclic indices make the signs of cofactors unnecessary.
    let minor = |r: usize, s: usize, c: usize, d: usize| {
        let (p, q) = (times(a[r][c], a[s][d]), times(a[r][d], a[s][c]));
        (p.0 + -q.0, p.1 + -q.1)
    };
    let adjugate = matrix(|i, j| minor((j + 1) % 3, (j + 2) % 3, (i + 1) % 3, (i + 2) % 3));
    let column = [adjugate[0][0], adjugate[1][0], adjugate[2][0]];
    let (re, im) =
        plus(plus(times(a[0][0], column[0]), times(a[0][1], column[1])), times(a[0][2], column[2]));
    let twice = (one + one) / (re * re + im * im);
    let factor = (re * twice, -(im * twice));
    let c = matrix(|i, j| {
        let (re, im) = times(adjugate[i][j], factor);
        (if i == j { re + -one } else { re }, im)
    });
    product(&c, &c)
}

/// The numbers of `H` for `V` times `unit`.
pub(super) fn numbers(v: &[f64; REALS], unit: f64) -> [f64; NUMBERS] {
    let v = matrix(|i, j| (v[6 * i + 2 * j] / unit, v[6 * i + 2 * j + 1] / unit));
    let of_adjoint = adjoint(&v);
    // V = A + i B, both Hermitian: cosines and sines of phases.
    let a = matrix(|i, j| (0.5 * (v[i][j].0 + of_adjoint[i][j].0), 0.5 * (v[i][j].1 + of_adjoint[i][j].1)));
    let b = matrix(|i, j| (0.5 * (v[i][j].1 - of_adjoint[i][j].1), 0.5 * (of_adjoint[i][j].0 - v[i][j].0)));
    let one = matrix(|i, j| (if i == j { 1.0 } else { 0.0 }, 0.0));
    // They commute: after the rotations that make the cosines diagonal, sines remain to be
    // diagonalized where cosines are equal, or nearly.
    let [a, b, q] = diagonal([a, b, one], false);
    let [b, a, q] = diagonal([b, a, q], true);
    let angles: [f64; 3] = from_fn(|k| (b[k][k].0.atan2(a[k][k].0) / 4.0).tan());
    let scaled = matrix(|i, k| (q[i][k].0 * angles[k], q[i][k].1 * angles[k]));
    let h = product(&scaled, &adjoint(&q));
    let above = [h[0][1], h[0][2], h[1][2]];
    from_fn(|k| if k < 3 { h[k][k].0 } else { [above[(k - 3) / 2].0, above[(k - 3) / 2].1][(k - 3) % 2] })
}

/// Makes the first of two Hermitian matrices diagonal by Jacobi's rotations, which turn the second
/// one and the columns of `q`, too: all pairs of columns, or only those in which eigenvalues of the
/// first are further apart.
fn diagonal([mut a, mut b, mut q]: [Matrix<f64>; 3], where_wider: bool) -> [Matrix<f64>; 3] {
    for (i, j) in [(0, 1), (0, 2), (1, 2)].into_iter().cycle().take(3 * SWEEPS) {
        let size = |m: &Matrix<f64>| m[i][j].0.hypot(m[i][j].1);
        let width = |m: &Matrix<f64>| (m[j][j].0 - m[i][i].0).hypot(2.0 * size(m));
        if size(&a) <= ZERO || where_wider && width(&a) <= width(&b) {
            continue;
        }
        let zeta = (a[j][j].0 - a[i][i].0) / (2.0 * size(&a));
        let tangent = zeta.signum() / (zeta.abs() + zeta.hypot(1.0));
        let cosine = 1.0 / tangent.hypot(1.0);
        let sine = cosine * tangent;
        let phase = (a[i][j].0 / size(&a), -a[i][j].1 / size(&a));
        let turned = |m: &Matrix<f64>| {
            m.map(|mut row| {
                let (x, y) = (row[i], times(row[j], phase));
                row[i] = (cosine * x.0 - sine * y.0, cosine * x.1 - sine * y.1);
                row[j] = (sine * x.0 + cosine * y.0, sine * x.1 + cosine * y.1);
                row
            })
        };
        let similar = |m: &Matrix<f64>| adjoint(&turned(&adjoint(&turned(m))));
        (a, b, q) = (similar(&a), similar(&b), turned(&q));
    }
    [a, b, q]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest distance of elements of `V` from those that its numbers lead to, and the largest
    /// number.
    fn round_trip(v: &Matrix<f64>, unit: f64) -> (f64, f64) {
        let flat: Vec<f64> = v.iter().flatten().flat_map(|z| [unit * z.0, unit * z.1]).collect();
        let h = numbers(&flat.try_into().expect("18 numbers"), unit);
        let back = unitary(&h, 1.0);
        let apart = |(x, y): (&Complex<f64>, &Complex<f64>)| (x.0 - y.0).hypot(x.1 - y.1);
        let pairs = v.iter().flatten().zip(back.iter().flatten());
        let size = h.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
        (pairs.map(apart).fold(0.0, f64::max), size)
    }

    fn phase(angle: f64) -> Complex<f64> {
        (angle.cos(), angle.sin())
    }

    /// `Q diag(e^(i phi)) Q^H` for some unitary `Q`.
    fn with_phases(angles: [f64; 3]) -> Matrix<f64> {
        let q = unitary(&[0.3, -0.7, 0.1, 0.5, -0.4, 0.2, 0.6, -0.1, 0.45], 1.0);
        let d = matrix(|i, j| if i == j { phase(angles[i]) } else { (0.0, 0.0) });
        product(&product(&q, &d), &adjoint(&q))
    }

    /// Whichever eigenvalues coincide, nearly coincide, or have the same cosine or sine; -1 is
    /// where phases end.
    #[test]
    fn no_unitary_matrix_loses_digits() {
        let pi = std::f64::consts::PI;
        let some = [0.0, 0.4, -0.4, pi - 0.4, pi / 2.0, -pi / 2.0, pi, -pi, 3.0];
        let nearly = [0.0, 1e-3, 1e-6, 1e-8, 1e-10, 1e-13, 1e-16];
        let mut worst = (0f64, 0f64);
        for (x, y) in some.into_iter().flat_map(|x| some.map(|y| (x, y))) {
            for apart in nearly {
                for angles in [[x, y, y + apart], [x, x + apart, x - apart], [x, -x + apart, y]] {
                    let (error, size) = round_trip(&with_phases(angles), 0.375);
                    worst = (worst.0.max(error), worst.1.max(size));
                }
            }
        }
        assert!(worst.0 < 1e-14 && worst.1 < 1.0 + 1e-14, "{worst:?}");
    }

    /// The unit matrix times phases, a permutation and a real rotation: cosines or all eigenvalues
    /// are the same, and elements of the first row zero.
    #[test]
    fn matrices_with_zeros_come_back() {
        let zero = (0.0, 0.0);
        let rotation = |angle: f64| {
            let (c, s) = phase(angle);
            [[(1.0, 0.0), zero, zero], [zero, (c, 0.0), (-s, 0.0)], [zero, (s, 0.0), (c, 0.0)]]
        };
        let shift = matrix(|i, j| if j == (i + 1) % 3 { (1.0, 0.0) } else { zero });
        let multiple = |z: Complex<f64>| matrix(|i, j| if i == j { z } else { zero });
        let all = [multiple((1.0, 0.0)), multiple((-1.0, 0.0)), multiple((0.0, -1.0)), shift, rotation(1.0)];
        for (i, v) in all.iter().enumerate() {
            let (error, size) = round_trip(v, 1.0);
            assert!(error < 3e-15 && size < 1.0 + 1e-15, "{i}: {error:e} {size}");
        }
    }

    /// A change of a number changes elements by four times as much at most.
    #[test]
    fn errors_of_numbers_are_not_magnified() {
        let h = [1.0f64, -1.0, 0.3, 0.2, 0.0, -0.1, 0.1, 0.0, 0.05].map(|x| 0.9 * x);
        for k in 0..NUMBERS {
            let mut other = h;
            other[k] += 1e-6;
            let (a, b) = (unitary(&h, 1.0), unitary(&other, 1.0));
            let pairs = a.iter().flatten().zip(b.iter().flatten());
            let change = pairs.map(|(x, y)| (x.0 - y.0).hypot(x.1 - y.1).powi(2)).sum::<f64>().sqrt();
            let of_h = if k < 3 { 1e-6 } else { 2f64.sqrt() * 1e-6 };
            assert!(change < 4.001 * of_h, "{k}: {change:e}");
        }
    }
}
