//! Exact digits of propagators, by stochastic arithmetic.
//!
//! The solution `x` of `A x = b` is computed in plain arithmetic and taken as data. Its residual,
//! the propagator on the other sites and the correlator are evaluated again with numbers of several
//! samples, each operation rounded up or down at random ([`zellige_stochastic`]). A correction of
//! the residual shows the digits of `x`. Random bits depend on the operation and the site alone, so
//! digits are the same on any number of workers.

use std::sync::Arc;
use std::time::Instant;

use zellige_files::observe::Silent;
use zellige_krylov::{Cg, History, MultiVector, Solve, Stop, multiply, solve};
use zellige_runtime::{Runtime, Submit};
use zellige_stochastic::{DigitMap, Samples, Scope, Stochastic, Trust, TrustOptions, WithSamples, element};

use crate::error::Error;
use crate::gauge::Gauge;
use crate::geometry::{COLOURS, Geometry, T};
use crate::normal::Normal;
use crate::pipeline::solver::{dslash_now, norm};
use crate::pipeline::{Options, System};
use crate::su3::C64;

/// Digits of float64.
const ALL: u8 = 15;
/// Real numbers of a site.
const SITE: usize = 2 * COLOURS;
/// Tolerance of the correction that shows the error of a solution: one digit of it is enough.
const CORRECTION: f64 = 0.1;
/// Tasks of a solution in a scope: `D x`, `A x`, the residual, and the correlator.
const TASKS: u64 = 4;

/// Computes the propagator as [`pipeline::invert`](crate::pipeline::invert()) does, and judges its
/// digits. Maps have a row for each time slice, and a column for each site of a parity in it; of
/// several colours they have the fewest digits.
///
/// # Errors
/// Those of [`pipeline::invert`](crate::pipeline::invert()); [`Error::Parameter`] for other samples
/// than 3, 8 or 16.
pub fn invert(rt: &Runtime, u: &Gauge, options: &Options, trust: &TrustOptions) -> Result<Trust, Error> {
    options.check(u.geometry())?;
    if !matches!(trust.samples, 3 | 8 | 16) {
        return Err(Error::parameter("samples", format!("{}: 3, 8 or 16 are possible", trust.samples)));
    }
    let system = System::new(rt, u, options)?;
    let (x, ..) = system.solve(rt, options, &Silent)?;
    let begun = Instant::now();
    for x in &x {
        let there = MultiVector::zeros(rt, system.a.to_other_parity().space(), 1);
        let here = MultiVector::from_column(rt, there.space(), x);
        dslash_now(rt, system.a.to_other_parity(), &here, &there, -1.0)?;
        multiply(rt, &system.a, x)?;
    }
    rt.wait_all()?;
    let plain = begun.elapsed().as_secs_f64();
    let geometry = u.geometry();
    let scope = Arc::new(Scope::new(trust.seed));
    let begun = Instant::now();
    let first = options.source.at[T];
    let found = trust.dispatch(Work { rt, system: &system, geometry, scope: &scope, x: &x, first })?;
    let seconds = begun.elapsed().as_secs_f64();
    let of_x = corrected(rt, &system.a, options, &x, &found.residuals)?;
    let shape = [geometry.extents()[T], geometry.slice()];
    let map = |name: &str, digits: &[u8]| DigitMap::new(name, "site", shape, digits.to_vec(), ALL);
    let of_correlator = found.correlator.iter().map(|of_slice| of_slice.1).collect();
    let maps = vec![
        map("x", &of_x),
        map("the residual b - A x", &found.of_residual),
        map("D x", &found.of_other_sites),
        DigitMap::new("the correlator", "slice", [shape[0], 1], of_correlator, ALL),
    ];
    let conclusions = conclusions(&maps);
    let (samples, seed, instabilities) = (trust.samples, trust.seed, scope.report());
    Ok(Trust { samples, seed, maps, instabilities, conclusions, plain_seconds: Some(plain), seconds })
}

