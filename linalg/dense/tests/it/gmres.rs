//! Refinement by GMRES where plain refinement stagnates, against elimination in doubled precision.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zellige_dense::{Cholesky, RefineEnd, SymmetricOperator, TileGrid};
use zellige_krylov::{Adjoint, Cg, Solve, Stop, multiply, solve};

use crate::common::*;

/// An unevaluated sum of two numbers; the second is the rounding error of the first: about 32
/// digits.
#[derive(Clone, Copy)]
struct Doubled(f64, f64);

impl Doubled {
    fn sum(a: f64, b: f64) -> Doubled {
        let sum = a + b;
        let of_b = sum - a;
        Doubled(sum, (a - (sum - of_b)) + (b - of_b))
    }

    fn plus(self, other: Doubled) -> Doubled {
        let Doubled(sum, rest) = Doubled::sum(self.0, other.0);
        Doubled::sum(sum, rest + self.1 + other.1)
    }

    fn times(self, other: Doubled) -> Doubled {
        let product = self.0 * other.0;
        let rest = self.0.mul_add(other.0, -product) + (self.0 * other.1 + self.1 * other.0);
        Doubled::sum(product, rest)
    }

    fn negative(self) -> Doubled {
        Doubled(-self.0, -self.1)
    }

    fn over(self, other: Doubled) -> Doubled {
        let first = self.0 / other.0;
        let rest = self.plus(other.times(Doubled(first, 0.0)).negative());
        Doubled::sum(first, rest.0 / other.0)
    }
}

/// Returns `A^-1 b` for a positive definite matrix, by elimination in doubled precision, which
/// needs no pivoting.
fn eliminated(a: &[f64], b: &[f64]) -> Vec<f64> {
    let n = b.len();
    let doubled = |v: &[f64]| v.iter().map(|v| Doubled(*v, 0.0)).collect::<Vec<_>>();
    let (mut a, mut b) = (doubled(a), doubled(b));
    for k in 0..n {
        for j in k + 1..n {
            let factor = a[k + j * n].over(a[k + k * n]).negative();
            // The matrix stays symmetric: columns are rows.
            let (pivot, column) = a.split_at_mut(j * n);
            let pivot = &pivot[k * n..][j..n];
            column[j..n].iter_mut().zip(pivot).for_each(|(a, of_k)| *a = a.plus(factor.times(*of_k)));
            for i in j..n {
                a[j + i * n] = a[i + j * n];
            }
            b[j] = b[j].plus(factor.times(b[k]));
        }
    }
    for i in (0..n).rev() {
        let known = (i + 1..n).fold(b[i], |sum, j| sum.plus(a[i + j * n].times(b[j]).negative()));
        b[i] = known.over(a[i + i * n]);
    }
    b.into_iter().map(|b| b.0 + b.1).collect()
}

/// Returns a dense matrix with eigenvalues that decrease geometrically from 1 to the inverse of
/// `condition`.
fn ill_conditioned(n: usize, condition: f64, seed: u64) -> Vec<f64> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut a = vec![0.0; n * n];
    (0..n).for_each(|i| a[i + i * n] = condition.powf(-(i as f64) / (n - 1) as f64));
    for _ in 0..3 {
        // A = H A H with the reflection H = I - 2 v v^T.
        let v: Vec<f64> = (0..n).map(|_| rng.random_range(-1.0..1.0)).collect();
        let size = v.iter().map(|v| v * v).sum::<f64>();
        let w: Vec<f64> = times(&v, &a, 1, n).iter().map(|w| 2.0 * w / size).collect();
        let s = w.iter().zip(&v).map(|(w, v)| w * v).sum::<f64>() / size;
        for j in 0..n {
            for i in 0..n {
                a[i + j * n] += 2.0 * s * v[i] * v[j] - v[i] * w[j] - w[i] * v[j];
            }
        }
    }
    for j in 0..n {
        (0..j).for_each(|i| a[i + j * n] = a[j + i * n]);
    }
    a
}

