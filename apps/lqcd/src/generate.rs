//! Generation of quenched gauge fields by heatbath and over-relaxation.
//!
//! The Wilson action is `beta sum (1 - Re tr P / 3)` over plaquettes. Links are updated by
//! subgroups SU(2) in turn (Cabibbo and Marinari 1982): by the heatbath of Kennedy and Pendleton
//! (1985), or by a reflection that preserves the action. Links of one parity and direction are
//! independent, and a task updates those of a slab. Random numbers are counter-based: those of a
//! link in a sweep depend only on the seed, the number of the link and that of the sweep. The field
//! is therefore the same for any number of workers.

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zellige_files::observe::Observer;
use zellige_runtime::{Handle, Runtime, Submit, reads, update};

use crate::error::Error;
use crate::gauge::Gauge;
use crate::geometry::{COLOURS, DIRECTIONS, Geometry, Neighbours, Parity, T};
use crate::observables::plaquettes;
use crate::su3::{C64, Matrix, ZERO, add, adjoint, adjoint_mul, from_numbers, mul, mul_adjoint, reunitarise};

/// Initial field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Start {
    /// Unit matrices.
    #[default]
    Cold,
    /// Random matrices.
    Hot,
}

/// Parameters of the generation of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quenched {
    /// Gauge coupling: 6 divided by the square of the bare charge.
    pub beta: f64,
    /// Number of trajectories: each is a heatbath sweep and some over-relaxation sweeps.
    pub trajectories: usize,
    /// Number of over-relaxation sweeps in each trajectory.
    pub overrelaxation: usize,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Initial field.
    pub start: Start,
}

impl Default for Quenched {
    fn default() -> Self {
        Quenched { beta: 6.0, trajectories: 60, overrelaxation: 4, seed: 1, start: Start::Cold }
    }
}

/// A generated field with its history.
#[derive(Clone, Debug)]
pub struct Generated {
    /// The links.
    pub gauge: Gauge,
    /// Mean plaquette after each trajectory.
    pub history: Vec<f64>,
}

/// Generates a field. It stops early, with fewer trajectories, if the observer cancels.
///
/// # Errors
/// [`Error::Parameter`] for an invalid coupling; the errors of tasks.
pub fn generate(
    rt: &Runtime,
    geometry: Geometry,
    options: &Quenched,
    observer: &dyn Observer,
) -> Result<Generated, Error> {
    if !(options.beta >= 0.0 && options.beta.is_finite()) {
        return Err(Error::parameter("beta", format!("{}: a number of 0 or more is needed", options.beta)));
    }
    let random = Random { seed: ChaCha8Rng::seed_from_u64(options.seed).get_seed() };
    let mut gauge = match options.start {
        Start::Cold => Gauge::cold(geometry),
        Start::Hot => Gauge::from_fn(geometry, |site, mu| {
            let mut random = random.of(geometry, site, mu, 0);
            from_numbers(|| random.random_range(-1.0..1.0))
        }),
    };
    let field = Field::new(rt, &gauge);
    let mut history = Vec::new();
    observer.stage("trajectories", options.trajectories as u64);
    let sweeps = 1 + options.overrelaxation as u64;
    for trajectory in 0..options.trajectories {
        if observer.cancelled() {
            break;
        }
        let first = 1 + trajectory as u64 * sweeps;
        field.sweep(rt, Update::Heatbath { beta: options.beta, random, sweep: first })?;
        for _ in 1..sweeps {
            field.sweep(rt, Update::Overrelaxation)?;
        }
        field.gather(rt, &mut gauge)?;
        history.push(plaquettes(&gauge).mean());
        observer.advance(trajectory as u64 + 1);
    }
    Ok(Generated { gauge, history })
}

/// Source of random numbers.
#[derive(Clone, Copy)]
struct Random {
    seed: [u8; 32],
}

impl Random {
    /// Returns the random numbers of a link in a sweep.
    fn of(&self, geometry: Geometry, site: u32, mu: usize, sweep: u64) -> ChaCha8Rng {
        let mut random = ChaCha8Rng::from_seed(self.seed);
        random.set_stream((mu * geometry.sites() + site as usize) as u64);
        // This is far more than the number of words for a link, about twenty for each subgroup.
        random.set_word_pos(u128::from(sweep) << 20);
        random
    }
}

