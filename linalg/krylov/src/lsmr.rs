//! Least-squares problems.

use std::time::{Duration, Instant};

use zellige_kernels::RealNumber;

use crate::composed::Adjoint;
use crate::error::Error;
use crate::executor::Executor;
use crate::inner_solver::{Limit, Limits};
use crate::iteration::{begin_solve, iterate};
use crate::log::Logger;
use crate::numbers::{Numbers, NumbersHandle, REMEMBERED, State};
use crate::operator::{Operator, multiply};
use crate::scalar::Scalar;
use crate::solve::Reason;
use crate::steps::{Steps, Sums};
use crate::vector::MultiVector;
use crate::vector_task::{minus, plus, times};

/// `min |b - A x|^2 + damping^2 |x|^2`, for an operator of any two spaces that has an adjoint;
/// [`least_squares`] has an example.
#[derive(Clone, Copy)]
pub struct LeastSquares<'s, E: Scalar = f64> {
    /// Runs the tasks.
    pub rt: &'s dyn Executor,
    /// The operator.
    pub a: &'s dyn Operator<E>,
    /// Weight of `x` relative to the residual (Tikhonov regularisation); 0 for none.
    pub damping: f64,
    /// Relative tolerance: the method ends if `|r| <= tolerance (|b| + |A| |x|)` (a compatible
    /// system), or if `|A^H r - damping^2 x| <= tolerance |A| |r|` (a least-squares solution).
    /// `|A|` is the Frobenius norm of the bidiagonal matrix so far.
    pub tolerance: f64,
    /// Maximum number of steps.
    pub steps: usize,
    /// Time limit.
    pub time: Option<Duration>,
}

/// Result of a least-squares solver for a right-hand side; [`least_squares`] has an example.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeastSquaresSolution {
    /// The reason for the end.
    pub reason: Reason,
    /// Number of steps.
    pub steps: usize,
    /// The measure that the tolerance is compared with, as the method kept it: the smaller of its
    /// two ratios.
    pub iterated: f64,
    /// `|b - A x|_2`, computed from the answer.
    pub residual: f64,
    /// `|A^H (b - A x) - damping^2 x|_2`, computed from the answer: 0 at the minimum.
    pub gradient: f64,
    /// `|b|_2`.
    pub rhs: f64,
    /// `|x|_2`.
    pub answer: f64,
    /// Frobenius norm of the part of the operator that has been seen, at most that of the operator.
    pub norm: f64,
}

/// The method's scalars: norms of `u` and `v` of this step ...
const BETA: usize = 0;
const ALPHA: usize = 1;
/// ... remainder of the bidiagonal matrix under the two rotations ...
const ALPHA_BAR: usize = 2;
const RHO: usize = 3;
const RHO_BAR: usize = 4;
const COSINE: usize = 5;
const SINE: usize = 6;
const ZETA: usize = 7;
const ZETA_BAR: usize = 8;
/// ... numbers that the norm of the residual is computed from ...
const BETA_DD: usize = 9;
const BETA_D: usize = 10;
const RHO_D: usize = 11;
const TAU: usize = 12;
const THETA: usize = 13;
const DAMPED: usize = 14;
const RESIDUAL: usize = 15;
/// ... squared Frobenius norm so far, `|A^H r|`, `|b|` ...
const NORM: usize = 16;
const GRADIENT: usize = 17;
const RHS: usize = 18;
/// ... and factors of vectors.
const OF_P: usize = 19;
const OF_U: usize = 20;
const OF_Q: usize = 21;
const OF_V: usize = 22;
const OF_BAR: usize = 23;
const OF_X: usize = 24;
const OF_H: usize = 25;
const OF_V_NOW: usize = 26;
const OWN: usize = 27;

/// Vectors of the method; `u` and `v` are not divided by their norms, but the vectors derived from
/// them are.
struct LsmrVectors<E: Scalar> {
    u: MultiVector<E>,
    p: MultiVector<E>,
    v: MultiVector<E>,
    q: MultiVector<E>,
    h: MultiVector<E>,
    bar: MultiVector<E>,
    x: MultiVector<E>,
}

/// Number of steps in a graph.
const PER_GRAPH: usize = 4;

