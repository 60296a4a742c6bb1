//! Links, sources and eigenvectors that a propagator is computed from.

use std::path::Path;

use zellige_files::observe::Observer;
use zellige_kernels::sites::SiteFormat;
use zellige_runtime::Runtime;

use super::eigen::EigenOptions;
use super::options::Options;
use super::propagator::{Side, unit};
use crate::error::Error;
use crate::files;
use crate::gauge::Gauge;
use crate::geometry::{COLOURS, Geometry, Parity, SPINS};
use crate::modes::{LowModes, ModesOf};
use crate::smear::{Action, Smeared};
use crate::su3::C64;

/// Tolerance of eigenvectors that are computed for deflation, relative to the largest eigenvalue.
const TOLERANCE: f64 = 1e-8;

/// Eigenvectors that begin the solves of a propagator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Deflation<'d> {
    /// This number of eigenvectors, which are computed first, and how they are stored.
    Compute(usize, SiteFormat),
    /// Eigenvectors of a file.
    Read(&'d Path),
}

impl Deflation<'_> {
    /// Computes or reads the eigenvectors of an operator.
    pub(super) fn modes(
        self,
        rt: &Runtime,
        smeared: &Smeared,
        of: ModesOf,
        options: &Options,
        observer: &dyn Observer,
    ) -> Result<LowModes, Error> {
        match self {
            Deflation::Read(path) => {
                let modes = files::modes::read(rt, path)?;
                modes.check(&of).map(|()| modes)
            }
            Deflation::Compute(count, format) => {
                let Options { action, boundary, mass, .. } = *options;
                let options = EigenOptions { action, boundary, mass, count, tolerance: TOLERANCE, format };
                LowModes::compute(rt, of, smeared, &options.lanczos(), format, observer)
            }
        }
    }
}

/// Links of a quark.
#[derive(Clone, Copy, Debug)]
pub enum LinkField<'a> {
    /// A gauge field as stored in its file. Its links are first made exactly unitary, and are then
    /// smeared as the action says.
    Gauge(&'a Gauge),
    /// Links that are smeared already, for staggered quarks.
    Smeared(&'a Smeared),
}

impl<'a> LinkField<'a> {
    /// Returns the links of one hop.
    pub(super) fn of_one_hop(self) -> &'a Gauge {
        match self {
            LinkField::Gauge(links) => links,
            LinkField::Smeared(smeared) => &smeared.fat,
        }
    }
}

/// A propagator to compute, besides its options.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// Links.
    pub links: LinkField<'a>,
    /// Name and numbers of source fields in place of the point source of the options. A field has
    /// the colours of each site, or for Wilson quarks those of each of four spins, in the order of
    /// the lattice's sites.
    pub sources: Option<(&'a str, &'a [Vec<C64>])>,
    /// Eigenvectors that the solves begin with.
    pub deflation: Option<Deflation<'a>>,
}

impl<'a> Problem<'a> {
    /// Returns the problem of a point source in a gauge field.
    pub fn new(u: &'a Gauge) -> Problem<'a> {
        Problem { links: LinkField::Gauge(u), sources: None, deflation: None }
    }

    pub(super) fn geometry(&self) -> Geometry {
        self.links.of_one_hop().geometry()
    }

    /// Refuses what an action cannot be solved with.
    pub(super) fn check(&self, options: &Options) -> Result<(), Error> {
        let is_smeared = matches!(self.links, LinkField::Smeared(_));
        if self.deflation.is_some() || is_smeared {
            options.action.check_staggered()?;
        }
        if self.deflation.is_some() && is_smeared {
            let problem = "eigenvectors are those of a gauge field, but its links are smeared already";
            return Err(Error::parameter("deflate", problem));
        }
        Ok(())
    }

    /// Returns the name of the action in results.
    pub(super) fn action(&self, options: &Options) -> String {
        match self.links {
            LinkField::Gauge(_) => options.action.to_string(),
            LinkField::Smeared(_) => "smeared".to_owned(),
        }
    }

    /// Returns the name of the source in results.
    pub(super) fn source(&self, options: &Options) -> String {
        self.sources.map_or_else(|| options.source.to_string(), |(name, _)| name.to_owned())
    }

    /// Returns the right-hand sides, for each parity that has any.
    pub(super) fn sides(&self, options: &Options) -> Result<Vec<Side>, Error> {
        let geometry = self.geometry();
        let spins = if options.action == Action::Wilson { SPINS } else { 1 };
        let length = geometry.half() * spins * COLOURS;
        let Some((name, fields)) = self.sources else {
            let site = geometry.site(options.source.at);
            let first = site as usize % geometry.half() * spins;
            let colours = options.source.colours();
            let places = (0..spins)
                .flat_map(|spin| colours.iter().map(move |colour| (first + spin) * COLOURS + colour));
            let b = places.map(|place| unit(length, place)).collect();
            return Ok(vec![Side { parity: geometry.parity(site), b }]);
        };
        let refused = |problem: String| Err(Error::parameter("source-fields", format!("{name}: {problem}")));
        if let Some(field) = fields.iter().find(|field| field.len() != 2 * length) {
            let expected = spins * COLOURS;
            return refused(match field.len() / geometry.sites() {
                of_site if of_site * geometry.sites() == field.len() && of_site != expected => {
                    format!("{of_site} numbers for each site, but {} quarks have {expected}", options.action)
                }
                _ => format!("{} numbers, but the lattice of the links has {}", field.len(), 2 * length),
            });
        }
        if let Some(field) = fields.iter().position(|field| !field.iter().all(|z| z.is_finite())) {
            return refused(format!("field {field} has numbers that are not finite"));
        }
        if let Some(field) = fields.iter().position(|field| field.iter().all(|z| *z == C64::default())) {
            return refused(format!("field {field} is zero"));
        }
        let side = |(at, parity): (usize, Parity)| {
            let b: Vec<Vec<C64>> =
                fields.iter().map(|field| field[at * length..][..length].to_vec()).collect();
            let has_any = b.iter().flatten().any(|z| *z != C64::default());
            has_any.then_some(Side { parity, b })
        };
        Ok(Parity::BOTH.into_iter().enumerate().filter_map(side).collect())
    }
}
