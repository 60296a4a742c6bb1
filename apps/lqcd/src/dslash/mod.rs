//! Operators between the two parities: the staggered one, and the hopping term of Wilson quarks.
//!
//! The staggered operator is
//! `(D x)(s) = sum_mu eta_mu(s) [ X_mu(s) x(s + mu) - X_mu(s - mu)^H x(s - mu) + N_mu(s) x(s + 3
//! mu) - N_mu(s - 3 mu)^H x(s - 3 mu) ]` without a factor 1/2, with the phases of MILC: `eta_t =
//! 1`, `eta_x = (-1)^t`, `eta_y = (-1)^(t + x)`, `eta_z = (-1)^(t + x + y)`. `D` is antihermitian.
//!
//! The hopping term of Wilson quarks, `H`, is defined in [`wilson`](crate::wilson). It has one hop
//! in each direction; spins are projected before the products with links.
//!
//! Links are folded for each output site: 16 matrices in order of use (8 in the naive action; for
//! one hop, then for three; for each direction forwards and backwards), adjoint, including phase,
//! sign and boundary condition. This takes twice the memory of the links of both parities and the
//! same traffic, and only neighbours have to be gathered.
//!
//! A task decodes each time slice that it needs into arrays of one component each, x fastest. A
//! line is padded with the sites around its ends, so that the neighbours of eight sites are eight
//! contiguous numbers in all directions. Products are sums over these arrays, in float32 or
//! float64.

mod layout;
mod links;
mod number;
mod product;
mod slab;
mod spin;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use num_complex::Complex;
use zellige_kernels::sites::SiteFormat;
use zellige_krylov::method::{NumbersHandle, Steps};
use zellige_krylov::{MultiVector, Space};
use zellige_runtime::{Bindings, Runtime, Submit, read, reads, updates};
use zellige_stochastic::{Samples, Stochastic};

use self::links::Links;
use self::number::RoundedNumber;
use self::product::{Product, has_kernels};
use self::slab::{Buffers, Slab, Stored};
pub use self::spin::GAMMA;
use crate::error::Error;
use crate::gauge::Gauge;
use crate::geometry::{DIRECTIONS, Geometry, Parity, SPINS, T};
use crate::precision::{Precision, Sites};
use crate::smear::Smeared;
use crate::su3::C64;

/// Boundary condition of a quark field in time. In space all fields are periodic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Boundary {
    /// The field continues periodically.
    Periodic,
    /// The field continues with the opposite sign.
    #[default]
    Antiperiodic,
}

impl fmt::Display for Boundary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Boundary::Periodic { "periodic" } else { "antiperiodic" })
    }
}

impl FromStr for Boundary {
    type Err = String;

    fn from_str(text: &str) -> Result<Boundary, String> {
        match text {
            "periodic" => Ok(Boundary::Periodic),
            "antiperiodic" => Ok(Boundary::Antiperiodic),
            _ => Err("not one of periodic, antiperiodic".into()),
        }
    }
}

/// Returns the phase of a site and direction.
pub(crate) fn phase([x, y, _, t]: [usize; DIRECTIONS], direction: usize) -> f64 {
    let sum = [t, t + x, t + x + y, 0][direction];
    if sum % 2 == 0 { 1.0 } else { -1.0 }
}

/// Hopping terms of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hopping {
    /// Those of staggered quarks, with phases.
    Staggered,
    /// Those of Wilson quarks, with projected spins.
    Wilson,
}

impl Hopping {
    /// Returns the number of spins of a quark.
    pub fn spins(self) -> usize {
        if self == Hopping::Staggered { 1 } else { SPINS }
    }
}

/// A complex number with its rounding errors.
pub(crate) type StochasticComplex<S> = Complex<Stochastic<f64, S>>;

/// Operator from one parity to the other.
#[derive(Clone, Debug)]
pub struct Dslash {
    geometry: Geometry,
    to: Parity,
    space: Space,
    precision: Precision,
    links: Arc<Links>,
}

impl Dslash {
    /// Folds links of the staggered operator for output sites of a parity. `precision` defines the
    /// storage of the links and the arithmetic of the products; vectors may have any of the
    /// formats.
    pub fn new(
        target: &impl Submit,
        smeared: &Smeared,
        to: Parity,
        boundary: Boundary,
        precision: Precision,
    ) -> Dslash {
        let fields = [Some((&smeared.fat, 1)), smeared.long.as_ref().map(|long| (long, 3))];
        let fields: Vec<(&Gauge, usize)> = fields.into_iter().flatten().collect();
        Dslash::of(target, &fields, Hopping::Staggered, to, boundary, precision)
    }