/// Results in stochastic arithmetic.
struct Evaluated {
    /// Fewest digits of each site.
    of_residual: Vec<u8>,
    of_other_sites: Vec<u8>,
    /// Mean residual of each right-hand side.
    residuals: Vec<Vec<C64>>,
    /// Mean and digits of the correlator.
    correlator: Vec<(f64, u8)>,
}

/// Evaluation of all solutions.
struct Work<'a> {
    rt: &'a Runtime,
    system: &'a System,
    geometry: Geometry,
    scope: &'a Arc<Scope>,
    x: &'a [Vec<C64>],
    /// The slice of the source.
    first: usize,
}

impl WithSamples for Work<'_> {
    type Output = Result<Evaluated, Error>;

    fn run<S: Samples>(self) -> Self::Output {
        let nt = self.geometry.extents()[T];
        let mut sums = vec![Stochastic::<f64, S>::default(); nt];
        let everywhere = || vec![ALL; self.geometry.half()];
        let (mut of_residual, mut of_other_sites) = (everywhere(), everywhere());
        let mut residuals = Vec::with_capacity(self.x.len());
        for ((x, b), task) in self.x.iter().zip(&self.system.b).zip((0..).step_by(TASKS as usize)) {
            let [there, product] = self.products::<S>(x, task)?;
            let residual = self.scope.task(task + 2, 0, || {
                let of_site = |site: usize, b: &[C64], product: &[Stochastic<f64, S>]| {
                    element(site as u64);
                    (0..SITE).map(|c| part(b, c) - product[c]).collect::<Vec<_>>()
                };
                let sites = b.chunks_exact(COLOURS).zip(product.chunks_exact(SITE)).enumerate();
                let numbers = sites.flat_map(|(site, (b, product))| of_site(site, b, product));
                numbers.collect::<Vec<Stochastic<f64, S>>>()
            });
            self.scope.task(task + 3, 0, || self.add_to_correlator(x, &there, &mut sums));
            fewest(&mut of_other_sites, &there);
            fewest(&mut of_residual, &residual);
            let mean = |z: &[Stochastic<f64, S>]| C64::new(z[0].mean(), z[1].mean());
            residuals.push(residual.chunks_exact(2).map(mean).collect());
        }
        Ok(Evaluated {
            of_residual,
            of_other_sites,
            residuals,
            correlator: sums.iter().map(|sum| (sum.mean(), sum.digits() as u8)).collect(),
        })
    }
}

impl Work<'_> {
    /// Returns `D x` and `A x`.
    fn products<S: Samples>(&self, x: &[C64], task: u64) -> Result<[Vec<Stochastic<f64, S>>; 2], Error> {
        let (rt, a, slice) = (self.rt, &self.system.a, self.geometry.slice() * COLOURS);
        let slab = |slices: std::ops::Range<usize>| {
            let numbers = x[slices.start * slice..slices.end * slice].iter();
            rt.register(numbers.flat_map(|z| [z.re, z.im].map(Stochastic::<f64, S>::new)).collect::<Vec<_>>())
        };
        let x: Vec<_> = self.geometry.slabs().map(slab).collect();
        let there = a.to_other_parity().apply_stochastic(rt, (self.scope, task), &x, 1.0, None)?;
        let diagonal = Some((Normal::mass_term(a.mass()), &x[..]));
        let back = a.back_to_parity().apply_stochastic(rt, (self.scope, task + 1), &there, -1.0, diagonal)?;
        let whole = |slabs: Vec<_>| -> Result<Vec<_>, Error> {
            let slabs: Result<Vec<Vec<_>>, _> = slabs.into_iter().map(|slab| rt.take(slab)).collect();
            Ok(slabs?.concat())
        };
        Ok([whole(there)?, whole(back)?])
    }

    /// Adds the squares of `2 m x` and of `D x` in each time slice, in the order of the pipeline.
    fn add_to_correlator<S: Samples>(
        &self,
        x: &[C64],
        there: &[Stochastic<f64, S>],
        sums: &mut [Stochastic<f64, S>],
    ) {
        let (slice, nt) = (self.geometry.slice() * COLOURS, self.geometry.extents()[T]);
        let factor = 2.0 * self.system.a.mass();
        for t in 0..nt {
            element(t as u64);
            let own: Stochastic<f64, S> = x[t * slice..(t + 1) * slice]
                .iter()
                .map(|z| {
                    let [re, im] = [z.re, z.im].map(|part| Stochastic::new(part) * factor);
                    re * re + im * im
                })
                .sum();
            let squares = there[2 * t * slice..2 * (t + 1) * slice].chunks_exact(2);
            let square: Stochastic<f64, S> = squares.map(|z| z[0] * z[0] + z[1] * z[1]).sum();
            sums[(t + nt - self.first) % nt] += own + square;
        }
    }
}