/// Kind of update of the links.
#[derive(Clone, Copy)]
enum Update {
    Heatbath { beta: f64, random: Random, sweep: u64 },
    Overrelaxation,
}

/// Links of a field, as operands of tasks.
struct Field {
    geometry: Geometry,
    next: Arc<Neighbours>,
    /// Links as `[slab][parity][direction]`.
    links: Vec<[[Handle<Vec<Matrix>>; DIRECTIONS]; 2]>,
}

impl Field {
    fn new(rt: &Runtime, u: &Gauge) -> Field {
        let geometry = u.geometry();
        let (half, slice) = (geometry.half(), geometry.slice());
        let of_slab = |slab: std::ops::Range<usize>| {
            let of = |parity: usize, mu: usize| {
                let range = parity * half + slab.start * slice..parity * half + slab.end * slice;
                rt.register(u.of_direction(mu)[range].to_vec())
            };
            std::array::from_fn(|parity| std::array::from_fn(|mu| of(parity, mu)))
        };
        let links = geometry.slabs().map(of_slab).collect();
        Field { geometry, next: Arc::new(Neighbours::new(geometry)), links }
    }

    /// Copies the links, after all tasks on them.
    fn gather(&self, rt: &Runtime, u: &mut Gauge) -> Result<(), Error> {
        let slice = self.geometry.slice();
        for (slab, of_slab) in self.geometry.slabs().zip(&self.links) {
            for parity in Parity::BOTH {
                let first = self.geometry.sites_of(parity).start + (slab.start * slice) as u32;
                for mu in 0..DIRECTIONS {
                    let links = rt.read(&of_slab[parity as usize][mu])?;
                    for (i, link) in links.iter().enumerate() {
                        *u.link_mut(first + i as u32, mu) = *link;
                    }
                }
            }
        }
        Ok(())
    }

    /// Submits the updates of all links.
    fn sweep(&self, rt: &Runtime, how: Update) -> Result<(), Error> {
        let (nt, slab) = (self.geometry.extents()[T], self.geometry.slab());
        for parity in Parity::BOTH {
            for mu in 0..DIRECTIONS {
                for (i, slices) in self.geometry.slabs().enumerate() {
                    let ends = [(slices.start + nt - 1) % nt / slab, i, slices.end % nt / slab];
                    let mut needed = ends.to_vec();
                    needed.sort_unstable();
                    needed.dedup();
                    // Staples have no links of this parity and direction.
                    let others = || {
                        let each = needed.iter().flat_map(|&slab| self.links[slab].iter().enumerate());
                        let each = each.flat_map(|(p, of_parity)| {
                            of_parity.iter().enumerate().map(move |(nu, h)| (p, nu, h))
                        });
                        each.filter(|&(p, nu, _)| (p, nu) != (parity as usize, mu))
                            .map(|(_, _, handle)| handle)
                    };
                    let operands = (update(&self.links[i][parity as usize][mu]), reads(others()));
                    let task = SlabTask {
                        geometry: self.geometry,
                        next: Arc::clone(&self.next),
                        first: self.geometry.sites_of(parity).start
                            + (slices.start * self.geometry.slice()) as u32,
                        own: (parity as usize, mu),
                        needed: needed.clone(),
                        how,
                    };
                    let body = rt.task("update links").operands(operands);
                    body.cpu(move |(links, others)| {
                        let others: Vec<&[Matrix]> = others.iter().collect();
                        task.run(links, &others);
                    })
                    .coords([i as u32])
                    .submit()?;
                }
            }
        }
        Ok(())
    }
}

/// Task that updates the links of a slab, parity and direction.
struct SlabTask {
    geometry: Geometry,
    next: Arc<Neighbours>,
    /// First site of the slab.
    first: u32,
    /// Parity and direction of the links.
    own: (usize, usize),
    needed: Vec<usize>,
    how: Update,
}

