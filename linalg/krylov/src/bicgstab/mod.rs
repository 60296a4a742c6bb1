//! Stabilised bi-conjugate gradients.

mod polynomial;

use zellige_kernels::RealNumber;

use self::polynomial::{BREAKDOWN, MOST, at, pairs, polynomial};
use crate::error::Error;
use crate::inner_solver::{InnerSolver, MemoryUse, Method, Setting};
use crate::iteration::{Recorded, steps_per_graph};
use crate::numbers::{Numbers, NumbersHandle, State};
use crate::operator::{apply_to, check_fixed};
use crate::reliable::{Reliable, Updatable};
use crate::scalar::Scalar;
use crate::steps::{Steps, Sums};
use crate::vector::MultiVector;
use crate::vector_task::{minus, plus, times};

/// BiCGStab(l) (Sleijpen and Fokkema 1993, algorithm 3.1), preconditioned from the right; `l = 1`
/// is BiCGStab (van der Vorst 1992). It solves systems with any matrix and needs few vectors.
///
/// A step has `2 l` products: `l` steps of bi-conjugate gradients, then a polynomial of degree `l`
/// that reduces the residual. The polynomial is computed from the inner products of `r, A r, ..,
/// A^l r` by a Cholesky factorisation (Sleijpen, van der Vorst and Fokkema 1994). It is the one
/// with the least residual. If `l > 1` and that polynomial would lose digits of the next
/// coefficients, it is a convex combination with the orthogonal one (Sleijpen and van der Vorst
/// 1995). Eigenvalues far from the real axis need `l = 2` or more.
///
/// ```
/// use zellige_krylov::{BiCgStab, Solve, Space, Stop, from_fn, solve};
/// use zellige_runtime::Runtime;
///
/// let (rt, space) = (Runtime::new()?, Space::new(50, 0));
/// // 3 on the diagonal, 1 behind it.
/// let a = from_fn(&space, |x: &[f64], y: &mut [f64]| (0..50).for_each(|i| y[i] = 3.0 * x[i] + x.get(i + 1).unwrap_or(&0.0)));
/// let mut x = vec![0.0; 50];
/// let found = solve(&Solve::new(&rt, &a), &BiCgStab { l: 2 }, &[4.0; 50], &mut x, &Stop::RelativeToRhs(1e-12), &mut ())?;
/// assert!(found.reason.is_converged() && (x[0] - 1.0).abs() < 1e-10);
/// # Ok::<(), zellige_krylov::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BiCgStab {
    /// The degree, 1 to 8.
    pub l: usize,
}

impl Default for BiCgStab {
    fn default() -> Self {
        BiCgStab { l: 1 }
    }
}

impl<E: Scalar> Method<E> for BiCgStab {
    fn name(&self) -> String {
        if self.l == 1 { "bicgstab".to_owned() } else { format!("bicgstab({})", self.l) }
    }

    fn prepare<'r>(&'r self, setting: Setting<'r, E>) -> Result<Box<dyn InnerSolver<E> + 'r>, Error> {
        self.prepared(setting, None)
    }
}

impl<E: Scalar> Updatable<E> for BiCgStab {
    fn prepare_with<'r>(
        &self,
        setting: Setting<'r, E>,
        reliable: Reliable<'_, E>,
    ) -> Result<Box<dyn InnerSolver<E> + 'r>, Error> {
        if reliable.needs_estimate() {
            let problem = "the estimate of rounding errors is for conjugate gradients only: use a reduction";
            return Err(Error::parameter("trigger", problem));
        }
        if reliable.buffer() > 1 {
            let problem = "directions change within a step of bicgstab: only conjugate gradients keep them";
            return Err(Error::parameter("buffer", problem));
        }
        self.prepared(setting, Some(&reliable))
    }
}