/// Real number `c` of a site.
fn part(site: &[C64], c: usize) -> f64 {
    if c.is_multiple_of(2) { site[c / 2].re } else { site[c / 2].im }
}

/// Lowers digits of sites to those of a vector.
fn fewest<S: Samples>(digits: &mut [u8], vector: &[Stochastic<f64, S>]) {
    let sites = digits.iter_mut().zip(vector.chunks_exact(SITE));
    sites.for_each(|(digits, site)| *digits = (*digits).min(digits_of(site)));
}

/// Returns the exact digits of a vector: as [`Stochastic::digits`], with the norms of the means and
/// of the deviations. So a component that is small by chance does not count.
fn digits_of<S: Samples>(vector: &[Stochastic<f64, S>]) -> u8 {
    let all = || vector.iter().flat_map(|x| x.samples());
    let largest = all().fold(0.0, |most: f64, x| if x.is_nan() { f64::INFINITY } else { most.max(x.abs()) });
    if largest == 0.0 || largest == f64::INFINITY {
        return if largest == 0.0 { ALL } else { 0 };
    }
    let (mut size, mut variance) = (0.0, 0.0);
    for x in vector {
        let mean = x.mean();
        size += (mean / largest).powi(2);
        let squares = x.samples().iter().map(|sample| ((sample - mean) / largest).powi(2));
        variance += squares.sum::<f64>() / (S::COUNT - 1) as f64;
    }
    digits_from(size.sqrt(), S::DEVIATIONS * variance.sqrt())
}

/// Returns the digits of a size that is known with an error.
fn digits_from(size: f64, error: f64) -> u8 {
    if error == 0.0 { ALL } else { (size / error).log10().clamp(0.0, f64::from(ALL)) as u8 }
}

/// Returns the digits of each site of the solutions: corrections of their residuals are as large as
/// the errors.
fn corrected(
    rt: &Runtime,
    a: &Normal,
    options: &Options,
    x: &[Vec<C64>],
    residuals: &[Vec<C64>],
) -> Result<Vec<u8>, Error> {
    let mut digits = vec![ALL; a.to_other_parity().space().len() / COLOURS];
    for (x, residual) in x.iter().zip(residuals) {
        let mut error = vec![C64::default(); x.len()];
        let stop = [Stop::RelativeToRhs(CORRECTION), Stop::Steps(options.most_steps)];
        let (problem, method) = (Solve::new(rt, a), Cg { flexible: false });
        solve(&problem, &method, residual, &mut error, &stop[..], &mut History::default())?;
        let sites = digits.iter_mut().zip(x.chunks_exact(COLOURS)).zip(error.chunks_exact(COLOURS));
        sites.for_each(|((digits, x), error)| *digits = (*digits).min(digits_from(norm(x), norm(error))));
    }
    Ok(digits)
}