    /// Folds links of the hopping term of Wilson quarks, like [`Dslash::new`].
    pub fn wilson(
        target: &impl Submit,
        u: &Gauge,
        to: Parity,
        boundary: Boundary,
        precision: Precision,
    ) -> Dslash {
        Dslash::of(target, &[(u, 1)], Hopping::Wilson, to, boundary, precision)
    }

    fn of(
        target: &impl Submit,
        fields: &[(&Gauge, usize)],
        hopping: Hopping,
        to: Parity,
        boundary: Boundary,
        precision: Precision,
    ) -> Dslash {
        let geometry = fields[0].0.geometry();
        let links = Links::new(target, fields, hopping, to, boundary, precision.gauge);
        let space = geometry.space_of(hopping.spins());
        Dslash { geometry, to, space, precision, links: Arc::new(links) }
    }

    /// Returns the lattice.
    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the parity of the output sites.
    pub fn to(&self) -> Parity {
        self.to
    }

    /// Returns the space of fields on the sites of a parity. Those of Wilson quarks have a colour
    /// vector for each of four spins of a site.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Returns the storage format of the links and the format of the products.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// Returns the number of operations for a site of the results: for naive links, improved ones,
    /// or Wilson quarks, as they are counted in the literature.
    pub(crate) fn flops(&self) -> f64 {
        match (self.links.hopping, self.links.groups.len()) {
            (Hopping::Wilson, _) => 1320.0,
            (_, 1) => 570.0,
            _ => 1146.0,
        }
    }

    /// Returns whether GPUs have kernels for it.
    pub(crate) fn has_kernels(&self) -> bool {
        has_kernels(self.links.hopping, &self.links.groups)
    }

    /// Returns the size of the links in bytes.
    pub fn bytes(&self) -> u64 {
        let lines = self.geometry.half() / self.geometry.line();
        (lines * self.links.words * size_of::<f64>()) as u64
    }

    /// Returns the number of slabs that a task multiplies. On GPUs it is the whole share of a GPU,
    /// because one slab does not fill it, provided that links and vectors fit half of its memory.
    /// Otherwise it is 1.
    fn at_once(&self, steps: &Steps<'_, C64>) -> usize {
        let rt = steps.executor();
        let nodes = rt.runtime().memory();
        let devices = || nodes.iter().filter(|node| node.device.is_some());
        let vectors = 3 * self.space.bytes(2 * steps.columns());
        let fits = |capacity: Option<u64>| capacity.is_none_or(|most| self.bytes() + vectors <= most / 2);
        match devices().count() {
            count if count > 0 && rt.ranks() == 1 && devices().all(|node| fits(node.capacity)) => {
                self.space.parts().div_ceil(count)
            }
            _ => 1,
        }
    }

    /// Returns the slabs whose slices a range of slabs needs, including the range itself.
    fn needed(&self, slabs: Range<usize>) -> Vec<usize> {
        let (nt, slab) = (self.geometry.extents()[T], self.geometry.slab());
        let hops: &[usize] = if self.links.groups.len() == 1 { &[1] } else { &[1, 3] };
        let slices = slabs.start * slab..nt.min(slabs.end * slab);
        let around = slices.flat_map(|t| {
            let beside = hops.iter().flat_map(move |&n| [(t + n) % nt, (t + nt - n) % nt]);
            beside.chain([t])
        });
        let mut needed: Vec<usize> = around.map(|t| t / slab).collect();
        needed.sort_unstable();
        needed.dedup();
        needed
    }

    /// Records `y = factor D x`, and `+ diagonal z` if a `z` on the output sites is given.
    ///
    /// # Errors
    /// [`zellige_krylov::Error::Parameter`] for vectors with another storage than [`Sites`]; the
    /// errors of submission.
    pub fn apply(
        &self,
        steps: &Steps<'_, C64>,
        x: &MultiVector<C64>,
        y: &MultiVector<C64>,
        factor: f64,
        diagonal: Option<(f64, &MultiVector<C64>)>,
    ) -> Result<(), zellige_krylov::Error> {
        self.apply_as(false, steps, x, y, factor, diagonal)
    }

