//! Solver: its method and its formats.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use zellige_krylov::{
    BiCgStab, BlockCg, Cg, Gmres, Operator, ReliableUpdates, Scalar, Stabilisation, Trigger, Updates,
    multiply,
};
use zellige_runtime::Runtime;

use crate::dslash::Boundary;
pub(crate) use crate::dslash::dslash_now;
use crate::error::Error;
use crate::geometry::{COLOURS, Parity};
use crate::normal::Normal;
use crate::precision::{Precision, Sites};
use crate::smear::Smeared;
use crate::su3::C64;

/// A Krylov method. Its text is `cg`, `block-cg`, `bicgstabl:L` or `gmres:M`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Method {
    /// Conjugate gradients.
    #[default]
    Cg,
    /// Conjugate gradients in one Krylov space for all colours of the source, in float64.
    BlockCg,
    /// BiCGStab(l). Each polynomial counts as `l` steps, which are `2 l` applications.
    BiCgStab {
        /// Degree of the polynomials, 1 to 8.
        l: usize,
    },
    /// GMRES, in float64.
    Gmres {
        /// Number of steps after which the method is restarted, and of vectors that are kept.
        restart: usize,
    },
}

/// Largest degree of the polynomials of BiCGStab, and largest Krylov space of GMRES.
const MOST: [usize; 2] = [8, 1000];

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Method::Cg => f.write_str("cg"),
            Method::BlockCg => f.write_str("block-cg"),
            Method::BiCgStab { l } => write!(f, "bicgstabl:{l}"),
            Method::Gmres { restart } => write!(f, "gmres:{restart}"),
        }
    }
}

impl FromStr for Method {
    type Err = String;

    fn from_str(text: &str) -> Result<Method, String> {
        let number = |text: &str, most: usize| match text.parse() {
            Ok(number) if (1..=most).contains(&number) => Ok(number),
            _ => Err(format!("{text}: a whole number from 1 to {most} is needed")),
        };
        match text.split_once(':') {
            None if text == "cg" => Ok(Method::Cg),
            None if text == "block-cg" => Ok(Method::BlockCg),
            Some(("bicgstabl", l)) => Ok(Method::BiCgStab { l: number(l, MOST[0])? }),
            Some(("gmres", restart)) => Ok(Method::Gmres { restart: number(restart, MOST[1])? }),
            _ => {
                Err("not one of cg, block-cg, bicgstabl:L (such as bicgstabl:4), gmres:M (such as gmres:40)"
                    .into())
            }
        }
    }
}

/// Formats of a solver: `double`; `double-X`, which replaces residuals of [`Precision`] `X` by
/// float64 ones during the iteration; or `X` alone, whose residual is recomputed only when it seems
/// to be small enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mixed {
    /// Float64 alone.
    #[default]
    Double,
    /// A low precision with reliable updates.
    With(Precision),
    /// A low precision without reliable updates.
    Alone(Precision),
}

impl Mixed {
    /// Returns the low-precision formats, if there are any.
    pub fn narrow(self) -> Option<Precision> {
        match self {
            Mixed::Double => None,
            Mixed::With(precision) | Mixed::Alone(precision) => Some(precision),
        }
    }
}

impl fmt::Display for Mixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mixed::Double => f.write_str("double"),
            Mixed::With(precision) => write!(f, "double-{precision}"),
            Mixed::Alone(precision) => precision.fmt(f),
        }
    }
}

impl FromStr for Mixed {
    type Err = String;

    fn from_str(text: &str) -> Result<Mixed, String> {
        match text.strip_prefix("double-") {
            Some(narrow) => narrow.parse().map(Mixed::With),
            None if text == "double" => Ok(Mixed::Double),
            None => text.parse().map(Mixed::Alone),
        }
    }
}

