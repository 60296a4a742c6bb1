//! Lowest eigenvalues of the staggered operator.

use std::time::Instant;

use zellige_files::observe::Observer;
use zellige_kernels::sites::SiteFormat;
use zellige_krylov::Lanczos;
use zellige_runtime::Runtime;

use super::results::{EigenResult, Seconds};
use crate::dslash::Boundary;
use crate::error::Error;
use crate::gauge::Gauge;
use crate::modes::{LowModes, ModesOf};
use crate::normal::Normal;
use crate::smear::{Action, smear};

/// Options of `lqcd eigen`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EigenOptions {
    /// Action.
    pub action: Action,
    /// Boundary condition in time.
    pub boundary: Boundary,
    /// Quark mass, 0 or more: its term is added to the eigenvalues of the result.
    pub mass: f64,
    /// Number of eigenvalues.
    pub count: usize,
    /// Tolerance: `|A v - lambda v|` relative to the largest eigenvalue.
    pub tolerance: f64,
    /// Storage format of the vectors.
    pub format: SiteFormat,
}

impl EigenOptions {
    /// Returns the settings of the Lanczos method. Eigenvalues on the sites of one parity of a
    /// gauge field are single.
    pub(crate) fn lanczos(&self) -> Lanczos {
        Lanczos { tolerance: self.tolerance, multiple: false, ..Lanczos::new(self.count) }
    }
}

/// Computes the lowest eigenvalues of `4 m^2 - D D` on the even sites, and their vectors. `u` is
/// the field as stored in its file; its links are first made exactly unitary.
///
/// # Errors
/// [`Error::Parameter`] for invalid options; the errors of [`Lanczos::lowest`].
pub fn eigen(
    rt: &Runtime,
    u: &Gauge,
    options: &EigenOptions,
    observer: &dyn Observer,
) -> Result<(EigenResult, LowModes), Error> {
    let EigenOptions { action, boundary, mass, tolerance, format, .. } = *options;
    if !(mass >= 0.0 && Normal::mass_term(mass).is_finite()) {
        return Err(Error::parameter("mass", format!("{mass}: a number of 0 or more is needed")));
    }
    let begun = Instant::now();
    let of = ModesOf::new(u, action, boundary);
    let mut links = u.clone();
    links.reunitarise();
    let smeared = smear(rt, &links, action)?;
    drop(links);
    let smear_seconds = begun.elapsed().as_secs_f64();
    let begun = Instant::now();
    let modes = LowModes::compute(rt, of, &smeared, &options.lanczos(), format, observer)?;
    let pairs = &modes.pairs;
    let result = EigenResult {
        lattice: u.geometry().extents(),
        action: action.to_string(),
        boundary: boundary.to_string(),
        mass,
        tolerance,
        format: format.name(),
        eigenvalues: pairs.values.iter().map(|value| value + Normal::mass_term(mass)).collect(),
        residuals: pairs.residuals.clone(),
        largest: pairs.largest + Normal::mass_term(mass),
        applications: pairs.applications,
        restarts: pairs.restarts,
        bytes: pairs.vectors.bytes(),
        written: None,
        seconds: Seconds { smear: smear_seconds, solve: begun.elapsed().as_secs_f64() },
    };
    Ok((result, modes))
}