impl SlabTask {
    /// Returns a link from the operands.
    fn link<'l>(&self, others: &[&'l [Matrix]], site: u32, nu: usize) -> &'l Matrix {
        let (half, slice, slab) = (self.geometry.half(), self.geometry.slice(), self.geometry.slab());
        let (parity, within) = (site as usize / half, site as usize % half);
        let at = self.needed.binary_search(&(within / slice / slab)).expect("a slab that is needed");
        // A slab has seven of its eight fields as operands, in order.
        let (own, field) = (self.own.0 * DIRECTIONS + self.own.1, parity * DIRECTIONS + nu);
        let place = at * (2 * DIRECTIONS - 1) + field - usize::from(field > own);
        &others[place][within % (slab * slice)]
    }

    /// Returns the sum of the staples of a link.
    fn staples(&self, others: &[&[Matrix]], x: u32) -> Matrix {
        let mu = self.own.1;
        let link = |site, nu| self.link(others, site, nu);
        let ahead = self.next.forward(x, mu);
        let mut sum = ZERO;
        for nu in (0..DIRECTIONS).filter(|&nu| nu != mu) {
            let (above, below) = (self.next.forward(x, nu), self.next.backward(x, nu));
            let up = mul_adjoint(link(ahead, nu), &mul(link(x, nu), link(above, mu)));
            let beside = link(self.next.backward(ahead, nu), nu);
            let down = adjoint_mul(beside, &mul(&adjoint(link(below, mu)), link(below, nu)));
            sum = add(&sum, &add(&up, &down));
        }
        sum
    }

    fn run(&self, links: &mut [Matrix], others: &[&[Matrix]]) {
        for (i, link) in links.iter_mut().enumerate() {
            let site = self.first + i as u32;
            let staples = self.staples(others, site);
            match &self.how {
                Update::Heatbath { beta, random, sweep } => {
                    let mut random = random.of(self.geometry, site, self.own.1, *sweep);
                    turn(link, &staples, |k| Su2::heatbath(2.0 * beta / 3.0 * k, &mut random));
                    // This prevents the accumulation of rounding errors over sweeps.
                    *link = reunitarise(link);
                }
                Update::Overrelaxation => turn(link, &staples, |_| None),
            }
        }
    }
}

/// Updates a link in each subgroup. `draw` returns, for `k`, the new product with the normalised
/// staples; `None` stands for its adjoint.
fn turn(link: &mut Matrix, staples: &Matrix, mut draw: impl FnMut(f64) -> Option<Su2>) {
    let mut product = mul(link, staples);
    for (i, j) in [(0, 1), (0, 2), (1, 2)] {
        let block = Su2 {
            p: (product[i][i] + product[j][j].conj()) * 0.5,
            q: (product[i][j] - product[j][i].conj()) * 0.5,
        };
        let k = (block.p.norm_sqr() + block.q.norm_sqr()).sqrt();
        if k == 0.0 {
            continue;
        }
        let back = Su2 { p: block.p / k, q: block.q / k }.adjoint();
        let r = draw(k).unwrap_or(back).times(back);
        r.turn_rows(link, i, j);
        r.turn_rows(&mut product, i, j);
    }
}

/// An SU(2) matrix `[[p, q], [-q*, p*]]`.
#[derive(Clone, Copy)]
struct Su2 {
    p: C64,
    q: C64,
}

impl Su2 {
    fn adjoint(self) -> Su2 {
        Su2 { p: self.p.conj(), q: -self.q }
    }

    fn times(self, other: Su2) -> Su2 {
        Su2 { p: self.p * other.p - self.q * other.q.conj(), q: self.p * other.q + self.q * other.p.conj() }
    }

    fn turn_rows(self, a: &mut Matrix, i: usize, j: usize) {
        for c in 0..COLOURS {
            let (x, y) = (a[i][c], a[j][c]);
            a[i][c] = self.p * x + self.q * y;
            a[j][c] = self.p.conj() * y - self.q.conj() * x;
        }
    }

    /// Draws a matrix with the weight `exp(alpha a0)`, with `2 a0` its trace.
    fn heatbath(alpha: f64, random: &mut ChaCha8Rng) -> Option<Su2> {
        let a0 = match alpha > 1.5 {
            true => kennedy_pendleton(alpha, random),
            false => by_rejection(alpha, random),
        };
        let size = (1.0 - a0 * a0).max(0.0).sqrt();
        let (z, angle) = (random.random_range(-1.0..1.0f64), random.random_range(0.0..std::f64::consts::TAU));
        let flat = size * (1.0 - z * z).sqrt();
        Some(Su2 { p: C64::new(a0, size * z), q: C64::new(flat * angle.sin(), flat * angle.cos()) })
    }
}

