//! The staggered operator between the two parities.
//!
//! `(D x)(s) = sum_mu eta_mu(s) [ X_mu(s) x(s + mu) - X_mu(s - mu)^H x(s - mu) + N_mu(s) x(s + 3 mu) - N_mu(s - 3 mu)^H x(s - 3 mu) ]` without a
//! factor 1/2, with the phases of MILC: `eta_t = 1`, `eta_x = (-1)^t`, `eta_y = (-1)^(t + x)`, `eta_z = (-1)^(t + x + y)`. `D` is antihermitian.
//!
//! Links are folded for each output site: 16 matrices in order of use (8 of the naive action; for each direction forwards, backwards and, for three
//! hops, forwards, backwards), adjoint, with phase, sign and boundary condition in them. That is twice the memory of the links of both
//! parities, the same traffic, and nothing to be gathered but neighbours.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use zellige_krylov::{MultiVector, Scalar, Space, Steps};
use zellige_runtime::{Handle, Submit, read, reads};

use crate::geometry::{COLOURS, DIRECTIONS, Geometry, Parity, T};
use crate::smear::Smeared;
use crate::su3::{C64, Matrix, adjoint, scale};

/// What a quark field does where the lattice ends in time. In space all fields are periodic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Boundary {
    /// It goes on.
    Periodic,
    /// It goes on with the other sign.
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
            _ => Err("periodic and antiperiodic are possible".into()),
        }
    }
}

/// The phase of a site and direction.
fn phase([x, y, _, t]: [usize; DIRECTIONS], direction: usize) -> f64 {
    let sum = [t, t + x, t + x + y, 0][direction];
    if sum % 2 == 0 { 1.0 } else { -1.0 }
}

/// The operator from one parity to the other.
#[derive(Clone, Debug)]
pub struct Dslash {
    geometry: Geometry,
    to: Parity,
    space: Space,
    /// Hops in each direction: 1, or 1 and 3.
    hops: &'static [usize],
    /// Of each slab: `[site][direction][hops][forwards, backwards]`.
    links: Vec<Handle<Vec<Matrix>>>,
    neighbours: Arc<InSpace>,
}

/// Neighbours in space, as places within a time slice of the other parity. All slices with the same parity of `t` have the same.
#[derive(Debug)]
struct InSpace {
    /// For an even and an odd slice: `[site][direction][hops][forwards, backwards]`.
    tables: [Vec<u32>; 2],
}

impl InSpace {
    fn new(geometry: Geometry, to: Parity, hops: &[usize]) -> InSpace {
        let first = geometry.sites_of(to).start;
        let slice = geometry.slice() as u32;
        let table = |t: u32| {
            let sites = (0..slice).map(|s| first + t * slice + s);
            let each = |site| {
                let towards = (0..T)
                    .flat_map(|mu| hops.iter().flat_map(move |&n| [(mu, n as isize), (mu, -(n as isize))]));
                towards.map(move |(mu, n)| geometry.neighbour(site, mu, n) % geometry.half() as u32 % slice)
            };
            sites.flat_map(each).collect()
        };
        InSpace { tables: [table(0), table(1)] }
    }
}

impl Dslash {
    /// Folds links for output sites of a parity.
    pub fn new(target: &impl Submit, smeared: &Smeared, to: Parity, boundary: Boundary) -> Dslash {
        let geometry = smeared.fat.geometry();
        let hops: &[usize] = if smeared.long.is_some() { &[1, 3] } else { &[1] };
        let first = geometry.sites_of(to).start;
        let fold = |site: u32| {
            let at = geometry.coordinates(site);
            let each = move |mu| hops.iter().flat_map(move |&n| folded(smeared, site, at, mu, n, boundary));
            (0..DIRECTIONS).flat_map(each)
        };
        let slice = geometry.slice() as u32;
        let of_slab = |slab: std::ops::Range<usize>| {
            let sites = first + slab.start as u32 * slice..first + slab.end as u32 * slice;
            target.register(sites.flat_map(fold).collect::<Vec<Matrix>>())
        };
        let links = geometry.slabs().map(of_slab).collect();
        let neighbours = Arc::new(InSpace::new(geometry, to, hops));
        Dslash { geometry, to, space: geometry.space(), hops, links, neighbours }
    }

    /// The parity of the sites that it writes.
    pub fn to(&self) -> Parity {
        self.to
    }

    /// The space of fields on the sites of a parity.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// Bytes of its links.
    pub fn bytes(&self) -> u64 {
        (self.geometry.half() * DIRECTIONS * self.hops.len() * 2 * size_of::<Matrix>()) as u64
    }

    /// Slabs of which slab `i` needs some slices, its own among them.
    fn needed(&self, i: usize) -> Vec<usize> {
        let (nt, slab) = (self.geometry.extents()[T], self.geometry.slab());
        let slices = self.geometry.slabs().nth(i).unwrap_or_default();
        let around = slices.flat_map(|t| {
            let beside = self.hops.iter().flat_map(move |&n| [(t + n) % nt, (t + nt - n) % nt]);
            beside.chain([t])
        });
        let mut needed: Vec<usize> = around.map(|t| t / slab).collect();
        needed.sort_unstable();
        needed.dedup();
        needed
    }

