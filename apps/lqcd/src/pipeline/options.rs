//! Options of a solve.

use zellige_krylov::Solution;

use super::solver::Solver;
use super::source::Source;
use crate::dslash::Boundary;
use crate::error::Error;
use crate::geometry::Geometry;
use crate::normal::Normal;
use crate::smear::Action;
use crate::wilson::Wilson;

/// Options of a solve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Action.
    pub action: Action,
    /// Quark mass, above 0; the bare mass of Wilson quarks, above -4.
    pub mass: f64,
    /// Boundary condition in time.
    pub boundary: Boundary,
    /// Point source.
    pub source: Source,
    /// Tolerance: norm of the residual relative to that of the source.
    pub tolerance: f64,
    /// Additional tolerance for the heavy-quark residual; used by [`invert`](super::invert()) only.
    pub heavy_quark: Option<f64>,
    /// Maximum number of steps for each right-hand side, on each parity with a source.
    pub most_steps: usize,
    /// Method and formats.
    pub solver: Solver,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            action: Action::HISQ,
            mass: 0.01,
            boundary: Boundary::default(),
            source: Source::default(),
            tolerance: 1e-10,
            heavy_quark: None,
            most_steps: 100_000,
            solver: Solver::default(),
        }
    }
}

impl Options {
    /// Returns whether a solution meets the tolerances.
    pub(super) fn are_met(&self, solution: &Solution, heavy: f64) -> bool {
        solution.true_residual <= self.tolerance * solution.rhs
            && self.heavy_quark.is_none_or(|goal| heavy <= goal)
    }

    pub(crate) fn check(&self, geometry: Geometry) -> Result<(), Error> {
        let (least, term) = match self.action {
            Action::Wilson => (-4.0, Wilson::bound(self.mass)),
            _ => (0.0, Normal::mass_term(self.mass)),
        };
        if !(self.mass > least && self.mass.is_finite()) {
            return Err(Error::parameter("mass", format!("{}: a number above {least} is needed", self.mass)));
        }
        self.solver.check_formats()?;
        self.solver.check_range("mass", self.mass, term)?;
        if !(self.tolerance > 0.0 && self.tolerance.is_finite()) {
            return Err(Error::parameter("tol", format!("{}: a number above 0 is needed", self.tolerance)));
        }
        if let Some(goal) = self.heavy_quark.filter(|goal| !(*goal > 0.0 && goal.is_finite())) {
            return Err(Error::parameter("heavy-quark-tol", format!("{goal}: a number above 0 is needed")));
        }
        let extents = geometry.extents();
        if self.source.at.iter().zip(extents).any(|(&at, extent)| at >= extent) {
            let problem = format!("{}: the lattice has {extents:?} sites, counted from 0", self.source);
            return Err(Error::parameter("source", problem));
        }
        Ok(())
    }
}