/// Solves least-squares problems with one operator, from `x = 0`, by LSMR (Fong and Saunders, SIAM
/// J. Sci. Comput. 33, 2011, 2950): MINRES on the normal equations, by Golub and Kahan's
/// bidiagonalisation.
///
/// `|A^H r|` decreases in every step. Of several `x` with the same residual it finds the shortest.
/// Returns the answers and the data of each; logs receive the measure that the tolerance is
/// compared with.
///
/// ```
/// use zellige_krylov::{LeastSquares, Space, from_fn_between, least_squares};
/// use zellige_runtime::Runtime;
///
/// // A line through (0, 1), (1, 3), (2, 5.5).
/// let (rt, rows, columns) = (Runtime::new()?, Space::new(3, 0), Space::new(2, 0));
/// let a = from_fn_between(&columns, &rows, |x: &[f64], y: &mut [f64]| (0..3).for_each(|i| y[i] = x[0] + i as f64 * x[1]));
/// let a = a.with_adjoint(|y: &[f64], x: &mut [f64]| {
///     x[0] = y.iter().sum();
///     x[1] = y[1] + 2.0 * y[2];
/// });
/// let problem = LeastSquares { rt: &rt, a: &a, damping: 0.0, tolerance: 1e-12, steps: 100, time: None };
/// let (x, found) = least_squares(&problem, &[&[1.0, 3.0, 5.5]], &mut [&mut ()])?;
/// assert!((x[0][1] - 2.25).abs() < 1e-12 && found[0].gradient < 1e-12);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
///
/// # Errors
/// [`Error::Shape`] for right-hand sides of another length and another number of logs;
/// [`Error::Unsolvable`] for non-finite numbers; [`Error::Parameter`] for an operator without an
/// adjoint, and for an invalid damping or tolerance; those of tasks.
pub fn least_squares<E: Scalar>(
    problem: &LeastSquares<'_, E>,
    b: &[&[E]],
    logs: &mut [&mut dyn Logger],
) -> Result<(Vec<Vec<E>>, Vec<LeastSquaresSolution>), Error> {
    let LeastSquares { rt, a, damping, tolerance, steps, time } = *problem;
    let (rows, columns) = (a.range(), a.domain());
    if b.is_empty() || logs.len() != b.len() {
        return Err(Error::shape("logs", format!("{} for {} right-hand sides", logs.len(), b.len())));
    }
    if let Some(wrong) = b.iter().find(|b| b.len() != rows.len()) {
        return Err(Error::shape(
            "right-hand side",
            format!("{} elements for {} rows", wrong.len(), rows.len()),
        ));
    }
    if !b.iter().flat_map(|b| E::words(b)).all(|x| x.is_finite()) {
        return Err(Error::unsolvable("right-hand side", "it has a non-finite entry"));
    }
    if !(damping >= 0.0 && damping.is_finite()) {
        return Err(Error::parameter("damping", format!("{damping}: 0 or more is needed")));
    }
    if tolerance.is_nan() || tolerance < 0.0 {
        return Err(Error::parameter("tolerance", format!("{tolerance}: 0 or more is needed")));
    }
    let count = b.len();
    let zeros = |space| MultiVector::zeros(rt, space, count);
    let v = LsmrVectors {
        u: MultiVector::from_columns(rt, rows, b),
        p: zeros(rows),
        v: zeros(columns),
        q: zeros(columns),
        h: zeros(columns),
        bar: zeros(columns),
        x: zeros(columns),
    };
    let numbers = NumbersHandle::new(rt, count, OWN);
    let sums = [Sums::new(rt, rows, count, 1), Sums::new(rt, columns, count, 1)];
    let beginning = rt.record(|graph| {
        let on_rows = Steps::new(rt, graph, rows, &numbers).with_sums(&sums[0]);
        let on_columns = Steps::new(rt, graph, columns, &numbers).with_sums(&sums[1]);
        begin(a, &v, &on_rows, &on_columns)
    })?;
    let step = rt.record(|graph| {
        let on_rows = Steps::new(rt, graph, rows, &numbers).with_sums(&sums[0]);
        let on_columns = Steps::new(rt, graph, columns, &numbers).with_sums(&sums[1]);
        (0..PER_GRAPH).try_for_each(|_| one_step(a, damping, &v, &on_rows, &on_columns))
    })?;
    let start = Instant::now();
    let limit = Some(Limit { goal: tolerance, steps });
    let open = vec![limit; count];
    let is_late = || time.is_some_and(|time| start.elapsed() >= time);
    let limits = Limits { columns: &open, is_late: &is_late };
    begin_solve(rt, &beginning, &numbers, &limits)?;
    let ended = iterate(rt, &numbers, &limits, logs, REMEMBERED / PER_GRAPH, &mut |_, _| step.run())?;
    let norms = numbers.look(rt, |_, numbers| numbers.value(NORM).sqrt())?;
    let mut answers = Vec::with_capacity(count);
    let mut found = Vec::with_capacity(count);
    for (c, ended) in ended.into_iter().enumerate() {
        let x = v.x.column(rt, c)?;
        let product = multiply(rt, a, &x)?;
        let residual: Vec<E> = b[c].iter().zip(&product).map(|(&b, &p)| b - p).collect();
        let mut gradient = multiply(rt, &Adjoint(a), &residual)?;
        let damped = E::from_real(damping * damping);
        gradient.iter_mut().zip(&x).for_each(|(g, &x)| *g = *g - damped * x);
        found.push(LeastSquaresSolution {
            reason: match ended.state {
                State::Running => Reason::Time,
                State::Reached => Reason::Converged,
                State::Limited => Reason::Steps,
                State::BrokenDown => Reason::BrokenDown,
                State::NotANumber => Reason::NotANumber,
            },
            steps: ended.steps,
            iterated: ended.residual,
            residual: norm(&residual),
            gradient: norm(&gradient),
            rhs: norm(b[c]),
            answer: norm(&x),
            norm: norms[c],
        });
        answers.push(x);
    }
    Ok((answers, found))
}