impl BiCgStab {
    /// Prepares the method for a system, with or without residual replacements.
    fn prepared<'r, E: Scalar>(
        &self,
        setting: Setting<'r, E>,
        reliable: Option<&Reliable<'_, E>>,
    ) -> Result<Box<dyn InnerSolver<E> + 'r>, Error> {
        if !(1..=MOST).contains(&self.l) {
            return Err(Error::parameter("l", format!("{}: 1 to {MOST}", self.l)));
        }
        check_fixed(setting.m, "bicgstab", "fgmres")?;
        Ok(Box::new(self.recorded(setting, reliable)?))
    }
}

/// The method's scalars.
const RHO: usize = 0;
const ALPHA: usize = 1;
const BETA: usize = 2;
/// The coefficients of the polynomial, from that of `A` on; then the norm of the shadow.
const GAMMA: usize = 3;
const SHADOW: usize = GAMMA + MOST;
const OWN: usize = SHADOW + 1;

/// Indices of sums of products, alternating with those of `A^i r`: of a vector with itself, and of
/// the shadow with a vector.
const SQUARE: usize = 0;
const ALONG: usize = 1;

struct BiCgStabVectors<E: Scalar> {
    /// The residual that a solve begins with.
    begun: MultiVector<E>,
    /// `A^i r` and `A^i u`, `i = 0 .. l`, with `A M^-1` for `A`.
    r: Vec<MultiVector<E>>,
    u: Vec<MultiVector<E>>,
    shadow: MultiVector<E>,
    /// The correction before `M^-1`, and after.
    e: MultiVector<E>,
    d: Option<MultiVector<E>>,
    /// `M^-1` times the input of a product.
    z: Option<MultiVector<E>>,
}

impl BiCgStab {
    fn recorded<'r, E: Scalar>(
        self,
        setting: Setting<'r, E>,
        reliable: Option<&Reliable<'_, E>>,
    ) -> Result<Recorded<'r, E>, Error> {
        let l = self.l;
        let Setting { rt, m, columns, .. } = setting;
        let (space, zeros) = (setting.space(), || setting.zeros());
        let stored = || reliable.map_or_else(zeros, |reliable| setting.stored(reliable.storage()));
        let powers = || (0..=l).map(|_| stored()).collect::<Vec<_>>();
        let r = powers();
        let begun = reliable.map_or_else(|| r[0].clone(), |reliable| reliable.residual().clone());
        let (u, shadow, e) = (powers(), stored(), zeros());
        let vectors =
            BiCgStabVectors { begun, r, u, shadow, e, d: m.map(|_| zeros()), z: m.map(|_| stored()) };
        let numbers = NumbersHandle::new(rt, columns, OWN);
        let sums = Sums::new(rt, space, columns, (l + 1) * (l + 2) / 2);
        let begin = rt.record(|graph| {
            begin(&Steps::new(rt, graph, space, &numbers).with_sums(&sums), &vectors, reliable)
        })?;
        let per_graph = steps_per_graph::<E>(rt, space, m.is_some());
        let steps = rt.record(|graph| {
            let steps = Steps::new(rt, graph, space, &numbers).with_sums(&sums);
            let step = BiCgStabStep { steps, v: &vectors, setting, reliable };
            (0..per_graph).try_for_each(|_| {
                (0..l).try_for_each(|j| step.conjugate(j))?;
                step.minimise(l)
            })
        })?;
        let finish = match (m, &vectors.d) {
            (Some(m), Some(d)) => {
                // These columns are running for any state of the method.
                let open = NumbersHandle::new(rt, columns, 0);
                Some(rt.record(|graph| m.apply(&Steps::new(rt, graph, space, &open), &vectors.e, d))?)
            }
            _ => None,
        };
        let own = reliable.map_or(MemoryUse::default(), Reliable::memory);
        let memory = MemoryUse::vectors::<E>(space, 2 * l + 4 + if m.is_some() { 2 } else { 0 }).and(own);
        let correction = vectors.d.as_ref().unwrap_or(&vectors.e).clone();
        let residual = vectors.begun.clone();
        let replacements = reliable.map(Reliable::counter);
        Ok(Recorded {
            rt,
            residual,
            correction,
            numbers,
            replacements,
            begin,
            steps,
            per_graph,
            finish,
            memory,
        })
    }
}

