//! Systems with several shifts.

use std::time::Instant;

use zellige_files::observe::Observer;
use zellige_krylov::{
    History, Operator, Refinement, Shifted, Solve, Stop, StoppingCriterion, solve_shifted, solve_shifts,
};
use zellige_runtime::Runtime;

use super::history::ObservedHistory;
use super::invert::unit;
use super::options::Options;
use super::results::{MultishiftResult, Seconds, ShiftResult};
use super::solver::{Solver, heavy_quark_residual, residual};
use crate::error::Error;
use crate::gauge::Gauge;
use crate::geometry::COLOURS;
use crate::normal::Normal;
use crate::precision::Precision;
use crate::smear::smear;
use crate::su3::C64;

/// A shift with its tolerance: the norm of the residual relative to that of the source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// Term added to `4 m^2 - D D`, 0 or more.
    pub shift: f64,
    /// Tolerance for the residual.
    pub tolerance: f64,
}

/// Solves `(4 m^2 - D D + sigma_k) z_k = b` for every shift by conjugate gradients, for a source of
/// one colour (by default the first). All shifts first share one Krylov space, in the formats of
/// the options' solver. Each is then refined separately from that result, with `refinement`. Every
/// residual is recomputed in float64. The observer is notified of the shared iterations.
///
/// # Errors
/// [`Error::Parameter`] for invalid options; the errors of tasks.
pub fn multishift(
    rt: &Runtime,
    u: &Gauge,
    options: &Options,
    shifts: &[Shift],
    refinement: &Solver,
    observer: &dyn Observer,
) -> Result<(MultishiftResult, Vec<History>), Error> {
    let geometry = u.geometry();
    options.check(geometry)?;
    if let Some(Shift { shift, tolerance }) =
        shifts.iter().find(|one| !(one.shift >= 0.0 && one.tolerance > 0.0 && one.tolerance.is_finite()))
    {
        let problem = format!(
            "shift {shift}, tolerance {tolerance}: a shift of 0 or more and a tolerance above 0 are needed"
        );
        return Err(Error::parameter("shifts", problem));
    }
    for one in shifts {
        let term = Normal::mass_term(options.mass) + one.shift;
        options.solver.check_range("shifts", one.shift, term)?;
        refinement.check_range("shifts", one.shift, term)?;
    }
    let begun = Instant::now();
    let mut links = u.clone();
    links.reunitarise();
    let smeared = smear(rt, &links, options.action)?;
    drop(links);
    let site = geometry.site(options.source.at);
    let (parity, boundary, solver) = (geometry.parity(site), options.boundary, &options.solver);
    let a = Normal::new(rt, &smeared, options.mass, parity, boundary, Precision::DOUBLE);
    let narrow = solver.narrow(rt, &smeared, options.mass, parity, boundary);
    let after = refinement.narrow(rt, &smeared, options.mass, parity, boundary);
    drop(smeared);
    let smear_seconds = begun.elapsed().as_secs_f64();

    let begun = Instant::now();
    let colour = options.source.colour.unwrap_or(0);
    let b = unit(a.domain().len(), (site as usize % geometry.half()) * COLOURS + colour);
    let stops: Vec<[Stop; 2]> = shifts
        .iter()
        .map(|one| [Stop::RelativeToRhs(one.tolerance), Stop::Steps(options.most_steps)])
        .collect();
    let stops: Vec<&[Stop]> = stops.iter().map(|stop| &stop[..]).collect();
    let stops: Vec<&dyn StoppingCriterion> =
        stops.iter().map(|stop| stop as &dyn StoppingCriterion).collect();
    let sigmas: Vec<f64> = shifts.iter().map(|one| one.shift).collect();
    let mut histories = ObservedHistory::each(shifts.len(), options.most_steps, observer);
    let (shared, updates) = (solver.updates(1), refinement.updates(1));
    let inner: &dyn Operator<C64> = narrow.as_ref().map_or(&a, |narrow| narrow);
    let problem = Solve { rt, exact: &a, inner, preconditioner: None, reduction: 0.0 };
    let inner: &dyn Operator<C64> = after.as_ref().map_or(&a, |after| after);
    let refined = Refinement { shared: &shared, inner, updates: &updates };
    let is_double = narrow.is_none()
        && after.is_none()
        && shifts.windows(2).all(|two| two[0].tolerance == two[1].tolerance);
    let found = match is_double && !shifts.is_empty() {
        true => solve_shifted(&problem, &sigmas, &b, stops[0], &mut histories)?,
        false => solve_shifts(&problem, &sigmas, &b, &stops, &mut histories, &refined)?,
    };
    let solve_seconds = begun.elapsed().as_secs_f64();
    let mut each = Vec::with_capacity(shifts.len());
    let solved = found.taken.iter().zip(&found.each);
    for ((one, (&taken, (solution, z))), history) in shifts.iter().zip(solved).zip(&histories) {
        let history = &history.history;
        let exact = Shifted { a: &a as &dyn Operator<C64>, sigma: one.shift };
        each.push(ShiftResult {
            shift: one.shift,
            tolerance: one.tolerance,
            converged: solution.reason.is_converged(),
            shared_iterations: taken,
            shared_residual: history.checks.first().map_or(f64::NAN, |check| check.1 / solution.rhs),
            iterations: solution.steps,
            iterated_residual: solution.iterated_residual / solution.rhs,
            true_residual: solution.true_residual / solution.rhs,
            heavy_quark_residual: heavy_quark_residual(&residual(rt, &exact, &b, z)?, z),
            reliable_updates: solution.updates,
            applications: solution.steps + solution.updates + solution.runs + 1,
        });
    }
    let applications = found.shared + found.updates + each.iter().map(|one| one.applications).sum::<usize>();
    let result = MultishiftResult {
        lattice: geometry.extents(),
        action: options.action.to_string(),
        mass: options.mass,
        boundary: boundary.to_string(),
        source: options.source.to_string(),
        precision: solver.precision.to_string(),
        refinement: refinement.precision.to_string(),
        converged: each.iter().all(|one| one.converged),
        iterations: found.shared,
        reliable_updates: found.updates,
        applications,
        shifts: each,
        seconds: Seconds { smear: smear_seconds, solve: solve_seconds },
    };
    Ok((result, histories.into_iter().map(|watched| watched.history).collect()))
}