/// Draws a number with the density `sqrt(1 - a^2) exp(alpha a)` in [-1, 1].
fn kennedy_pendleton(alpha: f64, random: &mut ChaCha8Rng) -> f64 {
    loop {
        let [x, y] = [(); 2].map(|()| -(1.0 - random.random::<f64>()).ln() / alpha);
        let cosine = (std::f64::consts::TAU * random.random::<f64>()).cos();
        let delta = x * cosine * cosine + y;
        let accept: f64 = random.random();
        if accept * accept <= 1.0 - 0.5 * delta {
            return 1.0 - delta;
        }
    }
}

/// Draws a number with the same density by rejection, for a nearly flat density.
fn by_rejection(alpha: f64, random: &mut ChaCha8Rng) -> f64 {
    loop {
        let a = random.random_range(-1.0..1.0f64);
        if random.random::<f64>() <= (1.0 - a * a).sqrt() * (alpha * (a - 1.0)).exp() {
            return a;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::su3::deviation;
    use zellige_files::observe::Silent;

    fn make(workers: usize, extents: [usize; 4], options: &Quenched) -> Result<Generated, Error> {
        let rt = Runtime::builder().workers(workers).build()?;
        generate(&rt, Geometry::new(extents)?, options, &Silent)
    }

    /// The moments of the density are compared with sums over a fine grid.
    #[test]
    fn both_ways_draw_from_the_same_density() {
        let mut random = ChaCha8Rng::seed_from_u64(3);
        for alpha in [0.1, 1.0, 2.0, 8.0] {
            let grid = (0..20_000).map(|i| (f64::from(i) + 0.5) / 10_000.0 - 1.0);
            let weighted = grid.map(|a: f64| (a, (1.0 - a * a).sqrt() * (alpha * a).exp()));
            let (sum, total) = weighted.fold((0.0, 0.0), |(sum, total), (a, w)| (sum + a * w, total + w));
            for draw in [kennedy_pendleton, by_rejection] {
                let mean = (0..20_000).map(|_| draw(alpha, &mut random)).sum::<f64>() / 20_000.0;
                assert!((mean - sum / total).abs() < 0.015, "{alpha}: {mean}, not {}", sum / total);
            }
        }
    }

    /// The plaquette is 0.5937 at beta 6, and about beta / 18 at strong coupling.
    #[test]
    fn plaquettes_are_those_of_the_coupling() -> Result<(), Error> {
        for (beta, start, plaquette, bound) in [
            (6.0, Start::Cold, 0.5937, 0.012),
            (6.0, Start::Hot, 0.5937, 0.012),
            (0.5, Start::Cold, 0.0278, 0.006),
        ] {
            let options = Quenched { beta, trajectories: 40, start, ..Quenched::default() };
            let made = make(2, [6, 6, 6, 6], &options)?;
            let mean = made.history[20..].iter().sum::<f64>() / 20.0;
            assert!((mean - plaquette).abs() < bound, "{beta} {start:?}: {mean}");
            assert!(made.gauge.links().iter().all(|link| deviation(link) < 1e-13));
        }
        Ok(())
    }

    #[test]
    fn fields_do_not_depend_on_workers() -> Result<(), Error> {
        let options = Quenched { trajectories: 3, start: Start::Hot, ..Quenched::default() };
        for extents in [[4, 4, 4, 4], [6, 6, 8, 10]] {
            let [one, two] = [1, 2].map(|workers| make(workers, extents, &options));
            let (one, two) = (one?, two?);
            assert_eq!((one.gauge.clone(), one.history), (two.gauge, two.history));
            let other = make(2, extents, &Quenched { seed: 2, ..options })?;
            assert_ne!(one.gauge, other.gauge);
        }
        Ok(())
    }

    #[test]
    fn over_relaxation_leaves_the_action() -> Result<(), Error> {
        let (rt, geometry) = (Runtime::builder().workers(2).build()?, Geometry::new([4, 4, 6, 8])?);
        let mut u = crate::testing::random_gauge(geometry, 5);
        let before = u.clone();
        let field = Field::new(&rt, &u);
        field.sweep(&rt, Update::Overrelaxation)?;
        field.gather(&rt, &mut u)?;
        assert_ne!(u, before);
        assert!((plaquettes(&u).mean() - plaquettes(&before).mean()).abs() < 1e-13);
        Ok(())
    }
}
