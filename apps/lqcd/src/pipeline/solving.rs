//! Solves for all right-hand sides of a propagator, with corrections.

use std::borrow::Cow;

use zellige_krylov::{
    Adjoint, Deflated, EigenPairs, Method, Operator, Solution, Solve, Stop, StoppingCriterion, multiply,
    solve, solve_columns,
};
use zellige_runtime::Runtime;

use super::history::ObservedHistory;
use super::options::Options;
use super::solver::{norm, residual, residual_of_sites};
use crate::error::Error;
use crate::su3::C64;

/// Maximum ratio of the excesses after and before a useful correction, unless the correction
/// reaches new sites.
const GAIN: f64 = 0.99;
/// Stagnation limit: number of consecutive useless corrections before the run ends.
const PATIENCE: usize = 3;

/// Systems `A x = b`, and what they are solved with.
pub(super) struct Equations<'a> {
    /// The operator `A` in float64, which residuals are computed with.
    pub operator: &'a dyn Operator<C64>,
    /// Operators of the method: in float64, and in the formats of the solver. They are `A`, or `A^H
    /// A` for normal equations.
    pub solved: [&'a dyn Operator<C64>; 2],
    /// Whether the method solves the normal equations.
    pub is_normal: bool,
    /// Number of components of a site.
    pub of_site: usize,
    /// Eigenvectors of `solved` that the solves begin with, and the term that is added to their
    /// eigenvalues.
    pub deflation: Option<(&'a EigenPairs<C64>, f64)>,
}

impl Equations<'_> {
    /// Returns the right-hand side of the method for one of the system.
    fn side<'b>(&self, rt: &Runtime, b: &'b [C64]) -> Result<Cow<'b, [C64]>, Error> {
        match self.is_normal {
            true => Ok(multiply(rt, &Adjoint(self.operator), b)?.into()),
            false => Ok(b.into()),
        }
    }

    /// Solves for each right-hand side, and then for corrections until the residuals of the system
    /// and the heavy-quark residuals are small enough. Returns the solutions and the heavy-quark
    /// residuals.
    pub fn solve(
        &self,
        rt: &Runtime,
        options: &Options,
        b: &[Vec<C64>],
        z: &mut [Vec<C64>],
        histories: &mut [ObservedHistory<'_>],
    ) -> Result<(Vec<Solution>, Vec<f64>), Error> {
        let [exact, inner] = self.solved;
        let plain = Solve { inner, ..Solve::new(rt, exact) };
        let most_steps = options.most_steps.div_ceil(options.solver.steps());
        let method = options.solver.method(exact, b.len());
        let deflated =
            self.deflation.map(|(pairs, shift)| Deflated { method: &*method, exact, pairs, shift });
        let reduction = deflated.as_ref().map_or(0.0, Deflated::reduction);
        let problem = Solve { reduction, ..plain };
        let method: &dyn Method<C64> = match &deflated {
            Some(deflated) => deflated,
            None => &*method,
        };
        let stop = [Stop::RelativeToRhs(options.tolerance), Stop::Steps(most_steps)];
        let stops = vec![&stop as &[Stop]; b.len()];
        let stops: Vec<&dyn StoppingCriterion> = stops.iter().map(|stop| stop as _).collect();
        let sides = b.iter().map(|b| self.side(rt, b)).collect::<Result<Vec<_>, _>>()?;
        // Histories are relative to the source.
        histories.iter_mut().zip(&sides).for_each(|(history, side)| history.divide_by(norm(side)));
        let sides: Vec<&[C64]> = sides.iter().map(AsRef::as_ref).collect();
        let mut x: Vec<&mut [C64]> = z.iter_mut().map(Vec::as_mut_slice).collect();
        let mut logs: Vec<_> = histories.iter_mut().map(|log| log as _).collect();
        let mut solutions = solve_columns(&problem, method, &sides, &mut x, &stops, &mut logs)?;
        let mut of_heavy = Vec::with_capacity(b.len());
        for (((b, z), solution), history) in b.iter().zip(z).zip(&mut solutions).zip(histories) {
            of_heavy.push(self.correct(rt, &plain, options, (b, z), solution, history)?);
        }
        Ok((solutions, of_heavy))
    }

    /// Corrects a solution until it meets the tolerances, or no longer improves. Returns its
    /// heavy-quark residual.
    fn correct(
        &self,
        rt: &Runtime,
        plain: &Solve<'_, C64>,
        options: &Options,
        (b, z): (&[C64], &mut [C64]),
        solution: &mut Solution,
        history: &mut ObservedHistory<'_>,
    ) -> Result<f64, Error> {
        // Other fields have sources on this parity. A zero solution has no residual on any site.
        if b.iter().all(|z| *z == C64::default()) {
            return Ok(0.0);
        }
        let most_steps = options.most_steps.div_ceil(options.solver.steps());
        let mut r = residual(rt, self.operator, b, z)?;
        // The residual of the method is that of the normal equations.
        let iterated = |of: &Solution, rhs: f64| match self.is_normal {
            true => of.iterated_residual * rhs / of.rhs,
            false => of.iterated_residual,
        };
        if self.is_normal {
            let rhs = norm(b);
            solution.iterated_residual = iterated(solution, rhs);
            (solution.true_residual, solution.rhs) = (norm(&r), rhs);
        }
        let mut heavy = residual_of_sites(&r, z, self.of_site);
        // The largest ratio of a residual and its tolerance. Methods for the system itself end only
        // where its residual is small enough.
        let excess = |heavy: f64, residual: f64| {
            let of_heavy = options.heavy_quark.map_or(0.0, |goal| heavy / goal);
            if self.is_normal {
                of_heavy.max(residual / (options.tolerance * solution.rhs))
            } else {
                of_heavy
            }
        };
        let may_go_on = self.is_normal || solution.reason.is_converged();
        let tolerated = options.tolerance * solution.rhs;
        let mut now = excess(heavy, solution.true_residual);
        let (mut least, mut in_vain) = (now, 0);
        while may_go_on && now > 1.0 && solution.steps < most_steps && in_vain < PATIENCE {
            // The norm of the residual is dominated by sites near the source. There it may have
            // reached its minimum while distant sites are not solved for yet. Relative to its own
            // residual, a correction is as accurate as before.
            history.go_on();
            let steps = Stop::Steps(most_steps - solution.steps);
            let stop = [Stop::RelativeToRhs((0.5 / now).min(0.1)), steps];
            let mut next = vec![C64::default(); r.len()];
            let (side, method) = (self.side(rt, &r)?, options.solver.method(plain.exact, 1));
            let new = solve(plain, &*method, &side, &mut next, &stop[..], history)?;
            next.iter_mut().zip(&*z).for_each(|(next, z)| *next += z);
            let left = residual(rt, self.operator, b, &next)?;
            // Rounding errors can make the residual of a correction larger than that before it.
            let most = if self.is_normal { tolerated.max(norm(&r)) } else { tolerated };
            if new.steps == 0 || norm(&left) > most {
                break;
            }
            solution.iterated_residual = iterated(&new, norm(&r));
            r = left;
            heavy = residual_of_sites(&r, &next, self.of_site);
            now = excess(heavy, norm(&r));
            // A site that is reached for the first time may have a larger residual than with a zero
            // solution.
            let has_gained = now <= GAIN * least || self.zeros(&next) < self.zeros(z);
            in_vain = if has_gained { 0 } else { in_vain + 1 };
            least = least.min(now);
            z.copy_from_slice(&next);
            solution.steps += new.steps;
            solution.updates += new.updates;
            solution.runs += new.runs;
            solution.true_residual = norm(&r);
        }
        Ok(heavy)
    }

    /// Returns the number of sites on which a vector is zero.
    fn zeros(&self, z: &[C64]) -> usize {
        z.chunks_exact(self.of_site).filter(|site| site.iter().all(|z| *z == C64::default())).count()
    }
}