#[test]
fn gmres_converges_where_plain_refinement_stagnates() {
    let rt = runtime(2, "lws");
    let n = 300;
    for (rule, shift, condition) in [("fp32", 1e-6, 1e9), ("hp1", 2e-2, 1e6)] {
        let a = ill_conditioned(n, condition, 50);
        let x: Vec<f64> = random_rect(n, 2, 51);
        let b: Vec<f64> = x.chunks(n).flat_map(|x| times(x, &a, 1, n)).collect();
        let expected: Vec<f64> = b.chunks(n).flat_map(|b| eliminated(&a, b)).collect();
        let factor = Cholesky::factor_shifted(&rt, n, &a, rule, shift).unwrap();
        let (plain, refinement) = factor.refine(&b, 1e-13).unwrap();

        let (found, solutions) = factor.refine_gmres(&b, 1e-13).unwrap();

        assert_eq!(refinement.end, RefineEnd::Stagnated, "{rule}: {refinement:?}");
        assert!(distance(plain, &expected) > 1e-2, "{rule}");
        assert!(solutions.iter().all(|one| one.reason.is_converged()), "{rule}: {solutions:?}");
        let error = distance(found, &expected);
        assert!(error < 1e-14 * condition, "{rule}: {error:e}");
    }
}

/// Right-hand sides of very different sizes in a block: each is solved for as accurately as alone.
#[test]
fn columns_of_any_size_are_refined() {
    let rt = runtime(2, "lws");
    let n = 290;
    let a = ill_conditioned(n, 1e5, 52);
    let factor = Cholesky::factor_shifted(&rt, n, &a, "hp1:operand=1e-2", 1e-3).unwrap();
    let b: Vec<f64> = random_rect(n, 3, 53);
    let b: Vec<f64> =
        b.chunks(n).zip([1.0, 1e-200, 1e150]).flat_map(|(b, s)| b.iter().map(move |b| s * b)).collect();
    let (together, solutions) = factor.refine_gmres(&b, 1e-10).unwrap();
    for (k, (b, together)) in b.chunks(n).zip(together.chunks(n)).enumerate() {
        let (_, alone) = factor.refine_gmres(b, 1e-10).unwrap();
        assert!(solutions[k].reason.is_converged() && alone[0].reason.is_converged(), "{solutions:?}");
        assert!(solutions[k].steps.abs_diff(alone[0].steps) <= 4, "column {k}: {solutions:?} {alone:?}");
        let size = b.iter().fold(0.0, |most: f64, b| most.max(b.abs()));
        let scaled = |v: &[f64]| v.iter().map(|v| v / size).collect::<Vec<_>>();
        assert!(distance(times(&scaled(together), &a, 1, n), &scaled(b)) < 2e-10, "column {k}");
    }
    let (none, solutions) = factor.refine_gmres(&[], 1e-10).unwrap();
    assert!(none.is_empty() && solutions.is_empty() && factor.refine_gmres(&[1.0], 1e-10).is_err());
    let error = factor.refine_gmres(&vec![f64::NAN; n], 1e-10).unwrap_err().to_string();
    assert!(error.starts_with("right-hand side"), "{error}");
}

#[test]
fn a_matrix_is_an_operator() {
    let rt = runtime(2, "lws");
    let n = 75;
    let a = random_spd(n, 0.5, 54);
    let operator = SymmetricOperator::new(&TileGrid::uniform(n, 20).unwrap(), &dense64(&a, n)).unwrap();
    let x = random_rect(n, 1, 55);
    let expected = times(&x, &a, 1, n);
    assert!(distance(multiply(&rt, &operator, &x).unwrap(), &expected) < 1e-14);
    assert!(distance(multiply(&rt, &Adjoint(&operator), &x).unwrap(), &expected) < 1e-14);
    let mut found = vec![0.0; n];
    let (problem, stop) = (Solve::new(&rt, &operator), Stop::RelativeToRhs(1e-12));
    let solution = solve(&problem, &Cg::default(), &expected, &mut found, &stop, &mut ()).unwrap();
    assert!(solution.reason.is_converged() && distance(found, &x) < 1e-10);
    assert!(SymmetricOperator::new(&TileGrid::uniform(0, 20).unwrap(), &dense64(&[], 0)).is_err());
}