    /// Records `y = factor D x`, and `+ diagonal z` where there is a `z` on the output sites.
    ///
    /// # Errors
    /// [`zellige_krylov::Error::Parameter`] for vectors that are not stored in float64; those of submission.
    pub fn apply(
        &self,
        steps: &Steps<'_, C64>,
        x: &MultiVector<C64>,
        y: &MultiVector<C64>,
        factor: f64,
        diagonal: Option<(f64, &MultiVector<C64>)>,
    ) -> Result<(), zellige_krylov::Error> {
        let vectors = [Some(x), Some(y), diagonal.map(|(_, z)| z)];
        if !vectors.into_iter().flatten().all(|vector| vector.storage().is_plain()) {
            let problem = "the staggered operator multiplies vectors in float64";
            return Err(zellige_krylov::Error::parameter("storage", problem));
        }
        for i in 0..self.space.parts() {
            let needed = self.needed(i);
            let from = reads(needed.iter().map(|&slab| &x.parts()[slab]));
            let own = reads(diagonal.iter().map(|(_, z)| &z.parts()[i]));
            let slab = Slab {
                geometry: self.geometry,
                hops: self.hops,
                slices: self.geometry.slabs().nth(i).unwrap_or_default(),
                needed,
                columns: steps.columns(),
                factor,
                diagonal: diagonal.map_or(0.0, |(diagonal, _)| diagonal),
                neighbours: Arc::clone(&self.neighbours),
            };
            let operands = (read(&self.links[i]), from, own, y.update(i));
            steps.one("dslash", i, operands, move |(links, from, own, y)| {
                let from: Vec<&[C64]> = from.iter().map(|part| C64::of_words(part.slice())).collect();
                let own = own.iter().next().map(|part| C64::of_words(part.slice()));
                slab.multiply(links, &from, own, C64::of_words_mut(y));
            })?;
        }
        Ok(())
    }
}

/// The matrices of a site for so many hops in a direction, forwards and backwards.
fn folded(
    smeared: &Smeared,
    site: u32,
    at: [usize; DIRECTIONS],
    mu: usize,
    hops: usize,
    boundary: Boundary,
) -> [Matrix; 2] {
    let field = match &smeared.long {
        Some(long) if hops == 3 => long,
        _ => &smeared.fat,
    };
    let geometry = field.geometry();
    let crosses = |is: bool| if boundary == Boundary::Antiperiodic && mu == T && is { -1.0 } else { 1.0 };
    let behind = geometry.neighbour(site, mu, -(hops as isize));
    let (eta, end) = (phase(at, mu), geometry.extents()[T]);
    [
        scale(eta * crosses(at[T] + hops >= end), field.link(site, mu)),
        scale(-eta * crosses(at[T] < hops), &adjoint(field.link(behind, mu))),
    ]
}

/// What the task of a slab multiplies.
struct Slab {
    geometry: Geometry,
    hops: &'static [usize],
    slices: std::ops::Range<usize>,
    /// The slabs that it is given.
    needed: Vec<usize>,
    columns: usize,
    factor: f64,
    diagonal: f64,
    neighbours: Arc<InSpace>,
}

impl Slab {
    /// The values of a time slice.
    fn slice<'x>(&self, from: &[&'x [C64]], t: usize) -> &'x [C64] {
        let slab = self.geometry.slab();
        let part = self.needed.binary_search(&(t / slab)).expect("a slab that is needed");
        let length = self.geometry.slice() * COLOURS * self.columns;
        &from[part][t % slab * length..][..length]
    }

    fn multiply(&self, links: &[Matrix], from: &[&[C64]], own: Option<&[C64]>, y: &mut [C64]) {
        let (slice, nt, width) = (self.geometry.slice(), self.geometry.extents()[T], COLOURS * self.columns);
        let per_site = DIRECTIONS * self.hops.len() * 2;
        let in_space = T * self.hops.len() * 2;
        for (i, t) in self.slices.clone().enumerate() {
            let here = self.slice(from, t);
            let in_time: Vec<&[C64]> = self
                .hops
                .iter()
                .flat_map(|&n| [(t + n) % nt, (t + nt - n) % nt])
                .map(|t| self.slice(from, t))
                .collect();
            let table = &self.neighbours.tables[t % 2];
            for s in 0..slice {
                let at = i * slice + s;
                let links = &links[at * per_site..][..per_site];
                let y = &mut y[at * width..][..width];
                y.fill(C64::default());
                let (of_space, of_time) = links.split_at(in_space);
                for (link, &neighbour) in of_space.iter().zip(&table[s * in_space..]) {
                    accumulate(link, &here[neighbour as usize * width..][..width], y, self.columns);
                }
                for (link, there) in of_time.iter().zip(&in_time) {
                    accumulate(link, &there[s * width..][..width], y, self.columns);
                }
                for (k, y) in y.iter_mut().enumerate() {
                    let rest = own.map_or(C64::default(), |own| own[at * width + k] * self.diagonal);
                    *y = rest + *y * self.factor;
                }
            }
        }
    }
}

/// `y += a x` for each column.
fn accumulate(a: &Matrix, x: &[C64], y: &mut [C64], columns: usize) {
    for c in 0..columns {
        for i in 0..COLOURS {
            let sum = a[i][0] * x[c] + a[i][1] * x[columns + c] + a[i][2] * x[2 * columns + c];
            y[i * columns + c] += sum;
        }
    }
}
