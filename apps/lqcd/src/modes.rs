//! Lowest eigenvectors of the staggered operator, for any source and mass.

use std::sync::Arc;

use flate2::Crc;
use zellige_files::observe::Observer;
use zellige_kernels::sites::SiteFormat;
use zellige_krylov::{EigenPairs, Lanczos, MultiVector, Storage, Subspace};
use zellige_runtime::Runtime;

use crate::dslash::{Boundary, Dslash, dslash_now};
use crate::error::Error;
use crate::gauge::Gauge;
use crate::geometry::{DIRECTIONS, Geometry, Parity};
use crate::normal::Normal;
use crate::precision::{Precision, Sites};
use crate::smear::{Action, Smeared};
use crate::su3::C64;

/// Lowest eigenvectors of `-D D` on the sites of a parity, with the system that they belong to.
/// They do not depend on the mass: `4 m^2 - D D` has the same vectors.
#[derive(Clone, Debug)]
pub struct LowModes {
    /// The operator.
    pub of: ModesOf,
    /// Parity of the sites.
    pub parity: Parity,
    /// Storage format of the vectors.
    pub format: SiteFormat,
    /// Eigenvalues of `-D D`, and vectors.
    pub pairs: EigenPairs<C64>,
}

/// An operator `D`: the gauge field, the action and the boundary condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModesOf {
    /// Extents in x, y, z and t.
    pub extents: [usize; DIRECTIONS],
    /// CRC-32 of the links in float64, little endian.
    pub field: u32,
    /// The action, as `--action` takes it.
    pub action: String,
    /// Boundary condition in time.
    pub boundary: Boundary,
}

impl ModesOf {
    /// Describes the operator of a gauge field.
    pub fn new(u: &Gauge, action: Action, boundary: Boundary) -> ModesOf {
        let geometry = u.geometry();
        let mut crc = Crc::new();
        for site in 0..geometry.sites() as u32 {
            for number in (0..DIRECTIONS).flat_map(|mu| *u.link(site, mu)).flatten() {
                crc.update(&number.re.to_le_bytes());
                crc.update(&number.im.to_le_bytes());
            }
        }
        ModesOf { extents: geometry.extents(), field: crc.sum(), action: action.to_string(), boundary }
    }
}

impl LowModes {
    /// Computes eigenvectors on the even sites, and stores them in a format.
    ///
    /// # Errors
    /// The errors of [`Lanczos::lowest`].
    pub fn compute(
        rt: &Runtime,
        of: ModesOf,
        smeared: &Smeared,
        lanczos: &Lanczos,
        format: SiteFormat,
        observer: &dyn Observer,
    ) -> Result<LowModes, Error> {
        let parity = Parity::Even;
        let a = Normal::new(rt, smeared, 0.0, parity, of.boundary, Precision::DOUBLE);
        let pairs = lanczos.lowest(rt, &a, observer)?.stored(rt, storage(format))?;
        Ok(LowModes { of, parity, format, pairs })
    }

    /// Returns the lattice.
    ///
    /// # Errors
    /// The errors of [`Geometry::new`].
    pub fn geometry(&self) -> Result<Geometry, Error> {
        Geometry::new(self.of.extents)
    }

    /// Refuses eigenvectors of another operator.
    ///
    /// # Errors
    /// [`Error::Parameter`] that names what differs.
    pub fn check(&self, of: &ModesOf) -> Result<(), Error> {
        let found = &self.of;
        let difference = match () {
            () if found.extents != of.extents => {
                Some(format!("{:?} sites, not {:?}", found.extents, of.extents))
            }
            () if found.field != of.field => Some("other links".to_owned()),
            () if found.action != of.action => Some(format!("action {}, not {}", found.action, of.action)),
            () if found.boundary != of.boundary => {
                Some(format!("{} in time, not {}", found.boundary, of.boundary))
            }
            () => None,
        };
        match difference {
            None => Ok(()),
            Some(difference) => {
                let problem = format!(
                    "the eigenvectors are of another operator ({difference}): make them with lqcd eigen for this one"
                );
                Err(Error::parameter("deflate", problem))
            }
        }
    }

    /// Returns the eigenvectors on the sites that `a` works on. `v` on one parity is `D v / |D v|`
    /// on the other, with the same eigenvalue.
    ///
    /// # Errors [`Error::Parameter`] if an eigenvalue is 0 to rounding, since its vectors on the
    /// two parities are independent; the errors of tasks.
    pub fn on(&self, rt: &Runtime, a: &Normal) -> Result<EigenPairs<C64>, Error> {
        let to: &Dslash = a.back_to_parity();
        if to.to() == self.parity {
            return Ok(self.pairs.clone());
        }
        let EigenPairs { values, vectors, largest, .. } = &self.pairs;
        if let Some(value) = values.iter().find(|value| **value <= f64::EPSILON * largest) {
            let problem = format!(
                "an eigenvalue is {value:.1e}, 0 to rounding: its vectors are known on {:?} sites only, use a source there",
                self.parity
            );
            return Err(Error::parameter("deflate", problem));
        }
        let mut moved = Vec::with_capacity(values.len());
        for (v, value) in vectors.vectors().iter().zip(values) {
            let y = MultiVector::stored(rt, to.space(), 1, storage(self.format));
            dslash_now(rt, to, v, &y, 1.0 / value.sqrt())?;
            moved.push(y);
        }
        Ok(EigenPairs { vectors: Subspace::new(moved)?, ..self.pairs.clone() })
    }
}

/// Returns the storage of a vector in a format.
pub(crate) fn storage(format: SiteFormat) -> Arc<dyn Storage<C64>> {
    Arc::new(Sites::new(format, 1))
}