/// Records `u = 0`, `e = 0`; the shadow is the residual.
fn begin<E: Scalar>(
    steps: &Steps<'_, E>,
    v: &BiCgStabVectors<E>,
    reliable: Option<&Reliable<'_, E>>,
) -> Result<(), Error> {
    let r = &v.r[0];
    reliable.map_or(Ok(()), |reliable| reliable.set_residual(steps, r))?;
    let task = steps.task("bicgstab.begin").assign(&v.u[0], []).assign(&v.e, []).copy(&v.shadow, r);
    task.dot(&v.begun, &v.begun, SQUARE).dot(&v.shadow, r, ALONG).submit()?;
    steps.update_numbers("bicgstab.rho", |sums, s| {
        // u is 0, so beta multiplies zeros.
        s[RHO] = sums[ALONG];
        let norm = sums[SQUARE].real().sqrt();
        s.set_real(SHADOW, norm);
        s.first_residual(norm.value());
    })?;
    reliable.map_or(Ok(()), |reliable| reliable.begin(steps, SQUARE))
}

/// Data that a step is recorded from.
struct BiCgStabStep<'g, E: Scalar> {
    steps: Steps<'g, E>,
    v: &'g BiCgStabVectors<E>,
    setting: Setting<'g, E>,
    reliable: Option<&'g Reliable<'g, E>>,
}