fn conclusions(maps: &[DigitMap]) -> Vec<String> {
    let mut all = Vec::new();
    for map in maps {
        let (Some((least, [t, site])), Some(median)) = (map.worst(), map.median()) else { continue };
        let DigitMap { name, unit, all: of, .. } = map;
        let at = if map.shape[1] == 1 { format!("slice {t}") } else { format!("site {site} of slice {t}") };
        all.push(format!(
            "{median} of {of} digits of {name} are exact in half of the {unit}s, {least} at least ({at})."
        ));
    }
    let residual = &maps[1];
    let without = residual.digits.iter().filter(|digits| **digits == 0).count();
    all.push(match without {
        0 => {
            "The residual has an exact digit at every site: the tolerance limits x, not rounding.".to_owned()
        }
        _ => format!(
            "The residual has no exact digit at {without} of {} sites: rounding of A x limits x there, and a \
             smaller tolerance gives no more digits.",
            residual.digits.len()
        ),
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dslash::{Boundary, Dslash};
    use crate::geometry::Parity;
    use crate::precision::{Precision, Sites};
    use crate::smear::{Action, smear};
    use crate::testing::random_gauge;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use zellige_kernels::sites::Real;
    use zellige_krylov::method::{NumbersHandle, Steps};
    use zellige_runtime::Bindings;
    use zellige_stochastic::{Categories, Eight, Perturbation, Sample, Three};

    fn unperturbed() -> Arc<Scope> {
        Arc::new(Scope::with(0, Perturbation::None, Categories::NONE))
    }

    /// Numbers that `f32` holds exactly.
    fn field(geometry: Geometry, seed: u64) -> Vec<C64> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut next = || f64::from(random.random_range(-1f32..1.0));
        (0..geometry.half() * COLOURS).map(|_| C64::new(next(), next())).collect()
    }

    /// Compares `y = factor D x + diagonal z` with the bits of the operator.
    fn check_bits<R: Sample + Real, S: Samples>(
        rt: &Runtime,
        d: &Dslash,
        geometry: Geometry,
        diagonal: Option<f64>,
    ) -> Result<(), Error> {
        let (x, z) = (field(geometry, 2), field(geometry, 3));
        let stored = || {
            let storage = Sites::new(d.precision().fermion, 1);
            MultiVector::stored(rt, d.space(), 1, Arc::new(storage))
        };
        let [of_x, of_z, y] = [(); 3].map(|()| stored());
        of_x.set_column(rt, 0, &x)?;
        of_z.set_column(rt, 0, &z)?;
        let numbers = NumbersHandle::new(rt, 1, 0);
        let graph = rt.record(|graph| {
            let steps = Steps::new(rt, graph, d.space(), &numbers);
            d.apply(&steps, &of_x, &y, -0.7, diagonal.map(|diagonal| (diagonal, &of_z)))
        })?;
        rt.replay(&Bindings::recorded(&graph))?;
        let expected = y.column(rt, 0)?;
        let slice = geometry.slice() * COLOURS;
        let slabs = |v: &[C64]| -> Vec<_> {
            let each = geometry.slabs().map(|slab| &v[slab.start * slice..slab.end * slice]);
            let exact = |z: &C64| [z.re, z.im].map(|part| Stochastic::<R, S>::new(Sample::from_f64(part)));
            each.map(|slab| rt.register(slab.iter().flat_map(exact).collect::<Vec<_>>())).collect()
        };
        let (x, z) = (slabs(&x), slabs(&z));
        let diagonal = diagonal.map(|diagonal| (diagonal, &z[..]));
        let found = d.apply_stochastic(rt, (&unperturbed(), 0), &x, -0.7, diagonal)?;
        let found: Result<Vec<Vec<_>>, _> = found.into_iter().map(|slab| rt.take(slab)).collect();
        let expected = expected.iter().flat_map(|z| [z.re, z.im]);
        for (found, expected) in found?.concat().iter().zip(expected) {
            let same = found.samples().iter().all(|x| Sample::to_f64(*x).to_bits() == expected.to_bits());
            assert!(same, "{:?} {expected:e}", found.samples());
        }
        Ok(())
    }

    #[test]
    fn products_without_perturbation_have_the_bits_of_the_operator() -> Result<(), Error> {
        let rt = Runtime::builder().workers(2).build()?;
        for geometry in [[4, 6, 8, 14], [18, 4, 10, 4]] {
            let geometry = Geometry::new(geometry)?;
            for action in [Action::Naive, Action::HISQ] {
                let smeared = smear(&rt, &random_gauge(geometry, 1), action)?;
                for (to, diagonal) in Parity::BOTH.into_iter().zip([None, Some(0.3)]) {
                    let of = |precision| Dslash::new(&rt, &smeared, to, Boundary::Antiperiodic, precision);
                    check_bits::<f64, Eight>(&rt, &of(Precision::DOUBLE), geometry, diagonal)?;
                    check_bits::<f32, Three>(&rt, &of(Precision::SINGLE), geometry, diagonal)?;
                }
            }
        }
        Ok(())
    }

    fn heavy() -> Options {
        let source = "point:0,0,0,1:2".parse().expect("a source");
        Options { mass: 0.3, tolerance: 1e-12, source, ..Options::default() }
    }

    #[test]
    fn digits_are_those_of_one_worker_and_few_are_lost() -> Result<(), Error> {
        let u = random_gauge(Geometry::new([4, 4, 4, 8])?, 1);
        let run = |workers, seed| -> Result<Trust, Error> {
            let rt = Runtime::builder().workers(workers).build()?;
            invert(&rt, &u, &heavy(), &TrustOptions { samples: 8, seed })
        };
        let (one, two) = (run(1, 5)?, run(2, 5)?);
        assert_eq!((&one.maps, &one.instabilities), (&two.maps, &two.instabilities));
        assert_eq!(one.conclusions, two.conclusions);
        let least = |map: usize| one.maps[map].worst().expect("sites").0;
        assert!(least(0) >= 8 && least(2) >= 13 && least(3) >= 13, "{:?}", one.conclusions);
        assert!(one.maps[1].median() < Some(6), "{:?}", one.conclusions);
        assert_ne!(one.maps[1].digits, run(1, 6)?.maps[1].digits);
        Ok(())
    }

    #[test]
    fn the_correlator_without_perturbation_has_the_bits_of_the_pipeline() -> Result<(), Error> {
        let (rt, geometry) = (Runtime::builder().workers(2).build()?, Geometry::new([4, 4, 4, 8])?);
        let (u, options) = (random_gauge(geometry, 1), heavy());
        let (expected, _) = crate::pipeline::invert(&rt, &u, &options, &Silent)?;
        let system = System::new(&rt, &u, &options)?;
        let (x, ..) = system.solve(&rt, &options, &Silent)?;
        let (scope, first) = (unperturbed(), options.source.at[T]);
        let work = Work { rt: &rt, system: &system, geometry, scope: &scope, x: &x, first };
        let found = work.run::<Eight>()?;
        let means: Vec<f64> = found.correlator.iter().map(|of_slice| of_slice.0).collect();
        assert_eq!(means, expected.correlator);
        let residual = crate::pipeline::solver::residual(&rt, &system.a, &system.b[0], &x[0])?;
        assert_eq!(found.residuals[0], residual);
        Ok(())
    }

    #[test]
    fn options_without_meaning_are_refused() -> Result<(), Error> {
        let (rt, u) = (Runtime::builder().workers(1).build()?, Gauge::cold(Geometry::new([4, 4, 4, 4])?));
        let samples = TrustOptions { samples: 4, seed: 0 };
        let error = invert(&rt, &u, &Options::default(), &samples).expect_err("samples").to_string();
        assert!(error.starts_with("samples: 4: "), "{error}");
        let light = Options { mass: 0.0, ..Options::default() };
        let error = invert(&rt, &u, &light, &TrustOptions::default()).expect_err("mass").to_string();
        assert!(error.starts_with("mass: "), "{error}");
        Ok(())
    }
}