/// Method, formats and stabilisation of a solver (Clark et al. 2022). The stabilisation has no
/// effect in [`Mixed::Double`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Solver {
    /// Krylov method.
    pub method: Method,
    /// Formats of the steps.
    pub precision: Mixed,
    /// Threshold of reliable updates: the residual is replaced when it has fallen by this factor
    /// since the last replacement.
    pub delta: f64,
    /// Whether, for conjugate gradients, the residual is instead replaced when an estimate of
    /// rounding errors is large (van der Vorst and Ye 2000).
    pub estimate: bool,
    /// Whether the solution is accumulated in float64.
    pub wide_solution: bool,
    /// Whether directions are made orthogonal to a replaced residual.
    pub projection: bool,
    /// Whether shifts that have reached the resolution of the formats are removed from the shared
    /// steps.
    pub removal: bool,
    /// Whether directions of conjugate gradients follow the formula of Polak and Ribière.
    pub polak_ribiere: bool,
    /// Number of directions of conjugate gradients that are added to the solution together, 1 to 8.
    /// It changes no bits.
    pub buffer: usize,
}

impl Default for Solver {
    fn default() -> Self {
        let (method, precision) = Default::default();
        let [wide_solution, projection, removal, polak_ribiere] = [true; 4];
        let (delta, estimate, buffer) = (0.1, false, 1);
        Solver {
            method,
            precision,
            delta,
            estimate,
            wide_solution,
            projection,
            removal,
            polak_ribiere,
            buffer,
        }
    }
}

impl Solver {
    /// Refuses a parameter for which products of a `term` and a vector, or their norms, would be
    /// out of the range of the formats.
    pub(crate) fn check_range(&self, name: &'static str, value: f64, term: f64) -> Result<(), Error> {
        let (most, range) = match self.precision {
            Mixed::Double => (f64::MAX.sqrt(), "norms in float64"),
            _ => (
                f64::from(f32::MAX) / 4.0,
                "float32, the type of the scales of these formats: --precision double has a larger range",
            ),
        };
        if term <= most {
            return Ok(());
        }
        let problem = format!(
            "{value:e}: the operator has elements of {term:.0e}, {most:.0e} is within the range of {range}"
        );
        Err(Error::parameter(name, problem))
    }

    /// Returns the number of steps of the method in one recorded step.
    pub(crate) fn steps(&self) -> usize {
        if let Method::BiCgStab { l } = self.method { l } else { 1 }
    }

    /// Returns the number of applications of a step.
    pub(crate) fn products(&self) -> usize {
        if matches!(self.method, Method::BiCgStab { .. }) { 2 } else { 1 }
    }

    /// Returns whether the method computes in float64 only.
    pub(crate) fn is_double_only(&self) -> bool {
        matches!(self.method, Method::BlockCg | Method::Gmres { .. })
    }

    /// Refuses formats and a buffer that the method cannot use.
    pub(crate) fn check_formats(&self) -> Result<(), Error> {
        if self.is_double_only() && self.precision != Mixed::Double {
            let problem = format!(
                "{} computes in float64, not in {}: use cg or bicgstabl:L, or --precision double",
                self.method, self.precision
            );
            return Err(Error::parameter("method", problem));
        }
        if self.buffer != 1 && (self.precision == Mixed::Double || self.method != Method::Cg) {
            let problem = format!(
                "{} directions: only conjugate gradients in a narrow format keep them, such as --precision double-half",
                self.buffer
            );
            return Err(Error::parameter("buffer", problem));
        }
        Ok(())
    }

    /// Returns whether the method is for hermitian operators.
    pub(crate) fn is_hermitian_only(&self) -> bool {
        matches!(self.method, Method::Cg | Method::BlockCg)
    }

    /// Returns the low-precision operator, if there is one.
    pub(crate) fn narrow(
        &self,
        rt: &Runtime,
        smeared: &Smeared,
        mass: f64,
        parity: Parity,
        boundary: Boundary,
    ) -> Option<Normal> {
        let narrow = self.precision.narrow()?;
        Some(Normal::new(rt, smeared, mass, parity, boundary, narrow))
    }