    /// Records like [`Dslash::apply`], `conjugated` with `gamma_5 H gamma_5` instead of the hopping
    /// term `H` of Wilson quarks.
    pub(crate) fn apply_as(
        &self,
        conjugated: bool,
        steps: &Steps<'_, C64>,
        x: &MultiVector<C64>,
        y: &MultiVector<C64>,
        factor: f64,
        diagonal: Option<(f64, &MultiVector<C64>)>,
    ) -> Result<(), zellige_krylov::Error> {
        let format = |vector: &MultiVector<C64>| {
            let problem = "the operator multiplies vectors in the formats of sites";
            let format = Sites::format_of(&**vector.storage());
            format.ok_or_else(|| zellige_krylov::Error::parameter("storage", problem))
        };
        let (of_x, of_y) = (format(x)?, format(y)?);
        let of_own = diagonal.map_or(Ok(of_y), |(_, z)| format(z))?;
        let parts = self.space.parts();
        let at_once = if self.has_kernels() { self.at_once(steps) } else { 1 };
        for begin in (0..parts).step_by(at_once) {
            let slabs = begin..parts.min(begin + at_once);
            let needed = self.needed(slabs.clone());
            let from = reads(needed.iter().map(|&slab| &x.parts()[slab]));
            let own = reads(diagonal.iter().flat_map(|(_, z)| &z.parts()[slabs.clone()]));
            let terms = [factor, diagonal.map_or(0.0, |(diagonal, _)| diagonal)];
            let slab = Slab { conjugated, ..self.slab(needed, steps.columns(), terms) };
            let (links, y) = (reads(&self.links.slabs[slabs.clone()]), updates(&y.parts()[slabs.clone()]));
            let operands = (steps.numbers().read(), links, from, own, y);
            let coords = [slabs.start as u32];
            let product =
                Product { slab, slabs, formats: [of_x, of_own, of_y], compute: self.precision.compute };
            steps.graph().codelet(product, operands).coords(coords).submit()?;
        }
        Ok(())
    }

    fn slab(&self, needed: Vec<usize>, columns: usize, [factor, diagonal]: [f64; 2]) -> Slab {
        let Links { groups, words, hopping, .. } = &*self.links;
        let (geometry, to, groups, words) = (self.geometry, self.to, groups.clone(), *words);
        let (hopping, conjugated) = (*hopping, false);
        Slab { geometry, to, hopping, conjugated, groups, words, needed, columns, factor, diagonal }
    }

    /// Records `y = factor D x` in stochastic arithmetic, and `+ diagonal z` if a `z` on the output
    /// sites is given. Links are exact as they are stored, and products are in float64. The
    /// operations are those of `apply`, in its order.
    ///
    /// # Errors
    /// The errors of submission.
    pub(crate) fn apply_stochastic<S: Samples>(
        &self,
        steps: &Steps<'_, StochasticComplex<S>>,
        x: &MultiVector<StochasticComplex<S>>,
        y: &MultiVector<StochasticComplex<S>>,
        factor: f64,
        diagonal: Option<(f64, &MultiVector<StochasticComplex<S>>)>,
    ) -> Result<(), zellige_krylov::Error> {
        self.geometry.slabs().enumerate().try_for_each(|(i, slices)| {
            let needed = self.needed(i..i + 1);
            let from = reads(needed.iter().map(|&slab| &x.parts()[slab]));
            let own = reads(diagonal.iter().map(|(_, z)| &z.parts()[i]));
            let slab = self.slab(needed, 1, [factor, diagonal.map_or(0.0, |(diagonal, _)| diagonal)]);
            let operands = (read(&self.links.slabs[i]), from, own, y.update(i));
            steps.one("stochastic dslash", i, operands, move |(links, from, own, y)| {
                let stored = |parts| Stored { format: SiteFormat::Fp64, parts };
                let from = stored(from.iter().map(|part| Stochastic::of_words(part.slice())).collect());
                let own = own.iter().next().map(|own| stored(vec![Stochastic::of_words(own.slice())]));
                let to = (SiteFormat::Fp64, Stochastic::of_words_mut(y));
                let mut buffers = Buffers::<RoundedNumber<S>>::new();
                slab.multiply(slices.clone(), links, &from, own.as_ref(), to, &mut buffers);
            })
        })
    }
}

/// Applies the operator between parities to columns, synchronously.
pub(crate) fn dslash_now(
    rt: &Runtime,
    d: &Dslash,
    x: &MultiVector<C64>,
    y: &MultiVector<C64>,
    factor: f64,
) -> Result<(), Error> {
    let numbers = NumbersHandle::new(rt, x.columns(), 0);
    let graph =
        rt.record(|graph| d.apply(&Steps::new(rt, graph, d.space(), &numbers), x, y, factor, None))?;
    rt.replay(&Bindings::recorded(&graph))?;
    Ok(())
}