fn norm<E: Scalar>(x: &[E]) -> f64 {
    E::words(x).iter().fold(0.0, |norm: f64, &x| norm.hypot(x))
}

/// Returns the inverse; 0 for 0, because the dividend is 0 then, too.
fn inverse<R: RealNumber>(x: R) -> R {
    let zero = R::from(0.0);
    if x > zero { R::from(1.0) / x } else { zero }
}

/// Records `beta u = b`, `alpha v = A^H u`, `h = v`.
fn begin<E: Scalar>(
    a: &dyn Operator<E>,
    v: &LsmrVectors<E>,
    on_rows: &Steps<'_, E>,
    on_columns: &Steps<'_, E>,
) -> Result<(), Error> {
    on_rows.task("lsmr.begin").dot(&v.u, &v.u, 0).submit()?;
    on_rows.update_numbers("lsmr.beta", |sums, s| {
        let beta = sums[0].real().sqrt();
        s.set_reals([(BETA, beta), (RHS, beta), (OF_Q, inverse(beta)), (OF_V, 0.0.into())]);
    })?;
    a.apply_adjoint(on_columns, &v.u, &v.q)?;
    on_columns.task("lsmr.begin").assign(&v.v, [plus(OF_Q, &v.q)]).dot(&v.v, &v.v, 0).submit()?;
    on_columns.update_numbers("lsmr.alpha", |sums, s| {
        let (alpha, beta) = (sums[0].real().sqrt(), s.real(BETA));
        let zeros = [(SINE, 0.0), (ZETA, 0.0), (BETA_D, 0.0), (TAU, 0.0), (THETA, 0.0), (DAMPED, 0.0)];
        s.set_reals(zeros);
        s.set_reals([(RHO, 1.0), (RHO_BAR, 1.0), (COSINE, 1.0), (RHO_D, 1.0)]);
        s.set_reals([(ALPHA, alpha), (ALPHA_BAR, alpha), (ZETA_BAR, alpha * beta), (BETA_DD, beta)]);
        s.set_reals([(NORM, alpha * alpha), (OF_V_NOW, inverse(alpha)), (OF_P, inverse(alpha))]);
        let zero = E::Real::from(0.0);
        s.set_real(OF_U, if beta > zero { alpha / beta } else { zero });
        s.first_residual(if alpha * beta > zero { 1.0 } else { 0.0 });
        if alpha * beta == zero {
            // Zero is the answer: b is zero, or nothing that A makes is nearer to it.
            s.step(0.0);
        }
    })?;
    on_columns.task("lsmr.begin").assign(&v.h, [plus(OF_V_NOW, &v.v)]).submit()
}