    /// Returns the trigger of reliable updates, and the storage of vectors.
    pub(crate) fn updates(&self, columns: usize) -> Updates<C64> {
        let fermion = self.precision.narrow().unwrap_or(Precision::DOUBLE).fermion;
        let is_alone = matches!(self.precision, Mixed::Alone(_));
        let trigger = match (is_alone, self.estimate) {
            // The residual is not replaced before it seems to be small enough.
            (true, _) => Trigger::Reduction(f64::MIN_POSITIVE),
            (false, true) => Trigger::Estimate,
            (false, false) => Trigger::Reduction(self.delta),
        };
        let Solver { wide_solution, projection, removal, buffer, .. } = *self;
        let stabilisation = Stabilisation { wide_solution, projection, removal };
        Updates { trigger, storage: Arc::new(Sites::new(fermion, columns)), stabilisation, buffer }
    }

    /// Returns the method in float64.
    pub(crate) fn in_double<E: Scalar>(&self) -> Box<dyn zellige_krylov::Method<E>> {
        match self.method {
            Method::Cg => Box::new(Cg { flexible: false }),
            Method::BlockCg => Box::new(BlockCg),
            Method::BiCgStab { l } => Box::new(BiCgStab { l }),
            Method::Gmres { restart } => Box::new(Gmres { restart, ..Gmres::default() }),
        }
    }

    /// Returns the method for `columns` columns, with recomputed residuals of `exact`.
    pub(crate) fn method<'e>(
        &self,
        exact: &'e dyn Operator<C64>,
        columns: usize,
    ) -> Box<dyn zellige_krylov::Method<C64> + 'e> {
        let updates = self.updates(columns);
        match self.method {
            _ if self.precision == Mixed::Double || self.is_double_only() => self.in_double(),
            Method::BiCgStab { l } => Box::new(ReliableUpdates { method: BiCgStab { l }, exact, updates }),
            _ => Box::new(ReliableUpdates { method: Cg { flexible: self.polak_ribiere }, exact, updates }),
        }
    }

    /// Returns the name of the method.
    pub(crate) fn name(&self, exact: &dyn Operator<C64>) -> String {
        self.method(exact, 1).name()
    }
}

/// Computes the residual `r = b - A z`.
pub(crate) fn residual<E: Scalar>(
    rt: &Runtime,
    a: &dyn Operator<E>,
    b: &[E],
    z: &[E],
) -> Result<Vec<E>, Error> {
    let product = multiply(rt, a, z)?;
    Ok(b.iter().zip(product).map(|(b, product)| *b - product).collect())
}

/// Computes the heavy-quark residual of a staggered quark, [`residual_of_sites`].
pub(crate) fn heavy_quark_residual(r: &[C64], z: &[C64]) -> f64 {
    residual_of_sites(r, z, COLOURS)
}

/// Computes the heavy-quark residual `sqrt(mean |r(x)|^2 / |z(x)|^2)` over the sites of a parity,
/// which have this number of components. A site with `z` = 0 counts as 1.
pub(crate) fn residual_of_sites(r: &[C64], z: &[C64], components: usize) -> f64 {
    let sites = r.chunks_exact(components).zip(z.chunks_exact(components));
    // Squares of a heavy quark's values would underflow far from its source.
    let of_site = |(r, z): (&[C64], &[C64])| match norm(z) {
        0.0 => 1.0,
        z => (norm(r) / z).powi(2),
    };
    (sites.map(of_site).sum::<f64>() * components as f64 / r.len() as f64).sqrt()
}

/// Returns the norm of a vector whose squares may be out of range.
pub(crate) fn norm(vector: &[C64]) -> f64 {
    vector.iter().map(|z| z.norm()).fold(0.0, f64::hypot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_written_as_they_are_read() {
        for text in ["double", "single", "half", "double-int30", "double-fp32/int20/fp32"] {
            assert_eq!(text.parse::<Mixed>().map(|mixed| mixed.to_string()), Ok(text.to_owned()));
        }
        for text in ["cg", "block-cg", "bicgstabl:4", "gmres:40"] {
            assert_eq!(text.parse::<Method>().map(|method| method.to_string()), Ok(text.to_owned()));
        }
        assert!("double-".parse::<Mixed>().is_err());
        for text in ["gmres", "gmres:0", "bicgstabl:9", "bicgstabl:x", "cg:2", ""] {
            assert!(text.parse::<Method>().is_err(), "{text}");
        }
    }
}