impl<E: Scalar> BiCgStabStep<'_, E> {
    /// Records `to = A M^-1 from`.
    fn multiply(&self, from: &MultiVector<E>, to: &MultiVector<E>) -> Result<(), Error> {
        match (self.setting.m, &self.v.z) {
            (Some(m), Some(z)) => {
                apply_to(&self.steps, m, from, z, None)?;
                apply_to(&self.steps, self.setting.a, z, to, None)
            }
            _ => apply_to(&self.steps, self.setting.a, from, to, None),
        }
    }

    /// Records step `j` of bi-conjugate gradients: `u_i = r_i - beta u_i`, `u_{j+1} = A u_j`,
    /// `alpha = rho / shadow . u_{j+1}`, `r_i -= alpha u_{i+1}`, `r_{j+1} = A r_j`, `e += alpha
    /// u_0`, `rho = shadow . r_{j+1}`.
    fn conjugate(&self, j: usize) -> Result<(), Error> {
        let (v, steps) = (self.v, &self.steps);
        for (u, r) in v.u[..=j].iter().zip(&v.r) {
            steps.task("bicgstab.direct").assign(u, [times(1.0, r), minus(BETA, u)]).submit()?;
        }
        self.multiply(&v.u[j], &v.u[j + 1])?;
        self.along_shadow(&v.u[j + 1])?;
        let is_last = j + 2 == v.r.len();
        steps.update_numbers("bicgstab.alpha", move |sums, s| {
            s[ALPHA] = s[RHO] / sums[ALONG];
            if is_last {
                s.follow(ALPHA, "alpha");
            }
            refuse_unless_usable(s, sums);
        })?;
        let task = steps.task("bicgstab.descend").add(&v.e, plus(ALPHA, &v.u[0]));
        task.add(&v.r[0], minus(ALPHA, &v.u[1])).dot(&v.r[0], &v.r[0], SQUARE).submit()?;
        for (r, u) in v.r[1..=j].iter().zip(&v.u[2..]) {
            steps.task("bicgstab.descend").add(r, minus(ALPHA, u)).submit()?;
        }
        // Numbers after convergence are 0 / 0; a residual that is to be replaced counts as
        // converged only if it is 0.
        let is_kept = self.reliable.is_none();
        steps.update_numbers("bicgstab.half", move |sums, s| {
            let norm = sums[SQUARE].real().sqrt().value();
            if is_kept || norm == 0.0 {
                s.end_if_reached(norm);
            }
        })?;
        self.multiply(&v.r[j], &v.r[j + 1])?;
        if is_last {
            return Ok(());
        }
        self.along_shadow(&v.r[j + 1])?;
        steps.update_numbers("bicgstab.beta", |sums, s| {
            s[BETA] = s[ALPHA] * sums[ALONG] / s[RHO];
            s[RHO] = sums[ALONG];
            refuse_unless_usable(s, sums);
        })
    }

    /// Records the inner product of a vector with the shadow, and with itself.
    fn along_shadow(&self, vector: &MultiVector<E>) -> Result<(), Error> {
        let task = self.steps.task("bicgstab.shadow").dot(&self.v.shadow, vector, ALONG);
        task.dot(vector, vector, SQUARE).submit()
    }

    /// Records `r = r_0 - sum_i gamma_i r_i` with a small norm, `e += sum_i gamma_i r_{i-1}`, `u =
    /// u_0 - sum_i gamma_i u_i`.
    fn minimise(&self, l: usize) -> Result<(), Error> {
        let (v, steps) = (self.v, &self.steps);
        let mut products = steps.task("bicgstab.products");
        for (i, j) in pairs(l) {
            products = products.dot(&v.r[i], &v.r[j], at(i, j));
        }
        products.submit()?;
        steps.update_numbers("bicgstab.gamma", move |sums, s| match polynomial(l, sums) {
            Some(gamma) => (0..l).for_each(|i| s[GAMMA + i] = gamma[i]),
            None if sums.iter().all(|sum| sum.abs().value().is_finite()) => s.end(State::BrokenDown),
            None => s.end(State::NotANumber),
        })?;
        let mut task = steps.task("bicgstab.minimise");
        for k in 0..l {
            task = task.add(&v.e, plus(GAMMA + k, &v.r[k])).add(&v.r[0], minus(GAMMA + k, &v.r[k + 1]));
            task = task.add(&v.u[0], minus(GAMMA + k, &v.u[k + 1]));
        }
        task.dot(&v.r[0], &v.r[0], SQUARE).dot(&v.shadow, &v.r[0], ALONG).submit()?;
        self.reliable.map_or(Ok(()), |reliable| self.replace(reliable))?;
        steps.update_numbers("bicgstab.step", move |sums, s| {
            let rho = sums[ALONG];
            s[BETA] = -s[ALPHA] * rho / (s[GAMMA + l - 1] * s[RHO]);
            s[RHO] = rho;
            for (own, name) in [(BETA, "beta"), (RHO, "rho"), (GAMMA + l - 1, "omega")] {
                s.follow(own, name);
            }
            s.step(sums[SQUARE].real().sqrt().value());
            if !s.is_done() {
                refuse_unless_usable(s, sums);
            }
        })
    }
}

impl<E: Scalar> BiCgStabStep<'_, E> {
    /// Replaces the residual if that is due; directions and the shadow are kept.
    fn replace(&self, reliable: &Reliable<'_, E>) -> Result<(), Error> {
        let (v, steps) = (self.v, &self.steps);
        let d = v.d.as_ref().unwrap_or(&v.e);
        let complete = |open: &Steps<'_, E>| self.setting.m.map_or(Ok(()), |m| m.apply(open, &v.e, d));
        reliable.replace_if_due(steps, [d, &v.r[0]], SQUARE, None, complete)?;
        let gated = steps.by(reliable.gate());
        gated.task("bicgstab.along").dot(&v.shadow, &v.r[0], ALONG).submit()
    }
}

/// Ends the method if the divisor, the inner product of the shadow and a vector, consists of
/// rounding errors.
fn refuse_unless_usable<E: Scalar>(s: &mut Numbers<E, &mut [f64]>, sums: &[E]) {
    let (along, norm) = (sums[ALONG].abs().value(), sums[SQUARE].real().sqrt().value());
    if !along.is_finite() {
        s.end(State::NotANumber);
    } else if along <= BREAKDOWN * norm * s.value(SHADOW) {
        s.end(State::BrokenDown);
    }
}