/// Records a step of the bidiagonalisation, two rotations, and the update of `x`.
fn one_step<E: Scalar>(
    a: &dyn Operator<E>,
    damping: f64,
    v: &LsmrVectors<E>,
    on_rows: &Steps<'_, E>,
    on_columns: &Steps<'_, E>,
) -> Result<(), Error> {
    a.apply(on_rows, &v.v, &v.p)?;
    let terms = [plus(OF_P, &v.p), minus(OF_U, &v.u)];
    on_rows.task("lsmr.left").assign(&v.u, terms).dot(&v.u, &v.u, 0).submit()?;
    on_rows.update_numbers("lsmr.beta", |sums, s| {
        let beta = sums[0].real().sqrt();
        let alpha = s.real(ALPHA);
        s.set_reals([(BETA, beta), (OF_Q, inverse(beta)), (OF_V, beta * inverse(alpha))]);
    })?;
    a.apply_adjoint(on_columns, &v.u, &v.q)?;
    let terms = [plus(OF_Q, &v.q), minus(OF_V, &v.v)];
    on_columns.task("lsmr.right").assign(&v.v, terms).dot(&v.v, &v.v, 0).submit()?;
    on_columns.update_numbers("lsmr.rotate", move |sums, s| rotate(s, sums[0].real().sqrt(), damping))?;
    let update = on_columns.task("lsmr.update").assign(&v.bar, [times(1.0, &v.h), minus(OF_BAR, &v.bar)]);
    let update = update.add(&v.x, plus(OF_X, &v.bar)).assign(&v.h, [plus(OF_V_NOW, &v.v), minus(OF_H, &v.h)]);
    update.dot(&v.x, &v.x, 0).submit()?;
    on_columns.update_numbers("lsmr.step", |sums, s| {
        let (residual, norm) = (s.value(RESIDUAL), s.value(NORM).sqrt());
        let compatible = residual / (s.value(RHS) + norm * sums[0].real().value().sqrt());
        let product = norm * residual;
        // No residual is no gradient either.
        let least = if product > 0.0 { s.value(GRADIENT) / product } else { 0.0 };
        s.step(compatible.min(least));
    })
}

/// Computes the two rotations of a step, with `alpha` the norm of the new `v`: coefficients of the
/// vectors, and the norms of residual and gradient.
fn rotate<E: Scalar>(s: &mut Numbers<E, &mut [f64]>, alpha: E::Real, damping: f64) {
    let beta = s.real(BETA);
    let [alpha_bar, rho_old, rho_bar_old, cosine_bar, sine_bar] =
        [ALPHA_BAR, RHO, RHO_BAR, COSINE, SINE].map(|at| s.real(at));
    let (c_hat, s_hat, alpha_hat) = rotation(alpha_bar, damping.into());
    let (c, sine, rho) = rotation(alpha_hat, beta);
    let theta_new = sine * alpha;
    let theta_bar = sine_bar * rho;
    let (c_bar, s_bar, rho_bar) = rotation(cosine_bar * rho, theta_new);
    let (zeta_old, zeta) = (s.real(ZETA), c_bar * s.real(ZETA_BAR));
    let zeta_bar = -s_bar * s.real(ZETA_BAR);

    let acute = c_hat * s.real(BETA_DD);
    let check = -s_hat * s.real(BETA_DD);
    let (hat, beta_dd) = (c * acute, -sine * acute);
    let theta_old = s.real(THETA);
    let (c_tilde, s_tilde, rho_tilde) = rotation(s.real(RHO_D), theta_bar);
    let theta = s_tilde * rho_bar;
    let rho_d = c_tilde * rho_bar;
    let beta_d = -s_tilde * s.real(BETA_D) + c_tilde * hat;
    let tau = (zeta_old - theta_old * s.real(TAU)) * inverse(rho_tilde);
    let zero = E::Real::from(0.0);
    let tau_d = if rho_d == zero { zero } else { (zeta - theta * tau) / rho_d };
    let damped = s.real(DAMPED) + check * check;
    let apart = beta_d - tau_d;
    let residual = (damped + apart * apart + beta_dd * beta_dd).sqrt();

    let both = rho_old * rho_bar_old;
    s.set_reals([(OF_BAR, theta_bar * rho / both), (OF_X, zeta / (rho * rho_bar)), (OF_H, theta_new / rho)]);
    s.set_reals([(OF_V_NOW, inverse(alpha)), (OF_P, inverse(alpha))]);
    s.set_reals([(OF_U, alpha * inverse(beta)), (ALPHA, alpha), (ALPHA_BAR, c * alpha)]);
    s.set_reals([
        (RHO, rho),
        (RHO_BAR, rho_bar),
        (COSINE, c_bar),
        (SINE, s_bar),
        (ZETA, zeta),
        (ZETA_BAR, zeta_bar),
    ]);
    s.set_reals([
        (BETA_DD, beta_dd),
        (BETA_D, beta_d),
        (RHO_D, rho_d),
        (TAU, tau),
        (THETA, theta),
        (DAMPED, damped),
    ]);
    s.set_reals([(RESIDUAL, residual), (GRADIENT, zeta_bar.abs())]);
    s.set_real(NORM, s.real(NORM) + beta * beta + alpha * alpha);
}

/// Returns the cosine and the sine of the rotation from `(a, b)` to `(r, 0)`, and `r`.
fn rotation<R: RealNumber>(a: R, b: R) -> (R, R, R) {
    let (r, zero) = (a.hypot(b), R::from(0.0));
    if r > zero { (a / r, b / r, r) } else { (1.0.into(), zero, zero) }
}
